"""Smooth functions of sums: quotients, and statistics from sums of powers.

Intervals follow from draws of the sums' errors (`qserver.inference.smooth`). With simultaneous
intervals of the sums, they hold all values that these allow. The asked exactness of functions, and
their questions, are here too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from qserver.errors import RequirementError
from qserver.query.class_grid import class_grid
from qserver.query.linear_query import LinearQuery
from qserver.query.primitive import primitive
from qserver.query.sql.exactness import least_base
from qserver.query.sql.functions.arithmetic import at_once, widths_at_once
from qserver.query.sql.functions.function_of_sums import (
    Combination,
    Combined,
    FunctionOfSums,
    KnownPart,
    Order,
    Smooth,
)
from qserver.query.sql.functions.item_meaning import Quotient, Several
from qserver.query.sql.functions.quantile import MOST_THRESHOLDS
from qserver.query.sql.functions.thresholds import QuantileOf
from qserver.query.sql.statement import MAX_CELLS, Ratio, Statement
from qserver.query.sql.tables.cell_intervals import (
    CellInterval,
    PublicBounds,
    centred,
    quotient_interval,
)
from qserver.query.sql.tables.relative_length import confidence_of

FloatArray = NDArray[np.float64]

_STATED = Fraction(1, 20)
_MAX_KINDS = 1 << 16


@dataclass(frozen=True)
class QuotientOf(FunctionOfSums):
    """A quotient as middle + part / denominator.

    Args:
        bounds: the least and the greatest value that part / denominator has for any data; None if
            unknown.
    """

    middle: Fraction
    bounds: PublicBounds[Fraction] | None

    @property
    def stated_half_width(self) -> Fraction:
        """A twentieth of the public range, or by itself where there is none."""
        width = self.bounds.most - self.bounds.least if self.bounds else Fraction(1)
        return width * _STATED or _STATED

    @property
    def smooth(self) -> Smooth:
        """The quotient; no value if its denominator has the other sign, or is zero."""
        low, high = -math.inf, math.inf
        if self.bounds is not None:
            low, high = (float(self.middle + end) for end in self.bounds.whole)
        return Smooth(self._values, low, high, size=1)

    def _values(self, parts: FloatArray) -> FloatArray:
        over, under = parts
        sign = 1.0 if self.bounds is not None or under.mean() >= 0.0 else -1.0
        with np.errstate(all="ignore"):
            found = float(self.middle) + over / under
        return np.where(under * sign > 0.0, found, np.nan)

    def value(self, parts: Sequence[KnownPart]) -> Combination:
        """All quotients of values in both intervals."""
        ends = quotient_interval(*map(_interval, parts), middle=self.middle, bounds=self.bounds)
        low = -math.inf if ends.low is None else ends.low
        high = math.inf if ends.high is None else ends.high
        over, under = (part.estimate for part in parts)
        if not (under > 0.0 or (under < 0.0 and self.bounds is None)):
            return Combination(None, low, high)
        found = float(self.middle) + over / under
        if not math.isfinite(found):
            return Combination(None, low, high)
        return Combination(min(max(found, low), high), low, high)


def _interval(part: KnownPart) -> CellInterval:
    low, high = (end if math.isfinite(end) else None for end in (part.low, part.high))
    return CellInterval(low, high)


@lru_cache(maxsize=1_024)
def _as_combined(cell: Ratio, *, about_zero: bool) -> Combined:
    """A quotient as a function of two sums."""
    shape = centred(cell, about_zero=about_zero)
    function = QuotientOf(shape.middle, shape.bounds)
    return Combined((shape.part, shape.denominator), function, cell.binning)


def of_sums(quotient: Quotient) -> Several:
    """A quotient as a function of two sums, to which others may be added.

    It is measured about the middle of its public bounds, if these are known.
    """
    low, high, middle, bounds = quotient.low, quotient.high, Fraction(0), None
    if low is not None and high is not None:
        middle, bounds = (low + high) / 2, PublicBounds((low - high) / 2, (high - low) / 2)
    part = quotient.numerator.plus(quotient.denominator.scaled(-middle))
    parts = (part, quotient.denominator)
    return Several(parts, QuotientOf(middle, bounds), quotient.numerator.error)


def function_cells(statement: Statement) -> Iterator[tuple[int, int, Combined]]:
    """Row, column and cell of each function of several sums, row by row.

    Quotients of several groups with one denominator, as shares of a total are, keep their numerator
    as it is: about any other number each would be a sum over the records of all groups.
    """
    shared = _shared(statement)
    found = {(i, k): cell for i, k, cell in combined_cells(statement)}
    for i, row in enumerate(statement.rows):
        for k, cell in enumerate(row.cells):
            if isinstance(cell, Ratio):
                found[i, k] = _as_combined(cell, about_zero=cell.denominator in shared)
    yield from ((*place, found[place]) for place in sorted(found))


def _shared(statement: Statement) -> set[LinearQuery]:
    """The denominators of quotients in several groups."""
    found = Counter[LinearQuery]()
    for row in statement.rows:
        found.update({cell.denominator for cell in row.cells if isinstance(cell, Ratio)})
    return {denominator for denominator, n in found.items() if n > 1}


@lru_cache(maxsize=1_024)
def kinds(queries: tuple[LinearQuery, ...]) -> FloatArray:
    """Weights in each sum of every kind of record, shape (k, m).

    With too many kinds, one kind with the greatest weight in every sum.
    """
    grid = class_grid(*queries)
    if grid.n_cells > _MAX_KINDS:
        return np.array([[float(primitive(query).sensitivity)] for query in queries])
    values = [grid.values(query).ravel().astype(float) / query.denominator for query in queries]
    found = np.unique(np.array(values), axis=1)
    return np.asarray(found[:, found.any(axis=0)])


@dataclass(frozen=True)
class SmoothAsked:
    """A smooth number with the required exactness."""

    cell: Combined
    smooth: Smooth
    half_width: float
    confidence: float


def smooth_asked(statement: Statement) -> dict[Place, SmoothAsked]:
    """The smooth numbers of a statement, by their place.

    Raises:
        SqlError: the text gives no length.
        RequirementError: a quotient is the same for all data.
    """
    found = dict[Place, SmoothAsked]()
    for i, k, cell in function_cells(statement):
        if (smooth := cell.function.smooth) is None:
            continue
        half_width = _half_width(statement, k, cell)
        found[i, k] = SmoothAsked(cell, smooth, float(half_width), confidence_of(statement, k))
    return found


def _half_width(statement: Statement, column: int, cell: Combined) -> Fraction:
    function = cell.function
    if not isinstance(function, QuotientOf):
        return steps_half_width(statement, column, cell)
    if function.bounds is not None and function.bounds.least == function.bounds.most:
        raise RequirementError("sql", "not ask for a quotient that is the same for all records")
    exact = statement.exactness_of(column)
    if exact.part is not None:
        return exact.part * _least_size(statement, function)
    if exact.half_width is None:
        raise statement.without_length()
    return exact.half_width


def _least_size(statement: Statement, function: QuotientOf) -> Fraction:
    """The least size of a quotient, in whose percentages lengths are given."""
    if function.bounds is not None:
        low, high = (function.middle + end for end in function.bounds.whole)
        if (least := max(low, -high)) > 0:
            return least
    raise statement.refuse(
        "not ask for a percentage of a quotient that may be zero",
        "Nearest: WITHIN 0.02, in the units of the quotient.",
    )


Place = tuple[int, int]
"""The row and the column of a cell."""

OfSeveral = Mapping[Place, tuple[float, ...]]
"""Per function of sums the half-widths of its sums."""


@dataclass(frozen=True)
class OrderAsked:
    """A number that is told by places in order, with the required exactness."""

    order: Order
    queries: tuple[LinearQuery, ...]
    half_width: float
    confidence: float


def order_asked(statement: Statement) -> dict[Place, OrderAsked]:
    """The numbers told by places in order, by place; only for separate intervals.

    Raises:
        SqlError: the text gives no length, or gives it in percent.
    """
    found = dict[Place, OrderAsked]()
    for i, k, cell in combined_cells(statement):
        if cell.function.smooth is not None:
            continue
        half_width = float(steps_half_width(statement, k, cell))
        order = None if statement.clauses.simultaneous else cell.function.order
        if order is not None:
            confidence = confidence_of(statement, k)
            found[i, k] = OrderAsked(order, cell.queries, half_width, confidence)
    return found


def order_at_once(statement: Statement) -> OfSeveral:
    """Half-widths of the counts for simultaneous intervals; raises as `order_asked` does."""
    base, found = least_base(statement.clauses.assuming, 0.0), dict[Place, tuple[float, ...]]()
    for i, k, cell in combined_cells(statement):
        if statement.clauses.simultaneous and cell.function.smooth is None:
            half_width = float(steps_half_width(statement, k, cell))
            found[i, k] = widths_at_once(cell.function, half_width, base)
    return found


def steps_half_width(statement: Statement, column: int, cell: Combined) -> Fraction:
    """The asked half-width of a function; raises as `order_asked` does."""
    half_width = statement.exactness_of(column).half_width
    if half_width is None:
        of = "the units of the number" if cell.function.has_steps else "records"
        raise statement.refuse(
            f"say how long the interval may be, in {of}",
            f"Nearest: WITHIN {1 if cell.function.has_steps else 50}.",
        )
    return half_width


def several_confidence(statement: Statement, column: int, cell: Combined) -> float:
    """The confidence of each sum's interval: the cell's, unless it counts groups."""
    confidence, order = confidence_of(statement, column), cell.function.order
    if statement.clauses.simultaneous or order is None:
        return confidence
    return order.part_confidence(confidence)


def combined_cells(statement: Statement) -> Iterator[tuple[int, int, Combined]]:
    """Row, column and cell of each function of sums.

    For simultaneous intervals, quantiles use all counts below values.
    """
    for i, row in enumerate(statement.rows):
        for k, cell in enumerate(row.cells):
            if isinstance(cell, Combined):
                if statement.clauses.simultaneous and cell.function.order is not None:
                    yield i, k, _at_once(cell, statement)
                else:
                    yield i, k, cell


def _at_once(cell: Combined, statement: Statement) -> Combined:
    room = MAX_CELLS // max(len(statement.rows) * len(statement.columns), 1)
    found = at_once(cell.function, cell.queries, min(MOST_THRESHOLDS, room))
    return replace(cell, queries=found.queries, function=found.function)


def are_counts(queries: Sequence[LinearQuery], statement: Statement) -> bool:
    """Whether these queries, at least one, all count values of quantiles."""
    cells = [cell for _, _, cell in combined_cells(statement)]
    orders = [(order, cell.queries) for cell in cells if (order := cell.function.order)]
    counted = {
        (bases[place], of)
        for order, bases in orders
        for _, place, of in order.terms
        if isinstance(of, QuantileOf)
    }
    return bool(queries) and all(any(of.counts(base, q) for base, of in counted) for q in queries)
