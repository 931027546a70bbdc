"""A stated posterior as a question wants it read: by a method, and under a prior."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

from qserver.inference.posterior.by_method import computed
from qserver.inference.posterior.cut import ContradictedPriorError, CutPosterior
from qserver.inference.posterior.given import GivenPosterior
from qserver.inference.posterior.posterior import Posterior
from qserver.inference.posterior.stated import AnyPosterior, Stated
from qserver.query.asking.prior import Prior
from qserver.query.asking.reading import Reading
from qserver.records.statement import Statement

_ROUNDING = 1e-12
_ROUGHEST = 0.05
"""Largest numerical error of a probability that a cut law may have."""


@dataclass(frozen=True)
class AsRead:
    """A posterior as it was asked to be read, with what must be said of it."""

    posterior: AnyPosterior | CutPosterior
    statement: Statement


def read(stated: Stated, known: Posterior, reading: Reading) -> AsRead:
    """The posterior by the reading's method, cut by its prior.

    Where a cut leaves so little that numerical errors become too large, the exact law of the
    estimate's error is cut instead, and the statement says so.

    Args:
        stated: the posterior of the query by `auto`, in the query's units.
        known: the law of the estimate's error, in the same units.
        reading: its prior has its ends.

    Raises:
        ContradictedPriorError: the prior leaves next to nothing.
    """
    if known.is_exact:
        _check_exact(known, reading.prior)
        return AsRead(stated.posterior, stated.statement)
    if reading.method != "auto":
        stated = _by_method(stated.statement, known, reading)
    if reading.prior is None:
        return AsRead(stated.posterior, stated.statement)
    if isinstance(stated.posterior, GivenPosterior):
        with contextlib.suppress(ContradictedPriorError):
            return _cut(stated, reading.prior)
        # The law is too rough there. That of a sum of Laplace variables never is.
        stated = Stated(known, Statement("estimator"))
    return _cut(stated, reading.prior)


def _by_method(stated: Statement, known: Posterior, reading: Reading) -> Stated:
    """The law of the estimate's error, which is the posterior where nothing disagrees."""
    found = computed(known.scales, reading)
    law = "estimator" if stated.disagreements else stated.law
    posterior = GivenPosterior(known.estimate, found.law, 0.0, 1.0, known.allowance)
    statement = Statement(law, found.error, 0, reading.method, found.step, found.draws)
    return Stated(posterior, statement)


def _cut(stated: Stated, prior: Prior) -> AsRead:
    """The posterior between the prior's ends, with what its errors become."""
    found = CutPosterior(stated.posterior, *prior.ends)
    error = found.error
    # A narrow cut of an exact law is lost in rounding only where it leaves next to nothing.
    if not error <= _ROUGHEST:
        raise ContradictedPriorError
    if not isinstance(stated.posterior, GivenPosterior):
        error = stated.statement.error
    return AsRead(found, replace(stated.statement, error=error, prior=prior))


def _check_exact(known: Posterior, prior: Prior | None) -> None:
    """Raise ContradictedPriorError if a public value lies outside the prior's ends."""
    if prior is None:
        return
    low, high = prior.ends
    room = known.allowance + _ROUNDING * abs(known.estimate)
    if not low - room <= known.estimate <= high + room:
        raise ContradictedPriorError
