"""Single rows beside the blocks (Woodbury): the BLUE of a query on both.

With weights w on the rows, the blocks give the rest q - sum_a w_a r_a. Its components that no
block reaches must vanish; among the w that do this the least variance is sought:

    minimise  sum_j reached |(q - sum w r)_j|^2 / lambda_j + sum_a 2 w_a^2 / alpha_a^2
    subject to  (q - sum w r)_j = 0  for the components that no block reaches
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qserver.inference.classes import FloatArray
from qserver.inference.lattice.blocks import Blocks, Scales
from qserver.inference.lattice.pattern import BlockKey, Pattern

# Parts of a squared norm below this are rounding; small integers leave far more.
_ROUNDING = 1e-11


@dataclass(frozen=True, eq=False)
class MeasuredRow:
    """A row that was measured as asked.

    Args:
        pattern: of the primitive row.
        alpha: 1 / b, in epsilon per record, > 0.
    """

    pattern: Pattern
    alpha: float


@dataclass(frozen=True, eq=False)
class JointEstimate:
    """Weights of a query on rows and blocks.

    Args:
        row_weights: per row, shape (rows,).
        rest: what the blocks give: the query less the weighted rows.
        variance: of the error.
        scales: Laplace scales of the error.
    """

    row_weights: FloatArray
    rest: Pattern
    variance: float
    scales: Scales


def joint_estimate(
    blocks: Blocks, rows: Sequence[MeasuredRow], query: Pattern
) -> JointEstimate | None:
    """The BLUE of `query` on blocks and rows together; None where they do not give it."""
    grams = _Grams.of(blocks, rows, query)
    if grams.is_beyond():
        return None
    weights = grams.best()
    weights = np.where(
        np.abs(weights) < 1e-14 * max(1.0, np.abs(weights).max(initial=0.0)), 0.0, weights
    )
    used = [(float(w), r.pattern) for w, r in zip(weights, rows, strict=True) if w]
    rest = query.minus(used) if used else query
    on_blocks = blocks.scales(rest)
    own = np.array([abs(w) / r.alpha for w, r in zip(weights, rows, strict=True)])
    scales = Scales(
        np.concatenate([on_blocks.values, own]),
        np.concatenate([on_blocks.counts, np.ones(len(own), dtype=np.int64)]),
    )
    variance = 2.0 * float(scales.counts @ np.square(scales.values))
    return JointEstimate(weights, rest, variance, scales)


@dataclass(frozen=True, eq=False)
class _Grams:
    """Inner products of rows and query: on components reached (over lambda), and on the others.

    Args:
        noise: row variances 2 / alpha^2, shape (rows,).
        reached, missed: among rows, shape (rows, rows).
        reached_query, missed_query: rows with the query, shape (rows,).
        missed_energy: of the query itself.
        energy: the query's mean square.
    """

    noise: FloatArray
    reached: FloatArray
    missed: FloatArray
    reached_query: FloatArray
    missed_query: FloatArray
    missed_energy: float
    energy: float

    @classmethod
    def of(cls, blocks: Blocks, rows: Sequence[MeasuredRow], query: Pattern) -> _Grams:
        n = len(rows)
        patterns = [r.pattern for r in rows] + [query]
        reached, missed = np.zeros((n + 1, n + 1)), np.zeros((n + 1, n + 1))
        for a in range(n + 1):
            for b in range(a + 1):
                found = _split(blocks, patterns[a].inner(patterns[b]))
                reached[a, b] = reached[b, a] = found[0]
                missed[a, b] = missed[b, a] = found[1]
        noise = np.array([2.0 / r.alpha**2 for r in rows])
        return cls(
            noise,
            reached[:n, :n],
            missed[:n, :n],
            reached[:n, n],
            missed[:n, n],
            float(missed[n, n]),
            sum(query.energies.values()),
        )

    def is_beyond(self) -> bool:
        """Whether some of the query is neither in the blocks nor in the rows."""
        left = self.missed_energy - float(self.missed_query @ self._particular())
        return left > _ROUNDING * max(self.energy, self.missed_energy)

    def best(self) -> FloatArray:
        """Row weights of least variance among those that leave the blocks what they reach."""
        if not len(self.noise):
            return np.zeros(0)
        values, vectors = np.linalg.eigh(self.missed)
        free = vectors[:, values <= _ROUNDING * max(float(values.max()), self.energy)]
        first = self._particular()
        normal = self.reached + np.diag(self.noise)
        right = free.T @ (self.reached_query - normal @ first)
        if not free.shape[1]:
            return first
        return np.asarray(first + free @ np.linalg.solve(free.T @ normal @ free, right))

    def _particular(self) -> FloatArray:
        if not len(self.noise):
            return np.zeros(0)
        return np.asarray(np.linalg.pinv(self.missed, rcond=1e-10) @ self.missed_query)


def _split(blocks: Blocks, products: dict[BlockKey, float]) -> tuple[float, float]:
    reached = missed = 0.0
    for j, value in products.items():
        information = blocks.information(j)
        if information > 0.0:
            reached += value / information
        else:
            missed += value
    return reached, missed
