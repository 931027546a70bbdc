"""The exact test of which components of a query are not zero.

Floats cannot tell a component of 2^-40 of the largest from rounding. But a query with a tiny part
that no block reaches must not be answered from blocks. So the test is in whole numbers. The mean of
a part is a sum over a small number; times the least common multiple of these numbers it is whole.

A component of one term is a product over attributes, zero exactly where a factor is. Several terms
may cancel. The energy of their sum, c' (G1 * G2 * ...) c, tells: c are the coefficients, G the
inner products of the terms' factors on one attribute. It is a sum of squares, zero only for zero.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import lcm, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qserver.inference.tables.blocks.chain import Chain
from qserver.inference.tables.blocks.pattern import BlockKey, Lattice
from qserver.query.linear import LinearQuery, Term
from qserver.query.weights import Weights

_CACHED = 1 << 13
_FITS = 1 << 61

Whole = NDArray[Any]
"""Whole numbers: 64 bits where they surely fit, else Python's."""


class ExactSupport:
    """The exact test for queries on one lattice.

    Args:
        lattice: resolves the queries.
    """

    def __init__(self, lattice: Lattice) -> None:
        self._lattice = lattice
        self._factors: dict[tuple[int, Weights], tuple[Whole, ...]] = {}
        self._levels: dict[tuple[int, Weights], list[tuple[int, int]]] = {}

    def of(self, query: LinearQuery) -> frozenset[BlockKey]:
        """The components of the query that are not zero."""
        found = Counter(key for term in query.terms for key in self._keys(term))
        several = [key for key, n_terms in found.items() if n_terms > 1]
        if several:
            energies = _Energies(self, query)
            cancelled = {key for key in several if energies.of(key) == 0}
            return frozenset(found.keys() - cancelled)
        return frozenset(found)

    def factors(self, axis: int, weights: Weights | None) -> tuple[Whole, ...]:
        """Per level the component, times a number that depends on axis and level alone.

        Args:
            weights: None for the constant 1.
        """
        chain = self._lattice.chains[axis]
        if weights is None:
            nothing = [np.zeros(n, dtype=np.int64) for n in chain.n_parts[1:]]
            return (np.array([_scale(chain)], dtype=object), *nothing)
        key = (axis, weights)
        if key not in self._factors:
            if len(self._factors) >= _CACHED:
                self._factors.clear()
            self._factors[key] = _components(chain, weights)
        return self._factors[key]

    def _keys(self, term: Term) -> list[BlockKey]:
        """The components of one term that are not zero."""
        levels = [self._levels_of(*one) for one in term.by_axis.items()]
        return [tuple(p for p in picked if p[1]) for picked in product(*levels)]

    def _levels_of(self, axis: int, weights: Weights) -> list[tuple[int, int]]:
        """The levels of an axis on which weights are not zero."""
        key = (axis, weights)
        if key not in self._levels:
            if len(self._levels) >= _CACHED:
                self._levels.clear()
            factors = enumerate(self.factors(axis, weights))
            self._levels[key] = [(axis, i) for i, factor in factors if factor.any()]
        return self._levels[key]


class _Energies:
    """The energies of a query's components, each times a positive whole number."""

    def __init__(self, support: ExactSupport, query: LinearQuery) -> None:
        self._support, self._query = support, query
        self._coefficients = [int(t.coefficient * query.denominator) for t in query.terms]
        self._products: dict[tuple[int, int], Whole] = {}

    def of(self, component: BlockKey) -> int:
        """The energy of a component; 0 only if the component is zero."""
        levels = dict(component)
        n = len(self._coefficients)
        total = np.outer(*[np.array(self._coefficients, dtype=object)] * 2).reshape(n, n)
        for axis in self._query.scope:
            total = total * self._inner(axis, levels.get(axis, 0))
        return int(total.sum())

    def _inner(self, axis: int, level: int) -> Whole:
        """The inner products of all pairs of terms on one level of one axis."""
        key = (axis, level)
        if key not in self._products:
            terms = self._query.terms
            factors = [self._support.factors(axis, t.by_axis.get(axis))[level] for t in terms]
            self._products[key] = _inner_products(np.array(factors))
        return self._products[key]


def _inner_products(rows: Whole) -> Whole:
    largest = int(abs(rows).max())
    exact = rows.astype(np.int64 if largest**2 * rows.shape[1] < _FITS else object)
    return np.asarray((exact @ exact.T).astype(object))


def _components(chain: Chain, weights: Weights) -> tuple[Whole, ...]:
    values = chain.on_slots(weights)
    fits = 2 * _scale(chain) * max(1, int(abs(values).max())) < _FITS
    means, found = values if fits else values.astype(object), list[Whole]()
    for level in range(chain.n_levels - 1, 0, -1):
        real, counts = chain.is_real[level], _counts(chain, level)
        counts = counts if fits else counts.astype(object)
        shape, common = (len(counts), -1), lcm(*set(counts.tolist()))
        # The values on phantoms are 0.
        above = means.reshape(shape).sum(axis=1) * (common // counts)
        component = means.reshape(shape) * common - above[:, None]
        found.append(np.where(real, component.ravel(), 0))
        means = np.where(chain.is_real[level - 1], above, 0)
    return (means, *reversed(found))


def _counts(chain: Chain, level: int) -> Whole:
    """The real parts of a level in each part of the level above; 1 where there are none."""
    real = chain.is_real[level].reshape(chain.n_parts[level - 1], -1)
    return np.asarray(np.maximum(1, real.sum(axis=1, dtype=np.int64)))


def _scale(chain: Chain) -> int:
    """What a component of the coarsest level is multiplied by."""
    return prod(lcm(*set(_counts(chain, i).tolist())) for i in range(1, chain.n_levels))
