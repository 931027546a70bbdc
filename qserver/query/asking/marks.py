"""Marks: two numbers, where only the side of each on which an answer lies matters."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, log1p
from typing import Final

_NEVER: Final = 1e-9
"""Probability with which an error may be so large that an answer lies on another side."""


@dataclass(frozen=True)
class Marks:
    """Below `low`, above `high`, or strictly between them: an answer matters only by which it is.

    A quantile follows from counts in this way, and so does the number of groups above a constant.
    """

    low: float
    high: float

    def decide(self, low: float, high: float, *, confidence: float) -> bool:
        """Whether the answer lies on one side, but for a probability of 1e-9.

        Let d be 1 - confidence, and f(h) = log P(abs(W) > h) for the estimate's error W. W is
        log-concave, so f is concave, and f(0) = 0. So f(k h) <= k f(h) for k >= 1, and at k h with
        k = log(1e-9) / log(d) the error is as rare as said.

        Args:
            low, high: the interval of the estimate's error around it at `confidence`, 2 h long.
        """
        times = max(1.0, log(_NEVER) / log1p(-confidence))
        more = (times - 1.0) * (high - low) / 2.0
        low, high = low - more, high + more
        return high < self.low or low > self.high or self.low < low <= high < self.high
