"""How exact a number shall be that is found by a search: its half-width and its confidence."""

from __future__ import annotations

import math
from dataclasses import dataclass

from qserver.errors import RequirementError


@dataclass(frozen=True, eq=False, kw_only=True)
class Asked:
    """A number that is asked within +-half_width.

    Args:
        half_width: > 0.
        confidence: of its interval, in (0, 1).
        least: records; a group that has surely fewer is measured no further.

    Raises:
        RequirementError: a value is out of range.
    """

    half_width: float
    confidence: float
    least: float

    def __post_init__(self) -> None:
        if not self.half_width > 0.0:
            raise RequirementError("half_width", "be > 0", self.half_width)
        if not 0.0 < self.confidence < 1.0:
            raise RequirementError("confidence", "lie in (0, 1)", self.confidence)

    @property
    def missed(self) -> float:
        """The probability with which the interval may miss."""
        return 1.0 - self.confidence

    @property
    def unit(self) -> float:
        """The half-width of a count times the loss of a record by it, in epsilon."""
        return -math.log(self.missed)
