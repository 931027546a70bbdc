"""A quantile of a numeric attribute, or an extreme, and how exact it shall be."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qserver.errors import RequirementError
from qserver.inference.arrays import FloatArray
from qserver.inference.precision import Asked
from qserver.query.asking.levels import RECORD, Levels


@dataclass(frozen=True, eq=False)
class Quantile(Asked):
    """The p-quantile of values in bins; of an extreme, half_width is about counts.

    Args:
        p: in [0, 1]; 0 for the least value, and 1 for the greatest.
        lows, highs: per bin the least and the greatest value in it, rising, shape (n,).
    """

    p: float
    lows: FloatArray
    highs: FloatArray

    def __post_init__(self) -> None:
        if not 0.0 <= self.p <= 1.0:
            raise RequirementError("p", "lie in [0, 1]", self.p)
        super().__post_init__()

    @property
    def n_bins(self) -> int:
        """How many bins there are."""
        return len(self.lows)

    @property
    def is_extreme(self) -> bool:
        """Whether it is the least or the greatest value."""
        return self.p in (0.0, 1.0)

    @property
    def levels(self) -> Levels:
        """What suffices of D: an extreme may be passed over that few records have."""
        return Levels.sought(self.p, self.most_beyond)

    @property
    def most_beyond(self) -> float:
        """Fewer records than these may lie beyond an extreme that is given."""
        return max(2.0 * self.half_width, RECORD)

    @cached_property
    def reach(self) -> FloatArray:
        """Per bin the first bin after those that an interval as asked may hold from there on."""
        if self.is_extreme:
            return np.arange(1.0, self.n_bins + 1.0)
        room = 2.0 * self.half_width * (1.0 + _ROUNDING)
        return np.searchsorted(self.highs, self.lows + room, side="right").astype(float)

    @property
    def is_bounded(self) -> bool:
        """Whether the public range alone is as short as asked."""
        return not self.is_extreme and bool(self.reach[0] >= self.n_bins)


_ROUNDING = 1e-9
