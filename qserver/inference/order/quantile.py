"""A quantile of a numeric attribute, and how exact it shall be."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qserver.errors import RequirementError
from qserver.inference.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Quantile:
    """The p-quantile of values in bins, asked within +-half_width.

    Args:
        p: in (0, 1).
        lows, highs: per bin the least and the greatest value in it, rising, shape (n,).
        half_width: > 0.
        confidence: of its interval, in (0, 1).
        least: records; a group that has surely fewer is measured no further.
    """

    p: float
    lows: FloatArray
    highs: FloatArray
    half_width: float
    confidence: float
    least: float

    def __post_init__(self) -> None:
        if not 0.0 < self.p < 1.0:
            raise RequirementError("p", "lie in (0, 1)", self.p)
        if not self.half_width > 0.0:
            raise RequirementError("half_width", "be > 0", self.half_width)
        if not 0.0 < self.confidence < 1.0:
            raise RequirementError("confidence", "lie in (0, 1)", self.confidence)

    @property
    def n_bins(self) -> int:
        """How many bins there are."""
        return len(self.lows)

    @property
    def missed(self) -> float:
        """The probability with which the interval may miss."""
        return 1.0 - self.confidence

    @property
    def unit(self) -> float:
        """The half-width of a count times its rate, at the number's confidence."""
        return -math.log(self.missed)

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
