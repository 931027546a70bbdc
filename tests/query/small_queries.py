"""Queries on domains of a few cells, as dense vectors: the other route for tests of the core."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from hypothesis import strategies as st

from qserver.query.linear_query import LinearQuery, linear_query
from tests.query.dense_weights import scaled_weights

Cell = tuple[int, ...]
DenseTerm = tuple[Fraction, Mapping[int, Sequence[Fraction]]]

small_fractions = st.builds(Fraction, st.integers(-3, 3), st.integers(1, 3))


def cells(sizes: Sequence[int]) -> Iterator[Cell]:
    """Every cell, in lexicographic order."""
    return product(*(range(size) for size in sizes))


@dataclass(frozen=True)
class DenseQuery:
    """A sum of product terms whose weights are written out per axis."""

    sizes: tuple[int, ...]
    terms: tuple[DenseTerm, ...]

    def query(self) -> LinearQuery:
        """The same through the code under test."""
        return linear_query(
            self.sizes,
            [(c, {a: scaled_weights(w) for a, w in axes.items()}) for c, axes in self.terms],
        )

    def vector(self) -> dict[Cell, Fraction]:
        """The weight of every cell, by definition."""
        out = {}
        for cell in cells(self.sizes):
            out[cell] = Fraction(0)
            for coefficient, axes in self.terms:
                weight = coefficient
                for axis, weights in axes.items():
                    weight *= weights[cell[axis]]
                out[cell] += weight
        return out


@st.composite
def dense_queries(
    draw: st.DrawFn, sizes: tuple[int, ...] | None = None, max_terms: int = 4
) -> DenseQuery:
    """Queries on the given sizes, or on one to three attributes of one to four values."""
    if sizes is None:
        sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    terms = []
    for _ in range(draw(st.integers(0, max_terms))):
        axes = draw(st.sets(st.integers(0, len(sizes) - 1)))
        weights = {
            a: tuple(draw(st.lists(small_fractions, min_size=sizes[a], max_size=sizes[a])))
            for a in sorted(axes)
        }
        terms.append((draw(small_fractions), weights))
    return DenseQuery(sizes, tuple(terms))


@st.composite
def rewritings(draw: st.DrawFn, dense: DenseQuery) -> DenseQuery:
    """The same function of the cell in other words.

    One axis is split value by value, the terms are shuffled, and a pair that cancels is put in.
    """
    axis = draw(st.integers(0, len(dense.sizes) - 1))
    size = dense.sizes[axis]
    terms: list[DenseTerm] = []
    for coefficient, axes in dense.terms:
        own = axes.get(axis, (Fraction(1),) * size)
        for value in range(size):
            alone = tuple(Fraction(i == value) for i in range(size))
            terms.append((coefficient * own[value], {**axes, axis: alone}))
    extra = {axis: tuple(draw(st.lists(small_fractions, min_size=size, max_size=size)))}
    terms += [(Fraction(2), extra), (Fraction(-2), extra)]
    return DenseQuery(dense.sizes, tuple(draw(st.permutations(terms))))
