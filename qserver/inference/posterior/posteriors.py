"""The posteriors of estimates, each computed once for one history."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np

from qserver.errors import EvaluationError
from qserver.inference.given.law_given import ENOUGH
from qserver.inference.posterior.by_rows import (
    ByWeights,
    CellsAndRows,
    Together,
    Wanted,
    by_sums,
)
from qserver.inference.posterior.cells_as_rows import (
    MOST_CELLS,
    cells_as_rows,
    chosen,
    linked,
    n_rows,
    nearby,
)
from qserver.inference.posterior.merged import MOST_MERGED, merged_rows
from qserver.inference.posterior.row_estimate import RowEstimate
from qserver.inference.posterior.stated import Stated
from qserver.inference.posterior.to_state import ToState
from qserver.inference.rows.refinement import Weights
from qserver.inference.rows.rows_in_play import RowsInPlay
from qserver.inference.sought import trim
from qserver.query.linear import LinearQuery
from qserver.records.history import AnyMeasurement, TableMeasurement
from qserver.records.statement import EXACT, OF_ESTIMATOR

_Key = tuple[LinearQuery, float, float, Weights, tuple[int, ...], float]
TwoRows = tuple[LinearQuery, LinearQuery]
TwoEstimates = tuple[RowEstimate, RowEstimate]
_Way = Callable[[], Stated | None]

_MOST_KNOWN, _MOST_WITH_CELLS = 1_024, 16
"""A table of 1,000 numbers is among the known ones as a whole."""
# ValueError is what the solvers raise where a number is not finite.
FAULTS_OF_FLOATS: Final = (EvaluationError, np.linalg.LinAlgError, ValueError)


class Posteriors:
    """The posteriors of estimates on one history. Not safe for concurrent use; what it finds is.

    Args:
        rows: the rows that are combined by algebra; they know what disagrees.
        measurements: all live rows and tables by id.
        apart: the attribute of periods of data that arrive over time; None where all are there.
    """

    def __init__(
        self, rows: RowsInPlay, measurements: Sequence[AnyMeasurement], apart: int | None = None
    ) -> None:
        self._rows, self._measurements, self._apart = rows, measurements, apart
        self._known: OrderedDict[_Key, ToState] = OrderedDict()
        self._with_cells: OrderedDict[tuple[int, ...], CellsAndRows] = OrderedDict()
        self._n_rows: int | None = None

    def clear(self) -> None:
        """Forget all, since the history has changed."""
        self._known.clear()
        self._with_cells.clear()
        self._n_rows = None

    def of(self, row: LinearQuery, estimate: RowEstimate, *, enough: float = ENOUGH) -> ToState:
        """The posterior of a row, given the disagreements that bear on its estimate.

        For an independent answer, where tables tell too much apart, or where floats fail, it is
        the law of the estimate's error.

        Args:
            enough: numerical error of probabilities that is small enough.
        """
        known = estimate.posterior
        if known.error.is_exact:
            return ToState(Stated(known, EXACT))
        # What an independent answer disagrees about is with answers that were looked at.
        if estimate.method == "independent":
            return ToState(Stated(known, OF_ESTIMATOR))
        key = (row, known.estimate, known.allowance, estimate.weights, estimate.tables, enough)
        if key not in self._known:
            trim(self._known, _MOST_KNOWN)
            wanted = Wanted(row, known, enough)
            self._known[key] = ToState(partial(_first, wanted, self._ways(wanted, estimate)))
        return self._known[key]

    def together(self, rows: TwoRows, estimates: TwoEstimates) -> Together | None:
        """Two estimates with what disagrees about them; None where that is not known."""
        if any(one.method == "independent" for one in estimates):
            return None
        over, under = (
            Wanted(row, estimate.posterior, ENOUGH)
            for row, estimate in zip(rows, estimates, strict=True)
        )
        ways = self._cells_and_rows(rows, estimates)
        for way in ways:
            with contextlib.suppress(*FAULTS_OF_FLOATS):
                found = way.together((over, under))
                if found is not None:
                    return found
        if not self._may_use_rows_alone(ways, estimates):
            return None
        with contextlib.suppress(*FAULTS_OF_FLOATS):
            sums = self._rows.known_sums(*(one.weights for one in estimates))
            return Together((_as_known(over), _as_known(under)), sums)
        return None

    def _ways(self, wanted: Wanted, estimate: RowEstimate) -> Sequence[_Way]:
        """Ways to the posterior, the best first. They need the history no more."""
        found = self._cells_and_rows((wanted.row,), (estimate,))
        ways: list[_Way] = [partial(rows.stated, wanted) for rows in found]
        if self._may_use_rows_alone(ways, (estimate,)):
            with contextlib.suppress(*FAULTS_OF_FLOATS):
                ways.append(partial(by_sums, self._rows.known_sums(estimate.weights), wanted))
        return ways

    def _may_use_rows_alone(self, ways: Sequence[object], estimates: Sequence[RowEstimate]) -> bool:
        """Whether rows alone may be the last way: cells are not at hand, or are too many."""
        are_rows = not any(map(_uses_cells, estimates))
        return are_rows and (not ways or self._size > MOST_CELLS)

    def _cells_and_rows(
        self, rows: Sequence[LinearQuery], estimates: Sequence[RowEstimate]
    ) -> list[CellsAndRows]:
        """Cells and rows whose disagreements may bear on questions, the best first.

        Cells may disagree with rows also where the estimates use rows alone.
        """
        if self._apart is not None:
            near = self._nearby(rows, self._apart)
            return [] if near is None else [near]
        if not self._size:
            return []
        used = sorted({i for one in estimates for i in (*one.ids, *one.tables)})
        return self._with_tables(rows, used)

    def _nearby(self, rows: Sequence[LinearQuery], apart: int) -> CellsAndRows | None:
        """The rows and cells whose disagreements may bear on questions; None if all are rows."""
        periods = linked(rows, self._measurements, apart)
        if periods is None:
            return None
        key = tuple(sorted(periods))
        if key not in self._with_cells:
            trim(self._with_cells, _MOST_WITH_CELLS)
            make = partial(nearby, list(self._measurements), periods, apart)
            self._with_cells[key] = CellsAndRows(make, self._rows.most_records)
        return self._with_cells[key]

    def _with_tables(self, rows: Sequence[LinearQuery], used: Sequence[int]) -> list[CellsAndRows]:
        """Cells and rows: merged for the questions where they are many, and then as they are."""
        ways = list[CellsAndRows]()
        if self._size > MOST_MERGED:
            make = partial(merged_rows, tuple(rows), tuple(self._measurements), tuple(used))
            ways.append(CellsAndRows(make, self._rows.most_records))
        if self._size <= MOST_CELLS or self._uses_tables(used):
            ids = chosen(self._measurements, used)
            if ids is not None:
                ways.append(self._as_they_are(ids))
        return ways

    def _as_they_are(self, ids: tuple[int, ...]) -> CellsAndRows:
        if ids not in self._with_cells:
            trim(self._with_cells, _MOST_WITH_CELLS)
            some = [self._measurements[i] for i in ids]
            make = partial(cells_as_rows, some)
            self._with_cells[ids] = CellsAndRows(make, self._rows.most_records)
        return self._with_cells[ids]

    def _uses_tables(self, used: Sequence[int]) -> bool:
        return any(isinstance(self._measurements[i], TableMeasurement) for i in used)

    @property
    def _size(self) -> int:
        """Number of rows and cells; 0 where there are no tables."""
        if self._n_rows is None:
            has_tables = any(isinstance(one, TableMeasurement) for one in self._measurements)
            self._n_rows = sum(map(n_rows, self._measurements)) if has_tables else 0
        return self._n_rows


def _uses_cells(estimate: RowEstimate) -> bool:
    return bool(estimate.tables or estimate.beside)


def _as_known(wanted: Wanted) -> ByWeights:
    return ByWeights(wanted.known.estimate, wanted.known.allowance, ())


def _first(wanted: Wanted, ways: Sequence[_Way]) -> Stated:
    """What the first way finds that finds something; the law of the estimate's error if none."""
    for way in ways:
        with contextlib.suppress(*FAULTS_OF_FLOATS):
            found = way()
            if found is not None:
                return found
    return Stated(wanted.known, OF_ESTIMATOR)
