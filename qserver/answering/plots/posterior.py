"""The plot of a posterior density, with its interval shaded."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite

from qserver.answering.plots.chart import Area, Axis, Chart, Line, Rule
from qserver.errors import InputError


@dataclass(frozen=True)
class PosteriorCurve:
    """A posterior by its tail probabilities.

    Args:
        thresholds: ascending values t, three or more.
        at_least: P(q >= t) at each, in [0, 1]; rises by rounding are taken as none.
        low, high: the interval to shade, low < high.
        confidence: that the interval holds the value.

    Raises:
        InputError: the parts do not fit each other.
    """

    thresholds: Sequence[float]
    at_least: Sequence[float]
    low: float
    high: float
    confidence: float

    def __post_init__(self) -> None:
        if len(self.thresholds) < 3 or len(self.thresholds) != len(self.at_least):
            raise InputError("thresholds", "be three or more, with a probability each")
        if not all(b > a for a, b in pairwise(self.thresholds)):
            raise InputError("thresholds", "ascend")
        if not (isfinite(self.low) and isfinite(self.high) and self.low < self.high):
            raise InputError("high", "be above `low`, both finite", self.high)

    @property
    def middles(self) -> list[float]:
        """The middle between each two thresholds."""
        return [(a + b) / 2 for a, b in pairwise(self.thresholds)]

    @property
    def densities(self) -> list[float]:
        """The mean density between each two thresholds."""
        widths = [b - a for a, b in pairwise(self.thresholds)]
        falls = [max(0.0, a - b) for a, b in pairwise(self.at_least)]
        return [fall / width for fall, width in zip(falls, widths, strict=True)]


def thresholds_about(low: float, high: float, *, n: int, reach: float = 2.0) -> list[float]:
    """`n` evenly spaced thresholds beyond both ends of the interval, and the ends themselves.

    Args:
        low, high: ends of an interval.
        n: >= 3.
        reach: how many half-widths to each side of the middle.
    """
    middle, half = (low + high) / 2, (high - low) / 2 * reach
    return [middle + half * (2 * i / (n - 1) - 1) for i in range(n)]


def posterior_chart(curve: PosteriorCurve, *, title: str) -> Chart:
    """The density of a posterior with its credible interval.

    Args:
        curve: the posterior.
        title: what is counted.
    """
    xs, densities = curve.middles, curve.densities
    inside = [x for x in xs if curve.low < x < curve.high]
    top = max(densities)
    if not top > 0 or len(inside) < 2:
        raise InputError("thresholds", "lie closer where the posterior is")
    percent = f"{100 * curve.confidence:g} percent"
    ends = [curve.low, *inside, curve.high]
    shaded = Area(
        f"{percent} between {curve.low:,.10g} and {curve.high:,.10g}",
        ends,
        [0.0] * len(ends),
        [_between(x, xs, densities) for x in ends],
    )
    middle = (curve.low + curve.high) / 2
    return Chart(
        title=title,
        description=f"The count lies between {curve.low:,.10g} and {curve.high:,.10g} with "
        f"{percent} probability, by the answers that were released.",
        x=Axis("count", curve.thresholds[0], curve.thresholds[-1]),
        y=Axis("probability per record", 0.0, 1.05 * top),
        marks=(
            shaded,
            Line("posterior density", xs, densities),
            Rule(f"middle {middle:,.10g}", x=middle),
        ),
    )


def _between(x: float, xs: Sequence[float], ys: Sequence[float]) -> float:
    """The height at x of the line through points, which beyond its ends goes on level."""
    i = bisect_left(xs, x)
    if i in (0, len(xs)):
        return ys[min(i, len(ys) - 1)]
    part = (x - xs[i - 1]) / (xs[i] - xs[i - 1])
    return ys[i - 1] + part * (ys[i] - ys[i - 1])
