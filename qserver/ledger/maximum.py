"""The greatest loss of any cell, or pair of cells, from a growing list of charged rows.

The sum of all losses is one dense table while the product of all classes has at most 2^20 entries;
the maximum is then exact. A larger sum is kept as one table per row. Bucket elimination is still
exact as long as no bucket must be split: the queries then touch a chain or a tree of attributes.
Otherwise shifted tables (`branch_and_bound`) give an upper bound.

*Bucket elimination.* For one axis after the other, the tables that mention it are added up, and
their sum is replaced by its greatest entries along the axis: a table over the other axes. The
result is exact if every such sum is formed whole. A sum that would be too large is split into
groups (mini-buckets), and each group is maximised alone. This can only raise the result.

References:
    Dechter (1999), "Bucket elimination". Dechter and Rish (2003), "Mini-buckets".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from qserver.ledger.branch_and_bound import ShiftedSum, greatest, outside
from qserver.ledger.constants import LIMITS
from qserver.ledger.loss import Shape
from qserver.ledger.loss_tables import (
    Indices,
    LossTable,
    Partition,
    RowUnits,
    SumTable,
    TableLayout,
    Values,
    common,
    state_of_tables,
    tables_of_state,
    together,
    total,
    zero_table,
)
from qserver.ledger.one_person import Units, along, greatest_along
from qserver.query.linear_query import LinearQuery
from qserver.records.state import State


@dataclass(frozen=True, eq=False)
class _Group:
    """Tables to be added up, and the layout of their sum."""

    layout: TableLayout
    tables: list[SumTable]


def eliminate(
    tables: Sequence[SumTable], *, max_entries: int, kept: Collection[int] = ()
) -> SumTable:
    """The greatest value of the sum of `tables` over all axes but `kept`, or an upper bound.

    Args:
        tables: at least one.
        max_entries: most entries of a group, unless one table alone has more.
        kept: axes that the result may still depend on.

    Returns:
        A table over the kept axes. It is exact if `is_narrow` holds.
    """
    left, order = list(tables), _Order.of(tables)
    while (axis := order.next_axis(kept)) is not None:
        bucket = [t for t in left if axis in t.layout.by_axis]
        left = [t for t in left if axis not in t.layout.by_axis]
        groups = _groups(bucket, max_entries)
        sums = (g.tables[0] if len(g.tables) == 1 else total(g.tables) for g in groups)
        left += [one.maximum_over([axis]) for one in sums]
        order.drop(axis, None if len(groups) == 1 else [t.layout.axes for t in left])
    return total(left)


def is_narrow(tables: Sequence[SumTable], *, max_entries: int, kept: Collection[int] = ()) -> bool:
    """Whether `eliminate` splits no group, judged from axes and numbers of classes alone."""
    order = _Order.of(tables)
    while (axis := order.next_axis(kept)) is not None:
        if order.sizes[axis] > max_entries:
            return False
        order.drop(axis, None)
    return prod(order.classes[axis] for axis in order.sizes) <= max_entries


@dataclass
class _Order:
    """The order in which axes are eliminated: the one with the smallest bucket goes next.

    Args:
        classes: number of classes per axis after all tables are refined to one partition.
        buckets: per axis that is left, the axes of all tables that mention it.
        sizes: entries of these tables' sum.
    """

    classes: Mapping[int, int]
    buckets: dict[int, set[int]]
    sizes: dict[int, int]

    @classmethod
    def of(cls, tables: Sequence[SumTable]) -> _Order:
        """The order for these tables."""
        joined: dict[int, Partition] = {}
        for table in tables:
            for axis, partition in table.layout.by_axis.items():
                joined[axis] = common(joined[axis], partition) if axis in joined else partition
        found = cls({axis: partition.n for axis, partition in joined.items()}, {}, {})
        found._begin(t.layout.axes for t in tables)
        return found

    def next_axis(self, kept: Collection[int]) -> int | None:
        """The axis with the smallest bucket, or None if only kept axes remain."""
        choice = self.sizes.keys() - kept
        return min(choice, key=lambda a: (self.sizes[a], a)) if choice else None

    def drop(self, axis: int, scopes: Iterable[tuple[int, ...]] | None) -> None:
        """Drop an axis.

        Args:
            scopes: the axes of each table that is left; None if the bucket became one table.
        """
        if scopes is not None:
            self._begin(scopes)
            return
        del self.sizes[axis]
        bucket = self.buckets.pop(axis) - {axis}
        for other in bucket:
            self.buckets[other] = (self.buckets[other] | bucket) - {axis}
            self.sizes[other] = self._size(other)

    def _begin(self, scopes: Iterable[tuple[int, ...]]) -> None:
        self.buckets = {}
        for scope in set(scopes):
            for axis in scope:
                self.buckets.setdefault(axis, set()).update(scope)
        self.sizes = {axis: self._size(axis) for axis in self.buckets}

    def _size(self, axis: int) -> int:
        return prod(self.classes[a] for a in self.buckets[axis])


def _groups(tables: Sequence[SumTable], max_entries: int) -> list[_Group]:
    """Groups by first fit, the largest table first: a table joins one that contains its axes."""
    groups: list[_Group] = []
    for table in sorted(tables, key=lambda t: -t.layout.n_entries):
        for i, group in enumerate(groups):
            layout = group.layout.joined_with(table.layout)
            if layout is group.layout or layout.n_entries <= max_entries:
                groups[i] = _Group(layout, [*group.tables, table])
                break
        else:
            groups.append(_Group(table.layout, [table]))
    return groups


Tabulate = Callable[[LinearQuery], tuple[Shape, ...]]


@dataclass(frozen=True)
class RowPayment:
    """A row with its alpha times the records per person, in units; a refund is negative."""

    row: LinearQuery
    units: int


class Maximum:
    """The greatest sum of losses less refunds: exact while it can be, then an upper bound.

    Args:
        tabulate: the loss of a row per unit of alpha, over cells or over pairs of cells.
        n_attributes: attributes of the domain; over pairs, axes a and a + n_attributes are both
            attribute a.
    """

    def __init__(self, tabulate: Tabulate, *, n_attributes: int) -> None:
        self._tabulate = tabulate
        self._n_attributes = n_attributes
        self._units = RowUnits()
        self._exact_losses = True
        self._dense: SumTable | None = zero_table()
        self._sum = ShiftedSum(n_attributes)
        self._narrow = True
        self._top = 0
        self._by_value: dict[int, Units] = {}
        self._by_axes: dict[tuple[int, ...], SumTable | None] = {}

    def copy(self) -> Maximum:
        """A copy that changes by itself."""
        twin = Maximum(self._tabulate, n_attributes=self._n_attributes)
        twin._units, twin._exact_losses = self._units.copy(), self._exact_losses
        twin._dense = self._dense and self._dense.copy()
        twin._sum, twin._narrow = self._sum.copy(), self._narrow
        twin._top = self._top
        return twin

    def state(self) -> State:
        """The input of `from_state`."""
        dense = [] if self._dense is None else [self._dense]
        parts = {
            "units": self._units.state(),
            "dense": state_of_tables(dense),
            "sum": self._sum.state(),
        }
        head = {"narrow": self._narrow, "exact": self._exact_losses, "top": self._top}
        return State.of_parts(parts, head)

    @classmethod
    def from_state(cls, state: State, tabulate: Tabulate, *, sizes: Sequence[int]) -> Maximum:
        """The maximum from a state; later additions give the same figures."""
        found, head = cls(tabulate, n_attributes=len(sizes)), state.head
        found._units = RowUnits.from_state(state.part("units"), sizes)
        found._dense = next(iter(tables_of_state(state.part("dense"))), None)
        found._sum = ShiftedSum.from_state(state.part("sum"), n_attributes=len(sizes))
        found._narrow, found._exact_losses = head["narrow"], head["exact"]
        found._top = head["top"]
        return found

    @property
    def top(self) -> int:
        """At least the greatest sum of losses, in units."""
        return self._top

    @property
    def exact(self) -> bool:
        """Whether some cell or pair attains `top`, up to the rounding of single losses."""
        bounded = not (self._exact_losses and self._sum.exact)
        return not bounded and (self._dense is not None or self._narrow)

    @property
    def is_dense(self) -> bool:
        """Whether the whole sum is written down, so that any part of it has its exact maximum."""
        return self._dense is not None and self._exact_losses

    @property
    def n_shifted(self) -> int:
        """Tables of the upper bound; 0 while the greatest sum is found exactly."""
        return 0 if self._narrow else self._sum.n_tables

    def add(self, payments: Sequence[RowPayment]) -> None:
        """Add the losses of these rows, and take back the refunds."""
        self._by_value.clear()
        self._by_axes.clear()
        is_first = not len(self._units)
        for payment in payments:
            self._units.add(payment.row, payment.units)
        losses = self._losses(payments)
        self._exact_losses = self._exact_losses and all(map(self._is_exact, payments))
        if self._narrow:
            losses = together(losses)
        if self._dense is not None:
            layout = self._dense.layout
            for loss in losses:
                layout = layout.joined_with(loss.layout)
            if layout.n_entries <= LIMITS.most_dense:
                self._add_dense(self._dense.refined(layout), losses)
                return
            self._dense = None
            if not is_first:
                losses = together(self._losses(self._paid))
        self._add_to_sum(losses)

    def top_with(self, payments: Sequence[RowPayment]) -> int:
        """A bound of the greatest sum with these payments added. Changes nothing.

        Without a dense sum only some of many refunds count, those of the rows that were charged
        most. Then `add` may give a lower maximum.
        """
        rises = [p for p in payments if p.units > 0]
        refunds = [p for p in payments if p.units < 0]
        if not refunds:
            return self._top_with_rises(rises)
        twin = self.copy() if rises or self._dense is None else self
        if rises:
            twin.add(rises)
        if twin._dense is not None:
            return twin._dense_top_less(refunds)
        refunds.sort(key=lambda p: -self._units.of(p.row))
        twin.add(refunds[: LIMITS.most_priced])
        return twin.top

    def searched_with(
        self,
        payments: Sequence[RowPayment],
        *,
        enough: int,
        where: Mapping[int, Indices],
        most: int = LIMITS.int64_safe,
    ) -> int | None:
        """A bound of the greatest sum with these payments added, in units; mostly the sum itself.

        Where `top_with` is a bound, a slower search finds a lower one. Changes nothing.

        Args:
            enough: a level below which nobody needs to know more.
            where: per axis the values of the cells that matter; an axis left out allows all.
            most: a level above which nobody needs to know more.

        Returns:
            None if `top_with` is exact, if the tables are too large for a search, or if the sum
            passes `most`.
        """
        losses, held = self._losses(payments), self._tables
        if self._dense is not None:
            layout = self._dense.layout
            for loss in losses:
                layout = layout.joined_with(loss.layout)
            if layout.n_entries <= LIMITS.most_dense:
                return None
            # A search over the losses takes less than one over the large table of their sum.
            held, losses = [], self._losses([*self._paid, *payments])
        tables = [*held, *(SumTable(loss.layout, loss.values) for loss in losses)]
        return greatest([outside(table, where) for table in tables], enough=enough, most=most)

    def _top_with_rises(self, payments: Sequence[RowPayment]) -> int:
        losses = self._losses(payments)
        if not losses:
            return self._top
        if (found := self._exact_top_with(losses)) is not None:
            return found
        if len(losses) == 1:
            return self._sum.top_with(losses[0])
        twin = self.copy()
        twin.add(payments)
        return twin.top

    def _exact_top_with(self, losses: Sequence[LossTable]) -> int | None:
        """The greatest sum with these losses; None where `add` would only bound it.

        No class of the whole sum is split. One loss is priced exactly while the sum is dense.
        """
        layout, added, most = TableLayout((), ()), self._sum, LIMITS.most_eliminated
        for loss in losses:
            layout = layout.joined_with(loss.layout)
        if self._dense is not None:
            whole = self._dense.layout.joined_with(layout)
            if len(losses) > 1 and whole.n_entries > LIMITS.most_dense:
                return None
        elif not self._narrow:
            return None
        else:
            # Added to a copy, so that this is exact where `add` will be.
            added = added.copy()
            for loss in together(losses):
                added.add(loss, shift=False)
            if not added.exact or not is_narrow(added.tables, max_entries=most):
                return None
        is_small = self._dense is not None or layout.n_entries <= most
        if not is_small or (seen := self._seen_by(layout.axes)) is None:
            return eliminate(added.tables, max_entries=most).top
        return int(_seen_with(seen, layout, losses).max())

    def _seen_by(self, axes: tuple[int, ...]) -> SumTable | None:
        """The greatest sum over all other axes, a table over these; None if it is not exact.

        It is kept until a charge is added: it prices any number of rows on these axes.
        """
        if axes not in self._by_axes:
            found, most = None, LIMITS.most_eliminated
            tables = [*self._tables, zero_table()]
            if self._dense is not None:
                found = self._dense.maximum_over(
                    [a for a in self._dense.layout.axes if a not in axes]
                )
            elif is_narrow(tables, max_entries=most, kept=axes):
                found = eliminate(tables, max_entries=most, kept=axes)
            kept = [found, *self._by_axes.values()]
            if sum(table.layout.n_entries for table in kept if table is not None) > most:
                self._by_axes.clear()
            self._by_axes[axes] = found
        return self._by_axes[axes]

    def _dense_top_less(self, refunds: Sequence[RowPayment]) -> int:
        """The greatest entry less these refunds; applies only refunds of the greatest cells."""
        twin, left = self, list(refunds)
        for _ in range(LIMITS.most_rounds):
            if twin._dense is None:
                break
            cell = [0] * self._n_attributes
            for axis, value in twin._dense.top_values.items():
                cell[axis] = value
            due = [p for p in left if p.row.value_at(cell)]
            if not due:
                return twin.top
            left = [p for p in left if not p.row.value_at(cell)]
            twin = self.copy() if twin is self else twin
            twin.add(due)
        twin.add(left)
        return twin.top

    def top_where(self, where: Mapping[int, Indices]) -> int:
        """At least the greatest sum over the cells with a value from `where` on each axis of it."""
        tables = [t.restricted_to(where) for t in self._tables]
        return min(self._top, eliminate(tables, max_entries=self._max_group).top)

    def top_along(self, axis: int) -> SumTable:
        """At least the greatest sum per class of one axis."""
        tables = [*self._tables, zero_table()]
        return eliminate(tables, max_entries=self._max_group, kept=(axis,))

    def by_value(
        self, axis: int, *, n_values: int, where: Mapping[int, Indices] | None = None
    ) -> Units:
        """At least the greatest sum at each of `n_values` values of one axis.

        Args:
            where: as for `top_where`; of a restricted axis only the allowed values are counted.
        """
        if where:
            tables = [*(t.restricted_to(where) for t in self._tables), zero_table()]
            found = eliminate(tables, max_entries=self._max_group, kept=(axis,))
            return np.minimum(along(found, axis, n_values=n_values), self._top)
        if axis not in self._by_value:
            tops = along(self.top_along(axis), axis, n_values=n_values)
            self._by_value[axis] = np.minimum(tops, self._top)
        return self._by_value[axis]

    def by_value_with(self, axis: int, payments: Sequence[RowPayment], *, n_values: int) -> Units:
        """`by_value` with these payments added. Changes nothing.

        Where the sum is only bounded, refunds do not count and `add` may give less.
        """
        if not payments:
            return self.by_value(axis, n_values=n_values)
        losses = self._losses(payments)
        if self._dense is not None:
            layout = self._dense.layout
            seen = layout.only([axis]) if axis in layout.by_axis else TableLayout((), ())
            for loss in losses:
                seen = seen.joined_with(loss.layout)
            if seen.n_entries <= LIMITS.most_dense:
                values = _seen_with(self._dense, seen, losses)
                whole = SumTable(seen, np.broadcast_to(values, seen.shape))
                return along(whole, axis, n_values=n_values)
        elif not self._narrow:
            rises = [loss for loss in losses if not loss.is_refund]
            more = greatest_along(rises, axis, n_values=n_values)
            return np.asarray(self.by_value(axis, n_values=n_values) + more)
        twin = self.copy()
        twin.add(payments)
        return twin.by_value(axis, n_values=n_values)

    def by_two(self, axis: int, other: int, *, sizes: Sequence[int]) -> NDArray[np.int64]:
        """At least the greatest sum at each value of `axis` and, along columns, of `other`."""
        tables = [*self._tables, zero_table()]
        found = eliminate(tables, max_entries=self._max_group, kept=(axis, other))
        values = found.values
        for place, kept in enumerate(found.layout.axes):
            values = values.take(found.layout.by_axis[kept].of_values, axis=place)
        shape = {kept: sizes[kept] for kept in found.layout.axes}
        values = values.reshape([shape.get(a, 1) for a in sorted((axis, other))])
        values = np.broadcast_to(values, [sizes[a] for a in sorted((axis, other))])
        return values if axis < other else values.T

    @property
    def _tables(self) -> Sequence[SumTable]:
        return self._sum.tables if self._dense is None else [self._dense]

    @property
    def _paid(self) -> list[RowPayment]:
        """What was paid for each row in all."""
        return [RowPayment(row, units) for row, units in self._units]

    @property
    def _max_group(self) -> int:
        return LIMITS.most_eliminated if self._narrow else LIMITS.split_group

    def _losses(self, payments: Iterable[RowPayment]) -> list[LossTable]:
        # A loss that is only bounded is not refunded: the bound may exceed the loss.
        return [
            shape.loss(payment.units)
            for payment in payments
            for shape in self._tabulate(payment.row)
            if shape.exact or payment.units > 0
        ]

    def _is_exact(self, payment: RowPayment) -> bool:
        return all(shape.exact for shape in self._tabulate(payment.row))

    def _add_dense(self, table: SumTable, losses: Sequence[LossTable]) -> None:
        for loss in losses:
            table.add(loss)
        self._dense, self._top = table, table.top

    def _add_to_sum(self, losses: Sequence[LossTable]) -> None:
        for loss in losses:
            self._sum.add(loss, shift=not self._narrow)
        if self._narrow:
            tables = self._sum.tables
            self._narrow = is_narrow(tables, max_entries=LIMITS.most_eliminated)
            if self._narrow:
                self._top = eliminate(tables, max_entries=LIMITS.most_eliminated).top
                return
            self._sum.settle_all(rounds=LIMITS.settle_rounds)
        else:
            self._settle(sum(not loss.is_refund for loss in losses))
        self._top = self._sum.top

    def _settle(self, n_losses: int) -> None:
        """Shifting steps after `n_losses` losses; refunds need no further step."""
        if n_losses > 1:
            self._sum.settle_all(rounds=1)
        elif n_losses == 1:
            self._sum.settle(n_steps=LIMITS.settle_steps)


def _seen_with(table: SumTable, layout: TableLayout, losses: Iterable[LossTable]) -> Values:
    """Per class of `layout`, which refines the losses, the greatest entry with these added."""
    values = table.seen_from(layout)
    for loss in losses:
        values = values + layout.spread(loss.values, loss.layout)
    return values
