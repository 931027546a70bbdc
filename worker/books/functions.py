"""Rows and tables as functions of the cell, from the plain lists that the journal has of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Cell = Sequence[int]
"""An index per attribute."""


class Runs(NamedTuple):
    """A number for every value of one attribute: `numbers[i]` up to, without, value `stops[i]`."""

    stops: tuple[int, ...]
    numbers: tuple[int, ...]

    def at(self, value: int) -> int:
        """The number of one value."""
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
    """A coefficient times one factor for each of some attributes."""

    coefficient: Fraction
    factors: tuple[tuple[int, Runs], ...]

    def at(self, cell: Cell) -> Fraction:
        """The term's value."""
        return self.coefficient * prod(runs.at(cell[axis]) for axis, runs in self.factors)


@dataclass(frozen=True)
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
        return cls(tuple(sorted(terms, key=repr) if len(terms) > 1 else terms))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self.terms)

    def at(self, cell: Cell) -> Fraction:
        """h of a cell."""
        return sum((term.at(cell) for term in self.terms), Fraction(0))

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
        """Whether all its arithmetic is on whole numbers below 2^50, where floats are exact."""
        return self.size < 1 << 50 and all(t.coefficient.denominator == 1 for t in self.terms)


@dataclass(frozen=True)
class Table:
    """Every cell of a partition: the attributes that it tells apart, and the part of each value.

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
        """The row of the records that are in some cell; None if all are."""
        some = [(axis, runs) for axis, runs in self.axes if -1 in runs.numbers]
        if not some:
            return None
        factors = tuple(
            (axis, Runs(runs.stops, tuple(int(n >= 0) for n in runs.numbers)))
            for axis, runs in some
        )
        return Row((Term(Fraction(1), factors),))

    def n_held(self, cells: Sequence[Cell]) -> int:
        """How many of some cells of the domain are in cells of the table."""
        return len(cells) if self.held is None else sum(int(self.held.at(cell)) for cell in cells)

    def tells_apart(self, one: Cell, other: Cell) -> bool:
        """Whether two cells of the domain are in different cells of the table."""
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
