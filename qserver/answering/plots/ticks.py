"""The positions and texts of an axis's ticks."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, isfinite, log10

from qserver.errors import InputError

_STEPS = (1, 2, 5, 10)
_TINY, _HUGE = 1e-5, 1e7
_CLOSEST = 1e-12


@dataclass(frozen=True)
class Ticks:
    """Marks of an axis, ascending, with their texts."""

    values: tuple[float, ...]
    texts: tuple[str, ...]


def nice_ticks(low: float, high: float, *, most: int) -> Ticks:
    """At most `most` multiples of 1, 2 or 5 times a power of ten within [low, high].

    Args:
        low, high: ends of the axis, finite, low < high.
        most: >= 2.

    Raises:
        InputError: the ends are no interval, or too close for floats.
    """
    if not (isfinite(low) and isfinite(high) and low < high):
        raise InputError("high", "be above `low`, both finite", high)
    if high - low < _CLOSEST * max(abs(low), abs(high)):
        raise InputError("high", "be further from `low` than floats can tell", high)
    step = _step((high - low) / most, low, high, most)
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    values = tuple(i * step for i in range(first, last + 1))
    return Ticks(values, tuple(tick_text(v, step=step) for v in values))


def _step(least: float, low: float, high: float, most: int) -> float:
    """The least nice step with which at most `most` multiples lie in [low, high]."""
    power = 10.0 ** floor(log10(least))
    for factor in (*_STEPS, 20, 50):
        step = factor * power
        if floor(high / step + 1e-9) - ceil(low / step - 1e-9) + 1 <= most and step >= least * 0.99:
            return step
    return 100 * power


def tick_text(value: float, *, step: float) -> str:
    """`value` with as many decimals as multiples of `step` need."""
    if value == 0:
        return "0"
    if step < _TINY or abs(value) >= _HUGE:
        digits = max(0, floor(log10(abs(value))) - floor(log10(step) + 1e-9))
        return f"{value:.{digits}e}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
    decimals = max(0, -floor(log10(step) + 1e-9))
    return f"{value:,.{decimals}f}"
