"""Linear counting queries as sums of product terms with exact rational weights.

A query is q(x) = sum over cells c of q_c x_c, where the vector q is a sum of terms; a term is a
coefficient times one weight vector per attribute, and an attribute that is not mentioned weighs
all its values 1. So a query over 10^12 cells takes a few hundred bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from hashlib import sha256
from math import lcm
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from qserver.errors import CapacityError, QueryError
from qserver.query.weights import ScaledWeights, Weights, common_denominator, from_runs

MAX_TERMS = 4096
# Weight vectors of all terms together: every step of planning walks through them.
MAX_FACTORS = 1 << 13
MAX_RUNS = 1 << 21
MAX_COEFFICIENT_BITS = 256
SPAN_DIGITS = 30
MAX_DENOMINATOR_BITS = 512


@dataclass(frozen=True)
class Factor:
    """Weights on one attribute, given by its position `axis` in the domain; never constant."""

    axis: int
    weights: Weights


@dataclass(frozen=True)
class Term:
    """`coefficient` times the product of the factors, which are sorted by axis."""

    coefficient: Fraction
    factors: tuple[Factor, ...] = ()

    @cached_property
    def by_axis(self) -> dict[int, Weights]:
        """The weights by attribute."""
        return {f.axis: f.weights for f in self.factors}


@dataclass(frozen=True)
class LinearQuery:
    """A linear counting query on a domain of the given `sizes`; build it with `linear_query`.

    The terms are in canonical form: primitive integer weights, no constant factor, no two terms
    with the same factors, no zero coefficient, sorted. No terms: the query is zero.

    Args:
        as_of: the last period that it may count, for data that arrive over time; else ''. It
            records how the question was read, and is not part of the vector.
    """

    sizes: tuple[int, ...]
    terms: tuple[Term, ...]
    as_of: str = field(default="", compare=False)

    @classmethod
    def later(cls, sizes: Sequence[int], document: Sequence[Sequence[Any]]) -> LinearQuery:
        """The query of `to_document`, parsed at the first use of its terms.

        Only for documents that were read before: faults would be noticed late.
        """
        found = cls.__new__(cls)
        scope = tuple(sorted({int(factor[0]) for _, factors in document for factor in factors}))
        found.__dict__.update(sizes=tuple(sizes), scope=scope, _document=document)
        return found

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            # Called for what is missing: the terms of a query that is read later.
            if name != "terms" or "_document" not in self.__dict__:
                raise AttributeError(name)
            terms = query_from_document(self.sizes, self.__dict__["_document"]).terms
            self.__dict__["terms"] = terms
            del self.__dict__["_document"]
            return terms

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.sizes, self.terms))

    def __deepcopy__(self, memo: dict[int, object]) -> LinearQuery:
        # It never changes, so copies share it.
        return self

    @property
    def n_terms(self) -> int:
        """Number of terms."""
        document = self.__dict__.get("_document")
        return len(self.terms if document is None else document)

    @property
    def is_zero(self) -> bool:
        """Whether no term is left. (A query with terms may still vanish on every cell.)"""
        return not self.n_terms

    @cached_property
    def scope(self) -> tuple[int, ...]:
        """Axes that some term mentions, in order."""
        return tuple(sorted({f.axis for t in self.terms for f in t.factors}))

    @cached_property
    def ends(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """First and last value, per attribute, of a non-zero query's cells; parses nothing."""
        terms: Sequence[Sequence[Any]] | None = self.__dict__.get("_document")
        if terms is None:
            of_axes = ([(f.axis, f.weights) for f in t.factors] for t in self.terms)
            terms = [(1, [(axis, w.stops, w.values) for axis, w in one]) for one in of_axes]
        low, high = list(self.sizes), [0] * len(self.sizes)
        for _, factors in terms:
            of = {axis: _ends_of_runs(stops, values) for axis, stops, values in factors}
            for axis, size in enumerate(self.sizes):
                first, last = of.get(axis, (0, size - 1))
                low[axis], high[axis] = min(low[axis], first), max(high[axis], last)
        return tuple(low), tuple(high)

    @cached_property
    def denominator(self) -> int:
        """A common denominator of all cell values."""
        return common_denominator(t.coefficient for t in self.terms)

    @property
    def n_runs(self) -> int:
        """Number of runs of weights in all: the size of the query in memory."""
        return _n_runs(self.terms)

    def scaled(self, factor: Fraction | int) -> LinearQuery:
        """The query times `factor`."""
        return _collect(self.sizes, [Term(t.coefficient * factor, t.factors) for t in self.terms])

    def __add__(self, other: LinearQuery) -> LinearQuery:
        if self.sizes != other.sizes:
            raise QueryError("query", "be on the same domain as the query it is added to")
        return _collect(self.sizes, [*self.terms, *other.terms])

    def __sub__(self, other: LinearQuery) -> LinearQuery:
        return self + other.scaled(-1)

    def value_at(self, cell: Sequence[int]) -> Fraction:
        """The weight q_c of one cell, given as an index per attribute."""
        total = Fraction(0)
        for term in self.terms:
            product = term.coefficient
            for factor in term.factors:
                product *= factor.weights.at(cell[factor.axis])
            total += product
        return total

    def to_document(self) -> list[list[object]]:
        """The query as plain lists: [coefficient, [[axis, stops, values], ...]] per term."""
        return [
            [
                str(t.coefficient),
                [[f.axis, list(f.weights.stops), list(f.weights.values)] for f in t.factors],
            ]
            for t in self.terms
        ]


