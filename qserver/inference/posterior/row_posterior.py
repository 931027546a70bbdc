"""The posterior of an estimate by rows and cells of tables."""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Final

import numpy as np

from qserver.errors import EvaluationError
from qserver.inference.arrays import FloatArray
from qserver.inference.disagreement.finest_table import Beside, by_finest
from qserver.inference.disagreement.known_sums import Together
from qserver.inference.disagreement.law_by_cheapest_method import law_given, laws_given
from qserver.inference.disagreement.normal_law_given_sums import LAPLACE_VARIANCE
from qserver.inference.disagreement.table_of_law import TableOfLaw
from qserver.inference.estimate import Posterior, WeightedSum, weighted_sum
from qserver.inference.posterior.disagreeing_rows import GivenPosterior, Stated
from qserver.inference.posterior.similar_questions import Alike
from qserver.inference.rows.refinement import Weights
from qserver.inference.rows.rows_in_play import RowsInPlay
from qserver.query.linear_query import LinearQuery
from qserver.records.history import Measurement, TableMeasurement
from qserver.records.statement import OF_POSTERIOR, Statement

# ValueError is what the solvers raise where a number is not finite.
FAULTS_OF_FLOATS: Final = (EvaluationError, np.linalg.LinAlgError, ValueError)
_ROUGHEST = 0.05
_AS_GOOD, _NEARLY_AS_GOOD = 1.0 + 1e-6, 1.02
"""Most that a variance may be of a known one, also where little of what is known is left out."""


@dataclass(frozen=True)
class Wanted:
    """A wanted posterior.

    Args:
        row: the question.
        known: the law of its estimate's error.
        enough: sufficient numerical error of probabilities.
    """

    row: LinearQuery
    known: Posterior
    enough: float


class Cells(ABC):
    """Rows, and cells of tables, that may bear on questions. Thread-safe."""

    @abstractmethod
    def together(self, wanted: Sequence[Wanted]) -> Together | None:
        """All estimates by cells and rows; None if one is worse than known, or not determined.

        Given all disagreements a posterior does not depend on the weights. If a measurement is left
        out, the posterior must be as good as the estimate's.
        """

    def stated(self, wanted: Wanted) -> Stated | None:
        """The posterior of one question, or None."""
        found = self.together((wanted,))
        return None if found is None else stated(found, wanted)


class CellsAndRows(Cells):
    """Rows, and cells of tables as rows. Thread-safe.

    Args:
        make: factors the rows at their first use.
        lock: held while they are used.
    """

    def __init__(self, make: Callable[[], RowsInPlay], lock: Lock | None = None) -> None:
        self._lock = Lock() if lock is None else lock
        self._make = make
        self._rows: RowsInPlay | None = None

    def together(self, wanted: Sequence[Wanted]) -> Together | None:
        """All estimates by weights of least variance."""
        with self._lock:
            rows = self._in_play()
            found = list[_Least]()
            for one in wanted:
                least = _Least.of(rows, one.row)
                if least is None or not least.is_as_good_as(one.known):
                    return None
                found.append(least)
            sums = [one.sum(rows.answers(one.ids)) for one in found]
            values, errors = np.array([(one.value, one.error) for one in sums]).T
            return Together(values, errors, rows.known_sums(*(one.pairs for one in found)))

    def _in_play(self) -> RowsInPlay:
        if self._rows is None:
            self._rows = self._make()
        return self._rows


def rows_in_play(made: Sequence[Measurement], most_records: int) -> RowsInPlay:
    """These rows, factored."""
    found = RowsInPlay(max_rows=len(made), most_records=most_records)
    for one in made:
        found.note(one)
    found.catch_up()
    return found


@dataclass(frozen=True, eq=False)
class _Least:
    """Weights of least variance on rows, with the variance and the allowance without the sum's."""

    ids: list[int]
    weights: FloatArray
    variance: float
    allowance: float

    @classmethod
    def of(cls, rows: RowsInPlay, query: LinearQuery) -> _Least | None:
        found = rows.combinations(query, least=True)
        if found is None:
            return None
        weights, noise = found.least, found.noise
        variance = float(np.square(weights * noise.scales).sum())
        allowance = float(np.abs(weights) @ noise.steps) + found.error
        return cls(noise.ids.tolist(), weights, variance, allowance)

    @property
    def pairs(self) -> Weights:
        weights = self.weights.tolist()
        return tuple((i, w) for i, w in zip(self.ids, weights, strict=True) if w)

    def is_as_good_as(self, known: Posterior) -> bool:
        """Whether this estimate is as good as the known one."""
        return self.variance <= _AS_GOOD * float(np.square(known.scales).sum())

    def sum(self, answers: Sequence[float]) -> WeightedSum:
        """The estimate, with a bound on the error that lattice and floats add."""
        total = weighted_sum(self.weights, answers)
        return WeightedSum(total.value, self.allowance + total.error)


