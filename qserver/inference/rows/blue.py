"""All unbiased weights of a query: the best linear ones (BLUE), and directions that sum to zero."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from qserver.inference.arrays import FloatArray
from qserver.records.history import Measurement

NEW = -1
"""Id of a row that is still to be measured."""

_SAME = 1e-8


@dataclass(frozen=True)
class Noise:
    """Noise of some rows, arrays of shape (n,).

    Args:
        ids: measurement ids.
        scales: Laplace scales b.
        steps: error of lattice and floats per unit of weight.
    """

    ids: npt.NDArray[np.int64]
    scales: FloatArray
    steps: FloatArray


@dataclass(frozen=True)
class Combinations:
    """Unbiased weights of one query: `least` + a `directions` for any a.

    Args:
        noise: noise of the n rows.
        least: weights of least variance, shape (n,).
        directions: weights that sum to zero, shape (k, n). None if too many to try.
        whitening: K, so that K `directions` are orthonormal in sum of weight^2 b^2, shape (k, k).
        error: bound on the float error of an estimate by `least`, in records.
    """

    noise: Noise
    least: FloatArray
    directions: FloatArray
    whitening: FloatArray
    error: float = 0.0

    @property
    def n_directions(self) -> int:
        """k."""
        return len(self.directions)

    @property
    def deviation(self) -> float:
        """The least standard deviation of an error, in records."""
        return math.sqrt(2.0) * float(np.linalg.norm(self.least * self.noise.scales))

    def weights(self, a: FloatArray) -> FloatArray:
        """Weights of all n rows."""
        return np.asarray(self.least + a @ self.directions)

    def pairs(self, a: FloatArray) -> tuple[tuple[int, float], ...]:
        """Pairs of id and weight, none zero."""
        weights = self.weights(a)
        used = np.flatnonzero(weights)
        return tuple(zip(self.noise.ids[used].tolist(), weights[used].tolist(), strict=True))

    def with_new_row(self, *, scale: float, step: float) -> Combinations:
        """The combinations with a new measurement of the query as the last row and direction.

        Args:
            scale: Laplace scale of the new row.
            step: its error of lattice and floats per unit of weight.
        """
        noise = Noise(
            np.append(self.noise.ids, NEW),
            np.append(self.noise.scales, scale),
            np.append(self.noise.steps, step),
        )
        # Least variance is orthogonal to all directions, so the new one is, too.
        length = float(np.hypot(scale, np.linalg.norm(self.least * self.noise.scales)))
        widened = np.pad(self.directions, ((0, 0), (0, 1)))
        whitening = np.pad(self.whitening, ((0, 1), (0, 1)))
        whitening[-1, -1] = 1.0 / length
        return replace(
            self,
            noise=noise,
            least=np.append(self.least, 0.0),
            directions=np.vstack([widened, np.append(-self.least, 1.0)]),
            whitening=whitening,
        )

    def with_weights(self, weights: FloatArray) -> Combinations:
        """The combinations with a direction towards these weights, unless they are reached.

        Args:
            weights: other unbiased weights, shape (n,).
        """
        a = self.place_of(weights)
        off = (self.weights(a) - weights) * self.noise.scales
        if np.linalg.norm(off) <= _SAME * np.linalg.norm(weights * self.noise.scales):
            return self
        directions = np.vstack([self.directions, weights - self.least])
        return self.rescaled(self.noise.scales, directions)

    def place_of(self, weights: FloatArray) -> FloatArray:
        """The a whose weights come closest to the given ones, shape (k,)."""
        if not self.n_directions:
            return np.zeros(0)
        scaled = self.whitening @ self.directions * self.noise.scales
        found = scaled @ ((weights - self.least) * self.noise.scales)
        return np.asarray(found @ self.whitening)

    def rescaled(self, scales: FloatArray, directions: FloatArray | None = None) -> Combinations:
        """The same weights with other scales of the rows, shape (n,), and perhaps directions."""
        found = self.directions if directions is None else directions
        noise = replace(self.noise, scales=scales)
        return replace(self, noise=noise, directions=found, whitening=whitening_of(found, scales))


def whitening_of(directions: FloatArray, scales: FloatArray) -> FloatArray:
    """K, so that K `directions` are orthonormal in sum of weight^2 scale^2; shape (k, k)."""
    left, sizes, _ = np.linalg.svd(directions * scales, full_matrices=False)
    sizes = np.maximum(sizes, _SAME * float(sizes.max(initial=1e-300)))
    whitening: FloatArray = np.zeros((len(directions), len(directions)))
    whitening[: len(sizes)] = left.T / sizes[:, None]
    return whitening


def orthonormal(directions: FloatArray, scales: FloatArray) -> FloatArray:
    """Directions with the same span, without noiseless ones, orthonormal as above.

    Args:
        directions: of size at most 1, up to rounding. The difference of a row and its refinement is
            only rounding: it tells nothing of other rows.
    """
    left, sizes, _ = np.linalg.svd(directions * scales, full_matrices=False)
    kept = sizes > _SAME * max(1.0, float(sizes.max(initial=0.0)))
    return np.asarray((left.T @ directions)[kept] / sizes[kept, None])


def noise_of(measurements: Sequence[Measurement], *, room: float) -> Noise:
    """Noise of these measurements; `room`: for floats, in records per unit of weight."""
    return Noise(
        np.array([m.id for m in measurements], dtype=np.int64),
        np.array([m.scale for m in measurements], dtype=np.float64),
        np.array([m.lattice_allowance for m in measurements])
        + float_room(np.array([m.value_float for m in measurements]), room),
    )


def float_room(answers: FloatArray, room: float) -> FloatArray:
    """Allowance for floats in a sum over rows with these answers, per unit of weight, in records.

    Args:
        room: the part of it for the bias of weights.
    """
    return room + _SUM_ROUNDING * np.abs(answers)


_SUM_ROUNDING = 2.0**-49


def only_combination(noise: Noise, weights: FloatArray) -> Combinations:
    """A combination with fixed weights and no directions."""
    n = len(weights)
    return Combinations(noise, weights, np.zeros((0, n)), np.zeros((0, 0)))
