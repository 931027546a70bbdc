"""How many of 1,000 mixed questions on Adult a limit of epsilon = 1 answers, refusals skipped.

The questions are those of `adult_questions`. `the paper's rule` answers by linear combination of
whatever was released and measures in full what that cannot meet. `clairvoyant` knows the stream,
refuses all but the loosest questions and buys the best blocks found for these: a yardstick, no
bound. `as many expected`: the owner said how many questions come. `violated` counts intervals that
miss; over all questions 7.2 percent may.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from qserver.inference.engine import InferenceEngine
from qserver.ledger.cell_ledger import CellLedger
from qserver.ledger.noise_step import lattice_step
from qserver.planning.fresh_row import fresh_alpha_nano
from qserver.query.requirement import DEFAULT_PHI, Requirement
from qserver.records.charge import NANO, Charge
from qserver.records.history import Estimator, Measurement
from tests.benchmarks.synthetic_noise import question_of

from .adult_questions import ATTRIBUTES, CONFIDENCES, SIZES, adult_cells, mixed_predicates
from .best_blocks import hindsight_price
from .budget_methods import Counts, SeededEntropy
from .play import play, snapshot_for
from .streams import Asked
from .tables import Report, Value

SEEDS = (411, 412, 413)
LIMIT_NANO = NANO
MILESTONES = (10, 100, 1_000)
_QUICK = 100
_ROOM_IN_HINDSIGHT = 0.01


@dataclass
class Outcome:
    """What became of a stream under one method.

    Args:
        answered: questions answered, after each milestone that the stream reached.
        checked: answers with noise of their own that were compared with the truth.
        violated: of those, intervals that missed it.
    """

    answered: dict[int, int] = field(default_factory=dict)
    checked: int = 0
    violated: int = 0
    spent: float | None = None
    plan_ms: float | None = None
    plan_p99_ms: float | None = None

    @property
    def in_all(self) -> int:
        """Questions answered by the end."""
        return max(self.answered.values())


Method = Callable[[Sequence[Asked], int], Outcome]


def run(*, quick: bool) -> Report:
    """Questions answered, by method."""
    seeds, n = (SEEDS[:1], _QUICK) if quick else (SEEDS, MILESTONES[-1])
    rows = [
        _row(name, [method(list(mixed_predicates(s, n=n)), s) for s in seeds])
        for name, method in METHODS.items()
    ]
    return Report(
        name="lifetime",
        title=f"Questions of {n:,} answered within epsilon = 1, median of {len(seeds)} seeds",
        parameters={
            "seeds": list(seeds),
            "attributes": list(ATTRIBUTES),
            "sizes": list(SIZES),
            "confidences": list(CONFIDENCES),
            "relation": "add-remove",
            "phi": DEFAULT_PHI,
        },
        rows=tuple(rows),
    )


def _row(name: str, outcomes: Sequence[Outcome]) -> dict[str, Value]:
    checked = sum(o.checked for o in outcomes)
    violated = sum(o.violated for o in outcomes)
    return {
        "method": name,
        **{f"at_{m}": _median([o.answered.get(m) for o in outcomes]) for m in MILESTONES},
        "least": min(o.in_all for o in outcomes),
        "most": max(o.in_all for o in outcomes),
        "spent": _median([o.spent for o in outcomes]),
        "checked": checked or None,
        "violated_percent": 100.0 * violated / checked if checked else None,
        "plan_ms": _median([o.plan_ms for o in outcomes]),
        "plan_p99_ms": _median([o.plan_p99_ms for o in outcomes]),
    }


def _median(found: Sequence[float | None]) -> float | None:
    known = [f for f in found if f is not None]
    return median(known) if known else None


@dataclass
class FreshRows:
    """Questions measured as asked, in full, on the cell ledger: what three methods share.

    Args:
        seed: of the noise on the real counts.
    """

    seed: int
    ledger: CellLedger = field(default_factory=lambda: CellLedger(SIZES))
    engine: InferenceEngine = field(init=False)
    counts: Counts = field(init=False)

    def __post_init__(self) -> None:
        self.engine = InferenceEngine(SIZES)
        self.counts = Counts(adult_cells(), SeededEntropy(random.Random(self.seed)))

    def measured(self, asked: Asked) -> Measurement | None:
        """The question's row measured for what it costs alone; None past the limit."""
        query, requirement = asked.query, asked.requirement
        step = lattice_step(query.unit, limit_nano=LIMIT_NANO, records_per_person=1)
        alpha = fresh_alpha_nano(requirement, multiplier=query.multiplier, step=step)
        charge = Charge(query.row, alpha, "benchmark")
        if self.ledger.spent_after([charge]) > LIMIT_NANO:
            return None
        self.ledger.append(charge)
        index = self.counts.release(query.row, step=step, alpha_nano=alpha)
        number = self.engine.n_measurements
        return Measurement(number, query.row, query.key, alpha, step, index)

    def is_missed(self, asked: Asked, estimate: float) -> bool:
        """Whether an interval of the asked length around an estimate of the row misses."""
        return (
            abs(estimate - float(self.counts.truth(asked.query.row)))
            > question_of(asked.query, asked.requirement).row_half_width
        )


