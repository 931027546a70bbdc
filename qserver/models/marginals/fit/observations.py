"""Observations: all released answers, noisy marginals or linear functions of them, as rows.

Everything is in proportions tau, on the flat vector of a layout. Row i predicts (K tau)_i; its
target is its answer over the total. The loss is one of
    squares   1/2 sum w_i r_i^2,  w_i = (b0 / b_i)^2
    laplace   sum w_i abs(r_i),   w_i = (b0 / b_i) (b0 / N)
with r = K tau - target, b_i the Laplace scales, b0 the least of them and N the total. The second is
the negative log-likelihood of Laplace noise, the first that of Gaussian noise, whose b_i are those
of equal variance; its unit makes both losses of the size of the square of the noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import sparse

from qserver.errors import InputError
from qserver.models.marginals.graph.layout import FloatArray, IndexArray, Layout, Scope


@dataclass(frozen=True)
class NoisyMarginal:
    """answers = Q mu + noise, mu being the counts of the marginal on `scope`.

    Args:
        scope: the attributes, rising.
        answers: one per row of Q, in records; for Q = None one per cell, row-major.
        scales: b of Laplace noise with the variance of each answer's noise, in records, > 0; a
            single one holds for all.
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


Likelihood = Literal["squares", "laplace"]


class Observations:
    """The released answers about the tables of a layout, which has every measured scope.

    Args:
        total: number of records N, > 0.

    Attributes:
        cells: cells measured by whole marginals, each once; the first rows of K.
        rows: the other rows of K, sparse.
        targets, weights: one per row, cells first.
    """

    def __init__(
        self,
        layout: Layout,
        measurements: Sequence[NoisyMarginal],
        *,
        total: float,
        likelihood: Likelihood = "squares",
    ) -> None:
        self.layout, self.total = layout, total
        self.likelihood: Likelihood = likelihood
        self.least_scale = min(float(m.scales.min()) for m in measurements)
        direct, others = _split(layout, measurements, merge=likelihood == "squares")
        self.cells: IndexArray = _joined([_cells(layout, m) for m in direct], np.intp)
        self.rows = _stacked(layout, others)
        self.targets: FloatArray = (
            _joined([m.answers for m in (*direct, *others)], np.float64) / total
        )
        ratios = self.least_scale / _joined([m.scales for m in (*direct, *others)], np.float64)
        self.weights: FloatArray = (
            np.square(ratios) if likelihood == "squares" else ratios * self.least_scale / total
        )

    def as_squares(self) -> Observations:
        """The same answers with the squares as loss, without merging."""
        found = copy(self)
        ratios = self.weights / self.unit if self.likelihood == "laplace" else np.sqrt(self.weights)
        found.likelihood, found.weights = "squares", np.square(ratios)
        return found

    @property
    def unit(self) -> float:
        """The least scale as a proportion, b0 / N."""
        return self.least_scale / self.total

    @property
    def noise_loss(self) -> float:
        """Expected loss of the true tables, which is due to noise alone."""
        return len(self.targets) * self.unit**2

    def predicted(self, tables: FloatArray) -> FloatArray:
        """K tau, shape (rows,)."""
        if not self.rows.shape[0]:
            return tables[self.cells]
        return np.concatenate([tables[self.cells], self.rows @ tables])

    def spread(self, slopes: FloatArray) -> FloatArray:
        """K transposed times one number per row, shape (layout.n_cells,)."""
        n = len(self.cells)
        found = np.zeros(self.layout.n_cells)
        found[self.cells] = slopes[:n]
        if self.rows.shape[0]:
            found += self.rows.T @ slopes[n:]
        return found

    def value(self, tables: FloatArray) -> float:
        """The loss."""
        rest = self.predicted(tables) - self.targets
        if self.likelihood == "squares":
            return 0.5 * float(self.weights @ np.square(rest))
        return float(self.weights @ np.abs(rest))


def _split(
    layout: Layout, measurements: Sequence[NoisyMarginal], *, merge: bool
) -> tuple[list[NoisyMarginal], list[NoisyMarginal]]:
    """One whole marginal per scope, and all others. Squares of one scope are merged."""
    direct: dict[tuple[int, ...], NoisyMarginal] = {}
    others: list[NoisyMarginal] = []
    for m in measurements:
        m.check_cells(int(layout.counts[layout.index[m.scope]]))
        if m.rows is not None or (m.scope in direct and not merge):
            others.append(m)
        elif m.scope in direct:
            direct[m.scope] = _merged(direct[m.scope], m)
        else:
            direct[m.scope] = m
    return list(direct.values()), others


def _merged(a: NoisyMarginal, b: NoisyMarginal) -> NoisyMarginal:
    """The mean by inverse variance, with the scale of equal variance."""
    precision = 1.0 / np.square(a.scales) + 1.0 / np.square(b.scales)
    mean = (a.answers / np.square(a.scales) + b.answers / np.square(b.scales)) / precision
    return NoisyMarginal(a.scope, mean, 1.0 / np.sqrt(precision))


def _cells(layout: Layout, m: NoisyMarginal) -> IndexArray:
    i = layout.index[m.scope]
    return np.arange(layout.offsets[i], layout.offsets[i + 1], dtype=np.intp)


def _stacked(layout: Layout, measurements: Sequence[NoisyMarginal]) -> sparse.csr_array:
    """The rows of all measurements on the flat vector."""
    blocks = [sparse.csr_array((0, layout.n_cells))]
    for m in measurements:
        first = int(layout.offsets[layout.index[m.scope]])
        rows = m.rows if m.rows is not None else sparse.eye_array(len(m.answers), format="csr")
        where = (rows.data.astype(np.float64), rows.indices + first, rows.indptr)
        blocks.append(sparse.csr_array(where, shape=(rows.shape[0], layout.n_cells)))
    return sparse.csr_array(sparse.vstack(blocks, format="csr"))


def _joined(arrays: Sequence[np.ndarray], kind: type) -> np.ndarray:
    return np.concatenate([np.zeros(0, kind), *arrays])
