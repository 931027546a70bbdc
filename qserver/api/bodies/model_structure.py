"""Bodies about structures: what a model could leak by one, and one proposed under a cap."""

from __future__ import annotations

from math import inf
from typing import Annotated, Any, Literal, Self

from pydantic import AliasPath, BaseModel, ConfigDict, Field, WithJsonSchema

from qserver.api.bodies.answers import RecordBody
from qserver.api.bodies.requests import Number, RequestBody
from qserver.errors import InputError
from qserver.models.network.structure import Structure
from qserver.models.tracing.bound import Basis, Game, PrivacyCap, Relation, ReleaseGate
from qserver.models.tracing.report import AuditRequest, Release, TracingReport
from qserver.models.tracing.structure_proposal import Audit
from qserver.query.domain import MAX_ATTRIBUTES

_NAMES = {"type": "array", "items": {"type": "string"}}
NETWORK_SCHEMA: dict[str, Any] = {
    "description": "BIF text, or the edges [parent, child] over attributes of the dataset; "
    "`variables` names attributes without an edge",
    "oneOf": [
        {"type": "string"},
        {
            "type": "object",
            "properties": {
                "edges": {
                    "type": "array",
                    "items": {**_NAMES, "minItems": 2, "maxItems": 2},
                    "maxItems": 4096,
                },
                "variables": {**_NAMES, "maxItems": MAX_ATTRIBUTES},
            },
            "additionalProperties": False,
        },
    ],
}
NetworkDocument = Annotated[Any, WithJsonSchema(NETWORK_SCHEMA)]
_Curve = list[float]


class GateFields(RequestBody):
    """A rule: at `fpr` false positives no test of membership may have more than `max_power`."""

    fpr: Number = Field(json_schema_extra={"exclusiveMinimum": 0, "exclusiveMaximum": 1})
    max_power: Number = Field(json_schema_extra={"minimum": 0, "maximum": 1})
    basis: Basis = Field(
        "least", description="`cap` decides by epsilon alone, `least` also by the structure"
    )

    def gate(self) -> ReleaseGate:
        """The rule; InputError where a value is out of range."""
        try:
            return ReleaseGate(self.fpr, self.max_power, self.basis)
        except InputError as exc:
            raise exc.under("gate") from exc


class LeakRequest(RequestBody):
    """What a leak is told by, beside the structure; nothing of it is computed from the data."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    records: Number = Field(
        description="records it is learnt from, as you state them",
        json_schema_extra={"exclusiveMinimum": 0},
    )
    epsilon: Number | None = Field(
        None, description="what everything released would cost; null for no privacy", ge=0
    )
    game: Game = Field(
        "replaced",
        description="`replaced`: another record would stand where the target's may be; `added`: "
        "none would, which says something under `add-remove` alone",
    )
    release: Release = Field(
        "tables",
        description="`tables` of all families, as learning here does, or the `model` alone",
    )

    def audit_of(
        self,
        structure: Structure,
        relation: Relation,
        gate: ReleaseGate | None,
        *,
        n_reference: float = inf,
    ) -> AuditRequest:
        """What the audit is asked about; InputError where a value is out of range."""
        if not self.records > 0:
            raise InputError("records", "be > 0", self.records)
        cap = None if self.epsilon is None else PrivacyCap(self.epsilon, relation, self.game)
        return AuditRequest(
            structure,
            self.records,
            release=self.release,
            cap=cap,
            n_reference=n_reference,
            gate=gate,
        )


class ModelAuditRequest(LeakRequest):
    """A structure and what is to be learnt with it; nothing of it is computed from the data."""

    network: NetworkDocument
    reference_records: Number | None = Field(
        None, description="records the attacker knows of the population; null for all", gt=0
    )
    gate: GateFields | None = None

    def audit(self, structure: Structure, relation: Relation) -> AuditRequest:
        """What the audit is asked about; InputError where a value is out of range."""
        gate = None if self.gate is None else self.gate.gate()
        known = inf if self.reference_records is None else self.reference_records
        return self.audit_of(structure, relation, gate, n_reference=known)


class CapBody(BaseModel):
    """The cap of an epsilon: power <= e^exponent fpr, and 1 - fpr <= e^exponent (1 - power)."""

    epsilon: float
    relation: Relation
    game: Game
    exponent: float


class DecisionBody(RecordBody):
    """What the gate decided, by which limit, and why."""

    passes: bool
    power: float
    decided_by: Literal["bound", "cap", "nothing"]
    reason: str


class AucBody(BaseModel):
    """Areas under the curves; 1/2 is guessing."""

    model_bound: float = Field(description="of the model's parameters alone")
    bound: float = Field(description="of what is released")
    limit: float = Field(description="of the lesser of bound and cap")
    cap: float | None
    finite_bound: float | None


class CurvesBody(BaseModel):
    """The greatest power at each `fpr`."""

    fpr: _Curve
    bound: _Curve
    limit: _Curve
    cap: _Curve | None
    finite_bound: _Curve | None


class EffectBody(BaseModel):
    """What the model loses without an attribute (`parent` is null) or an edge."""

    kind: Literal["attribute", "edge"]
    name: str
    parent: str | None
    complexity: int = Field(description="independent parameters that go with it")
    auc: float = Field(description="fall of the area under the model's bound")


class ModelAuditBody(BaseModel):
    """How well members of a training set could be told, before anything is learnt."""

    variables: int
    edges: int
    complexity: int = Field(description="independent parameters of the model")
    table_complexity: int = Field(
        description="independent numbers in the tables that learning would release"
    )
    table_complexity_is_exact: bool = Field(
        description="false where the network is too large to count them: `table_complexity` is a "
        "bound above their number then"
    )
    release: Release
    records: float
    reference_records: float | None
    cap: CapBody | None
    decision: DecisionBody | None
    auc: AucBody
    curves: CurvesBody
    effects: list[EffectBody]

    @classmethod
    def of(cls, report: TracingReport) -> Self:
        """The report as JSON has it; one of an attack has no place here."""
        return cls.model_validate(report.to_document())


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
