"""The posterior of an estimate by rows, of which some may be cells of tables."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Final

import numpy as np

from qserver.errors import EvaluationError
from qserver.inference.arrays import FloatArray
from qserver.inference.estimate import Posterior, weighted_sum
from qserver.inference.given.finest import Beside, by_finest
from qserver.inference.given.known_sums import KnownSums, ManySums, Reduced
from qserver.inference.given.law_given import law_given, laws_given
from qserver.inference.given.normal import LAPLACE_VARIANCE
from qserver.inference.given.table_of_law import TableOfLaw
from qserver.inference.posterior.alike import Alike
from qserver.inference.posterior.given_posterior import GivenPosterior, Stated
from qserver.inference.rows.refinement import Weights
from qserver.inference.rows.rows_in_play import RowsInPlay
from qserver.query.linear import LinearQuery
from qserver.records.history import Measurement, TableMeasurement
from qserver.records.statement import OF_POSTERIOR, Statement

# ValueError is what the solvers raise where a number is not finite.
FAULTS_OF_FLOATS: Final = (EvaluationError, np.linalg.LinAlgError, ValueError)
_ROUGHEST = 0.05
_AS_GOOD, _NEARLY_AS_GOOD = 1.0 + 1e-6, 1.02
"""Most that a variance may be of a known one, also where little of what is known is left out."""


@dataclass(frozen=True)
class Wanted:
    """The posterior that is wanted.

    Args:
        row: the question.
        known: the law of its estimate's error.
        enough: numerical error of probabilities that is small enough.
    """

    row: LinearQuery
    known: Posterior
    enough: float


class CellsAndRows:
    """Rows, and cells of tables as rows. Thread-safe.

    Args:
        make: factors the rows when they are first needed.
        lock: held while they are used.
    """

    def __init__(self, make: Callable[[], RowsInPlay], lock: Lock | None = None) -> None:
        self._lock = Lock() if lock is None else lock
        self._make = make
        self._rows: RowsInPlay | None = None

    def stated(self, wanted: Wanted) -> Stated | None:
        """The posterior by weights on cells and rows alike.

        Given all disagreements it does not depend on the weights. Where some measurement is left
        out, it is taken only if it is as good as that of the estimate; else it is None.
        """
        found = self.together((wanted,))
        return None if found is None else found.stated(wanted)

    def together(self, wanted: Sequence[Wanted]) -> Together | None:
        """All estimates by weights on cells and rows alike, as `Stated` has them, or None."""
        with self._lock:
            rows = self._in_play()
            found = list[ByWeights]()
            for one in wanted:
                by_weights = _by_weights(rows, one)
                if by_weights is None:
                    return None
                found.append(by_weights)
            return Together(tuple(found), rows.known_sums(*(one.weights for one in found)))

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


@dataclass(frozen=True)
class ByWeights:
    """An estimate by weights on rows, with a bound on the error that lattice and floats add."""

    estimate: float
    allowance: float
    weights: Weights


@dataclass(frozen=True, eq=False)
class Together:
    """Some estimates, and the sums of errors that bear on them."""

    estimates: tuple[ByWeights, ...]
    sums: KnownSums | ManySums

    def stated(self, wanted: Wanted) -> Stated:
        """The posterior, where the estimate is one."""
        (found,) = self.estimates
        return _around(_law_of(self.sums, wanted.enough), wanted, found)


@dataclass(frozen=True, eq=False)
class _Least:
    """Weights of least variance on rows, with the variance and the allowance but for the sum."""

    ids: list[int]
    weights: FloatArray
    variance: float
    allowance: float

    @classmethod
    def of(cls, rows: RowsInPlay, query: LinearQuery) -> _Least | None:
        found = rows.combinations(query)
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

    def by_weights(self, wanted: Wanted, answers: Sequence[float]) -> ByWeights | None:
        """The estimate; None if a better one is known."""
        if self.variance > _AS_GOOD * float(np.square(wanted.known.scales).sum()):
            return None
        total = weighted_sum(self.weights, answers)
        return ByWeights(total.value, self.allowance + total.error, self.pairs)


def _by_weights(rows: RowsInPlay, wanted: Wanted) -> ByWeights | None:
    """The estimate of least variance; None if there is none, or a worse one than is known."""
    least = _Least.of(rows, wanted.row)
    return None if least is None else least.by_weights(wanted, rows.answers(least.ids))


class ManyAlike:
    """The posteriors of questions that are alike, all found when the first is wanted. Thread-safe.

    Args:
        make: what is merged for them.
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
        of_least = alike.answers[:, least.ids].tolist()
        found = [least.by_weights(*one) for one in zip(self._wanted, of_least, strict=True)]
        laws = _laws_of(sums, self._wanted[0].enough)
        return [
            None if one is None else _around(law, wanted, one)
            for law, wanted, one in zip(laws, self._wanted, found, strict=True)
        ]


def by_sums(sums: KnownSums | ManySums, wanted: Wanted) -> Stated:
    """The posterior of an estimate whose error, and what is known of it, is given."""
    law = _law_of(sums, wanted.enough)
    return Stated(wanted.known, OF_POSTERIOR) if law is None else law.stated(wanted.known)


class CellsOfTable:
    """The cells of a table, of which all else are sums. Thread-safe.

    Args:
        make: makes the table, and what may bear on the questions beside it, when they are needed.
    """

    def __init__(self, make: Callable[[], tuple[TableMeasurement, Beside]]) -> None:
        self._make = make

    def stated(self, wanted: Wanted) -> Stated | None:
        """The posterior by the cells, as that of `CellsAndRows`."""
        found = self.together((wanted,))
        return None if found is None else found.stated(wanted)

    def together(self, wanted: Sequence[Wanted]) -> Together | None:
        """All estimates by the cells; None if one is worse than is known, or not told."""
        found = by_finest([one.row for one in wanted], *self._make())
        if found is None:
            return None
        for one, variance in zip(wanted, found.variances.tolist(), strict=True):
            known = LAPLACE_VARIANCE * float(np.square(one.known.scales).sum())
            if variance > _NEARLY_AS_GOOD * known:
                return None
        pairs = zip(found.estimates.tolist(), found.allowances.tolist(), strict=True)
        return Together(tuple(ByWeights(*pair, ()) for pair in pairs), found.sums)


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
        shift = float(self.given.shift) + off
        found = GivenPosterior(known.estimate, error, shift, 1.0, known.allowance)
        told = Statement("posterior", error.largest_error, self.given.n_disagreements)
        return Stated(found, told)


def _law_of(known: KnownSums | ManySums, enough: float) -> _Law | None:
    """The law of the error; None if no disagreement bears on it."""
    given = known.reduced()
    return _Law(given, law_given(given, enough=enough)) if given.n_disagreements else None


def _laws_of(known: KnownSums, enough: float) -> Sequence[_Law | None]:
    """The same given each of several histories that differ in answers alone."""
    given = known.reduced()
    if not given.n_disagreements:
        return [None] * len(known.values)
    laws = laws_given(given, enough=enough)
    pairs = zip(given.shift, laws, strict=True)
    return [_Law(replace(given, shift=shift), law) for shift, law in pairs]


def _around(law: _Law | None, wanted: Wanted, found: ByWeights) -> Stated:
    """The posterior around the known estimate, by the law of another one's error."""
    known = wanted.known
    if law is None:
        return Stated(known, OF_POSTERIOR)
    off = known.estimate - found.estimate
    return law.stated(replace(known, allowance=found.allowance), off=off)
