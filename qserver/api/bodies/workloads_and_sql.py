"""Bodies of workloads, of statements of SQL, and of jobs."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictStr,
    WithJsonSchema,
)

from qserver.answering.consistency import ConsistentAnswers
from qserver.api.bodies.answers import AnswerBody, AsOf, Interval, OpenInterval, PriceOfFactor
from qserver.api.bodies.models import LearntBody
from qserver.api.bodies.requests import JSON_REF, ChosenMeasure, RequestBody, of
from qserver.api.errors import job_problem
from qserver.api.wire import Epsilon, EpsilonBody, RecordBody
from qserver.inference.posterior.after_looking import table_readings
from qserver.query import request_fields as fields
from qserver.query.sql.exactness import Exactness
from qserver.records.answer import (
    AnyAnswer,
    JobStatus,
    ModelAnswer,
    WorkloadAnswer,
    WorkloadExplanation,
)
from qserver.records.statement import Simultaneous
from qserver.service.statement_answers import (
    AnsweredCell,
    AnyStatement,
    CellReading,
    StatementAnswer,
    StatementExplanation,
)

_ProblemBody = Annotated[dict[str, Any], BeforeValidator(job_problem)]
_PROBLEM_SCHEMA = WithJsonSchema({"anyOf": [{JSON_REF: "Problem"}, {"type": "null"}]})


_Share = Annotated[float, Field(ge=0, le=1)]
_NotNegative = Annotated[float, Field(ge=0)]


class SimultaneousBody(RecordBody, record=Simultaneous, shows="confidence method attained"):
    """That all intervals hold at once."""

    confidence: _Share
    attained: _Share | None = Field(
        None,
        description="for `posterior`: the confidence that intervals of the asked lengths hold at "
        "once; null for the others",
    )


class ConsistentBody(RecordBody, record=ConsistentAnswers, shows="estimates total distance gap"):
    """What one non-negative table answers, as near to the answers as any; no statement of error."""

    distance: _NotNegative
    gap: _NotNegative


class ConsistentPriceBody(RecordBody):
    """What consistent answers cost beside the workload: nothing."""

    price: Epsilon


class AfterLookingBody(BaseModel):
    """Intervals that hold after all answers were looked at, in the order of the questions.

    Those of `answers` hold each by itself.
    """

    m: int = Field(description="number of answers looked at")
    at_once: list[Interval] = Field(description="all hold at once, so for any choice")
    largest: list[Interval] = Field(description="interval of the largest answer")
    least: list[Interval] = Field(description="interval of the least answer")

    @classmethod
    def of(cls, found: WorkloadAnswer) -> Self | None:
        """The intervals of a workload; None without a choice, or if the intervals allow for it."""
        if not found.ends or found.answers[0].selected_from is not None:
            return None
        readings = table_readings(found.ends)
        return cls(
            m=len(readings),
            at_once=[(r.at_once.low, r.at_once.high) for r in readings],
            largest=[(r.largest.low, r.largest.high) for r in readings],
            least=[(r.least.low, r.least.high) for r in readings],
        )


class WorkloadAnswerBody(
    EpsilonBody,
    record=WorkloadAnswer,
    shows="answers epsilon_charged=charged_nano epsilon_remaining=remaining_nano simultaneous "
    "consistent version after_looking epsilon_rest=rest_nano remarks",
):
    """The answers of a workload in the order of its questions, what they cost, what is left."""

    consistent: ConsistentBody | None = Field(
        description="null if not asked for, and in the result of a job"
    )
    after_looking: AfterLookingBody | None = Field(
        description="null for one question, and where all intervals hold at once or allow for a "
        "choice already"
    )

    @classmethod
    def of(cls, record: object, **more: object) -> Self:
        """The workload's answer as JSON."""
        looked = AfterLookingBody.of(record) if isinstance(record, WorkloadAnswer) else None
        return super().of(record, after_looking=looked, **more)


class WorkloadExplanationBody(
    EpsilonBody,
    record=WorkloadExplanation,
    shows="kind price most price_apart remaining affordable plan free curve measure simultaneous "
    "consistent version own protected",
):
    """What a workload would cost and how it would be found; nothing was spent."""

    curve: list[PriceOfFactor] = Field(
        description="[factor, price] with all lengths times the factor; a null price is "
        "out of reach"
    )
    consistent: ConsistentPriceBody | None = Field(description="null if not asked for")


_AnyAnswerBody = AnswerBody | WorkloadAnswerBody | LearntBody


def answer_body(found: AnyAnswer) -> _AnyAnswerBody:
    """The answer to a question, a workload or a model request, as JSON."""
    if isinstance(found, ModelAnswer):
        return LearntBody.of(found)
    if isinstance(found, WorkloadAnswer):
        return WorkloadAnswerBody.of(found, consistent=None)
    return AnswerBody.of(found)


