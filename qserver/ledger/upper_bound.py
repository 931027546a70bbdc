"""An upper bound of the greatest value of a sum of many tables, kept up to date cheaply.

The sum of the tables' own greatest entries is a bound. To move amounts that depend on one
attribute from one table to another changes no sum but lowers the bound; so each table hands what
it can to one table per attribute, its single, from which the others draw. A step on a table draws
into it all that the singles of its s attributes hold, then hands to each of them 1/s of the
greatest entry per class. No step raises the bound (but for units lost in the division), and
everything is whole numbers, so the sum stays exactly what it was.

Over pairs of cells an attribute is a pair of axes, and its single a table over both: a count on
one attribute, which a pair pays where one cell is inside and the other outside, is then exact.

References:
    Globerson and Jaakkola (2007), "Fixing max-product: convergent message passing algorithms for
    MAP LP-relaxations", the step. Ihler, Flerova, Dechter and Otten (2012), "Join-graph based
    cost-shifting schemes", for its use beside mini-buckets.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from qserver.ledger.loss_tables import LossTable, SumTable, TableLayout, Values, zero_table

# Tables grow no larger by sharing; one loss alone may need more.
MAX_TABLE = 1 << 14
MAX_SINGLE = 1 << 20
# Past either, a loss is replaced by its maximum over all but one attribute. 2^24 entries: 128 MiB.
MAX_STORED = 1 << 24
MAX_TABLES = 4000
# A step that would leave entries beyond this is not made: any sum of tables fits 64 bits.
_MAX_SHIFTED = 1 << 49


class ShiftedSum:
    """A sum of losses as tables between which amounts are shifted.

    Tables are replaced, never changed, so a copy may share them.

    Args:
        n_attributes: axes a and a + n_attributes belong to attribute a.

    Attributes:
        exact: whether every loss was added as it is, none replaced by a bound for want of room.
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
        """A sum that can be changed without changing this one."""
        twin = ShiftedSum(self._n_attributes)
        twin._singles, twin._tables = dict(self._singles), list(self._tables)
        twin._everywhere, twin._stored = self._everywhere, self._stored
        twin._next, twin.exact = self._next, self.exact
        return twin

    @property
    def tables(self) -> list[SumTable]:
        """Tables whose sum this is."""
        everywhere = SumTable(TableLayout((), ()), np.array(self._everywhere, dtype=np.int64))
        return [everywhere, *self._singles.values(), *self._tables]

    @property
    def top(self) -> int:
        """At least the greatest value of the sum."""
        parts = (*self._singles.values(), *self._tables)
        return self._everywhere + sum(t.top for t in parts)

    def top_with(self, loss: LossTable) -> int:
        """A bound of the sum and `loss` together; this sum stays as it is."""
        i = self._host(loss.layout)
        home = zero_table(loss.layout) if i is None else self._tables[i]
        held = self._held(home.layout)
        replaced = home.top + sum(self._singles[a].top for a in held)
        return self.top - replaced + self._gathered(home, held).top_with(loss)

    def add(self, loss: LossTable, *, shift: bool) -> None:
        """Add a loss; where `shift`, with a step on the table that took it."""
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
        """Steps on the next `n_steps` tables in turn, or on each of them once."""
        for _ in range(min(n_steps, len(self._tables))):
            self._next = (self._next + 1) % len(self._tables)
            self._step(self._next)

    def settle_all(self, *, rounds: int) -> None:
        """Steps on every table, `rounds` times."""
        for _ in range(rounds):
            for i in range(len(self._tables)):
                self._step(i)

    @property
    def _is_full(self) -> bool:
        return len(self._tables) >= MAX_TABLES or self._stored >= MAX_STORED

    def _parts(self, layout: TableLayout) -> Mapping[int, TableLayout]:
        return _parts(layout, self._n_attributes)

    def _split_single(self, attribute: int, part: TableLayout) -> None:
        """Let the single refine `part`, unless it would be too large."""
        single = self._singles.get(attribute, zero_table())
        joined = single.layout.joined_with(part)
        if joined.n_entries <= MAX_SINGLE or attribute not in self._singles:
            self._singles[attribute] = single.refined(joined)

    def _refines(self, attribute: int, part: TableLayout) -> bool:
        """Whether the attribute's single tells apart whatever `part` does."""
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
        """The table that `layout` makes least large, among those that have its axes."""
        axes, best, size = set(layout.axes), None, MAX_TABLE + 1
        for i, table in enumerate(self._tables):
            if axes <= table.layout.by_axis.keys():
                n_entries = table.layout.joined_with(layout).n_entries
                if n_entries < size:
                    best, size = i, n_entries
        return best

    def _held(self, layout: TableLayout) -> dict[int, Values]:
        """Per attribute of `layout` the greatest entries of its single over the classes there."""
        parts = self._parts(layout)
        return {a: self._singles[a].seen_from(parts[a]) for a in parts if a in self._singles}

    def _gathered(self, table: SumTable, held: Mapping[int, Values]) -> SumTable:
        """The table with what the singles hold."""
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
        """An upper bound that depends on one attribute, the one that makes it least on average."""
        table = SumTable(loss.layout, loss.values)
        choices = [
            table.maximum_over([a for a in loss.layout.axes if a not in part.axes])
            for part in self._parts(loss.layout).values()
        ]
        best = min(choices, key=lambda t: float(t.values.mean()))
        return LossTable(best.layout, best.values, exact=False)


@lru_cache(maxsize=1 << 13)
def _parts(layout: TableLayout, n_attributes: int) -> Mapping[int, TableLayout]:
    """Per attribute the axes of the layout that belong to it."""
    axes: dict[int, list[int]] = {}
    for axis in layout.axes:
        axes.setdefault(axis % n_attributes, []).append(axis)
    return {a: layout.only(mine) for a, mine in axes.items()}


def _along(layout: TableLayout, part: TableLayout, values: Values) -> Values:
    """Values over the axes of `part`, broadcastable to the shape of `layout`."""
    sizes = dict(zip(part.axes, values.shape, strict=True))
    return values.reshape([sizes.get(a, 1) for a in layout.axes])


def _is_moderate(table: SumTable) -> bool:
    return table.top <= _MAX_SHIFTED and int(table.values.min()) >= -_MAX_SHIFTED
