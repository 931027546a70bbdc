"""Predicates measured against half of all records, under Gaussian noise.

Let q be the indicator of a product of sets, t the total, and r = 2 q - t the balanced row: all its
weights are 1 or -1. Then q = (t + r) / 2. A row at rho loses rho h(c)^2 in cell c, so r gives half
of q's error at a quarter of what q costs in its own cells, and loses it in every cell. The total is
measured once for all questions. Where questions weigh on many cells at once, that costs less.

Let R be the total's rho, and v_i the variance that question i may have. Its balanced row needs
1 / (8 v_i - 1/R), so all of them cost

    H = R + sum_i 1 / (8 v_i - 1/R)

at the best R. Balanced rows are measured where own rows of all paid questions, A, cost more than H.
Then the total is due if it is known less than half as exactly as at the best R, and else the
cheaper row is taken. Only paid questions decide, not the one that is asked, so that a shorter
length never costs less while the limit can pay the total.

At most 3 A is spent, and what one question costs, where each row is its question's own or balanced
and the two errors of a balanced one do not correlate; else each may cost somewhat more.
The total has at most the greater of R and 1 / (4 v_i), of which R is half at least; a balanced row
has at most 1 / (4 v_i), twice its part of H. So both lose at most 2 H in a cell, which is less than
2 A before the last such question, and own rows at most A.

Under Laplace noise a row loses abs(h(c)) in place of the square, and nothing is gained; nor under
`replace-one`, where q and r / 2 lose as much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import inf

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.rows.blue import NEW
from qserver.inference.rows.refinement import Weights
from qserver.inference.tables.blocks.pattern import as_box, sets_of
from qserver.planning.blocks.own_rows import Precision
from qserver.planning.blocks.scopes import Scopes
from qserver.planning.constants import PLANNER
from qserver.planning.fresh_row import alpha_nano_up
from qserver.planning.holdings import Holdings
from qserver.planning.row_candidates import Candidate, kind_of_rows
from qserver.query.linear_query import total_query
from qserver.query.primitive import Primitive, primitive
from qserver.query.question import Question
from qserver.records.charge import NANO
from qserver.records.paid_question import PaidQuestion
from qserver.records.plan import PlannedRow


@dataclass
class BalancedDemand:
    """What the paid questions would have cost by balanced rows. No state except caches."""

    _n_read: int = 0
    _least: dict[str, tuple[float, bool]] = field(default_factory=dict)
    _total: float | None = None

    def total(self, scopes: Scopes, holdings: Holdings) -> float | None:
        """The total's best rho; None where own rows cost no more."""
        course = scopes.all(holdings).course
        if self._n_read < len(course.paid):
            self._follow(course.paid)
            total, price = self._best()
            most_nano = price * NANO * holdings.most_cost_of(frozenset())
            self._total = total if most_nano < course.rent_nano(holdings) else None
            self._n_read = len(course.paid)
        return self._total

    def _follow(self, paid: Sequence[PaidQuestion]) -> None:
        for question in paid[self._n_read :]:
            variance, key = Precision.of(question).sharpness ** -2, question.form.key
            if key not in self._least or variance < self._least[key][0]:
                self._least[key] = variance, bool(sets_of(as_box(question.row)))

    def _best(self) -> tuple[float, float]:
        """The total's best rho, and H; other questions are counted at their own rows' charges."""
        variances = np.array([v for v, is_one in self._least.values() if is_one])
        if not len(variances):
            return inf, inf
        alone = sum(0.5 / v for v, is_one in self._least.values() if not is_one)
        total, price = _best(variances)
        # Every charge is rounded up to one of 1e-9.
        return total, price + alone + (len(self._least) + 1) / NANO


def is_apt(holdings: Holdings) -> bool:
    """Whether balanced rows can cost less: under Gaussian noise where records come and go."""
    relation = holdings.ledger.neighbours.relation
    is_additive = holdings.engine.law.is_additive
    return is_additive and relation == "add-remove" and holdings.period_axis is None


