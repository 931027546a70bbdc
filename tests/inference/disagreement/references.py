"""The law of an error given known sums, by ways that share nothing with the code."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import null_space

from qserver.inference.arrays import FloatArray
from qserver.inference.disagreement.known_sums import KnownSums


@dataclass(frozen=True)
class Design:
    """Rows, their scales, and a query that is a combination of them."""

    rows: FloatArray
    scales: FloatArray
    query: FloatArray

    @property
    def weights(self) -> FloatArray:
        """Weights of least variance on the rows."""
        return np.asarray(
            self.query @ np.linalg.pinv(self.rows / self.scales[:, None]) / self.scales
        )

    def errors(self, rng: np.random.Generator) -> FloatArray:
        """Errors of the rows, drawn."""
        return rng.laplace(size=len(self.scales)) * self.scales

    def known(self, errors: FloatArray) -> KnownSums:
        """What everybody knows of these errors."""
        sums = null_space(self.rows.T).T
        return KnownSums(self.weights * self.scales, sums * self.scales, sums @ errors)

    def known_with(self, counts: FloatArray, rng: np.random.Generator) -> KnownSums:
        """What everybody knows of drawn errors that are sums of so many Laplace variables."""
        drawn = [rng.laplace(size=int(n)).sum() / np.sqrt(n) for n in counts]
        return replace(self.known(np.array(drawn) * self.scales), counts=counts)


TWO_HALVES = Design(
    np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([1.0, 1.0, 1.5]), np.array([1.0, 0.0])
)


def repeated(n: int) -> Design:
    """One count, measured n times with rising noise."""
    return Design(np.ones((n, 1)), np.linspace(1.0, 2.0, n), np.ones(1))


def ranges(n: int, n_rows: int, *, seed: int) -> Design:
    """Random ranges on n cells; the query is one of them."""
    rng = np.random.default_rng(seed)
    ends = np.sort([rng.choice(n + 1, 2, replace=False) for _ in range(n_rows)], axis=1)
    places = np.arange(n)
    rows = np.unique((ends[:, :1] <= places) & (places < ends[:, 1:]), axis=0).astype(float)
    return Design(rows, rng.uniform(0.7, 3.0, len(rows)), rows[len(rows) // 2])


def tree(*, group: bool) -> Design:
    """A total, 4 groups, 16 parts of them and 64 leaves, all with the same noise.

    Args:
        group: whether the query is a group; else a leaf.
    """
    leaves = np.arange(64)
    sizes = (64, 16, 4, 1)
    rows = np.array([leaves // size == i for size in sizes for i in range(64 // size)], float)
    return Design(rows, np.ones(len(rows)), rows[1 if group else -1])


def cdf_by_grid(design: Design, errors: FloatArray, places: FloatArray) -> FloatArray:
    """P(W <= place) given the known sums, by a grid over the truth of two cells or one."""
    answers = design.rows @ np.zeros(design.rows.shape[1]) + errors
    middle = np.linalg.pinv(design.rows / design.scales[:, None]) @ (answers / design.scales)
    steps = np.linspace(-30.0, 30.0, 2401)
    axes = np.meshgrid(*[m + steps for m in middle], indexing="ij")
    truth = np.stack([a.ravel() for a in axes])
    logs = -(np.abs(answers[:, None] - design.rows @ truth) / design.scales[:, None]).sum(axis=0)
    density = np.exp(logs - logs.max())
    # The posterior of the query is that of its estimate less the error.
    error = design.weights @ answers - design.query @ truth
    values, where = np.unique(np.round(error, 9), return_inverse=True)
    masses = np.bincount(where, weights=density)
    # A point of the grid stands for a cell around it.
    sums = np.cumsum(masses) - 0.5 * masses
    return np.asarray(np.interp(places, values, sums / density.sum()))


def errors_by_chain(
    design: Design, errors: FloatArray, *, n_chains: int, n_sweeps: int
) -> FloatArray:
    """Draws of W given the known sums, by a Gibbs sampler on the truth with Laplace mixtures."""
    rng = np.random.default_rng(5)
    basis = np.linalg.svd(design.rows)[2][: np.linalg.matrix_rank(design.rows)]
    rows = design.rows @ basis.T / design.scales[:, None]
    answers = errors / design.scales
    truth = np.zeros((n_chains, rows.shape[1]))
    found = []
    for sweep in range(n_sweeps + 50):
        off = np.maximum(np.abs(answers - truth @ rows.T), 1e-9)
        precision = rng.wald(1.0 / off, 1.0)
        inner = np.einsum("ci,ij,ik->cjk", precision, rows, rows, optimize=True)
        lower = np.linalg.cholesky(inner)
        mean = np.linalg.solve(inner, ((precision * answers) @ rows)[..., None])
        noise = rng.normal(size=(*truth.shape, 1))
        truth = (mean + np.linalg.solve(np.swapaxes(lower, 1, 2), noise))[..., 0]
        if sweep >= 50:
            found.append(design.weights @ errors - truth @ (basis @ design.query))
    return np.concatenate(found)
