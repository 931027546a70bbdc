"""An interval, as posteriors give it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CredibleInterval:
    """A closed interval.

    Attributes:
        low: lower end.
        high: upper end, >= low.
    """

    low: float
    high: float
