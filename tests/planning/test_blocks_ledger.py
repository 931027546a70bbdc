"""The ledger of blocks and rows against the losses of all cells and pairs, written down."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations, product

import pytest

from qserver.inference.lattice.chain import default_chain, single_values
from qserver.inference.lattice.pattern import BlockKey, Lattice
from qserver.planning.blocks_ledger import BlocksLedger, Purchase, Raise, RowRaise
from qserver.planning.neighbours import Neighbours
from qserver.primitive import primitive
from qserver.query import linear_query
from qserver.weights import interval

SIZES = (3, 4)
LATTICE = Lattice({a: default_chain(single_values(a, s)) for a, s in enumerate(SIZES)})
CELLS = list(product(*(range(s) for s in SIZES)))
BLOCKS: tuple[BlockKey, ...] = ((), ((0, 1),), ((1, 1),), ((0, 1), (1, 1)))


class Written:
    """Alpha of every row of every block, and of rows that are no cell; by brute force."""

    def __init__(self) -> None:
        self.cells: dict[tuple[BlockKey, tuple[int, ...]], int] = {}
        self.rows: dict[tuple[int, int], int] = {}

    def take(self, purchase: Purchase) -> None:
        for block, raised in purchase.blocks.items():
            for cell in CELLS:
                key = (block, tuple(cell[a] for a, _ in block))
                self.cells[key] = max(self.cells.get(key, 0), raised.after)
        for row in purchase.rows:
            inside = [c for c in CELLS if row.row.value_at(c)]
            if row.cell_of is None:
                span = (inside[0][0], inside[-1][0])
                self.rows[span] = row.raised.after
            else:
                key = (row.cell_of, tuple(inside[0][a] for a, _ in row.cell_of))
                self.cells[key] = max(self.cells.get(key, 0), row.raised.after)

    def parts(self, cell: tuple[int, ...]) -> Iterator[tuple[object, int]]:
        for block in BLOCKS:
            key = (block, tuple(cell[a] for a, _ in block))
            yield key, self.cells.get(key, 0)
        for span, alpha in self.rows.items():
            yield span, alpha if span[0] <= cell[0] <= span[1] else 0

    def loss(self, cell: tuple[int, ...]) -> int:
        return sum(a for _, a in self.parts(cell))

    def pair(self, one: tuple[int, ...], other: tuple[int, ...]) -> int:
        mine, theirs = set(self.parts(one)), set(self.parts(other))
        return sum(a for _, a in mine ^ theirs)


def random_purchase(
    generator: random.Random, blocks: dict[BlockKey, int], rows: dict[str, int]
) -> Purchase:
    if generator.random() < 0.4:
        block = generator.choice(BLOCKS)
        raised = Raise(blocks.get(block, 0), blocks.get(block, 0) + generator.randint(1, 9) * 1000)
        blocks[block] = raised.after
        return Purchase({block: raised})
    if generator.random() < 0.3:
        low, high = 0, 2
        query = primitive(linear_query(SIZES, [(1, {0: interval(3, low, high)})]))
        cell_of = None
    else:
        cell_of = generator.choice(BLOCKS[1:])
        values = {a: generator.randrange(SIZES[a]) for a, _ in cell_of}
        axes = {a: interval(SIZES[a], v, v + 1) for a, v in values.items()}
        query = primitive(linear_query(SIZES, [(1, axes)]))
    before = max(rows.get(query.key, 0), blocks.get(cell_of, 0) if cell_of is not None else 0)
    raised = Raise(before, before + generator.randint(1, 9) * 1000)
    rows[query.key] = raised.after
    return Purchase({}, (RowRaise(query.key, query.row, cell_of, raised),))


@pytest.mark.parametrize("seed", range(8))
def test_spent_is_the_greatest_loss_of_a_cell_where_a_row_of_a_block_is_paid_once(
    seed: int,
) -> None:
    generator = random.Random(seed)
    ledger, written = BlocksLedger(SIZES), Written()
    blocks: dict[BlockKey, int] = {}
    rows: dict[str, int] = {}
    for _ in range(15):
        purchase = random_purchase(generator, blocks, rows)
        promised = ledger.spent_after(purchase)
        ledger.record(purchase)
        written.take(purchase)
        assert ledger.spent_nano == promised
        assert ledger.spent_nano == max(written.loss(c) for c in CELLS)


@pytest.mark.parametrize("null_cell", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_under_replace_one_spent_is_never_less_than_a_pair_of_cells_loses(
    seed: int, null_cell: bool
) -> None:
    generator = random.Random(seed)
    ledger = BlocksLedger(SIZES, Neighbours("replace-one", 1, null_cell))
    written = Written()
    blocks: dict[BlockKey, int] = {}
    rows: dict[str, int] = {}
    for _ in range(15):
        purchase = random_purchase(generator, blocks, rows)
        ledger.record(purchase)
        written.take(purchase)
        greatest = max(written.pair(c, d) for c, d in combinations(CELLS, 2))
        if null_cell:
            greatest = max(greatest, *(written.loss(c) for c in CELLS))
        assert ledger.spent_nano >= greatest
        assert ledger.spent_nano <= 2 * max(written.loss(c) for c in CELLS)
