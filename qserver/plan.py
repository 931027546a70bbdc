"""What a plan measures, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from qserver.query import LinearQuery, query_from_document


@dataclass(frozen=True)
class PlannedRow:
    """A row to be measured: primitive row, key, 1 / b in nano-epsilon, lattice step."""

    row: LinearQuery
    key: str
    alpha_nano: int
    step: Fraction

    def to_plain(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "row": self.row.to_document(),
            "key": self.key,
            "alpha": self.alpha_nano,
            "step": str(self.step),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], sizes: Sequence[int]) -> PlannedRow:
        """The row that `to_plain` wrote."""
        row = query_from_document(sizes, plain["row"])
        return cls(row, plain["key"], plain["alpha"], Fraction(plain["step"]))
