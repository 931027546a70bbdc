"""Ways to measure a question period by period, where data arrive over time.

Rows of single periods share no cell, so together they cost what the dearest costs, and every later
question about some of these periods uses them again. A question about n periods needs each of them
about sqrt(n) times as exact as its own row. An earlier row of the same question up to some period,
such as the total so far, stands for all of its periods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from qserver.inference.rows.blue import NEW
from qserver.inference.rows.refinement import Weights
from qserver.inference.tables.measured import asked_periods
from qserver.planning.candidates import Candidate, kind_of_rows
from qserver.planning.constants import PLANNER
from qserver.planning.holdings import Holdings, RowStart
from qserver.query.linear import LinearQuery
from qserver.query.primitive import Primitive, primitive
from qserver.query.question import Question
from qserver.query.sealed_periods import on_periods, periods_of
from qserver.records.charge import NANO
from qserver.records.paid_question import PaidQuestion
from qserver.records.plan import PlannedRow


@dataclass(frozen=True)
class PeriodWays:
    """The ways to meet a question by rows that are parts of its own row, in time.

    Args:
        axis: the attribute of periods.
    """

    question: Question
    holdings: Holdings
    axis: int

    def candidates(self) -> Iterator[Candidate]:
        """All periods apart, and the longest earlier row of the question with the rest apart.

        None for a question about one period, or one that weighs its periods differently.
        """
        runs = periods_of(self.question.row.row, self.axis)
        periods = [period for run in runs for period in run]
        if not 1 < len(periods) <= PLANNER.most_choices:
            return
        apart = [self._part(range(period, period + 1)) for period in periods]
        if any(abs(part.multiplier) != 1 for part in apart):
            return
        yield from self._measured(apart)
        for n in range(len(periods) - 1, 1, -1):
            earlier = self._part(range(periods[0], periods[n - 1] + 1))
            if abs(earlier.multiplier) == 1 and self.holdings.own(earlier) is not None:
                yield from self._measured([earlier, *apart[n:]])
                return

    def returns(self, paid: Iterable[PaidQuestion]) -> bool:
        """Whether some paid question counted the same as this one in a period of both."""
        row = self.question.row.row
        mine = asked_periods(row, self.axis)
        for other in (p.row for p in paid if p.row.scope == row.scope):
            both = mine & asked_periods(other, self.axis)
            if both and self._in(other, min(both)) == self._in(row, min(both)):
                return True
        return False

    def _in(self, row: LinearQuery, period: int) -> str:
        """The key of what a row counts in one period."""
        return primitive(on_periods(row, self.axis, range(period, period + 1))).key

    def _part(self, periods: range) -> Primitive:
        return primitive(on_periods(self.question.row.row, self.axis, periods))

    def _measured(self, parts: list[Primitive]) -> Iterator[Candidate]:
        """The parts at the least common alpha that meets the question; none where that is none."""
        found = _Level(self.question, self.holdings, tuple(map(self.holdings.start, parts)))
        alpha = found.least()
        rows = () if alpha is None else found.rows(alpha)
        if alpha is None or not rows:
            return
        signs = [float(part.multiplier) for part in parts]
        yield Candidate(kind_of_rows(rows), rows, found.numbered(signs))


@dataclass(frozen=True)
class _Level:
    """Rows whose noise is brought down to one level."""

    question: Question
    holdings: Holdings
    starts: tuple[RowStart, ...]

    def least(self) -> int | None:
        """The least alpha that meets the question, in nano-epsilon; None if none does."""
        high = 1
        while not self._meets(high):
            high *= 4
            if high > PLANNER.public_alpha * NANO:
                return None
        low = high // 4
        while high - low > max(1, high // PLANNER.parts):
            middle = (low + high) // 2
            low, high = (low, middle) if self._meets(middle) else (middle, high)
        return high

    def rows(self, alpha_nano: int) -> tuple[PlannedRow, ...]:
        """The rows to measure or to refine.

        Weights are on rows. A part whose cell of a table has less noise is a new row all the same,
        one nano-epsilon above the cell.
        """
        return tuple(s.raised(alpha_nano) for s in self.starts if self._own_nano(s) < alpha_nano)

    def _own_nano(self, start: RowStart) -> int:
        """Alpha of the part's own row, whatever its cell has; 0 where it was never measured."""
        if start.refines is None:
            return 0
        return self.holdings.engine.measurement(start.refines).alpha_nano

    def numbered(self, signs: list[float]) -> Weights:
        """The weight of each part by its id; new rows have the next ids, in their order."""
        number, found = self.holdings.engine.n_measurements, list[tuple[int, float]]()
        for start, sign in zip(self.starts, signs, strict=True):
            at = start.refines
            if at is None:
                at, number = number, number + 1
            found.append((at, sign))
        return tuple(found)

    def _meets(self, alpha_nano: int) -> bool:
        # Each new row has an id of its own until it is numbered.
        ids = [NEW - n if s.refines is None else s.refines for n, s in enumerate(self.starts)]
        alphas = {
            i: own if own >= alpha_nano else s.raised(alpha_nano).alpha_nano
            for i, s in zip(ids, self.starts, strict=True)
            for own in (self._own_nano(s),)
        }
        weights = tuple((i, 1.0) for i in ids)
        step = max(start.row.step for start in self.starts)
        confidence = self.question.confidence
        half_width = self.holdings.engine.half_width_after(
            weights, alphas, confidence=confidence, step=step
        )
        return half_width <= self.question.roomy_half_width
