"""Tables of SQL statements: price, page, columns and files."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from qserver.portal import numbers
from qserver.portal.descriptions import Heading
from qserver.portal.drawing import MOST_PANELS, OverTime, Scale, Whisker, over_time, whiskers
from qserver.portal.pages.answers import KINDS, SliderQuote, stop_of, worthwhile
from qserver.portal.render import csv_text
from qserver.query.asking.after_looking import chosen_text
from qserver.query.question import AnyAsked, ModelAsked, Question, Workload
from qserver.query.sql.cells import StatementQuestions, asked, has_steps
from qserver.query.sql.exactness import Exactness
from qserver.query.sql.functions.function_of_sums import Binning
from qserver.query.sql.statement import Course, Statement, Sum
from qserver.query.sql.statistics.smooth_functions import are_counts, function_cells
from qserver.query.sql.tables.relative_length import confidence_of
from qserver.records.answer import Answer, CurvePoint, JobStatus, WorkloadAnswer
from qserver.service.ask import Idempotency
from qserver.service.cache.statements import StatementKey
from qserver.service.cells.answer_cells import workload_of
from qserver.service.cells.remarks import looked_numbers, with_known_lengths
from qserver.service.free_answers import AskedJob
from qserver.service.service import Service
from qserver.service.statement_answers import AnsweredCell, StatementAnswer, StatementExplanation
from qserver.service.statements import Statements
from qserver.text import group_texts

# A panel of fewer lines shows less than a row.
_LEAST_IN_PANELS = 2
_PANELLED_GROUPS = 2
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_BINNING = {
    "record": "each record",
    "numerator": "each record of the numerator",
    "average": "the average",
    "value": "the number",
}


@dataclass(frozen=True)
class TableLine:
    """One group's number, drawn on its column's scale; `consistent` as text, '–' for none.

    `value` is the estimate, to sort by.
    """

    group: tuple[str, ...]
    value: float | None
    estimate: str
    interval: str
    consistent: str
    whisker: Whisker


@dataclass(frozen=True)
class TableColumn:
    """One column of the table: its numbers, all on one scale.

    Args:
        note: what bins hide.
        over_time: the numbers as lines; None where they are bars.
        panelled: the place of the group by whose values there are tables; None for one table.
    """

    name: str
    scale: Scale
    lines: tuple[TableLine, ...]
    note: str
    over_time: OverTime | None = None
    panelled: int | None = None

    @property
    def panels(self) -> list[tuple[str, list[TableLine]]]:
        """The lines by the values of the panel group; else all lines."""
        place = self.panelled
        if place is None:
            return [("", list(self.lines))]
        return [
            (name, [line for line in self.lines if line.group[place] == name])
            for name in dict.fromkeys(line.group[place] for line in self.lines)
        ]

    @property
    def ends(self) -> tuple[str, str]:
        """The values at both ends of the scale."""
        decimals = numbers.decimals_for(self.scale.high - self.scale.low)
        return numbers.number(self.scale.low, decimals), numbers.number(self.scale.high, decimals)


def column_of(answer: StatementAnswer, k: int, chart: Chart) -> TableColumn:
    """The k-th column of a table, drawn as a chart."""
    statement = answer.asked.statement
    cells = [row[k] for row in answer.cells]
    is_sum = all(isinstance(row.cells[k], Sum) for row in statement.rows)
    scale, drawn = whiskers([numbers_of(cell) for cell in cells], with_zero=is_sum)
    texts, values = list(map(_texts, cells)), [cell.value.estimate for cell in cells]
    in_line = [numbers.in_line([text[i] for text in texts]) for i in range(3)]
    lines = tuple(
        TableLine(group_texts(row.group, row.together), *line)
        for row, *line in zip(statement.rows, values, *in_line, drawn, strict=True)
    )
    found = [b for b in (row.cells[k].binning for row in statement.rows) if b is not None]
    drawing = None
    if chart.course is not None:
        shown = [numbers_of(cell) for cell in cells]
        drawing = over_time(statement.columns[k], chart.course, statement.rows, shown)
    return TableColumn(statement.columns[k], scale, lines, _note(found), drawing, chart.panelled)


@dataclass(frozen=True)
class Chart:
    """A way to draw a table.

    Args:
        name: in addresses.
        label: in words.
        course: the group along which lines go, with its values in order; None for bars.
        panelled: the place of the group by whose values there are bars; None for bars in one table.
    """

    name: str
    label: str
    course: Course | None = None
    panelled: int | None = None


def charts_of(statement: Statement) -> list[Chart]:
    """The ways to draw a table, the best first."""
    rows, groups = statement.rows, statement.groups
    kinds = statement.kinds or ("text",) * len(groups)
    lines, panels = [], []
    for place, (group, kind) in enumerate(zip(groups, kinds, strict=True)):
        course = statement.course
        names = {row.group[place] for row in rows} - {None}
        if course is None or course.group != place:
            course = Course(place, tuple(sorted(map(str, names), key=_first_number)))
        if kind != "text" and len(names) > 1:
            lines.append(Chart(f"lines-{place}", f"lines along {group}", course))
        n_values = len({(row.group[place], place in row.together) for row in rows})
        is_full = len(rows) >= _LEAST_IN_PANELS * n_values
        if len(groups) > 1 and 2 <= n_values <= MOST_PANELS and is_full:
            panels.append(Chart(f"bars-{place}", f"bars by {group}", panelled=place))
    bars = Chart("bars", "bars")
    if statement.course is not None:
        # Lines show a course over time best.
        lines.sort(key=lambda chart: chart.course != statement.course)
        return [*lines, bars, *panels]
    # With two groups, one gives a table for each value at once; with more, the reader chooses.
    return [*panels, bars, *lines] if len(groups) == _PANELLED_GROUPS else [bars, *panels, *lines]


def _first_number(name: str) -> tuple[float, str]:
    found = _NUMBER.search(name)
    return (float(found[0]) if found else math.inf, name)


def _note(found: Sequence[Binning]) -> str:
    if not found:
        return ""
    worst = max(found, key=lambda binning: binning.error)
    return (
        f"Values count as the middle of their bin: {_BINNING[worst.of]} may be off by up to "
        f"{numbers.plain(float(worst.error))}, which the intervals do not contain."
    )


def _texts(cell: AnsweredCell) -> tuple[str, str, str]:
    """Estimate, interval rounded outward, and consistent value, as people read them."""
    estimate, low, high = numbers_of(cell)
    if is_unknown(cell):
        return "–", "nothing known yet", "–"
    width = high - low if low is not None and high is not None else math.inf
    decimals = numbers.decimals_for(width) if math.isfinite(width) else 2
    ends = (
        "no lower end" if low is None else numbers.low_end(low, decimals),
        "no upper end" if high is None else numbers.high_end(high, decimals),
    )
    shown, consistent = (
        "–" if v is None else numbers.number(v, decimals) for v in (estimate, cell.consistent)
    )
    return shown, f"{ends[0]} to {ends[1]}", consistent


def numbers_of(cell: AnsweredCell) -> tuple[float | None, float | None, float | None]:
    """The estimate and both ends of its interval."""
    return cell.value.estimate, cell.value.interval.low, cell.value.interval.high


def is_unknown(cell: AnsweredCell) -> bool:
    """Whether nothing is known of a number."""
    return numbers_of(cell) == (None, None, None)


_KINDS = {
    "fresh": "New measurements.",
    "combined": "New measurements, combined with earlier answers.",
}


@dataclass(frozen=True)
class TableView:
    """A table with all that its page shows.

    Args:
        heading: the statement.
        query_part: the question's fields as the query part of an address, or ''.
        files: address without its ending at which the table can be had as CSV and JSON.
        goes_on: whether more steps are needed before quotients are as exact as asked.
        drawn_as: the name of the chart that the reader chose; '' for the best one.
    """

    heading: Heading
    answer: StatementAnswer
    query_part: str
    files: str
    goes_on: bool = False
    drawn_as: str = ""

    @property
    def charts(self) -> list[Chart]:
        """The ways to draw the table, the best first."""
        return charts_of(self.statement)

    @property
    def chart(self) -> Chart:
        """The chosen way to draw the table."""
        charts = self.charts
        return next((chart for chart in charts if chart.name == self.drawn_as), charts[0])

    @property
    def statement(self) -> Statement:
        """The statement."""
        return self.answer.asked.statement

    @property
    def n_unknown(self) -> int:
        """How many numbers are unknown."""
        return sum(is_unknown(cell) for row in self.answer.cells for cell in row)

    @property
    def n_numbers(self) -> int:
        """How many numbers there are."""
        return sum(map(len, self.answer.cells))

    @property
    def wants_consistent(self) -> bool:
        """Whether the statement also asks for the values of one consistent table."""
        return self.statement.clauses.consistent

    @property
    def sentence(self) -> str:
        """How sure the intervals are, their cost, and the budget left."""
        found = self.answer
        percent = numbers.percent(found.asked.confidence)
        at_least = "" if found.asked.confidences is None else "at least "
        n = sum(map(len, found.cells))
        sure = f"{at_least}{percent} percent confidence"
        if n == 1:
            text = f"The interval holds with {sure}"
        elif found.asked.simultaneous:
            text = f"All {n:,} intervals hold at once with {sure}"
        else:
            text = f"{n:,} intervals, each with {sure}"
        text += chosen_text(self.statement.clauses.looking.selected_from)
        sources = {cell.source for row in found.cells for cell in row}
        is_free = not found.charged_nano and sources <= {"history", "exact"}
        cost = numbers.cost(found.charged_nano, is_free=is_free)
        return f"{text}; {cost}; remaining {numbers.epsilon_left(found.remaining_nano)}."

    @property
    def looking(self) -> str:
        """What holds for each number, for all at once and for the largest; '' where unknown."""
        return numbers.looking(looked_numbers(self.answer), n=sum(map(len, self.answer.cells)))

    @property
    def notes(self) -> str:
        """How far the table counts, and remarks on its groups; '' for none."""
        as_of = self.answer.as_of
        said = f"Counted up to {as_of}, the last period that had its data." if as_of else ""
        return " ".join(filter(None, (said, *self.statement.remarks)))

    @property
    def laws(self) -> str:
        """The laws of the intervals; '' where released answers agree."""
        cells = (cell for row in self.answer.cells for cell in row)
        return numbers.laws([cell.statement for cell in cells if cell.statement is not None])

    @property
    def columns(self) -> list[TableColumn]:
        """The table column by column."""
        chart = self.chart
        n_columns = len(self.statement.columns)
        return [column_of(self.answer, k, chart) for k in range(n_columns)]


@dataclass(frozen=True)
class TableQuote(SliderQuote):
    """The price of a table, before anything is spent."""

    found: StatementExplanation

    @property
    def heading(self) -> Heading:
        """The statement."""
        return heading_of(self.found.asked.statement)

    @property
    def how(self) -> str:
        """How the answers would be found."""
        return _KINDS.get(self.found.kind, KINDS[self.found.kind])

    @property
    def exactness(self) -> str:
        """The requirement: `17 numbers, each ± 50 with 95 percent confidence`."""
        asked = self.found.asked
        n = sum(map(len, asked.cells))
        each = "all at once" if asked.simultaneous else "each"
        size = f"{n:,} number{'s' if n > 1 else ''}, {each + ' ' if n > 1 else ''}"
        said = asked.statement
        columns = [
            f"± {_length(said.exactness_of(k))} with {numbers.percent(confidence_of(said, k))}"
            for k in range(len(said.columns))
        ]
        if len(set(columns)) == 1:
            return f"{size}{columns[0]} percent confidence"
        named = zip(said.columns, columns, strict=True)
        return size + "; ".join(f"{name} {text} percent confidence" for name, text in named)

    @property
    def n_known(self) -> int:
        """How many numbers have a free interval."""
        return sum(i is not None for row in self.found.known for i in row)


def _length(exactness: Exactness) -> str:
    """Half the length of intervals, in units or as a part of the number."""
    if exactness.part is not None:
        return f"{numbers.plain(float(100 * exactness.part))} percent of it"
    return numbers.plain(float(exactness.half_width or 0))


def heading_of(statement: Statement) -> Heading:
    """The statement as written; its columns alone would not say whom it counts."""
    return Heading(statement.source.text.strip(), "")


def table_quote(
    service: Service,
    dataset: str,
    statement: Statement,
    *,
    by: str,
    length: float | None,
    query: str,
) -> TableQuote:
    """The price of a statement.

    Args:
        length: of the form, where the text does not say how long intervals may be; else None.
        query: the question's fields as the query part of an address.
    """
    found = Statements(service).explain(dataset, statement, by=by)
    if length is None:
        return TableQuote((), 0, query, found)
    curve = [CurvePoint(length * p.factor, p.price_nano) for p in found.curve]
    points = worthwhile(curve, CurvePoint(length, found.price_nano))
    is_free = found.kind in ("free", "exact")
    stops = tuple(
        stop_of(
            p.length, p.price_nano, found.remaining_nano, is_free=is_free and p.length >= length
        )
        for p in points
    )
    chosen = min(range(len(stops)), key=lambda i: abs(2 * stops[i].within - length))
    return TableQuote(stops, chosen, query, found)


def known_view(
    service: Service, dataset: str, statement: Statement, *, query: str, by: str = ""
) -> TableView:
    """The table of history for a statement; nothing is spent.

    Where history answers all of it, that is the table of whoever asks it.
    """
    statements = Statements(service)
    questions = statements.asked(dataset, statement)
    workload, status = workload_of(questions), service.dataset(dataset)
    if has_steps(statement):
        known = service.known_workload(dataset, workload, by=by)
    elif (free := service.free_workload(dataset, workload, by=by)) is not None:
        return _view_of(dataset, statements.table(dataset, questions, free), query)
    else:
        known = service.insight.known_numbers(dataset, workload)
    answer = statements.known_table(
        dataset,
        with_known_lengths(questions, known),
        known,
        remaining_nano=status.remaining_nano,
        version=status.version,
    )
    return _view_of(dataset, answer, query)


def known_job(
    service: Service, key: StatementKey, statement: Statement, *, wait_s: float
) -> JobStatus | None:
    """The job that computes the table of `known_view`, if that takes longer than `wait_s`."""
    statements = Statements(service)
    if looks := statements.look(key, statement, wait_s=wait_s):
        return looks
    questions = statements.asked(key.name, statement)
    return service.known_job(key.name, workload_of(questions), wait_s=wait_s, by=key.by)


def kept_view(service: Service, key: StatementKey) -> TableView | None:
    """The table that history gave for a form, while nothing has changed since; else None."""
    found = service.kept_statements.find(key)
    return _view_of(key.name, found, key.text) if isinstance(found, StatementAnswer) else None


def _view_of(dataset: str, answer: StatementAnswer, query: str) -> TableView:
    files = f"/portal/datasets/{dataset}/answer"
    return TableView(heading_of(answer.asked.statement), answer, query, files)


def job_view(
    service: Service,
    statement: Statement,
    asked_job: AskedJob,
    *,
    query: str,
    idempotency: Idempotency | None = None,
) -> TableView | None:
    """The table of a job for this statement; None if the job's question differs.

    Args:
        idempotency: the key under which the statement is asked in steps, if it is.
    """
    job, result = asked_job.asked, asked_job.status.result
    if isinstance(job, ModelAsked) or not isinstance(result, Answer | WorkloadAnswer):
        return None
    questions = _questions_of(statement, job)
    if questions is None:
        return None
    statements, dataset = Statements(service), asked_job.status.dataset
    heading, files = heading_of(statement), f"/portal/jobs/{asked_job.status.id}/answer"
    if has_steps(statement) and not statement.clauses.simultaneous:
        # The job was one of several steps: the page shows all their answers.
        known = known_view(service, dataset, statement, query=query).answer
        charged = statements.charged_nano(dataset, idempotency) if idempotency else 0
        known = replace(known, charged_nano=max(charged, result.charged_nano))
        return TableView(heading, known, query, files, statements.goes_on(dataset, statement))
    return TableView(heading, statements.table(dataset, questions, result), query, files)


def asks(statement: Statement, job: AnyAsked) -> bool:
    """Whether a job asks the same as a statement."""
    return not isinstance(job, ModelAsked) and _questions_of(statement, job) is not None


def _questions_of(statement: Statement, job: Question | Workload) -> StatementQuestions | None:
    """The statement's cells on the questions of a job; None if these differ."""
    # The text alone decides the questions and their order.
    several = {(i, k): (1.0,) * len(cell.queries) for i, k, cell in function_cells(statement)}
    questions = asked(statement, of_several=several)
    queries, of_job = ([q.query for q in one.questions] for one in (questions, job))
    # But the counts behind quantiles depend on releases.
    if queries != of_job and not are_counts([q for q in of_job if q not in queries], statement):
        return None
    return replace(questions, questions=job.questions)


def table_csv(answer: StatementAnswer) -> str:
    """A line per group: its values, and per column the estimate and both ends; '' for none.

    Where the statement says CONSISTENT, the consistent value of the column comes after them.
    """
    statement = answer.asked.statement
    names = _unique(statement.columns, statement.groups)
    wants_consistent = statement.clauses.consistent
    ends = ("", "_low", "_high", *(["_consistent"] if wants_consistent else []))

    def values(cell: AnsweredCell) -> list[float | None]:
        return [*numbers_of(cell), *([cell.consistent] if wants_consistent else [])]

    header = [*statement.groups, *(n + end for n in names for end in ends)]
    lines = [
        ["" if v is None else v for v in (*row.group, *(v for c in cells for v in values(c)))]
        for row, cells in zip(statement.rows, answer.cells, strict=True)
    ]
    return csv_text([header, *lines])


def _unique(columns: Sequence[str], taken: Sequence[str]) -> list[str]:
    """The columns' names; a repeated one gets a number."""
    used, names = set(taken), []
    for column in columns:
        name, n = column, 2
        while name in used:
            name, n = f"{column}_{n}", n + 1
        used.add(name)
        names.append(name)
    return names
