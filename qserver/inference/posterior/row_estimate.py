"""The estimate of one row from history: the result of inference."""

from __future__ import annotations

from dataclasses import dataclass

from qserver.inference.posterior.posterior import Posterior
from qserver.records.history import Estimator


@dataclass(frozen=True)
class RowEstimate:
    """The estimate of a primitive row from history, at one confidence.

    Args:
        weights: pairs of a measured row's id and its non-zero weight. For `blocks`: rows that the
            tables complete, if any.
        posterior: posterior of the row's answer, in records.
        confidence: the confidence that the weights were chosen for.
        half_width: half-width of the posterior at that confidence, allowances included.
        method: `direct` (one measurement of exactly this row), `stored` (weights of an earlier
            answer), `planned` (weights that a plan chose before it measured), `blue` (least
            variance), `tail` (shortest interval at this confidence) or `blocks` (measured tables,
            perhaps with a measurement of the row, or with rows that the tables complete).
        float_error: the part of the allowance for floats in the weights, in records.
        tables: ids of the measured tables used, in rising order; only for `blocks`.
        beside: for `blocks`, pairs of id and weight of rows that count in addition to the tables:
            a measurement of the row, and a public total.
        at: for `blocks`, the number of releases and refinements after which its weights were
            those of least variance; None for other methods.
        is_kept: for `blocks`, whether these weights are tried after every later event.
        unforeseen: the part of the allowance that the weights alone did not predict, in records.
            It is 0 except for answers so large that floats hold them badly.
    """

    weights: tuple[tuple[int, float], ...]
    posterior: Posterior
    confidence: float
    half_width: float
    method: str
    float_error: float = 0.0
    tables: tuple[int, ...] = ()
    beside: tuple[tuple[int, float], ...] = ()
    at: int | None = None
    is_kept: bool = False
    unforeseen: float = 0.0

    @property
    def ids(self) -> tuple[int, ...]:
        """Ids of the measured rows used."""
        return tuple(i for i, _ in (*self.weights, *self.beside))

    @property
    def needs_storing(self) -> bool:
        """Whether the weights must be stored as an `Estimator` so that the answer stays free.

        They need not be stored if they will be found again after every later event.
        """
        return not (self.is_kept or self.method in ("direct", "stored"))

    def estimator(self, key: str) -> Estimator:
        """The stored weights that keep the answer of this key free."""
        return Estimator(key, self.weights, self.float_error, self.at)
