"""Statistics of one number and of two, from sums over the records that have them.

Their intervals follow from draws of the errors of these sums. With simultaneous intervals of the
sums, they are all values that these allow. With y the value less the middle of its public range,
which is 2 r long, and h = r^2 / 2:

    V = Q / N - (S / N)^2 + h,   N = sum of 1, S = sum of y, Q = sum of (y^2 - h).

For one S and Q this is a concave function of 1 / N, rising in Q and falling in |S|. So its extremes
over three intervals are found exactly, for any dependence of the sums' errors.

*Spread* takes N, S and Q. *Correlation* takes N, S and Q of either number, and P, the sum of the
products of both less their middles; its interval holds the quotient of every covariance and all
deviations that the six intervals allow. The bins' error is added: its bound is not public, since it
depends on the deviations. *Regression* takes the same six, of attributes in which each bin is one
value: with x and y less the middles of their public ranges, C = P / N - Sx Sy / N^2 and V the
variance of x, the slope is C / V, and the line goes through the means. *Skewness and kurtosis*
measure asymmetry and the weight of tails. With y less the middle of its public range and r half of
that, they follow from N and the sums of u, u^2 - 1/2, u^3 and u^4 - 1/2, where u = y / r: from the
third and the fourth moment about the mean, by powers of the second. Of a sample they are corrected
as in DuckDB and spreadsheets.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from qserver.query.sql.functions.function_of_sums import (
    Combination,
    FunctionOfSums,
    KnownPart,
    Smooth,
)
from qserver.query.sql.tables.cell_intervals import PublicBounds
from qserver.query.sql.tables.cell_intervals import outward as rounded

OfPairs = Literal["covar_pop", "covar_samp", "slope", "intercept", "r2"]
OfMoments = Literal["skewness", "kurtosis", "kurtosis_pop"]
FloatArray = NDArray[np.float64]
_STATED_SHARE = Fraction(1, 20)
_SAMPLE_ROOT = Fraction(3, 2)
_ROUNDING = 1e-9


class _Statistic(FunctionOfSums):
    """A smooth function of sums whose public ends are known."""

    @property
    @abstractmethod
    def ends(self) -> tuple[float, float]:
        """The public range; may be infinite."""

    @abstractmethod
    def values(self, parts: FloatArray) -> FloatArray:
        """The number per draw of the sums, shape (n_parts, n_draws); NaN without a value."""

    @property
    def smooth(self) -> Smooth:
        """The number by draws."""
        return Smooth(self.values, *self.ends)

    def within(self, parts: Sequence[KnownPart], low: float, high: float) -> Combination:
        """The number of the estimates, clipped to two ends; None without a value."""
        found = float(self.values(np.array([[part.estimate] for part in parts]))[0])
        estimate = min(max(found, low), high) if math.isfinite(found) else None
        return Combination(estimate, low, high)


@dataclass(frozen=True)
class Spread(_Statistic):
    """The variance of a number, from N, S and Q, or its square root.

    Args:
        radius: half of the public range.
        is_root: whether it is the standard deviation.
        is_sample: whether it divides by N - 1.
    """

    radius: Fraction
    is_root: bool
    is_sample: bool

    @property
    def stated_half_width(self) -> Fraction:
        """A twentieth of the public range, from zero to the radius or its square."""
        return (self.radius if self.is_root else self.radius**2) * _STATED_SHARE or Fraction(1)

    def error(self, of_value: Fraction) -> Fraction:
        """Bound on its distance from the value at the bins' middles; `of_value` per value.

        The deviation of a sum is at most the sum of the deviations, and that of the distances is
        at most the greatest of them. A deviation is at most the radius. With N - 1 it is at most
        the root of 2 times as much, or 3 / 2.
        """
        error = of_value * _SAMPLE_ROOT if self.is_sample else of_value
        most = self.radius * _SAMPLE_ROOT if self.is_sample else self.radius
        return error if self.is_root else error * 2 * most

    @property
    def ends(self) -> tuple[float, float]:
        """From zero on; of a sample at most twice the square of the radius: that of two records."""
        most = float(self.radius**2 * (2 if self.is_sample else 1))
        return 0.0, math.sqrt(most) if self.is_root else most

    def values(self, parts: FloatArray) -> FloatArray:
        """The number per draw; NaN if the sums allow no number of records, or no deviation."""
        n, s, q = parts
        divisor = n - 1.0 if self.is_sample else n
        with np.errstate(all="ignore"):
            found = (q + n * float(self.radius) ** 2 / 2.0 - s * s / n) / divisor
            found = np.sqrt(found) if self.is_root else found
        return np.where(divisor > 0.0, found, np.nan)

    def value(self, parts: Sequence[KnownPart]) -> Combination:
        """The value of the estimates, and all that the three intervals allow."""
        n, s, q = parts
        found = variance_range(n, s, q, self.radius)
        if self.is_sample:
            found = found.times(sample_factors(n))
        low, high = root_range(found) if self.is_root else outward(found)
        estimate = self._estimate(n.estimate, s.estimate, q.estimate)
        if estimate is not None:
            estimate = min(max(estimate, low), high)
        return Combination(estimate, low, high)

    def _estimate(self, n: float, s: float, q: float) -> float | None:
        """None with too few records."""
        divisor = n - 1.0 if self.is_sample else n
        if not divisor > 0.0:
            return None
        squares = max(q + n * float(self.radius) ** 2 / 2.0 - s * s / n, 0.0)
        return math.sqrt(squares / divisor) if self.is_root else squares / divisor


@dataclass(frozen=True)
class Correlation(_Statistic):
    """The correlation, from N, S and Q of the first number, S and Q of the second, and P.

    Args:
        radii: half of the public range of each number.
        errors: most distance of a value from the middle of its bin, for each number.
    """

    radii: tuple[Fraction, Fraction]
    errors: tuple[Fraction, Fraction]

    @property
    def stated_half_width(self) -> Fraction:
        """A twentieth of a correlation's range."""
        return 2 * _STATED_SHARE

    @property
    def smooth(self) -> Smooth:
        """The correlation by draws; bins add an error unless each is one value."""
        return Smooth(self.values, *self.ends, hides=any(self.errors))

    @property
    def ends(self) -> tuple[float, float]:
        """The public range."""
        return -1.0, 1.0

    def values(self, parts: FloatArray) -> FloatArray:
        """The number per draw; NaN if a deviation is not above zero."""
        with np.errstate(all="ignore"):
            both, first, second = of_both(parts, self.radii)
            found = both / np.sqrt(first * second)
        return np.where((parts[0] > 0.0) & (first > 0.0) & (second > 0.0), found, np.nan)

    def value(self, parts: Sequence[KnownPart]) -> Combination:
        """The correlation of the estimates, and all that the six intervals and the bins allow."""
        n, sx, qx, sy, qy, p = parts
        x, y = self.radii
        both = covariance_range(n, sx, sy, p, x * y)
        first = root_range(variance_range(n, sx, qx, x))
        second = root_range(variance_range(n, sy, qy, y))
        a, b = map(float, self.errors)
        off = a * second[1] + b * first[1] + a * b
        least = max(first[0] - a, 0.0) * max(second[0] - b, 0.0)
        most = (first[1] + a) * (second[1] + b)
        low = _quotient(float(both.low) - off, least, most)
        high = -_quotient(-float(both.high) - off, least, most)
        # Beyond all rounding of what is above.
        low, high = PublicBounds(-1.0, 1.0).cut(low - _ROUNDING, high + _ROUNDING)
        return self.within(parts, low, high)


