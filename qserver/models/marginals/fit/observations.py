"""Observations: all released answers as rows on the flat vector of a layout.

Everything is in proportions tau. Row i predicts (K tau)_i; its target is its answer over the total.
The loss is one of
    squares   1/2 sum w_i r_i^2,  w_i = (b0 / b_i)^2
    laplace   sum w_i abs(r_i),   w_i = (b0 / b_i) (b0 / N)
with r = K tau - target, b_i the Laplace scales, b0 the least of them and N the total. The second is
the negative log-likelihood; its unit makes both losses of the size of the square of the noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Literal

import numpy as np
from scipy import sparse

from qserver.models.marginals.fit.measurement import NoisyMarginal
from qserver.models.marginals.graph.layout import FloatArray, IndexArray, Layout

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
