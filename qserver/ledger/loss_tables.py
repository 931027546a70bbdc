"""Integer functions of a cell as tables over classes of the few axes that they depend on.

A checkpoint keeps tables as a few long arrays, and what each row was charged in all (`RowUnits`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import chain, pairwise, product
from math import prod

import numpy as np
from numpy.typing import NDArray

from qserver.ledger.constants import LIMITS
from qserver.query.class_grid import AxisClasses
from qserver.query.linear_query import LinearQuery
from qserver.records.state import State

Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Partition:
    """Classes of an attribute's values as runs: run i ends before `stops[i]` and is of `ids[i]`.

    Partitions compare by identity. An operation that changes nothing returns the same object.

    Args:
        stops: increasing ends of the runs, shape (runs,); the last is the attribute's size.
        ids: class of each run, shape (runs,); classes are numbered 0 .. n - 1 by first occurrence.
        n: number of classes.
    """

    stops: Indices
    ids: Indices
    n: int

    @property
    def size(self) -> int:
        """Number of values of the attribute."""
        return int(self.stops[-1])

    @cached_property
    def first(self) -> Indices:
        """The first value of each class, shape (n,)."""
        starts = np.concatenate([np.zeros(1, dtype=np.intp), self.stops[:-1]])
        out = np.empty(self.n, dtype=np.intp)
        out[self.ids[::-1]] = starts[::-1]
        return out

    @property
    def of_values(self) -> Indices:
        """Class of each value, shape (size,)."""
        return np.repeat(self.ids, np.diff(self.stops, prepend=0))

    def class_of(self, values: Indices) -> Indices:
        """Class of each of `values`."""
        return self.ids[np.searchsorted(self.stops, values, side="right")]

    def restricted_to(self, allowed: Indices) -> Partition:
        """This partition of the values `allowed` (increasing), renumbered 0, 1, ..."""
        _, first, ids = np.unique(self.class_of(allowed), return_index=True, return_inverse=True)
        return _numbered(np.arange(1, len(allowed) + 1), ids, first)


@dataclass(frozen=True, eq=False)
class Meeting:
    """Which classes of two partitions of one attribute share a value.

    Args:
        left, right: the pairs of classes that share a value, sorted by the right one; (pairs,).
    """

    left: Indices
    right: Indices

    @cached_property
    def starts(self) -> Indices:
        """Where the pairs of each right class begin."""
        return np.flatnonzero(np.diff(self.right, prepend=-1))

    @cached_property
    def lefts(self) -> list[Indices]:
        """For each right class, the left classes that share a value with it."""
        return np.split(self.left, self.starts[1:])

    @cached_property
    def runs(self) -> list[list[slice]]:
        """`lefts` as slices of neighbouring classes."""
        left, right = self.left, self.right
        cuts = np.flatnonzero((right[1:] != right[:-1]) | (left[1:] != left[:-1] + 1)) + 1
        ends = [*cuts.tolist(), len(left)]
        firsts = left.tolist()
        found: list[list[slice]] = [[] for _ in range(int(right[-1]) + 1)]
        for start, end in pairwise([0, *ends]):
            found[right[start]].append(slice(firsts[start], firsts[end - 1] + 1))
        return found


@lru_cache(maxsize=1 << 14)
def from_classes(classes: AxisClasses) -> Partition:
    """A query's classes as a partition; equal classes give the same object."""
    stops, ids = np.array(classes.stops, dtype=np.intp), np.array(classes.ids, dtype=np.intp)
    return Partition(stops, ids, classes.n)


@lru_cache(maxsize=1 << 13)
def common(one: Partition, other: Partition) -> Partition:
    """The coarsest partition that refines both: `one` or `other` itself if that one does."""
    if _refines(one, other):
        return one
    stops = _merged(one.stops, other.stops)
    codes = _ids_at(one, stops) * other.n + _ids_at(other, stops)
    pairs, first, ids = np.unique(codes, return_index=True, return_inverse=True)
    if len(pairs) == other.n:
        return other
    return _numbered(stops, ids, first)


def _finest(partitions: Sequence[Partition]) -> Partition:
    """The coarsest partition that refines all, as `common` of two."""
    if len(partitions) == 1:
        return partitions[0]
    stops = np.unique(np.concatenate([one.stops for one in partitions]))
    codes = np.stack([_ids_at(one, stops) for one in partitions])
    _, first, ids = np.unique(codes, axis=1, return_index=True, return_inverse=True)
    return _numbered(stops, ids.ravel(), first)


