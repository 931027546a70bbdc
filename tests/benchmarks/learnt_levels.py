"""Budget spent with levels learnt from the questions, and with regular levels alone.

Levels are planned on only where that makes what a base still costs at least 30 percent cheaper for
the last questions. The rows of `learnt` were measured before the estimate of what is new had its
standard deviation added: since then 1.16 to 1.37 after 300 questions on four attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from qserver.query.measure import DEFAULT_PHI

from .play import Played, play, snapshot_for
from .ranges import UNIT_NANO, WORKLOADS
from .repeated_predicates import ATTRIBUTES, FEW, repeated_predicates
from .streams import ADULT_SIZES, Asked
from .tables import Report, Value
from .workloads import QuerySource

SEEDS = (84, 85, 86)
MILESTONES = (10, 30, 100, 300)
_QUICK = 24


@dataclass(frozen=True)
class Stream:
    """A named stream of questions; `unit` is epsilon per unit shown."""

    name: str
    sizes: tuple[int, ...]
    unit: float
    questions: Callable[[int, int], Iterable[Asked]]
    n: int


def run(*, quick: bool) -> Report:
    """Running spend of both on the same streams."""
    seeds = SEEDS[:1] if quick else SEEDS
    rows = [
        row_of(stream, levels, [played(stream, s, n, is_learnt=is_learnt) for s in seeds])
        for stream in STREAMS
        for n in (_QUICK if quick else stream.n,)
        for levels, is_learnt in LEVELS.items()
    ]
    return Report(
        name="learnt_levels",
        title=f"Budget spent with learnt and with regular levels, median of {len(seeds)} seeds",
        parameters={
            "seeds": list(seeds),
            "phi": DEFAULT_PHI,
            "range_unit_epsilon": UNIT_NANO / 1e9,
            "relation": "add-remove",
        },
        rows=tuple(rows),
    )


def row_of(stream: Stream, levels: str, found: Sequence[Played]) -> dict[str, Value]:
    """The table's row of a stream."""
    checked = sum(p.checked for p in found)
    return {
        "stream": stream.name,
        "levels": levels,
        **{f"at_{m}": median(p.spent[m - 1] / stream.unit for p in found) for m in _reached(found)},
        "questions": len(found[0].spent),
        "end": median(p.spent[-1] / stream.unit for p in found),
        "end_least": min(p.spent[-1] / stream.unit for p in found),
        "end_most": max(p.spent[-1] / stream.unit for p in found),
        "violated_percent": 100.0 * sum(p.violated for p in found) / checked,
        "checked": checked,
        "plan_ms": median(p.times.median_ms for p in found),
        "plan_p99_ms": max(p.times.quantile_ms(0.99) for p in found),
    }


def _reached(found: Sequence[Played]) -> list[int]:
    return [m for m in MILESTONES if m <= len(found[0].spent)]


def played(stream: Stream, seed: int, n: int, *, is_learnt: bool) -> Played:
    """One stream with one seed."""
    snapshot = snapshot_for(stream.sizes, relation="add-remove", phi=DEFAULT_PHI, seed=seed)
    if snapshot.rule is not None and not is_learnt:
        snapshot.rule.learner = None
    return play(snapshot, stream.questions(seed, n))


def _predicates(name: str, attributes: Sequence[int], n: int) -> Stream:
    def questions(seed: int, n: int) -> Iterable[Asked]:
        return repeated_predicates(seed, n=n, attributes=attributes)

    return Stream(name, ADULT_SIZES, 1.0, questions, n)


def _ranges(index: int) -> Stream:
    workload = WORKLOADS[index]

    def questions(seed: int, n: int) -> Iterable[Asked]:
        found = workload.questions(QuerySource.seeded(workload.sizes, seed), n)
        return [Asked(q.query, q.requirement) for q in found]

    return Stream(workload.name, workload.sizes, UNIT_NANO / 1e9, questions, 300)


LEVELS = {"learnt": True, "regular": False}
STREAMS = (
    _predicates("predicates that return, 4 attributes", FEW, 1_000),
    _predicates("predicates that return, 8 attributes", ATTRIBUTES, 400),
    _ranges(2),
)
