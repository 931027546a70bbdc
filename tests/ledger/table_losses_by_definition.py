"""Random spends with tables, and what they cost by definition: the other route for tests."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm

import numpy as np

from qserver.query.class_grid import ProductPartition, product_partition
from qserver.query.linear_query import LinearQuery
from qserver.records.charge import AnyCharge, Charge, OpaqueCharge, TableCharge
from tests.ledger.losses_by_definition import Setting, random_row, random_setting
from tests.query.small_queries import Cell, cells


def random_partition(rng: random.Random, sizes: Sequence[int]) -> ProductPartition:
    axes = rng.sample(range(len(sizes)), rng.randint(0, min(3, len(sizes))))
    parts = {a: [rng.randrange(3) for _ in range(sizes[a])] for a in axes}
    if rng.random() < 0.4:
        # Of some periods alone, each apart: attribute 0 is that of the periods.
        periods = [t if rng.random() < 0.6 else -1 for t in range(sizes[0])]
        parts[0] = periods if max(periods) >= 0 else list(range(sizes[0]))
    return product_partition(sizes, parts)


def cell_in(partition: ProductPartition, cell: Cell) -> int:
    """The partition's cell that holds a cell of the domain; -1 if there is none."""
    found = 0
    for parts in partition.axes:
        place = int(parts.dense[cell[parts.axis]])
        if place < 0:
            return -1
        found = found * parts.n + place
    return found


@dataclass
class Pair:
    """Alphas of a table and of the rows that are its cells."""

    partition: ProductPartition
    table: int = 0
    rows: dict[int, int] = field(default_factory=dict)


@dataclass
class Stream:
    """Random spends by the rules: rows alone, tables, and rows that are cells of a table."""

    rng: random.Random
    sizes: tuple[int, ...]
    pairs: list[Pair]
    alone: dict[LinearQuery, int] = field(default_factory=dict)

    @classmethod
    def random(cls, rng: random.Random, sizes: tuple[int, ...]) -> Stream:
        partitions = {p.key: p for p in (random_partition(rng, sizes) for _ in range(3))}
        return cls(rng, sizes, [Pair(p) for p in partitions.values()])

    def spend(self) -> AnyCharge:
        choice, alpha = self.rng.random(), self.rng.randint(1, 10**9)
        if choice < 0.1:
            return OpaqueCharge(alpha, "model")
        if choice < 0.3:
            row = random_row(self.rng, self.sizes)
            self.alone[row] = self.alone.get(row, 0) + alpha
            return Charge(row, alpha, "job")
        pair = self.rng.choice(self.pairs)
        return self.table(pair, alpha) if choice < 0.55 else self.row(pair, alpha)

    def row(self, pair: Pair, alpha: int) -> Charge:
        """A cell's row, from the greater of its own alpha and the table's."""
        cell = self.rng.randrange(pair.partition.n_cells)
        pair.rows[cell] = max(pair.rows.get(cell, 0), pair.table) + alpha
        return Charge(pair.partition.row(cell), alpha, "job")

    def table(self, pair: Pair, alpha: int) -> TableCharge:
        """A table raised, its cells from the greater of the table's alpha and their rows'."""
        after = pair.table + alpha
        paid = {c: min(r, after) - pair.table for c, r in sorted(pair.rows.items())}
        pair.table = after
        named = tuple((c, nano) for c, nano in paid.items() if nano > 0)
        return TableCharge(pair.partition, alpha, named, "job")

    def loss(self, cell: Cell) -> Fraction:
        """Each row at its last alpha; a table's cell at the greater of its own and its row's."""
        total = sum((abs(row.value_at(cell)) * a for row, a in self.alone.items()), Fraction(0))
        for pair in self.pairs:
            place = cell_in(pair.partition, cell)
            total += max(pair.table, pair.rows.get(place, 0)) if place >= 0 else 0
        return total


@dataclass(frozen=True)
class Losses:
    """What charges cost every cell and every pair of cells, opaque charges left out.

    Whole numbers over `denominator`; cells in lexicographic order.
    """

    cells: np.ndarray
    pairs: np.ndarray
    denominator: int

    @property
    def of_cell(self) -> Fraction:
        return Fraction(int(self.cells.max()), self.denominator)

    @property
    def of_pair(self) -> Fraction:
        return Fraction(int(self.pairs.max()), self.denominator)


def losses_of(charges: Sequence[AnyCharge], setting: Setting) -> Losses:
    """By definition: every charged row, a table being one row per cell, at what it was charged."""
    every = list(cells(setting.sizes))
    rows = {c: [c.row.value_at(x) for x in every] for c in charges if isinstance(c, Charge)}
    denominator = lcm(*(v.denominator for values in rows.values() for v in values))
    alone = np.zeros(len(every), dtype=np.int64)
    pairs = np.zeros((len(every), len(every)), dtype=np.int64)
    for charge in charges:
        if isinstance(charge, Charge):
            scale = charge.alpha_nano * denominator * setting.records_per_person
            values = np.array([int(v * scale) for v in rows[charge]])
            alone += np.abs(values)
            pairs += np.abs(np.subtract.outer(values, values))
        elif isinstance(charge, TableCharge):
            inside = np.array([cell_in(charge.partition, x) for x in every])
            rise = np.full(charge.partition.n_cells, charge.alpha_nano)
            for cell, nano in charge.paid:
                rise[cell] -= nano
            due = rise[inside] * (inside >= 0) * denominator * setting.records_per_person
            alone += due
            pairs += np.add.outer(due, due) * np.not_equal.outer(inside, inside)
    return Losses(alone, pairs, denominator)


def opaque(charges: Sequence[AnyCharge]) -> int:
    return sum(c.epsilon_nano for c in charges if isinstance(c, OpaqueCharge))


def greatest_loss(charges: Sequence[AnyCharge], setting: Setting) -> Fraction:
    losses = losses_of(charges, setting)
    found = losses.of_cell if setting.relation == "add-remove" else losses.of_pair
    if setting.null_cell:
        found = max(found, losses.of_cell)
    return found + opaque(charges)


def random_dues(seed: int, n: int) -> tuple[Setting, list[AnyCharge], Stream]:
    rng = random.Random(seed)
    setting = random_setting(rng)
    stream = Stream.random(rng, setting.sizes)
    return setting, [stream.spend() for _ in range(n)], stream
