"""A quantile of a numeric attribute, and how exact it shall be."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qserver.errors import RequirementError
from qserver.inference.arrays import FloatArray
from qserver.inference.asked import Asked


@dataclass(frozen=True, eq=False)
class Quantile(Asked):
    """The p-quantile of values in bins.

    Args:
        p: in (0, 1).
        lows, highs: per bin the least and the greatest value in it, rising, shape (n,).
    """

    p: float
    lows: FloatArray
    highs: FloatArray

    def __post_init__(self) -> None:
        if not 0.0 < self.p < 1.0:
            raise RequirementError("p", "lie in (0, 1)", self.p)
        super().__post_init__()

    @property
    def n_bins(self) -> int:
        """How many bins there are."""
        return len(self.lows)

    @cached_property
    def reach(self) -> FloatArray:
        """Per bin the first bin after those that an interval as asked may hold from there on."""
        room = 2.0 * self.half_width * (1.0 + _ROUNDING)
        return np.searchsorted(self.highs, self.lows + room, side="right").astype(float)

    @property
    def is_bounded(self) -> bool:
        """Whether the public range alone is as short as asked."""
        return bool(self.reach[0] >= self.n_bins)


_ROUNDING = 1e-9
