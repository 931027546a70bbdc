"""Bodies of models: what is asked for and learnt, what they say and cost, and their structures."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, WithJsonSchema, create_model

from qserver.answering.models.kinds.kind import ModelKind, ModelWork
from qserver.answering.models.kinds.registry import KINDS
from qserver.answering.models.price import ModelExplanation, Verdict, Would
from qserver.api.bodies.answers import AnswerBody, ExplanationBody
from qserver.api.bodies.requests import Number, QueryDocument, RequestBody, of, without_defaults
from qserver.api.wire import EpsilonBody, RecordBody
from qserver.errors import InputError, RequirementError
from qserver.models.network.error_bounds import ErrorBounds
from qserver.models.network.structure import Structure
from qserver.models.tracing.bound import (
    Basis,
    Game,
    GateDecision,
    PrivacyCap,
    Relation,
    ReleaseGate,
)
from qserver.models.tracing.report import Areas, AuditRequest, Curves, Release, TracingReport
from qserver.models.tracing.structure_proposal import Audit, Proposal
from qserver.query import request_fields as fields
from qserver.query.domain import MAX_ATTRIBUTES
from qserver.query.requirement import Requirement
from qserver.records.answer import ModelAnswer
from qserver.records.charge import NANO
from qserver.records.statement import WantedError
from qserver.service.models import ModelStatus

Names = list[str]
Form = Literal["marginal", "most_probable", "count"]


class _AnyModelRequest(RequestBody):
    """A model to be learnt, and what its tables may cost."""

    kinds: ClassVar[Mapping[str, ModelKind]]

    if TYPE_CHECKING:
        kind: str
        epsilon: float

    def epsilon_nano(self) -> int:
        """The price in nano-epsilon, rounded down; InputError where it is out of range."""
        if not 0 <= self.epsilon <= fields.MAX_EPSILON:
            raise InputError("epsilon", f"be 0 to {fields.MAX_EPSILON:,.0f}", self.epsilon)
        return int(self.epsilon * NANO)

    def document(self) -> dict[str, Any]:
        """The kind's own members of the request, and those of other kinds if given."""
        kind = self.kinds.get(self.kind)
        own = {field.name for field in kind.face.fields} if kind else set()
        read = own | (self.model_fields_set - {"kind", "epsilon"})
        return {name: getattr(self, name) for name in type(self).model_fields if name in read}


def model_request(kinds: Mapping[str, ModelKind]) -> type[_AnyModelRequest]:
    """The request for a model of any of these kinds.

    Members that some kind needs come before `epsilon`, and have no default to be shown.
    """
    found_fields = [field for kind in kinds.values() for field in kind.face.fields]
    needed = {f.name: _member(f) for f in found_fields if f.default is fields.NEEDED}
    others = {f.name: _member(f) for f in found_fields if f.default is not fields.NEEDED}
    meanings = "; ".join(f"`{name}`: {kind.face.meaning}" for name, kind in kinds.items())

    members: dict[str, Any] = {
        "kind": (str, Field(description=meanings)),
        **needed,
        "epsilon": (Number, of(fields.EPSILON)),
        **others,
    }
    found = create_model(
        "ModelRequest", __base__=_AnyModelRequest, __doc__=_AnyModelRequest.__doc__, **members
    )
    found.kinds = kinds
    found.model_config.update(without_defaults(*needed))
    found.model_rebuild(force=True)
    return found


_TYPES = {"json": Any, "whole": int, "number": Number, "lists": list[list[str]]}


def _member(field: fields.Field) -> tuple[Any, Any]:
    """A member that one kind needs, but others do not."""
    shape: Any = _TYPES.get(field.kind, str)
    if field.schema:
        shape = Annotated[shape, WithJsonSchema(dict(field.schema))]
    default = None if field.default is fields.NEEDED else field.default
    return shape, Field(default, description=field.about)


ModelRequest = model_request(KINDS)


class LearntBody(
    EpsilonBody,
    record=ModelAnswer,
    shows="id kind epsilon_charged=charged_nano epsilon_remaining=remaining_nano tables version",
):
    """A model that was learnt and what it cost."""


class ModelBody(
    EpsilonBody,
    record=ModelStatus,
    shows="id=learnt.id kind=learnt.kind epsilon_charged=learnt.charged_nano tables=learnt.tables "
    "version=learnt.version specification facts",
):
    """A model of a dataset."""


class ModelListBody(RecordBody):
    """The models of a dataset."""

    models: list[ModelBody]


