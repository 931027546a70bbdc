"""The alpha of each measured row after any number of releases and refinements."""

from __future__ import annotations

from bisect import bisect_right

from qserver.records.history import Measurement


class AlphaRecord:
    """Alphas of rows, by the number of events after which they came into force."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[tuple[int, int], ...]] = {}

    def note(self, row: Measurement, *, n_events: int) -> None:
        """Record a row, new or refined; with it there are `n_events` events."""
        known = self._known.get(row.id, ())
        self._known[row.id] = (*known, (n_events, row.alpha_nano))

    def at(self, row: Measurement, n_events: int) -> int:
        """Alpha of a row after `n_events` events; 0 if it was not measured yet."""
        known = self._known.get(row.id, ((0, row.alpha_nano),))
        place = bisect_right(known, n_events, key=lambda k: k[0])
        return known[place - 1][1] if place else 0

    def tried(self) -> AlphaRecord:
        """A copy that can be extended without changing this one."""
        found = AlphaRecord()
        found._known = dict(self._known)
        return found
