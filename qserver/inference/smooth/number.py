"""A smooth function of sums, how exact it shall be, and its interval from draws of their errors.

Draws of the number are wide to one side where the function is bent. An interval of theirs, and its
mirror about the number itself, are both taken: their hull is centred, and holds as often as said
also after looks at several exactnesses. Where the function is far from linear within the errors,
the draws nearest to the number are taken in place of the ends of most of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.law.asked import Asked
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
        kinds: gives the weights of a record in each sum, for every kind of record that counts in
            some, shape (k, m).
        size: place of the sum that tells how many records there are.
        low, high: public bounds on its value; they may be infinite.
        pieces: the smooth numbers that it follows from, shape (m, n), if it is not smooth itself.
        ends: what intervals of these that hold at once say of it.
        rivals: places of sums of which the greatest tells how many records there are, or with
            `needs_all` the least; empty where `size` does.
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
        """The place of the sum that tells how many records there are, by estimates of the sums."""
        first = min if self.needs_all else max
        return first(self.rivals or (self.size,), key=lambda j: float(means[j]))

    @property
    def is_bounded(self) -> bool:
        """Whether its public bounds alone are as near as asked."""
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
        """What a record adds to the sum that tells their number, on average over its kinds."""
        found = np.abs(self.weights[self.size])
        return float(found[found > 0.0].mean()) if (found > 0.0).any() else 1.0

    def loss(self, charges: FloatArray) -> float:
        """The greatest loss of a record if a record of weight 1 loses these by the sums: (k,)."""
        return float((charges @ np.abs(self.weights) ** self.law.power).max(initial=0.0))

    def price(self, rates: FloatArray, paid: FloatArray | None = None) -> float:
        """The greatest loss of a record if each sum is measured at this rate, shape (k,).

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
    """What draws say of a number.

    Args:
        estimate: None where the sums' estimates give it no value.
        half_width: of the centred interval, before any public bound cuts it; may be infinite.
        bend: how far from linear the function is within the errors.
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
        """Whether there is an interval within which the function is far from linear."""
        return self.is_known and self.bend > FAR_FROM_LINEAR


def look(number: Number, law: PartLaw, *, missed: float | None = None) -> Look:
    """The interval of a number.

    Args:
        missed: the probability that it may miss with; that of the number by default.
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
    """Draws of a number, with the errors of its sums as they are or scaled.

    Args:
        scales: of each sum's error, shape (k,); None for 1.
    """

    number: Number
    law: PartLaw
    scales: FloatArray | None = None

    def half_width(self, estimate: float, missed: float) -> float:
        """Of the interval about the estimate; infinite where it has none."""
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
        """By the intervals of the numbers that it follows from, which hold at once.

        They are as long as the nearest draws of all of them together need.
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
        """How far each piece may be off, in proportion to the others, shape (m,).

        By the half-widths of its sums, one after the other: those of draws differ by chance, and
        the longest would count.
        """
        steps = self.law.half_widths * (1.0 if self.scales is None else self.scales)
        steps = np.diag(np.where(np.isfinite(steps), steps, 0.0))
        high, low = (pieces(self.law.means[:, None] + by) for by in (steps, -steps))
        found = np.sqrt(((high - low) ** 2).sum(axis=1))
        rest = ~(np.isfinite(found) & (found > 0.0))
        found[rest] = np.quantile(off[rest], 0.5, axis=1, method="higher")
        return np.asarray(found)

    def bend(self, estimate: float, missed: float) -> float:
        """How much the ends at twice the errors differ from twice the ends, as a part of them."""
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
    """How the number changes with its sums, within their errors, shape (k,)."""
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
    """Of one sum, by its two sides; 0 where one of them has no value."""
    moved = np.zeros((len(means), 2))
    moved[j] = -step, step
    low, high = number.values(means[:, None] + moved)
    slope = float((high - low) / (2.0 * step))
    return slope if math.isfinite(slope) else 0.0


def _as_far_apart(number: Number, law: PartLaw, sizes: FloatArray) -> FloatArray:
    """Errors of which only the sizes are known, so that all of them move the number one way."""
    signs = np.sign(gradient(number, law))
    signs[signs == 0.0] = 1.0
    one = signs[:, None] * sizes
    return np.concatenate([one, -one], axis=1)


def _hull(values: FloatArray, estimate: float, missed: float) -> float:
    """Half the length of the interval that holds the inner draws and their mirror.

    Of n draws and the truth, equally likely in any order, k lie beyond the k-th least with a
    probability of k / (n + 1): so far out stand its ends.
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
    """The distance of the farthest of the nearest draws."""
    sizes = np.sort(np.where(np.isfinite(values), np.abs(values - estimate), np.inf))
    return float(sizes[len(sizes) - max(int(missed * (len(sizes) + 1)), 1)])
