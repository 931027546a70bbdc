"""Variances and covariances from sums over the same records: all that the sums' intervals allow.

With y the value less the middle of its public range, which is 2 r long, and h = r^2 / 2:

    V = Q / N - (S / N)^2 + h,   N = sum of 1, S = sum of y, Q = sum of (y^2 - h).

For one S and Q this is a concave function of 1 / N, rising in Q and falling in |S|. So its extremes
over three intervals are found exactly, whatever the errors of the sums have to do with each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from qserver.query.sql.functions.function import KnownPart
from qserver.query.sql.tables.intervals import PublicBounds
from qserver.query.sql.tables.intervals import outward as rounded


@dataclass(frozen=True)
class Range:
    """The least and the greatest value that is possible."""

    low: Fraction
    high: Fraction

    def within(self, low: Fraction, high: Fraction) -> Range:
        """What public bounds leave of it."""
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
