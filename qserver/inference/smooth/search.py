"""The next measurement for a smooth number, and when to stop.

The necessary exactness of the sums depends on the private data. So they are measured roughly first.
The same draws with smaller errors then predict the interval at less noise. The cheapest sufficient
noise is measured, and so on. A rough answer is refined for the difference in price. A group with
certainly fewer records than the text assumes is measured no further: an empty one would cost the
most.

*Which rates.* Let a record of sum j weigh up to c_j, and the number change by g_j with that sum. At
rates r_j a record loses about the sum of (c_j r_j)^p / p, where p is the power of the noise's law.
If errors are independent, the number's variance is in proportion to the sum of (g_j / r_j)^2.
At the least loss for a variance both slopes are in proportion: c_j r_j is in proportion to
(c_j g_j)^(2 / (p + 2)). That is the power 2/3 under Laplace noise, and 1/2 under Gaussian noise. If
errors are at their worst, half-widths add up: g_j / r_j takes the place of its square, and c_j r_j
is in proportion to (c_j g_j)^(1 / (p + 1)).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.smooth.number import Drawn, Look, Number, gradient, look
from qserver.inference.smooth.part_law import PartLaw

ROUGH = 12.0
"""Rate of the first look times the records: their number is then known within a quarter."""
ROUGH_RECORDS = 64.0
"""A first look is for this many times the least number of records, where fewer may be there."""
_AIM = 0.97
"""Part of the asked length that is aimed at."""
_GROWTH = 6.0
"""A step raises the price at most so many times: what is known may mislead by as much."""
_LEAST_RISE = 1.03
_UNDEFINED_RISE = 2.0
_IMPOSSIBLE_RISE = 4.0
"""Of rates where the number would be beyond its public bounds: its error is greater than these."""
_WORST = 128.0
"""The rates that suffice at worst are at most about so many times those that do."""
_COUNT_RISE = 4.0
"""Of the rate of the count as long as that says next to nothing."""
_COUNTED = 3.0
"""A number of records is known where it is so many times the half-width of its interval."""
_FEW_TAIL = 0.005
_LEAST_SLOPE = 0.1
"""Slopes below this part of the greatest are taken for this: they might be greater elsewhere."""
_NEAR = 0.004
"""Least rates are found up to this part."""
_MOST_COMPARED = 8
"""Of more numbers that are compared one kind of mixture is tried: all would take their cube."""
_DRAWN_ALIKE = 0.95
"""Of a length by other draws: by 2,000 pairs it has a standard error of 3 percent of one number,
and of 1.7 of the greatest of 16."""
_MOST_SHORTER = 8.0
_STEP = 0.02
"""A slope is that between so many of the records more and less."""
_FARTHEST = 1e6

State = Literal["met", "few", "open"]
"""`met` for an interval as short as asked, `few` for a group with surely too few records."""


def state_of(number: Number, found: Look, *, size: float, size_at_most: float) -> State:
    """Whether a number needs more measurements.

    A group counts as small only if its number of records is known well enough: each look may be
    wrong once in two hundred, and only the last of several counts.

    Args:
        size: the sum that counts the records.
        size_at_most: upper bound from `size_at_most`.
    """
    if number.is_bounded or found.half_width <= number.half_width:
        return "met"
    least = number.least * number.per_record
    return "few" if size_at_most < least and size_at_most - size <= least else "open"


def rough_widths(number: Number, most_records: float) -> FloatArray:
    """Half-widths of the sums at the first look, shape (k,).

    Args:
        most_records: possible at most.
    """
    rough = number.law.sharpness_like(ROUGH)
    rate = rough / min(most_records, ROUGH_RECORDS * max(number.least, 1.0))
    return number.unit * np.maximum(number.sizes, 1e-300) / rate


def next_widths(number: Number, law: PartLaw) -> FloatArray:
    """Half-widths of the sums to measure next, shape (k,). No sum gets a longer one than it has."""
    search, found = _Search(number, law), look(number, law)
    if not found.is_known:
        rates = search.undefined(_UNDEFINED_RISE)
    elif found.estimate is None or _is_far_beyond(number, found.estimate):
        # From where the number cannot be, draws foretell nothing.
        rates = search.undefined(_IMPOSSIBLE_RISE)
    else:
        rates = search.foretold()
    with np.errstate(divide="ignore"):
        return np.minimum(number.unit / rates, law.half_widths)


def _is_far_beyond(number: Number, estimate: float) -> bool:
    """Whether a number is beyond its public bounds by more than the asked half-width."""
    off = max(number.low - estimate, estimate - number.high)
    return off > number.half_width


def widths_at_most(number: Number, least: float) -> FloatArray:
    """Half-widths that a group of this size needs, shape (k,), in the costliest case.

    The case has equally many records of each kind, or only those with the least or greatest weights
    in a sum. To first order
    all errors are at their worst; if that does not suffice, half-widths are shorter.
    """
    found = (_needed(number, kinds, least) for kinds in _mixtures(number))
    needed = [] if number.is_bounded else [one for one in found if one is not None]
    if not needed:
        return number.half_width * np.maximum(number.sizes, 1e-300)
    worst = max(needed, key=lambda one: number.price(number.unit / one.widths))
    most = _MOST_SHORTER * len(worst.widths) if number.pieces is not None else _MOST_SHORTER
    law = PartLaw.of_scales(worst.sums, worst.widths / number.unit, number.law, seed=0)
    return worst.widths / _least(lambda f: _suffices(number, law, f), most)


def size_at_most(number: Number, law: PartLaw) -> float:
    """Certain upper bound of the sum that counts the records."""
    at = number.size_at(law.means)
    errors = law.errors[at]
    spread = errors if law.is_joint else np.concatenate([errors, -errors])
    if not spread.any():
        return float(law.means[at])
    return float(law.means[at] - np.quantile(spread, _FEW_TAIL))


@dataclass(frozen=True, eq=False)
class _Search:
    number: Number
    law: PartLaw

    def undefined(self, rise: float) -> FloatArray:
        """Higher rates for a number without an interval: the count's first."""
        number, rates, j = self.number, self._rates, self.number.size_at(self.law.means)
        if self.law.means[j] >= _COUNTED * self.law.half_widths[j]:
            # Sums that are known better already need not be.
            alike = 1.0 / np.maximum(number.sizes, 1e-300)
            least = float((rates / alike)[number.sizes > 0.0].min(initial=math.inf))
            records = (self.law.means[j] + self.law.half_widths[j]) / number.per_record
            worst = number.unit / widths_at_most(number, records)
            return np.maximum(rates, np.maximum(least * rise * alike, worst / _WORST))
        enough = _COUNTED * number.unit / (max(number.least, 1.0) * number.per_record)
        found = rates.copy()
        at = list(number.rivals or (j,))
        least_rise = np.maximum(enough, rates[at] * _UNDEFINED_RISE)
        found[at] = np.minimum(rates[at] * _COUNT_RISE, least_rise)
        return found

    def foretold(self) -> FloatArray:
        """The cheapest sufficient rates, within the limit of one step."""
        slopes = np.abs(gradient(self.number, self.law))
        sizes = np.maximum(self.number.sizes, 1e-300)
        shares = slopes * sizes
        floored = np.maximum(shares, _LEAST_SLOPE * shares.max(initial=0.0) or 1.0)
        power = 2.0 / (2 + self.number.law.power)
        patterns = [floored**power / sizes, shares**power / sizes, 1.0 / sizes]
        found = [self._along(one) for one in patterns if one.any()]
        # Where none does within one step, the first is the least exposed to slopes that mislead.
        enough = [rates for rates in found if self._does(rates)]
        return min(enough, key=self._rise) if enough else found[0]

    def _along(self, pattern: FloatArray) -> FloatArray:
        """The least sufficient rates along a pattern; none falls."""
        rates = self._rates
        open_ = np.isfinite(rates) & (pattern > 0.0)
        if not open_.any():
            return rates
        start = float((rates[open_] / pattern[open_]).min())

        def at(factor: float) -> FloatArray:
            return np.maximum(rates, np.where(open_, pattern * start * factor, 0.0))

        price = self.number.price
        most = _GROWTH * max(price(rates), 1e-12)
        factor = _least(lambda f: self._does(at(f)) or price(at(f)) > most)
        found = at(factor)
        if (found <= rates * _LEAST_RISE).all():
            found = np.where(open_, rates * _LEAST_RISE, rates)
        return found

    def _does(self, rates: FloatArray) -> bool:
        with np.errstate(invalid="ignore"):
            scales = np.where(np.isfinite(rates), self._rates / rates, 1.0)
        drawn = Drawn(self.number, self.law, scales)
        estimate = float(self.number.values(self.law.means[:, None])[0])
        missed = max(self.number.missed - self.law.error, self.number.missed / 2.0)
        return drawn.half_width(estimate, missed) <= _AIM * self.number.half_width

    @property
    def _rates(self) -> FloatArray:
        """The rates that match the present exactness of the sums; may be infinite."""
        with np.errstate(divide="ignore"):
            return np.asarray(self.number.unit / self.law.half_widths)

    def _rise(self, rates: FloatArray) -> float:
        return self.number.price(rates, self._rates)


