"""Ways to answer a stream of queries, and what each has spent: what a budget benchmark compares.

All are charged under the same neighbour relation. All but `Served` draw the worker's own noise on
the same counts; `Served` draws synthetic noise of the same law.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt

from qserver.inference.engine import InferenceEngine
from qserver.ledger.cell_ledger import CellLedger
from qserver.ledger.noise_step import lattice_step
from qserver.planning.blocks.rent_or_buy import RentOrBuy
from qserver.planning.fresh_row import fresh_alpha_nano
from qserver.planning.holdings import Holdings
from qserver.planning.planner import plan_answer
from qserver.query.linear_query import LinearQuery
from qserver.query.primitive import Primitive
from qserver.query.requirement import DEFAULT_PHI, Requirement
from qserver.records.charge import Charge
from qserver.records.history import Estimator, Measurement
from qserver.records.plan import PlannedRow
from tests.benchmarks.synthetic_noise import question_of
from worker.noise.mechanism import release, release_refined

from .synthetic_noise import Snapshot

LIMIT_NANO = 1000 * 10**9
"""The population's limit: it only fixes the lattice here, and nothing reaches it."""


@dataclass(frozen=True)
class SeededEntropy:
    """Reproducible randomness in place of the worker's; for synthetic counts alone."""

    generator: random.Random

    def words(self, n: int) -> npt.NDArray[np.uint64]:
        """Integers uniform on 0 .. 2^64 - 1."""
        return np.frombuffer(self.generator.randbytes(8 * n), dtype="<u8")


@dataclass(frozen=True)
class Counts:
    """Synthetic private counts and the noise drawn on them.

    Args:
        cells: count per cell, shape of the domain.
        entropy: where the noise comes from.
    """

    cells: npt.NDArray[np.int64]
    entropy: SeededEntropy

    @classmethod
    def seeded(cls, sizes: tuple[int, ...], seed: int, *, noise: str = "") -> Counts:
        """Uneven counts of mean about 100, and noise that depends on the text `noise` too."""
        generator = np.random.default_rng(seed)
        means = generator.lognormal(4.1, 1.0, sizes)
        entropy = SeededEntropy(random.Random(f"{seed} {noise}"))
        return cls(generator.poisson(means), entropy)

    def truth(self, query: LinearQuery) -> Fraction:
        """The exact answer."""
        total = Fraction(0)
        for term in query.terms:
            left = self.cells
            for axis in reversed(range(left.ndim)):
                weights = term.by_axis.get(axis)
                left = left.sum(axis=-1) if weights is None else left @ weights.dense
            total += term.coefficient * int(left)
        return total

    def release(self, query: LinearQuery, *, step: Fraction, alpha_nano: int) -> int:
        """Lattice index of a noisy answer."""
        truth = self.truth(query)
        return release([truth], step=step, alpha_nano=alpha_nano, entropy=self.entropy)[0]

    def release_planned(self, row: PlannedRow, engine: InferenceEngine) -> int:
        """Lattice index of a new row, or of a refinement of what the engine holds."""
        if row.refines is None:
            return self.release(row.row, step=row.step, alpha_nano=row.alpha_nano)
        (index,) = release_refined(
            [self.truth(row.row)],
            released=[engine.measurement(row.refines).index],
            step=row.step,
            old_alphas_nano=[row.old_alpha_nano],
            new_alpha_nano=row.alpha_nano,
            entropy=self.entropy,
        )
        return index


@dataclass(frozen=True)
class Asked:
    """What became of one query.

    Args:
        measured: whether a row was measured.
        low, high: ends of the interval given, in the query's units.
    """

    measured: bool
    low: float
    high: float


class Method(Protocol):
    """A way to answer."""

    @property
    def spent_nano(self) -> int:
        """What it has spent so far."""

    def ask(self, query: Primitive, requirement: Requirement) -> Asked:
        """Answer within the requirement, whatever it costs."""