class CheckRequest(RequestBody):
    """A guarantee to buy beside the model's answer."""

    length: Number = of(fields.CHECKED)
    confidence: Number = of(fields.SURELY)
    fallback_length: Number | None = of(fields.FALLBACK)

    def requirement(self) -> Requirement:
        """Length and confidence; RequirementError where they are out of range."""
        try:
            return Requirement(length=self.length, confidence=self.confidence)
        except RequirementError as exc:
            raise exc.under("check") from exc

    def fallback(self) -> Requirement | None:
        """The same for the fallback; InputError where it is longer than the check."""
        if self.fallback_length is None:
            return None
        if self.fallback_length > self.length:
            raise InputError("check.fallback_length", "be at most `length`", self.fallback_length)
        try:
            return Requirement(length=self.fallback_length, confidence=self.confidence)
        except RequirementError as exc:
            length = self.fallback_length
            raise RequirementError("check.fallback_length", "be a length", length) from exc


class ModelQuestion(RequestBody):
    """A question to a model; just one of `marginal`, `most_probable` and `count`."""

    model_config = without_defaults("check", one_of=("marginal", "most_probable", "count"))

    marginal: Names = of(fields.MARGINAL)
    most_probable: Names = of(fields.MOST_PROBABLE)
    count: QueryDocument = of(fields.COUNT)
    given: dict[str, str] = of(fields.GIVEN)
    check: CheckRequest | None = Field(
        None,
        description="with `count`: an interval beside it, from history or measured",
    )

    def form(self) -> Form:
        """The one form of the question; InputError for none, several or a misfit."""
        forms: tuple[Form, ...] = ("marginal", "most_probable", "count")
        asked = [f for f in forms if f in self.model_fields_set]
        if len(asked) != 1:
            raise InputError("marginal", "be given, or else `most_probable` or `count`, just one")
        if asked[0] != "count" and self.check is not None:
            raise InputError("check", "be left out: it goes with `count`")
        if asked[0] == "count" and self.given:
            raise InputError("given", "be left out: it goes with probabilities")
        return asked[0]

    def document(self) -> dict[str, Any]:
        """The kind's own part of the question."""
        if self.form() == "marginal":
            return {"marginal": self.marginal, "given": self.given}
        return {"most_probable": self.most_probable or None, "given": self.given}


class _OfModel(BaseModel):
    source: Literal["model"] = "model"
    model: str = Field(description="id of the model")
    version: int = Field(description="version of the history that the model stands on")


class ModelReplyBody(_OfModel):
    """What a model says. It has no guarantee, but for the intervals beside it."""

    answer: dict[str, Any] | None = Field(
        description="`variables`, `labels`, `probabilities`; or `labels`, `probability`; for "
        "`marginals` also `n_records`, in `is_held` whether one table of the model holds it, and "
        "in `merged` by attribute the lists of values that no table tells apart beside their shares"
    )
    estimate: float | None = Field(description="what the model expects of the count")
    guarantee: AnswerBody | None = Field(description="the interval of the check, if asked for")
    verdict: Verdict | None = Field(
        description="whether the check's interval holds `estimate`; null without a check"
    )
    fallback: AnswerBody | None = Field(
        description="answer measured instead, if the check contradicts and a fallback was asked for"
    )

    @classmethod
    def of(cls, learnt: ModelAnswer) -> Self:
        """A reply of the model, before it says anything."""
        return cls(
            model=learnt.id,
            version=learnt.version,
            answer=None,
            estimate=None,
            guarantee=None,
            verdict=None,
            fallback=None,
        )


_Rounded = Annotated[float, AfterValidator(partial(round, ndigits=3))]


class ModelWorkBody(RecordBody, record=ModelWork, shows="n_tables n_cells memory_bytes seconds"):
    """What measuring tables and making a model of them takes: from sizes alone, never measured."""

    seconds: _Rounded


class ModelErrorBody(
    RecordBody,
    record=ErrorBounds,
    shows="eta width values parameter_least=least parameter_greatest=greatest term_lower=lower "
    "term_upper=upper",
):
    """How errors of a network's parameters reach its answers, before anything is bought.

    By the noise of the tables alone, for a network whose values are all equally likely. Divided by
    the number of records the errors are probabilities.
    """


class WantedErrorBody(
    RecordBody, record=WantedError, shows="attributes n_cells deviation as_wanted tables"
):
    """How far off a count of a wanted marginal is expected to be, by the noise of all tables."""

    deviation: _Rounded
    as_wanted: _Rounded


