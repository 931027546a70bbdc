"""Bodies of models: what is asked for, what was learnt, what models say, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    WithJsonSchema,
    create_model,
)

from qserver.answering.models.kinds.kind import ModelKind, RequestField
from qserver.answering.models.kinds.registry import KINDS
from qserver.answering.models.price import Verdict, Would
from qserver.api.bodies.answers import (
    AnswerBody,
    Epsilon,
    ExplanationBody,
    OwnPriceBody,
    PlanTableBody,
    RecordBody,
)
from qserver.api.bodies.requests import (
    CONFIDENCE_BOUNDS,
    LENGTH_BOUNDS,
    Number,
    QueryDocument,
    RequestBody,
)
from qserver.errors import InputError, RequirementError
from qserver.query.requirement import Requirement
from qserver.records.answer import ModelAnswer, PlanKind
from qserver.records.charge import NANO

MAX_EPSILON = 1e6
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
        if not 0 <= self.epsilon <= MAX_EPSILON:
            raise InputError("epsilon", f"be 0 to {MAX_EPSILON:,.0f}", self.epsilon)
        return int(self.epsilon * NANO)

    def document(self) -> dict[str, Any]:
        """What the kind reads: its own members, and what was given of others."""
        kind = self.kinds.get(self.kind)
        own = {field.name for field in kind.face.fields} if kind else set()
        read = own | (self.model_fields_set - {"kind", "epsilon"})
        return {name: getattr(self, name) for name in type(self).model_fields if name in read}


def model_request(kinds: Mapping[str, ModelKind]) -> type[_AnyModelRequest]:
    """The request for a model of any of these kinds.

    Members that some kind needs come before `epsilon`, and have no default to be shown.
    """
    fields = [field for kind in kinds.values() for field in kind.face.fields]
    needed = {f.name: _member(f) for f in fields if f.default is None}
    others = {f.name: _member(f) for f in fields if f.default is not None}
    meanings = "; ".join(f"`{name}`: {kind.face.meaning}" for name, kind in kinds.items())

    def without_null(schema: dict[str, Any]) -> None:
        for name in needed:
            schema["properties"][name].pop("default", None)

    members: dict[str, Any] = {
        "kind": (str, Field(description=meanings)),
        **needed,
        "epsilon": (
            Number,
            Field(
                description="what may be spent on tables; 0 uses history alone",
                json_schema_extra={"minimum": 0, "maximum": MAX_EPSILON},
            ),
        ),
        **others,
    }
    found = create_model(
        "ModelRequest", __base__=_AnyModelRequest, __doc__=_AnyModelRequest.__doc__, **members
    )
    found.kinds = kinds
    found.model_config["json_schema_extra"] = without_null
    found.model_rebuild(force=True)
    return found


def _member(field: RequestField) -> tuple[Any, Any]:
    shape = field.type if field.schema is None else Annotated[field.type, _schema(field)]
    return shape, Field(field.default, description=field.description)


def _schema(field: RequestField) -> WithJsonSchema:
    return WithJsonSchema(dict(field.schema or {}))


ModelRequest = model_request(KINDS)


class LearntBody(RecordBody):
    """A model that was learnt and what it cost."""

    id: str = Field(description="of the model")
    kind: str
    epsilon_charged: Epsilon = Field(validation_alias="charged_nano")
    epsilon_remaining: Epsilon = Field(validation_alias="remaining_nano")
    tables: list[int] = Field(description="ids of the history's tables that it is made from")
    version: int = Field(description="version of the history that it stands on, for ever")


def _learnt(name: str) -> AliasPath:
    return AliasPath("learnt", name)


class ModelBody(RecordBody):
    """A model of a dataset."""

    id: str = Field(validation_alias=_learnt("id"))
    kind: str = Field(validation_alias=_learnt("kind"))
    epsilon_charged: Epsilon = Field(validation_alias=_learnt("charged_nano"))
    tables: list[int] = Field(validation_alias=_learnt("tables"))
    version: int = Field(validation_alias=_learnt("version"))
    specification: dict[str, Any] = Field(description="what the kind made of the request")
    facts: dict[str, Any] | None = Field(description="of the model itself; null in lists")


class ModelListBody(RecordBody):
    """The models of a dataset."""

    models: list[ModelBody]


class CheckRequest(RequestBody):
    """A guarantee to buy beside the model's answer."""

    length: Number = Field(json_schema_extra=LENGTH_BOUNDS)
    confidence: Number = Field(json_schema_extra=CONFIDENCE_BOUNDS)
    fallback_length: Number | None = Field(
        None,
        description="measure to this length where the check's interval does not hold the model's "
        "answer; at most `length`",
        json_schema_extra=LENGTH_BOUNDS,
    )

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


def _one_question(schema: dict[str, Any]) -> None:
    schema["oneOf"] = [{"required": [name]} for name in ("marginal", "most_probable", "count")]
    for name in ("marginal", "most_probable", "count", "check"):
        schema["properties"][name].pop("default", None)


