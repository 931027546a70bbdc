"""A smooth function of sums, its asked exactness, and its interval from draws of errors.

Draws of the number are skewed if the function is bent. So the interval is the hull of the draws'
interval and its mirror about the number: it is centred, and holds as stated even after several
looks. If the function is far from linear within the errors, the draws nearest to the number replace
their quantiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.law.number_in_steps import Asked
from qserver.inference.smooth.part_law import PartLaw

Values = Callable[[FloatArray], FloatArray]
"""From the sums, shape (k, n), to the number, shape (n,): not a number where it has no value."""


Ends = Callable[[FloatArray, FloatArray], tuple[float, float]]
"""From the ends of intervals of some numbers, shape (m,), to those of the one they tell."""


@dataclass(frozen=True, eq=False)
class Number(Asked):
    """A function of k sums.

    Args:
        values: the function.
        kinds: gives the weights in each sum of every kind of record, shape (k, m).
        size: place of the sum that counts the records.
        low, high: public bounds on its value; they may be infinite.
        pieces: smooth numbers that determine it, shape (m, n), if it is not smooth itself.
        ends: its interval from simultaneous intervals of these.
        rivals: places of sums whose greatest counts the records, or with `needs_all` the least;
            empty if `size` does.
    """

    values: Values
    kinds: Callable[[], FloatArray]
    size: int = 0
    low: float = -math.inf
    high: float = math.inf
    pieces: Values | None = None
    ends: Ends | None = None
    rivals: tuple[int, ...] = ()
    needs_all: bool = False

    def size_at(self, means: FloatArray) -> int:
        """The place of the sum that counts the records, by the sums' estimates."""
        first = min if self.needs_all else max
        return first(self.rivals or (self.size,), key=lambda j: float(means[j]))

    @property
    def is_bounded(self) -> bool:
        """Whether public bounds alone are as short as asked."""
        return self.high - self.low <= 2.0 * self.half_width

    @cached_property
    def weights(self) -> FloatArray:
        """The weights of a record in each sum, by kind of record, shape (k, m)."""
        return self.kinds()

    @cached_property
    def sizes(self) -> FloatArray:
        """The largest weight of a record in each sum, shape (k,)."""
        return np.asarray(np.abs(self.weights).max(axis=1, initial=0.0))

    @cached_property
    def per_record(self) -> float:
        """Mean weight of a record in the counting sum, over its kinds."""
        found = np.abs(self.weights[self.size])
        return float(found[found > 0.0].mean()) if (found > 0.0).any() else 1.0

    def loss(self, charges: FloatArray) -> float:
        """The greatest loss of a record if a record of weight 1 loses these by the sums: (k,)."""
        return float((charges @ np.abs(self.weights) ** self.law.power).max(initial=0.0))

    def price(self, rates: FloatArray, paid: FloatArray | None = None) -> float:
        """The greatest loss of a record if the sums are measured at these rates, shape (k,).

        Args:
            rates: that of a sum which is exact is infinite, and costs nothing.
            paid: rates that are paid already; None for nothing.
        """
        of, measured = self.law.charge_of_sharpness, np.isfinite(rates)
        charges = of(np.where(measured, rates, 0.0))
        return self.loss(charges if paid is None else charges - of(np.where(measured, paid, 0.0)))


FAR_FROM_LINEAR = 0.4
_UNDEFINED = 1e-3
"""Most draws without a value: beyond that the number has no interval yet."""
_DRAWN_MISSED = 0.02
"""Draws tell ends that are missed at least this often; rarer misses are read off wider errors."""
_BASE_MISSED = 0.05
SURELY = 0.92
"""Ends are read where draws miss this part of what is allowed. How often the ends of 2,048 pairs
are missed has a deviation, over the draws, of 3 to 5 percent of it (of 1 to 6 sums)."""
_CENTRAL = 0.9


