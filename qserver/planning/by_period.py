"""Ways to measure a question period by period, for data that arrive over time.

Rows of single periods share no cell, so together they cost what the dearest costs, and every later
question about some of these periods uses them again. A question about n periods needs each period
about sqrt(n) times as exactly as its own row. An earlier row of the same question up to some
period, such as the total so far, stands for all of its periods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import count

from qserver.inference.rows.blue import NEW
from qserver.inference.rows.refinement import Weights
from qserver.inference.tables.pieces import asked_periods
from qserver.planning.constants import PLANNER
from qserver.planning.holdings import Holdings, RowStart
from qserver.planning.row_candidates import Candidate, kind_of_rows
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import Primitive, primitive
from qserver.query.question import Question
from qserver.query.sealed_periods import on_periods, periods_of
from qserver.query.weights import interval
from qserver.records.charge import NANO
from qserver.records.paid_question import PaidQuestion
from qserver.records.plan import PlannedRow


@dataclass(frozen=True)
class PeriodWays:
    """The ways to meet a question by its row's parts in time.

    Args:
        axis: the attribute of periods.
    """

    question: Question
    holdings: Holdings
    axis: int

    def candidates(self) -> Iterator[Candidate]:
        """All periods apart, and the longest earlier row of the question with the rest apart.

        None for a question about one period, or with different weights per period.
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
        """Whether a paid question counted the same in a shared period."""
        row = self.question.row.row
        mine = asked_periods(row, self.axis)
        for other in (p.row for p in paid if p.row.scope == row.scope):
            both = mine & asked_periods(other, self.axis)
            if both and len({_part_in(one, self.axis, min(both)) for one in (row, other)}) == 1:
                return True
        return False

    def _part(self, periods: range) -> Primitive:
        return primitive(on_periods(self.question.row.row, self.axis, periods))

    def _measured(self, parts: list[Primitive]) -> Iterator[Candidate]:
        """The parts at the least common alpha that meets the question, if there is one."""
        found = _Level(self.question, self.holdings, tuple(parts))
        alpha = found.least()
        rows = () if alpha is None else found.rows(alpha)
        if alpha is not None and rows:
            ids = count(self.holdings.engine.n_measurements)
            yield Candidate(kind_of_rows(rows), rows, found.weights(alpha, ids))


def _part_in(row: LinearQuery, axis: int, period: int) -> str:
    """The key of a row's part in one period; parts that count alike in two periods have one."""
    stops = (stop for t in row.terms if axis in t.by_axis for stop in t.by_axis[axis].stops)
    # Periods of equal weights, as a rule all that a count asks about, share the key.
    return _part_from(row, axis, max((stop for stop in stops if stop <= period), default=0))


@lru_cache(maxsize=1 << 14)
def _part_from(row: LinearQuery, axis: int, period: int) -> str:
    first, terms = interval(row.sizes[axis], 0, 1), []
    for term in row.terms:
        weights = term.by_axis.get(axis)
        factor = 1 if weights is None else weights.at(period)
        terms.append((term.coefficient * factor, {**term.by_axis, axis: first}))
    return primitive(linear_query(row.sizes, terms)).key


@dataclass(frozen=True)
class _Level:
    """Parts whose noise is brought down to one level.

    Laplace rows are refined. A Gaussian part is measured again for the missing precision, and
    weighed with history.
    """

    question: Question
    holdings: Holdings
    parts: tuple[Primitive, ...]

    @cached_property
    def _starts(self) -> list[RowStart]:
        return [self.holdings.start(part) for part in self.parts]

    @cached_property
    def _known(self) -> list[tuple[int, Weights]]:
        """Per part the charge that history is worth, in 1e-9, and history's weights."""
        engine, found = self.holdings.engine, list[tuple[int, Weights]]()
        for part, start in zip(self.parts, self._starts, strict=True):
            known = None
            if engine.law.is_additive:
                known = engine.estimate_by_rows(part, confidence=self.question.confidence)
            if known is not None and not known.posterior.is_exact:
                charge = engine.law.charge(known.posterior.error.variance**0.5)
                found.append((int(charge * NANO), known.weights))
            elif start.refines is not None:
                own = engine.measurement(start.refines).alpha_nano
                found.append((own, ((start.refines, 1.0),)))
            else:
                found.append((0, ()))
        return found

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
        return tuple(row for row in self._raised(alpha_nano) if row is not None)

    def _raised(self, alpha_nano: int) -> list[PlannedRow | None]:
        return [
            None
            if have >= alpha_nano
            else start.raised(alpha_nano - (have if start.refines is None else 0))
            for start, (have, _) in zip(self._starts, self._known, strict=True)
        ]

    def weights(self, alpha_nano: int, new_ids: Iterator[int]) -> Weights:
        """The weight of each row by its id once the rows are measured; new ones have these ids."""
        found = dict[int, float]()
        for i, row in enumerate(self._raised(alpha_nano)):
            have, old = self._known[i]
            size, share = float(self.parts[i].multiplier), 0.0
            if row is not None and row.refines is None:
                share = row.alpha_nano / (have + row.alpha_nano)
                found[next(new_ids)] = size * share
            for number, weight in old:
                found[number] = found.get(number, 0.0) + size * weight * (1.0 - share)
        return tuple(found.items())

    def _meets(self, alpha_nano: int) -> bool:
        # Each new row has an id of its own until it is numbered.
        weights = self.weights(alpha_nano, count(NEW, -1))
        ids = count(NEW, -1)
        alphas = {
            next(ids) if row.refines is None else row.refines: row.alpha_nano
            for row in self.rows(alpha_nano)
        }
        step = max(start.row.step for start in self._starts)
        confidence = self.question.confidence
        half_width = self.holdings.engine.half_width_after(
            weights, alphas, confidence=confidence, step=step
        )
        return half_width <= self.question.roomy_half_width
