"""Queries and histories made from seeds, so that every method is asked the very same."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import prod

import numpy as np
import numpy.typing as npt

from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import indicator, interval
from qserver.records.history import Measurement

STEP = Fraction(1, 1 << 20)


@dataclass(frozen=True)
class QuerySource:
    """Random queries on one domain.

    Args:
        sizes: number of values per attribute.
        generator: source of the randomness; two sources of one seed give the same queries.
    """

    sizes: tuple[int, ...]
    generator: random.Random

    @classmethod
    def seeded(cls, sizes: Sequence[int], seed: int) -> QuerySource:
        """The source of this seed."""
        return cls(tuple(sizes), random.Random(seed))

    def box(self, breakpoints: Sequence[Sequence[int]] | None = None) -> LinearQuery:
        """A range per attribute, its two ends drawn uniformly from all, or from `breakpoints`."""
        axes = {}
        for axis, size in enumerate(self.sizes):
            ends = range(size + 1) if breakpoints is None else breakpoints[axis]
            low, high = sorted(self.generator.sample(ends, 2))
            axes[axis] = interval(size, low, high)
        return linear_query(self.sizes, [(1, axes)])

    def prefix(self) -> LinearQuery:
        """The records below a bound, on the only attribute."""
        (size,) = self.sizes
        stop = self.generator.randint(1, size)
        return linear_query(self.sizes, [(1, {0: interval(size, 0, stop)})])

    def predicate(self, n_attributes: int) -> LinearQuery:
        """Records whose value on each of some attributes lies in a random half of its values."""
        axes = {}
        for axis in self.generator.sample(range(len(self.sizes)), n_attributes):
            size = self.sizes[axis]
            axes[axis] = indicator(size, self.generator.sample(range(size), size // 2))
        return linear_query(self.sizes, [(1, axes)])

    def breakpoints(self, n: int) -> list[int]:
        """`n` different places to cut the only attribute, its two ends among them."""
        (size,) = self.sizes
        inner = self.generator.sample(range(1, size), n - 2)
        return sorted([0, *inner, size])

    def combination(self, rows: Sequence[LinearQuery], n_terms: int) -> LinearQuery:
        """A sum of some of `rows` with random whole coefficients: a new query that they answer."""
        total = None
        for row in self.generator.sample(rows, n_terms):
            part = row.scaled(self.generator.choice((-3, -2, -1, 1, 2, 3)))
            total = part if total is None else total + part
        if total is None:
            raise ValueError("`n_terms` must be > 0.")
        return total


def different(source: Sequence[LinearQuery], n: int) -> list[LinearQuery]:
    """The first `n` of the queries, each vector once.

    Raises:
        ValueError: there are fewer.
    """
    found = {primitive(q).key: q for q in reversed(source)}
    kept = list(reversed(found.values()))[:n]
    if len(kept) < n:
        raise ValueError(f"`source` must hold {n} different queries, got {len(kept)}.")
    return kept


N_RECORDS = 20_000
"""Records of the population whose rows are measured."""


def measurements_of(queries: Sequence[LinearQuery], *, seed: int) -> list[Measurement]:
    """A history that measured these queries on one population, with scales from 5 to 20 records.

    The records are uniform, and the noise is Laplace: what answers disagree about, and so the law
    of what is known, is as in use.
    """
    generator = np.random.default_rng(seed)
    records = [generator.integers(0, size, N_RECORDS) for size in queries[0].sizes]
    found = []
    for i, query in enumerate(queries):
        row = primitive(query)
        alpha_nano = int(generator.integers(50_000_000, 200_000_000))
        answer = _count(row.row, records) + generator.laplace(scale=1e9 / alpha_nano)
        found.append(Measurement(i, row.row, row.key, alpha_nano, STEP, round(answer / STEP)))
    return found


def _count(query: LinearQuery, records: Sequence[npt.NDArray[np.int64]]) -> float:
    """The query's value on records, given by their cell of each attribute."""
    total = 0.0
    for term in query.terms:
        values = np.full(len(records[0]), float(term.coefficient))
        for factor in term.factors:
            runs = np.searchsorted(factor.weights.stops, records[factor.axis], side="right")
            values *= np.array(factor.weights.values, float)[runs]
        total += float(values.sum())
    return total


@dataclass(frozen=True)
class Segments:
    """The cells of a small domain, or the segments between the cuts of one attribute.

    Args:
        sizes: the domain.
        cells: index per attribute of one cell of each class, shape (classes, attributes).
    """

    sizes: tuple[int, ...]
    cells: npt.NDArray[np.intp]

    @classmethod
    def of(cls, queries: Sequence[LinearQuery]) -> Segments:
        """Classes that tell apart whatever the queries do."""
        sizes = queries[0].sizes
        if len(sizes) > 1:
            grid = np.indices(sizes).reshape(len(sizes), prod(sizes)).T
            return cls(sizes, np.ascontiguousarray(grid))
        stops = {s for q in queries for t in q.terms for f in t.factors for s in f.weights.stops}
        first = [low for low, _ in pairwise(sorted({0, sizes[0], *stops}))]
        return cls(sizes, np.array(first, dtype=np.intp)[:, None])

    def dense(self, query: LinearQuery) -> npt.NDArray[np.float64]:
        """The query's value on each class, shape (classes,); written down without any sharing."""
        total = np.zeros(len(self.cells))
        for term in query.terms:
            values = np.full(len(self.cells), float(term.coefficient))
            for factor in term.factors:
                values *= factor.weights.dense[self.cells[:, factor.axis]]
            total += values
        return total