@dataclass(frozen=True)
class Look:
    """A number by its draws.

    Args:
        estimate: None if the sums' estimates give no value.
        half_width: of the centred interval, before public bounds; may be infinite.
        bend: non-linearity of the function within the errors.
    """

    estimate: float | None
    half_width: float
    bend: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether there is an interval."""
        return math.isfinite(self.half_width)

    @property
    def is_far_from_linear(self) -> bool:
        """Whether the function is far from linear within its interval."""
        return self.is_known and self.bend > FAR_FROM_LINEAR


def look(number: Number, law: PartLaw, *, missed: float | None = None) -> Look:
    """The interval of a number.

    Args:
        missed: probability of a miss; that of the number by default.
    """
    allowed = number.missed if missed is None else missed
    allowed = max(allowed - law.error, allowed / 2.0)
    found = number.values(law.means[:, None])[0]
    if not math.isfinite(found):
        return Look(None, math.inf)
    estimate, drawn = float(found), Drawn(number, law)
    if not law.errors.any():
        return Look(estimate, 0.0)
    half_width = drawn.half_width(estimate, allowed)
    if not math.isfinite(half_width) or number.pieces is not None:
        return Look(estimate, half_width)
    room = float(np.abs(gradient(number, law)) @ law.allowances)
    return Look(estimate, half_width + room, drawn.bend(estimate, allowed))


@dataclass(frozen=True, eq=False)
class Drawn:
    """Draws of a number, with its sums' errors as they are or scaled.

    Args:
        scales: of each sum's error, shape (k,); None for 1.
    """

    number: Number
    law: PartLaw
    scales: FloatArray | None = None

    def half_width(self, estimate: float, missed: float) -> float:
        """Half-width of the interval about the estimate; infinite without one."""
        if self.number.pieces is not None and not self.law.is_joint:
            # How errors depend is not known: each number has its part of what may be missed.
            missed /= len(self.number.pieces(self.law.means[:, None]))
        factor, base = 1.0, missed
        if missed < _DRAWN_MISSED:
            base = _BASE_MISSED
            of = self.number.law.half_width
            factor = of(missed) / of(base)
        if not self.law.n_disagreements:  # else the law states what its draws may err by
            base *= SURELY
        if self.number.pieces is not None:
            return self._by_pieces(self.number.pieces, estimate, factor, base)
        found = self.values(factor)
        half = _hull(found, estimate, base)
        if not math.isfinite(half) or self._bend(half, factor, estimate, base) <= FAR_FROM_LINEAR:
            return half
        return _nearest(found, estimate, base)

    def _by_pieces(self, pieces: Values, estimate: float, factor: float, missed: float) -> float:
        """Half-width by simultaneous intervals of its pieces.

        They cover the nearest joint draws.
        """
        middles = pieces(self.law.means[:, None])
        errors = self._errors(factor)
        # What lattice and floats add makes each error longer.
        errors = errors + np.copysign(self.law.allowances[:, None], errors)
        off = np.abs(pieces(self.law.means[:, None] - errors) - middles)
        off = np.where(np.isfinite(off), off, np.inf)
        half = self._sizes(pieces, off)
        half[np.isinf(off).mean(axis=1) > _UNDEFINED] = np.inf
        told = np.isfinite(half) & (half > 0.0)
        if told.any():
            half[told] *= _nearest((off[told] / half[told, None]).max(axis=0), 0.0, missed)
        ends = self.number.ends
        assert ends is not None  # noqa: S101 - of a number that follows from others
        low, high = ends(middles[:, 0] - half, middles[:, 0] + half)
        return max(high - estimate, estimate - low)

    def _sizes(self, pieces: Values, off: FloatArray) -> FloatArray:
        """Relative reach of each piece, shape (m,).

        It uses the half-widths of its sums: those of draws vary by chance, and the longest would
        count.
        """
        steps = self.law.half_widths * (1.0 if self.scales is None else self.scales)
        steps = np.diag(np.where(np.isfinite(steps), steps, 0.0))
        high, low = (pieces(self.law.means[:, None] + by) for by in (steps, -steps))
        found = np.sqrt(((high - low) ** 2).sum(axis=1))
        rest = ~(np.isfinite(found) & (found > 0.0))
        found[rest] = np.quantile(off[rest], 0.5, axis=1, method="higher")
        return np.asarray(found)

    def bend(self, estimate: float, missed: float) -> float:
        """Relative difference of the ends at twice the errors from twice the ends."""
        base = max(missed, _BASE_MISSED)
        return self._bend(_hull(self.values(1.0), estimate, base), 1.0, estimate, base)

    def _bend(self, half: float, factor: float, estimate: float, missed: float) -> float:
        if half == 0.0:
            return 0.0
        twice = _hull(self.values(2.0 * factor), estimate, missed)
        return abs(twice / (2.0 * half) - 1.0)

    def values(self, factor: float) -> FloatArray:
        """The number at each draw, its errors times `factor`."""
        return self.number.values(self.law.means[:, None] - self._errors(factor))

    def _errors(self, factor: float) -> FloatArray:
        errors = self.law.errors * factor
        if self.scales is not None:
            errors = errors * self.scales[:, None]
        return errors if self.law.is_joint else _as_far_apart(self.number, self.law, errors)


def gradient(number: Number, law: PartLaw) -> FloatArray:
    """Slopes of the number by its sums, within their errors, shape (k,)."""
    estimate = float(number.values(law.means[:, None])[0])
    spread = law.errors.std(axis=1) if law.is_joint else np.sqrt((law.errors**2).mean(axis=1))
    used = np.flatnonzero(spread > 0.0)
    found = np.zeros(len(spread))
    if not math.isfinite(estimate) or not len(used):
        return found
    if not law.is_joint or number.pieces is not None:
        found[used] = [_slope(number, law.means, j, float(spread[j])) for j in used.tolist()]
        return found
    values = Drawn(number, law).values(1.0) - estimate
    sizes = np.where(np.isfinite(values), np.abs(values), np.inf)
    central = sizes <= np.quantile(sizes, _CENTRAL, method="lower")
    central &= np.isfinite(values)
    scaled = law.errors[used][:, central] / spread[used, None]
    fitted = np.linalg.lstsq(-scaled.T, values[central], rcond=None)[0]
    found[used] = fitted / spread[used]
    return found


def _slope(number: Number, means: FloatArray, j: int, step: float) -> float:
    """Slope by one sum, from both sides; 0 if one side has no value."""
    moved = np.zeros((len(means), 2))
    moved[j] = -step, step
    low, high = number.values(means[:, None] + moved)
    slope = float((high - low) / (2.0 * step))
    return slope if math.isfinite(slope) else 0.0


def _as_far_apart(number: Number, law: PartLaw, sizes: FloatArray) -> FloatArray:
    """Errors of known sizes, with signs that all move the number one way."""
    signs = np.sign(gradient(number, law))
    signs[signs == 0.0] = 1.0
    one = signs[:, None] * sizes
    return np.concatenate([one, -one], axis=1)


def _hull(values: FloatArray, estimate: float, missed: float) -> float:
    """Half the length of the interval that holds the inner draws and their mirror.

    Among n exchangeable draws, the truth lies beyond the k-th least with probability k / (n + 1),
    which sets the ends.
    """
    n, n_outside = len(values), int(missed / 2.0 * (len(values) + 1))
    is_known = np.isfinite(values)
    n_unknown = n - int(is_known.sum())
    if n_unknown > _UNDEFINED * n or n_outside <= n_unknown:
        return math.inf
    left = n_outside - n_unknown
    ordered = np.sort(values[is_known])
    return float(max(ordered[-left] - estimate, estimate - ordered[left - 1], 0.0))


def _nearest(values: FloatArray, estimate: float, missed: float) -> float:
    """Distance that covers the share of nearest draws."""
    sizes = np.sort(np.where(np.isfinite(values), np.abs(values - estimate), np.inf))
    return float(sizes[len(sizes) - max(int(missed * (len(sizes) + 1)), 1)])