def _quotient(over: float, least: float, most: float) -> float:
    """The least quotient of a number and one between two that are not negative."""
    under = least if over < 0.0 else most
    return over / under if under > 0.0 else -1.0


@dataclass(frozen=True)
class Regression(_Statistic):
    """A statistic of a regression, from the sums N, Sx, Qx, Sy, Qy and P.

    Args:
        middles, radii: of the public ranges of x and y.
    """

    kind: OfPairs
    middles: tuple[Fraction, Fraction]
    radii: tuple[Fraction, Fraction]

    @property
    def stated_half_width(self) -> Fraction:
        """A twentieth of the public range, or of what the ranges of both give for a line."""
        x, y = self.radii
        wide = {"r2": Fraction(1), "slope": 2 * y / x, "intercept": 2 * y}
        return wide.get(self.kind, 2 * x * y) * _STATED_SHARE or _STATED_SHARE

    @property
    def ends(self) -> tuple[float, float]:
        """The public range."""
        if self.kind == "r2":
            return 0.0, 1.0
        if self.kind == "covar_pop":
            most = float(self.radii[0] * self.radii[1])
            return -most, most
        return -math.inf, math.inf

    def values(self, parts: FloatArray) -> FloatArray:
        """The number per draw; NaN if x, or y for r2, does not vary."""
        n, sx, _, sy, _, _ = parts
        at_x, at_y = map(float, self.middles)
        with np.errstate(all="ignore"):
            both, first, second = of_both(parts, self.radii)
            is_told = n > 0.0
            if self.kind == "covar_samp":
                both, is_told = both * n / (n - 1.0), n > 1.0
            elif self.kind != "covar_pop":
                is_told = is_told & (first > 0.0)
            found = both
            if self.kind in ("slope", "intercept"):
                found = both / first
            if self.kind == "intercept":
                found = at_y + sy / n - found * (at_x + sx / n)
            if self.kind == "r2":
                found, is_told = both**2 / (first * second), is_told & (second > 0.0)
        return np.where(is_told & np.isfinite(found), found, np.nan)

    def value(self, parts: Sequence[KnownPart]) -> Combination:
        """The number of the estimates; of a covariance all that the six intervals allow."""
        low, high = self.ends
        if self.kind == "covar_pop":
            n, sx, _, sy, _, p = parts
            ends = covariance_range(n, sx, sy, p, self.radii[0] * self.radii[1])
            low = math.nextafter(float(ends.low), -math.inf)
            high = math.nextafter(float(ends.high), math.inf)
        return self.within(parts, low, high)


