"""The posteriors of estimates, each computed once for one history."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock

import numpy as np

from qserver.errors import EvaluationError
from qserver.inference.given.known_sums import KnownSums, Reduced, reduced
from qserver.inference.given.law_given import ENOUGH, law_given
from qserver.inference.given.table_of_law import TableOfLaw
from qserver.inference.posterior.cells_as_rows import are_few, cells_as_rows, chosen
from qserver.inference.posterior.given import GivenPosterior
from qserver.inference.posterior.posterior import Posterior, weighted_sum
from qserver.inference.posterior.row_estimate import RowEstimate
from qserver.inference.posterior.stated import Stated
from qserver.inference.posterior.to_state import ToState
from qserver.inference.rows.refinement import Weights
from qserver.inference.rows.rows_in_play import RowsInPlay
from qserver.inference.sought import trim
from qserver.query.linear import LinearQuery
from qserver.records.history import AnyMeasurement, Measurement
from qserver.records.statement import EXACT, OF_ESTIMATOR, OF_POSTERIOR, Statement

_Key = tuple[LinearQuery, float, float, Weights, tuple[int, ...], float]

_MOST_KNOWN, _MOST_WITH_CELLS = 512, 16
_ROUGHEST = 0.05
# ValueError is what the solvers raise where a number is not finite.
_FAULTS_OF_FLOATS = (EvaluationError, np.linalg.LinAlgError, ValueError)
_AS_GOOD = 1.0 + 1e-6


@dataclass(frozen=True, eq=False)
class _Law:
    """The law of an error given the disagreements that bear on it."""

    given: Reduced
    error: TableOfLaw

    def stated(self, known: Posterior, *, off: float = 0.0) -> Stated:
        """The posterior around an estimate.

        Args:
            known: the estimate, with its allowance for lattice and floats.
            off: what it is above that of the weights that the law is of.

        Raises:
            EvaluationError: the law's numerical error is too large to be of use.
        """
        error = self.error
        if not error.largest_error <= _ROUGHEST:
            raise EvaluationError
        shift = self.given.shift + off
        found = GivenPosterior(known.estimate, error, shift, 1.0, known.allowance)
        told = Statement("posterior", error.largest_error, self.given.n_disagreements)
        return Stated(found, told)


class Posteriors:
    """The posteriors of estimates on one history. Not safe for concurrent use; what it finds is.

    Args:
        rows: the rows that are combined by algebra; they know what disagrees.
        measurements: all live rows and tables by id.
    """

    def __init__(self, rows: RowsInPlay, measurements: Sequence[AnyMeasurement]) -> None:
        self._rows, self._measurements = rows, measurements
        self._known: OrderedDict[_Key, ToState] = OrderedDict()
        self._with_cells: OrderedDict[tuple[int, ...], _CellsAndRows] = OrderedDict()
        self._few: bool | None = None

    def clear(self) -> None:
        """Forget all, since the history has changed."""
        self._known.clear()
        self._with_cells.clear()
        self._few = None

    def of(self, row: LinearQuery, estimate: RowEstimate, *, enough: float = ENOUGH) -> ToState:
        """The posterior of a row, given all disagreements that bear on its estimate.

        For an independent answer, where tables have too many cells, or where floats fail, it is
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
            self._known[key] = ToState(self._found(row, estimate, enough))
        return self._known[key]

    def _found(
        self, row: LinearQuery, estimate: RowEstimate, enough: float
    ) -> Stated | Callable[[], Stated]:
        known = estimate.posterior
        if self._few is None:
            self._few = are_few(self._measurements)
        # Cells may disagree with rows also where the estimate uses rows alone.
        if estimate.tables or estimate.beside or self._few:
            rows = self._cells_and_rows((*estimate.ids, *estimate.tables))
            if rows is None:
                return Stated(known, OF_ESTIMATOR)
            return partial(_or_of_estimator, known, partial(rows.stated, row, known, enough))
        try:
            sums = self._rows.known_sums(estimate.weights)
        except _FAULTS_OF_FLOATS:
            return Stated(known, OF_ESTIMATOR)
        return partial(_or_of_estimator, known, partial(_by_rows, sums, known, enough))

    def _cells_and_rows(self, used: Sequence[int]) -> _CellsAndRows | None:
        ids = chosen(self._measurements, used)
        if ids is None:
            return None
        if ids not in self._with_cells:
            trim(self._with_cells, _MOST_WITH_CELLS)
            rows = cells_as_rows(self._measurements[i] for i in ids)
            self._with_cells[ids] = _CellsAndRows(rows, self._rows.most_records)
        return self._with_cells[ids]


class _CellsAndRows:
    """Rows, and cells of tables as rows. Thread-safe.

    Args:
        rows: numbered from 0.
        most_records: public cap on the number of records.
    """

    def __init__(self, rows: Sequence[Measurement], most_records: int) -> None:
        self._lock = Lock()
        self._rows = RowsInPlay(max_rows=len(rows), most_records=most_records)
        for one in rows:
            self._rows.note(one)

    def stated(self, row: LinearQuery, known: Posterior, enough: float) -> Stated:
        """The posterior by weights on cells and rows alike.

        Given all disagreements it does not depend on the weights. Where some measurement is left
        out, it is taken only if it is as good as that of the estimate.

        Args:
            known: that of the estimate's error.
        """
        with self._lock:
            self._rows.catch_up()
            found = self._rows.combinations(row)
            if found is None:
                return Stated(known, OF_ESTIMATOR)
            weights, noise = found.least, found.noise
            variance = float(np.square(weights * noise.scales).sum())
            if variance > _AS_GOOD * float(np.square(known.scales).sum()):
                return Stated(known, OF_ESTIMATOR)
            sums = self._rows.known_sums(found.pairs(np.zeros(found.n_directions)))
            total = weighted_sum(weights, self._rows.answers(noise.ids))
        law = _law_of(sums, enough)
        if law is None:
            return Stated(known, OF_POSTERIOR)
        allowance = float(np.abs(weights) @ noise.steps) + found.error + total.error
        return law.stated(replace(known, allowance=allowance), off=known.estimate - total.value)


def _or_of_estimator(known: Posterior, find: Callable[[], Stated]) -> Stated:
    """What is found; where floats fail the law of the estimate's error."""
    try:
        return find()
    except _FAULTS_OF_FLOATS:
        return Stated(known, OF_ESTIMATOR)


def _by_rows(sums: KnownSums, known: Posterior, enough: float) -> Stated:
    law = _law_of(sums, enough)
    return Stated(known, OF_POSTERIOR) if law is None else law.stated(known)


def _law_of(known: KnownSums, enough: float) -> _Law | None:
    """The law of the error; None if no disagreement bears on it."""
    given = reduced(known)
    return _Law(given, law_given(given, enough=enough)) if given.n_disagreements else None
