"""The loss of one person's records, from the weights of the chains.

A record of cell c loses sum of alpha(t) over the tables and w(h) abs(h_c) over the rows, where w(h)
is what the row's chains weigh beyond its tables. Replaced by a record of c' it loses, of a table
that tells the two apart, 2 alpha(t), and w(h) abs(h_c - h_c') of a row. A table that has no cell
for c or c' costs nothing there. A person has k records.

*Squares.* Under zero-concentrated privacy there are rows alone, each draw weighs w(h) h_c^2 on a
cell and w(h) (h_c - h_c')^2 on a pair, in rho, and k records that are alike weigh k^2 of it. A
cell's loss is that of the squared rows.

*Tables that hold some values of one attribute alone.* Each cell of a pair that such a table tells
apart loses its alpha where the table has a cell for it. A search that has not fixed the attribute
yet takes the value that loses most.

The greatest loss of a cell, or of a pair of cells, by branch and bound.

Attributes are fixed one after the other. What is not fixed yet leaves every row an interval of
values, so that each branch has a bound; one that is at most the level is left out. So is one that
the new draws raise by no more than the level rose, as all cells were within the old level. At a
leaf the loss is exact. On a pair of cells each attribute is fixed for the one, then for the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from math import floor, inf

import numpy as np
from numpy.typing import NDArray

from worker.books.cell_functions import Cell, Floats, Grid, Row, Table
from worker.books.chains import Chains
from worker.books.journal_lines import UnknownFactsError

_DIGITS = 60


@dataclass(frozen=True)
class Losses:
    """The cost of the answers in force, in nano-epsilon or nano-rho.

    Args:
        k: most records of one person.
        weights: w(h) of every row, never negative.
        tables: every table with its alpha.
        flat: what every cell and, `pair_flat`, every pair loses besides, for all k records.
        power: with which moves count, 1 or 2.
    """

    k: int
    weights: Mapping[Row, int]
    tables: Sequence[tuple[Table, int]]
    flat: Fraction = Fraction(0)
    pair_flat: Fraction = Fraction(0)
    power: int = 1

    @classmethod
    def of(cls, chains: Chains, *, k: int, flat: Fraction, pair_flat: Fraction) -> Losses:
        """The losses of these chains."""
        weights = {row: weight for row, weight in chains.weights().items() if weight}
        power = 2 if chains.are_anew else 1
        return cls(k, weights, chains.tables(), flat, pair_flat, power)

    @property
    def factor(self) -> int:
        """The loss of k equal records over the loss of one."""
        return int(self.k**self.power)

    @property
    def of_tables(self) -> int:
        """The loss of every cell by tables that hold all records, for all k records."""
        return self.factor * sum(alpha for table, alpha in self.tables if table.held is None)

    @property
    def held(self) -> dict[Row, int]:
        """The rows of the tables that hold only some records, with the tables' alphas."""
        found: dict[Row, int] = {}
        for table, alpha in self.tables:
            if table.held is not None:
                found[table.held] = found.get(table.held, 0) + alpha
        return found

    @property
    def of_cells(self) -> dict[Row, int]:
        """The weights with which rows cost a cell: its own, and those of `held`."""
        found = dict(self.weights)
        if self.power == 2:
            found = {}
            for row, weight in self.weights.items():
                found[row.squared] = found.get(row.squared, 0) + weight
        for row, alpha in self.held.items():
            found[row] = found.get(row, 0) + alpha
        return found

    def of_cell(self, cell: Cell) -> Fraction:
        """The exact loss of a person whose records all lie in one cell."""
        rows = sum((w * abs(row.at(cell)) for row, w in self.of_cells.items()), Fraction(0))
        return self.factor * rows + self.of_tables + self.flat

    def of_pair(self, one: Cell, other: Cell) -> Fraction:
        """The exact loss of a person whose records all move from one cell to another."""
        rows = sum(
            (w * abs(row.at(one) - row.at(other)) ** self.power for row, w in self.weights.items()),
            Fraction(0),
        )
        tables = sum(
            alpha * table.n_held((one, other))
            for table, alpha in self.tables
            if table.tells_apart(one, other)
        )
        return self.factor * (rows + tables) + self.pair_flat