def linear_query(
    sizes: Sequence[int],
    terms: Iterable[tuple[Fraction | int, Mapping[int, ScaledWeights | Weights]]],
) -> LinearQuery:
    """The query with these terms, brought into canonical form.

    Args:
        sizes: number of values per attribute.
        terms: pairs of a coefficient and the weights per axis.

    Raises:
        QueryError: an axis or a length does not fit the domain.
        CapacityError: more terms, weight vectors or runs than the server takes.
    """
    return _collect(tuple(sizes), [_term(tuple(sizes), c, axes) for c, axes in terms])


def query_from_document(sizes: Sequence[int], document: Sequence[Sequence[object]]) -> LinearQuery:
    """Restore a query from `LinearQuery.to_document`: the same object while one is in use.

    A history has each row as a charge, as a measurement and as a paid question.
    """
    key = sha256(repr((*sizes, document)).encode()).digest()
    found = _read.get(key)
    if found is None:
        found = _read.setdefault(key, linear_query(sizes, map(_term_of, document)))
    return found


_read: WeakValueDictionary[bytes, LinearQuery] = WeakValueDictionary()


def _term_of(document: Sequence[Any]) -> tuple[Fraction, dict[int, ScaledWeights]]:
    coefficient, factors = document
    by_axis = {int(a): _weights(tuple(stops), tuple(values)) for a, stops, values in factors}
    return Fraction(str(coefficient)), by_axis


_weights = lru_cache(maxsize=1 << 12)(from_runs)
"""Rows of a history share most of their conditions."""


def checked_span(query: LinearQuery) -> LinearQuery:
    """The query; QueryError if weights of its terms are too large or too far apart.

    All terms count together, each with its non-zero weights on cells. Questions are checked; rows
    formed of them, or read back, are not: history may mix any scales, and the law of an error takes
    scales any number of decades apart.
    """
    ends = []
    for term in query.terms:
        low = high = abs(term.coefficient)
        for factor in term.factors:
            sizes = [abs(value) for value in factor.weights.values if value]
            low, high = low * min(sizes), high * max(sizes)
        ends += [low, high]
    least, most, limit = min(ends, default=0), max(ends, default=0), 10**SPAN_DIGITS
    if most > limit:
        raise QueryError("weights", f"be at most 10^{SPAN_DIGITS} in size")
    if most > least * limit:
        raise QueryError("weights", f"be within a factor of 10^{SPAN_DIGITS} of one another")
    return query


def total_query(sizes: Sequence[int]) -> LinearQuery:
    """The count of all records."""
    return LinearQuery(tuple(sizes), (Term(Fraction(1)),))


def _term(
    sizes: tuple[int, ...],
    coefficient: Fraction | int,
    axes: Mapping[int, ScaledWeights | Weights],
) -> Term:
    product = Fraction(coefficient)
    factors = []
    for axis, given in sorted(axes.items()):
        scaled = given if isinstance(given, ScaledWeights) else ScaledWeights(Fraction(1), given)
        if not 0 <= axis < len(sizes) or scaled.weights.size != sizes[axis]:
            raise QueryError("weights", "have one number per value of their attribute")
        product *= scaled.factor * (0 if scaled.weights.is_zero else 1)
        if not scaled.weights.is_constant:
            factors.append(Factor(axis, scaled.weights))
    return Term(product, tuple(factors))


def _collect(sizes: tuple[int, ...], terms: Sequence[Term]) -> LinearQuery:
    sums: dict[tuple[Factor, ...], Fraction] = {}
    for term in terms:
        sums[term.factors] = sums.get(term.factors, Fraction(0)) + term.coefficient
    kept = [Term(c, factors) for factors, c in sums.items() if c]
    _check_size(kept)
    kept.sort(key=lambda t: [(f.axis, f.weights.stops, f.weights.values) for f in t.factors])
    return LinearQuery(sizes, tuple(kept))


def _ends_of_runs(stops: Sequence[int], values: Sequence[int]) -> tuple[int, int]:
    """The first and the last value with a weight."""
    runs = [i for i, weight in enumerate(values) if weight]
    return stops[runs[0] - 1] if runs[0] else 0, stops[runs[-1]] - 1


def _n_runs(terms: Sequence[Term]) -> int:
    return sum(len(f.weights.stops) for t in terms for f in t.factors)


def check_n_factors(n_factors: int) -> None:
    """Raise CapacityError if a query has too many conditions in all its terms."""
    if n_factors > MAX_FACTORS:
        raise CapacityError(
            f"The terms of a query hold at most {MAX_FACTORS:,} conditions in all. Ask its parts."
        )


def _check_size(terms: Sequence[Term]) -> None:
    if len(terms) > MAX_TERMS:
        raise CapacityError(f"A query has at most {MAX_TERMS:,} terms, this one {len(terms):,}.")
    check_n_factors(sum(len(term.factors) for term in terms))
    if _n_runs(terms) > MAX_RUNS:
        raise CapacityError(f"A query has at most {MAX_RUNS:,} runs of weights in all.")
    for term in terms:
        c = term.coefficient
        if max(abs(c.numerator), c.denominator).bit_length() > MAX_COEFFICIENT_BITS:
            raise QueryError("coefficient", "have a numerator and denominator below 2^256")
    # Cell values are written as integers over it, and the noise's lattice is at least as fine.
    common = 1
    for term in terms:
        common = lcm(common, term.coefficient.denominator)
        if common.bit_length() > MAX_DENOMINATOR_BITS:
            raise QueryError("coefficient", "have a common denominator with the others below 2^512")
