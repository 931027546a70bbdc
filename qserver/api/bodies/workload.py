"""Bodies of what has many answers: workloads, statements of SQL; and of jobs."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Self

from pydantic import (
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictStr,
    WithJsonSchema,
)

from qserver.api.bodies.answers import (
    MOST,
    PROTECTED,
    AnswerBody,
    AsOf,
    BothChoicesBody,
    Epsilon,
    Interval,
    OfferBody,
    OpenInterval,
    OwnPriceBody,
    PlanRowBody,
    PlanTableBody,
    PriceOfFactor,
    RecordBody,
    SelectionBody,
    StatementBody,
)
from qserver.api.bodies.model import LearntBody
from qserver.api.bodies.requests import JSON_REF, AskedAsOf, ChosenMeasure, RequestBody
from qserver.api.errors import job_problem
from qserver.inference.posterior.choice import table_readings
from qserver.query.sql.clauses import Exactness
from qserver.query.sql.plain import MAX_CHARACTERS
from qserver.records.answer import (
    AnyAnswer,
    JobState,
    ModelAnswer,
    PlanKind,
    Source,
    WorkloadAnswer,
)
from qserver.records.statement import JointMethod
from qserver.service.statement_answers import AnyStatement, StatementAnswer, StatementExplanation

_ProblemBody = Annotated[dict[str, Any], BeforeValidator(job_problem)]
_PROBLEM_SCHEMA = WithJsonSchema({"anyOf": [{JSON_REF: "Problem"}, {"type": "null"}]})


class SimultaneousBody(RecordBody):
    """That all intervals hold at once."""

    confidence: float = Field(description="certified: at least what was asked", ge=0, le=1)
    method: JointMethod
    attained: float | None = Field(
        default=None,
        description="for `posterior`: the confidence that intervals of the asked lengths hold at "
        "once; null for the others",
        ge=0,
        le=1,
    )


class ConsistentBody(RecordBody):
    """What one non-negative table answers, as near to the answers as any; no statement of error."""

    estimates: list[float] = Field(description="in the order of the questions")
    total: int | None = Field(
        description="records of the table, where their number is public; null where it is not"
    )
    distance: float = Field(
        description="half the sum of squares of what the estimates were moved by, each over the "
        "scale of its interval",
        ge=0,
    )
    gap: float = Field(description="how much of `distance` is not proven to be needed", ge=0)


class ConsistentPriceBody(RecordBody):
    """What consistent answers cost beside the workload: nothing."""

    price: Epsilon


class AfterLookingBody(BaseModel):
    """Intervals that hold after all answers were looked at, in the order of the questions.

    Those of `answers` hold each by itself.
    """

    m: int = Field(description="how many answers there are to look at")
    at_once: list[Interval] = Field(description="all hold at once, so for any choice")
    largest: list[Interval] = Field(description="holds for the one that is the largest")
    least: list[Interval] = Field(description="holds for the one that is the least")

    @classmethod
    def of(cls, found: WorkloadAnswer) -> Self | None:
        """The intervals of a workload; None where there is no choice, or it is allowed for."""
        if not found.ends or found.answers[0].selected_from is not None:
            return None
        readings = table_readings(found.ends)
        return cls(
            m=len(readings),
            at_once=[(r.at_once.low, r.at_once.high) for r in readings],
            largest=[(r.largest.low, r.largest.high) for r in readings],
            least=[(r.least.low, r.least.high) for r in readings],
        )


class WorkloadAnswerBody(RecordBody):
    """The answers of a workload in the order of its questions, what they cost, what is left."""

    answers: list[AnswerBody] = Field(
        description="the first that was not free bears the price of all as its `epsilon_charged`"
    )
    epsilon_charged: Epsilon = Field(validation_alias="charged_nano")
    epsilon_remaining: Epsilon = Field(validation_alias="remaining_nano")
    simultaneous: SimultaneousBody | None = Field(description="null where it was not asked for")
    consistent: ConsistentBody | None = Field(
        description="null where it was not asked for, and in the result of a job"
    )
    version: int = Field(description="version of the history that the answers stand on")
    after_looking: AfterLookingBody | None = Field(
        description="null for one question, and where all intervals hold at once or allow for a "
        "choice already"
    )
    epsilon_rest: Epsilon | None = Field(
        validation_alias="rest_nano",
        description="price of `independent` answers in place of all that are longer than asked; "
        "null where none is, where it is not known, and where all intervals hold at once",
    )
    remarks: list[str] = Field(
        description="what to know of the answers, a sentence each: that some are longer than "
        "asked, or count records with missing values"
    )

    @classmethod
    def of(cls, record: object, **more: object) -> Self:
        """The workload's answer as JSON has it."""
        looked = AfterLookingBody.of(record) if isinstance(record, WorkloadAnswer) else None
        return super().of(record, after_looking=looked, **more)