def sample_loss(nominal_nano: int, rate: Fraction) -> Fraction:
    """ln(1 + rate (e^x - 1)) for a record, in nano-epsilon, never less than the true figure."""
    with localcontext() as context:
        context.prec = _DIGITS
        x = Decimal(nominal_nano) / 10**9
        part = Decimal(rate.numerator) / rate.denominator
        found = (1 + part * (x.exp() - 1)).ln() * 10**9
        # All steps together err by far less than one part in 10^50 of e^x, so of 10^-20 of x.
        return Fraction(found) + Fraction(1, 10**20)


class HeldTables:
    """Bounds of these losses, by branch of a search.

    Args:
        before: losses that are proven; their part of the tables is no rise.
        columns: per attribute the classes that a cell may have.
        axes: the attributes in the order in which they are fixed.
        alike: an attribute whose value both cells share, or None.
    """

    def __init__(
        self,
        grid: Grid,
        losses: Losses,
        before: Losses,
        *,
        columns: Sequence[NDArray[np.intp]],
        axes: Sequence[int],
        alike: int | None,
    ) -> None:
        self._turns = {axis: i for i, axis in enumerate(axes)}
        self._by_axis: dict[int, Floats] = {}
        known = [alpha for _, alpha in before.tables] + [0] * len(losses.tables)
        for (table, alpha), old in zip(losses.tables, known, strict=False):
            if table.held is None or {axis for axis, _ in table.axes} == {alike}:
                continue
            ((axis, runs),) = table.held.terms[0].factors
            inside = grid.on_classes(axis, runs)[columns[axis]]
            weights = float(losses.factor) * np.outer([alpha, alpha - old], inside)
            self._by_axis[axis] = self._by_axis.get(axis, 0.0) + weights

    def bounds(
        self,
        classes: Sequence[NDArray[np.intp]],
        *,
        turn: int,
        which: int,
        n_values: int,
    ) -> Floats:
        """Both weights' bounds, shape (2, branches * values).

        Args:
            classes: per cell of the pair the classes that are fixed, shape (attributes, branches).
            turn, which: the attribute and the cell that are fixed next.
        """
        n = classes[0].shape[1]
        total = np.zeros((2, n, n_values))
        for axis, weights in self._by_axis.items():
            at = self._turns.get(axis, len(self._turns))
            for cell, fixed in enumerate(classes):
                if at == turn and cell == which:
                    total += weights[:, None, :]
                elif at < len(fixed):
                    total += weights[:, fixed[at], None]
                else:
                    total += weights.max(axis=1)[:, None, None]
        return total.reshape(2, -1)


_WORK = 3_000_000
"""Numbers that a search may look at: some tenths of a second. Half after a failure, and so on."""
_MOST_HALVED = 6
_BRANCH = 2_000
"""Numbers that take as long as the rest of a branch."""
_MOST_CELLS = 1 << 20
"""Cells, or pairs of cells, that are searched to the end however long it takes."""
_UP = 1.0 + 1e-12
"""Squares and their sums are rounded by less than this: a bound is never too low."""
_TOGETHER = 64
"""Most branches that are looked at in one go."""


@dataclass(frozen=True)
class Known:
    """Losses that are proven not to exceed `level`."""

    level: int
    losses: Losses


@dataclass(frozen=True)
class _Nodes:
    """Branches with the same attributes fixed, N of them, searched together.

    Args:
        depth: how many attributes are fixed; on pairs, for the one cell and for the other.
        classes: per cell the classes that are fixed, shape (attributes, N).
        terms: per cell what each term's fixed factors give, shape (T, N).
        apart: tables that tell the two cells apart already, shape (tables, N).
    """

    depth: int
    classes: tuple[NDArray[np.intp], ...]
    terms: tuple[Floats, ...]
    apart: NDArray[np.bool_]

    def __len__(self) -> int:
        return int(self.apart.shape[1])

    def part(self, which: slice) -> _Nodes:
        """The branches in this range."""
        classes = tuple(found[:, which] for found in self.classes)
        terms = tuple(found[:, which] for found in self.terms)
        return _Nodes(self.depth, classes, terms, self.apart[:, which])


