"""Budget spent by rent-or-buy over blocks on covid, citibike and range streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median

from qserver.charge import NANO, Relation
from qserver.planning.bought import row_half_width
from qserver.planning.purchase import Purchase
from qserver.planning.rent_or_buy import DEFAULT_PHI

from .play import Played, hindsight_price, play, snapshot_for
from .ranges import UNIT_NANO, WORKLOADS
from .streams import (
    CITIBIKE_SIZES,
    COVID_SIZES,
    N_DRAWS,
    Asked,
    citibike,
    covid,
)
from .tables import Report, Value
from .workloads import QuerySource

SEEDS = (211, 212, 213)
MILESTONES = (10, 100, 1_000, 10_000)
_RANGES = 500
_CHECKPOINTS = (1, 2, 5, 8, 10, 12, 15, 20, 25, 30, 40, 50, 75, 100, 150, 200, 300, 500)
_HINDSIGHT_DRAWS = 4_000


@dataclass(frozen=True)
class Stream:
    """A named stream of questions on one domain under one neighbour relation.

    Args:
        unit: epsilon per unit shown.
    """

    name: str
    sizes: tuple[int, ...]
    relation: Relation
    unit: float
    questions: Callable[[int, int], Iterable[Asked]]
    n: int


def run(*, quick: bool) -> Report:
    """Running spend, hindsight best and violated intervals, per stream."""
    seeds = SEEDS[:1] if quick else SEEDS
    rows = [_row(stream, seeds, 60 if quick else stream.n) for stream in STREAMS]
    return Report(
        name="blocks_spend",
        title=f"Budget spent by rent or buy over blocks, median of {len(seeds)} seeds",
        parameters={
            "seeds": list(seeds),
            "phi": DEFAULT_PHI,
            "range_unit_epsilon": UNIT_NANO / 1e9,
        },
        rows=tuple(rows),
    )


def _row(stream: Stream, seeds: Sequence[int], n: int) -> dict[str, Value]:
    played, best = [], []
    for seed in seeds:
        empty = snapshot_for(stream.sizes, relation=stream.relation, phi=DEFAULT_PHI, seed=seed)
        played.append(play(empty, stream.questions(seed, n)))
        asked = list(islice(stream.questions(seed, n), _HINDSIGHT_DRAWS))
        best.append(hindsight_price(stream.sizes, asked, relation=stream.relation) / stream.unit)
    ends = [p.spent[-1] / stream.unit for p in played]
    return {
        "stream": stream.name,
        "relation": stream.relation,
        **{f"at_{m}": _median_at(played, m, stream.unit) for m in MILESTONES},
        "end": median(ends),
        "end_most": max(ends),
        "hindsight": median(best),
        "worst_ratio": _worst_ratio(stream, seeds[0], played[0]),
        "ratio": median(e / b for e, b in zip(ends, best, strict=True)),
        "violated_percent": 100.0
        * sum(p.violated for p in played)
        / sum(p.checked for p in played),
        "checked": sum(p.checked for p in played),
        "plan_ms": median(p.times.median_ms for p in played),
        "plan_p99_ms": max(p.times.quantile_ms(0.99) for p in played),
    }


def _worst_ratio(stream: Stream, seed: int, played: Played) -> float | None:
    """Greatest spend over the lesser of own rows and hindsight best, after some numbers of queries.

    For streams on which every question counts; None for those that mostly repeat themselves.
    """
    if stream.n > _RANGES:
        return None
    asked = list(stream.questions(seed, len(played.spent)))
    own = snapshot_for(stream.sizes, relation=stream.relation, phi=DEFAULT_PHI)
    worst, rented = 0.0, []
    for question in asked:
        known = own.bought.known(question.query).half_width(question.requirement.confidence)
        if known > row_half_width(question.query, question.requirement):
            row = own.bought.own_row(question.query, question.requirement)
            own.buy(Purchase(() if row is None else (row,)))
        rented.append(own.ledger.spent_nano / NANO)
    for n in (m for m in _CHECKPOINTS if m <= len(asked)):
        best = hindsight_price(stream.sizes, asked[:n], relation=stream.relation)
        worst = max(worst, played.spent[n - 1] / min(best, rented[n - 1]))
    return worst


def _median_at(played: Sequence[Played], n: int, unit: float) -> float | None:
    found = [spent / unit for p in played if (spent := p.at(n)) is not None]
    return median(found) if found else None


def _covid(zipf: float, relation: Relation) -> Stream:
    def questions(seed: int, n: int) -> Iterable[Asked]:
        return covid(seed, zipf=zipf, n_draws=n)

    return Stream(f"covid, Zipf {zipf:g}", COVID_SIZES, relation, 1.0, questions, N_DRAWS)


def _citibike(relation: Relation) -> Stream:
    def questions(seed: int, n: int) -> Iterable[Asked]:
        return citibike(seed, n_draws=n)

    return Stream("citibike", CITIBIKE_SIZES, relation, 1.0, questions, N_DRAWS)


def _ranges(index: int) -> Stream:
    workload = WORKLOADS[index]

    def questions(seed: int, n: int) -> Iterable[Asked]:
        found = workload.questions(QuerySource.seeded(workload.sizes, seed), n)
        return [Asked(q.query, q.requirement) for q in found]

    return Stream(workload.name, workload.sizes, "add-remove", UNIT_NANO / 1e9, questions, _RANGES)


RELATIONS: tuple[Relation, ...] = ("add-remove", "replace-one")
STREAMS = (
    *(_ranges(i) for i in range(len(WORKLOADS))),
    *(_covid(zipf, relation) for relation in RELATIONS for zipf in (0.0, 1.0)),
    *(_citibike(relation) for relation in RELATIONS),
)
