"""The posteriors of estimates, each computed once for one history.

Rows and cells are factored once and followed from version to version. A purchase adds a few rows to
many. So the factors of the version before are copied and extended, and no row is factored again.
Earlier versions do not change: their holders may compute with them later.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from threading import Lock

import numpy as np

from qserver.inference.disagreement.known_sums import KnownSums, Together
from qserver.inference.disagreement.law_by_cheapest_method import ENOUGH
from qserver.inference.estimate import RowEstimate, trim
from qserver.inference.limits import MAX_ROWS, MOST_MERGED
from qserver.inference.posterior.cells_as_rows import (
    MOST_CELLS,
    Blocks,
    NearPeriods,
    as_rows,
    finest_and_others,
    linked,
    merged_rows,
    n_rows,
    own_periods,
)
from qserver.inference.posterior.disagreeing_rows import Stated, ToState
from qserver.inference.posterior.row_posterior import (
    FAULTS_OF_FLOATS,
    Cells,
    CellsAndRows,
    CellsOfTable,
    ManyAlike,
    Wanted,
    rows_in_play,
    stated,
)
from qserver.inference.posterior.similar_questions import Shapes
from qserver.inference.reach import Reach
from qserver.inference.rows.refinement import Weights
from qserver.inference.rows.rows_in_play import RowsInPlay
from qserver.inference.tables.pieces import asked_periods
from qserver.query.linear_query import LinearQuery
from qserver.records.history import AnyMeasurement, Measurement, TableMeasurement
from qserver.records.statement import EXACT, OF_ESTIMATOR, OF_POSTERIOR

Rows = Sequence[LinearQuery]
Estimates = Sequence[RowEstimate]
_Key = tuple[LinearQuery, float, float, Weights, tuple[int, ...], float]
_Way = Callable[[], Stated | None]

_MOST_KNOWN, _MOST_WITH_CELLS, _MOST_TOGETHER = 1_024, 16, 8
"""A table of 1,000 numbers is among the known ones as a whole."""
_OF_PERIODS = (-1,)
"""What keys of periods begin with; others are ids of measurements."""


class Posteriors:
    """The posteriors of estimates on one history. Not safe for concurrent use; what it finds is.

    Args:
        rows: the rows combined by algebra, with their disagreements.
        measurements: all live rows and tables by id.
        apart: the attribute of periods of data that arrive over time; None without such data.
    """

    def __init__(
        self, rows: RowsInPlay, measurements: Sequence[AnyMeasurement], apart: int | None = None
    ) -> None:
        self._rows, self._measurements, self._apart = rows, measurements, apart
        self._known: OrderedDict[_Key, ToState] = OrderedDict()
        self._as_they_are: OrderedDict[tuple[int, ...], AsTheyAre] = OrderedDict()
        self._present: dict[tuple[int, ...], AsTheyAre] = {}
        self._together: OrderedDict[tuple[_Key, ...], Together | None] = OrderedDict()
        self._kind_of_history = ""
        self._version = _Version(measurements, apart)
        self._shapes: OrderedDict[tuple[int, ...], Shapes] = OrderedDict()

    def follow(self, changed: Collection[int], *, is_known: bool) -> set[int] | None:
        """Forget results that new or refined measurements may change.

        Args:
            changed: their ids.
            is_known: whether nothing else has changed.

        Returns:
            Ids of all measurements whose bearing on some question may have changed, these included;
            None for all.
        """
        self._together.clear()
        self._present.clear()
        self._shapes.clear()
        self._version = _Version(self._measurements, self._apart)
        before, self._kind_of_history = self._kind_of_history, self._present_kind
        is_alike = is_known and before == self._kind_of_history
        touched = self._touched(changed) if is_alike else None
        if touched is None:
            self._known.clear()
            return None
        for key in [key for key in self._known if not touched.isdisjoint(_used(key))]:
            del self._known[key]
        return touched

    @property
    def _present_kind(self) -> str:
        """Kind of the present history, which decides how posteriors are found."""
        if not self._version.size:
            return "rows"
        return "cells" if self._version.size <= MOST_CELLS else "many cells"

    def _touched(self, changed: Collection[int]) -> set[int] | None:
        """As `follow`.

        If rows are known by their corners, only dependent rows bear on each other; else all that
        share a cell, or a period.
        """
        some = [self._measurements[i] for i in changed]
        if any(one.alpha_nano == 0 for one in some):
            return None
        if self._kind_of_history == "rows":
            return self._rows.reach(one.id for one in some if not _inside(one).is_zero)
        if self._kind_of_history == "cells":
            every = self._of(tuple(range(len(self._measurements))))
            return every.touched(changed) if self._known or every.is_at_hand else None
        if (apart := self._apart) is not None:
            near = linked(own_periods(list(map(_inside, some)), apart), self._version.periods)
            return {one.id for one in self._measurements if near.holds(one)}
        return {i for ids in self._version.reach.of_each(list(map(_inside, some))) for i in ids}

    def of(self, row: LinearQuery, estimate: RowEstimate, *, enough: float = ENOUGH) -> ToState:
        """The posterior of a row, given the disagreements that bear on its estimate.

        For an independent answer, for too fine tables, or if floats fail, it is the law of the
        estimate's error.

        Args:
            enough: sufficient numerical error of probabilities.
        """
        known = estimate.posterior
        if known.is_exact:
            return ToState(Stated(known, EXACT))
        # What an independent answer disagrees about is with answers that were looked at.
        if estimate.method == "independent":
            return ToState(Stated(known, OF_ESTIMATOR))
        key = _key(row, estimate, enough)
        if key not in self._known:
            self.ahead((row,), (estimate,), enough=enough)
        return self._known[key]

    def ahead(self, rows: Rows, estimates: Estimates, *, enough: float = ENOUGH) -> None:
        """Note questions whose posteriors are needed soon: similar ones are found at once."""
        new = dict[_Key, tuple[Wanted, RowEstimate]]()
        for row, estimate in zip(rows, estimates, strict=True):
            key = _key(row, estimate, enough)
            if _has_law(estimate) and key not in self._known:
                new[key] = Wanted(row, estimate.posterior, enough), estimate
        alike = dict[Hashable, list[_Key]]()
        for (key, pair), ids in zip(new.items(), self._reached(list(new.values())), strict=True):
            trim(self._known, _MOST_KNOWN)
            if _is_of_one_table(pair[1], ids):
                self._known[key] = ToState(Stated(pair[0].known, OF_POSTERIOR))
            else:
                kind = self._kind(pair[0].row, ids) if len(new) > 1 else None
                alike.setdefault(kind or key, []).append(key)
        for keys in alike.values():
            self._note([(key, *new[key]) for key in keys])

    def _reached(self, found: Sequence[tuple[Wanted, RowEstimate]]) -> list[tuple[int, ...]]:
        """Measurements in reach of each question; none if they would tell nothing."""
        tells = any(estimate.tables and not estimate.ids for _, estimate in found)
        if not tells and (len(found) == 1 or self._version.size <= MOST_CELLS):
            return [()] * len(found)
        return self._version.reach.of_each([wanted.row for wanted, _ in found])

    def _kind(self, row: LinearQuery, ids: tuple[int, ...]) -> Hashable:
        """Key of similar questions; None if nothing is merged for them."""
        if self._apart is not None or self._version.size <= MOST_CELLS:
            return None
        shapes = self._shapes_of(ids)
        return (ids, shapes.key(row)) if shapes.are_usable else None

    def _shapes_of(self, ids: tuple[int, ...]) -> Shapes:
        if ids not in self._shapes:
            trim(self._shapes, _MOST_WITH_CELLS)
            self._shapes[ids] = Shapes([self._measurements[i] for i in ids])
        return self._shapes[ids]

    def _note(self, found: Sequence[tuple[_Key, Wanted, RowEstimate]]) -> None:
        """Note similar questions, or a single one."""
        all_wanted, firsts = [wanted for _, wanted, _ in found], list[list[_Way]]()
        if len(found) > 1:
            rows = [wanted.row for wanted in all_wanted]
            make = partial(self._shapes_of(self._version.reach.of_each(rows[:1])[0]).alike, rows)
            together = ManyAlike(make, all_wanted, self._rows.most_records)
            firsts = [[partial(together.stated, place)] for place in range(len(found))]
        for place, (key, wanted, estimate) in enumerate(found):
            ways = self._ways(wanted, estimate)
            if isinstance(ways, Stated):
                self._known[key] = ToState(ways)
                continue
            first = firsts[place] if firsts else []
            compute = partial(_first, wanted, [*first, *ways])
            self._known[key] = ToState(compute, is_alike=bool(firsts))

    def together(self, rows: Rows, estimates: Estimates) -> Together | None:
        """Estimates with the disagreements that bear on them; None if unknown."""
        if any(one.method == "independent" for one in estimates):
            return None
        pairs = list(zip(rows, estimates, strict=True))
        key = tuple(_key(row, estimate, ENOUGH) for row, estimate in pairs)
        if key not in self._together:
            trim(self._together, _MOST_TOGETHER)
            wanted = [Wanted(row, estimate.posterior, ENOUGH) for row, estimate in pairs]
            self._together[key] = self._found_together(wanted, rows, estimates)
        return self._together[key]

    def _found_together(
        self, wanted: Sequence[Wanted], rows: Rows, estimates: Estimates
    ) -> Together | None:
        ways = self._cells_and_rows(rows, estimates)
        for way in ways:
            with contextlib.suppress(*FAULTS_OF_FLOATS):
                found = way.together(wanted)
                if found is not None:
                    return found
        if not self._may_use_rows_alone(ways, estimates):
            return None
        with contextlib.suppress(*FAULTS_OF_FLOATS):
            sums = self._rows.known_sums(*(one.weights for one in estimates))
            return _as_known(wanted, sums)
        return None

    def _ways(self, wanted: Wanted, estimate: RowEstimate) -> Sequence[_Way] | Stated:
        """Ways to the posterior, best first, or the posterior itself, without the history."""
        found = self._cells_and_rows((wanted.row,), (estimate,))
        ways: list[_Way] = [partial(rows.stated, wanted) for rows in found]
        if self._may_use_rows_alone(ways, (estimate,)):
            with contextlib.suppress(*FAULTS_OF_FLOATS):
                sums = self._rows.known_sums(estimate.weights)
                if not ways and sums.are_none:
                    return Stated(wanted.known, OF_POSTERIOR)
                ways.append(partial(stated, _as_known([wanted], sums), wanted))
        return ways

    def _may_use_rows_alone(self, ways: Sequence[object], estimates: Estimates) -> bool:
        """Whether rows alone may be the last way: cells are unknown or too many."""
        are_rows = not any(map(_uses_cells, estimates))
        return are_rows and (not ways or self._version.size > MOST_CELLS)

    def _cells_and_rows(self, rows: Rows, estimates: Estimates) -> Sequence[Cells]:
        """Cells and rows whose disagreements may bear on questions, the best first.

        Cells may disagree with rows also where the estimates use rows alone.
        """
        used = sorted({i for one in estimates for i in (*one.ids, *one.tables)})
        if not self._version.size:
            return []
        if self._apart is not None:
            return self._with_periods(rows, used, self._apart)
        return self._with_tables(rows, used)

    def _with_periods(self, rows: Rows, used: Sequence[int], apart: int) -> list[CellsAndRows]:
        """Rows and cells of periods that may bear on questions; none if all are rows.

        They are merged if too many; then those of the questions' own periods follow, not merged.
        """
        own = own_periods(rows, apart)
        near = linked(own, self._version.periods)
        n_cells = self._n_cells(near)
        if not n_cells:
            return []
        if near.n_rows(self._version.periods) + n_cells <= MOST_CELLS:
            return [self._of(near)]
        merged = self._merged(rows, used, near)
        ways = [self._made(merged)]
        if own.n_rows(self._version.periods) + self._n_cells(own) <= MOST_CELLS:
            ways.append(self._of(own))
        return [*ways, *self._refined(merged, used)]

    def _n_cells(self, near: NearPeriods) -> int:
        tables = (m for m in self._measurements if isinstance(m, TableMeasurement))
        return sum(near.n_cells(table.partition) for table in tables)

    def _merged(
        self, rows: Rows, used: Sequence[int], near: NearPeriods | None = None
    ) -> partial[list[Measurement]]:
        """Merged cells and rows that may bear on the questions."""
        return partial(merged_rows, tuple(rows), self._version.reach, frozenset(used), near)

    def _refined(
        self, merged: partial[list[Measurement]], used: Sequence[int]
    ) -> list[CellsAndRows]:
        """The last way, if estimates use tables: tables separate values, too."""
        return [self._made(partial(merged, refines=True))] if self._uses_tables(used) else []

    def _made(self, make: Callable[[], Sequence[Measurement]]) -> CellsAndRows:
        return CellsAndRows(lambda: rows_in_play(make(), self._rows.most_records))

    def _with_tables(self, rows: Rows, used: Sequence[int]) -> list[Cells]:
        """Cells and rows as they are; if too many, first merged for the questions.

        Unmerged ones serve all questions of a history, factored once, with all disagreements. If
        rows exceed the limit of merging, the unmerged ones that fit come first, for one question
        only: a joint law on so many takes too long. If the used ones alone are too many, they are
        merged less far; then come the cells of the finest table.
        """
        ways, ids, uses_tables = list[Cells](), None, self._uses_tables(used)
        if self._version.size > MOST_CELLS:
            ways.append(self._made(self._merged(rows, used)))
        if self._version.size <= MOST_CELLS or uses_tables or self._version.has_many_rows:
            ids = self._version.blocks.chosen(used)
        if ids is not None:
            is_first = len(rows) == 1 and self._version.has_many_rows
            ways.insert(0 if is_first else len(ways), self._of(ids))
        else:
            ways += self._refined(self._merged(rows, used), used)
        if uses_tables:
            make = partial(finest_and_others, tuple(rows), self._version.reach, frozenset(used))
            ways.append(CellsOfTable(make))
        return ways

    def _of(self, which: NearPeriods | tuple[int, ...]) -> AsTheyAre:
        """Unmerged rows and cells of these periods, or of these measurements."""
        key = (*_OF_PERIODS, *sorted(which.periods)) if isinstance(which, NearPeriods) else which
        if key not in self._present:
            trim(self._as_they_are, _MOST_WITH_CELLS)
            self._present[key] = self._as_they_are[key] = self._followed(key, which)
        return self._present[key]

    def _followed(self, key: tuple[int, ...], which: NearPeriods | tuple[int, ...]) -> AsTheyAre:
        """The rows, continued from an earlier version that became these, if known."""
        of_periods = isinstance(which, NearPeriods)
        keeps = which.holds if isinstance(which, NearPeriods) else None
        some = self._measurements if of_periods else [self._measurements[i] for i in key]
        before = next(
            (
                old
                for old, one in reversed(self._as_they_are.items())
                if (old == key if of_periods else old[:1] != _OF_PERIODS) and one.becomes(some)
            ),
            None,
        )
        found = None if before is None else self._as_they_are.pop(before)
        return AsTheyAre(some, self._rows.most_records, keeps=keeps, before=found)

    def _uses_tables(self, used: Sequence[int]) -> bool:
        return any(isinstance(self._measurements[i], TableMeasurement) for i in used)


class _Version:
    """What rows and tables of one version of a history are, each found when it is first needed.

    Args:
        measurements: live rows and tables by id.
        apart: as of Posteriors.
    """

    def __init__(self, measurements: Sequence[AnyMeasurement], apart: int | None) -> None:
        self._measurements, self._apart = measurements, apart

    @cached_property
    def size(self) -> int:
        """Number of rows and cells; 0 where there are no tables."""
        has_tables = any(isinstance(one, TableMeasurement) for one in self._measurements)
        return sum(map(n_rows, self._measurements)) if has_tables else 0

    @cached_property
    def has_many_rows(self) -> bool:
        """Whether merging would leave out some of the rows."""
        return sum(isinstance(one, Measurement) for one in self._measurements) > MOST_MERGED

    @cached_property
    def periods(self) -> list[frozenset[int]]:
        """The periods of each row; none where no periods are kept apart."""
        rows = (m.row for m in self._measurements if isinstance(m, Measurement))
        return [] if self._apart is None else [asked_periods(row, self._apart) for row in rows]

    @cached_property
    def blocks(self) -> Blocks:
        """All of them, by blocks that are taken together."""
        return Blocks(self._measurements)

    @cached_property
    def reach(self) -> Reach:
        """What of them questions meet."""
        return Reach(self._measurements)


def _key(row: LinearQuery, estimate: RowEstimate, enough: float) -> _Key:
    known = estimate.posterior
    return (row, known.estimate, known.allowance, estimate.weights, estimate.tables, enough)


def _used(key: _Key) -> set[int]:
    """Ids of the measurements behind an estimate."""
    return {*(i for i, _ in key[3]), *key[4]}


def _inside(one: AnyMeasurement) -> LinearQuery:
    """The row, or a table's cells as a box."""
    return one.row if isinstance(one, Measurement) else one.partition.inside


