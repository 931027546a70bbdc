"""The course of a budget so far, and how long it will last at the present pace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qserver.ledger.constants import LIMITS

DAY_S = 86_400


@dataclass(frozen=True)
class SpendPoint:
    """The spending from a moment on: Unix time in whole seconds, nano-epsilon."""

    at: int
    spent_nano: int


@dataclass(frozen=True)
class Forecast:
    """How long a budget lasts if spending goes on at the recent pace.

    Args:
        window_s: length of the window before now that gives the pace: one to seven days.
        spent_nano: spending within the window.
        days_left: days until nothing remains; None if nothing was spent in the window.
    """

    window_s: int
    spent_nano: int
    days_left: float | None

    @property
    def per_day_nano(self) -> float:
        """The pace, in nano-epsilon a day; the page of the budget shows it."""
        return self.spent_nano * DAY_S / self.window_s


@dataclass(frozen=True)
class BurnDown:
    """A population's spending over time.

    Args:
        points: one per moment at which `spent` rose, oldest first, thinned out.
        now: Unix time in whole seconds.
    """

    points: tuple[SpendPoint, ...]
    now: int
    limit_nano: int
    spent_nano: int
    forecast: Forecast


def forecast(
    points: Sequence[SpendPoint], *, now: int, spent_nano: int, remaining_nano: int
) -> Forecast:
    """How long `remaining_nano` lasts at the pace of the last week.

    For a younger budget the window is its age, but at least a day: its first minutes say little.

    Args:
        points: the spending over time, oldest first.
        now: Unix time in whole seconds.
        spent_nano: spending until now.
    """
    age = now - points[0].at if points else 0
    window = min(max(age, LIMITS.least_window_s), LIMITS.most_window_s)
    lately = spent_nano - spent_at(points, now - window)
    days = remaining_nano * window / (lately * DAY_S) if lately > 0 else None
    return Forecast(window, lately, days)


def spent_at(points: Sequence[SpendPoint], moment: int) -> int:
    """The spending at a Unix time, in nano-epsilon."""
    before = [point.spent_nano for point in points if point.at <= moment]
    return before[-1] if before else 0


def thinned(points: Sequence[SpendPoint], n_most: int) -> tuple[SpendPoint, ...]:
    """At most `n_most` of the points at which the spending rose, always the first and the last.

    Of several points at one time the last counts. Points without a rise are left out.
    """
    risen: list[SpendPoint] = []
    for point in points:
        if risen and point.spent_nano <= risen[-1].spent_nano:
            continue
        if risen and point.at == risen[-1].at:
            risen.pop()
        risen.append(point)
    if len(risen) <= n_most:
        return tuple(risen)
    last = len(risen) - 1
    return tuple(risen[i * last // (n_most - 1)] for i in range(n_most))
