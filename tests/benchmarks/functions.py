"""What numbers that are no sums cost on Adult: averages, shares, deviations, medians by group.

Each run is a dataset of its own with the same records, so that nothing is known beforehand. All is
real but the HTTP: reading, steps, plans, the worker's noise. The same texts are run by DuckDB on
the records, for the true numbers.

at_most: what EXPLAIN says before. numbers: of all runs, of which `met` are as exact as asked; the
others have surely too few records, and are measured no further. half_width: the longest of a run
that is as short as asked, in the mean. held: the numbers whose interval holds the true one.
prototype: the cost of a prototype's median run, see `studies/posteriors.md`.
"""

from __future__ import annotations

import csv
import gzip
import math
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import duckdb

from qserver.cli.local.demo import adult_csv, adult_domain
from qserver.query.domain import Domain
from qserver.query.domain_loading import load_domain
from qserver.records.problem import error_from_problem
from qserver.service.statement_answers import StatementAnswer, StatementExplanation
from qserver.service.statements import Statements
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.store import Store
from tests.deployment import Deployment

from .tables import Report, Value

N_RUNS, N_QUICK = 20, 1
LIMIT = "100"
_FROM = "FROM people"
_MOST_JOBS, _ROUNDING = 60, 1 + 1e-6


@dataclass(frozen=True)
class Line:
    """A statement, and what it cost in the prototype.

    Args:
        what: shown in the table.
        text: without its WITHIN.
        within: half-width that is asked.
        prototype: epsilon.
    """

    what: str
    text: str
    within: float
    prototype: float


def _by(group: str, number: str, within: float, prototype: float, tail: str = "") -> Line:
    what = f"{group}, {number}{', top 3' if tail else ''}".replace('"', "")
    text = f"SELECT {group}, {number} AS x {_FROM} GROUP BY {group} {tail}"
    return Line(what, text, within, prototype)


def _alone(number: str, within: float, prototype: float) -> Line:
    return Line(number.replace('"', ""), f"SELECT {number} AS x {_FROM}", within, prototype)


_HOURS, _YEARS = '"hours-per-week"', '"education-num"'
LINES = (
    _by("sex", f"AVG({_HOURS})", 1, 0.0245),
    _alone("AVG(age)", 0.5, 0.0127),
    _by("occupation", f"AVG({_HOURS})", 1, 0.261),
    _by("education", "AVG(CASE WHEN income = '>50K' THEN 1 ELSE 0 END)", 0.05, 0.109),
    _by("occupation", "COUNT(*) / SUM(COUNT(*)) OVER ()", 0.01, 0.0142),
    _alone("STDDEV(age)", 0.5, 0.0274),
    _by("sex", f"STDDEV({_HOURS})", 1, 0.0805),
    _alone(f"CORR(age, {_HOURS})", 0.1, 0.0392),
    _by("education", "AVG(age)", 2, 0.131, "ORDER BY x DESC LIMIT 3"),
    _alone(f"SUM({_YEARS}) / SUM({_HOURS})", 0.01, 0.0071),
    _alone(f"SUM({_YEARS} * {_HOURS}) / SUM({_HOURS})", 0.1, 0.0279),
    _alone("MEDIAN(age)", 2, 0.0067),
    _by("sex", "MEDIAN(age)", 2, 0.0218),
    _by("education", "MEDIAN(age)", 5, 0.041),
    _alone(f"QUANTILE({_HOURS}, 0.9)", 2, 0.0440),
)


@dataclass(frozen=True)
class _Run:
    """One run: epsilon, and its numbers that have a value."""

    at_most: float
    cost: float
    half_width: float
    n_numbers: int
    n_met: int
    n_held: int