@dataclass(frozen=True)
class Standardised(_Statistic):
    """A standardised moment from these sums; it has no simultaneous interval."""

    kind: OfMoments

    stated_half_width = Fraction(1, 2)

    @property
    def ends(self) -> tuple[float, float]:
        """The public range."""
        return (-2.0 if self.kind == "kurtosis_pop" else -math.inf), math.inf

    def values(self, parts: FloatArray) -> FloatArray:
        """The number per draw; NaN without variation, or with too few records."""
        n, first, second, third, *rest = parts
        with np.errstate(all="ignore"):
            mean, square, cube = first / n, second / n + 0.5, third / n
            variance = square - mean**2
            if self.kind == "skewness":
                found = (cube - 3.0 * mean * square + 2.0 * mean**3) / variance**1.5
                found, least = found * np.sqrt(n * (n - 1.0)) / (n - 2.0), 2.0
            else:
                fourth = rest[0] / n + 0.5
                fourth = fourth - 4.0 * mean * cube + 6.0 * mean**2 * square - 3.0 * mean**4
                found, least = fourth / variance**2 - 3.0, 1.0
            if self.kind == "kurtosis":
                found = (n - 1.0) * ((n + 1.0) * found + 6.0) / ((n - 2.0) * (n - 3.0))
                least = 3.0
        return np.where((n > least) & (variance > 0.0) & np.isfinite(found), found, np.nan)

    def value(self, parts: Sequence[KnownPart]) -> Combination:
        """The number of the estimates, and its public range."""
        return self.within(parts, *self.ends)


@dataclass(frozen=True)
class Range:
    """The least and the greatest possible value."""

    low: Fraction
    high: Fraction

    def within(self, low: Fraction, high: Fraction) -> Range:
        """The range within public bounds."""
        return Range(*PublicBounds(low, high).cut(self.low, self.high))

    def times(self, other: Range) -> Range:
        """The range of products of two ranges without negative values."""
        return Range(self.low * other.low, self.high * other.high)


