"""Spend after each arrival of a dataset that grows by the week, by three ways to keep it.

`rotate` puts the whole data so far in the old data's place, so each answer costs again. `static`
knows the domain with all weeks from the start, and may buy tables. `append` seals one week after
the other. All three are asked the same questions after each arrival; what they spend
depends on questions and prices alone, so no data are read. A standing question is asked once after
each arrival; the dashboard asks eleven. The streams of spans ask four questions about any span of
the weeks so far, of all or of a sex, an age or both; none of them need return.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from qserver.query.linear_query import linear_query
from qserver.query.primitive import primitive
from qserver.query.requirement import DEFAULT_PHI, Requirement
from qserver.query.weights import Weights, indicator, interval
from qserver.records.charge import NANO

from .play import snapshot_for
from .streams import Asked
from .synthetic_noise import Snapshot
from .tables import Report, Value

N_WEEKS, _QUICK_WEEKS = 52, 5
_SEX, _AGE = 2, 6
SIZES = (N_WEEKS, _SEX, _AGE)
_WINDOW = 4
_SHOWN = (1, 4, 8, 13, 26, 52)
_LENGTH, _CONFIDENCE = 200.0, 0.95
_A_WEEK, _WITH_SEX, _WITH_AGE = 4, 0.5, 0.3
_SEEDS = (90411, 90412, 90413)
METHODS = ("rotate", "static", "append")
Questions = Callable[[int], list[Asked]]


@dataclass(frozen=True)
class Standing:
    """Questions that are asked after each arrival; `of` gives those after week t has come."""

    name: str
    of: Questions


def run(*, quick: bool) -> Report:
    """Epsilon spent after each arrival, per stream and way."""
    n = _QUICK_WEEKS if quick else N_WEEKS
    rows = [row for stream in (STREAMS[:2] if quick else STREAMS) for row in _rows(stream, n)]
    return Report(
        name="weeks",
        title=f"Epsilon spent after arrivals, {n} weeks",
        parameters={"length": _LENGTH, "confidence": _CONFIDENCE, "phi": DEFAULT_PHI, "weeks": n},
        rows=tuple(rows),
    )


def _rows(stream: Standing, n: int) -> Iterator[Mapping[str, Value]]:
    played = {method: spent_after(stream, method, n) for method in METHODS}
    for after in (a for a in _SHOWN if a <= n):
        spent: dict[str, Value] = {m: found[after - 1] for m, found in played.items()}
        ratio = played["append"][after - 1] / played["static"][after - 1]
        yield {"stream": stream.name, "arrivals": after, **spent, "append_over_static": ratio}


def spent_after(stream: Standing, method: str, n: int) -> list[float]:
    """Epsilon spent after each of n arrivals."""
    snapshot, earlier, found = _snapshot(method), 0, list[float]()
    for t in range(n):
        if method == "rotate" and t:
            earlier += snapshot.ledger.spent_nano
            snapshot = _snapshot(method)
        snapshot.n_sealed = t + 1
        for asked in stream.of(t):
            plan = snapshot.plan(asked.query, asked.requirement)
            snapshot.carry_out(plan, asked.query)
        found.append((earlier + snapshot.ledger.spent_nano) / NANO)
    return found


def _snapshot(method: str) -> Snapshot:
    axis = 0 if method == "append" else None
    return snapshot_for(SIZES, relation="add-remove", phi=DEFAULT_PHI, period_axis=axis)


def _counted(weeks: range, rest: Mapping[int, Weights], *, length: float = _LENGTH) -> Asked:
    axes = {0: interval(N_WEEKS, weeks.start, weeks.stop), **rest}
    return Asked(primitive(linear_query(SIZES, [(1, axes)])), Requirement(length, _CONFIDENCE))


def _this_week(t: int) -> list[Asked]:
    return [_counted(range(t, t + 1), {})]


def _last_weeks(t: int) -> list[Asked]:
    return [_counted(range(max(0, t + 1 - _WINDOW), t + 1), {})]


def _so_far(t: int) -> list[Asked]:
    return [_counted(range(t + 1), {})]


def _so_far_longer(t: int) -> list[Asked]:
    return [_counted(range(t + 1), {}, length=_LENGTH * (t + 1) ** 0.5)]


def _by_week(t: int) -> list[Asked]:
    return [_counted(range(i, i + 1), {}) for i in range(t + 1)]


def _dashboard(t: int) -> list[Asked]:
    """This week, the last four and all so far; the last four by sex; this week by age."""
    found = [*_this_week(t), *_last_weeks(t), *_so_far(t)]
    recent = range(max(0, t + 1 - _WINDOW), t + 1)
    found += [_counted(recent, {1: indicator(_SEX, [sex])}) for sex in range(_SEX)]
    return found + [_counted(range(t, t + 1), {2: indicator(_AGE, [a])}) for a in range(_AGE)]


def _crossed(t: int) -> list[Asked]:
    """Every fourth week sex by age over the last four."""
    if t % _WINDOW:
        return _this_week(t)
    recent = range(max(0, t + 1 - _WINDOW), t + 1)
    cells = product(range(_SEX), range(_AGE))
    return [_counted(recent, {1: indicator(_SEX, [s]), 2: indicator(_AGE, [a])}) for s, a in cells]


def _spans(seed: int) -> Questions:
    def of(t: int) -> list[Asked]:
        rng, found = np.random.default_rng([seed, t]), list[Asked]()
        for _ in range(_A_WEEK):
            first, last = sorted(int(i) for i in rng.integers(0, t + 1, 2))
            rest = dict[int, Weights]()
            if rng.random() < _WITH_SEX:
                rest[1] = indicator(_SEX, [int(rng.integers(_SEX))])
            if rng.random() < _WITH_AGE:
                rest[2] = indicator(_AGE, [int(rng.integers(_AGE))])
            found.append(_counted(range(first, last + 1), rest))
        return found

    return of


STREAMS: Sequence[Standing] = (
    Standing("this week", _this_week),
    Standing("last four weeks", _last_weeks),
    Standing("each week", _by_week),
    Standing("all so far", _so_far),
    Standing("all so far, longer by the root", _so_far_longer),
    Standing("dashboard", _dashboard),
    Standing("sex by age, every fourth week", _crossed),
    *(Standing(f"spans, seed {seed}", _spans(seed)) for seed in _SEEDS),
)
