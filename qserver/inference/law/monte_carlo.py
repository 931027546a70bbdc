"""The law of a Laplace sum by drawing it: the paper's algorithm 1, for checks and huge sums."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from qserver.errors import RequirementError
from qserver.inference.law.evaluator import CertifiedProbability
from qserver.inference.law.moments import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class SampledLaw:
    """Empirical law of abs(W).

    Attributes:
        magnitudes: abs(W) of the draws in ascending order, shape (m,).
        confidence: probability that the reported errors hold, all half-widths at once.
    """

    magnitudes: FloatArray
    confidence: float

    @property
    def error(self) -> float:
        """Bound on abs(empirical - exact) at every h at once: Dvoretzky, Kiefer and Wolfowitz."""
        return math.sqrt(math.log(2.0 / (1.0 - self.confidence)) / (2.0 * len(self.magnitudes)))

    def within(self, half_width: float) -> float:
        """Share of draws with abs(W) <= h."""
        count = int(np.searchsorted(self.magnitudes, half_width, side="right"))
        return count / len(self.magnitudes)

    def log_tail(self, half_width: float) -> float:
        """log of the share of draws beyond h, -inf beyond them all."""
        tail = 1.0 - self.within(half_width)
        return math.log(tail) if tail > 0.0 else -math.inf

    def certify(self, half_width: float) -> CertifiedProbability:
        """Share of draws within h; the error holds with `confidence` over the draws."""
        return CertifiedProbability(
            probability=self.within(half_width), error=self.error, confidence=self.confidence
        )

    def half_width(self, confidence: float) -> float:
        """Least draw h with P(abs(W) <= h) >= confidence in the sample."""
        rank = math.ceil(confidence * len(self.magnitudes))
        return float(self.magnitudes[max(rank, 1) - 1])

    def half_width_of_tail(self, log_tail: float) -> float:
        """Half-width at confidence 1 - exp(log_tail)."""
        return self.half_width(-math.expm1(log_tail))


@dataclass(frozen=True, slots=True)
class MonteCarlo:
    """Evaluator by random draws; every law takes fresh ones.

    The draws only compute a distribution: they are no noise of a release and protect nothing.

    Attributes:
        generator: source of the draws, advanced by `prepare`.
        n_draws: m >= 1; the error is about sqrt(ln(2 / (1 - confidence)) / 2m).
        confidence: probability, over the draws, that the reported errors hold, in (0, 1).
    """

    generator: np.random.Generator
    n_draws: int = 200_000
    confidence: float = 1.0 - 1e-9

    def __post_init__(self) -> None:
        if self.n_draws < 1:
            raise RequirementError("n_draws", "be >= 1", self.n_draws)
        if not 0.0 < self.confidence < 1.0:
            raise RequirementError("confidence", "lie in (0, 1)", self.confidence)

    def prepare(self, scales: FloatArray) -> SampledLaw:
        """Law of `scales`, shape (n,), from n * n_draws Laplace draws."""
        total = np.zeros(self.n_draws)
        for scale in scales.tolist():
            total += self.generator.laplace(0.0, scale, self.n_draws)
        return SampledLaw(magnitudes=np.sort(np.abs(total)), confidence=self.confidence)