def shares_of_one(n: KnownPart, least: int) -> Range:
    """The range of 1 / N, for `least` records or more: with fewer there is no value."""
    low, high = max(n.low, float(least)), max(n.high, float(least))
    return Range(Fraction(0) if math.isinf(high) else 1 / Fraction(high), 1 / Fraction(low))


def variance_range(n: KnownPart, s: KnownPart, q: KnownPart, radius: Fraction) -> Range:
    """The variances that the intervals of N, S and Q allow."""
    most, shares = radius * radius, shares_of_one(n, 1)
    low, high = Fraction(0), most
    if n.high < 1.0:
        return Range(low, high)  # of no record: the other sums say nothing
    if math.isfinite(q.high):
        total, near = Fraction(q.high), _nearest(s)
        at = total / (2 * near * near) if near else shares.high if total > 0 else shares.low
        share = min(max(at, shares.low), shares.high)
        high = _variance(total, near, share, most)
    if math.isfinite(q.low) and math.isfinite(s.low) and math.isfinite(s.high):
        total, far = Fraction(q.low), max(abs(Fraction(s.low)), abs(Fraction(s.high)))
        low = min(_variance(total, far, share, most) for share in (shares.low, shares.high))
    return Range(low, high).within(Fraction(0), most)


def covariance_range(
    n: KnownPart, sx: KnownPart, sy: KnownPart, p: KnownPart, most: Fraction
) -> Range:
    """The covariances P / N - Sx Sy / N^2 that four intervals allow, from -`most` to `most`."""
    shares, unbounded = shares_of_one(n, 1), Range(-most, most)
    if n.high < 1.0 or not all(
        math.isfinite(end) for part in (sx, sy, p) for end in (part.low, part.high)
    ):
        return unbounded
    products = [Fraction(a) * Fraction(b) for a in (sx.low, sx.high) for b in (sy.low, sy.high)]
    high = _greatest(Fraction(p.high), min(products), shares)
    low = -_greatest(-Fraction(p.low), -max(products), shares)
    return Range(low, high).within(-most, most)


def of_both(
    parts: NDArray[np.float64], radii: tuple[Fraction, Fraction]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """The covariance and both variances that N, Sx, Qx, Sy, Qy and P tell."""
    n, sx, qx, sy, qy, p = parts
    x, y = map(float, radii)
    first = qx / n + x * x / 2.0 - (sx / n) ** 2
    second = qy / n + y * y / 2.0 - (sy / n) ** 2
    return p / n - sx * sy / n**2, first, second


def sample_factors(n: KnownPart) -> Range:
    """The range of N / (N - 1), for two records or more."""
    shares = shares_of_one(n, 2)
    return Range(1 / (1 - shares.low), 1 / (1 - shares.high))


def root_range(found: Range) -> tuple[float, float]:
    """Square roots of both ends, rounded outward."""
    low, high = math.sqrt(found.low), math.sqrt(found.high)
    return max(math.nextafter(low, -math.inf), 0.0), math.nextafter(high, math.inf)


def outward(found: Range) -> tuple[float, float]:
    """Both ends as floats, rounded outward."""
    return rounded(found.low, -math.inf), rounded(found.high, math.inf)


def _greatest(slope: Fraction, bend: Fraction, shares: Range) -> Fraction:
    """The greatest value of slope u - bend u^2 with u in `shares`."""
    places = [shares.low, shares.high]
    if bend > 0:
        places.append(min(max(slope / (2 * bend), shares.low), shares.high))
    return max(slope * u - bend * u * u for u in places)


def _variance(q: Fraction, s: Fraction, share: Fraction, most: Fraction) -> Fraction:
    return q * share - (s * share) ** 2 + most / 2


def _nearest(s: KnownPart) -> Fraction:
    """The least size of a number in an interval."""
    if s.low <= 0.0 <= s.high:
        return Fraction(0)
    return min(abs(Fraction(end)) for end in (s.low, s.high) if math.isfinite(end))
