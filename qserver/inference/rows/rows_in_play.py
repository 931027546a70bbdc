"""The measured rows that are combined by algebra; updated only when they are needed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

from qserver.inference.rows.blue import Combinations, RowSpace
from qserver.inference.rows.modular import SecretRandom
from qserver.query.linear import LinearQuery
from qserver.records.history import Measurement

_KEPT = 0.8
"""Part of the cap that is filled again after it was passed, so that this happens rarely."""


class RowsInPlay:
    """A row space that follows a history with delay. Not safe for concurrent use.

    Args:
        sizes: number of values per attribute.
        entropy: source of the secret primes.
        max_rows: most rows in play.
    """

    def __init__(self, sizes: tuple[int, ...], entropy: SecretRandom, *, max_rows: int) -> None:
        self._sizes, self._entropy, self._max_rows = sizes, entropy, max_rows
        self._space = RowSpace(sizes, entropy, max_rows=max_rows)
        self._new: dict[int, Measurement] = {}
        self._refined: dict[int, Measurement] = {}
        self._is_borrowed = False

    def add(self, measurement: Measurement) -> None:
        """Note a new row."""
        self._new[measurement.id] = measurement

    def refine(self, measurement: Measurement) -> None:
        """Note a row's refinement."""
        waiting = self._new if measurement.id in self._new else self._refined
        waiting[measurement.id] = measurement

    def catch_up(self, rows: Callable[[], list[Measurement]]) -> None:
        """Add all noted rows to the row space; past the cap, keep the most useful rows.

        Args:
            rows: all live rows, in history order.
        """
        if not (self._new or self._refined):
            return
        new = list(self._new.values())
        if self._space.n_rows + len(new) > self._max_rows:
            self._space = RowSpace(self._sizes, self._entropy, max_rows=self._max_rows)
            new = _most_useful(rows(), int(_KEPT * self._max_rows))
        else:
            if self._is_borrowed:
                self._space = copy.deepcopy(self._space, {id(self._entropy): self._entropy})
            for measurement in self._refined.values():
                self._space.refine(measurement)
        self._space.extend(new)
        self._new, self._refined, self._is_borrowed = {}, {}, False

    def combinations(self, query: LinearQuery) -> Combinations | None:
        """All unbiased weights of `query` on the rows in play, or None if it is not estimable."""
        return self._space.combinations(query)

    def tried(self) -> RowsInPlay:
        """A copy to try more rows on; this object does not change.

        The copy shares the row space until it gets a row, so it is valid until this object does.
        """
        found = copy.copy(self)
        found._new, found._refined = dict(self._new), dict(self._refined)
        found._is_borrowed = True
        return found


def _most_useful(measurements: Sequence[Measurement], n: int) -> list[Measurement]:
    """The n rows of least noise, public ones first, newer before older; in history order."""
    chosen = sorted(measurements, key=lambda m: (m.scale, -m.id))[:n]
    return sorted(chosen, key=lambda m: m.id)