def _least(holds: Callable[[float], bool], farthest: float = _FARTHEST) -> float:
    """Approximate least factor, from 1, at which a rising condition holds."""
    if holds(1.0):
        return 1.0
    low, high = 0.0, math.log(farthest)
    while high - low > _NEAR:
        middle = (low + high) / 2.0
        low, high = (low, middle) if holds(math.exp(middle)) else (middle, high)
    return math.exp(high)


def _mixtures(number: Number) -> Iterator[FloatArray]:
    """Kinds of records: all, and those with the least or greatest weights in a sum.

    For many compared numbers only all: they are then closest to each other.
    """
    weights = number.weights
    yield weights
    if number.pieces is not None and len(weights) > _MOST_COMPARED:
        return
    for row in weights:
        middle = (row.min(initial=0.0) + row.max(initial=0.0)) / 2.0
        for chosen in (row < middle, row > middle):
            if chosen.any() and not chosen.all():
                yield weights[:, chosen]


@dataclass(frozen=True, eq=False)
class _Needed:
    """Half-widths for some records, and their sums; arrays of shape (k,)."""

    sums: FloatArray
    widths: FloatArray


def _suffices(number: Number, law: PartLaw, factor: float) -> bool:
    """Whether errors divided by this factor give an interval as short as asked."""
    drawn = Drawn(number, law, np.full(len(law.means), 1.0 / factor))
    estimate = float(number.values(law.means[:, None])[0])
    # Intervals that hold at once are as long whatever the sums are: draws differ alone.
    asked = number.half_width * (1.0 if number.pieces is None else _DRAWN_ALIKE)
    return drawn.half_width(estimate, number.missed) <= asked


def _needed(number: Number, kinds: FloatArray, least: float) -> _Needed | None:
    """Half-widths for this number of records of these kinds; None if the number has no value."""
    mean = kinds.mean(axis=1) if kinds.shape[1] else np.zeros(len(kinds))
    if not abs(mean[number.size]) > 0.0:
        return None
    sums = mean * (least * number.per_record / abs(mean[number.size]))
    sizes = np.maximum(number.sizes, 1e-300)
    steps = np.diag(sizes * least * _STEP)
    ends = number.values(np.concatenate([sums[:, None] + steps, sums[:, None] - steps], axis=1))
    high, low = np.split(ends, 2)
    shares = np.abs(high - low) / (2.0 * least * _STEP)
    if not np.isfinite(shares).all() or not shares.any():
        return None
    shares = np.maximum(shares, _LEAST_SLOPE * shares.max())
    # Least loss of all sums together, while their half-widths times slopes add up to that asked; of
    # numbers that are compared one decides.
    power = number.law.power
    rates, errors = shares ** (1 / (power + 1)), shares ** (power / (power + 1))
    total = errors.sum() if number.pieces is None else errors.max()
    return _Needed(sums, np.asarray(sizes * number.half_width / (rates * total)))