class Naive:
    """Every query is measured, and every charge is added to the sum."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._spent_nano = 0

    @property
    def spent_nano(self) -> int:
        """The sum of all charges: sequential composition."""
        return self._spent_nano

    def ask(self, query: Primitive, requirement: Requirement) -> Asked:
        """Measure."""
        charge = _fresh_charge(query, requirement)
        self._spent_nano += charge.alpha_nano
        return _measured(self._counts, query, requirement, charge)


class ExactCache:
    """A query asked before, no shorter and no surer, costs nothing; the rest is measured.

    It enjoys the cell ledger: rows that share no cell share the budget.
    """

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._ledger = CellLedger(counts.cells.shape)
        self._kept: dict[str, list[tuple[Requirement, Asked]]] = {}

    @property
    def spent_nano(self) -> int:
        """The greatest loss of a cell."""
        return self._ledger.spent_nano

    def ask(self, query: Primitive, requirement: Requirement) -> Asked:
        """The kept answer, or a measurement."""
        kept = self._kept.setdefault(query.key, [])
        for earlier, found in kept:
            if requirement.is_looser_than(earlier):
                return Asked(measured=False, low=found.low, high=found.high)
        charge = _fresh_charge(query, requirement)
        self._ledger.append(charge)
        asked = _measured(self._counts, query, requirement, charge)
        kept.append((requirement, asked))
        return asked


@dataclass
class Served:
    """What the server does: history, rows or blocks, by its default rule."""

    counts: Counts
    seed: int
    snapshot: Snapshot = field(init=False)

    def __post_init__(self) -> None:
        self.snapshot = Snapshot(
            self.counts.cells.shape,
            rule=RentOrBuy(DEFAULT_PHI),
            is_total=True,
            generator=np.random.default_rng(self.seed),
        )

    @property
    def spent_nano(self) -> int:
        """The greatest loss of a cell."""
        return self.snapshot.ledger.spent_nano

    def ask(self, query: Primitive, requirement: Requirement) -> Asked:
        """The interval of the asked length around the answer that the plan leads to."""
        plan = self.snapshot.plan(query, requirement)
        self.snapshot.carry_out(plan, query)
        error = self.snapshot.error(query, plan, requirement)
        centre = (float(self.counts.truth(query.row)) + error) * float(query.multiplier)
        half = requirement.half_width
        is_measured = bool(plan.rows or plan.tables)
        return Asked(measured=is_measured, low=centre - half, high=centre + half)


@dataclass
class RowsAlone:
    """The server's planner with its rule for blocks turned off: the cheapest plan by rows."""

    counts: Counts
    seed: int
    engine: InferenceEngine = field(init=False)
    ledger: CellLedger = field(init=False)

    def __post_init__(self) -> None:
        sizes = self.counts.cells.shape
        self.engine = InferenceEngine(sizes)
        self.ledger = CellLedger(sizes)

    @property
    def spent_nano(self) -> int:
        """The greatest loss of a cell."""
        return self.ledger.spent_nano

    def ask(self, query: Primitive, requirement: Requirement) -> Asked:
        """Answer from history, or measure what the plan says and answer then."""
        plan = plan_answer(
            question_of(query, requirement),
            Holdings(self.engine, self.ledger, LIMIT_NANO),
        )
        for row in plan.rows:
            self._release(row)
        confidence = requirement.confidence
        estimate = self.engine.estimate_with(query, plan.weights, confidence=confidence)
        if estimate is None:
            raise RuntimeError("A query that was just answered must have an estimate.")
        if plan.rows or estimate.method not in ("direct", "stored"):
            # As the server does: the weights of an answer stay at hand.
            self.engine.extend([Estimator(query.key, estimate.weights)])
        interval = estimate.posterior.scaled(query.multiplier).interval(requirement.confidence)
        return Asked(measured=bool(plan.rows), low=interval.low, high=interval.high)

    def _release(self, row: PlannedRow) -> None:
        number = self.engine.n_measurements if row.refines is None else row.refines
        index = self.counts.release_planned(row, self.engine)
        released = Measurement(number, row.row, row.key, row.alpha_nano, row.step, index)
        self.engine.extend([released])
        self.ledger.append(Charge(row.row, row.charge_nano, "benchmark"))


def _fresh_charge(query: Primitive, requirement: Requirement) -> Charge:
    step = lattice_step(query.unit, limit_nano=LIMIT_NANO, records_per_person=1)
    alpha_nano = fresh_alpha_nano(requirement, multiplier=query.multiplier, step=step)
    return Charge(query.row, alpha_nano, "benchmark")


def _measured(counts: Counts, query: Primitive, requirement: Requirement, charge: Charge) -> Asked:
    """The interval of exactly the asked length around a noisy answer."""
    step = lattice_step(query.unit, limit_nano=LIMIT_NANO, records_per_person=1)
    index = counts.release(query.row, step=step, alpha_nano=charge.alpha_nano)
    centre = float(index * step * query.multiplier)
    half = requirement.half_width
    return Asked(measured=True, low=centre - half, high=centre + half)
