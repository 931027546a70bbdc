"""How exact the sums behind a function must be: roughly first, then as the released value needs.

The length that a value's interval has depends on the data, which are private. So its sums are asked
in steps, all by one factor, from 16 times the half-widths that are asked at most. A rough answer is
refined for the difference in price. Steps end when the interval is as short as asked, or at the
half-widths asked at most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from qserver.query.sql.combined.function import Judging, KnownPart

_FIRST = 16.0
"""The first step asks for intervals this many times as long as the last."""
_LEAST, _MOST = 0.25, 0.8
"""A step shortens the intervals of the sums to a part between these."""
_ROUNDING = 1e-6


@dataclass(frozen=True)
class SeveralTarget:
    """The required exactness of a function of sums: +-half_width.

    Args:
        most: half-widths of the sums; no step asks for shorter ones.
    """

    function: Judging
    half_width: float
    most: tuple[float, ...]

    def is_met(self, parts: Sequence[KnownPart]) -> bool:
        """Whether the interval is as short as asked, or no step would be worth its price."""
        factor = self._factor(parts)
        if not math.isfinite(factor):
            return False
        return factor <= 1.0 or self._ratio(parts) <= 1.0

    def next_step(self, parts: Sequence[KnownPart]) -> tuple[float, ...]:
        """The half-widths to ask for now; none below `most`."""
        factor = self._factor(parts)
        if factor > _FIRST / _MOST:
            return self._times(_FIRST)
        ratio = self._ratio(parts)
        step = min(max(1.0 / ratio if ratio else 1.0, _LEAST), _MOST)
        return self._times(max(factor * step, 1.0))

    def _times(self, factor: float) -> tuple[float, ...]:
        return tuple(factor * width for width in self.most)

    def _factor(self, parts: Sequence[KnownPart]) -> float:
        """How many times as long as at most the longest interval of a sum is."""
        found = (part.half_width / width for part, width in zip(parts, self.most, strict=True))
        longest = max(found)
        return 1.0 if longest <= 1.0 + _ROUNDING else longest

    def _ratio(self, parts: Sequence[KnownPart]) -> float:
        """How many times as long as asked the interval of the value is."""
        value = self.function.value(parts)
        return (value.high - value.low) / (2.0 * self.half_width)
