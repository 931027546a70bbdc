"""What own rows alone would have cost: each question's row measured by itself, nothing shared.

A figure to compare with, a function of the paid questions: it charges nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from qserver.charge import Charge
from qserver.inference.tail import safe_half_width
from qserver.planning.allocation import alpha_nano_up
from qserver.planning.bought import Bought
from qserver.planning.ledger import CellLedger
from qserver.primitive import Primitive

_JOB = "alone"


@dataclass
class OwnRowsAlone:
    """A ledger of fresh rows: per row the largest alpha that was needed."""

    _alpha_nano: dict[str, int] = field(default_factory=dict)
    _ledger: CellLedger | None = None

    @property
    def spent_nano(self) -> int:
        """Their price together, in nano-epsilon."""
        return 0 if self._ledger is None else self._ledger.spent_nano

    def add(self, bought: Bought, query: Primitive, half_width: float, confidence: float) -> None:
        """Add a question with its requirement, in records of the row."""
        charges = self._charges(query, half_width, confidence)
        for charge in charges:
            self._alpha_nano[query.key] = self._alpha_nano.get(query.key, 0) + charge.alpha_nano
        self._of(bought).extend(charges)

    def with_row(
        self, bought: Bought, query: Primitive, half_width: float, confidence: float
    ) -> int:
        """Their price with one more question, in nano-epsilon; nothing is changed."""
        charges = self._charges(query, half_width, confidence)
        return self._of(bought).spent_after(charges) if charges else self.spent_nano

    def _charges(self, query: Primitive, half_width: float, confidence: float) -> list[Charge]:
        alpha = alpha_nano_up(safe_half_width(np.ones(1), confidence) / half_width)
        rise = alpha - self._alpha_nano.get(query.key, 0)
        return [Charge(query.row, rise, _JOB)] if rise > 0 else []

    def _of(self, bought: Bought) -> CellLedger:
        if self._ledger is None:
            neighbours = bought.ledger.neighbours
            self._ledger = CellLedger(
                bought.ledger.sizes,
                relation=neighbours.relation,
                records_per_person=neighbours.records_per_person,
                null_cell=neighbours.null_cell,
            )
        return self._ledger