def _best(variances: FloatArray) -> tuple[float, float]:
    """The total's best rho for balanced rows with these variances, and what all cost."""
    # 1 / (8 v - 1/R) is convex in R. Beyond the root of the number of questions R alone costs more.
    least = 1.0 / (8.0 * float(variances.min()))

    def price(times: float) -> float:
        total = least * (1.0 + times)
        return total + float((1.0 / (8.0 * variances - 1.0 / total)).sum())

    low, high = 0.0, 1.0 + float(np.sqrt(len(variances)))
    while high - low > PLANNER.near * low + PLANNER.near:
        third = (high - low) / 3.0
        if price(low + third) > price(high - third):
            low += third
        else:
            high -= third
    return least * (1.0 + high), price(high)


@dataclass(frozen=True)
class BalancedWay:
    """A question's balanced row, and what the total still lacks.

    Args:
        best: the total's best rho for the paid questions.
    """

    question: Question
    holdings: Holdings
    best: float

    @cached_property
    def _total(self) -> _Part:
        return self._part(primitive(total_query(self.question.row.row.sizes)))

    @cached_property
    def _rest(self) -> _Part:
        row = self.question.row.row
        return self._part(primitive(row.scaled(Fraction(2)) - total_query(row.sizes)))

    @property
    def is_due(self) -> bool:
        """Whether the total is known less than half as exactly as is best."""
        return 2.0 * self._total.known < self.best

    def candidates(self) -> Iterator[Candidate]:
        """The way, if there is one."""
        target, confidence = self.question.roomy_half_width, self.question.confidence
        variance = Precision(target, confidence).sharpness ** -2
        for _ in range(PLANNER.tries if sets_of(as_box(self.question.row.row)) else 0):
            rows, weights, half_width = self._at(variance)
            if half_width <= target:
                if rows:
                    yield Candidate(kind_of_rows(rows), rows, weights)
                return
            variance *= (target / half_width) ** 2 * (1.0 - PLANNER.rounding)

    def _at(self, variance: float) -> tuple[tuple[PlannedRow, ...], Weights, float]:
        """Rows, weights and half-width where the question may have this variance."""
        least = self.best if self.is_due else 0.0
        total = max(self._total.known, 1.0 / (4.0 * variance), least)
        rest = max(self._rest.known, 1.0 / (8.0 * variance - 1.0 / total))
        rows, alphas, found = list[PlannedRow](), dict[int, int](), dict[int, float]()
        for part, charge in ((self._total, total), (self._rest, rest)):
            number, alpha = NEW - len(rows), part.lacks_nano(charge)
            share = alpha / (alpha + part.known * NANO)
            if alpha:
                rows.append(self.holdings.anew(part.row).raised(alpha))
                alphas[number], found[number] = alpha, part.weight * share
            for old, weight in part.weights:
                found[old] = found.get(old, 0.0) + part.weight * weight * (1.0 - share)
        half_width = self.holdings.engine.half_width_after(
            tuple(found.items()),
            alphas,
            confidence=self.question.confidence,
            step=max((row.step for row in rows), default=Fraction(0)),
        )
        new = self.holdings.engine.n_measurements + NEW
        weights = tuple((new - i if i <= NEW else i, w) for i, w in found.items())
        return tuple(rows), weights, half_width

    def _part(self, row: Primitive) -> _Part:
        engine = self.holdings.engine
        found = engine.estimate_by_rows(row, confidence=self.question.confidence)
        if found is None or found.posterior.is_exact:
            return _Part(row, float(row.multiplier) / 2.0)
        known = engine.law.charge_of_variance(found.posterior.error.variance)
        return _Part(row, float(row.multiplier) / 2.0, known, found.weights)


@dataclass(frozen=True)
class _Part:
    """A row with its weight in the question, and what history knows of it.

    Args:
        known: rho of one row as exact as history; 0 where nothing is known.
    """

    row: Primitive
    weight: float
    known: float = 0.0
    weights: Weights = ()

    def lacks_nano(self, charge: float) -> int:
        """What is still to be measured to reach a rho; 0 if history does."""
        is_more = charge > self.known * (1.0 + PLANNER.rounding)
        return alpha_nano_up(charge - self.known) if is_more else 0