def _has_law(estimate: RowEstimate) -> bool:
    """Whether a posterior may differ from the law of the estimate's error."""
    return not estimate.posterior.is_exact and estimate.method != "independent"


def _is_of_one_table(estimate: RowEstimate, ids: tuple[int, ...]) -> bool:
    """Whether an estimate uses the only table in reach, which cannot disagree with itself.

    Cells share no noise, and only one sum of them is the question.

    Args:
        ids: of the measurements in reach.
    """
    return len(estimate.tables) == 1 and not estimate.ids and ids == tuple(estimate.tables)


def _uses_cells(estimate: RowEstimate) -> bool:
    return bool(estimate.tables or estimate.beside)


def _as_known(wanted: Sequence[Wanted], sums: KnownSums) -> Together:
    """The estimates as already known."""
    estimates = np.array([one.known.estimate for one in wanted])
    return Together(estimates, np.array([one.known.allowance for one in wanted]), sums)


def _first(wanted: Wanted, ways: Sequence[_Way]) -> Stated:
    """The result of the first successful way; the law of the estimate's error if none."""
    for way in ways:
        with contextlib.suppress(*FAULTS_OF_FLOATS):
            found = way()
            if found is not None:
                return found
    return Stated(wanted.known, OF_ESTIMATOR)


