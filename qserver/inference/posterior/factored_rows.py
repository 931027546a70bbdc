"""Rows and cells of tables as they are, factored once and followed from version to version.

A purchase adds a few rows to many. So what was factored for the version before is copied and grown
by these, and no row is named and factored again. What an earlier version says stays as it is:
whoever holds it may compute with it later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from threading import Lock

from qserver.inference.posterior.by_rows import CellsAndRows
from qserver.inference.posterior.cells_as_rows import as_rows
from qserver.inference.rows.rows_in_play import MAX_ROWS, RowsInPlay
from qserver.query.linear import LinearQuery
from qserver.records.history import AnyMeasurement, Measurement

_Keeps = Callable[[AnyMeasurement], bool]


class _Numbered:
    """The rows that are taken, numbered in the order in which they came.

    Of the same row measured twice only the measurement with the least noise is taken: the other may
    be the same noise with more added, and then says nothing more.
    """

    def __init__(self) -> None:
        self._best: dict[LinearQuery, tuple[float, int, int]] = {}
        self._owners: dict[int, tuple[int, ...]] = {}

    def copy(self) -> _Numbered:
        found = _Numbered()
        found._best, found._owners = dict(self._best), dict(self._owners)
        return found

    def numbers_of(self, rows: Iterable[Measurement]) -> set[int]:
        """Under which numbers rows are known, whosever noise was taken."""
        return {self._best[one.row][2] for one in rows}

    def owners(self, numbers: Iterable[int]) -> set[int]:
        """The ids of the measurements that have these rows."""
        return {i for number in numbers for i in self._owners[number]}

    def taken(self, rows: Iterable[Measurement]) -> list[Measurement]:
        """Those of some new or refined rows that are taken, under their numbers."""
        found = dict[int, Measurement]()
        for one in rows:
            known = self._best.get(one.row)
            number = len(self._best) if known is None else known[2]
            if one.id not in (owners := self._owners.get(number, ())):
                self._owners[number] = (*owners, one.id)
            if known is None or known[1] == one.id or (one.scale, one.id) < known[:2]:
                self._best[one.row] = (one.scale, one.id, number)
                found[number] = replace(one, id=number)
        return list(found.values())


class AsTheyAre(CellsAndRows):
    """Rows and cells of one version of a history. Thread-safe.

    Args:
        measurements: live rows and tables, in the order of their ids.
        most_records: public cap on the number of records.
        keeps: whether a row, a cell or a whole measurement is among them.
        before: the same of an earlier version, which `becomes` these.
    """

    def __init__(
        self,
        measurements: Sequence[AnyMeasurement],
        most_records: int,
        *,
        keeps: _Keeps | None = None,
        before: AsTheyAre | None = None,
    ) -> None:
        # Versions share the names of corners.
        super().__init__(self._grown, Lock() if before is None else before._lock)
        self._measurements = {m.id: m for m in measurements}
        self._most_records, self._keeps = most_records, keeps
        self._before: AsTheyAre | None = before
        if before is not None and before._rows is None:
            self._before = before._before
        self._numbered = _Numbered()
        self._is_grown = False

    def becomes(self, measurements: Sequence[AnyMeasurement]) -> bool:
        """Whether these are the same ones, perhaps refined, and others."""
        alphas = {m.id: m.alpha_nano for m in measurements}
        return all(alphas.get(i, -1) >= m.alpha_nano for i, m in self._measurements.items())

    @property
    def is_at_hand(self) -> bool:
        """Whether these were factored, or those of an earlier version were."""
        return self._rows is not None or self._before is not None

    def touched(self, ids: Iterable[int]) -> set[int] | None:
        """The measurements that depend on each other and on some of these; None if unknown."""
        with self._lock:
            rows = self._in_play()
            changed = as_rows([self._measurements[i] for i in ids], self._keeps)
            numbers = self._numbered.numbers_of(one for one in changed if not one.row.is_zero)
            reached = rows.reach(numbers)
            return None if reached is None else self._numbered.owners(reached)

    def _grown(self) -> RowsInPlay:
        """The rows, by those of the version before; called with the lock held."""
        before, self._before = self._before, None
        known = dict[int, AnyMeasurement]()
        # Copies share what was factored, so only one of them may grow.
        if before is None or before._rows is None or before._is_grown:
            rows = RowsInPlay(max_rows=MAX_ROWS, most_records=self._most_records)
        else:
            before._is_grown = True
            rows, known = before._rows.tried(), before._measurements
            self._numbered = before._numbered.copy()
        new = [m for i, m in self._measurements.items() if known.get(i) is not m]
        for one in self._numbered.taken(as_rows(new, self._keeps)):
            rows.note(one)
        rows.catch_up()
        return rows
