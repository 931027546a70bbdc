"""Weight vectors of one attribute, and the measure on its values for inner products.

The row space does not depend on the measure, as long as every value has a positive weight; the
accuracy of floats does. The measure starts uniform. A class is a set of values that all interned
vectors treat alike. `rebalance` gives every class the same weight, so that one cell out of 10^12 is
as visible as half of them. Between rebalancings inner products stay the same: a new boundary splits
a class into parts that share its weight by size.

The boundaries of an asked query are evaluated against the cumulated measure and are not stored.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from qserver.inference.arrays import GrowingArray
from qserver.query.weights import Weights

FloatArray = npt.NDArray[np.float64]

ALL_ONES = 0
"""Index of the all-ones vector of every attribute; a missing factor means this vector."""

_TARGET_TOTAL = 1 << 40
_MAX_DEPTH = 62


class AxisMeasure:
    """A measure on the values 0 .. size-1: whole densities, constant between knots.

    Densities are integers and the total stays below 2^41, so cumulated weights and inner
    products of indicators are exact in float64.

    Args:
        knots: increasing positions, from 0 to the number of values.
        densities: weight per value between neighbouring knots, whole numbers >= 1.
    """

    def __init__(self, knots: FloatArray, densities: FloatArray) -> None:
        self._knots = knots
        self._cumulated = np.concatenate([[0.0], np.cumsum(densities * np.diff(knots))])

    @classmethod
    def uniform(cls, size: int) -> AxisMeasure:
        """Every value weighs 1."""
        return cls(np.array([0.0, size]), np.ones(1))

    @property
    def total(self) -> float:
        """Weight of all values."""
        return float(self._cumulated[-1])

    def below(self, positions: FloatArray) -> FloatArray:
        """Weight of the values below each position."""
        return np.asarray(np.interp(positions, self._knots, self._cumulated))

    def integral(self, weights: Weights, at: FloatArray) -> FloatArray:
        """Integral of `weights` over the values below each position whose `below` is in `at`."""
        stops = self.below(np.array(weights.stops, dtype=np.float64))
        values = np.array(weights.values, dtype=np.float64)
        if len(values) == 1:
            return np.asarray(values[0] * at)
        cumulated = np.cumsum(values * np.diff(stops, prepend=0.0))
        run = np.searchsorted(stops, at, side="left")
        # From the start of the run: a product of two numbers, exact if they are small.
        start = np.concatenate([[0.0], stops])[run]
        return np.asarray(np.concatenate([[0.0], cumulated])[run] + values[run] * (at - start))

    def gram(self, vectors: list[Weights]) -> FloatArray:
        """Inner products of all pairs, shape (n, n)."""
        edges = np.unique(np.concatenate([np.array(v.stops) for v in vectors]))
        masses = np.diff(self.below(edges.astype(np.float64)), prepend=0.0)
        dense = np.stack([values_at(v, edges) for v in vectors])
        return np.asarray((dense * masses) @ dense.T)


class AxisVectors:
    """The distinct weight vectors that rows use on one attribute; index 0 is all ones."""

    def __init__(self, size: int) -> None:
        self.measure = AxisMeasure.uniform(size)
        self._size = size
        self._index: dict[Weights, int] = {}
        self._boundary: dict[int, int] = {}
        self._positions = GrowingArray(np.float64)
        self._entries = GrowingArray(np.intp)
        self._jumps = GrowingArray(np.float64)
        self._starts = GrowingArray(np.intp)
        self._log_norms = GrowingArray(np.float64)
        self._below: FloatArray | None = None
        self._matrix: csr_array | None = None
        self.intern(Weights((size,), (1,)))

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def boundaries(self) -> list[int]:
        """Positions where some vector changes, and the end, in order of arrival."""
        return list(self._boundary)

    @property
    def matrix(self) -> csr_array:
        """Jumps, shape (n_vectors, n_boundaries): a vector integrates to its row times Q.

        Q_x is the integral over the values below boundary x.
        """
        if self._matrix is None:
            starts = np.append(self._starts.view, len(self._entries))
            parts = (self._jumps.view, self._entries.view, starts)
            self._matrix = csr_array(parts, shape=(len(self), len(self._boundary)))
        return self._matrix

    @property
    def log_norms(self) -> FloatArray:
        """log2 of each vector's norm in the measure of total 1."""
        return self._log_norms.view

    def intern(self, weights: Weights) -> int:
        """Index of `weights`, appended if new."""
        known = self._index.get(weights)
        if known is not None:
            return known
        number = self._index[weights] = len(self._starts)
        self._starts.extend([len(self._entries)])
        self._entries.extend([self._number_of(stop) for stop in weights.stops])
        self._jumps.extend(jumps_of(weights))
        self._log_norms.extend([self.log_norm(weights)])
        self._below = self._matrix = None
        return number

    def cosines(self, weights: Weights) -> FloatArray:
        """Cosine of the angle between `weights` and each interned vector, shape (n_vectors,)."""
        if self._below is None:
            self._below = self.measure.below(self._positions.view)
        integrals = self.measure.integral(weights, self._below)
        products = self.matrix @ integrals
        scale = self.log_norms + (self.log_norm(weights) + np.log2(self.measure.total))
        return np.asarray(products * np.exp2(-scale))

    def log_norm(self, weights: Weights) -> float:
        """log2 of the norm of `weights` in the measure of total 1."""
        known = self._index.get(weights)
        if known is not None and known < len(self._log_norms):
            return float(self.log_norms[known])
        stops = self.measure.below(np.array(weights.stops, dtype=np.float64))
        values = np.array(weights.values, dtype=np.float64)
        square = float(np.square(values) @ np.diff(stops, prepend=0.0))
        return 0.5 * float(np.log2(square / self.measure.total))

    def rebalance(self) -> None:
        """Give every class the same weight; all inner products change."""
        order = np.argsort(self._positions.view, kind="stable")
        edges = np.concatenate([[0.0], self._positions.view[order]])
        classes = self._classes(order)
        lengths = np.diff(edges)
        sizes = np.bincount(classes, weights=lengths)
        densities = np.maximum(1.0, np.floor(_TARGET_TOTAL / (len(sizes) * sizes)))
        self.measure = AxisMeasure(edges, densities[classes])
        self._below = None
        vectors, self._log_norms = list(self._index), GrowingArray(np.float64)
        self._log_norms.extend([self.log_norm(v) for v in vectors])

    def _classes(self, order: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Class of each segment between neighbouring boundaries, by a hash of its values.

        A collision merges two classes. This affects only the choice of weights.
        """
        multipliers = np.random.default_rng(0).integers(
            1, 1 << _MAX_DEPTH, len(self), dtype=np.uint64
        )
        counts = np.diff(self._starts.view, append=len(self._entries))
        jumps = self._jumps.view.astype(np.int64).astype(np.uint64)
        steps = np.zeros(len(order), dtype=np.uint64)
        np.add.at(steps, self._entries.view, jumps * np.repeat(multipliers, counts))
        # A vector is the sum of its jumps at and after a segment's end.
        signatures = np.cumsum(steps[order][::-1])[::-1]
        return np.unique(signatures, return_inverse=True)[1].reshape(-1)

    def _number_of(self, stop: int) -> int:
        number = self._boundary.get(stop)
        if number is None:
            number = self._boundary[stop] = len(self._boundary)
            self._positions.extend([stop])
        return number


def jumps_of(weights: Weights) -> npt.NDArray[np.int64]:
    """v_i - v_(i+1) at the i-th stop, and the last value at the end; v is their upper sums."""
    values = np.array(weights.values, dtype=np.int64)
    return np.asarray(values - np.append(values[1:], 0))


def values_at(weights: Weights, edges: npt.NDArray[np.int64]) -> FloatArray:
    """Value of `weights` just below each edge, shape of `edges`."""
    runs = np.searchsorted(np.array(weights.stops), edges, side="left")
    return np.array(weights.values, dtype=np.float64)[runs]
