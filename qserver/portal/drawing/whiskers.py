"""Where the parts of a bar with its error bar stand: places on a line from 0 to 1,000."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

WIDTH = 1000.0
_MARGIN = 0.01


@dataclass(frozen=True)
class Whisker:
    """A value with its interval, drawn on a scale that a column shares.

    Args:
        bar: start and length of the bar from zero, or None where zero is off the scale.
        low, high: ends of the interval on the scale; cut off where it goes beyond.
        at: place of the estimate, or None.
    """

    bar: tuple[float, float] | None
    low: float
    high: float
    at: float | None

    @property
    def length(self) -> float:
        """Length of the interval, at least 2 so that it stays visible."""
        return max(2.0, self.high - self.low)


@dataclass(frozen=True)
class Scale:
    """The values from `low` to `high`, low < high, on the line."""

    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float | None], *, with_zero: bool) -> Scale:
        """A scale with room for all finite values, and for zero where bars start there."""
        finite = [v for v in values if v is not None and math.isfinite(v)]
        finite += [0.0] if with_zero or not finite else []
        low, high = min(finite), max(finite)
        room = _MARGIN * ((high - low) or abs(high) or 1.0)
        return cls(low if with_zero and low == 0 else low - room, high + room)

    @property
    def zero(self) -> float | None:
        """The place of zero, or None where it is off the scale."""
        return self.place(0.0) if self.low <= 0 <= self.high else None

    def place(self, value: float) -> float:
        """The place of a value, at the nearer end where it is off the scale."""
        inside = min(max(value, self.low), self.high)
        return round(WIDTH * (inside - self.low) / (self.high - self.low), 2)

    def whisker(
        self, estimate: float | None, low: float | None, high: float | None, *, with_bar: bool
    ) -> Whisker:
        """Place a value with its interval; an open end (None) is drawn to the edge."""
        at = None if estimate is None else self.place(estimate)
        bar = None
        if at is not None and with_bar and self.zero is not None:
            bar = (min(at, self.zero), abs(at - self.zero))
        ends = (
            0.0 if low is None else self.place(low),
            WIDTH if high is None else self.place(high),
        )
        return Whisker(bar, *ends, at)


def whiskers(
    values: Sequence[tuple[float | None, float | None, float | None]], *, with_zero: bool
) -> tuple[Scale, list[Whisker]]:
    """A shared scale, and each (estimate, low, high) on it."""
    scale = Scale.of((v for value in values for v in value), with_zero=with_zero)
    return scale, [scale.whisker(*value, with_bar=with_zero) for value in values]