class Naive(FreshRows):
    """Every question is measured."""

    def ask(self, asked: Asked) -> float | None:
        """The estimate, or None where it is refused."""
        found = self.measured(asked)
        return None if found is None else float(found.index * found.step)


@dataclass
class ExactCache(FreshRows):
    """The same row answers again whatever asks no more of it; the rest is measured."""

    kept: dict[str, list[tuple[Requirement, float]]] = field(default_factory=dict)

    def ask(self, asked: Asked) -> float | None:
        """The estimate, or None where it is refused."""
        kept = self.kept.setdefault(asked.query.key, [])
        for earlier, estimate in kept:
            if asked.requirement.is_looser_than(earlier):
                return estimate
        found = self.measured(asked)
        if found is None:
            return None
        kept.append((asked.requirement, float(found.index * found.step)))
        return kept[-1][1]


class PapersRule(FreshRows):
    """Linear combinations of all released answers; what they cannot meet is measured in full."""

    def ask(self, asked: Asked) -> float | None:
        """The estimate, or None where it is refused."""
        query, confidence = asked.query, asked.requirement.confidence
        enough = question_of(query, asked.requirement).row_half_width
        known = self.engine.estimate(query, confidence=confidence, enough=enough)
        if known is not None and known.half_width <= enough:
            if known.method not in ("direct", "stored"):
                self.engine.extend([Estimator(query.key, known.weights)])
            interval = known.posterior.interval(confidence)
            return 0.5 * (interval.low + interval.high)
        found = self.measured(asked)
        if found is None:
            return None
        self.engine.extend([found])
        return float(found.index * found.step)


def _asked_of(kind: type[Naive | ExactCache | PapersRule]) -> Method:
    def method(stream: Sequence[Asked], seed: int) -> Outcome:
        server, outcome = kind(seed), Outcome()
        for n, asked in enumerate(stream, start=1):
            estimate = server.ask(asked)
            if estimate is not None:
                outcome.checked += 1
                outcome.violated += server.is_missed(asked, estimate)
            if n in MILESTONES:
                outcome.answered[n] = outcome.checked
        outcome.spent = server.ledger.spent_nano / NANO
        return outcome

    return method


def _planned(stream: Sequence[Asked], seed: int, *, is_expected: bool = False) -> Outcome:
    """This planner. A shorter stream is played anew: the same questions get the same plans."""
    outcome = Outcome()
    for n in _reached(stream):
        snapshot = snapshot_for(
            SIZES,
            relation="add-remove",
            phi=DEFAULT_PHI,
            seed=seed,
            limit_nano=LIMIT_NANO,
            expected=n if is_expected else 0,
        )
        played = play(snapshot, stream[:n])
        outcome.answered[n] = played.answered
        outcome.checked, outcome.violated = played.checked, played.violated
        outcome.spent = played.spent[-1]
        outcome.plan_ms = played.times.median_ms
        outcome.plan_p99_ms = played.times.quantile_ms(0.99)
    return outcome


def _clairvoyant(stream: Sequence[Asked], _seed: int) -> Outcome:
    """The most of the loosest questions that the best blocks found answer together; no method."""
    outcome = Outcome()
    for n in _reached(stream):
        loosest = sorted(stream[:n], key=_alpha_alone)
        low, high = 0, n
        while high - low > max(1, _ROOM_IN_HINDSIGHT * n):
            middle = (low + high + 1) // 2
            price = hindsight_price(SIZES, loosest[:middle], relation="add-remove")
            low, high = (middle, high) if price <= LIMIT_NANO / NANO else (low, middle)
        outcome.answered[n] = n if low + 1 == high == n and _fits(loosest) else low
    return outcome


def _fits(stream: Sequence[Asked]) -> bool:
    return hindsight_price(SIZES, stream, relation="add-remove") <= LIMIT_NANO / NANO


def _alpha_alone(asked: Asked) -> float:
    """What the question costs measured by itself, in epsilon."""
    return asked.requirement.log_inverse_delta / asked.requirement.half_width


def _reached(stream: Sequence[Asked]) -> Iterator[int]:
    return (m for m in MILESTONES if m <= len(stream))


METHODS: Mapping[str, Method] = {
    "naive": _asked_of(Naive),
    "exact cache": _asked_of(ExactCache),
    "the paper's rule": _asked_of(PapersRule),
    "rent or buy": _planned,
    "the same, as many expected": partial(_planned, is_expected=True),
    "clairvoyant": _clairvoyant,
}
