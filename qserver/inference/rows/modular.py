"""Exact arithmetic modulo a prime of 26 bits, on float64 so that it runs at the speed of BLAS.

Residues are floats in [0, p), p < 2^26. A product of two is below 2^52 and exact. A matrix
product splits its left factor into halves of 13 bits: sums of up to 2^13 products of 13 by 26
bits stay below 2^52.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.sparse import csr_array

from qserver.inference.rows.axis_vectors import FloatArray

PRIME_BITS = 26
_HALF = float(1 << 13)
_MAX_INNER = 1 << 13
_EXACT = 2.0**52
_WITNESSES = (2, 3, 5, 7)


class SecretRandom(Protocol):
    """A source of secret random integers; `random.SystemRandom` is one."""

    def randrange(self, start: int, stop: int) -> int:
        """A uniform integer in [start, stop)."""


def random_prime(entropy: SecretRandom) -> int:
    """A uniform prime in (2^25, 2^26)."""
    while True:
        candidate = entropy.randrange(1 << (PRIME_BITS - 1), 1 << PRIME_BITS) | 1
        if _is_prime(candidate):
            return candidate


def _is_prime(n: int) -> bool:
    """Miller and Rabin's test; with these witnesses it is exact below 3.2 * 10^9."""
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for witness in _WITNESSES:
        power = pow(witness, odd, n)
        if power in (1, n - 1):
            continue
        if not any((power := power * power % n) == n - 1 for _ in range(twos - 1)):
            return False
    return True


class PrimeField:
    """Arithmetic on arrays of residues modulo the prime `p` < 2^26."""

    def __init__(self, p: int) -> None:
        self.p = p
        self._p = float(p)
        self._reciprocal = 1.0 / p

    def reduce(self, values: FloatArray) -> FloatArray:
        """Residues of whole floats up to 2^52 in size."""
        quotient = values * self._reciprocal
        np.floor(quotient, out=quotient)
        quotient *= self._p
        out = np.subtract(values, quotient, out=quotient)
        # The quotient may be off by one on either side.
        np.add(out, self._p, out=out, where=out < 0.0)
        np.subtract(out, self._p, out=out, where=out >= self._p)
        return out

    def residue(self, numerator: int, denominator: int = 1) -> float:
        """Residue of a rational number; ValueError when p divides the denominator."""
        return float(numerator * pow(denominator, -1, self.p) % self.p)

    def matmul(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """left @ right, of residues."""
        out = self._partial(left[..., :_MAX_INNER], right[:_MAX_INNER])
        for start in range(_MAX_INNER, right.shape[0], _MAX_INNER):
            part = slice(start, start + _MAX_INNER)
            out = self.reduce(out + self._partial(left[..., part], right[part]))
        return out

    def combination(self, coefficients: FloatArray, residues: FloatArray) -> FloatArray:
        """coefficients @ residues, for whole floats up to 2^52, shape (n,), and residues."""
        if float(np.abs(coefficients).sum()) <= _EXACT / self._p:
            return self.reduce(coefficients @ residues)
        return np.asarray(self.matmul(self.reduce(coefficients)[None], residues)[0])

    def sparse_matmul(self, left: csr_array, right: FloatArray) -> FloatArray:
        """left @ right, for a sparse matrix of whole floats up to 2^52 and residues."""
        longest = int(np.diff(left.indptr).max(initial=0))
        largest = float(np.abs(left.data).max(initial=0.0))
        if longest * largest <= _EXACT / self._p:
            return self.reduce(left @ right)
        entries = self.reduce(self.reduce(left.data)[:, None] * right[left.indices])
        return self.reduce(np.add.reduceat(entries, left.indptr[:-1], axis=0))

    def _partial(self, left: FloatArray, right: FloatArray) -> FloatArray:
        # Splitting passes over memory: split the smaller factor.
        small = left if left.size < right.size else right
        high = np.floor(small * (1.0 / _HALF))
        low = small - high * _HALF
        upper = high @ right if small is left else left @ high
        lower = low @ right if small is left else left @ low
        return self.reduce(self.reduce(upper) * _HALF + self.reduce(lower))

    def inverse(self, matrix: FloatArray) -> FloatArray:
        """Inverse of a square matrix; ZeroDivisionError if a leading minor vanishes modulo p."""
        n = matrix.shape[0]
        work = np.concatenate([matrix, np.eye(n)], axis=1)
        for i in range(n):
            pivot = int(work[i, i])
            if pivot == 0:
                raise ZeroDivisionError
            work[i] = self.reduce(work[i] * float(pow(pivot, -1, self.p)))
            column = work[:, i].copy()
            column[i] = 0.0
            work = self.reduce(work - column[:, None] * work[i])
        return np.asarray(work[:, n:])
