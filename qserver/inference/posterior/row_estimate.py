"""What history says of one row: the estimate that inference hands out."""

from __future__ import annotations

from dataclasses import dataclass

from qserver.inference.posterior.posterior import Posterior
from qserver.records.history import Estimator


@dataclass(frozen=True)
class RowEstimate:
    """What history says about a primitive row at one confidence.

    Args:
        weights: pairs of a measured row's id and its weight, none of them zero; for `blocks` of
            the rows whose rest the tables give, if there are any.
        posterior: of the row's answer, in records.
        confidence: the confidence that the weights were chosen for.
        half_width: of the posterior at that confidence, allowances included.
        method: `direct` (one measurement of this very row), `stored` (weights of an earlier
            answer), `planned` (weights that a plan chose before it measured), `blue` (least
            variance; without dependent rows the only weights there are), `tail` (shortest
            interval at this confidence) or `blocks` (measured tables, perhaps with the row's own
            measurement, or with rows that they give the rest of).
        float_error: the part of the allowance that floats in the weights cause, in records.
        is_only: whether no other weights on the rows in play give the row.
        tables: ids of the measured tables used, in rising order; `blocks` alone has any.
        beside: pairs of id and weight of rows that count beside tables: the row's own, and a
            public total.
        at: for `blocks`, after how many releases and refinements its weights were those of least
            variance; None elsewhere.
        is_kept: for `blocks`, whether these weights are tried whatever comes after.
        unforeseen: the part of the allowance beyond what the weights alone told of, in records: 0
            but for answers so large that floats hold them badly.
    """

    weights: tuple[tuple[int, float], ...]
    posterior: Posterior
    confidence: float
    half_width: float
    method: str
    float_error: float = 0.0
    is_only: bool = False
    tables: tuple[int, ...] = ()
    beside: tuple[tuple[int, float], ...] = ()
    at: int | None = None
    is_kept: bool = False
    unforeseen: float = 0.0

    @property
    def ids(self) -> tuple[int, ...]:
        """The measured rows used."""
        return tuple(i for i, _ in (*self.weights, *self.beside))

    @property
    def needs_storing(self) -> bool:
        """Whether its weights must be kept as an `Estimator`, or the answer might not stay free.

        Not where they are found again whatever comes after.
        """
        return not (self.is_only or self.is_kept or self.method in ("direct", "stored"))

    def estimator(self, key: str) -> Estimator:
        """What keeps the answer of this key free."""
        return Estimator(key, self.weights, self.float_error, self.at)