class Search:
    """One search; `pairs` looks at pairs of cells of the domain.

    Args:
        fixed: an attribute and the one class of its values that cells may have; None for all. Of
            such searches, one for each class, all together take as long as one of all.
    """

    def __init__(
        self,
        grid: Grid,
        losses: Losses,
        *,
        level: int,
        known: Known | None,
        pairs: bool,
        n_failed: int = 0,
        fixed: tuple[int, int] | None = None,
    ) -> None:
        for row in losses.weights if pairs else losses.of_cells:
            grid.add(row)
        for table, _ in losses.tables:
            for axis, runs in table.axes:
                grid.split(axis, runs)
        self._grid, self._losses, self._pairs = grid, losses, pairs
        self._n_cells = 2 if pairs else 1
        self._level = level
        before = known or Known(0, Losses(losses.k, {}, []))
        self._weigh(losses, before)
        if known is None:
            self._room = -inf
        factors = self._narrowed()
        n_parts = 1 if fixed is None else grid.shape[fixed[0]]
        if fixed is not None:
            axis, one = fixed
            self._columns[axis] = self._columns[axis][one : one + 1]
            factors[axis] = factors[axis][:, one : one + 1]
        if not self._is_void:
            self._order_axes(factors)
            alike = None if fixed is None else fixed[0]
            self._held = HeldTables(
                grid, losses, before.losses, columns=self._columns, axes=self._axes, alike=alike
            )
            self._prepare_groups()
            self._prepare_intervals()
        n_leaves = n_parts * (grid.n_classes // n_parts) ** self._n_cells
        # Where every branch can be searched, the search always ends.
        work = _WORK >> min(n_failed, _MOST_HALVED)
        self._most_work = inf if n_leaves <= _MOST_CELLS else work // n_parts
        self._work = 0

    def _weigh(self, losses: Losses, known: Known) -> None:
        """Two weights per row and per table: of the loss, and of its rise."""
        grid, factor, before = self._grid, losses.factor, known.losses
        weights = np.zeros((2, len(grid.rows)))
        known_weights = before.weights if self._pairs else before.of_cells
        for row, now in (losses.weights if self._pairs else losses.of_cells).items():
            rise = now - known_weights.get(row, 0)
            weights[:, grid.rows[row]] = factor * now, factor * max(0, rise)
        kept = np.flatnonzero(weights[0])
        of_term = np.array(grid.row_of_term, dtype=np.intp)
        self._terms = np.flatnonzero(weights[0][of_term])
        self._starts = np.searchsorted(of_term[self._terms], kept)
        self._weights = weights[:, kept]
        errors = np.array(grid.errors)[kept] * self._n_cells
        self._squares = self._pairs and losses.power == 2
        if self._squares:  # (d + e)^2 - d^2, for a difference d that floats err by e in
            most = np.array([2.0 * float(row.size) for row in grid.rows])[kept]
            errors = errors * (2.0 * most + errors)
        # Tables keep their order; of two of the same cells each has its own place.
        old = [alpha for _, alpha in before.tables] + [0] * len(losses.tables)
        # Tables that hold some records alone are bounded apart, or weigh on cells as rows.
        whole = [alpha if table.held is None else 0 for table, alpha in losses.tables]
        rises = [alpha and alpha - old[i] for i, alpha in enumerate(whole)]
        if self._pairs:
            flat = losses.pair_flat - before.pair_flat
            self._tables = 2.0 * factor * np.array([whole, rises]).reshape(2, -1)
            self._flat = losses.pair_flat
        else:
            flat = losses.flat - before.flat + factor * sum(rises)
            self._tables = np.zeros((2, 0))
            self._flat = losses.flat + losses.of_tables
        self._extra = self._weights @ errors
        self._room = float(floor(self._level - known.level - flat))

    def _order_axes(self, factors: list[Floats]) -> None:
        """The attributes by the weight of the rows that distinguish their values."""
        grid = self._grid
        of_term = self._of_terms()[0]
        named = [dict(t.axes) if self._pairs else {} for t, _ in self._losses.tables]
        lives = np.array([f.any(axis=1) for f in factors]).all(axis=0)
        differs = [((f != f[:, :1]).any(axis=1) & lives) @ of_term for f in factors]
        tells = {a for t in named for a in t} | {a for a, weight in enumerate(differs) if weight}
        self._axes = sorted(tells, key=lambda a: differs[a], reverse=True)
        self._factors = [factors[a] for a in self._axes]
        # Where no value matters, any serves.
        rest = [f[:, 0] for a, f in enumerate(factors) if a not in tells]
        self._coefficients = np.array(grid.coefficients)[self._terms] * np.prod(rest, axis=0)
        self._parts = [
            [(i, grid.on_classes(a, t[a])[self._columns[a]]) for i, t in enumerate(named) if a in t]
            for a in self._axes
        ]
        last = [max((i for i, a in enumerate(self._axes) if a in t), default=-1) for t in named]
        self._last = np.array(last[: self._tables.shape[1]])

    def _of_terms(self) -> Floats:
        """Both weights of each term: its row's."""
        return np.repeat(self._weights, np.diff([*self._starts, len(self._terms)]), axis=1)

    def _narrowed(self) -> list[Floats]:
        """The factors on the possible values of a cell whose loss rose by more than the room."""
        grid, weights = self._grid, self._of_terms()
        factors = [grid.factors(axis)[self._terms] for axis in range(len(grid.sizes))]
        self._columns, self._is_void = [np.arange(n) for n in grid.shape], False
        if self._pairs or self._room < 0:
            return factors
        weights = weights * np.abs(np.array(grid.coefficients)[self._terms])
        most = np.array([np.abs(factor).max(axis=1, initial=0) for factor in factors])
        rises = weights[1] * most.prod(axis=0)
        for axis, factor in enumerate(factors):
            if grid.shape[axis] > 1:
                parts = (rises / np.maximum(most[axis], 1)) @ np.abs(factor)
                kept = np.flatnonzero(parts + self._extra[1] > self._room * (1 - 1e-9))
                self._is_void = self._is_void or not len(kept)
                self._columns[axis], factors[axis] = kept, factor[:, kept]
                most[axis] = np.abs(factors[axis]).max(axis=1, initial=0)
        # All rows at their greatest there: enough where they have little in common.
        greatest = float(weights[0] @ most.prod(axis=0) + self._extra[0])
        self._is_void = self._is_void or greatest * (1 + 1e-9) <= floor(self._level - self._flat)
        return factors

    def _prepare_intervals(self) -> None:
        """Per turn the least and greatest product of the factors that are not fixed."""
        if not self._pairs and not len(self._mixed):
            return
        low = high = np.ones(len(self._terms))
        self._rest = [(low, high)]
        for factor in reversed(self._factors):
            least, most = factor.min(axis=1), factor.max(axis=1)
            ends = np.array([low * least, low * most, high * least, high * most])
            low, high = ends.min(axis=0), ends.max(axis=0)
            self._rest.insert(0, (low, high))

    def _prepare_groups(self) -> None:
        """For rows of one term, the greatest size from each attribute on, by the value there."""
        counts = np.diff([*self._starts, len(self._terms)])
        self._single, self._mixed = np.flatnonzero(counts == 1), np.flatnonzero(counts > 1)
        self._single_terms = np.asarray(self._starts)[self._single]
        self._mixed_terms = np.flatnonzero(np.repeat(counts > 1, counts))
        self._mixed_starts = np.cumsum(counts[self._mixed]) - counts[self._mixed]
        sizes = [np.abs(factor[self._single_terms]) for factor in self._factors]
        self._matters = np.array([(size != 1).any(axis=1) for size in sizes], dtype=bool)
        rest = np.ones(len(self._single))
        self._from_here: list[Floats] = []
        for size in reversed(sizes):
            self._from_here.insert(0, size * rest[:, None])
            rest = rest * size.max(axis=1)
        self._groups: dict[int, list[tuple[int, NDArray[np.intp], Floats]]] = {}

    def _groups_from(self, turn: int) -> list[tuple[int, NDArray[np.intp], Floats]]:
        """The rows of one term by the first attribute, from a turn on, that matters to them."""
        if turn not in self._groups:
            n = len(self._axes)
            matters = np.ones((n + 1 - turn, len(self._single)), dtype=bool)
            matters[:-1] = self._matters[turn:] if n else True
            first = turn + matters.argmax(axis=0)
            fixed = np.ones((len(self._single), 1))
            parts = [(i, np.flatnonzero(first == i)) for i in range(turn, n + 1)]
            self._groups[turn] = [
                (i, rows, (self._from_here[i] if i < n else fixed)[rows])
                for i, rows in parts
                if len(rows)
            ]
        return self._groups[turn]

    def _alone(self, terms: Floats, turn: int) -> Floats:
        """A bound of the cost of rows of one term to a cell, by its value of the next attribute.

        A cell has one value of each attribute: of rows that are told apart by one, the best value's
        sum counts, not each row's best.

        Args:
            terms: of N cells, shape (T, N).

        Returns:
            Both weights' bounds, shape (2, N, values).
        """
        width = self._factors[turn].shape[1] if turn < len(self._axes) else 1
        found = np.zeros((2, terms.shape[1], width))
        scale = self._weights[:, self._single, None] * np.abs(terms[self._single_terms])
        for i, rows, sizes in self._groups_from(turn):
            sums = scale[:, rows].transpose(0, 2, 1) @ sizes
            found += sums if i == turn else sums.max(axis=2, keepdims=True)
        return found

    def above(self) -> Fraction | None:
        """The exact greatest loss if above the level; else None.

        Raises:
            UnknownFactsError: the search would take too long.
        """
        level, found = Fraction(self._level), None
        if self._is_void:
            return None
        depth, stack = len(self._axes) * self._n_cells, [self._root()]
        while stack:
            nodes = stack.pop()
            # Without a level, the most promising branch finds one for the others.
            first = max(0, len(nodes) - (_TOGETHER if level >= 0 else 1))
            if first:
                stack.append(nodes.part(slice(first)))
                nodes = nodes.part(slice(first, None))
            if nodes.depth < depth:
                children = self._children(nodes, float(floor(level - self._flat)))
                stack += [children] if len(children) else []
                continue
            loss = max(self._exact(nodes, i) for i in range(len(nodes)))
            if loss > level:
                level = found = loss
        return found

    def _root(self) -> _Nodes:
        """The branch with nothing fixed."""
        n, none = self._n_cells, np.zeros((0, 1), dtype=np.intp)
        apart = (self._tables[0] < 0)[:, None]
        return _Nodes(0, (none,) * n, (self._coefficients[:, None],) * n, apart)

    def _exact(self, nodes: _Nodes, which: int) -> Fraction:
        cells = []
        for found in nodes.classes:
            classes = [int(kept[0]) for kept in self._columns]
            for axis, one in zip(self._axes, found[:, which].tolist(), strict=True):
                classes[axis] = int(self._columns[axis][one])
            cells.append(self._grid.cell(classes))
        return self._losses.of_pair(*cells) if self._pairs else self._losses.of_cell(cells[0])

    def _children(self, nodes: _Nodes, level: float) -> _Nodes:
        """The branches that may exceed the level, least promising first.

        In arrays with a column for each, the values of a branch's next attribute stand together.
        """
        turn, which = divmod(nodes.depth, self._n_cells)
        values = self._factors[turn]
        n_values = values.shape[1]
        self._work += _BRANCH * len(nodes) + nodes.terms[which].size * n_values
        if self._work > self._most_work:
            raise UnknownFactsError("the search for the greatest loss takes too long")
        apart = np.repeat(nodes.apart, n_values, axis=1)
        bounds = self._of_rows(nodes, turn, which) + self._extra[:, None]
        if self._pairs:
            if which == 1:
                for table, parts in self._parts[turn]:
                    apart[table] |= (parts != parts[nodes.classes[0][turn]][:, None]).ravel()
            done = self._last <= (turn if which == 1 else turn - 1)
            held = self._held.bounds(nodes.classes, turn=turn, which=which, n_values=n_values)
            bounds = bounds + self._tables @ (apart | ~done[:, None]) + held
        kept = np.flatnonzero((bounds[0] > level) & (bounds[1] > self._room))
        kept = kept[np.argsort(bounds[0][kept], kind="stable")]
        # Few branches of many are kept: only their terms are multiplied out.
        parents, chosen = np.divmod(kept, n_values)
        terms, apart = nodes.terms[which][:, parents] * values[:, chosen], apart[:, kept]
        if not self._pairs or which == 1:
            marks = np.vstack([terms, held[:, kept]]) if self._pairs else terms
            first = _different(parents, marks, apart)
            parents, chosen, terms = parents[first], chosen[first], terms[:, first]
            apart = apart[:, first]
        return _fixed(nodes, which, parents, chosen, terms, apart)

    def _of_rows(self, nodes: _Nodes, turn: int, which: int) -> Floats:
        """A bound of the rows' cost, by branch and the next value."""
        terms, values = nodes.terms[which], self._factors[turn]
        alone = self._alone(terms, turn).reshape(2, -1)
        if not self._pairs and not len(self._mixed):
            return alone
        if not self._pairs:
            mixed = self._mixed_terms
            return alone + self._of_mixed(_by_value(terms[mixed], values[mixed]), turn + 1)
        factors = _by_value(terms, values)
        low, high = self._row_ends(factors, turn + 1)
        n_values, other = factors.shape[1] // len(nodes), nodes.terms[1 - which]
        ends = self._row_ends(other, turn + which)
        other_low, other_high = (np.repeat(end, n_values, axis=1) for end in ends)
        sizes = np.maximum(high - other_low, other_high - low)
        if self._squares:
            return np.asarray(self._weights @ np.square(sizes) * _UP)
        most = np.repeat(self._alone(other, turn + which).max(axis=2), n_values, axis=1)
        apart = alone + most + self._weights[:, self._mixed] @ sizes[self._mixed]
        found: Floats = np.minimum(self._weights @ sizes, apart)
        return found

    def _of_mixed(self, factors: Floats, turn: int) -> Floats:
        """A bound of the cost of rows of several terms, by theirs, for any values of the rest."""
        rest = [end[self._mixed_terms, None] for end in self._rest[turn]]
        low, high = _ends(factors, rest, self._mixed_starts)
        return np.asarray(self._weights[:, self._mixed] @ np.maximum(high, -low))

    def _row_ends(self, factors: Floats, turn: int) -> tuple[Floats, Floats]:
        """The least and greatest value of each row, for any values of the rest."""
        return _ends(factors, [end[:, None] for end in self._rest[turn]], self._starts)


def _by_value(terms: Floats, values: Floats) -> Floats:
    """Terms of N branches times their factors of the next values, shape (T, N * values)."""
    shape = len(values), terms.shape[1] * values.shape[1]
    return (terms[:, :, None] * values[:, None, :]).reshape(shape)


def _ends(factors: Floats, rest: list[Floats], starts: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """The least and greatest sums of terms, from each start on, by those of the other factors."""
    one, other = (factors * end for end in rest)
    if not len(starts):
        return one[:0], one[:0]
    low = np.add.reduceat(np.minimum(one, other), starts, axis=0)
    return low, np.add.reduceat(np.maximum(one, other), starts, axis=0)


def _different(
    parents: NDArray[np.intp], marks: Floats, apart: NDArray[np.bool_]
) -> NDArray[np.intp]:
    """The columns without those that the rest of the search cannot distinguish from a sibling."""
    keys = zip(
        parents.tolist(),
        map(bytes, np.ascontiguousarray(marks.T)),
        map(bytes, np.ascontiguousarray(apart.T)),
        strict=True,
    )
    first: dict[object, int] = {}
    for i, key in enumerate(keys):
        first.setdefault(key, i)
    return np.array(list(first.values()), dtype=np.intp)


def _fixed(
    nodes: _Nodes,
    which: int,
    parents: NDArray[np.intp],
    values: NDArray[np.intp],
    terms: Floats,
    apart: NDArray[np.bool_],
) -> _Nodes:
    """Branches of these with one more attribute fixed for one of the cells.

    Args:
        terms: of that cell, with the value.
    """
    classes = [found[:, parents] for found in nodes.classes]
    products = [found[:, parents] for found in nodes.terms]
    classes[which], products[which] = np.vstack([classes[which], values]), terms
    return _Nodes(nodes.depth + 1, tuple(classes), tuple(products), apart)