class JobBody(RecordBody, record=JobStatus, shows="id state dataset result problem"):
    """The state of a job; `result` when done, `problem` when failed."""

    result: Annotated[_AnyAnswerBody, BeforeValidator(answer_body)] | None
    problem: Annotated[_ProblemBody | None, _PROBLEM_SCHEMA]


class SqlRequest(RequestBody):
    """A statement of SQL."""

    sql: StrictStr = of(fields.SQL)
    explain: StrictBool = of(fields.EXPLAIN)
    measure: ChosenMeasure = of(fields.MEASURE)
    as_of: StrictStr | None = of(fields.AS_OF)
    within: float | None = of(fields.WITHIN, checked=True, strict=True)
    confidence: float | None = of(fields.SURE, checked=True, strict=True)
    spend: StrictBool = of(fields.SPEND)

    def default(self) -> Exactness:
        """The exactness where the text states none."""
        half_width, confidence = (
            None if value is None else Fraction(str(value))
            for value in (self.within, self.confidence)
        )
        return Exactness(half_width, confidence)


class BinningBody(BaseModel):
    """What bins hide: an attribute stands for the middle of its bin."""

    model_config = ConfigDict(from_attributes=True)

    error: Annotated[float, BeforeValidator(float)] = Field(
        description="the true value differs from the one by the middles by at most this"
    )
    of: str = Field(
        description="the value meant: of each `record`, of each record of the `numerator`, the "
        "`average`, or the `value` of the cell"
    )


class CellReadingBody(RecordBody, record=CellReading, shows="at_once largest least"):
    """Intervals of a number that hold after all numbers of its table were looked at."""


class SqlCellBody(
    RecordBody,
    record=AnsweredCell,
    shows="estimate=value.estimate interval=value.interval source consistent binning "
    "after_looking statement",
):
    """One number of the table."""

    binning: BinningBody | None


class SqlRowBody(BaseModel):
    """One group with its numbers."""

    group: list[str | None] = Field(
        description="value of each of `groups`; null for a missing value, and in totals for all "
        "values together"
    )
    cells: list[SqlCellBody]
    together: list[int] = Field(
        description="the places in `group` where null is all values together"
    )


class SqlTableBody(
    EpsilonBody,
    record=StatementAnswer,
    shows="groups=asked.statement.groups columns=asked.statement.columns rows "
    "confidence=asked.confidence simultaneous epsilon_charged=charged_nano "
    "epsilon_remaining=remaining_nano version "
    "selected_from=asked.statement.clauses.looking.selected_from as_of "
    "confidences=asked.confidences remarks=asked.statement.remarks order=asked.statement.order",
):
    """The table that a statement asked for."""

    rows: list[SqlRowBody]
    as_of: AsOf

    @classmethod
    def of_answer(cls, found: StatementAnswer, *, delta: float | None = None) -> Self:
        """The table as JSON, each cell with what bins hide."""
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
        return cls.of(found, rows=rows, delta=delta)


class SqlKnownBody(RecordBody):
    """What is known of one group at no cost."""

    group: list[str | None]
    intervals: list[OpenInterval | None] = Field(description="per column; null: nothing yet")


class SqlPriceBody(
    EpsilonBody,
    record=StatementExplanation,
    shows="groups=asked.statement.groups columns=asked.statement.columns n_questions kind price "
    "most at_most=is_most price_apart measure remaining affordable free "
    "confidence=asked.confidence version whole_table=of_whole_table own protected "
    "remarks=asked.statement.remarks",
):
    """What a statement would cost; nothing was spent."""

    n_questions: int = Field(description="number of linear queries that answer the statement")
    free: list[SqlKnownBody]

    @classmethod
    def of_price(cls, found: StatementExplanation, *, delta: float | None = None) -> Self:
        """The price as JSON."""
        rows = zip(found.asked.statement.rows, found.known, strict=True)
        free = [{"group": row.group, "intervals": intervals} for row, intervals in rows]
        n = len(found.asked.questions)
        return cls.of(found, n_questions=n, free=free, delta=delta)


class SqlBody(BaseModel):
    """The answer of a statement: a table, or its price where that was asked; the other is null."""

    table: SqlTableBody | None
    price: SqlPriceBody | None

    @classmethod
    def of(cls, found: AnyStatement, *, delta: float | None = None) -> Self:
        """The answer as JSON."""
        if isinstance(found, StatementExplanation):
            return cls(table=None, price=SqlPriceBody.of_price(found, delta=delta))
        return cls(table=SqlTableBody.of_answer(found, delta=delta), price=None)
