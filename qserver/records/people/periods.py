"""Which periods of a dataset have their data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SealedPeriods:
    """Which periods of a dataset have their data now; public.

    Args:
        sealed: how many of the first periods.
        last: the last of them; None before the first.
        declared: periods in all, those to come too.
        capacity: most records of one period.
        retired: how many of the first periods have their records erased; answers stay.
        first_kept: the first period whose records are kept; None where none is erased.
    """

    attribute: str
    sealed: int
    last: str | None
    declared: int
    capacity: int
    retired: int = 0
    first_kept: str | None = None
