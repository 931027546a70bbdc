"""The posteriors of estimates, each computed once for one history."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from qserver.errors import EvaluationError
from qserver.inference.given.known_sums import KnownSums, Reduced, reduced
from qserver.inference.given.law_given import ENOUGH, law_given
from qserver.inference.given.table_of_law import TableOfLaw
from qserver.inference.posterior.cells_as_rows import cells_as_rows
from qserver.inference.posterior.given import GivenPosterior
from qserver.inference.posterior.posterior import Posterior, weighted_sum
from qserver.inference.posterior.row_estimate import RowEstimate
from qserver.inference.posterior.stated import Stated
from qserver.inference.rows.refinement import Weights
from qserver.inference.rows.rows_in_play import RowsInPlay
from qserver.inference.sought import trim
from qserver.query.linear import LinearQuery
from qserver.records.history import AnyMeasurement
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
    """The posteriors of estimates on one history. Not safe for concurrent use.

    Args:
        rows: the rows that are combined by algebra; they know what disagrees.
        measurements: all live rows and tables by id.
    """

    def __init__(self, rows: RowsInPlay, measurements: Sequence[AnyMeasurement]) -> None:
        self._rows, self._measurements = rows, measurements
        self._known: OrderedDict[_Key, Stated] = OrderedDict()
        self._with_cells: OrderedDict[frozenset[int], RowsInPlay | None] = OrderedDict()

    def clear(self) -> None:
        """Forget all, since the history has changed."""
        self._known.clear()
        self._with_cells.clear()

    def of(self, row: LinearQuery, estimate: RowEstimate, *, enough: float = ENOUGH) -> Stated:
        """The posterior of a row, given all disagreements that bear on its estimate.

        For an independent answer, where tables have too many cells, or where floats fail, it is
        the law of the estimate's error.

        Args:
            enough: numerical error of probabilities that is small enough.
        """
        known = estimate.posterior
        if known.error.is_exact:
            return Stated(known, EXACT)
        # What an independent answer disagrees about is with answers that were looked at.
        if estimate.method == "independent":
            return Stated(known, OF_ESTIMATOR)
        key = (row, known.estimate, known.allowance, estimate.weights, estimate.tables, enough)
        if key not in self._known:
            trim(self._known, _MOST_KNOWN)
            self._known[key] = self._found(row, estimate, enough)
        return self._known[key]

    def _found(self, row: LinearQuery, estimate: RowEstimate, enough: float) -> Stated:
        known = estimate.posterior
        try:
            if estimate.tables or estimate.beside:
                return self._with_tables(row, estimate, enough)
            law = _law_of(self._rows.known_sums(estimate.weights), enough)
            return Stated(known, OF_POSTERIOR) if law is None else law.stated(known)
        except _FAULTS_OF_FLOATS:
            return Stated(known, OF_ESTIMATOR)

    def _with_tables(self, row: LinearQuery, estimate: RowEstimate, enough: float) -> Stated:
        """The posterior by weights on cells and rows alike.

        Given all disagreements it does not depend on the weights. Where some measurement is left
        out, it is taken only if it is as good as that of the estimate.
        """
        known = estimate.posterior
        rows = self._cells_and_rows(frozenset((*estimate.ids, *estimate.tables)))
        found = None if rows is None else rows.combinations(row)
        if rows is None or found is None:
            return Stated(known, OF_ESTIMATOR)
        weights, noise = found.least, found.noise
        variance = float(np.square(weights * noise.scales).sum())
        if variance > _AS_GOOD * float(np.square(known.scales).sum()):
            return Stated(known, OF_ESTIMATOR)
        law = _law_of(rows.known_sums(found.pairs(np.zeros(found.n_directions))), enough)
        if law is None:
            return Stated(known, OF_POSTERIOR)
        total = weighted_sum(weights, rows.answers(noise.ids))
        allowance = float(np.abs(weights) @ noise.steps) + found.error + total.error
        return law.stated(replace(known, allowance=allowance), off=known.estimate - total.value)

    def _cells_and_rows(self, used: frozenset[int]) -> RowsInPlay | None:
        if used not in self._with_cells:
            trim(self._with_cells, _MOST_WITH_CELLS)
            rows, found = cells_as_rows(self._measurements, used), None
            if rows is not None:
                found = RowsInPlay(max_rows=len(rows), most_records=self._rows.most_records)
                for one in rows:
                    found.note(one)
                found.catch_up()
            self._with_cells[used] = found
        return self._with_cells[used]


def _law_of(known: KnownSums, enough: float) -> _Law | None:
    """The law of the error; None if no disagreement bears on it."""
    given = reduced(known)
    return _Law(given, law_given(given, enough=enough)) if given.n_disagreements else None
