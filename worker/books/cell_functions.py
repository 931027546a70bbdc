"""Rows and tables as functions of the cell, from the plain lists of the journal."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from worker.books.journal_lines import UnknownFactsError

Cell = Sequence[int]
"""An index per attribute."""

_MOST_SQUARED = 64
"""Terms of a row that is squared: at most 4,096 products."""


class Runs(NamedTuple):
    """A number for every value of one attribute: `numbers[i]` up to, without, value `stops[i]`."""

    stops: tuple[int, ...]
    numbers: tuple[int, ...]

    def at(self, value: int) -> int:
        """The number at one value."""
        return self.numbers[bisect_right(self.stops, value)]

    def spans(self, number: int) -> list[tuple[int, int]]:
        """The spans of values that have this number."""
        starts = (0, *self.stops)
        return [
            (start, stop)
            for start, stop, found in zip(starts, self.stops, self.numbers, strict=False)
            if found == number
        ]

    def dense(self) -> NDArray[np.int64]:
        """The number of every value."""
        return np.repeat(np.array(self.numbers, np.int64), np.diff((0, *self.stops)))


class Term(NamedTuple):
    """A coefficient times a factor for each of some attributes."""

    coefficient: Fraction
    factors: tuple[tuple[int, Runs], ...]

    def at(self, cell: Cell) -> Fraction:
        """The term's value."""
        return self.coefficient * prod(runs.at(cell[axis]) for axis, runs in self.factors)


@dataclass(frozen=True, eq=False)
class Row:
    """A row h: a sum of terms."""

    terms: tuple[Term, ...]

    @classmethod
    def of(cls, plain: Any) -> Row:
        """The row of `[[coefficient, [[attribute, stops, numbers], ...]], ...]`."""
        terms = [
            Term(Fraction(c), tuple((a, Runs(tuple(s), tuple(v))) for a, s, v in factors))
            for c, factors in plain
        ]
        found = cls(tuple(sorted(terms, key=repr) if len(terms) > 1 else terms))
        return _KNOWN.setdefault(found.terms, found)

    def __eq__(self, other: object) -> bool:
        # Most rows differ, and their terms compare slowly.
        if self is other or not isinstance(other, Row):
            return self is other
        return self._hash == other._hash and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self.terms)

    def at(self, cell: Cell) -> Fraction:
        """h of a cell."""
        return sum((term.at(cell) for term in self.terms), Fraction(0))

    @cached_property
    def squared(self) -> Row:
        """The row whose values are the squares of this one's.

        Raises:
            UnknownFactsError: it has too many terms.
        """
        if len(self.terms) > _MOST_SQUARED:
            raise UnknownFactsError("a row has too many terms to be squared")
        products: dict[tuple[tuple[int, Runs], ...], Fraction] = {}
        for one in self.terms:
            for other in self.terms:
                factors = _times(dict(one.factors), dict(other.factors))
                products[factors] = products.get(factors, Fraction(0)) + (
                    one.coefficient * other.coefficient
                )
        terms = [Term(c, factors) for factors, c in products.items() if c]
        return Row(tuple(sorted(terms, key=repr)))

    @cached_property
    def size(self) -> Fraction:
        """At least the sum of the terms' sizes in any cell."""
        return sum(
            (
                abs(t.coefficient) * prod(max(map(abs, r.numbers)) for _, r in t.factors)
                for t in self.terms
            ),
            Fraction(0),
        )

    @cached_property
    def swing(self) -> Fraction:
        """At least the difference of any two values."""
        signs = {t.coefficient > 0 for t in self.terms}
        numbers = [n for t in self.terms for _, runs in t.factors for n in runs.numbers]
        return self.size * (1 if len(signs) < 2 and min(numbers, default=0) >= 0 else 2)

    @cached_property
    def is_whole(self) -> bool:
        """Whether all arithmetic is on whole numbers below 2^50, where floats are exact."""
        return self.size < 1 << 50 and all(t.coefficient.denominator == 1 for t in self.terms)


def _times(one: dict[int, Runs], other: dict[int, Runs]) -> tuple[tuple[int, Runs], ...]:
    """The product of two terms' factors, by attribute in rising order."""
    found = []
    for axis in sorted(one.keys() | other.keys()):
        parts = [factors[axis] for factors in (one, other) if axis in factors]
        stops = sorted({stop for runs in parts for stop in runs.stops})
        numbers = [prod(runs.at(stop - 1) for runs in parts) for stop in stops]
        kept = [i for i in range(len(stops)) if i + 1 == len(stops) or numbers[i] != numbers[i + 1]]
        found.append((axis, Runs(tuple(stops[i] for i in kept), tuple(numbers[i] for i in kept))))
    return tuple(found)


_KNOWN = WeakValueDictionary[tuple[Term, ...], Row]()
"""Equal rows of plans are one object: they are looked up often, and equal ones compare slowly."""


