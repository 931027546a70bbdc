"""Request bodies, checked on the way in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from qserver.api.bodies.query import JSON_REF, PAIR_SCHEMA
from qserver.api.bodies.reading import (
    ChosenMethod,
    ChosenPrior,
    LatticeStep,
    Number,
    NumberOfDraws,
    WantedError,
    reading_of,
)
from qserver.api.errors import fields_problem
from qserver.errors import CapacityError, InputError
from qserver.query.asking.reading import USUAL_ERROR, Reading
from qserver.query.linear import LinearQuery
from qserver.query.looking import MOST_AMONG, RULES, Looking, Rule, Selection
from qserver.query.measure import Measure, measure_of
from qserver.query.question import MAX_QUESTIONS, Question, Workload, check_terms
from qserver.query.requirement import MIN_DELTA, Requirement


def _question(value: object) -> object:
    if not isinstance(value, dict | str):
        raise PydanticCustomError("question", "be an object, or a text of SQL")
    return value


def _measure(value: object) -> Measure | None:
    try:
        return None if value is None else measure_of(value)
    except InputError as exc:
        raise PydanticCustomError("measure", "be `auto` or `only_this`, or be left out") from exc


def _rule(value: object) -> object:
    if value not in RULES:
        raise PydanticCustomError("rule", "be `largest`, `least` or `any`")
    return value


ChosenMeasure = Annotated[
    Measure | None,
    BeforeValidator(_measure),
    Field(
        description="`only_this`: nothing is measured for later questions; `auto`: the planner may "
        "buy tables that these use too; null is the owner's choice for the dataset"
    ),
]
AskedAsOf = Annotated[
    StrictStr | None,
    Field(
        description="where data arrive over time: asks as it was when this period was the last "
        "sealed one; null is now"
    ),
]
QueryDocument = Annotated[Any, BeforeValidator(_question), WithJsonSchema({JSON_REF: "Query"})]


LENGTH_BOUNDS: dict[str, Any] = {"minimum": 1e-9, "maximum": 1e15}
CONFIDENCE_BOUNDS: dict[str, Any] = {"exclusiveMinimum": 0, "maximum": 1 - MIN_DELTA}


class RequestBody(BaseModel):
    """A JSON object with known fields only."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    inner_fields: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    @classmethod
    def read(cls, document: dict[str, Any]) -> Self:
        """The body that a JSON object holds.

        Raises:
            RequestError: a field is missing, unknown or of the wrong type (422).
        """
        try:
            return cls.model_validate(document)
        except ValidationError as exc:
            raise fields_problem(exc, tuple(cls.model_fields), cls.inner_fields) from exc


class SelectionRequest(RequestBody):
    """A choice among released numbers that were looked at."""

    m: StrictInt = Field(
        description="how many numbers were looked at",
        json_schema_extra={"minimum": 1, "maximum": MOST_AMONG},
    )
    rule: Annotated[Rule, BeforeValidator(_rule)] = Field(
        "largest", description="how one was chosen: the `largest`, the `least`, or by `any` rule"
    )
    first: StrictInt = Field(
        1,
        description="how many of the largest or least are reported, all of which hold at once",
        json_schema_extra={"minimum": 1, "maximum": MOST_AMONG},
    )


ChosenAmong = Annotated[
    SelectionRequest | None,
    Field(
        description="the choice among released numbers that is made or was made; intervals are "
        "then ones that hold after such a choice, for the same price"
    ),
]


def selection_of(asked: SelectionRequest | None) -> Selection | None:
    """The choice that a request names; InputError where it means nothing."""
    if asked is None:
        return None
    try:
        return Selection(**asked.model_dump())
    except InputError as exc:
        raise exc.under("selected_from") from exc


class QueryRequest(RequestBody):
    """A question: what to count, how long the interval may be, and how sure."""

    inner_fields: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "selected_from": tuple(SelectionRequest.model_fields)
    }

    query: QueryDocument
    length: Number = Field(
        description="full length of the interval, in the query's own units",
        json_schema_extra=LENGTH_BOUNDS,
    )
    confidence: Number = Field(
        description="probability that the interval holds the true answer",
        json_schema_extra=CONFIDENCE_BOUNDS,
    )

    measure: ChosenMeasure = None
    selected_from: ChosenAmong = None
    independent: StrictBool = Field(
        False,
        description="measure with fresh noise, combined with nothing released before; not together "
        "with `selected_from`",
    )
    method: ChosenMethod = "auto"
    step: LatticeStep = None
    draws: NumberOfDraws = None
    error: WantedError = USUAL_ERROR
    prior: ChosenPrior = None
    as_of: AskedAsOf = None

    def reading(self) -> Reading:
        """How the posterior is read; InputError where that means nothing."""
        return reading_of(self)

    def looking(self) -> Looking:
        """What the asker had looked at; InputError where that means nothing."""
        chosen = selection_of(self.selected_from)
        return Looking(chosen, independent=self.independent)

    def requirement(self) -> Requirement:
        """Length and confidence; RequirementError where they are out of range."""
        return Requirement(length=self.length, confidence=self.confidence)


