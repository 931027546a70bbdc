"""The least whole number at which a falling function is at most 1."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, inf, isfinite, log

from qserver.planning.constants import PLANNER


def least_whole(
    ratio: Callable[[int], float],
    *,
    low: int,
    high: int,
    most: int,
    is_over: Callable[[int], bool] = lambda _: False,
) -> int | None:
    """The least whole number above `low` at which a falling function is at most 1, or None.

    Between two points the function is taken as a power of the number. That is nearly so for the
    half-width of noise, so few evaluations are needed. The result does not depend on the guess.

    Args:
        ratio: the function, such as a half-width over its target; infinite counts, too.
        low: a number at which it is taken to be above 1.
        high: a first guess.
        most: the largest number that is tried.
        is_over: whether the search ends without a result, given a number above which the result is.
    """
    below, above = inf, ratio(high)
    while above > 1.0:
        low, below = high, above
        high = high + max(1, ceil(high * min(1.0, PLANNER.beyond * above - 1.0)))
        if high > most or is_over(low):
            return None
        above = ratio(high)
    n = 0
    while high - low > 1:
        middle, n = _between(low, below, high, above, n), n + 1
        found = ratio(middle)
        if found <= 1.0:
            high, above = middle, found
            continue
        low, below = middle, found
        if is_over(low):
            return None
    return high


def _between(low: int, below: float, high: int, above: float, n: int) -> int:
    """The number to try in step n: near where the power through both ends is 1."""
    middle = (low + high) // 2
    if (n + 1) % PLANNER.bisect_every and 0.0 < above < 1.0:
        # At first only the upper end is known; a half-width falls like 1 / alpha at most.
        slope = log(low / high) / log(below / above) if low and isfinite(below) else -1.0
        near = high * above**-slope
        # From above and from below in turns, so that both ends come close.
        middle = ceil(near) if n % 2 else int(near)
    return min(max(middle, low + 1), high - 1)
