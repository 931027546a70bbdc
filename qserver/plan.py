"""What a plan measures, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from qserver.errors import InputError
from qserver.history import Measurement
from qserver.query import LinearQuery, query_from_document


@dataclass(frozen=True)
class PlannedRow:
    """A row to be measured, or a measured one to be refined.

    Args:
        row: primitive row h.
        key: the row's key.
        alpha_nano: 1 / b afterwards, in nano-epsilon per record; 0 for a public row.
        step: lattice step, in records; a refined row keeps its own.
        refines: id of the measurement that the new answer replaces, or None.
        old_alpha_nano: alpha of that measurement, which is paid already; 0 for a new row.
    """

    row: LinearQuery
    key: str
    alpha_nano: int
    step: Fraction
    refines: int | None = None
    old_alpha_nano: int = 0

    def __post_init__(self) -> None:
        if self.refines is None:
            if self.old_alpha_nano != 0:
                raise InputError("old_alpha_nano", "be 0 for a new row", self.old_alpha_nano)
        elif self.refines < 0 or not 0 < self.old_alpha_nano < self.alpha_nano:
            raise InputError("old_alpha_nano", "lie between 0 and `alpha_nano`, outside both")

    @classmethod
    def refining(cls, old: Measurement, *, alpha_nano: int) -> PlannedRow:
        """The measurement `old` raised to a larger alpha.

        Raises:
            InputError: the alpha is no larger, or the row is public.
        """
        return cls(old.row, old.key, alpha_nano, old.step, old.id, old.alpha_nano)

    @property
    def charge_nano(self) -> int:
        """What the ledger is charged per unit of abs(h), in nano-epsilon: the rise of alpha."""
        return self.alpha_nano - self.old_alpha_nano

    def refines_live(self, live: Measurement) -> bool:
        """Whether `live` is just what this row was planned to refine."""
        planned = (self.refines, self.old_alpha_nano, self.key, self.step)
        found = (live.id, live.alpha_nano, live.key, live.step)
        return planned == found and self.row == live.row

    def to_plain(self) -> dict[str, Any]:
        """Plain JSON values."""
        plain = {
            "row": self.row.to_document(),
            "key": self.key,
            "alpha": self.alpha_nano,
            "step": str(self.step),
        }
        if self.refines is not None:
            plain |= {"refines": self.refines, "old_alpha": self.old_alpha_nano}
        return plain

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], sizes: Sequence[int]) -> PlannedRow:
        """The row that `to_plain` wrote; one without `refines` is a new row."""
        return cls(
            row=query_from_document(sizes, plain["row"]),
            key=plain["key"],
            alpha_nano=plain["alpha"],
            step=Fraction(plain["step"]),
            refines=plain.get("refines"),
            old_alpha_nano=plain.get("old_alpha", 0),
        )
