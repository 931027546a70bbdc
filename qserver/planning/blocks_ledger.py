"""What blocks and single rows cost together, under either neighbour relation.

A block is many rows with disjoint cells. A single row that is one of them *is* that row of the
block: the block bought later raises it for the difference, and raised on its own it costs what it
goes beyond the block. So a cell pays max(alpha of the block, alpha of the row) for the two.

Under replace-one two bounds hold at once, and the less is what counts: the pair ledger with a
block as 2 alpha for every pair (the total as what a pair of cells, or a cell and the null cell,
differ in it), and twice the loss of a cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from qserver.charge import Charge, OpaqueCharge
from qserver.inference.lattice.pattern import BlockKey
from qserver.planning.ledger import CellLedger
from qserver.planning.neighbours import AnyCharge, Neighbours
from qserver.query import LinearQuery, linear_query, total_query


@dataclass(frozen=True)
class Raise:
    """A block or a row brought from one alpha, in nano-epsilon, to a higher one; 0 is new."""

    before: int
    after: int

    @property
    def nano(self) -> int:
        """The difference."""
        return self.after - self.before


@dataclass(frozen=True)
class RowRaise:
    """A single row that is raised.

    Args:
        key: of the row.
        row: the primitive row.
        cell_of: the block that it is a cell of, or None.
        raised: from the greater of its own alpha and its block's.
    """

    key: str
    row: LinearQuery
    cell_of: BlockKey | None
    raised: Raise


@dataclass(frozen=True)
class Purchase:
    """What a plan raises: blocks, and single rows."""

    blocks: Mapping[BlockKey, Raise]
    rows: tuple[RowRaise, ...] = ()


@dataclass(frozen=True, eq=False)
class _Lines:
    """What a purchase adds to the cell ledger and, under replace-one, to the pair ledger."""

    cells: list[AnyCharge]
    pairs: list[AnyCharge]


@dataclass
class BlocksLedger:
    """Cell losses of blocks and rows. Grows only.

    Args:
        sizes: number of values per attribute.
        neighbours: relation, records per person, null cell.
    """

    sizes: tuple[int, ...]
    neighbours: Neighbours = field(default_factory=Neighbours)
    _cells: CellLedger = field(init=False)
    _pairs: CellLedger | None = field(init=False, default=None)
    _own: dict[BlockKey, dict[str, tuple[LinearQuery, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n, k = self.neighbours, self.neighbours.records_per_person
        self._cells = CellLedger(self.sizes, records_per_person=k)
        if n.relation == "replace-one":
            self._pairs = CellLedger(
                self.sizes,
                relation="replace-one",
                records_per_person=k,
                null_cell=n.null_cell,
            )

    @property
    def spent_nano(self) -> int:
        """What has been spent: an upper bound of the greatest loss."""
        if self._pairs is None:
            return self._cells.spent_nano
        return min(self._pairs.spent_nano, 2 * self._cells.spent_nano)

    def spent_after(self, purchase: Purchase) -> int:
        """The same after a purchase as well; nothing is changed."""
        lines = self._lines(purchase)
        cells = self._cells.spent_after(lines.cells)
        if self._pairs is None:
            return cells
        return min(self._pairs.spent_after(lines.pairs), 2 * cells)

    def record(self, purchase: Purchase) -> None:
        """Charge a purchase."""
        lines = self._lines(purchase)
        self._cells.extend(lines.cells)
        if self._pairs is not None:
            self._pairs.extend(lines.pairs)
        for row in purchase.rows:
            if row.cell_of is not None:
                self._own.setdefault(row.cell_of, {})[row.key] = (row.row, row.raised.after)

    def charges(self, purchase: Purchase) -> Sequence[AnyCharge]:
        """The lines of a purchase in a ledger of the population's own relation."""
        lines = self._lines(purchase)
        return lines.cells if self._pairs is None else lines.pairs

    def cost_of(self, block: BlockKey) -> float:
        """Cost of a block per unit of its alpha, in epsilon."""
        k = float(self.neighbours.records_per_person)
        if self.neighbours.relation == "add-remove":
            return k
        if block:
            return 2.0 * k
        # Among fixed records the total is public; next to nothing keeps the arithmetic finite.
        return k if self.neighbours.null_cell else 1e-12

    def _lines(self, purchase: Purchase) -> _Lines:
        lines = _Lines([], [])
        for block, raised in purchase.blocks.items():
            if raised.nano <= 0:
                continue
            lines.cells.extend(self._block_in_cells(block, raised, purchase.rows))
            if self._pairs is not None:
                lines.pairs.append(self._block_in_pairs(block, raised.nano))
        for row in purchase.rows:
            if row.raised.nano <= 0:
                continue
            charge = Charge(row.row, row.raised.nano, "plan")
            lines.cells.append(charge)
            lines.pairs.append(charge)
        return lines

    def _block_in_pairs(self, block: BlockKey, rise_nano: int) -> AnyCharge:
        if block:
            return OpaqueCharge(2 * rise_nano * self.neighbours.records_per_person, "plan")
        return Charge(total_query(self.sizes), rise_nano, "plan")

    def _all_but(self, rows: Sequence[LinearQuery]) -> LinearQuery:
        """The sum of all cells outside these rows, put together at once."""
        taken = [(-t.coefficient, t.by_axis) for row in rows for t in row.terms]
        return linear_query(self.sizes, [(1, {}), *taken])

    def _block_in_cells(
        self, block: BlockKey, raised: Raise, also: Sequence[RowRaise]
    ) -> list[AnyCharge]:
        """Every cell pays the raise, except what its own row has paid already."""
        own = dict(self._own.get(block, {}))
        own.update({r.key: (r.row, r.raised.after) for r in also if r.cell_of == block})
        paid = {key: (row, a) for key, (row, a) in own.items() if a > raised.before}
        found: list[AnyCharge] = []
        cuts = sorted({min(a, raised.after) for _, a in paid.values()} | {raised.after})
        low = raised.before
        for high in cuts:
            rest = self._all_but([row for row, a in paid.values() if a >= high])
            if not rest.is_zero:
                found.append(Charge(rest, high - low, "plan"))
            low = high
        return found
