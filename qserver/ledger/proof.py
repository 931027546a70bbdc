"""A proof that no cell passes a level: branch and bound over a sum of tables.

The search fixes a class on one axis after the other. Mini-buckets, made once, bound how much the
remaining axes can still add: tables that end in the same axis are added up in groups, as large as
there is room, and maximised over it. A branch whose bound is at most the level is closed. If every
branch closes, no value passes the level, and the greatest closing bound holds for all of them.

References:
    Kask and Dechter (2001), "A general scheme for automatic generation of search heuristics from
    specification dependencies": mini-buckets that guide branch and bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from qserver.ledger.classes import Indices, Partition, common, parents
from qserver.ledger.limits import LIMITS
from qserver.ledger.loss_tables import SumTable, TableLayout, Values, total


def greatest_within(
    tables: Sequence[SumTable], *, level: int, max_nodes: int = LIMITS.proof_nodes
) -> int | None:
    """A bound of at most `level` on the greatest value of the sum of `tables`, if one is proven.

    Args:
        tables: at least one; entries of any sign.
        level: the most that a value may be.
        max_nodes: steps before the search gives up.

    Returns:
        A bound between the greatest value and `level`; None if some value passes the level or the
        search gave up.
    """
    scopes = _merged(tables)
    if scopes is None:
        return None
    classes = _common_classes(scopes)
    everywhere = sum(int(t.values) for t in scopes if not t.layout.axes)
    search = _BranchAndBound(_levels(scopes, classes), level, max_nodes)
    return search.bound if search.closes(everywhere) else None


@dataclass(frozen=True, eq=False)
class _Factor:
    """A table with its axes in the order of the search.

    Args:
        places: place of each axis in that order.
        values: the entries, on the table's classes.
        seen: per axis, the table's class of each common class.
    """

    places: tuple[int, ...]
    values: Values
    seen: tuple[Indices, ...]

    def along(self, cell: Sequence[int], place: int) -> Values:
        """Values over the common classes of the axis at `place`, the earlier axes fixed."""
        settled = [p for p in self.places if p < place]
        index = tuple(int(seen[cell[p]]) for p, seen in zip(settled, self.seen, strict=False))
        found: Values = self.values[index]
        return found if len(settled) == len(self.places) else found[self.seen[-1]]


@dataclass(frozen=True, eq=False)
class _AxisStep:
    """One axis of the search.

    Args:
        size: number of common classes of the axis.
        here: tables of which this is the last axis.
        ahead: bounds on later axes: maximised tables over this axis and earlier ones.
    """

    size: int
    here: tuple[_Factor, ...]
    ahead: tuple[_Factor, ...]


@dataclass
class _BranchAndBound:
    """One depth-first search by branch and bound.

    Attributes:
        bound: the greatest bound that closed a branch.
    """

    levels: Sequence[_AxisStep]
    level: int
    nodes_left: int
    bound: int = field(init=False, default=-(1 << 62))

    def closes(self, everywhere: int) -> bool:
        """Whether every branch closed at or below the level.

        Args:
            everywhere: constant part of the sum.
        """
        return self._closes(0, everywhere, [0] * len(self.levels))

    def _closes(self, place: int, value: int, cell: list[int]) -> bool:
        if place == len(self.levels):
            self.bound = max(self.bound, value)
            return value <= self.level
        self.nodes_left -= 1
        if self.nodes_left < 0:
            return False
        here = self.levels[place]
        settled = np.full(here.size, value, dtype=np.int64)
        for factor in here.here:
            settled = settled + factor.along(cell, place)
        bounds = settled.copy()
        for factor in here.ahead:
            bounds = bounds + factor.along(cell, place)
        for choice in np.argsort(-bounds, kind="stable").tolist():
            if bounds[choice] <= self.level:
                self.bound = max(self.bound, int(bounds[choice]))
                return True
            cell[place] = choice
            if not self._closes(place + 1, int(settled[choice]), cell):
                return False
        return True


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
        merged.append(total(same))
    return merged


def _common_classes(tables: Sequence[SumTable]) -> dict[int, Partition]:
    joined: dict[int, Partition] = {}
    for table in tables:
        for axis, partition in table.layout.by_axis.items():
            joined[axis] = common(joined[axis], partition) if axis in joined else partition
    return joined


def _levels(tables: Sequence[SumTable], classes: Mapping[int, Partition]) -> list[_AxisStep]:
    """The axes of a search in order, the heaviest first."""
    weight = {
        axis: sum(axis in t.layout.by_axis for t in tables) * np.log1p(p.n)
        for axis, p in classes.items()
    }
    order = sorted(classes, key=lambda a: (-weight[a], a))
    place = {axis: i for i, axis in enumerate(order)}
    buckets: list[list[SumTable]] = [[] for _ in order]
    for table in tables:
        if table.layout.axes:
            buckets[max(place[a] for a in table.layout.axes)].append(table)
    messages = _messages(buckets, place)
    levels = []
    for i, axis in enumerate(order):
        ahead = [
            m for source, m in messages if source > i and all(place[a] <= i for a in m.layout.axes)
        ]
        levels.append(
            _AxisStep(
                classes[axis].n,
                tuple(_factor(t, place, classes) for t in buckets[i]),
                tuple(_factor(t, place, classes) for t in ahead),
            )
        )
    return levels


def _messages(
    buckets: Sequence[Sequence[SumTable]], place: Mapping[int, int]
) -> list[tuple[int, SumTable]]:
    """Mini-buckets maximised over their last axis, with its place."""
    waiting = [list(bucket) for bucket in buckets]
    found: list[tuple[int, SumTable]] = []
    axes = sorted(place, key=place.__getitem__)
    for i in reversed(range(len(waiting))):
        for group in _groups(waiting[i]):
            message = total(group).maximum_over([axes[i]])
            found.append((i, message))
            if message.layout.axes:
                waiting[max(place[a] for a in message.layout.axes)].append(message)
    return found


def _groups(tables: Sequence[SumTable]) -> list[list[SumTable]]:
    """First fit, the largest first."""
    found: list[list[SumTable]] = []
    layouts: list[TableLayout] = []
    for table in sorted(tables, key=lambda t: -t.layout.n_entries):
        for k, layout in enumerate(layouts):
            joined = layout.joined_with(table.layout)
            if joined is layout or joined.n_entries <= LIMITS.proof_group:
                layouts[k] = joined
                found[k].append(table)
                break
        else:
            layouts.append(table.layout)
            found.append([table])
    return found


def _factor(table: SumTable, place: Mapping[int, int], classes: Mapping[int, Partition]) -> _Factor:
    axes = sorted(table.layout.axes, key=place.__getitem__)
    values = np.transpose(table.values, [table.layout.axes.index(a) for a in axes])
    seen = tuple(parents(table.layout.by_axis[a], classes[a]) for a in axes)
    return _Factor(tuple(place[a] for a in axes), values, seen)
