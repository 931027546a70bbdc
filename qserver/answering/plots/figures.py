"""Charts of a posterior and of a budget, horizontal bars, and an audit by attack."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite, isinf
from typing import TYPE_CHECKING

from qserver.answering.plots.chart import (
    COLOURS,
    LINE_HEIGHT,
    Area,
    Axis,
    Chart,
    Line,
    Mark,
    Rule,
    document,
    element,
    shortened,
    text_at,
    text_width,
    wrapped,
)
from qserver.errors import InputError
from qserver.text import at_delta

if TYPE_CHECKING:
    from qserver.models.tracing.report import TracingReport

_WIDTH, _MARGIN, _GAP = 680.0, 14.0, 8.0
_BAR, _STEP, _TITLE_SIZE = 16.0, 26.0, 15


@dataclass(frozen=True)
class Bar:
    """An amount with its text."""

    name: str
    value: float
    text: str


@dataclass(frozen=True)
class BarChart:
    """Amounts from 0 to `limit`, top to bottom.

    Args:
        title, description: as of a Chart.
        bars: one or more; values are cut off at the limit.
        limit: where the widest bar ends, finite, > 0.
        limit_text: what that end means.

    Raises:
        InputError: no bar, an amount below 0, or no limit.
    """

    title: str
    description: str
    bars: tuple[Bar, ...]
    limit: float
    limit_text: str

    def __post_init__(self) -> None:
        if not self.bars or any(not (isfinite(b.value) and b.value >= 0) for b in self.bars):
            raise InputError("bars", "be one or more, finite, >= 0")
        if not (isfinite(self.limit) and self.limit > 0):
            raise InputError("limit", "be finite and > 0", self.limit)


def svg_of_bars(chart: BarChart, *, width: float = _WIDTH) -> str:
    """The bars as the text of an SVG document; see `chart.svg_of`."""
    titles = wrapped(chart.title, width=width - 2 * _MARGIN, size=_TITLE_SIZE)
    top = _MARGIN + LINE_HEIGHT * len(titles) + 2 * LINE_HEIGHT
    bottom = top + _STEP * len(chart.bars)
    body = [
        *(
            text_at(
                _MARGIN,
                _MARGIN + LINE_HEIGHT * (i + 0.75),
                line,
                font_size=_TITLE_SIZE,
                font_weight=600,
            )
            for i, line in enumerate(titles)
        ),
        *_rows(chart, width=width, top=top, bottom=bottom),
    ]
    return document(
        body,
        width=width,
        height=bottom + _MARGIN,
        name=chart.title,
        text=chart.description,
    )


def _rows(chart: BarChart, *, width: float, top: float, bottom: float) -> Iterator[str]:
    most_name = 0.4 * width
    names = [shortened(b.name, width=most_name) for b in chart.bars]
    left = _MARGIN + max(map(text_width, names)) + _GAP
    right = width - _MARGIN - max(text_width(b.text) for b in chart.bars) - _GAP
    limit = shortened(chart.limit_text, width=width - 2 * _MARGIN)
    yield text_at(max(right, _MARGIN + text_width(limit)), top - 8, limit, text_anchor="end")
    yield element("line", x1=right, y1=top - 4, x2=right, y2=bottom, stroke="currentColor")
    for i, (bar, name) in enumerate(zip(chart.bars, names, strict=True)):
        y = top + _STEP * i + (_STEP - _BAR) / 2
        length = (right - left) * min(1.0, bar.value / chart.limit)
        yield text_at(left - _GAP, y + 12.5, name, text_anchor="end")
        yield element("rect", x=left, y=y, width=length, height=_BAR, fill=COLOURS[0])
        yield text_at(right + _GAP, y + 12.5, bar.text)


_MOST_BARS = 60


@dataclass(frozen=True)
class BudgetFacts:
    """A population's budget, in epsilon at a delta if any; limit > 0, 0 <= spent."""

    dataset: str
    limit: float
    spent: float
    remaining: float
    delta: float | None = None


def budget_chart(facts: BudgetFacts, losses: Mapping[str, float], *, attribute: str) -> BarChart:
    """The loss of the records of each value of an attribute, and the limit.

    Args:
        facts: the budget.
        losses: the largest loss of a cell, by value; empty for the budget as a whole.
        attribute: the attribute, or '' for the budget as a whole.

    Raises:
        InputError: there are more than 60 values.
    """
    if len(losses) > _MOST_BARS:
        raise InputError("attribute", f"have at most {_MOST_BARS} values", attribute)
    amounts = dict(losses) or {"spent": facts.spent, "remaining": facts.remaining}
    unit = f"epsilon{at_delta(facts.delta)}"
    what = f"largest loss by {attribute}" if losses else "spent and remaining"
    return BarChart(
        title=f"Budget of {facts.dataset}: {what}",
        description=f"{facts.spent:.6g} of {facts.limit:.6g} {unit} are spent, "
        f"{facts.remaining:.6g} remain.",
        bars=tuple(Bar(name, value, f"{value:.4g}") for name, value in amounts.items()),
        limit=facts.limit,
        limit_text=f"limit {facts.limit:.6g} {unit}",
    )


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
    """The height at x of the line through points, level beyond its ends."""
    i = bisect_left(xs, x)
    if i in (0, len(xs)):
        return ys[min(i, len(ys) - 1)]
    part = (x - xs[i - 1]) / (xs[i] - xs[i - 1])
    return ys[i - 1] + part * (ys[i] - ys[i - 1])


def tracing_chart(report: TracingReport) -> Chart:
    """The plot of true against false positives of an audit."""
    curves, areas = report.curves, report.areas
    fpr = (0.0, *curves.fpr)

    def line(label: str, power: tuple[float, ...] | None, auc: float | None) -> list[Mark]:
        if power is None:
            return []
        return [Line(f"{label}, area {auc:.3f}", fpr, (0.0, *power))]

    cap, attack = report.request.cap, areas.attack
    epsilon = "" if cap is None else f"cap of epsilon {cap.epsilon:g}"
    measured = None if attack is None else attack.value
    marks: list[Mark] = [
        Area("what structure and epsilon allow", fpr, fpr, (0.0, *curves.limit)),
        *line("structural bound", curves.bound, areas.bound),
        *line(_reference_name(report), curves.finite_bound, areas.finite_bound),
        *line(epsilon, curves.cap, areas.cap),
        *line("attack", curves.attack, measured),
        Line("guessing, area 0.500", (0.0, 1.0), (0.0, 1.0)),
    ]
    return Chart(
        title=_title(report),
        description=_description(report),
        x=Axis("false positives: others called members", 0.0, 1.0),
        y=Axis("true positives: members called members", 0.0, 1.0),
        marks=tuple(marks),
    )


def _reference_name(report: TracingReport) -> str:
    n = report.request.n_reference
    return "" if isinf(n) else f"bound with {n:,.0f} reference records"


def _title(report: TracingReport) -> str:
    request = report.request
    private = "PRIVATE. " if report.private else ""
    return (
        f"{private}How well members could be told: {request.complexity:,} released numbers "
        f"learnt from {request.n:,.0f} records"
    )


def _description(report: TracingReport) -> str:
    areas = report.areas
    parts = [f"Area under the structural bound {areas.bound:.4f}"]
    if areas.cap is not None:
        parts.append(f"under the cap of epsilon {areas.cap:.4f}")
        parts.append(f"under the lesser of the two {areas.limit:.4f}")
    if areas.attack is not None:
        parts.append(f"under the measured attack {areas.attack.value:.4f}")
    return "; ".join(parts) + "; guessing has 0.5."
