"""Released measurements: noisy marginals, or noisy linear functions of a marginal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from qserver.errors import InputError
from qserver.models.marginals.graph.layout import FloatArray, Scope


@dataclass(frozen=True)
class NoisyMarginal:
    """answers = Q mu + Laplace noise, mu being the counts of the marginal on `scope`.

    Args:
        scope: the attributes, rising.
        answers: one per row of Q, in records; for Q = None one per cell, row-major.
        scales: Laplace scale of each answer in records, > 0; a single one holds for all.
        rows: Q, sparse, rows by cells of the marginal; None for the marginal itself.

    Raises:
        InputError: shapes disagree, a value is not finite, a scale not positive or a row zero.
    """

    scope: Scope
    answers: FloatArray
    scales: FloatArray
    rows: sparse.csr_array | None = None

    def __post_init__(self) -> None:
        answers = np.asarray(self.answers, dtype=np.float64).ravel()
        scales = np.broadcast_to(np.asarray(self.scales, dtype=np.float64), answers.shape)
        if not np.isfinite(answers).all() or not len(answers):
            raise InputError("answers", "be one or more finite numbers")
        if not (np.isfinite(scales).all() and (scales > 0).all()):
            raise InputError("scales", "be finite and > 0")
        if self.rows is not None and self.rows.shape[0] != len(answers):
            raise InputError("answers", f"be {self.rows.shape[0]}, one per row", len(answers))
        if self.rows is not None and not (abs(_summed_up(self.rows)).sum(axis=1) > 0).all():
            raise InputError("rows", "each hold a number that is not zero")
        object.__setattr__(self, "answers", answers)
        object.__setattr__(self, "scales", scales)

    def check_cells(self, n_cells: int) -> None:
        """Raise InputError unless the marginal has `n_cells` cells."""
        found = len(self.answers) if self.rows is None else self.rows.shape[1]
        if found != n_cells:
            raise InputError("answers", f"fit a marginal of {n_cells} cells", found)


def _summed_up(rows: sparse.csr_array) -> sparse.csr_array:
    """The same matrix with every entry stored once."""
    if rows.has_canonical_format:
        return rows
    found = rows.copy()
    found.sum_duplicates()
    return found


def total_of(measurements: tuple[NoisyMarginal, ...]) -> float:
    """Number of records by inverse variance over the whole marginals measured; at least 1.

    Raises:
        InputError: neither a whole marginal nor rows that add up to one were measured.
    """
    weights, weighted = 0.0, 0.0
    for m in measurements:
        if m.rows is not None:
            ones = np.asarray(m.rows.sum(axis=0)).ravel()
            if not np.allclose(ones, 1.0):
                continue
        weight = 1.0 / float(2.0 * np.square(m.scales).sum())
        weights += weight
        weighted += weight * float(m.answers.sum())
    if not weights:
        raise InputError("measurements", "hold a whole marginal, which gives the total")
    return max(weighted / weights, 1.0)
