"""What each row was charged in all, in units."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qserver.query.linear import LinearQuery
from qserver.records.state import State, bytes_of_rows, rows_of_bytes


class RowUnits:
    """Units by row, in the order of the rows' first payments. Saved rows are read when needed."""

    def __init__(self) -> None:
        self._units: dict[LinearQuery, int] = {}
        self._saved: State | None = None
        self._sizes: tuple[int, ...] = ()

    @classmethod
    def from_state(cls, state: State, sizes: Sequence[int]) -> RowUnits:
        """The units that `state` kept."""
        found = cls()
        found._saved, found._sizes = state, tuple(sizes)
        return found

    def state(self) -> State:
        """What `from_state` needs."""
        known = self.known
        units = np.fromiter(known.values(), dtype=np.int64)
        return State({}, {"rows": bytes_of_rows(known), "units": units})

    def copy(self) -> RowUnits:
        """Units that can be changed without changing these."""
        found = RowUnits.from_state(self._saved, self._sizes) if self._saved else RowUnits()
        found._units = dict(self._units)
        return found

    def add(self, row: LinearQuery, units: int) -> None:
        """Add a payment."""
        self._units[row] = self._units.get(row, 0) + units

    @property
    def known(self) -> dict[LinearQuery, int]:
        """The units of all rows."""
        if self._saved is not None:
            rows = rows_of_bytes(self._saved.arrays["rows"], self._sizes)
            saved = dict(zip(rows, self._saved.arrays["units"].tolist(), strict=True))
            later, self._units, self._saved = self._units, saved, None
            for row, units in later.items():
                self.add(row, units)
        return self._units
