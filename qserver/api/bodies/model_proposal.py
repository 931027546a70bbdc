"""Bodies of a structure that is proposed under a cap on what it could leak."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, Field

from qserver.api.bodies.model_audit import DecisionBody, GateFields, LeakRequest
from qserver.api.bodies.requests import Number
from qserver.models.network.structure import Structure
from qserver.models.tracing.cap import Relation
from qserver.models.tracing.report import AuditRequest
from qserver.models.tracing.structure_proposal import Audit, Proposal


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


class EdgesBody(BaseModel):
    """A structure, as `models` takes it."""

    variables: list[str]
    edges: list[tuple[str, str]] = Field(description="pairs [parent, child]")


class StructureBody(BaseModel):
    """A structure that was proposed, and what an audit says of it."""

    network: EdgesBody = Field(description="without edges where not even that passes the gate")
    score: float = Field(description="sum of the scores of its attributes' parents")
    complexity: int = Field(description="independent parameters of the model")
    table_complexity: int = Field(
        description="independent numbers in the tables that learning would release"
    )
    table_complexity_is_exact: bool
    decision: DecisionBody

    @classmethod
    def of(cls, found: Proposal) -> Self:
        """The proposal as JSON has it."""
        structure, request, decision = found.structure, found.request, found.decision
        return cls(
            network=EdgesBody(variables=list(structure.names), edges=list(structure.edges)),
            score=found.score,
            complexity=request.model_complexity,
            table_complexity=request.in_tables.count,
            table_complexity_is_exact=request.in_tables.is_exact,
            decision=DecisionBody(
                passes=decision.passes,
                power=decision.power,
                decided_by=decision.decided_by,
                reason=decision.reason,
            ),
        )
