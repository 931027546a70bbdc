"""Budget spent on streams of range queries: naive, exact cache, rows alone and the server.

The unit is alpha0 = 2 ln(1/delta) / L, what one query costs on its own. Every interval that was
given is compared with the synthetic truth. Beside them stands the best choice of blocks in
hindsight, which knows the whole stream before it buys.

`exact cache` answers the very same query again at no cost, on the cell ledger; `rows alone` is
the server's planner without blocks. `at_10` and `at_100` are the spend after so many queries;
medians over the seeds with the least and the most, which chose nothing. `prototype_end` is what
an earlier prototype spent on streams of the same kind. Hindsight's partitions have 1, 10, 100 and
1,000 parts, on 50 cuts 1, 7 and 49 segments, on 50 x 50 cells 1, 5, 10 and 50 parts each way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from qserver.query.primitive import Primitive, primitive
from qserver.query.requirement import Requirement

from .budget_methods import Asked, Counts, ExactCache, Method, Naive, RowsAlone, Served
from .hindsight import Blocks, Chain, Target, best_price
from .tables import Report, Value
from .workloads import QuerySource, Segments

LENGTH = 100.0
CONFIDENCE = 0.95
SEEDS = (71, 72, 73)
N_QUERIES = 500
MILESTONES = (10, 100)
HINDSIGHT = "best blocks in hindsight"
UNIT_NANO = 1e9 * 2 * Requirement(LENGTH, CONFIDENCE).log_inverse_delta / LENGTH


@dataclass(frozen=True)
class Question:
    """A query with its requirement."""

    query: Primitive
    requirement: Requirement


@dataclass(frozen=True)
class Workload:
    """A named stream of questions.

    Args:
        chains: partitions, per attribute, for the best blocks in hindsight.
        is_cut: whether they are partitions of the segments between the few cuts that the
            queries use, not of single values.
        prototype: what an earlier prototype spent at the end on seeds of its own, by method, in
            units of alpha0; for `rows alone` the rule of the paper.
    """

    name: str
    sizes: tuple[int, ...]
    questions: Callable[[QuerySource, int], list[Question]]
    chains: tuple[tuple[int, ...], ...]
    prototype: Mapping[str, float]
    is_cut: bool = False


@dataclass(frozen=True)
class Run:
    """One method on one stream.

    Args:
        spent: after each question, in units of alpha0.
        violated: intervals that missed the truth.
        too_long: intervals longer than asked.
        seconds: processor time of all questions.
    """

    spent: tuple[float, ...]
    measured: int
    violated: int
    too_long: int
    seconds: float

    def at(self, n: int) -> float | None:
        """Spent after `n` questions; None if there were fewer."""
        return self.spent[n - 1] if n <= len(self.spent) else None


def run(*, quick: bool) -> Report:
    """Running spend and violated intervals, per stream and method."""
    seeds = SEEDS[:1] if quick else SEEDS
    n = 24 if quick else N_QUERIES
    rows = []
    for workload in WORKLOADS:
        best = [_hindsight(workload, seed=seed, n=n) for seed in seeds]
        for name in METHODS:
            runs = [_play(workload, name, seed=seed, n=n) for seed in seeds]
            rows.append(_row(workload, name, runs, best))
        rows.append(_hindsight_row(workload, best))
    return Report(
        name="ranges",
        title=f"Budget spent on range queries, in units of alpha0, median of {len(seeds)} seeds",
        parameters={
            "length": LENGTH,
            "confidence": CONFIDENCE,
            "seeds": list(seeds),
            "queries": n,
            "neighbours": "add-remove",
            "unit_epsilon": UNIT_NANO / 1e9,
        },
        rows=tuple(rows),
    )


def _play(workload: Workload, name: str, *, seed: int, n: int) -> Run:
    questions = workload.questions(QuerySource.seeded(workload.sizes, seed), n)
    # The same counts for every method, but noise of its own.
    counts = Counts.seeded(workload.sizes, seed, noise=f"{name}, {workload.name}")
    method = METHODS[name](counts, seed)
    spent, asked = [], []
    start = time.thread_time()
    for question in questions:
        asked.append(method.ask(question.query, question.requirement))
        spent.append(method.spent_nano / UNIT_NANO)
    seconds = time.thread_time() - start
    pairs = list(zip(questions, asked, strict=True))
    return Run(
        spent=tuple(spent),
        measured=sum(a.measured for a in asked),
        violated=sum(not holds(counts, q, a) for q, a in pairs),
        too_long=sum(a.high - a.low > q.requirement.length * (1 + 1e-12) for q, a in pairs),
        seconds=seconds,
    )


def holds(counts: Counts, question: Question, asked: Asked) -> bool:
    """Whether the interval given contains the true answer."""
    truth = counts.truth(question.query.row) * question.query.multiplier
    return asked.low <= truth <= asked.high


def _row(
    workload: Workload, method: str, runs: Sequence[Run], best: Sequence[Hindsight]
) -> dict[str, Value]:
    n = sum(len(r.spent) for r in runs)
    ends = [r.spent[-1] for r in runs]
    return {
        "queries": f"{len(runs[0].spent)} {workload.name}",
        "method": method,
        **{f"at_{m}": _median_of([r.at(m) for r in runs]) for m in MILESTONES},
        "end": median(ends),
        "end_least": min(ends),
        "end_most": max(ends),
        "over_hindsight": median(e / b.end for e, b in zip(ends, best, strict=True)),
        "measured": median(r.measured for r in runs),
        "violated_percent": 100.0 * sum(r.violated for r in runs) / n,
        "too_long": sum(r.too_long for r in runs),
        "ms_per_query": 1000.0 * sum(r.seconds for r in runs) / n,
        "prototype_end": workload.prototype.get(method),
    }


def _hindsight_row(workload: Workload, best: Sequence[Hindsight]) -> dict[str, Value]:
    ends = [b.end for b in best]
    return {
        "queries": f"{best[0].n_queries} {workload.name}",
        "method": HINDSIGHT,
        **{f"at_{m}": _median_of([b.milestones.get(m) for b in best]) for m in MILESTONES},
        "end": median(ends),
        "end_least": min(ends),
        "end_most": max(ends),
        "over_hindsight": 1.0,
        "measured": None,
        "violated_percent": None,
        "too_long": None,
        "ms_per_query": None,
        "prototype_end": workload.prototype[HINDSIGHT],
    }


def _median_of(found: Sequence[float | None]) -> float | None:
    there = [value for value in found if value is not None]
    return median(there) if there else None


@dataclass(frozen=True)
class Hindsight:
    """Prices of the best blocks for the whole stream and for its first queries alone.

    Args:
        milestones: price by number of queries, in units of alpha0.
    """

    n_queries: int
    milestones: dict[int, float]
    end: float


def _hindsight(workload: Workload, *, seed: int, n: int) -> Hindsight:
    questions = workload.questions(QuerySource.seeded(workload.sizes, seed), n)
    blocks = Blocks(tuple(Chain(c) for c in workload.chains))
    targets = _targets(workload, questions)

    def price(n_first: int) -> float:
        found = best_price(blocks, targets[:n_first], confidence=CONFIDENCE)
        return found * 1e9 / UNIT_NANO

    reached = [m for m in MILESTONES if m <= len(targets)]
    return Hindsight(len(targets), {m: price(m) for m in reached}, price(len(targets)))


def _targets(workload: Workload, questions: Sequence[Question]) -> list[Target]:
    found = []
    segments = Segments.of([q.query.row for q in questions]) if workload.is_cut else None
    for question in questions:
        if segments is None:
            by_axis = question.query.row.terms[0].by_axis
            vectors = [
                by_axis[axis].dense if axis in by_axis else np.ones(size)
                for axis, size in enumerate(workload.sizes)
            ]
        else:
            vectors = [segments.dense(question.query.row)]
        # A stream may use fewer cuts than there are; parts without records change nothing.
        full = tuple(
            np.pad(np.asarray(v, dtype=np.float64), (0, chain[-1] - len(v)))
            for v, chain in zip(vectors, workload.chains, strict=True)
        )
        found.append(Target(full, question.requirement.half_width))
    return found


def _asked(query: Primitive, length: float = LENGTH) -> Question:
    return Question(query, Requirement(length, CONFIDENCE))


def _boxes(source: QuerySource, n: int) -> list[Question]:
    return [_asked(primitive(source.box())) for _ in range(n)]


def _prefixes(source: QuerySource, n: int) -> list[Question]:
    return [_asked(primitive(source.prefix())) for _ in range(n)]


def _cut_ranges(source: QuerySource, n: int) -> list[Question]:
    cuts = [source.breakpoints(50)]
    return [_asked(primitive(source.box(cuts))) for _ in range(n)]


def _tightened(source: QuerySource, n: int) -> list[Question]:
    """A fifth of the queries, asked at L, then all of them at L/2, then at L/4."""
    rows = [primitive(source.box()) for _ in range(max(1, n // 5))]
    return [_asked(row, LENGTH / divisor) for divisor in (1, 2, 4) for row in rows]


def _prototype(cache: float, rule: float, blocks: float) -> dict[str, float]:
    return {"exact cache": cache, "rows alone": rule, HINDSIGHT: blocks}


_LINE = ((1, 10, 100, 1000),)
_SQUARE = ((1, 5, 10, 50), (1, 5, 10, 50))
WORKLOADS = (
    Workload("1-D ranges", (1000,), _boxes, _LINE, _prototype(263, 263, 10.6)),
    Workload("prefixes", (1000,), _prefixes, _LINE, _prototype(407, 407, 8.9)),
    Workload(
        "ranges on 50 cuts",
        (1000,),
        _cut_ranges,
        ((1, 7, 49),),
        _prototype(206, 53, 4.7),
        is_cut=True,
    ),
    Workload("ranges at L, L/2, L/4", (1000,), _tightened, _LINE, _prototype(385, 385, 42.1)),
    Workload("boxes on 50 x 50", (50, 50), _boxes, _SQUARE, _prototype(149, 149, 22.5)),
)

METHODS: dict[str, Callable[[Counts, int], Method]] = {
    "naive": lambda counts, _seed: Naive(counts),
    "exact cache": lambda counts, _seed: ExactCache(counts),
    "rows alone": RowsAlone,
    "server": Served,
}