_Keeps = Callable[[AnyMeasurement], bool]


class _Numbered:
    """The kept rows, numbered in the order of arrival.

    Of a row measured twice only the least noisy measurement is kept: the other may repeat its noise
    and then adds nothing.
    """

    def __init__(self) -> None:
        self._best: dict[LinearQuery, tuple[float, int, int]] = {}
        self._owners: dict[int, tuple[int, ...]] = {}

    def copy(self) -> _Numbered:
        found = _Numbered()
        found._best, found._owners = dict(self._best), dict(self._owners)
        return found

    def numbers_of(self, rows: Iterable[Measurement]) -> set[int]:
        """Numbers of rows, whichever measurement was kept."""
        return {self._best[one.row][2] for one in rows}

    def owners(self, numbers: Iterable[int]) -> set[int]:
        """Ids of the measurements with these rows."""
        return {i for number in numbers for i in self._owners[number]}

    def taken(self, rows: Iterable[Measurement]) -> list[Measurement]:
        """The kept ones of new or refined rows, by number."""
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
        keeps: whether a row, a cell or a whole measurement is included.
        before: those of an earlier version, which `becomes` these.
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
        """Whether the later ones are these, perhaps refined, and others."""
        alphas = {m.id: m.alpha_nano for m in measurements}
        return all(alphas.get(i, -1) >= m.alpha_nano for i, m in self._measurements.items())

    @property
    def is_at_hand(self) -> bool:
        """Whether these, or those of an earlier version, are factored."""
        return self._rows is not None or self._before is not None

    def touched(self, ids: Iterable[int]) -> set[int] | None:
        """Measurements that depend on some of these; None if unknown."""
        with self._lock:
            rows = self._in_play()
            changed = as_rows([self._measurements[i] for i in ids], self._keeps)
            numbers = self._numbered.numbers_of(one for one in changed if not one.row.is_zero)
            reached = rows.reach(numbers)
            return None if reached is None else self._numbered.owners(reached)

    def _grown(self) -> RowsInPlay:
        """The rows, extended from the version before; called with the lock held."""
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
