"""Request bodies, checked on the way in, with the schema of the structured query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from math import inf, isfinite
from typing import TYPE_CHECKING, Annotated, Any, Self, get_args

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

from qserver.api.errors import fields_problem
from qserver.errors import CapacityError, InputError
from qserver.query import request_fields as fields
from qserver.query.asking.after_looking import Looking, Rule, Selection
from qserver.query.asking.method_and_prior import WANTED, Method, Prior, Reading, prior_of
from qserver.query.linear_query import LinearQuery
from qserver.query.question import MAX_QUESTIONS, Question, Workload, check_terms
from qserver.query.requirement import Measure, Requirement

# Marks a reference to a component; the document writes it as `$ref`.
JSON_REF = "x-component"

_NUMBER: dict[str, Any] = {
    "anyOf": [
        {"type": "number"},
        {
            "type": "string",
            "pattern": r"^[+-]?[0-9]+([.][0-9]*)?([eE][+-]?[0-9]+)?$|^[+-]?[0-9]+/[0-9]+$",
            "description": "a decimal or p/q, exact",
        },
    ]
}
_VALUE: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "number"}]}

INTEGER_SCHEMA: dict[str, Any] = {
    "anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^-?[0-9]+$"}],
    "description": "as a text beyond 2^53 - 1",
}
# Pairs are written without `prefixItems`, which not every tool reads.
PAIR_SCHEMA: dict[str, Any] = {
    "type": "array",
    "items": {"type": "number"},
    "minItems": 2,
    "maxItems": 2,
}
PRICE_POINT_SCHEMA: dict[str, Any] = {**PAIR_SCHEMA, "items": {"type": ["number", "null"]}}
TERMS_SCHEMA: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "array",
        "items": {
            "anyOf": [
                {"type": "string", "description": "first: coefficient, an exact fraction"},
                {
                    "type": "array",
                    "items": {"type": "array", "minItems": 3, "maxItems": 3},
                    "description": "second: per attribute [position, stops of runs, weights]",
                },
            ]
        },
        "minItems": 2,
        "maxItems": 2,
    },
    "description": "the row as a sum of terms, each a coefficient times weights per attribute",
}

AXES_SCHEMA: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "array",
        "minItems": 3,
        "maxItems": 3,
        "prefixItems": [
            {"type": "integer", "description": "position of the attribute"},
            {"type": "array", "items": {"type": "integer"}, "description": "stops of runs"},
            {"type": "array", "items": {"type": "integer"}, "description": "part of each run"},
        ],
    },
    "description": "per attribute that the table tells apart: [position, stops of runs, part of "
    "each run]; its cells are the products of parts, the last attribute running fastest. Part -1 "
    "is of values without a cell, such as periods that the table was not measured for",
}


def _operator(name: str, operand: dict[str, Any], description: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: operand},
        "required": [name],
        "additionalProperties": False,
        "description": description,
    }


_END: dict[str, Any] = {
    "anyOf": [
        {"type": "number"},
        {"type": "string", "description": "a decimal or p/q, exact; a period or date of a period"},
    ]
}
_PAIR = {"type": "array", "items": _END, "minItems": 2, "maxItems": 2}
_WEIGHTS = {"type": "object", "additionalProperties": _NUMBER}

QUERY_COMPONENTS: dict[str, dict[str, Any]] = {
    "Query": {
        "description": "What to count: an object with exactly one of `where`, `any` and `terms`, "
        "or a text of SQL.",
        "oneOf": [
            {"type": "string", "description": "such as `SELECT COUNT(*) FROM adult`"},
            _operator("where", {JSON_REF: "Where"}, "records that meet every condition"),
            _operator(
                "any",
                {"type": "array", "items": {JSON_REF: "Where"}, "minItems": 1},
                "records that meet at least one of the sets of conditions",
            ),
            _operator(
                "terms",
                {"type": "array", "items": {JSON_REF: "QueryTerm"}, "minItems": 1},
                "a linear combination of counts",
            ),
        ],
    },
    "QueryTerm": {
        "type": "object",
        "properties": {"coefficient": _NUMBER, "where": {JSON_REF: "Where"}},
        "additionalProperties": False,
    },
    "Where": {
        "type": "object",
        "additionalProperties": {JSON_REF: "Condition"},
        "description": "a condition per attribute; no condition is all records",
    },
    "Condition": {
        "description": "A value, a list of values, or an object with one operator.",
        "anyOf": [
            _VALUE,
            {"type": "array", "items": _VALUE, "minItems": 1},
            _operator(
                "between", _PAIR, "both ends included for integers and periods, else [low, high)"
            ),
            _operator("at_least", _END, "values >= v"),
            _operator("below", _END, "values < v"),
            _operator(
                "last",
                {"type": "integer", "minimum": 1},
                "the last n periods that have their data",
            ),
            _operator("not", {JSON_REF: "Condition"}, "the other values"),
            _operator("weights", _WEIGHTS, "a number per value; values not named weigh 0"),
        ],
    },
}


def _number(value: object) -> float:
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    number = float(value) if is_number else inf  # type: ignore[arg-type]
    if not isfinite(number):
        raise PydanticCustomError("number", "be a finite number")
    return number


def _prior(value: object) -> Prior | None:
    if isinstance(value, Mapping) and isinstance(value.get("between"), list):
        value = {**value, "between": [_plain(end) for end in value["between"]]}
    try:
        return None if value is None else prior_of(value)
    except InputError as exc:
        raise PydanticCustomError("prior", WANTED) from exc


def _plain(value: object) -> object:
    """A number as Python has it; requests are read with exact ones."""
    return float(value) if isinstance(value, Decimal) else value


def one_of(field: fields.Field, *, or_none: bool = False) -> BeforeValidator:
    """A validator that refuses any value but a field's choices."""

    def check(value: object) -> object:
        is_known = isinstance(value, str) and value in field.choices
        if not is_known and not (or_none and value is None):
            more = ", or be left out" if or_none else ""
            raise PydanticCustomError("choice", "{must}", {"must": field.must + more})
        return value

    return BeforeValidator(check)


