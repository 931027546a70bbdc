"""Every person of a small domain with periods, and what charges tell of each: by brute force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from math import lcm

import numpy as np

from qserver.ledger.one_person import ByPeriod, Neighbours
from qserver.records.charge import AnyCharge, Charge, Relation, TableCharge
from tests.ledger.table_losses_by_definition import cell_in
from tests.query.small_queries import Cell, cells

Person = tuple[Cell, ...]


@dataclass(frozen=True)
class People:
    """Who may be exchanged for whom.

    Args:
        axis: the period attribute.
        k, m: most records in all and in one period; k is None where only m bounds them.
        one_period: whether all records that are exchanged are of one period.
        same_period: whether a record is exchanged for one of its own period, or for none.
    """

    sizes: tuple[int, ...]
    axis: int
    k: int | None
    m: int
    relation: Relation = "add-remove"
    one_period: bool = False
    same_period: bool = False

    @property
    def n_records(self) -> int:
        """Most records that are exchanged."""
        return self.m * self.sizes[self.axis] if self.k is None else self.k

    @property
    def neighbours(self) -> Neighbours:
        """The same for the ledger."""
        same = self.same_period and self.relation == "replace-one"
        by = ByPeriod(self.axis, self.sizes[self.axis], self.m, same)
        is_plain = self.m >= self.n_records and not same
        return Neighbours(self.relation, self.n_records, True, None if is_plain else by)

    def everybody(self) -> list[Person]:
        """Every person, as the cells of their records."""
        every = list(cells(self.sizes))
        return [
            found
            for n in range(self.n_records + 1)
            for found in combinations_with_replacement(every, n)
            if self._may_be(Counter(cell[self.axis] for cell in found))
        ]

    def _may_be(self, counts: Counter[int]) -> bool:
        if self.one_period and len(counts) > 1:
            return False
        return max(counts.values(), default=0) <= self.m

    def exchanges(self) -> Iterator[tuple[Person, Person]]:
        """Every person, and who may stand in their place; () is nobody."""
        everybody = self.everybody()
        if self.relation == "add-remove":
            yield from ((person, ()) for person in everybody)
            return
        for i, one in enumerate(everybody):
            for other in everybody[: i + 1]:
                if self._may_take_place(one, other):
                    yield one, other

    def _may_take_place(self, one: Person, other: Person) -> bool:
        if not self.same_period:
            return True
        most = Counter(c[self.axis] for c in one) | Counter(c[self.axis] for c in other)
        return self._may_be(most) and most.total() <= self.n_records


def told(
    charges: Sequence[AnyCharge], people: People, *, one_by_one: bool = False
) -> list[Fraction]:
    """Per exchange the sum of alpha times how far it moves each row, in 1e-9 epsilon.

    A table is one row per cell, each at what it was charged.

    Args:
        one_by_one: add up how far each record moves a row, though they may move it both ways.
    """
    every = {cell: i for i, cell in enumerate(cells(people.sizes))}
    rows = [row for charge in charges for row in _rows(charge, list(every))]
    scale = lcm(*(one.denominator for row in rows for one in row))
    values = np.array([[int(one * scale) for one in row] for row in rows], dtype=object)
    values = values.reshape(len(rows), len(every)).T
    values = abs(values) if one_by_one else values
    sums = {who: values[[every[c] for c in who]].sum(axis=0) for who in people.everybody()}
    return [Fraction(int(abs(sums[a] - sums[b]).sum()), scale) for a, b in people.exchanges()]


def _rows(charge: AnyCharge, every: list[Cell]) -> Iterator[list[Fraction]]:
    if isinstance(charge, Charge):
        yield [charge.row.value_at(cell) * charge.alpha_nano for cell in every]
    elif isinstance(charge, TableCharge):
        inside, paid = [cell_in(charge.partition, cell) for cell in every], dict(charge.paid)
        for place in range(charge.partition.n_cells):
            due = Fraction(charge.alpha_nano - paid.get(place, 0))
            yield [due if one == place else Fraction(0) for one in inside]
