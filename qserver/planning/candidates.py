"""The ways to meet a requirement that a plan is chosen from: rows to measure and to refine.

Each comes with the weights that meet the requirement once its rows are released, checked on the
scales that will really be drawn: alphas are whole nano-epsilon, rounded up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil

from qserver.answer import PlanKind
from qserver.charge import Charge
from qserver.errors import CapacityError
from qserver.inference.blue import NEW
from qserver.inference.combined import Combined
from qserver.inference.engine import InferenceEngine, RowEstimate
from qserver.inference.refined import Refined, Weights
from qserver.lattice import lattice_step
from qserver.plan import PlannedRow
from qserver.planning.allocation import alpha_nano_up, fresh_alpha_nano
from qserver.planning.ledger import CellLedger
from qserver.primitive import Primitive
from qserver.requirement import Requirement

# Beyond so many rows their prices are not told apart: each costs an evaluation of the ledger.
_MAX_PRICED = 24
_LEAST_PRICE = 1e-3
_EVALUATION = Fraction(10**8 + 1, 10**8)


@dataclass(frozen=True)
class Candidate:
    """Rows to measure or refine, and weights that then meet the requirement.

    Args:
        weights: pairs of a measurement's id and its weight in the asked row; a new row has the
            next id.
    """

    kind: PlanKind
    rows: tuple[PlannedRow, ...]
    weights: Weights

    @property
    def charges(self) -> list[Charge]:
        """What the ledger would be charged."""
        return [Charge(row.row, row.charge_nano, "plan") for row in self.rows]


@dataclass(frozen=True)
class Question:
    """A row with its requirement, and the state that it is planned on.

    Args:
        limit_nano: the population's limit, which fixes the lattice of a new row.
        estimate: what history gives at the asked confidence, or None.
    """

    query: Primitive
    requirement: Requirement
    engine: InferenceEngine
    ledger: CellLedger
    limit_nano: int
    estimate: RowEstimate | None

    @cached_property
    def target(self) -> float:
        """The half-width that the query's row may have, in records."""
        return row_half_width(self.query, self.requirement)

    @cached_property
    def blank(self) -> PlannedRow:
        """The row with its lattice step and nothing charged yet."""
        k = self.ledger.records_per_person
        return row_step(self.query, limit_nano=self.limit_nano, records_per_person=k)

    def candidates(self) -> Iterator[Candidate]:
        """All ways to meet the requirement, history alone not among them."""
        confidence = self.requirement.confidence
        alpha = self._alone(((NEW, 1.0),), self.blank.step)
        if alpha is not None:
            row = replace(self.blank, alpha_nano=alpha)
            yield Candidate("fresh", (row,), ((self.engine.n_measurements, 1.0),))
        if self.estimate is None:
            return
        yield from self._own_alone()
        yield from self._refinements(self.estimate.weights)
        own = self.engine.refined_row(self.query, half_width=self.target, confidence=confidence)
        if own is not None:
            # A second measurement of the row, which any weights of two are a noisier form of,
            # could only cost more.
            yield from self._checked(own)
            return
        combined = self.engine.combined(
            self.query, half_width=self.target, confidence=confidence, step=self.blank.step
        )
        if combined is not None:
            weights = _with_new(combined)
            yield from self._checked(Refined(((NEW, combined.alpha),), weights))
            yield from self._refinements(weights)

    def _own_alone(self) -> Iterator[Candidate]:
        """The row's own measurement raised until it meets the requirement by itself."""
        weights = self.engine.direct(self.query)
        if len(weights) != 1 or weights[0][1] != 1.0:
            return
        own = self.engine.measurement(weights[0][0])
        alpha = self._alone(weights, own.step)
        if alpha is not None and alpha > own.alpha_nano:
            yield Candidate("refined", (PlannedRow.refining(own, alpha_nano=alpha),), weights)

    def _alone(self, weights: Weights, step: Fraction) -> int | None:
        """The alpha of the row when no other helps; None where its lattice is too coarse."""
        try:
            alpha = fresh_alpha_nano(self.requirement, multiplier=self.query.multiplier, step=step)
        except CapacityError:
            return None
        number = weights[0][0]
        if self._half_width(weights, {number: alpha}) > self.target:
            # The half-width is evaluated to the long side, by a part that is far less than this.
            alpha = ceil(alpha * _EVALUATION)
        return alpha

    def _half_width(self, weights: Weights, alphas: dict[int, int]) -> float:
        confidence, step = self.requirement.confidence, self.blank.step
        return self.engine.half_width_after(weights, alphas, confidence=confidence, step=step)

    def _refinements(self, weights: Weights) -> Iterator[Candidate]:
        """Ways to raise the rows behind given weights."""
        prices = self._prices(weights)
        found = self.engine.refined_rows(
            weights,
            half_width=self.target,
            confidence=self.requirement.confidence,
            step=self.blank.step,
            price=prices.__getitem__,
        )
        for refined in found:
            yield from self._checked(refined)

    def _prices(self, weights: Weights) -> dict[int, float]:
        """What a small rise of alpha costs, per row, as a part of it."""
        if len(weights) > _MAX_PRICED:
            return {i: 1.0 for i, _ in weights}
        spent = self.ledger.spent_nano
        probe = max(1, spent // 16)
        prices = {}
        for i, _ in weights:
            row = self.query.row if i == NEW else self.engine.measurement(i).row
            after = self.ledger.spent_after([Charge(row, probe, "plan")])
            prices[i] = max(_LEAST_PRICE, (after - spent) / probe)
        return prices

    def _checked(self, refined: Refined) -> Iterator[Candidate]:
        """The candidate on whole nano-epsilon, if it then certainly meets the requirement."""
        alphas = {i: alpha_nano_up(alpha) for i, alpha in refined.alphas}
        if self._half_width(refined.weights, alphas) > self.target:
            return
        number = self.engine.n_measurements
        weights = tuple((number if i == NEW else i, w) for i, w in refined.weights)
        rows = tuple(self._rows(alphas))
        if rows:
            yield Candidate(_kind(rows), rows, weights)

    def _rows(self, alphas: dict[int, int]) -> Iterator[PlannedRow]:
        for i, alpha in alphas.items():
            if i == NEW:
                yield replace(self.blank, alpha_nano=alpha)
            elif alpha > self.engine.measurement(i).alpha_nano:
                yield PlannedRow.refining(self.engine.measurement(i), alpha_nano=alpha)


def row_half_width(query: Primitive, requirement: Requirement) -> float:
    """The half-width that the query's row may have, in the row's units, rounded down."""
    return requirement.half_width / float(query.sensitivity) * (1 - 1e-15)


def row_step(query: Primitive, *, limit_nano: int, records_per_person: int) -> PlannedRow:
    """The row with its lattice step and nothing charged yet."""
    step = lattice_step(query.unit, limit_nano=limit_nano, records_per_person=records_per_person)
    return PlannedRow(query.row, query.key, 0, step)


def _with_new(combined: Combined) -> Weights:
    return (*combined.weights, (NEW, combined.new_weight))


def _kind(rows: Sequence[PlannedRow]) -> PlanKind:
    return "combined" if all(row.refines is None for row in rows) else "refined"