_CHECKS = {"minimum": "ge", "exclusiveMinimum": "gt", "maximum": "le", "exclusiveMaximum": "lt"}


def of(field: fields.Field, default: Any = ..., *, checked: bool = False, **more: Any) -> Any:
    """A member of a body, from the table of fields.

    Args:
        default: in place of the field's own.
        checked: whether the bounds are held here; else what is made of the body does so.
        more: what else pydantic shall know.
    """
    if checked:
        more |= {_CHECKS[name]: bound for name, bound in field.schema.items()}
    elif field.schema:
        more["json_schema_extra"] = dict(field.schema)
    value = field.default if default is ... else default
    return Field(value, description=field.about or None, **more)


Number = Annotated[float, BeforeValidator(_number)]
ChosenMethod = Annotated[Method, one_of(fields.METHOD)]
ChosenMeasure = Annotated[Measure | None, one_of(fields.MEASURE, or_none=True)]
_PRIOR_SCHEMA: dict[str, Any] = {
    "oneOf": [
        {"type": "null"},
        {"enum": ["non-negative", "known-total"]},
        {
            "type": "object",
            "properties": {
                "between": {
                    "type": "array",
                    "items": {"type": "number"},
                    "minItems": 2,
                    "maxItems": 2,
                }
            },
            "required": ["between"],
            "additionalProperties": False,
        },
    ]
}
ChosenPrior = Annotated[Any, BeforeValidator(_prior), WithJsonSchema(_PRIOR_SCHEMA)]


def _question(value: object) -> object:
    if not isinstance(value, dict | str):
        raise PydanticCustomError("question", "be an object, or a text of SQL")
    return value


QueryDocument = Annotated[Any, BeforeValidator(_question), WithJsonSchema({JSON_REF: "Query"})]