class WorkloadExplanationBody(RecordBody):
    """What a workload would cost and how it would be found; nothing was spent."""

    kind: PlanKind
    price: Epsilon
    most: Epsilon = Field(description=MOST)
    price_apart: Epsilon | None = Field(
        description="sum of the prices of the questions asked one by one, each for itself alone on "
        "the present state; null where there was no time to plan them all"
    )
    remaining: Epsilon
    affordable: bool
    plan: list[PlanRowBody | PlanTableBody]
    free: list[OfferBody | None] = Field(
        description="per question what history says at no cost, by the `law` that it names, or null"
    )
    curve: list[PriceOfFactor] = Field(
        description="[factor, price] with all lengths times the factor; null is out of reach"
    )
    measure: BothChoicesBody = Field(
        description="prices of both choices of what is measured: equal, as a workload buys nothing "
        "for other questions"
    )
    simultaneous: SimultaneousBody | None = Field(description="null where it was not asked for")
    consistent: ConsistentPriceBody | None = Field(description="null where it was not asked for")
    version: int
    own: OwnPriceBody | None = Field(
        description="the asker's own allowance; null where only the budget bounds it"
    )
    protected: str | None = Field(description=PROTECTED)


_AnyAnswerBody = AnswerBody | WorkloadAnswerBody | LearntBody


def answer_body(found: AnyAnswer) -> _AnyAnswerBody:
    """The answer of a question, of a workload or of a request for a model, as JSON has it."""
    if isinstance(found, ModelAnswer):
        return LearntBody.of(found)
    if isinstance(found, WorkloadAnswer):
        return WorkloadAnswerBody.of(found, consistent=None)
    return AnswerBody.of(found)


class JobBody(RecordBody):
    """The state of a job; `result` when done, `problem` when failed."""

    id: str
    state: JobState
    dataset: str
    result: Annotated[_AnyAnswerBody, BeforeValidator(answer_body)] | None
    problem: Annotated[_ProblemBody | None, _PROBLEM_SCHEMA]


class SqlRequest(RequestBody):
    """A statement of SQL."""

    sql: StrictStr = Field(
        description="SELECT ... FROM the dataset ... WITHIN half-width CONFIDENCE probability; "
        "after EXPLAIN its price",
        json_schema_extra={"maxLength": MAX_CHARACTERS},
    )
    explain: StrictBool = Field(
        default=False,
        description="asks for the price, as EXPLAIN before the text does, which stays as it is",
    )
    measure: ChosenMeasure = None
    as_of: AskedAsOf = None
    within: float | None = Field(
        default=None,
        description="half the length of intervals where the text has no WITHIN, as if it was typed "
        "at the end; null for none",
        gt=0,
        strict=True,
    )
    confidence: float | None = Field(
        default=None,
        description="their confidence where the text has no CONFIDENCE; null for 0.95",
        gt=0,
        lt=1,
        strict=True,
    )

    spend: StrictBool = Field(
        default=True,
        description="whether it may cost anything; if not, and history does not answer it, the "
        "error `unconfirmed` has its price",
    )

    def default(self) -> Exactness:
        """How exact answers shall be where the text does not say it."""
        half_width, confidence = (
            None if value is None else Fraction(str(value))
            for value in (self.within, self.confidence)
        )
        return Exactness(half_width, confidence)


class BinningBody(BaseModel):
    """What bins hide: an attribute stands for the middle of its bin."""

    model_config = ConfigDict(from_attributes=True)

    error: Annotated[float, BeforeValidator(float)] = Field(
        description="the true value is within +- this of the one by the middles"
    )
    of: str = Field(
        description="whose value: of each `record`, of each record of the `numerator`, the "
        "`average` itself, or the `value` of the cell itself"
    )


class CellReadingBody(RecordBody):
    """Intervals of a number that hold after all numbers of its table were looked at."""

    at_once: OpenInterval = Field(description="all hold at once, so for any choice")
    largest: OpenInterval = Field(description="holds for the one that is the largest of its column")
    least: OpenInterval = Field(description="holds for the one that is the least of its column")


class SqlCellBody(RecordBody):
    """One number of the table."""

    estimate: float | None = Field(
        description="null where it is not known: the interval is all that is public of it, or the "
        "denominator may be zero",
        validation_alias=AliasPath("value", "estimate"),
    )
    interval: OpenInterval = Field(validation_alias=AliasPath("value", "interval"))
    source: Source
    consistent: float | None = Field(
        description="the value by one non-negative table for all cells; null where CONSISTENT was "
        "not said, or where the table has no record in the denominator"
    )
    binning: BinningBody | None
    after_looking: CellReadingBody | None = Field(
        description="intervals that hold after all numbers were looked at; null for one number, "
        "and where `interval` holds at once with all others or allows for a choice already"
    )
    statement: StatementBody | None = Field(
        description="what the intervals are statements of; null where nothing is known"
    )


class SqlRowBody(BaseModel):
    """One group with its numbers."""

    group: list[str | None] = Field(
        description="a value of each of `groups`; null for a missing value, and for all values "
        "together, as in a total"
    )
    cells: list[SqlCellBody]
    together: list[int] = Field(
        description="the places in `group` where null is all values together"
    )


