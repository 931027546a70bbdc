"""The greatest value of a sum of tables: a search by branch and bound, and a quick upper bound.

*The search* fixes a class on one axis after the other. Mini-buckets, made once, bound how much the
remaining axes can add: tables that end in the same axis are added up in groups, as large as there
is room, and maximised over it. A branch's bound falls where a group stays below its maximum. First
some cell of large bounds is found: branches whose bound is not above its value need no look. Of the
others those of the greatest bounds are looked at first, many at once. Whenever the search gives up,
the greatest bound that is left holds for all cells.

*The quick bound* is cheap to update. The sum of the tables' greatest entries is a bound. Amounts
that depend on one attribute may be moved from one table to another: the sum stays the same, and the
bound may fall. Each attribute has one table for such amounts, its single. A step on a table over s
attributes moves all amounts of their singles into the table, then moves 1/s of the greatest entry
per class back to each single. No step raises the bound (except by units lost in the division). All
entries are whole numbers, so the sum stays exactly the same.

Over pairs of cells an attribute is a pair of axes, and its single is a table over both. A count on
one attribute, which a pair pays if one cell is inside and the other outside, is then exact.

References:
    Kask and Dechter (2001), "A general scheme for automatic generation of search heuristics from
    specification dependencies": mini-buckets that guide branch and bound.
    Globerson and Jaakkola (2007), "Fixing max-product: convergent message passing algorithms for
    MAP LP-relaxations", the step. Ihler, Flerova, Dechter and Otten (2012), "Join-graph based
    cost-shifting schemes", for its use together with mini-buckets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from qserver.ledger.constants import LIMITS
from qserver.ledger.loss_tables import (
    Indices,
    LossTable,
    Partition,
    SumTable,
    TableLayout,
    Values,
    common,
    parents,
    state_of_tables,
    tables_of_state,
    zero_table,
)
from qserver.records.state import State

Classes = NDArray[np.int32]
"""The classes of branches on the first axes of a search, shape (branches, axes)."""


def greatest(
    tables: Sequence[SumTable], *, enough: int, most: int = LIMITS.int64_safe
) -> int | None:
    """At least the greatest value of the sum of `tables`; that value if the search ended.

    Args:
        tables: at least one; entries of any sign.
        enough: a level below which nobody needs to know more.
        most: a level above which nobody needs to know more.

    Returns:
        The greatest value, or `enough` if no value passes that; a bound where the search gave up.
        None if the tables are too large for a search, or once a value above `most` is found.
    """
    scopes = _merged(tables)
    if scopes is None:
        return None
    everywhere, levels = _levels(scopes, _common_classes(scopes))
    if not levels or everywhere <= enough:
        return max(everywhere, enough)
    bounds, cells = np.full(1, everywhere, dtype=np.int64), np.zeros((1, 0), dtype=np.int32)
    found, n_done, n_looks = _dive(levels, bounds, cells, enough), 0, 0
    left, n_most = _Branches(), max(1, LIMITS.proof_entries // max(x.size for x in levels))
    left.push(bounds, cells)
    while left.top > found and found <= most:
        if n_looks >= LIMITS.proof_looks:
            return left.top
        # Half as many as were done: few are looked at in vain, and quickly.
        bounds, cells = left.pop(min(1 + n_done // 2, n_most))
        n_done += len(bounds)
        level = levels[cells.shape[1]]
        n_looks += len(bounds) * level.n_looks
        bounds, cells = level.branches(bounds, cells, found)
        if level is levels[-1]:
            found = max(found, int(bounds.max(initial=found)))
        else:
            left.push(bounds, cells)
    return found if found <= most else None


def _dive(levels: Sequence[_AxisStep], bounds: Values, cells: Classes, enough: int) -> int:
    """The value of some cell with large bounds, if above `enough`; else `enough`."""
    for level in levels:
        n = LIMITS.proof_beam
        bounds, cells = level.branches(bounds[:n], cells[:n], enough)
    return int(bounds.max(initial=enough))


class _Branches:
    """Open branches, in groups of one place each, greatest bounds first."""

    def __init__(self) -> None:
        self._groups: dict[int, list[tuple[Values, Classes]]] = {}

    def push(self, bounds: Values, cells: Classes) -> None:
        """Add branches of one place."""
        if len(bounds):
            self._groups.setdefault(cells.shape[1], []).append((bounds, cells))

    @property
    def top(self) -> int:
        """The greatest bound; below any level if no branch is left."""
        tops = [int(b[0]) for group in self._groups.values() for b, _ in group]
        return max(tops, default=-LIMITS.int64_safe)

    def pop(self, n_most: int) -> tuple[Values, Classes]:
        """Take up to `n_most` branches at the place of the greatest bound."""
        every = np.concatenate([b for group in self._groups.values() for b, _ in group])
        least = every.min() if len(every) <= n_most else np.partition(every, -n_most)[-n_most]
        place = max(self._groups, key=lambda p: (max(int(b[0]) for b, _ in self._groups[p]), p))
        taken, left = [], []
        for bounds, cells in self._groups.pop(place):
            n = min(n_most, len(bounds) - int(np.searchsorted(bounds[::-1], least)))
            n_most -= n
            taken.append((bounds[:n], cells[:n]))
            if n < len(bounds):
                left.append((bounds[n:], cells[n:]))
        if left:
            self._groups[place] = left
        return np.concatenate([b for b, _ in taken]), np.concatenate([c for _, c in taken])


def outside(table: SumTable, where: Mapping[int, Indices]) -> SumTable:
    """The table, so small in all cells without a value from `where` that none of these is greatest.

    Its classes stay as they are: what is known of them holds for the next search, too.
    """
    values = table.values
    for place, (axis, partition) in enumerate(table.layout.by_axis.items()):
        if axis in where:
            is_out = np.ones(partition.n, dtype=bool)
            is_out[partition.class_of(where[axis])] = False
            shape = [1] * values.ndim
            shape[place] = partition.n
            values = np.where(is_out.reshape(shape), -LIMITS.most_shifted, values)
    return SumTable(table.layout, values)


@dataclass(frozen=True, eq=False)
class _Slack:
    """How far a group of tables stays below its greatest entry along the axis of its level.

    Args:
        places: places of the group's other axes in the order of the search.
        seen: per other axis the group's class of each common class.
        values: entries <= 0, with the level's axis last.
        last: the group's class of each common class of that axis.
    """

    places: tuple[int, ...]
    seen: tuple[Indices, ...]
    values: Values
    last: Indices


@dataclass(frozen=True, eq=False)
class _AxisStep:
    """One axis of the search.

    Args:
        groups: tables that end in the axis, each with its greatest entries along it.
        place: of every axis in the order of the search.
        classes: of every axis, the common ones.
        axis: this one.
    """

    groups: Sequence[tuple[SumTable, SumTable]]
    place: Mapping[int, int]
    classes: Mapping[int, Partition]
    axis: int

    @property
    def size(self) -> int:
        """Number of its classes."""
        return self.classes[self.axis].n

    @property
    def n_looks(self) -> int:
        """Entries that the branches from one cell look at."""
        return self.size * len(self.groups)

    @cached_property
    def slacks(self) -> list[_Slack]:
        """The slack of each group; computed when a branch first gets here."""
        return [_slack(*pair, self.place, self.classes) for pair in self.groups]

    def branches(self, bounds: Values, cells: Classes, enough: int) -> tuple[Values, Classes]:
        """The branches with a bound above `enough`, the greatest bound first.

        Args:
            bounds: of some branches, shape (n,).
            cells: their classes on the earlier axes, shape (n, axes).
        """
        found = np.repeat(bounds[:, None], self.size, axis=1)
        for group in self.slacks:
            index = tuple(
                seen[cells[:, place]] for place, seen in zip(group.places, group.seen, strict=True)
            )
            found += group.values[index][..., group.last]
        rows, chosen = np.nonzero(found > enough)
        bounds = found[rows, chosen]
        order = np.argsort(-bounds, kind="stable")
        cells = np.concatenate([cells[rows[order]], chosen[order, None].astype(np.int32)], axis=1)
        return bounds[order], cells


def _merged(tables: Sequence[SumTable]) -> list[SumTable] | None:
    """One table per set of axes; None if they would be too large."""
    by_scope: dict[tuple[int, ...], list[SumTable]] = {}
    for table in tables:
        by_scope.setdefault(table.layout.axes, []).append(table)
    merged, n_entries = [], 0
    for same in by_scope.values():
        layout = same[0].layout
        for table in same[1:]:
            layout = layout.joined_with(table.layout)
        n_entries += layout.n_entries
        if n_entries > LIMITS.proof_entries:
            return None
        merged.append(_sum(layout, same))
    return merged


def _common_classes(tables: Sequence[SumTable]) -> dict[int, Partition]:
    joined: dict[int, Partition] = {}
    for table in tables:
        for axis, partition in table.layout.by_axis.items():
            joined[axis] = common(joined[axis], partition) if axis in joined else partition
    return joined


def _levels(
    tables: Sequence[SumTable], classes: Mapping[int, Partition]
) -> tuple[int, list[_AxisStep]]:
    """A bound of the sum, and the axes of a search, heaviest first."""
    weight = {
        axis: sum(axis in t.layout.by_axis for t in tables) * np.log1p(p.n)
        for axis, p in classes.items()
    }
    order = sorted(classes, key=lambda a: (-weight[a], a))
    place = {axis: i for i, axis in enumerate(order)}
    buckets: list[list[SumTable]] = [[] for _ in order]
    everywhere, levels = 0, list[_AxisStep]()
    waiting, tries = list(tables), iter(range(LIMITS.proof_joins))
    for i in range(len(order), -1, -1):
        for table in waiting:
            if table.layout.axes:
                buckets[max(place[a] for a in table.layout.axes)].append(table)
            else:
                everywhere += int(table.values)
        if i:
            groups = _groups(buckets[i - 1], tries)
            waiting = [group.maximum_over([order[i - 1]]) for group in groups]
            pairs = list(zip(groups, waiting, strict=True))
            levels.append(_AxisStep(pairs, place, classes, order[i - 1]))
    return everywhere, levels[::-1]


def _slack(
    group: SumTable, most: SumTable, place: Mapping[int, int], classes: Mapping[int, Partition]
) -> _Slack:
    """The group less its greatest entries `most` along its last axis in search order."""
    layout = group.layout
    axes = sorted(layout.axes, key=place.__getitem__)
    lower = group.values - np.expand_dims(most.values, layout.axes.index(axes[-1]))
    values = np.transpose(lower, [layout.axes.index(a) for a in axes])
    *seen, last = (parents(layout.by_axis[a], classes[a]) for a in axes)
    places = tuple(place[a] for a in axes[:-1])
    return _Slack(places, tuple(seen), np.ascontiguousarray(values), last)


def _groups(tables: Sequence[SumTable], tries: Iterator[int]) -> list[SumTable]:
    """Sums of groups by first fit, the largest table first, as long as tries are left."""
    found: list[list[SumTable]] = []
    layouts: list[TableLayout] = []
    for table in sorted(tables, key=lambda t: -t.values.size):
        for k, layout in enumerate(layouts):
            if (
                _least_entries(layout, table.layout) > LIMITS.proof_group
                or next(tries, None) is None
            ):
                continue
            joined = _joined(layout, table.layout, LIMITS.proof_group)
            if joined is not None:
                layouts[k] = joined
                found[k].append(table)
                break
        else:
            layouts.append(table.layout)
            found.append([table])
    return [_sum(layout, group) for layout, group in zip(layouts, found, strict=True)]


@lru_cache(maxsize=1 << 13)
def _joined(one: TableLayout, other: TableLayout, most_entries: int) -> TableLayout | None:
    """The axes of both; None if they have more entries than these, and than either has."""
    if _least_entries(one, other) > most_entries:
        return None
    joined = one.joined_with(other)
    return joined if joined is one or joined.n_entries <= most_entries else None


def _least_entries(one: TableLayout, other: TableLayout) -> int:
    """A lower bound on the entries of a table over the axes of both; 0 if `one` has all axes."""
    mine, more = one.by_axis, other.by_axis
    if more.keys() <= mine.keys():
        return 0
    sizes = [p.n if a not in more else max(p.n, more[a].n) for a, p in mine.items()]
    return prod(sizes) * prod(p.n for a, p in more.items() if a not in mine)


def _sum(layout: TableLayout, tables: Sequence[SumTable]) -> SumTable:
    """The sum of tables, each with classes and axes that `layout` has or refines."""
    if len(tables) == 1:
        return tables[0]
    values = np.zeros(layout.shape, dtype=np.int64)
    for table in tables:
        values += layout.spread(table.values, table.layout)
    return SumTable(layout, values)


class ShiftedSum:
    """A sum of losses, held as tables that exchange amounts.

    Tables are replaced and never changed in place, so copies may share them.

    Args:
        n_attributes: axes a and a + n_attributes belong to attribute a.

    Attributes:
        exact: whether every loss was added as it is. For lack of room a bound may replace one.
    """

    def __init__(self, n_attributes: int) -> None:
        self._n_attributes = n_attributes
        self._singles: dict[int, SumTable] = {}
        self._tables: list[SumTable] = []
        self._everywhere = 0
        self._stored = 0
        self._next = 0
        self.exact = True

    def copy(self) -> ShiftedSum:
        """A copy that changes by itself."""
        twin = ShiftedSum(self._n_attributes)
        twin._singles, twin._tables = dict(self._singles), list(self._tables)
        twin._everywhere, twin._stored = self._everywhere, self._stored
        twin._next, twin.exact = self._next, self.exact
        return twin

    def state(self) -> State:
        """The input of `from_state`."""
        parts = {
            "singles": state_of_tables(list(self._singles.values())),
            "tables": state_of_tables(self._tables),
        }
        head = {
            "attributes": list(self._singles),
            "everywhere": self._everywhere,
            "stored": self._stored,
            "next": self._next,
            "exact": self.exact,
        }
        return State.of_parts(parts, head)

    @classmethod
    def from_state(cls, state: State, *, n_attributes: int) -> ShiftedSum:
        """The sum from a state; later steps give the same tables."""
        found, head = cls(n_attributes), state.head
        singles = tables_of_state(state.part("singles"))
        found._singles = dict(zip(head["attributes"], singles, strict=True))
        found._tables = tables_of_state(state.part("tables"))
        found._everywhere, found._stored = head["everywhere"], head["stored"]
        found._next, found.exact = head["next"], head["exact"]
        return found

    @property
    def tables(self) -> list[SumTable]:
        """Tables that add up to this sum."""
        everywhere = SumTable(TableLayout((), ()), np.array(self._everywhere, dtype=np.int64))
        return [everywhere, *self._singles.values(), *self._tables]

    @property
    def n_tables(self) -> int:
        """Tables that a round of steps walks over."""
        return len(self._tables)

    @property
    def top(self) -> int:
        """At least the greatest value of the sum."""
        parts = (*self._singles.values(), *self._tables)
        return self._everywhere + sum(t.top for t in parts)

    def top_with(self, loss: LossTable) -> int:
        """A bound of this sum plus `loss`. Changes nothing."""
        i = self._host(loss.layout)
        home = zero_table(loss.layout) if i is None else self._tables[i]
        held = self._held(home.layout)
        replaced = home.top + sum(self._singles[a].top for a in held)
        return self.top - replaced + self._gathered(home, held).top_with(loss)

    def add(self, loss: LossTable, *, shift: bool) -> None:
        """Add a loss. If `shift`, do a step on the table that it was added to."""
        parts = self._parts(loss.layout)
        if len(parts) > 1 and self._is_full:
            loss, self.exact = self._over_one_attribute(loss), False
            parts = self._parts(loss.layout)
        if not parts:
            self._everywhere += loss.top
            return
        for attribute, part in parts.items():
            self._split_single(attribute, part)
        (only, *others) = parts
        if not others and self._refines(only, loss.layout):
            single = self._singles[only].copy()
            single.add(loss)
            self._singles[only] = single
            return
        i = self._add_to_table(loss)
        if shift:
            self._step(i)

    def settle(self, *, n_steps: int) -> None:
        """Do a step on each of the next `n_steps` tables in turn, at most once on each table."""
        for _ in range(min(n_steps, len(self._tables))):
            self._next = (self._next + 1) % len(self._tables)
            self._step(self._next)

    def settle_all(self, *, rounds: int) -> None:
        """Do a step on every table, `rounds` times."""
        for _ in range(rounds):
            for i in range(len(self._tables)):
                self._step(i)

    @property
    def _is_full(self) -> bool:
        return len(self._tables) >= LIMITS.most_tables or self._stored >= LIMITS.most_stored

    def _parts(self, layout: TableLayout) -> Mapping[int, TableLayout]:
        return _parts(layout, self._n_attributes)

    def _split_single(self, attribute: int, part: TableLayout) -> None:
        """Make the attribute's single refine `part`, unless it would become too large."""
        single = self._singles.get(attribute, zero_table())
        joined = single.layout.joined_with(part)
        if joined.n_entries <= LIMITS.most_single or attribute not in self._singles:
            self._singles[attribute] = single.refined(joined)

    def _refines(self, attribute: int, part: TableLayout) -> bool:
        """Whether the attribute's single refines `part`."""
        layout = self._singles[attribute].layout
        return layout.joined_with(part) is layout

    def _add_to_table(self, loss: LossTable) -> int:
        i = self._host(loss.layout)
        if i is None:
            i = len(self._tables)
            self._tables.append(zero_table(loss.layout))
            self._stored += loss.layout.n_entries
        table = self._tables[i].copy()
        table.add(loss)
        self._stored += table.layout.n_entries - self._tables[i].layout.n_entries
        self._tables[i] = table
        return i

    def _host(self, layout: TableLayout) -> int | None:
        """The table with the axes of `layout` that stays smallest with its classes, or None."""
        axes, best, size = set(layout.axes), None, LIMITS.most_table + 1
        for i, table in enumerate(self._tables):
            if axes <= table.layout.by_axis.keys():
                n_entries = table.layout.joined_with(layout).n_entries
                if n_entries < size:
                    best, size = i, n_entries
        return best

    def _held(self, layout: TableLayout) -> dict[int, Values]:
        """Per attribute of `layout`, the greatest entries of its single over the classes there."""
        parts = self._parts(layout)
        return {a: self._singles[a].seen_from(parts[a]) for a in parts if a in self._singles}

    def _gathered(self, table: SumTable, held: Mapping[int, Values]) -> SumTable:
        """The table plus the amounts `held` of the singles."""
        values, parts = table.values.copy(), self._parts(table.layout)
        for attribute, amounts in held.items():
            values += _along(table.layout, parts[attribute], amounts)
        return SumTable(table.layout, values)

    def _step(self, i: int) -> None:
        table = self._tables[i]
        parts = self._parts(table.layout)
        held = {a: v for a, v in self._held(table.layout).items() if self._refines(a, parts[a])}
        gathered = self._gathered(table, held)
        values, singles = gathered.values, {}
        for attribute, amounts in held.items():
            part, single = parts[attribute], self._singles[attribute]
            others = [a for a in table.layout.axes if a not in part.axes]
            handed = gathered.maximum_over(others).values // len(held)
            values = values - _along(table.layout, part, handed)
            change = single.layout.spread(handed - amounts, part)
            singles[attribute] = SumTable(single.layout, single.values + change)
        after = SumTable(table.layout, values)
        if all(_is_moderate(t) for t in (after, *singles.values())):
            self._tables[i] = after
            self._singles.update(singles)

    def _over_one_attribute(self, loss: LossTable) -> LossTable:
        """An upper bound on one attribute alone: the one with the least mean."""
        table = SumTable(loss.layout, loss.values)
        choices = [
            table.maximum_over([a for a in loss.layout.axes if a not in part.axes])
            for part in self._parts(loss.layout).values()
        ]
        best = min(choices, key=lambda t: float(t.values.mean()))
        return LossTable(best.layout, best.values, exact=False)


@lru_cache(maxsize=1 << 13)
def _parts(layout: TableLayout, n_attributes: int) -> Mapping[int, TableLayout]:
    """Per attribute, the part of the layout on its axes."""
    axes: dict[int, list[int]] = {}
    for axis in layout.axes:
        axes.setdefault(axis % n_attributes, []).append(axis)
    return {a: layout.only(mine) for a, mine in axes.items()}


def _along(layout: TableLayout, part: TableLayout, values: Values) -> Values:
    """Values over the axes of `part`, broadcastable to the shape of `layout`."""
    sizes = dict(zip(part.axes, values.shape, strict=True))
    return values.reshape([sizes.get(a, 1) for a in layout.axes])


def _is_moderate(table: SumTable) -> bool:
    return table.top <= LIMITS.most_shifted and int(table.values.min()) >= -LIMITS.most_shifted
