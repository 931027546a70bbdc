"""How much D at a threshold must be for a number to lie on one side of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

RECORD = 1.0
"""How far the definitions of a quantile are apart, in records."""


@dataclass(frozen=True)
class Levels:
    """The number lies behind a threshold with D under `below`, and before one with D over `above`.

    The least value is the 0-quantile, and the greatest the 1-quantile. What is sought of them may
    lie on either side of one threshold.
    """

    below: float
    above: float

    @classmethod
    def sought(cls, p: float, records: float) -> Levels:
        """What is sought of the p-quantile; of an extreme that fewer records lie beyond it."""
        if p == 0.0:
            return cls(records, 0.0)
        return cls(0.0, -records) if p == 1.0 else cls(-RECORD, RECORD)

    @classmethod
    def reached(cls, p: float) -> Levels:
        """What tells the p-quantile's interval; beyond an extreme there may always be one."""
        if p == 0.0:
            return cls(-math.inf, 0.0)
        return cls(0.0, math.inf) if p == 1.0 else cls(-RECORD, RECORD)

    @property
    def hold_at_ends(self) -> bool:
        """Whether D is surely not above them before all values, and not below behind all."""
        return self.below < self.above < math.inf and self.below > -math.inf

    @property
    def middle(self) -> float:
        """Where D passes both."""
        return (self.below + self.above) / 2.0

    @property
    def overlap(self) -> float:
        """Half of what lies between, where D may be between; else 0."""
        return max(self.below - self.above, 0.0) / 2.0
