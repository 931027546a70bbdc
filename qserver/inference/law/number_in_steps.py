"""A number that is measured step by step: how exactly it is asked, and by which noise.

Steps reckon in *rates*. A rate is one over the noise of a sum, in records: its charge under Laplace
noise, and the root of twice its charge under Gaussian noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from qserver.errors import RequirementError
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw


@dataclass(frozen=True, eq=False, kw_only=True)
class Asked:
    """A number that is asked within +-half_width.

    Args:
        half_width: > 0.
        confidence: of its interval, in (0, 1).
        least: records; a group that has surely fewer is measured no further.
        law: of the noise by which it is measured.

    Raises:
        RequirementError: a value is out of range.
    """

    half_width: float
    confidence: float
    least: float
    law: NoiseLaw = LAPLACE

    def __post_init__(self) -> None:
        if not self.half_width > 0.0:
            raise RequirementError("half_width", "be > 0", self.half_width)
        if not 0.0 < self.confidence < 1.0:
            raise RequirementError("confidence", "lie in (0, 1)", self.confidence)

    @property
    def missed(self) -> float:
        """The probability with which the interval may miss."""
        return 1.0 - self.confidence

    @cached_property
    def unit(self) -> float:
        """The half-width of a count with noise 1."""
        return self.law.half_width(self.missed)