class RequestBody(BaseModel):
    """A JSON object with known fields only."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def read(cls, document: dict[str, Any]) -> Self:
        """The body that a JSON object holds.

        Raises:
            RequestError: a field is missing, unknown or of the wrong type (422).
        """
        try:
            return cls.model_validate(document)
        except ValidationError as exc:
            inner = {
                name: tuple(part.model_fields)
                for name, found in cls.model_fields.items()
                for part in (found.annotation, *get_args(found.annotation))
                if isinstance(part, type) and issubclass(part, RequestBody)
            }
            raise fields_problem(exc, tuple(cls.model_fields), inner) from exc


class SelectionRequest(RequestBody):
    """A choice among released numbers that were looked at."""

    m: StrictInt = of(fields.AMONG)
    rule: Annotated[Rule, one_of(fields.RULE)] = of(fields.RULE)
    first: StrictInt = of(fields.FIRST)


def selection_of(asked: SelectionRequest | None) -> Selection | None:
    """The choice that a request names; InputError if it means nothing."""
    if asked is None:
        return None
    try:
        return Selection(**asked.model_dump())
    except InputError as exc:
        raise exc.under("selected_from") from exc


class _Read(RequestBody):
    """A request whose answer reads a posterior."""

    if TYPE_CHECKING:
        method: Method
        step: float | None
        draws: int | None
        error: float
        prior: Any

    def reading(self) -> Reading:
        """The reading of the posterior; InputError if it means nothing."""
        return Reading(self.method, self.step, self.draws, self.error, self.prior)


class QueryRequest(_Read):
    """A question: what to count, how long the interval may be, and how sure."""

    query: QueryDocument
    length: Number = of(fields.LENGTH)
    confidence: Number = of(fields.CONFIDENCE)

    measure: ChosenMeasure = of(fields.MEASURE)
    selected_from: SelectionRequest | None = of(fields.SELECTED_FROM)
    independent: StrictBool = of(fields.INDEPENDENT)
    method: ChosenMethod = of(fields.METHOD)
    step: Number | None = of(fields.STEP)
    draws: StrictInt | None = of(fields.DRAWS)
    error: Number = of(fields.ERROR)
    prior: ChosenPrior = of(fields.PRIOR)
    as_of: StrictStr | None = of(fields.AS_OF)

    def question(self, parse: Callable[[], LinearQuery]) -> Question:
        """The question, whose query is parsed last; RequirementError, InputError and of `parse`."""
        requirement = Requirement(length=self.length, confidence=self.confidence)
        looking = Looking(selection_of(self.selected_from), independent=self.independent)
        reading = self.reading()
        return Question(parse(), requirement, self.measure, looking, reading)


def without_defaults(*names: str, one_of: tuple[str, ...] = ()) -> ConfigDict:
    """The schema of a body that counts given members: null is no value.

    Args:
        names: fields whose defaults mean nothing.
        one_of: the same; just one of them must be given.
    """

    def change(schema: dict[str, Any]) -> None:
        if one_of:
            schema["oneOf"] = [{"required": [name]} for name in one_of]
        for name in (*one_of, *names):
            schema["properties"][name].pop("default", None)

    return ConfigDict(json_schema_extra=change)


class ProbabilityRequest(_Read):
    """A question about where the answer lies; exactly one of `at_least` and `between`."""

    model_config = without_defaults(one_of=("at_least", "between"))

    query: QueryDocument
    at_least: Number = of(fields.AT_LEAST, 0.0)
    between: Annotated[tuple[Number, Number], WithJsonSchema(PAIR_SCHEMA)] = of(
        fields.BETWEEN, (0.0, 0.0)
    )
    method: ChosenMethod = of(fields.METHOD)
    step: Number | None = of(fields.STEP)
    draws: StrictInt | None = of(fields.DRAWS)
    error: Number = of(fields.ERROR)
    prior: ChosenPrior = of(fields.PRIOR)
    as_of: StrictStr | None = of(fields.AS_OF)

    def bounds(self) -> tuple[float, float]:
        """The closed interval that is asked about; its upper end may be infinite.

        Raises:
            InputError: none or both of the two forms, or the ends in the wrong order.
        """
        given = self.model_fields_set & {"at_least", "between"}
        if len(given) != 1:
            raise InputError("at_least", "be given, or else `between`, but not both")
        if "at_least" in given:
            return self.at_least, inf
        low, high = self.between
        if low > high:
            raise InputError("between", "have low <= high", [low, high])
        return low, high


class WorkloadQuestion(RequestBody):
    """One question of a workload; what it leaves out is as for all."""

    model_config = without_defaults("length", "confidence")

    query: QueryDocument
    length: Number = of(fields.LENGTH, 0.0)
    confidence: Number = of(fields.CONFIDENCE, 0.0)


class WorkloadRequest(RequestBody):
    """Many questions to be answered as one; `length` and `confidence` hold where one has none."""

    model_config = without_defaults("length", "confidence")

    questions: list[WorkloadQuestion] = Field(
        json_schema_extra={"minItems": 1, "maxItems": MAX_QUESTIONS}
    )
    length: Number = of(fields.LENGTH, 0.0)
    confidence: Number = of(fields.CONFIDENCE, 0.0)
    simultaneous: StrictBool = of(fields.SIMULTANEOUS)
    consistent: StrictBool = of(fields.CONSISTENT)
    measure: ChosenMeasure = of(fields.MEASURE)
    selected_from: SelectionRequest | None = of(fields.SELECTED_FROM)
    as_of: StrictStr | None = of(fields.AS_OF)

    def workload(self, parse: Callable[[object], LinearQuery]) -> Workload:
        """The workload.

        Args:
            parse: the linear query that a structured question means.

        Raises:
            InputError: a question is wrong; names its place.
            CapacityError: there are too many questions or terms, or a question is too large.
        """
        # Counted before the parsing, which takes longer.
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
                if exc.name == "as_of":  # it is of all
                    raise
                raise exc.under(f"questions[{i}]") from exc
            # A short text may mean many terms: reading ends at the bound.
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
