"""Budget spent on streams of range queries: naive, exact cache and this project's planner.

The unit is alpha0 = 2 ln(1/delta) / L, what one query costs on its own. Every interval that was
given is compared with the synthetic truth.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from qserver.primitive import Primitive, primitive
from qserver.requirement import Requirement

from .budget_methods import Asked, Counts, ExactCache, Method, Naive, Planned
from .tables import Report, Value
from .workloads import QuerySource

LENGTH = 100.0
CONFIDENCE = 0.95
SEEDS = (71, 72, 73)
N_QUERIES = 500
MILESTONES = (10, 100)
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
        reference: what an exact cache and the paper's rule spent at the end in an earlier
            prototype on seeds of its own, in units of alpha0.
    """

    name: str
    sizes: tuple[int, ...]
    questions: Callable[[QuerySource, int], list[Question]]
    reference: str


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
        for name, make in METHODS.items():
            runs = [_play(workload, make, seed=seed, n=n) for seed in seeds]
            rows.append(_row(workload, name, runs))
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


def _play(workload: Workload, make: Callable[[Counts, int], Method], *, seed: int, n: int) -> Run:
    questions = workload.questions(QuerySource.seeded(workload.sizes, seed), n)
    counts = Counts.seeded(workload.sizes, seed)
    method = make(counts, seed)
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


def _row(workload: Workload, method: str, runs: Sequence[Run]) -> dict[str, Value]:
    n = sum(len(r.spent) for r in runs)
    ends = [r.spent[-1] for r in runs]
    return {
        "queries": f"{len(runs[0].spent)} {workload.name}",
        "method": method,
        **{f"at_{m}": _median_at(runs, m) for m in MILESTONES},
        "end": median(ends),
        "end_least": min(ends),
        "end_most": max(ends),
        "measured": median(r.measured for r in runs),
        "violated_percent": 100.0 * sum(r.violated for r in runs) / n,
        "too_long": sum(r.too_long for r in runs),
        "ms_per_query": 1000.0 * sum(r.seconds for r in runs) / n,
        "prototype_end": workload.reference,
    }


def _median_at(runs: Sequence[Run], n: int) -> float | None:
    found = [spent for r in runs if (spent := r.at(n)) is not None]
    return median(found) if found else None


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


WORKLOADS = (
    Workload("1-D ranges", (1000,), _boxes, "cache 263, rule 263"),
    Workload("prefixes", (1000,), _prefixes, "naive 500, cache 407, rule 407"),
    Workload("ranges on 50 cuts", (1000,), _cut_ranges, "cache 206, rule 53"),
    Workload("ranges at L, L/2, L/4", (1000,), _tightened, "cache 385, rule 385"),
    Workload("boxes on 50 x 50", (50, 50), _boxes, "cache 149, rule 149"),
)

METHODS: dict[str, Callable[[Counts, int], Method]] = {
    "naive": lambda counts, _seed: Naive(counts),
    "exact cache": lambda counts, _seed: ExactCache(counts),
    "planner": Planned,
}
