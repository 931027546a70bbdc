"""Budget spent by rent-or-buy over blocks on covid, citibike and range streams.

Epsilon spent, in units of alpha0 for the range streams. covid: four attributes, 1,008,532
records, 34,425 counts; citibike: eight attributes, 2,485 marginal cells; 70,000 draws each; the
total is public under replace-one. In `declared` the values of the attribute are the segments
between the cuts. `hindsight` is of the first 4,000 questions at most. `worst_ratio` is with any
seed, after any of 19 numbers of questions from 1 to 1,000. `checked` counts the intervals
compared with the truth.

The kept results are of an earlier rule for buying tables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median

import numpy as np

from qserver.ledger.cell_ledger import CellLedger
from qserver.planning.blocks.own_rows import Own
from qserver.query.linear_query import linear_query
from qserver.query.primitive import primitive
from qserver.query.requirement import DEFAULT_PHI
from qserver.query.weights import interval
from qserver.records.charge import NANO, Charge, Relation
from tests.benchmarks.synthetic_noise import question_of

from .best_blocks import hindsight_price
from .play import play, snapshot_for
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

SEEDS = (990, 991, 992)
MILESTONES = (10, 100, 1_000, 10_000)
_RANGES = 500
_CHECKPOINTS = (1, 2, 5, 8, 10, 12, 15, 20, 25, 30, 40, 50, 75, 100, 150, 200, 300, 500, 1_000)
_HINDSIGHT_DRAWS = 4_000
_ON_CUTS, _N_CUTS = 2, 50


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
    rows = [
        _row(stream, seeds, 30 if quick else stream.n)
        for stream in (STREAMS[::4] if quick else STREAMS)
    ]
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


@dataclass(frozen=True)
class Piece:
    """One stream played with one seed.

    Args:
        spent_at: units spent after each milestone and at the end, None beyond the stream.
        hindsight: units that the best base found costs for the first 4,000 questions.
        worst_ratio: greatest spend over the lesser of own rows and hindsight best, after any of
            the checkpoints' numbers of questions.
    """

    spent_at: Mapping[str, float | None]
    hindsight: float
    worst_ratio: float
    checked: int
    violated: int
    plan_ms: float
    plan_p99_ms: float

    @property
    def end(self) -> float:
        """Units spent in all."""
        found = self.spent_at["end"]
        return 0.0 if found is None else found


def piece(stream: Stream, seed: int, n: int) -> Piece:
    """Play a stream's first `n` questions."""
    empty = snapshot_for(stream.sizes, relation=stream.relation, phi=DEFAULT_PHI, seed=seed)
    played = play(empty, stream.questions(seed, n))
    asked = list(islice(stream.questions(seed, n), _HINDSIGHT_DRAWS))
    best = {
        m: hindsight_price(stream.sizes, asked[:m], relation=stream.relation)
        for m in (*_CHECKPOINTS, _HINDSIGHT_DRAWS)
        if m <= len(asked) or m == _HINDSIGHT_DRAWS
    }
    alone = alone_at(stream, asked)
    ratios = [played.spent[m - 1] / min(best[m], alone[m]) for m in alone]
    at = {f"at_{m}": played.at(m) for m in MILESTONES} | {"end": played.spent[-1]}
    return Piece(
        spent_at={k: None if v is None else v / stream.unit for k, v in at.items()},
        hindsight=best[_HINDSIGHT_DRAWS] / stream.unit,
        worst_ratio=max(ratios),
        checked=played.checked,
        violated=played.violated,
        plan_ms=played.times.median_ms,
        plan_p99_ms=played.times.quantile_ms(0.99),
    )


def _row(stream: Stream, seeds: Sequence[int], n: int) -> dict[str, Value]:
    return row_of(stream, [piece(stream, seed, n) for seed in seeds])


def row_of(stream: Stream, pieces: Sequence[Piece]) -> dict[str, Value]:
    """The table's row of a stream."""
    checked = sum(p.checked for p in pieces)
    return {
        "stream": stream.name,
        "relation": stream.relation,
        "seeds": len(pieces),
        **{k: _median([p.spent_at[k] for p in pieces]) for k in pieces[0].spent_at},
        "end_most": max(p.end for p in pieces),
        "hindsight": median(p.hindsight for p in pieces),
        "worst_ratio": max(p.worst_ratio for p in pieces),
        "ratio": median(p.end / p.hindsight for p in pieces),
        "violated_percent": 100.0 * sum(p.violated for p in pieces) / checked,
        "checked": checked,
        "plan_ms": median(p.plan_ms for p in pieces),
        "plan_p99_ms": max(p.plan_p99_ms for p in pieces),
    }


def alone_at(
    stream: Stream, asked: Sequence[Asked], numbers: Collection[int] = _CHECKPOINTS
) -> dict[int, float]:
    """Epsilon that own rows alone would be charged after these numbers of questions."""
    empty = snapshot_for(stream.sizes, relation=stream.relation, phi=DEFAULT_PHI)
    neighbours, charged = empty.ledger.neighbours, dict[str, int]()
    alone, found = CellLedger.like(stream.sizes, neighbours), dict[int, float]()
    for n, question in enumerate(asked, start=1):
        query, confidence = question.query, question.requirement.confidence
        half_width = question_of(query, question.requirement).row_half_width
        alpha_nano = Own(query, half_width, confidence).alpha_nano(neighbours.law)
        rise = alpha_nano - charged.get(query.key, 0)
        if rise > 0:
            charge = Charge(query.row, rise, "alone")
            after = alone.settled_after([charge])
            alone.append(charge)
            alone.cap(after)
            charged[query.key] = alpha_nano
        if n in numbers:
            found[n] = alone.spent_nano / NANO
    return found


def _median(spent: Sequence[float | None]) -> float | None:
    found = [s for s in spent if s is not None]
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


def _declared_cuts() -> Stream:
    """The ranges on 50 cuts where the attribute's values are the 49 segments between them."""
    workload = WORKLOADS[_ON_CUTS]

    def questions(seed: int, n: int) -> Iterable[Asked]:
        cuts = QuerySource.seeded(workload.sizes, seed).breakpoints(_N_CUTS)
        for asked in workload.questions(QuerySource.seeded(workload.sizes, seed), n):
            (term,) = asked.query.row.terms
            # A range over all values has no weights of its own.
            inside = np.ones(_N_CUTS - 1, dtype=np.int64)
            for weights in term.by_axis.values():
                inside = weights.dense[cuts[:-1]]
            low, high = np.flatnonzero(inside)[[0, -1]].tolist()
            axes = {0: interval(_N_CUTS - 1, low, high + 1)} if not inside.all() else {}
            row = primitive(linear_query((_N_CUTS - 1,), [(1, axes)]))
            yield Asked(row, asked.requirement)

    unit = UNIT_NANO / 1e9
    return Stream(
        f"{workload.name}, declared", (_N_CUTS - 1,), "add-remove", unit, questions, _RANGES
    )


RELATIONS: tuple[Relation, ...] = ("add-remove", "replace-one")
STREAMS = (
    *(_ranges(i) for i in range(len(WORKLOADS))),
    _declared_cuts(),
    *(_covid(zipf, relation) for relation in RELATIONS for zipf in (0.0, 1.0)),
    *(_citibike(relation) for relation in RELATIONS),
)
