"""What each row was charged in all, in units."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np

from qserver.query.linear import LinearQuery
from qserver.records.state import State


class RowUnits:
    """Units by row, in the order of the rows' first payments.

    Rows are kept as text: they are seldom wanted again, and a restart need not read them.
    """

    def __init__(self) -> None:
        self._units: dict[str, int] = {}
        self._sizes: tuple[int, ...] = ()

    @classmethod
    def from_state(cls, state: State, sizes: Sequence[int]) -> RowUnits:
        """The units that `state` kept."""
        found, text = cls(), state.arrays["rows"].tobytes().decode()
        lines = text.split("\n") if text else []
        found._units = dict(zip(lines, state.arrays["units"].tolist(), strict=True))
        found._sizes = tuple(sizes)
        return found

    def state(self) -> State:
        """What `from_state` needs."""
        text = np.frombuffer("\n".join(self._units).encode(), dtype=np.uint8)
        return State({}, {"rows": text, "units": np.fromiter(self._units.values(), np.int64)})

    def copy(self) -> RowUnits:
        """Units that can be changed without changing these."""
        found = RowUnits()
        found._units, found._sizes = dict(self._units), self._sizes
        return found

    def add(self, row: LinearQuery, units: int) -> None:
        """Add a payment."""
        self._sizes, line = row.sizes, _line(row)
        self._units[line] = self._units.get(line, 0) + units

    def of(self, row: LinearQuery) -> int:
        """The units of one row."""
        return self._units.get(_line(row), 0)

    def __iter__(self) -> Iterator[tuple[LinearQuery, int]]:
        for line, units in self._units.items():
            yield LinearQuery.later(self._sizes, json.loads(line)), units


def _line(row: LinearQuery) -> str:
    return json.dumps(row.to_document())