@lru_cache(maxsize=1 << 13)
def meeting(left: Partition, right: Partition) -> Meeting:
    """The pairs of classes of `left` and `right` that share a value."""
    if _refines(left, right):
        return _meeting_of_finer(left, right)
    stops = _merged(left.stops, right.stops)
    pairs = np.unique(_ids_at(right, stops) * left.n + _ids_at(left, stops))
    return Meeting(pairs % left.n, pairs // left.n)


def _meeting_of_finer(fine: Partition, coarse: Partition) -> Meeting:
    rights = coarse.class_of(fine.first)
    order = np.argsort(rights, kind="stable")
    return Meeting(order, rights[order])


@lru_cache(maxsize=1 << 13)
def parents(coarse: Partition, fine: Partition) -> Indices:
    """For each class of `fine`, which refines `coarse`, the class of `coarse` that holds it."""
    return coarse.class_of(fine.first)


def _refines(fine: Partition, coarse: Partition) -> bool:
    """Whether every class of `fine` lies within one class of `coarse`; needs no sort."""
    if fine is coarse or coarse.n == 1:
        return True
    ends = np.searchsorted(fine.stops, coarse.stops)
    if not np.array_equal(fine.stops[ends], coarse.stops):
        return False
    return np.array_equal(parents(coarse, fine)[fine.ids], _ids_at(coarse, fine.stops))


def _merged(one: Indices, other: Indices) -> Indices:
    """The union of two increasing arrays, increasing."""
    stops = np.sort(np.concatenate([one, other]), kind="stable")
    return stops[np.diff(stops, prepend=-1) > 0]


def _ids_at(partition: Partition, stops: Indices) -> Indices:
    return partition.ids[np.searchsorted(partition.stops, stops)]


def _numbered(stops: Indices, ids: Indices, first: Indices) -> Partition:
    """Classes renumbered by first occurrence, so that those of a range tend to be neighbours."""
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    return Partition(stops.astype(np.intp), rank[ids], len(order))


Values = NDArray[np.int64]


@dataclass(frozen=True)
class TableLayout:
    """The axes of a table in increasing order, with a partition of each."""

    axes: tuple[int, ...]
    partitions: tuple[Partition, ...]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of classes per axis."""
        return tuple(p.n for p in self.partitions)

    @property
    def n_entries(self) -> int:
        """Number of entries of a table with this layout."""
        return prod(self.shape)

    @cached_property
    def by_axis(self) -> dict[int, Partition]:
        """Partition of each axis."""
        return dict(zip(self.axes, self.partitions, strict=True))

    def joined_with(self, other: TableLayout) -> TableLayout:
        """The axes of both, with classes that refine both; `self` if it already does."""
        mine = self.by_axis
        changed = {
            axis: common(mine[axis], partition) if axis in mine else partition
            for axis, partition in other.by_axis.items()
        }
        if all(mine.get(axis) is partition for axis, partition in changed.items()):
            return self
        joined = {**mine, **changed}
        return TableLayout(tuple(sorted(joined)), tuple(joined[a] for a in sorted(joined)))

    def only(self, axes: Sequence[int]) -> TableLayout:
        """The layout of the given axes alone, in increasing order."""
        return TableLayout(tuple(axes), tuple(self.by_axis[a] for a in axes))

    def spread(self, values: Values, source: TableLayout) -> Values:
        """`values` with layout `source`, on the finer classes here; broadcastable to `shape`."""
        for i, axis in enumerate(source.axes):
            coarse, fine = source.partitions[i], self.by_axis[axis]
            if coarse is not fine:
                values = values.take(parents(coarse, fine), axis=i)
        sizes = dict(zip(source.axes, values.shape, strict=True))
        return values.reshape([sizes.get(a, 1) for a in self.axes])


@dataclass(frozen=True, eq=False)
class LossTable:
    """A cell's loss or refund by one row; constant along axes that are not in its layout.

    Args:
        layout: axes and classes.
        values: entries, of the layout's shape: all >= 0, or all <= 0 in a refund.
        exact: whether this is the loss itself; else it is an upper bound.
    """

    layout: TableLayout
    values: Values
    exact: bool = True

    @cached_property
    def blocks(self) -> list[tuple[int, ...]] | None:
        """Indices of the non-zero entries, or None if there are more than `most_blocks`."""
        if np.count_nonzero(self.values) > LIMITS.most_blocks:
            return None
        return [tuple(map(int, index)) for index in np.argwhere(self.values)]

    @cached_property
    def top(self) -> int:
        """The greatest entry."""
        return int(self.values.max())

    @cached_property
    def is_refund(self) -> bool:
        """Whether an entry is negative."""
        return bool((self.values < 0).any())


class SumTable:
    """A sum of losses.

    Args:
        top: the greatest entry, if it is known.
    """

    def __init__(self, layout: TableLayout, values: Values, *, top: int | None = None) -> None:
        self.layout = layout
        self.values = values
        self._top = top
        self._top_values: dict[int, int] | None = None

    @property
    def top(self) -> int:
        """The greatest entry."""
        if self._top is None:
            self._top = int(self.values.max())
        return self._top

    @property
    def top_values(self) -> dict[int, int]:
        """Per axis, a value of the cell with the greatest entry."""
        if self._top_values is None:
            place = np.unravel_index(int(self.values.argmax()), self.layout.shape)
            of_axis = zip(self.layout.by_axis.items(), place, strict=True)
            self._top_values = {axis: int(p.first[i]) for (axis, p), i in of_axis}
        return self._top_values

    def copy(self) -> SumTable:
        """A copy that changes by itself."""
        twin = SumTable(self.layout, self.values.copy())
        twin._top = self._top
        return twin

    def refined(self, layout: TableLayout) -> SumTable:
        """The same function on finer classes, possibly of more axes; `self` if nothing changes."""
        if layout is self.layout:
            return self
        values = layout.spread(self.values, self.layout)
        # A spread that splits a class is a copy already; a second one takes longer than the first.
        if values.shape != layout.shape or np.may_share_memory(values, self.values):
            values = np.broadcast_to(values, layout.shape).copy()
        finer = SumTable(layout, values)
        finer._top = self._top
        return finer

    def add(self, loss: LossTable) -> None:
        """Add a loss, splitting classes as needed."""
        finer = self.refined(self.layout.joined_with(loss.layout))
        self.layout, self.values, self._top_values = finer.layout, finer.values, None
        if not self.values.flags.writeable:
            self.values = self.values.copy()
        if loss.blocks is None:
            self.values += self.layout.spread(loss.values, loss.layout)
            self._top = None
            return
        top, met = 0 if loss.is_refund else self.top, _met(self.layout, loss.layout)
        for index in loss.blocks:
            amount = int(loss.values[index])
            for box in _boxes(self.layout, met, index):
                raised = self.values[box] + amount
                self.values[box] = raised
                top = max(top, int(raised.max()))
        # A refund may have lowered the greatest entry.
        self._top = None if loss.is_refund else top

    def top_with(self, loss: LossTable) -> int:
        """The greatest entry of this table plus `loss`. Changes nothing.

        A class here and a class of the loss hold a common cell exactly if they share a value on
        every axis. So no class needs to be split.
        """
        if loss.blocks is None or loss.is_refund:
            return int((self.seen_from(loss.layout) + loss.values).max())
        tops, met = [self.top], _met(self.layout, loss.layout)
        for index in loss.blocks:
            amount = int(loss.values[index])
            boxes = _boxes(self.layout, met, index)
            tops += [int(self.values[box].max()) + amount for box in boxes]
        return max(tops)

    def maximum_over(self, axes: Sequence[int]) -> SumTable:
        """The greatest entry along `axes`, as a table over the others."""
        positions = [i for i, a in enumerate(self.layout.axes) if a in axes]
        if not positions:
            return self
        values = self.values
        # One by one, outer axes first: the remaining entries stay contiguous in memory.
        for n_gone, i in enumerate(positions):
            values = np.maximum.reduce(values, axis=i - n_gone)
        kept = [a for a in self.layout.axes if a not in axes]
        return SumTable(self.layout.only(kept), np.asarray(values))

    def restricted_to(self, where: Mapping[int, Indices]) -> SumTable:
        """The function on the cells with a value from `where` on each axis of it."""
        values, partitions = self.values, list(self.layout.partitions)
        for i, axis in enumerate(self.layout.axes):
            if axis in where:
                allowed = where[axis]
                partitions[i] = partitions[i].restricted_to(allowed)
                inside = self.layout.partitions[i].class_of(allowed[partitions[i].first])
                values = values.take(inside, axis=i)
        return SumTable(TableLayout(self.layout.axes, tuple(partitions)), values)

    def seen_from(self, layout: TableLayout) -> Values:
        """Per class of `layout`, the greatest entry over classes that meet it; broadcastable."""
        seen = self.maximum_over([a for a in self.layout.axes if a not in layout.by_axis])
        values = seen.values
        for i, axis in enumerate(seen.layout.axes):
            if seen.layout.partitions[i] is layout.by_axis[axis]:
                continue
            met = meeting(seen.layout.partitions[i], layout.by_axis[axis])
            values = np.maximum.reduceat(values.take(met.left, axis=i), met.starts, axis=i)
        sizes = dict(zip(seen.layout.axes, values.shape, strict=True))
        return values.reshape([sizes.get(a, 1) for a in layout.axes])


def total(tables: Sequence[SumTable]) -> SumTable:
    """The sum of tables."""
    layout = TableLayout((), ())
    for table in tables:
        layout = layout.joined_with(table.layout)
    values = np.zeros(layout.shape, dtype=np.int64)
    for table in tables:
        values += layout.spread(table.values, table.layout)
    return SumTable(layout, values)


def together(losses: Sequence[LossTable]) -> list[LossTable]:
    """Losses of the same axes as one while that is no larger than a table may grow; not refunds.

    Many are added up much quicker so than one by one to a table that is split ever further.
    """
    groups: dict[object, list[LossTable]] = {}
    for i, loss in enumerate(losses):
        groups.setdefault(i if loss.is_refund else loss.layout.axes, []).append(loss)
    return [one for group in groups.values() for one in _joined_losses(group)]


def _joined_losses(group: Sequence[LossTable]) -> list[LossTable]:
    """The losses, all of the same axes, as few."""
    if len(group) == 1:
        return list(group)
    columns = zip(*(loss.layout.partitions for loss in group), strict=True)
    finest = tuple(_finest(list(dict.fromkeys(column))) for column in columns)
    layout = TableLayout(group[0].layout.axes, finest)
    if layout.n_entries > LIMITS.most_table:
        half = len(group) // 2
        return [*_joined_losses(group[:half]), *_joined_losses(group[half:])]
    values = np.zeros(layout.shape, dtype=np.int64)
    meet = cache(_meeting_of_finer)
    for loss in group:
        if loss.blocks is None:
            values += layout.spread(loss.values, loss.layout)
            continue
        found = map(meet, finest, loss.layout.partitions)
        met = dict(zip(layout.axes, enumerate(found), strict=True))
        for index in loss.blocks:
            for box in _boxes(layout, met, index):
                values[box] += loss.values[index]
    return [LossTable(layout, values, all(loss.exact for loss in group))]


def zero_table(layout: TableLayout = TableLayout((), ())) -> SumTable:
    """The function that is 0 in every cell."""
    return SumTable(layout, np.zeros(layout.shape, dtype=np.int64))


_Met = Mapping[int, tuple[int, Meeting]]
"""Per axis of both a table and a loss, its place in the loss, and which classes meet."""


def _met(layout: TableLayout, loss: TableLayout) -> _Met:
    mine, places = layout.by_axis, enumerate(loss.by_axis.items())
    return {a: (place, meeting(mine[a], part)) for place, (a, part) in places if a in mine}


def _boxes(
    layout: TableLayout, met: _Met, index: tuple[int, ...]
) -> Iterator[tuple[slice | Indices, ...]]:
    """Indices into a table of layout `layout` for all entries that meet one entry of a loss.

    Neighbouring classes are slices, so that numpy copies nothing.
    """
    entry = {axis: (found, index[place]) for axis, (place, found) in met.items()}
    runs = [entry[a][0].runs[entry[a][1]] if a in entry else [slice(None)] for a in layout.axes]
    if all(len(r) <= LIMITS.most_runs for r in runs):
        yield from product(*runs)
        return
    chosen = [
        entry[axis][0].lefts[entry[axis][1]] if axis in entry else np.arange(partition.n)
        for axis, partition in layout.by_axis.items()
    ]
    yield np.ix_(*chosen)


class RowUnits:
    """Units by row, in the order of the rows' first payments.

    Rows are kept as text: they are seldom wanted again, and a restart need not read them.
    """

    def __init__(self) -> None:
        self._units: dict[str, int] = {}
        self._sizes: tuple[int, ...] = ()

    @classmethod
    def from_state(cls, state: State, sizes: Sequence[int]) -> RowUnits:
        """The units from a state."""
        found, text = cls(), state.arrays["rows"].tobytes().decode()
        lines = text.split("\n") if text else []
        found._units = dict(zip(lines, state.arrays["units"].tolist(), strict=True))
        found._sizes = tuple(sizes)
        return found

    def state(self) -> State:
        """The input of `from_state`."""
        text = np.frombuffer("\n".join(self._units).encode(), dtype=np.uint8)
        return State({}, {"rows": text, "units": np.fromiter(self._units.values(), np.int64)})

    def copy(self) -> RowUnits:
        """A copy that changes by itself."""
        found = RowUnits()
        found._units, found._sizes = dict(self._units), self._sizes
        return found

    def add(self, row: LinearQuery, units: int) -> None:
        """Add a payment."""
        self._sizes, line = row.sizes, _line(row)
        self._units[line] = self._units.get(line, 0) + units

    def of(self, row: LinearQuery) -> int:
        """The units of one row."""
        return self._units.get(_line(row), 0)

    def __len__(self) -> int:
        return len(self._units)

    def __iter__(self) -> Iterator[tuple[LinearQuery, int]]:
        for line, units in self._units.items():
            yield LinearQuery.later(self._sizes, json.loads(line)), units


def _line(row: LinearQuery) -> str:
    return json.dumps(row.to_document())


def state_of_tables(tables: Sequence[SumTable]) -> State:
    """Axes, partitions and entries of these tables; shared partitions are kept once."""
    partitions = {id(p): p for t in tables for p in t.layout.partitions}
    number = {key: i for i, key in enumerate(partitions)}
    found = list(partitions.values())
    return State(
        {},
        {
            "classes": np.array([p.n for p in found], dtype=np.int64),
            "runs": _ends(len(p.stops) for p in found),
            "stops": _joined([p.stops for p in found]),
            "ids": _joined([p.ids for p in found]),
            "widths": _ends(len(t.layout.axes) for t in tables),
            "axes": _whole(a for t in tables for a in t.layout.axes),
            "partitions": _whole(number[id(p)] for t in tables for p in t.layout.partitions),
            "entries": _ends(t.values.size for t in tables),
            "values": _joined([t.values.ravel() for t in tables]),
            "tops": _whole(t.top for t in tables),
        },
    )


def tables_of_state(state: State) -> list[SumTable]:
    """The tables from a state; their entries are not copied."""
    arrays = state.arrays
    partitions = [
        Partition(stops, ids, n)
        for stops, ids, n in zip(
            _parts(arrays["stops"], arrays["runs"]),
            _parts(arrays["ids"], arrays["runs"]),
            arrays["classes"].tolist(),
            strict=True,
        )
    ]
    columns = zip(
        _parts(arrays["axes"], arrays["widths"]),
        _parts(arrays["partitions"], arrays["widths"]),
        _parts(arrays["values"], arrays["entries"]),
        arrays["tops"].tolist(),
        strict=True,
    )
    layouts: dict[tuple[bytes, bytes], TableLayout] = {}
    found = []
    for axes, numbers, values, top in columns:
        key = axes.tobytes(), numbers.tobytes()
        if key not in layouts:
            chosen = tuple(partitions[i] for i in numbers.tolist())
            layouts[key] = TableLayout(tuple(axes.tolist()), chosen)
        layout = layouts[key]
        found.append(SumTable(layout, values.reshape(layout.shape), top=top))
    return found


def _ends(lengths: Iterator[int] | Sequence[int]) -> NDArray[np.int64]:
    return np.cumsum(_whole(chain([0], lengths)))


def _whole(values: Iterator[int] | Sequence[int]) -> NDArray[np.int64]:
    return np.fromiter(values, dtype=np.int64)


def _joined(arrays: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(0, dtype=np.int64), *arrays])


def _parts(values: NDArray[np.int64], ends: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    places = ends.tolist()
    return (values[a:b] for a, b in pairwise(places))
