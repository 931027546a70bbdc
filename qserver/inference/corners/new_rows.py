"""A factored base and newer rows: weights of least variance on all of them.

A new row is one of two kinds. If it is independent of the earlier rows, it has a corner that they
do not give. A query's part there fixes the row's weight. Otherwise let u be the weights of least
variance that give the row from those before. For any weights a on these, subtracting t u and giving
t to the new row keeps them unbiased. The variance is least at t = a'Ru / (u'Ru + R), where R are
the squared scales. This is exact, in order of arrival.

A refinement is such a row, too: a second measurement of the same row with the added information.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np

from qserver.inference.arrays import FloatArray, GrowingArray
from qserver.inference.corners.base import Base, Core
from qserver.inference.corners.vectors import CornerVector, IntArray, RowMatrix, Sums
from qserver.inference.limits import MOST_FOR_DIRECTIONS

_DEPENDENT = 1e-9
_INDEPENDENT = 1e-5
_NEGLIGIBLE = 1e-13
_CORRECTIONS = 2
_HOPELESS = 1e-2


@dataclass(frozen=True, eq=False)
class _Independent:
    """A later row that is independent of earlier ones.

    Args:
        entry: its place among all entries.
        weights: weights on the entries before that leave `rest` of the row.
        rest: 0 at the pivots of earlier independent rows.
        pivot: the corner where `rest` is largest.
    """

    entry: int
    weights: FloatArray
    rest: Sums
    pivot: int


@dataclass(frozen=True, eq=False)
class _Dependent:
    """A later row that is a combination of earlier ones, or a refinement.

    Args:
        entry: its place among all entries.
        weights: weights of least variance on the entries before that give the row.
        variance: sum of squares of its own scale and of the weights times scales.
        rows: it and the noisy rows that give it, by number: only these link it to a question.
    """

    entry: int
    weights: FloatArray
    variance: float
    rows: IntArray


@dataclass(frozen=True)
class InReach:
    """What shares rows with a question, directly or not: parts of the core, and later rows."""

    cores: tuple[Core, ...]
    later: tuple[_Dependent, ...]

    @property
    def n_rows(self) -> int:
        """At least as many as the rows that sums of zero are on."""
        return sum(len(core.rows) for core in self.cores) + len(self.later)


class GrownRows:
    """Rows in play. Weights are on entries: the base's rows first, then later rows in turn.

    Args:
        rows: by corner; the first ones are the base's.
        base: the factored rows.
        scales: noise per row in the units of `rows`, shape (n,).
    """

    def __init__(self, rows: RowMatrix, base: Base, scales: FloatArray) -> None:
        self._rows, self._base = rows, base
        self._squares = GrowingArray(np.float64)
        self._squares.extend(np.square(scales))
        self._row_of = GrowingArray(np.intp)
        self._row_of.extend(np.arange(base.n_rows))
        self._independent: list[_Independent] = []
        self._dependent: list[_Dependent] = []
        self._is_folded = False

    @property
    def n_later(self) -> int:
        """Rows and refinements since the base was factored."""
        return len(self._row_of) - self._base.n_rows

    def tried(self) -> GrownRows:
        """A copy to add rows to; valid until this object gets a row."""
        found = copy.copy(self)
        found._rows = self._rows.tried()
        found._squares, found._row_of = copy.copy(self._squares), copy.copy(self._row_of)
        found._independent, found._dependent = list(self._independent), list(self._dependent)
        return found

    @property
    def rows(self) -> RowMatrix:
        """The rows by corner."""
        return self._rows

    def add(self, vector: CornerVector, scale: float) -> bool:
        """Add a row, with its scale in the vector's unit; False if floats cannot decide its kind.

        A row that is left out has no entry and is not in `rows`.
        """
        row = Sums.of(vector)
        weights, rest = self._corrected(row)
        if rest.largest > _INDEPENDENT * row.largest:
            pivot = int(rest.ids[np.abs(rest.values).argmax()])
            self._independent.append(_Independent(self._n_entries, weights, rest, pivot))
        elif rest.largest > _DEPENDENT * row.largest or not self._depend(
            len(self._rows), weights, scale * scale
        ):
            return False
        self._row_of.extend([len(self._rows)])
        self._rows.append(vector)
        self._squares.extend([scale * scale])
        return True

    def refine(self, number: int, *, old: float, new: float) -> bool:
        """Lower the scale of a row, in its unit; False if floats cannot decide how."""
        row, square = self._rows.row(number), 1.0 / (1.0 / new**2 - 1.0 / old**2)
        weights, rest = self._corrected(row)
        if rest.largest > _DEPENDENT * row.largest or not self._depend(number, weights, square):
            return False
        self._row_of.extend([number])
        self._squares.extend([square])
        self._is_folded = True
        return True

    def _depend(self, number: int, plain: FloatArray, square: float) -> bool:
        """Note a row that is the combination `plain`; False if it would be noiseless."""
        weights, squares = self._with_dependent(plain), self._squares.view
        variance = float(np.square(weights) @ squares) + square
        if variance > 0.0:
            rows = self._row_of.view[(weights != 0.0) & (squares > 0.0)]
            rows = np.append(rows, [number] if square > 0.0 else rows[:0])
            self._dependent.append(_Dependent(self._n_entries, weights, variance, rows))
        return variance > 0.0

    @property
    def _n_entries(self) -> int:
        return len(self._row_of)

    def weights(self, query: Sums) -> FloatArray:
        """Weights of nearly least variance that nearly give the query, shape (n rows,)."""
        return self._on_rows(self._with_dependent(self._plain(query)))

    def _on_rows(self, entries: FloatArray) -> FloatArray:
        if not self.n_later:
            return entries
        found = np.bincount(self._row_of.view, weights=entries, minlength=len(self._rows))
        return np.asarray(found, dtype=np.float64)

    def _corrected(self, query: Sums) -> tuple[FloatArray, Sums]:
        """Weights on entries without dependent ones, corrected, and what they leave."""
        total, rest = np.zeros(self._n_entries), query
        for _ in range(_CORRECTIONS):
            total = total + self._plain(rest)
            left = query.minus(self._rows.combined(self._on_rows(total)))
            is_better = left.largest < _HOPELESS * rest.largest
            rest = left
            if not is_better:
                break
        return total, rest

    def _plain(self, query: Sums) -> FloatArray:
        """Weights on entries without later dependent ones."""
        found = np.zeros(self._n_entries)
        found[: self._base.n_rows] = self._base.weights(query)
        if self._independent:
            self._fix(query, found)
        return found

    def _with_dependent(self, plain: FloatArray) -> FloatArray:
        """The weights after later dependent rows took their part, in order of arrival."""
        found = plain.copy()
        for later in self._dependent:
            n = later.entry
            spread = found[:n] * self._squares.view[:n]
            t = float(spread @ later.weights) / later.variance
            found[:n] -= t * later.weights
            found[n] += t
        return found

    def _fix(self, query: Sums, found: FloatArray) -> None:
        """Give the later independent rows their weights, in order of arrival."""
        rest = query.minus(self._rows.combined(self._on_rows(found)))
        least = _NEGLIGIBLE * query.largest
        for later in self._independent:
            value = rest.at(later.pivot)
            if abs(value) <= least:
                continue
            t = value / later.rest.at(later.pivot)
            found[: later.entry] -= t * later.weights
            found[later.entry] += t
            rest = rest.minus(later.rest, t)

    def directions(self, reach: InReach) -> FloatArray | None:
        """Weights that sum to zero, on rows in reach; None if these are many.

        Returns:
            shape (k, n rows), orthonormal in sum of weight^2 scale^2 but for refined rows.
        """
        if reach.n_rows > MOST_FOR_DIRECTIONS:
            return None
        parts = [np.zeros((0, len(self._rows)))]
        for core in reach.cores:
            if core.directions is None:
                return None
            part = np.zeros((len(core.directions), self._base.n_rows))
            part[:, core.rows] = core.directions
            full = np.zeros((len(part), len(self._rows)))
            full[:, : self._base.n_rows] = self._base.with_public(part)
            parts.append(full)
        for found in reach.later:
            entries = np.zeros(self._n_entries)
            entries[: found.entry] = -found.weights
            entries[found.entry] = 1.0
            parts.append(self._on_rows(entries)[None] / found.variance**0.5)
        return np.concatenate(parts)

    def reach(self, rows: IntArray) -> InReach:
        """What shares rows with some of these, by number."""
        return self._reach(rows)[0]

    def in_reach(self, rows: IntArray) -> IntArray:
        """The rows that depend on each other and on some of these, by number."""
        return self._reach(rows)[1]

    def _reach(self, rows: IntArray) -> tuple[InReach, IntArray]:
        used = np.zeros(len(self._rows), dtype=bool)
        used[rows] = True
        # A public row is in reach of everything, and joins nothing.
        used[self._row_of.view[self._squares.view == 0.0]] = False
        n_cores, later = -1, [False] * len(self._dependent)
        while True:
            cores = self._base.cores_of(np.flatnonzero(used[: self._base.n_rows]))
            for core in cores:
                used[core.rows] = True
            before = list(later)
            for i, found in enumerate(self._dependent):
                if not later[i] and used[found.rows].any():
                    later[i] = True
                    used[found.rows] = True
            if n_cores == len(cores) and before == later:
                dependent = zip(self._dependent, later, strict=True)
                reached = tuple(d for d, is_reached in dependent if is_reached)
                return InReach(tuple(cores), reached), np.flatnonzero(used)
            n_cores = len(cores)

    @property
    def is_folded(self) -> bool:
        """Whether a row was refined since, so that directions are not orthonormal."""
        return self._is_folded