@dataclass(frozen=True)
class Bounds:
    """The closed interval [low, high]; `high` may be infinite."""

    low: float
    high: float


def _exactly_one_bound(schema: dict[str, Any]) -> None:
    schema["oneOf"] = [{"required": ["at_least"]}, {"required": ["between"]}]
    for name in ("at_least", "between"):
        schema["properties"][name].pop("default", None)


class ProbabilityRequest(RequestBody):
    """A question about where the answer lies; exactly one of `at_least` and `between`."""

    model_config = ConfigDict(json_schema_extra=_exactly_one_bound)

    query: QueryDocument
    # The defaults mean nothing: what counts is which of the two was given, and null is neither.
    at_least: Number = Field(0.0, description="asks for P(q >= at_least)")
    between: Annotated[tuple[Number, Number], WithJsonSchema(PAIR_SCHEMA)] = Field(
        (0.0, 0.0), description="[a, b] with a <= b; asks for P(a <= q <= b)"
    )
    method: ChosenMethod = "auto"
    step: LatticeStep = None
    draws: NumberOfDraws = None
    error: WantedError = USUAL_ERROR
    prior: ChosenPrior = None
    as_of: AskedAsOf = None

    def reading(self) -> Reading:
        """How the posterior is read; InputError where that means nothing."""
        return reading_of(self)

    def bounds(self) -> Bounds:
        """The interval that is asked about.

        Raises:
            InputError: none or both of the two forms, or the ends in the wrong order.
        """
        given = self.model_fields_set & {"at_least", "between"}
        if len(given) != 1:
            raise InputError("at_least", "be given, or else `between`, but not both")
        if "at_least" in given:
            return Bounds(self.at_least, inf)
        low, high = self.between
        if low > high:
            raise InputError("between", "have low <= high", [low, high])
        return Bounds(low, high)


def _without_defaults(schema: dict[str, Any]) -> None:
    # What counts is whether they were given; null is no number.
    for name in ("length", "confidence"):
        schema["properties"][name].pop("default", None)


def _length() -> Any:
    return Field(0.0, description="full length of the interval", json_schema_extra=LENGTH_BOUNDS)


def _confidence() -> Any:
    return Field(
        0.0,
        description="probability that the interval holds the true answer",
        json_schema_extra=CONFIDENCE_BOUNDS,
    )


class WorkloadQuestion(RequestBody):
    """One question of a workload; what it leaves out is as for all."""

    model_config = ConfigDict(json_schema_extra=_without_defaults)

    query: QueryDocument
    length: Number = _length()
    confidence: Number = _confidence()


class WorkloadRequest(RequestBody):
    """Many questions to be answered as one; `length` and `confidence` hold where one has none."""

    model_config = ConfigDict(json_schema_extra=_without_defaults)
    inner_fields: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "questions": tuple(WorkloadQuestion.model_fields),
        "selected_from": tuple(SelectionRequest.model_fields),
    }

    questions: list[WorkloadQuestion] = Field(
        json_schema_extra={"minItems": 1, "maxItems": MAX_QUESTIONS}
    )
    length: Number = _length()
    confidence: Number = _confidence()
    simultaneous: StrictBool = Field(
        False, description="all intervals hold at once, at the one confidence of all questions"
    )
    consistent: StrictBool = Field(
        False, description="beside the answers those of one non-negative table, at no cost"
    )
    measure: ChosenMeasure = None
    selected_from: ChosenAmong = None
    as_of: AskedAsOf = None

    def workload(self, parse: Callable[[object], LinearQuery]) -> Workload:
        """The workload.

        Args:
            parse: the linear query that a structured question means.

        Raises:
            InputError: a question is wrong; names its place.
            CapacityError: there are too many questions or terms, or a question is too large.
        """
        # Counted before anything is parsed, which takes longer than to count.
        if len(self.questions) > MAX_QUESTIONS:
            raise CapacityError(
                f"A workload may have at most {MAX_QUESTIONS:,} questions, "
                f"got {len(self.questions):,}."
            )
        found = list[Question]()
        for i, asked in enumerate(self.questions):
            try:
                requirement = self._requirement(asked)
                found.append(Question(parse(asked.query), requirement, self.measure))
            except InputError as exc:
                raise exc.under(f"questions[{i}]") from exc
            # A short text may mean many terms: it ends before all are read.
            check_terms(found)
        chosen = selection_of(self.selected_from)
        if chosen is not None and chosen.m < len(found):
            raise InputError(
                "selected_from.m",
                f"be at least {len(found):,}, the number of answers",
                chosen.m,
                hint="It counts all numbers that are looked at, and these are shown.",
            )
        return Workload(tuple(found), simultaneous=self.simultaneous, selected_from=chosen)

    def _requirement(self, asked: WorkloadQuestion) -> Requirement:
        values = {}
        for name in ("length", "confidence"):
            giver = next((b for b in (asked, self) if name in b.model_fields_set), None)
            if giver is None:
                raise InputError(name, "be given, here or for all questions")
            values[name] = getattr(giver, name)
        return Requirement(**values)
