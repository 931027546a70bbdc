"""What own rows alone would have cost: each question's row measured by itself, nothing shared.

A figure to compare with, a function of the paid questions: it charges nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from qserver.inference.rows.tail import safe_half_width
from qserver.ledger.cell_ledger import CellLedger
from qserver.planning.allocation import alpha_nano_up
from qserver.planning.constants import PLANNER
from qserver.planning.holdings import Holdings
from qserver.query.primitive import Primitive
from qserver.records.charge import Charge

_JOB = "alone"


@dataclass
class OwnRowsAlone:
    """A ledger of fresh rows: per row the largest alpha that was needed.

    Rows are taken in by batches of 16, counted from the first, so that the figures depend on the
    questions only: a ledger's figure may depend on which charges it was given together.
    """

    _alpha_nano: dict[str, int] = field(default_factory=dict)
    _ledger: CellLedger | None = None
    _waiting: list[Charge] = field(default_factory=list)
    _settled_nano: int = 0

    @property
    def settled_nano(self) -> int:
        """Price of all full batches together, in nano-epsilon."""
        return self._settled_nano

    def add(
        self, holdings: Holdings, query: Primitive, half_width: float, confidence: float
    ) -> None:
        """Add a question with its requirement, in records of the row."""
        for charge in self._charges(query, half_width, confidence):
            before = self._alpha_nano.get(query.key, 0)
            self._alpha_nano[query.key] = before + charge.alpha_nano
            self._waiting.append(charge)
        if len(self._waiting) >= PLANNER.alone_batch:
            ledger = self._of(holdings)
            ledger.extend(self._waiting)
            self._waiting = []
            self._settled_nano = ledger.spent_nano

    def with_row(
        self, holdings: Holdings, query: Primitive, half_width: float, confidence: float
    ) -> int:
        """Price of all with one more question, in nano-epsilon; nothing is changed."""
        more = self._charges(query, half_width, confidence)
        return self._of(holdings).spent_after([*self._waiting, *more])

    def _charges(self, query: Primitive, half_width: float, confidence: float) -> list[Charge]:
        alpha = alpha_nano_up(safe_half_width(np.ones(1), confidence) / half_width)
        rise = alpha - self._alpha_nano.get(query.key, 0)
        return [Charge(query.row, rise, _JOB)] if rise > 0 else []

    def _of(self, holdings: Holdings) -> CellLedger:
        if self._ledger is None:
            self._ledger = _ledger_like(holdings)
        return self._ledger


def _ledger_like(holdings: Holdings) -> CellLedger:
    """An empty ledger of the same neighbours."""
    neighbours = holdings.ledger.neighbours
    return CellLedger(
        holdings.ledger.sizes,
        relation=neighbours.relation,
        records_per_person=neighbours.records_per_person,
        null_cell=neighbours.null_cell,
    )
