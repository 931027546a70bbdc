"""Rows in factored form, and inner products of a query with all of them at once.

<f, g> = sum over pairs of terms of the coefficients' product times the product over attributes
of inner products of weight vectors. Nothing here depends on the number of cells.

Each row is stored as `2^log_scale` times a vector of about unit norm, because norms over many
attributes leave the range of floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qserver.inference.arrays import GrowingArray
from qserver.inference.rows.axis_vectors import ALL_ONES, AxisVectors, FloatArray
from qserver.query.linear import LinearQuery, Term
from qserver.query.weights import Weights


@dataclass(frozen=True)
class ScaledQuery:
    """A query as `2^log_scale` times a vector whose terms have the given coefficients.

    Args:
        query: the query; not zero as a list of terms.
        coefficients: per term, of its vector scaled to unit norm; the largest is about 1.
        log_scale: log2 of the factor that was divided out.
        square: squared norm of the scaled query.
    """

    query: LinearQuery
    coefficients: FloatArray
    log_scale: float
    square: float


@dataclass(frozen=True)
class _TermGram:
    """Cosines of the distinct vectors of some terms on one axis, and the vector of each term."""

    pairs: FloatArray
    ids: npt.NDArray[np.intp]


@dataclass(frozen=True)
class Products:
    """Inner products of a scaled query with the stored rows.

    Args:
        query: the scaled query.
        rows: its inner products with the scaled rows, shape (n_rows,).
    """

    query: ScaledQuery
    rows: FloatArray


class FactoredRows:
    """A growing list of rows on one domain."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = tuple(sizes)
        self.axes: dict[int, AxisVectors] = {}
        self._ids: dict[int, GrowingArray[np.int32]] = {}
        self._queries: list[LinearQuery] = []
        self._scaled: list[ScaledQuery] = []
        self._coefficients = GrowingArray(np.float64)
        self._starts = GrowingArray(np.intp)

    def __len__(self) -> int:
        return len(self._queries)

    @property
    def n_terms(self) -> int:
        """Number of terms of all rows."""
        return len(self._coefficients)

    @property
    def term_starts(self) -> npt.NDArray[np.intp]:
        """Index of each row's first term, shape (n_rows,)."""
        return self._starts.view

    @property
    def queries(self) -> Sequence[LinearQuery]:
        """The rows as they were added."""
        return self._queries

    @property
    def log_scales(self) -> FloatArray:
        """log2 scale of each row, shape (n_rows,)."""
        return np.array([s.log_scale for s in self._scaled])

    def log_scale(self, row: int) -> float:
        """log2 scale of one row."""
        return self._scaled[row].log_scale

    def vector_ids(self, axis: int) -> npt.NDArray[np.int32]:
        """Index of each term's vector on `axis`, shape (n_terms,)."""
        return self._ids[axis].view

    def add(self, query: LinearQuery) -> None:
        """Append a row; its vectors are interned."""
        for axis in query.scope:
            self._open(axis)
        for axis, ids in self._ids.items():
            ids.extend([self._intern(axis, t) for t in query.terms])
        scaled = self.scaled(query)
        self._starts.extend([self.n_terms])
        self._coefficients.extend(scaled.coefficients)
        self._queries.append(query)
        self._scaled.append(scaled)

    def reserve(self, query: LinearQuery) -> None:
        """Intern the query's vectors, so that `rebalance` gives its classes their weight."""
        for axis in query.scope:
            self._open(axis)
            for term in query.terms:
                self._intern(axis, term)

    def scaled(self, query: LinearQuery) -> ScaledQuery:
        """`query` (with at least one term) brought to about unit norm."""
        logs = self._term_logs(query)
        signs = np.array([1.0 if t.coefficient > 0 else -1.0 for t in query.terms])
        largest_first = ScaledQuery(query, signs * np.exp2(logs - logs.max()), 0.0, 1.0)
        square = float(self.gram([largest_first])[0, 0])
        # If the terms cancel, the largest term keeps its norm of 1, and `square` shows it.
        norm = 0.5 * np.log2(max(square, 2.0**-40))
        log_scale = float(logs.max() + norm)
        coefficients = signs * np.exp2(logs - log_scale)
        return ScaledQuery(query, coefficients, log_scale, square * 2.0 ** (-2.0 * norm))

    def products(self, query: LinearQuery) -> Products:
        """Inner products of `query` with every row, O(terms of the query * terms of the rows)."""
        scaled = self.scaled(query)
        if not len(self):
            return Products(scaled, np.zeros(0))
        total = np.zeros(self.n_terms)
        cache: dict[tuple[int, Weights | None], FloatArray | float] = {}
        for term, coefficient in zip(query.terms, scaled.coefficients, strict=True):
            total += coefficient * self._term_products(query.scope, term, cache)
        return Products(scaled, np.add.reduceat(total * self._coefficients.view, self.term_starts))

    def rebalance(self) -> None:
        """Give all classes of an attribute the same weight, and rescale the rows."""
        for vectors in self.axes.values():
            vectors.rebalance()
        self._scaled = [self.scaled(q) for q in self._queries]
        self._coefficients = GrowingArray(np.float64)
        if self._scaled:
            self._coefficients.extend(np.concatenate([s.coefficients for s in self._scaled]))

    def _open(self, axis: int) -> None:
        if axis not in self.axes:
            self.axes[axis] = AxisVectors(self._sizes[axis])
            self._ids[axis] = GrowingArray(np.int32)
            self._ids[axis].extend(np.full(self.n_terms, ALL_ONES))

    def _intern(self, axis: int, term: Term) -> int:
        weights = term.by_axis.get(axis)
        return ALL_ONES if weights is None else self.axes[axis].intern(weights)

    def _vectors(self, axis: int) -> AxisVectors:
        return self.axes.get(axis) or AxisVectors(self._sizes[axis])

    def _term_products(
        self,
        scope: Sequence[int],
        term: Term,
        cache: dict[tuple[int, Weights | None], FloatArray | float],
    ) -> FloatArray:
        product = np.ones(self.n_terms)
        for axis in {*scope, *self.axes}:
            weights = term.by_axis.get(axis)
            key = (axis, weights)
            if key not in cache:
                cache[key] = self._axis_products(axis, weights)
            product *= cache[key]
        return product

    def _axis_products(self, axis: int, weights: Weights | None) -> FloatArray | float:
        vectors = self._vectors(axis)
        cosines = vectors.cosines(weights or Weights((self._sizes[axis],), (1,)))
        return cosines[self.vector_ids(axis)] if axis in self.axes else float(cosines[ALL_ONES])

    def _term_logs(self, query: LinearQuery) -> FloatArray:
        """log2 of each term's norm."""
        norms = {
            (f.axis, f.weights): self._vectors(f.axis).log_norm(f.weights)
            for t in query.terms
            for f in t.factors
        }
        logs = [
            _log2(abs(t.coefficient.numerator))
            - _log2(t.coefficient.denominator)
            + sum(norms[f.axis, f.weights] for f in t.factors)
            for t in query.terms
        ]
        return np.array(logs)

    def gram(self, queries: Sequence[ScaledQuery]) -> FloatArray:
        """Inner products of all pairs of scaled queries, shape (m, m); nothing is stored."""
        terms = [t for q in queries for t in q.query.terms]
        coefficients = np.concatenate([q.coefficients for q in queries])
        counts = [len(q.query.terms) for q in queries]
        starts = np.cumsum([0, *counts[:-1]])
        grams = [
            self._term_gram(axis, terms) for axis in {a for q in queries for a in q.query.scope}
        ]
        rows = max(1, (1 << 20) // len(terms))
        out = np.empty((len(terms), len(queries)))
        for start in range(0, len(terms), rows):
            part = slice(start, start + rows)
            pairs = np.outer(coefficients[part], coefficients)
            for gram in grams:
                pairs *= gram.pairs[np.ix_(gram.ids[part], gram.ids)]
            out[part] = np.add.reduceat(pairs, starts, axis=1)
        return np.asarray(np.add.reduceat(out, starts, axis=0))

    def _term_gram(self, axis: int, terms: Sequence[Term]) -> _TermGram:
        ones = Weights((self._sizes[axis],), (1,))
        index: dict[Weights, int] = {}
        ids = [index.setdefault(t.by_axis.get(axis, ones), len(index)) for t in terms]
        gram = self._vectors(axis).measure.gram(list(index))
        norms = np.sqrt(np.diag(gram))
        return _TermGram((gram / norms) / norms[:, None], np.array(ids))


def _log2(value: int) -> float:
    """log2 of a positive integer of any size."""
    shift = max(0, value.bit_length() - 53)
    return shift + float(np.log2(value >> shift))