class ModelExplanationBody(
    EpsilonBody,
    record=ModelExplanation,
    shows="kind price sample second remaining affordable plan=tables version work error wanted own",
):
    """What learning a model would cost and which tables it would buy; nothing was spent."""


class ModelQuestionPriceBody(_OfModel):
    """What a question to a model would cost, and what would happen; nothing was spent."""

    estimate: float | None = Field(description="what the model expects of the count")
    would: Would = Field(
        description="`tell`: the model's answer, without a guarantee, at no cost; `confirm` or "
        "`contradict`: history does so at no cost; `check`: the check is bought, which decides"
    )
    check: ExplanationBody | None = Field(description="price of the check; null without a check")
    fallback: ExplanationBody | None = Field(
        description="price of the fallback now; the check pays part of it. It is bought only if "
        "the check contradicts; null without a fallback"
    )

    @classmethod
    def of(cls, learnt: ModelAnswer) -> Self:
        """A price of nothing: the model knows the answer."""
        return cls(
            model=learnt.id,
            version=learnt.version,
            estimate=None,
            would="tell",
            check=None,
            fallback=None,
        )


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


class GateFields(RequestBody):
    """A rule: at `fpr` false positives no test of membership may have more than `max_power`."""

    fpr: Number = of(fields.FPR)
    max_power: Number = of(fields.MAX_POWER)
    basis: Basis = of(fields.BASIS)

    def gate(self) -> ReleaseGate:
        """The rule; InputError for a value out of range."""
        try:
            return ReleaseGate(self.fpr, self.max_power, self.basis)
        except InputError as exc:
            raise exc.under("gate") from exc


class LeakRequest(RequestBody):
    """What a leak is told by, beside the structure; nothing of it is computed from the data."""

    records: Number = of(fields.LEARNT_FROM)
    epsilon: Number | None = of(fields.COST, checked=True)
    game: Game = of(fields.GAME)
    release: Release = of(fields.RELEASE)

    def audit_of(
        self,
        structure: Structure,
        relation: Relation,
        gate: ReleaseGate | None,
        *,
        n_reference: float = inf,
    ) -> AuditRequest:
        """The subject of the audit; InputError for a value out of range."""
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
    reference_records: Number | None = of(fields.REFERENCE, checked=True)
    gate: GateFields | None = None

    def audit(self, structure: Structure, relation: Relation) -> AuditRequest:
        """The subject of the audit; InputError for a value out of range."""
        gate = None if self.gate is None else self.gate.gate()
        known = inf if self.reference_records is None else self.reference_records
        return self.audit_of(structure, relation, gate, n_reference=known)


class CapBody(RecordBody, record=PrivacyCap, shows="epsilon relation game exponent"):
    """The cap of an epsilon: power <= e^exponent fpr, and 1 - fpr <= e^exponent (1 - power)."""


class DecisionBody(RecordBody, record=GateDecision, shows="passes power decided_by reason"):
    """What the gate decided, by which limit, and why."""


class AucBody(RecordBody, record=Areas, shows="model_bound bound limit cap finite_bound"):
    """Areas under the curves; 1/2 is guessing."""


class CurvesBody(RecordBody, record=Curves, shows="fpr bound limit cap finite_bound"):
    """The greatest power at each `fpr`."""


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
        """The report as JSON; a report of an attack has no place here."""
        return cls.model_validate(report.to_document())


class StructureRequest(LeakRequest):
    """What a proposed structure must keep to."""

    gate: GateFields
    max_parents: int = of(fields.MAX_PARENTS, checked=True, strict=True)
    min_gain: Number = of(fields.MIN_GAIN, checked=True)
    variables: list[str] | None = of(fields.VARIABLES)

    def audit(self, relation: Relation) -> Audit:
        """The audit of any structure; InputError for a value out of range."""
        gate = self.gate.gate()

        def of(structure: Structure) -> AuditRequest:
            return self.audit_of(structure, relation, gate)

        return of


class EdgesBody(RecordBody, record=Structure, shows="variables=names edges"):
    """A structure, as `models` takes it."""


class StructureBody(
    RecordBody,
    record=Proposal,
    shows="network=structure score complexity=request.model_complexity "
    "table_complexity=request.in_tables.count table_complexity_is_exact=request.in_tables.is_exact "
    "decision",
):
    """A structure that was proposed, and what an audit says of it."""
