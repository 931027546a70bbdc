"""Sketches: the values of queries under secret random product functionals modulo a prime.

A functional has one random weight per value of each attribute; it maps a term to the product of
its vectors' sums. The sums of one attribute are given by a random number per *boundary*, C(x) =
sum of the weights below x. If C is uniform and independent, so are the weights of the segments
between any boundaries. So a new boundary needs no bookkeeping, and old sketches stay valid. C is
expanded from a secret key.

All weights of an attribute sum to 1, so an attribute that is not mentioned is a factor 1. This
loses no generality: a term is homogeneous in each attribute's weights, so multiplying the weights
of one attribute does not change whether a combination of rows vanishes under a functional.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from qserver.inference.rows.axis_vectors import FloatArray, jumps_of
from qserver.inference.rows.factored_rows import FactoredRows
from qserver.inference.rows.modular import PrimeField, SecretRandom, random_prime
from qserver.query.linear import Factor, LinearQuery

BLOCK = 64
"""Functionals are numbered in blocks of this many."""

CHECKS = -1
"""Number of the block of check functionals, which are never pivots."""

_KEY_BITS = 256
_CACHED_BOUNDARIES = 1 << 14


class Sketcher:
    """Random product functionals modulo one random secret prime.

    Args:
        sizes: number of values per attribute.
        entropy: where prime and key come from; operating-system entropy outside tests.
    """

    def __init__(self, sizes: tuple[int, ...], entropy: SecretRandom) -> None:
        self.field = PrimeField(random_prime(entropy))
        self._sizes = sizes
        self._key = entropy.randrange(0, 1 << _KEY_BITS).to_bytes(_KEY_BITS // 8, "little")
        self._below = lru_cache(maxsize=_CACHED_BOUNDARIES)(self._expand)

    def query(self, query: LinearQuery, blocks: Sequence[int]) -> FloatArray:
        """Values of the functionals of the given blocks at `query`, shape (n blocks * BLOCK,).

        Raises:
            ValueError: the prime divides a coefficient's denominator.
        """
        total = np.zeros(len(blocks) * BLOCK)
        sums: dict[Factor, FloatArray] = {}
        for term in query.terms:
            c = term.coefficient
            product = np.full(len(total), self.field.residue(c.numerator, c.denominator))
            for factor in term.factors:
                if factor not in sums:
                    sums[factor] = self._sum(factor, blocks)
                product = self.field.reduce(product * sums[factor])
            total = self.field.reduce(total + product)
        return total

    def rows(self, rows: FactoredRows, block: int) -> FloatArray:
        """Values of one block's functionals at every row, shape (n_rows, BLOCK).

        Raises:
            ValueError: the prime divides a coefficient's denominator.
        """
        terms = [t.coefficient for q in rows.queries for t in q.terms]
        signs = np.array([self.field.residue(c.numerator, c.denominator) for c in terms])
        product = np.repeat(signs[:, None], BLOCK, axis=1)
        for axis in rows.axes:
            product = self.field.reduce(
                product * self._vector_sums(rows, axis, block)[rows.vector_ids(axis)]
            )
        return self.field.reduce(np.add.reduceat(product, rows.term_starts, axis=0))

    def _vector_sums(self, rows: FactoredRows, axis: int, block: int) -> FloatArray:
        vectors = rows.axes[axis]
        below = np.stack([self._below(axis, x, block) for x in vectors.boundaries])
        return self.field.sparse_matmul(vectors.matrix, below)

    def _sum(self, factor: Factor, blocks: Sequence[int]) -> FloatArray:
        axis, stops = factor.axis, factor.weights.stops
        jumps = jumps_of(factor.weights).astype(np.float64)
        below = np.array([[self._below(axis, x, b) for b in blocks] for x in stops])
        return self.field.combination(jumps, below.reshape(len(stops), -1))

    def _expand(self, axis: int, position: int, block: int) -> FloatArray:
        if position == self._sizes[axis]:
            return np.ones(BLOCK)
        seed = self._key + b"%d,%d,%d" % (axis, position, block)
        words = np.frombuffer(hashlib.shake_128(seed).digest(8 * BLOCK), dtype=np.uint64)
        return (words % np.uint64(self.field.p)).astype(np.float64)
