"""The posterior of an estimate by rows, of which some may be cells of tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock

import numpy as np

from qserver.errors import EvaluationError
from qserver.inference.given.finest import Beside, by_finest
from qserver.inference.given.known_sums import KnownSums, Reduced
from qserver.inference.given.law_given import law_given
from qserver.inference.given.many_rows import ManySums
from qserver.inference.given.table_of_law import TableOfLaw
from qserver.inference.given.variances import LAPLACE_VARIANCE
from qserver.inference.posterior.given import GivenPosterior
from qserver.inference.posterior.posterior import Posterior, weighted_sum
from qserver.inference.posterior.stated import Stated
from qserver.inference.rows.refinement import Weights
from qserver.inference.rows.rows_in_play import RowsInPlay
from qserver.query.linear import LinearQuery
from qserver.records.history import Measurement, TableMeasurement
from qserver.records.statement import OF_POSTERIOR, Statement

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
        make: makes the rows when they are first needed, numbered from 0.
        most_records: public cap on the number of records.
    """

    def __init__(self, make: Callable[[], Sequence[Measurement]], most_records: int) -> None:
        self._lock = Lock()
        self._make, self._most_records = make, most_records
        self._rows: RowsInPlay | None = None

    def stated(self, wanted: Wanted) -> Stated | None:
        """The posterior by weights on cells and rows alike.

        Given all disagreements it does not depend on the weights. Where some measurement is left
        out, it is taken only if it is as good as that of the estimate; else it is None.
        """
        found = self.together((wanted,))
        return None if found is None else found.stated(wanted)

    def together(self, wanted: Sequence[Wanted]) -> Together | None:
        """All estimates by weights on cells and rows alike, as `stated` has them, or None."""
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
            made = self._make()
            self._rows = RowsInPlay(max_rows=len(made), most_records=self._most_records)
            for one in made:
                self._rows.note(one)
        self._rows.catch_up()
        return self._rows


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
        (found,), known, law = self.estimates, wanted.known, _law_of(self.sums, wanted.enough)
        if law is None:
            return Stated(known, OF_POSTERIOR)
        off = known.estimate - found.estimate
        return law.stated(replace(known, allowance=found.allowance), off=off)


def _by_weights(rows: RowsInPlay, wanted: Wanted) -> ByWeights | None:
    """The estimate of least variance; None if there is none, or a worse one than is known."""
    found = rows.combinations(wanted.row)
    if found is None:
        return None
    weights, noise = found.least, found.noise
    variance = float(np.square(weights * noise.scales).sum())
    if variance > _AS_GOOD * float(np.square(wanted.known.scales).sum()):
        return None
    total = weighted_sum(weights, rows.answers(noise.ids))
    allowance = float(np.abs(weights) @ noise.steps) + found.error + total.error
    return ByWeights(total.value, allowance, found.pairs(np.zeros(found.n_directions)))


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
