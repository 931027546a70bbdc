"""The purchase of a plan: rows and tables, with their charges."""

from __future__ import annotations

from dataclasses import dataclass

from qserver.records.charge import AnyCharge, Charge, TableCharge
from qserver.records.plan import PlannedRow, PlannedTable, Sampled, Second

_JOB = "plan"


@dataclass(frozen=True)
class Purchase:
    """Rows and tables to measure or refine.

    Args:
        sampled: the charges, if a sample decides the tables' alphas.
        second: charge for further tables, which the released answers decide.
    """

    rows: tuple[PlannedRow, ...] = ()
    tables: tuple[PlannedTable, ...] = ()
    sampled: Sampled | None = None
    second: Second | None = None

    @property
    def charges(self) -> list[AnyCharge]:
        """Charges for the ledger."""
        if self.sampled is not None:
            return list(self.sampled.charges(_JOB))
        return [
            *(Charge(row.row, row.charge_nano, _JOB) for row in self.rows),
            *(TableCharge(t.partition, t.charge_nano, t.paid, _JOB) for t in self.tables),
            *(() if self.second is None else (self.second.charge(_JOB),)),
        ]


@dataclass(frozen=True)
class Priced:
    """A purchase with its price and the spend afterwards, in nano-epsilon."""

    purchase: Purchase
    price_nano: int
    spent_after_nano: int
