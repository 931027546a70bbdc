"""The charges of a snapshot by what was measured: which rows, and how exactly each of them.

The answers of a row, also as a cell of tables, are functions of the last one of a chain and of
noise that tells nothing (docs/guarantee.md, steps 2 and 7). The charges of a chain add up to at
least its last alpha = 1/b. So the answers are at most exp(sum alpha abs(h'u)) times as likely for
the counts x + u as for x, the sum being over what is kept here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from qserver.query.linear import LinearQuery
from qserver.query.partition import ProductPartition
from qserver.records.charge import AnyCharge, Charge, OpaqueCharge
from qserver.records.state import State, bytes_of_rows, rows_of_bytes


@dataclass(frozen=True)
class ChargedTable:
    """A measured table.

    Args:
        alpha_nano: of all its charges together, in 1e-9 epsilon per record.
        paid: by cell, what of it the cell's row paid.
    """

    partition: ProductPartition
    alpha_nano: int
    paid: dict[int, int]

    def alpha_of(self, cell: int) -> int:
        """What is charged for one cell of the table."""
        return self.alpha_nano - self.paid.get(cell, 0)


@dataclass
class Charged:
    """Charges, summed up by row and by table.

    Attributes:
        rows: alpha in 1e-9 epsilon per record, by row.
        tables: by the partition's key.
        every_nano: for each record more or less, whatever its cell, in 1e-9 epsilon.
    """

    rows: dict[LinearQuery, int] = field(default_factory=dict)
    tables: dict[str, ChargedTable] = field(default_factory=dict)
    every_nano: int = 0

    def add(self, charge: AnyCharge) -> None:
        """Add a charge."""
        if isinstance(charge, OpaqueCharge):
            self.every_nano += charge.epsilon_nano
        elif isinstance(charge, Charge):
            self.rows[charge.row] = self.rows.get(charge.row, 0) + charge.alpha_nano
        else:
            key = charge.partition.key
            old = self.tables.get(key, ChargedTable(charge.partition, 0, {}))
            paid = dict(old.paid)
            for cell, nano in charge.paid:
                paid[cell] = paid.get(cell, 0) + nano
            alpha = old.alpha_nano + charge.alpha_nano
            self.tables[key] = ChargedTable(charge.partition, alpha, paid)

    def with_more(self, charges: Iterable[AnyCharge], *, every_nano: int = 0) -> Charged:
        """A copy with these charges, and with more for every record."""
        found = Charged(dict(self.rows), dict(self.tables), self.every_nano + every_nano)
        for charge in charges:
            found.add(charge)
        return found

    def loss_nano(self, cells: Sequence[tuple[int, ...]], weights: Sequence[int]) -> Fraction:
        """Exactly the sum of alpha abs(h'u) for the vector u with these weights on these cells."""
        total = Fraction(self.every_nano * sum(map(abs, weights)))
        for row, alpha in self.rows.items():
            pairs = zip(cells, weights, strict=True)
            total += alpha * abs(sum((w * row.value_at(c) for c, w in pairs), Fraction(0)))
        for table in self.tables.values():
            by_cell: dict[int, int] = {}
            for place, weight in zip(places(table.partition, cells), weights, strict=True):
                by_cell[place] = by_cell.get(place, 0) + weight
            total += sum(table.alpha_of(c) * abs(w) for c, w in by_cell.items() if c >= 0)
        return total

    def state(self) -> State:
        """What `from_state` needs; public, as charges are."""
        tables = [
            [t.partition.to_document(), t.alpha_nano, sorted(t.paid.items())]
            for t in self.tables.values()
        ]
        alphas = [str(alpha) for alpha in self.rows.values()]
        head = {"alphas": alphas, "tables": tables, "every_nano": self.every_nano}
        return State(head, {"rows": bytes_of_rows(self.rows)})

    @classmethod
    def from_state(cls, state: State, sizes: Sequence[int]) -> Charged:
        """The charges that `state` wrote."""
        rows = rows_of_bytes(state.arrays["rows"], sizes)
        found = cls(dict(zip(rows, map(int, state.head["alphas"]), strict=True)))
        for document, alpha, paid in state.head["tables"]:
            partition = ProductPartition.from_document(sizes, document)
            found.tables[partition.key] = ChargedTable(partition, alpha, dict(map(tuple, paid)))
        found.every_nano = state.head["every_nano"]
        return found


def places(
    partition: ProductPartition, cells: Sequence[tuple[int, ...]] | np.ndarray
) -> Iterator[int]:
    """Per cell of the domain the cell of the partition that holds it, or -1."""
    at = np.asarray(cells, dtype=np.int64)
    found, is_inside = np.zeros(len(at), dtype=np.int64), np.ones(len(at), dtype=bool)
    for parts in partition.axes:
        places = parts.dense[at[:, parts.axis]]
        found, is_inside = found * parts.n + places, is_inside & (places >= 0)
    yield from np.where(is_inside, found, -1).tolist()
