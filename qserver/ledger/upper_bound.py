"""An upper bound of the greatest value of a sum of many tables, cheap to update.

The sum of the tables' greatest entries is a bound. Amounts that depend on one attribute may be
moved from one table to another: the sum stays the same, and the bound may fall. Each attribute has
one table for such amounts, its single. A step on a table over s attributes moves all amounts of
their singles into the table, then moves 1/s of the greatest entry per class back to each single.
No step raises the bound (except by units lost in the division). All entries are whole numbers, so
the sum stays exactly the same.

Over pairs of cells an attribute is a pair of axes, and its single is a table over both. A count on
one attribute, which a pair pays if one cell is inside and the other outside, is then exact.

References:
    Globerson and Jaakkola (2007), "Fixing max-product: convergent message passing algorithms for
    MAP LP-relaxations", the step. Ihler, Flerova, Dechter and Otten (2012), "Join-graph based
    cost-shifting schemes", for its use together with mini-buckets.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from qserver.ledger.limits import LIMITS
from qserver.ledger.loss_tables import (
    LossTable,
    SumTable,
    TableLayout,
    Values,
    state_of_tables,
    tables_of_state,
    zero_table,
)
from qserver.records.state import State


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
        """A sum that can be changed without changing this one."""
        twin = ShiftedSum(self._n_attributes)
        twin._singles, twin._tables = dict(self._singles), list(self._tables)
        twin._everywhere, twin._stored = self._everywhere, self._stored
        twin._next, twin.exact = self._next, self.exact
        return twin

    def state(self) -> State:
        """What `from_state` needs."""
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
        """The sum as it was; steps that follow give the same tables."""
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
