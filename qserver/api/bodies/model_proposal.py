"""Bodies of a structure that is proposed under a cap on what it could leak."""

from __future__ import annotations

from pydantic import AliasPath, Field

from qserver.api.bodies.model_audit import DecisionBody, GateFields, LeakRequest
from qserver.api.bodies.record_body import RecordBody
from qserver.api.bodies.requests import Number
from qserver.models.network.structure import Structure
from qserver.models.tracing.cap import Relation
from qserver.models.tracing.report import AuditRequest
from qserver.models.tracing.structure_proposal import Audit


class StructureRequest(LeakRequest):
    """What a proposed structure must keep to."""

    gate: GateFields
    max_parents: int = Field(2, ge=0, le=8, strict=True, description="most parents of an attribute")
    min_gain: Number = Field(
        0.01, ge=0, description="an edge must raise the sum of scores by more than this"
    )
    variables: list[str] | None = Field(
        None, description="attributes of the model; null for all", json_schema_extra={"minItems": 1}
    )

    def audit(self, relation: Relation) -> Audit:
        """The audit of any structure; InputError where a value is out of range."""
        gate = self.gate.gate()

        def of(structure: Structure) -> AuditRequest:
            return self.audit_of(structure, relation, gate)

        return of


class EdgesBody(RecordBody):
    """A structure, as `models` takes it."""

    variables: list[str] = Field(validation_alias="names")
    edges: list[tuple[str, str]] = Field(description="pairs [parent, child]")


class StructureBody(RecordBody):
    """A structure that was proposed, and what an audit says of it."""

    network: EdgesBody = Field(
        description="without edges where not even that passes the gate",
        validation_alias="structure",
    )
    score: float = Field(description="sum of the scores of its attributes' parents")
    complexity: int = Field(
        description="independent parameters of the model",
        validation_alias=AliasPath("request", "model_complexity"),
    )
    table_complexity: int = Field(
        description="independent numbers in the tables that learning would release",
        validation_alias=AliasPath("request", "in_tables", "count"),
    )
    table_complexity_is_exact: bool = Field(
        validation_alias=AliasPath("request", "in_tables", "is_exact")
    )
    decision: DecisionBody
