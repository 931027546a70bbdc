"""Moment generating function of a sum of Laplace variables, in units of its largest scale.

M(s) = E exp(sW) = prod_i 1 / (1 - c_i^2 s^2). Factors with a small argument enter through power
sums, log 1/(1 - x) = sum_k x^k / k, so that long sums cost no more than short ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from qserver.inference.arrays import FloatArray

ComplexArray = npt.NDArray[np.complex128]
Scalar = TypeVar("Scalar", np.float64, np.complex128)

N_POWERS: Final = 14
"""Power sums kept: 0.09^15 / 15 is below the rounding of a double."""

SMALL: Final = 0.09
"""Largest c^2 abs(s)^2 that enters through power sums."""

_CHUNK: Final = 32
_N_EXACT: Final = 16
_N_GROUPS: Final = 32
_ORDERS: Final = np.arange(1, N_POWERS + 1, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """M(s) of n scales, sorted from the largest down, the largest being 1.

    Attributes:
        squares: c_i^2, shape (n,), descending, squares[0] = 1.
        gaps: 1 - c_i^2, shape (n,), kept apart so that s close to the pole at 1 loses no digits.
        starts: first index of each chunk of factors, shape (k,).
        levels: the different squares, descending, shape (l,): many scales of a sum are alike.
        ends: index behind the last square of each level, shape (l,).
        group_squares: mean c^2 of groups of neighbouring scales, shape (g,), g <= 48.
        group_sizes: number of scales in each group, shape (g,).
    """

    squares: FloatArray
    gaps: FloatArray
    starts: npt.NDArray[np.intp]
    levels: FloatArray
    ends: npt.NDArray[np.intp]
    group_squares: FloatArray
    group_sizes: FloatArray
    _found: dict[int, FloatArray] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, scales: FloatArray) -> Moments:
        """Moments of positive `scales`, shape (n,), n >= 1, in any order and unit."""
        ordered = np.sort(scales)[::-1]
        unit = ordered / ordered[0]
        squares = unit * unit
        ends = np.append(np.flatnonzero(np.diff(squares)) + 1, len(squares))
        starts = np.arange(0, len(unit), _CHUNK)
        edges = _group_edges(len(unit))
        sizes = np.diff(np.append(edges, len(unit))).astype(np.float64)
        return cls(
            squares=squares,
            gaps=(1.0 - unit) * (1.0 + unit),
            starts=starts,
            levels=squares[ends - 1],
            ends=ends,
            group_squares=np.add.reduceat(squares, edges) / sizes,
            group_sizes=sizes,
        )

    def n_large_chunks(self, largest: float, *, small: float = SMALL) -> int:
        """Number of chunks whose largest c^2 times `largest` = max abs(s)^2 exceeds `small`."""
        return int(np.count_nonzero(self.squares[self.starts] * largest > small))

    def n_large(self, n_chunks: int) -> int:
        """Number of scales in the first `n_chunks` chunks."""
        return min(n_chunks * _CHUNK, len(self.squares))

    def top(self, chunk: int) -> float:
        """Largest c^2 of a chunk: the unit of its row of power sums."""
        return float(self.squares[self.starts[chunk]])

    def log(self, z: ComplexArray, one_minus_z: ComplexArray) -> ComplexArray:
        """log M at z = s^2, any branch of the imaginary part.

        Args:
            z: squared arguments, shape (m,).
            one_minus_z: 1 - z without cancellation, shape (m,).

        Returns:
            Shape (m,); exp of it is M to a few ulps times the number of large factors.
        """
        n_chunks = self.n_large_chunks(float(np.abs(z).max()))
        total = self.small_log(z, n_chunks)
        if n_chunks:
            n = self.n_large(n_chunks)
            factors = self.squares[:n, None] * one_minus_z
            factors += self.gaps[:n, None]
            # Where M matters, products of 32 factors neither overflow nor underflow.
            products = np.multiply.reduceat(factors, self.starts[:n_chunks], axis=0)
            total = total - np.log(products).sum(axis=0)
        return total

    def small_log(self, z: ComplexArray, n_chunks: int) -> ComplexArray:
        """First 14 terms of log M of the chunks from `n_chunks` on, at z, shape (m,)."""
        if n_chunks == len(self.starts):
            return np.zeros(z.shape, dtype=np.complex128)
        powers = _powers(self.top(n_chunks) * z)
        result: ComplexArray = self.power_sums(n_chunks) @ powers
        return result

    def power_sums(self, chunk: int) -> FloatArray:
        """Sum over the chunks from this one on of (c / t)^(2m) / m for m = 1..14, shape (14,).

        t is the largest scale of the chunk. With a unit per chunk they do not underflow, and the
        powers of t^2 s^2 that multiply them do not overflow, however far the scales are apart.
        """
        if chunk not in self._found:
            start = self.starts[chunk]
            first = int(np.searchsorted(self.ends, start, side="right"))
            counts = np.diff(self.ends[first:], prepend=start)
            sums = _powers(self.levels[first:] / self.top(chunk)) @ counts.astype(np.float64)
            self._found[chunk] = sums / _ORDERS
        return self._found[chunk]

    def grouped_log_abs(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """log abs(M(x + iy)) up to the spread within groups: for choosing, not for answers."""
        real = np.square(x) - np.square(y)
        imag = 2.0 * x * y
        squares = self.group_squares.reshape((-1,) + (1,) * x.ndim)
        norms = np.square(1.0 - squares * real)
        norms += np.square(squares * imag)
        with np.errstate(divide="ignore"):
            logs = np.log(norms)
        result: FloatArray = np.tensordot(self.group_sizes, logs, axes=1) * -0.5
        return result


def _powers(x: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """x, x^2, ..., x^14, shape (14, n) for x of shape (n,)."""
    return np.asarray(np.multiply.accumulate(np.broadcast_to(x, (N_POWERS, *x.shape)), axis=0))


def _group_edges(n: int) -> npt.NDArray[np.intp]:
    """Starts of the groups: the largest scales alone, the rest in at most 32 runs."""
    n_alone = min(n, _N_EXACT + _N_GROUPS)
    if n == n_alone:
        return np.arange(n)
    runs = np.linspace(_N_EXACT, n, _N_GROUPS + 1)[:-1].astype(np.intp)
    return np.concatenate([np.arange(_N_EXACT), runs])