class ManyAlike:
    """The posteriors of similar questions, all computed at the first use of one. Thread-safe.

    Args:
        make: makes their merged rows.
        most_records: public cap on the number of records.
    """

    def __init__(
        self, make: Callable[[], Alike | None], wanted: Sequence[Wanted], most_records: int
    ) -> None:
        self._lock = Lock()
        self._make, self._wanted, self._most_records = make, wanted, most_records
        self._found: Sequence[Stated | None] | None = None

    def stated(self, place: int) -> Stated | None:
        """The posterior of one of them, as that of `CellsAndRows`."""
        with self._lock:
            if self._found is None:
                self._found = (None,) * len(self._wanted)
                with contextlib.suppress(*FAULTS_OF_FLOATS):
                    self._found = self._all() or self._found
            return self._found[place]

    def _all(self) -> list[Stated | None] | None:
        alike = self._make()
        if alike is None:
            return None
        rows = rows_in_play(alike.rows, self._most_records)
        least = _Least.of(rows, self._wanted[0].row)
        sums = None if least is None else rows.known_sums_of(least.pairs, alike.answers)
        if least is None or sums is None:
            return None
        given, all_wanted = sums.reduced(), self._wanted
        laws: Sequence[TableOfLaw | None] = [None] * len(all_wanted)
        if given.n_disagreements:
            laws = laws_given(given, enough=all_wanted[0].enough)
        pairs = zip(alike.answers[:, least.ids].tolist(), given.shift.tolist(), strict=True)
        return [
            _around(wanted, least.sum(answers), law, shift, given.n_disagreements)
            if least.is_as_good_as(wanted.known)
            else None
            for wanted, law, (answers, shift) in zip(all_wanted, laws, pairs, strict=True)
        ]


class CellsOfTable(Cells):
    """The cells of a table that has all other measurements as sums. Thread-safe.

    Args:
        make: makes the table and the other measurements, at their first use.
    """

    def __init__(self, make: Callable[[], tuple[TableMeasurement, Beside]]) -> None:
        self._make = make

    def together(self, wanted: Sequence[Wanted]) -> Together | None:
        """All estimates by the cells of the table, and the known sums of their errors."""
        found = by_finest([one.row for one in wanted], *self._make())
        if found is None:
            return None
        for one, variance in zip(wanted, found[1].tolist(), strict=True):
            known = LAPLACE_VARIANCE * float(np.square(one.known.scales).sum())
            if variance > _NEARLY_AS_GOOD * known:
                return None
        return found[0]


def stated(found: Together, wanted: Wanted) -> Stated:
    """The posterior of the one question of `found`, around the known estimate.

    Raises:
        EvaluationError: the law's numerical error, or the estimate's allowance, is too large to be
            of use.
    """
    given = found.sums.reduced()
    estimate = WeightedSum(float(found.estimates[0]), float(found.allowances[0]))
    law = law_given(given, enough=wanted.enough) if given.n_disagreements else None
    return _around(wanted, estimate, law, float(given.shift), given.n_disagreements)


def _around(
    wanted: Wanted, estimate: WeightedSum, law: TableOfLaw | None, shift: float, n: int
) -> Stated:
    """The posterior around the known estimate, by the law of another one's error.

    Args:
        estimate: the other one.
        law: of its error less `shift`; None if no disagreement bears on it.
        n: number of disagreements that bear on it.
    """
    known = wanted.known
    if law is None:
        return Stated(known, OF_POSTERIOR)
    if not (law.largest_error <= _ROUGHEST and math.isfinite(estimate.error)):
        raise EvaluationError
    shift += known.estimate - estimate.value
    found = GivenPosterior(known.estimate, law, shift, 1.0, estimate.error)
    return Stated(found, Statement("posterior", law.largest_error, n))
