"""What each unit of privacy costs on one stream: a dashboard asked again after each arrival.

Each of 52 weeks is followed by its count to within 100, the last four weeks and all so far to
within 200, and its counts by sex and by eight age groups to within 150, each at 95 percent.
`after_13` is the epsilon spent after 13 arrivals. It depends on no count, so nothing is measured.
"""

from __future__ import annotations

from collections.abc import Iterator

from qserver.ledger.cell_ledger import CellLedger
from qserver.ledger.one_person import ByPeriod, Neighbours
from qserver.query.linear_query import linear_query
from qserver.query.primitive import Primitive, primitive
from qserver.query.requirement import DEFAULT_PHI, Requirement
from qserver.query.weights import interval
from qserver.records.charge import NANO, Relation

from .play import snapshot_for
from .tables import Report, Value

N_WEEKS, N_AGES = 52, 8
SIZES = (N_WEEKS, N_AGES, 2)
LIMIT = 1000 * NANO
SHOWN = (1, 4, 13, 26, 52)
REPLACED: Relation = "replace-one"


def by_week(most: int, *, same_period: bool = False) -> ByPeriod:
    return ByPeriod(0, N_WEEKS, most, same_period)


UNITS = {
    "`person`, K = 1": Neighbours(),
    "`person-period`, K = 1": Neighbours(),
    "`person`, K = 4, M = 1": Neighbours(records_per_person=4, by_period=by_week(1)),
    "`person`, K = 4": Neighbours(records_per_person=4),
    "`person`, K = 13, M = 1": Neighbours(records_per_person=13, by_period=by_week(1)),
    "`person-unbounded`, M = 1": Neighbours(records_per_person=N_WEEKS, by_period=by_week(1)),
    "`person`, K = 4, M = 1, `replace-one`, `any-period`": Neighbours(
        REPLACED, 4, by_period=by_week(1)
    ),
    "`person`, K = 4, M = 1, `replace-one`, `same-period`": Neighbours(
        REPLACED, 4, by_period=by_week(1, same_period=True)
    ),
}


def dashboard(week: int) -> Iterator[tuple[Primitive, float]]:
    """The questions after the arrival of a week, with their lengths."""
    this = interval(N_WEEKS, week, week + 1)
    yield primitive(linear_query(SIZES, [(1, {0: this})])), 200.0
    yield (
        primitive(linear_query(SIZES, [(1, {0: interval(N_WEEKS, max(0, week - 3), week + 1)})])),
        400.0,
    )
    yield primitive(linear_query(SIZES, [(1, {0: interval(N_WEEKS, 0, week + 1)})])), 400.0
    for axis in (1, 2):
        for value in range(SIZES[axis]):
            chosen = {0: this, axis: interval(SIZES[axis], value, value + 1)}
            yield primitive(linear_query(SIZES, [(1, chosen)])), 300.0


def spent(neighbours: Neighbours, n_weeks: int = N_WEEKS) -> list[float]:
    """Epsilon spent after each arrival; no figure depends on what was answered."""
    snapshot = snapshot_for(SIZES, relation="add-remove", phi=DEFAULT_PHI, period_axis=0)
    snapshot.limit_nano, snapshot.ledger = LIMIT, CellLedger.like(SIZES, neighbours)
    found = []
    for week in range(n_weeks):
        snapshot.n_sealed = week + 1
        for query, length in dashboard(week):
            snapshot.ask(query, Requirement(length, 0.95))
        found.append(snapshot.ledger.spent_nano / NANO)
    return found


def run(*, quick: bool) -> Report:
    """Epsilon spent after so many arrivals, by unit."""
    shown = SHOWN[:2] if quick else SHOWN
    rows: list[dict[str, Value]] = []
    for name, neighbours in UNITS.items():
        after = spent(neighbours, shown[-1])
        rows.append({"unit": name, **{f"after_{n}": f"{after[n - 1]:.3f}" for n in shown}})
    return Report(
        name="units",
        title="Epsilon spent by a dashboard, by the unit of privacy",
        parameters={"weeks": shown[-1]},
        rows=tuple(rows),
    )
