"""The content of a plot, without pixels: axes, lines, areas, rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from qserver.errors import InputError


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`; low < high, both finite."""

    label: str
    low: float
    high: float

    def __post_init__(self) -> None:
        if not (isfinite(self.low) and isfinite(self.high) and self.low < self.high):
            raise InputError("axis", "go from a finite `low` to a greater `high`", self.label)


@dataclass(frozen=True)
class Line:
    """A line through points, drawn within the axes; one of 2 points or more, all finite."""

    label: str
    xs: Sequence[float]
    ys: Sequence[float]
    steps: bool = False

    def __post_init__(self) -> None:
        _check_points(self.label, self.xs, self.ys)


@dataclass(frozen=True)
class Area:
    """The shaded area between two curves over the same xs."""

    label: str
    xs: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]

    def __post_init__(self) -> None:
        _check_points(self.label, self.xs, self.low)
        _check_points(self.label, self.xs, self.high)


@dataclass(frozen=True)
class Rule:
    """A straight line across the whole plot at one x, or at one y."""

    label: str
    x: float | None = None
    y: float | None = None

    def __post_init__(self) -> None:
        given = [v for v in (self.x, self.y) if v is not None]
        if len(given) != 1 or not isfinite(given[0]):
            raise InputError("rule", "have one finite place, `x` or `y`", self.label)


Mark = Line | Area | Rule


@dataclass(frozen=True)
class Chart:
    """A plot: its axes and what is drawn between them, back to front.

    Args:
        title: one line that says what is shown.
        description: what a reader who cannot see the plot should know of it.
        x, y: the axes.
        marks: each is named in the legend, in this order, and has a colour and dashes of its own.
    """

    title: str
    description: str
    x: Axis
    y: Axis
    marks: tuple[Mark, ...]


def _check_points(label: str, xs: Sequence[float], ys: Sequence[float]) -> None:
    if len(xs) != len(ys) or len(xs) < 2:
        raise InputError("points", "be two or more, with as many ys as xs", label)
    if not all(map(isfinite, (*xs, *ys))):
        raise InputError("points", "be finite", label)
