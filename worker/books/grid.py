"""Rows on classes of values: two values of an attribute that nothing tells apart are one class."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.books.functions import Row, Runs

Floats = NDArray[np.float64]
_ERROR = 2.0**-36
"""More than floats can err by in the sum of a row's terms, as a part of its size: MAX_TERMS is
4,096, and every product has fewer than 2^12 factors."""


class Grid:
    """Every row that was ever weighed, as numbers on classes; rows are added, never removed.

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
        """How many values of an attribute are in each class."""
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
        """Tell apart the values of an attribute that have other numbers."""
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