class ModelQuestion(RequestBody):
    """A question to a model; just one of `marginal`, `most_probable` and `count`."""

    model_config = ConfigDict(json_schema_extra=_one_question)
    inner_fields: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "check": ("length", "confidence", "fallback_length")
    }

    marginal: Names = Field([], description="P of these variables, given `given`")
    most_probable: Names = Field([], description="their most probable labels; all if empty")
    count: QueryDocument = Field({}, description="a linear query; the model's expectation of it")
    given: dict[str, str] = Field({}, description="observed labels, by variable")
    check: CheckRequest | None = Field(
        None,
        description="with `count`: an interval beside it, from history or measured",
    )

    def form(self) -> Form:
        """Which of the three was asked; InputError where none or several were, or a misfit."""
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
        """What the kind reads."""
        if self.form() == "marginal":
            return {"marginal": self.marginal, "given": self.given}
        return {"most_probable": self.most_probable or None, "given": self.given}


class ModelReplyBody(BaseModel):
    """What a model says. It has no guarantee, but for the intervals beside it."""

    source: Literal["model"] = "model"
    model: str = Field(description="id of the model")
    version: int = Field(description="version of the history that the model stands on")
    answer: dict[str, Any] | None = Field(
        description="`variables`, `labels`, `probabilities`; or `labels`, `probability`; for "
        "`marginals` also `n_records`, and in `is_held` whether one table of the model holds it"
    )
    estimate: float | None = Field(description="what the model expects of the count")
    guarantee: AnswerBody | None = Field(description="the interval of the check, if asked for")
    verdict: Verdict | None = Field(
        description="whether the check's interval holds `estimate`; null without a check"
    )
    fallback: AnswerBody | None = Field(
        description="what was measured instead, where the check contradicts and that was asked for"
    )

    @classmethod
    def of(cls, learnt: ModelAnswer) -> Self:
        """A reply of the model that says nothing yet."""
        return cls(
            model=learnt.id,
            version=learnt.version,
            answer=None,
            estimate=None,
            guarantee=None,
            verdict=None,
            fallback=None,
        )


class ModelWorkBody(RecordBody):
    """What measuring tables and making a model of them takes: from sizes alone, never measured."""

    n_tables: int = Field(description="tables that the model is made from, of history too")
    n_cells: int = Field(description="cells of these")
    memory_bytes: int = Field(description="memory of the process that makes the model, roughly")
    seconds: Annotated[float, AfterValidator(partial(round, ndigits=3))] = Field(
        description="time of one core, roughly, measuring included"
    )


class ModelErrorBody(RecordBody):
    """How errors of a network's parameters reach its answers, before anything is bought.

    By the noise of the tables alone, for a network whose values are all equally likely. Divided by
    the number of records the errors are probabilities.
    """

    eta: int = Field(description="the most edges at an attribute, and one")
    width: int | None = Field(
        description="width of the order of elimination, at least the treewidth; null above 24"
    )
    values: int = Field(description="the most values of an attribute")
    parameter_least: float = Field(
        description="least standard deviation of a parameter", validation_alias="least"
    )
    parameter_greatest: float = Field(
        description="greatest standard deviation of a parameter", validation_alias="greatest"
    )
    term_lower: float = Field(
        description="theorem 4.1: sqrt(eta - 1) parameter_least (1 / values)^(eta - 2)",
        validation_alias="lower",
    )
    term_upper: float | None = Field(
        description="theorem 4.2: 2 eta values^width parameter_greatest; null where `width` is",
        validation_alias="upper",
    )


class ModelExplanationBody(RecordBody):
    """What learning a model would cost and which tables it would buy; nothing was spent."""

    kind: PlanKind
    price: Epsilon
    sample: Epsilon | None = Field(
        description="what of the price is for the sample of `arxiv` and `icml`, else null. With it "
        "each table of `plan` has the most that it may get"
    )
    remaining: Epsilon
    affordable: bool
    plan: list[PlanTableBody] = Field(validation_alias="tables")
    version: int
    work: ModelWorkBody | None = Field(
        description="what the model takes in time and memory; null for a network"
    )
    error: ModelErrorBody | None = Field(
        description="of a network; null where a sample decides on the noise, and of other models"
    )
    own: OwnPriceBody | None = Field(
        description="the asker's own allowance; null where only the budget bounds it"
    )


class ModelQuestionPriceBody(BaseModel):
    """What a question to a model would cost, and what would happen; nothing was spent."""

    source: Literal["model"] = "model"
    model: str = Field(description="id of the model")
    version: int = Field(description="version of the history that the model stands on")
    estimate: float | None = Field(description="what the model expects of the count")
    would: Would = Field(
        description="`tell`: the model's answer, without a guarantee, at no cost; `confirm` or "
        "`contradict`: history does so at no cost; `check`: the check is bought, which decides"
    )
    check: ExplanationBody | None = Field(description="price of the check; null where none is")
    fallback: ExplanationBody | None = Field(
        description="price of the fallback, asked now: after the check it costs the less by what "
        "the check measured of it. Bought only where the check contradicts; null where none is"
    )

    @classmethod
    def of(cls, learnt: ModelAnswer) -> Self:
        """A price of nothing: the model tells its answer."""
        return cls(
            model=learnt.id,
            version=learnt.version,
            estimate=None,
            would="tell",
            check=None,
            fallback=None,
        )