def _of_statement(name: str) -> AliasPath:
    return AliasPath("asked", "statement", name)


_CONFIDENCE = AliasPath("asked", "confidence")
_REMARKS = (
    "what to know of its numbers, groups and conditions, a sentence each, such as in which month "
    "weeks count, or that intervals are longer than asked"
)


class SqlTableBody(RecordBody):
    """The table that a statement asked for."""

    groups: list[str] = Field(
        description="what GROUP BY names, by its alias if it has one",
        validation_alias=_of_statement("groups"),
    )
    columns: list[str] = Field(validation_alias=_of_statement("columns"))
    rows: list[SqlRowBody]
    confidence: float = Field(
        description="of each interval, or of all where `simultaneous`; the least where columns "
        "differ",
        validation_alias=_CONFIDENCE,
    )
    simultaneous: SimultaneousBody | None = Field(description="null where it was not asked for")
    epsilon_charged: Epsilon = Field(validation_alias="charged_nano")
    epsilon_remaining: Epsilon = Field(validation_alias="remaining_nano")
    version: int = Field(description="version of the history that the answers stand on")
    selected_from: SelectionBody | None = Field(
        description="the choice that the intervals allow for; null where each holds by itself",
        validation_alias=AliasPath("asked", "statement", "clauses", "looking", "selected_from"),
    )
    as_of: AsOf
    confidences: list[float] | None = Field(
        description="per column, where the text says another CONFIDENCE for some; else null",
        validation_alias=AliasPath("asked", "confidences"),
    )
    remarks: list[str] = Field(description=_REMARKS, validation_alias=_of_statement("remarks"))
    order: list[int] = Field(
        description="the items of SELECT in their order, then the rest: indices into `groups` and "
        "behind them `columns`",
        validation_alias=_of_statement("order"),
    )

    @classmethod
    def of_answer(cls, found: StatementAnswer) -> Self:
        """The table as JSON has it, its cells with what bins hide of them."""
        rows = [
            SqlRowBody(
                group=list(row.group),
                cells=[
                    SqlCellBody.of(answered, binning=cell.binning)
                    for answered, cell in zip(cells, row.cells, strict=True)
                ],
                together=list(row.together),
            )
            for row, cells in zip(found.asked.statement.rows, found.cells, strict=True)
        ]
        return cls.of(found, rows=rows)


class SqlKnownBody(RecordBody):
    """What is known of one group at no cost."""

    group: list[str | None]
    intervals: list[OpenInterval | None] = Field(description="per column; null: nothing yet")


class SqlPriceBody(RecordBody):
    """What a statement would cost; nothing was spent."""

    groups: list[str] = Field(
        description="what GROUP BY names, by its alias if it has one",
        validation_alias=_of_statement("groups"),
    )
    columns: list[str] = Field(validation_alias=_of_statement("columns"))
    n_questions: int = Field(description="linear queries that answer it")
    kind: PlanKind
    price: Epsilon
    most: Epsilon = Field(description=MOST)
    at_most: bool = Field(
        description="whether `price` is that of asking all at once, as exactly as the worst case "
        "needs: averages and quotients are measured in steps, which nearly always cost far less, "
        "and never more",
        validation_alias="is_most",
    )
    price_apart: Epsilon | None = Field(
        description="sum of the prices of its questions asked one by one; null where there is one, "
        "or was no time to plan them all"
    )
    measure: BothChoicesBody = Field(description="prices of both choices of what is measured")
    remaining: Epsilon
    affordable: bool
    free: list[SqlKnownBody]
    confidence: float = Field(validation_alias=_CONFIDENCE)
    version: int
    whole_table: bool = Field(
        description="whether HAVING, ORDER BY or LIMIT choose among the numbers once they are "
        "released: price and `free` are those of the whole table",
        validation_alias="of_whole_table",
    )
    own: OwnPriceBody | None = Field(
        description="the asker's own allowance; null where only the budget bounds it"
    )
    protected: str | None = Field(description=PROTECTED)
    remarks: list[str] = Field(description=_REMARKS, validation_alias=_of_statement("remarks"))

    @classmethod
    def of_price(cls, found: StatementExplanation) -> Self:
        """The price as JSON has it."""
        rows = zip(found.asked.statement.rows, found.known, strict=True)
        free = [{"group": row.group, "intervals": intervals} for row, intervals in rows]
        return cls.of(found, n_questions=len(found.asked.questions), free=free)


class SqlBody(BaseModel):
    """The answer of a statement: a table, or its price where that was asked; the other is null."""

    table: SqlTableBody | None
    price: SqlPriceBody | None

    @classmethod
    def of(cls, found: AnyStatement) -> Self:
        """The answer as JSON has it."""
        if isinstance(found, StatementExplanation):
            return cls(table=None, price=SqlPriceBody.of_price(found))
        return cls(table=SqlTableBody.of_answer(found), price=None)