@dataclass(frozen=True)
class Table:
    """Every cell of a partition: the distinguished attributes, and the part of each value.

    Values of part -1 are in no cell.
    """

    axes: tuple[tuple[int, Runs], ...]

    @classmethod
    def of(cls, plain: Any) -> Table:
        """The table of `[[attribute, stops, parts], ...]`."""
        return cls(tuple((a, Runs(tuple(stops), tuple(ids))) for a, stops, ids in plain))

    @cached_property
    def n_parts(self) -> tuple[int, ...]:
        """Number of parts of each attribute."""
        return tuple(1 + max(runs.numbers) for _, runs in self.axes)

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return prod(self.n_parts)

    @cached_property
    def held(self) -> Row | None:
        """The row that counts the records in some cell; None if all are."""
        some = [(axis, runs) for axis, runs in self.axes if -1 in runs.numbers]
        if not some:
            return None
        factors = tuple(
            (axis, Runs(runs.stops, tuple(int(n >= 0) for n in runs.numbers)))
            for axis, runs in some
        )
        return Row((Term(Fraction(1), factors),))

    def n_held(self, cells: Sequence[Cell]) -> int:
        """The number of some cells of the domain that lie in cells of the table."""
        return len(cells) if self.held is None else sum(int(self.held.at(cell)) for cell in cells)

    def tells_apart(self, one: Cell, other: Cell) -> bool:
        """Whether two cells of the domain lie in different cells of the table."""
        return any(runs.at(one[axis]) != runs.at(other[axis]) for axis, runs in self.axes)

    def place_of(self, row: Row) -> int | None:
        """The cell of the table that `row` counts, or None."""
        if row not in self._places:
            self._places[row] = self._place_of(row)
        return self._places[row]

    @cached_property
    def _places(self) -> dict[Row, int | None]:
        return {}

    def _place_of(self, row: Row) -> int | None:
        if len(row.terms) != 1 or row.terms[0].coefficient != 1:
            return None
        factors = dict(row.terms[0].factors)
        if set(factors) != {axis for axis, _ in self.axes}:
            return None
        place = 0
        for (axis, parts), n in zip(self.axes, self.n_parts, strict=True):
            weights = factors[axis]
            inside = weights.spans(1)
            if set(weights.numbers) != {0, 1} or inside != parts.spans(parts.at(inside[0][0])):
                return None
            if parts.at(inside[0][0]) < 0:
                return None
            place = place * n + parts.at(inside[0][0])
        return place


Floats = NDArray[np.float64]
_ERROR = 2.0**-36
"""More than floats can err by in the sum of a row's terms, as a part of its size: MAX_TERMS is
4,096, and every product has fewer than 2^12 factors."""


class Grid:
    """Every weighed row, as numbers on classes; rows are added, never removed.

    Attributes:
        rows: in order.
        row_of_term: the row of each term.
        errors: per row the most that floats may err by.
        n_values: per attribute the number of classes.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
        self.rows: dict[Row, int] = {}
        self.row_of_term: list[int] = []
        self.coefficients: list[float] = []
        self.errors: list[float] = []
        self._labels = [(np.array([n]), np.zeros(1, np.int64)) for n in sizes]
        self._known: list[set[Runs]] = [set() for _ in sizes]
        self._on_classes: list[dict[Runs, Floats]] = [{} for _ in sizes]
        self.values: list[NDArray[Any]] = [np.zeros(1, np.intp) for _ in sizes]
        self._factors: list[list[tuple[int, Runs]]] = [[] for _ in sizes]

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of classes per attribute."""
        return tuple(map(len, self.values))

    @property
    def n_classes(self) -> int:
        """Number of classes of cells."""
        return prod(self.shape)

    def counts(self, axis: int) -> list[int]:
        """The number of values of an attribute in each class."""
        stops, labels = self._labels[axis]
        lengths = np.diff(stops, prepend=0)
        return [int(lengths[labels == i].sum()) for i in range(len(self.values[axis]))]

    def add(self, row: Row) -> int:
        """The row's place; its factors split classes where they must."""
        if row in self.rows:
            return self.rows[row]
        place = self.rows[row] = len(self.rows)
        for term in row.terms:
            for axis, runs in term.factors:
                self.split(axis, runs)
                self._factors[axis].append((len(self.row_of_term), runs))
            self.row_of_term.append(place)
            self.coefficients.append(float(term.coefficient))
        self.errors.append(0.0 if row.is_whole else _ERROR * float(row.size))
        return place

    def split(self, axis: int, runs: Runs) -> None:
        """Separate the values of an attribute with different numbers."""
        if runs in self._known[axis]:
            return
        self._known[axis].add(runs)
        old_stops, old_labels = self._labels[axis]
        stops = np.union1d(old_stops, runs.stops)
        starts = np.concatenate(([0], stops[:-1]))
        new = np.unique(_at(starts, runs.stops, runs.numbers), return_inverse=True)[1].ravel()
        both = _at(starts, old_stops, old_labels) * (1 + int(new.max())) + new
        _, first, labels = np.unique(both, return_index=True, return_inverse=True)
        self._labels[axis] = stops, labels.ravel()
        if len(first) != len(self.values[axis]):
            self.values[axis] = starts[first]
            self._on_classes[axis].clear()

    def factors(self, axis: int) -> Floats:
        """Each term's factor on the classes of one attribute: 1 where the term has none."""
        found = np.ones((len(self.row_of_term), len(self.values[axis])))
        for term, runs in self._factors[axis]:
            found[term] = self.on_classes(axis, runs)
        return found

    def on_classes(self, axis: int, runs: Runs) -> Floats:
        """An attribute's numbers, by class."""
        known = self._on_classes[axis]
        if runs not in known:
            known[runs] = _at(self.values[axis], runs.stops, runs.numbers).astype(float)
        return known[runs]

    def cell(self, classes: Sequence[int]) -> list[int]:
        """A cell of these classes."""
        return [int(values[i]) for values, i in zip(self.values, classes, strict=True)]


def _at(values: NDArray[Any], stops: Any, numbers: Any) -> NDArray[Any]:
    """The numbers of some values, given by runs."""
    return np.asarray(numbers)[np.searchsorted(np.asarray(stops), values, side="right")]
