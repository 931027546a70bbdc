"""The exact test of which components of a query are not zero.

Floats cannot tell a component of 2^-40 of the largest from rounding. But a query with a tiny part
that no block reaches must not be answered from blocks. So a secret random functional per attribute
and level maps every component to a number modulo a secret prime. All arithmetic is exact: class
means divide by small numbers only.

Error. A zero component always gives zero. Another one gives zero modulo one prime only if the prime
divides certain non-zero integers, or if a random product functional of d attributes vanishes on it,
with probability at most d / 2^25 (Schwartz 1980, Zippel 1979). All three primes must agree. Nobody
can construct a query for this: primes and functionals are never shown.
"""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from qserver.inference.tables.blocks.pattern import BlockKey, Lattice
from qserver.inference.tables.blocks.primes import SecretRandom, random_prime
from qserver.query.linear import LinearQuery, Term
from qserver.query.weights import Weights

N_PRIMES = 3
_SEED_BITS = 128
_CACHED = 1 << 13

Residues = NDArray[np.int64]


class ExactSupport:
    """The exact test for queries on one lattice.

    Args:
        lattice: resolves the queries.
        entropy: source of the primes and functionals.
    """

    def __init__(self, lattice: Lattice, entropy: SecretRandom) -> None:
        self._lattice = lattice
        self._primes = [random_prime(entropy) for _ in range(N_PRIMES)]
        self._generator = np.random.default_rng(entropy.randrange(0, 1 << _SEED_BITS))
        self._functionals: dict[int, list[Residues]] = {}
        self._images: dict[tuple[int, Weights], Residues] = {}

    def of(self, query: LinearQuery) -> frozenset[BlockKey]:
        """The components of the query that are not zero."""
        images: dict[BlockKey, list[int]] = {}
        # Times the common denominator the coefficients are whole, so no prime can divide it.
        scale = query.denominator
        for term in query.terms:
            self._add(term, int(term.coefficient * scale), images)
        return frozenset(j for j, image in images.items() if any(image))

    def _add(self, term: Term, coefficient: int, images: dict[BlockKey, list[int]]) -> None:
        axes = [(a, self._image(a, w).tolist()) for a, w in term.by_axis.items()]
        for picked in product(*(range(len(image)) for _, image in axes)):
            key = tuple((a, i) for (a, _), i in zip(axes, picked, strict=True) if i)
            total = images.setdefault(key, [0] * N_PRIMES)
            for k, p in enumerate(self._primes):
                value = prod(image[i][k] for (_, image), i in zip(axes, picked, strict=True))
                total[k] = (total[k] + coefficient * value) % p

    def _image(self, axis: int, weights: Weights) -> Residues:
        """Per level, the functional of the component modulo each prime, shape (levels, primes)."""
        key = (axis, weights)
        if key not in self._images:
            if len(self._images) >= _CACHED:
                self._images.clear()
            found = [self._modulo(axis, weights, k) for k in range(N_PRIMES)]
            self._images[key] = np.array(found, dtype=np.int64).T
        return self._images[key]

    def _modulo(self, axis: int, weights: Weights, k: int) -> list[int]:
        chain, p = self._lattice.chains[axis], self._primes[k]
        means = [np.mod(chain.on_slots(weights), p)]
        for level in range(chain.n_levels - 1, 0, -1):
            real = chain.is_real[level].reshape(chain.n_parts[level - 1], -1)
            children = (means[-1].reshape(real.shape) * real).sum(axis=1) % p
            means.append(children * _inverses(real.sum(axis=1), p) % p)
        means.reverse()
        found = [int(means[0][0])]
        for level in range(1, chain.n_levels):
            n = chain.n_parts[level] // chain.n_parts[level - 1]
            component = (means[level] - np.repeat(means[level - 1], n)) * chain.is_real[level]
            found.append(int((component % p * self._functional(axis, level, k) % p).sum() % p))
        return found

    def _functional(self, axis: int, level: int, k: int) -> Residues:
        """Random residues modulo prime k, one per part of the level."""
        if axis not in self._functionals:
            primes = np.array(self._primes, dtype=np.int64)[:, None]
            parts = self._lattice.chains[axis].n_parts
            self._functionals[axis] = [
                self._generator.integers(0, primes, size=(N_PRIMES, n)) for n in parts
            ]
        return np.asarray(self._functionals[axis][level][k])


def _inverses(counts: NDArray[np.intp], p: int) -> Residues:
    """Inverses modulo p of whole numbers far below it; 1 for 0."""
    unique, where = np.unique(np.maximum(1, counts), return_inverse=True)
    inverses: Residues = np.array([pow(int(c), -1, p) for c in unique], dtype=np.int64)
    return np.asarray(inverses[where.ravel()], dtype=np.int64)
