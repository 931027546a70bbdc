"""The ways to meet a requirement by rows alone: rows to measure and to refine.

Each candidate is checked at the drawn scales: alphas are whole nano-epsilon, rounded up. Most have
weights that meet the requirement once their rows are released. The query's own row with tables has
none: inference finds these weights again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil

from qserver.errors import CapacityError
from qserver.inference.engine import InferenceEngine, RowEstimate
from qserver.inference.rows.blue import NEW
from qserver.inference.rows.refinement import Refined, Weights
from qserver.ledger.cell_ledger import CellLedger
from qserver.planning.constants import PLANNER
from qserver.planning.fresh_row import alpha_nano_up, fresh_charge_nano
from qserver.planning.holdings import Holdings, RowStart
from qserver.planning.purchase import Purchase
from qserver.query.question import Question
from qserver.records.answer import PlanKind
from qserver.records.charge import Charge
from qserver.records.plan import PlannedRow


@dataclass(frozen=True)
class Candidate:
    """Rows to measure or refine so that the requirement is met.

    Args:
        weights: pairs of a measurement's id and its weight in the asked row that do so; a new row
            has the next id. Empty where tables have a part in it.
    """

    kind: PlanKind
    rows: tuple[PlannedRow, ...]
    weights: Weights = ()

    @property
    def purchase(self) -> Purchase:
        """The rows as a purchase."""
        return Purchase(rows=self.rows)


@dataclass(frozen=True)
class RowCandidates:
    """The ways to meet a question by rows alone.

    Args:
        holdings: engine and ledger of the present state.
        estimate: history's answer at the asked confidence, or None.
    """

    question: Question
    holdings: Holdings
    estimate: RowEstimate | None

    @property
    def engine(self) -> InferenceEngine:
        """Inference over the history."""
        return self.holdings.engine

    @property
    def ledger(self) -> CellLedger:
        """The snapshot's charges."""
        return self.holdings.ledger

    @cached_property
    def target(self) -> float:
        """Target half-width of the row's interval, in records."""
        return self.question.row_half_width

    @cached_property
    def anew(self) -> RowStart:
        """The row with fresh, independent noise."""
        return self.holdings.anew(self.question.row)

    def own_rows(self) -> Iterator[Candidate]:
        """The ways by the query's own row, alone and together with the tables."""
        start = self.holdings.start(self.question.row)
        alone = list(self._alone(start))
        # Fresh, independent noise costs more, but its lattice may be finer.
        yield from alone or self._alone(self.anew)
        yield from self._beside_tables()

    def independent(self) -> Candidate | None:
        """The row with fresh noise that alone meets the requirement."""
        return next(self._alone(self.anew), None)

    def by_history(self, *, at_most: int | None = None) -> Iterator[Candidate]:
        """The ways by measured rows, which may be raised, alone or together with the own row.

        Args:
            at_most: most rows of history's weights; beyond it there are no such ways.
        """
        by_rows = self._by_rows()
        if by_rows is None or (at_most is not None and len(by_rows.weights) > at_most):
            return
        yield from self._refinements(by_rows.weights)
        yield from self._combined()

    def _by_rows(self) -> RowEstimate | None:
        """The estimate by measured rows alone, or None."""
        if self.estimate is None or self.estimate.method != "blocks":
            return self.estimate
        question = self.question
        return self.engine.estimate_by_rows(question.row, confidence=question.confidence)

    def _combined(self) -> Iterator[Candidate]:
        """The row measured or raised, combined with all rows of history."""
        query, confidence = self.question.row, self.question.confidence
        own = self.engine.refined_row(query, half_width=self.target, confidence=confidence)
        if own is not None:
            # A second measurement of the same row could only cost more.
            yield from self._checked(own)
            return
        combined = self.engine.combined(
            query, half_width=self.target, confidence=confidence, step=self.anew.row.step
        )
        if combined is not None:
            weights = (*combined.weights, (NEW, combined.new_weight))
            yield from self._checked(Refined(((NEW, combined.alpha),), weights))
            yield from self._refinements(weights)

    def _beside_tables(self) -> Iterator[Candidate]:
        """The least raise of the row that meets the requirement together with tables."""
        tables = self.engine.tables
        if not (tables.alpha_nano or tables.public_blocks):
            return
        row = self.holdings.own_row(self.question)
        if row is not None:
            yield Candidate(kind_of_rows((row,)), (row,))

    def _alone(self, start: RowStart) -> Iterator[Candidate]:
        """The row raised until it alone meets the requirement."""
        try:
            alpha = fresh_charge_nano(
                self.question.requirement,
                multiplier=self.question.row.multiplier,
                step=start.row.step,
                law=self.engine.law,
            )
        except CapacityError:
            return
        number = NEW if start.refines is None else start.refines
        weights: Weights = ((number, 1.0),)
        if self._half_width(weights, {number: alpha}, start.row.step) > self.target:
            # The half-width is evaluated to the long side, by a part that is far less than this.
            alpha = ceil(alpha * Fraction(1.0 + PLANNER.rounding))
        if alpha > start.old_alpha_nano:
            kind: PlanKind = "refined" if start.old_alpha_nano else "fresh"
            yield Candidate(kind, (start.raised(alpha),), self._numbered(weights))

    def _numbered(self, weights: Weights) -> Weights:
        number = self.engine.n_measurements
        return tuple((number if i == NEW else i, w) for i, w in weights)

    def _half_width(
        self, weights: Weights, alphas: dict[int, int], step: Fraction | None = None
    ) -> float:
        confidence, step = self.question.confidence, step or self.anew.row.step
        return self.engine.half_width_after(weights, alphas, confidence=confidence, step=step)

    def _refinements(self, weights: Weights) -> Iterator[Candidate]:
        """Ways to raise the rows behind given weights."""
        prices = self._prices(weights)
        found = self.engine.refined_rows(
            weights,
            half_width=self.target,
            confidence=self.question.confidence,
            step=self.anew.row.step,
            price=prices.__getitem__,
        )
        for refined in found:
            yield from self._checked(refined)

    def _prices(self, weights: Weights) -> dict[int, float]:
        """The price of a small raise of each row, per unit of alpha."""
        if len(weights) > PLANNER.most_priced_rows:
            return {i: 1.0 for i, _ in weights}
        spent = self.ledger.spent_nano
        probe = max(1, spent // 16)
        prices = {}
        for i, _ in weights:
            row = self.question.row.row if i == NEW else self.engine.measurement(i).row
            after = self.ledger.spent_after([Charge(row, probe, "plan")])
            prices[i] = max(PLANNER.small_part, (after - spent) / probe)
        return prices

    def _checked(self, refined: Refined) -> Iterator[Candidate]:
        """The candidate on whole nano-epsilon, if it then certainly meets the requirement."""
        alphas = {i: alpha_nano_up(alpha) for i, alpha in refined.alphas}
        if self._half_width(refined.weights, alphas) > self.target:
            return
        rows = tuple(self._rows(alphas))
        if rows:
            yield Candidate(kind_of_rows(rows), rows, self._numbered(refined.weights))

    def _rows(self, alphas: dict[int, int]) -> Iterator[PlannedRow]:
        for i, alpha in alphas.items():
            if i == NEW:
                yield self.anew.raised(alpha)
                continue
            own = self.engine.measurement(i)
            if alpha <= own.alpha_nano:
                continue
            start = self.holdings.start_of(own)
            if alpha > start.old_alpha_nano:
                yield start.raised(alpha)
            else:
                # Its cell has less noise already, but using that must be charged.
                yield PlannedRow.refining(own, alpha_nano=alpha)


def kind_of_rows(rows: Sequence[PlannedRow]) -> PlanKind:
    """The kind of a plan that measures these rows and uses history."""
    return "refined" if any(row.old_alpha_nano for row in rows) else "combined"