def run(*, quick: bool) -> Report:
    """Costs and intervals by statement."""
    lines = LINES[1:2] if quick else LINES
    n_runs = N_QUICK if quick else N_RUNS
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedServer.start(Path(folder) / "store") as server,
    ):
        rows = [_row(line, list(_runs(line, Path(folder), server.url, n_runs))) for line in lines]
    return Report(
        name="functions",
        title="Epsilon that averages, shares, deviations and medians of Adult cost",
        parameters={"confidence": 0.95, "at_least": 1_000, "limit": LIMIT, "runs": n_runs},
        rows=tuple(rows),
    )


def _row(line: Line, runs: Sequence[_Run]) -> dict[str, Value]:
    costs = [one.cost for one in runs]
    median = statistics.median(costs)
    return {
        "number": line.what,
        "within": line.within,
        "half_width": round(statistics.mean(one.half_width for one in runs), 4),
        "at_most": round(max(one.at_most for one in runs), 5),
        "median_cost": round(median, 5),
        "most_cost": round(max(costs), 5),
        "prototype": line.prototype,
        "ratio": round(median / line.prototype, 2),
        "numbers": sum(one.n_numbers for one in runs),
        "met": sum(one.n_met for one in runs),
        "held": sum(one.n_held for one in runs),
    }


def _runs(line: Line, folder: Path, url: str, n_runs: int) -> Iterator[_Run]:
    for _ in range(n_runs):
        with tempfile.TemporaryDirectory(dir=folder) as place:
            made = Deployment.make(Path(place), url, limit=LIMIT, rows=_rows(), domain=_domain())
            yield _asked(made, line)
            Store.open(made.settings).client.flushall()


def _asked(town: Deployment, line: Line) -> _Run:
    text = f"{line.text} WITHIN {line.within}"
    explained = Statements(town.service()).run("people", f"EXPLAIN {text}", wait_s=0)
    assert isinstance(explained, StatementExplanation)
    statements, spender = Statements(town.service()), town.spender()
    for _ in range(_MOST_JOBS):
        found = statements.run("people", text, wait_s=0)
        if isinstance(found, StatementAnswer):
            cost = town.service().dataset("people").spent_nano / 1e9
            return _Run(explained.price_nano / 1e9, cost, *_held(found, line))
        town.work_off(spender)
        if problem := town.service().job(found.id).problem:
            raise error_from_problem(problem)
    raise AssertionError("A statement whose questions were answered must be free.")


def _held(found: StatementAnswer, line: Line) -> tuple[float, int, int, int]:
    """The longest half-width as asked; how many numbers there are, how many meet it, and hold."""
    truths, halves, n_held = _truths(line), list[float](), 0
    for row, cells in zip(found.asked.statement.rows, found.cells, strict=True):
        ends, truth = cells[-1].value.interval, truths.get(str(row.group[0]) if row.group else "")
        if truth is not None:
            low = -math.inf if ends.low is None else ends.low
            high = math.inf if ends.high is None else ends.high
            halves.append((high - low) / 2)
            n_held += low <= truth <= high
    met = [half for half in halves if half <= line.within * _ROUNDING]
    return max(met, default=0.0), len(halves), len(met), n_held


@cache
def _truths(line: Line) -> dict[str, float | None]:
    """The true numbers by group, of DuckDB."""
    text = line.text.split(" ORDER BY ")[0].replace("QUANTILE(", "quantile_disc(")
    with duckdb.connect(":memory:") as connection:
        connection.execute(f"CREATE TABLE people AS SELECT * FROM read_csv('{adult_csv()}')")
        found = connection.execute(text).fetchall()
    return {str(row[0]) if len(row) > 1 else "": row[-1] for row in found}


@cache
def _domain() -> Domain:
    return load_domain(adult_domain())


@cache
def _rows() -> list[tuple[str, ...]]:
    with gzip.open(adult_csv(), "rt", encoding="utf-8", newline="") as file:
        head, *body = csv.reader(file)
    places = [head.index(name) for name in _domain().names]
    return [tuple(row[i] for i in places) for row in body]
