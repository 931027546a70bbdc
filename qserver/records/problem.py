"""Errors in the store's form for failed jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any, cast

from qserver.errors import (
    AllowanceExhaustedError,
    AtMostError,
    BooksError,
    BudgetExhaustedError,
    CapacityError,
    ClosedError,
    DisclosureGuardError,
    DomainError,
    EvaluationError,
    InputError,
    MeasurementError,
    NotFoundError,
    PaceExceededError,
    QServerError,
    QueryError,
    RequirementError,
    SnapshotReplacedError,
    StoreNotDurableError,
    StoreUnavailableError,
    UnanswerableError,
)
from qserver.query.calendar import PeriodRetiredError
from qserver.records.answer import Offer
from qserver.records.claim import ClaimGuardError


@dataclass(frozen=True)
class Problem:
    """Why a job failed: a stable code, a public text, public facts."""

    code: str
    message: str
    facts: Mapping[str, Any]

    def to_json(self) -> str:
        """The problem as JSON text."""
        return json.dumps({"code": self.code, "message": self.message, "facts": dict(self.facts)})


_REFUSED: tuple[type[QServerError], ...] = (
    AllowanceExhaustedError,
    AtMostError,
    BudgetExhaustedError,
    ClaimGuardError,
    DisclosureGuardError,
    PaceExceededError,
    PeriodRetiredError,
)
_CONSTANT = (BooksError, ClosedError, UnanswerableError)
"""What ends a job before anything is charged, in constant text."""


def problem_from_error(error: QServerError) -> Problem:
    """The public part of an error that ended a job; an unforeseen error becomes constant text."""
    facts: dict[str, Any] = {name: getattr(error, name) for name in error.kept}
    if isinstance(error, _REFUSED):
        free = getattr(error, "free", ...)
        if isinstance(free, tuple):
            facts["free_each"] = [_plain_offer(offer) for offer in free]
        elif free is not ...:
            facts["free"] = _plain_offer(free)
        return Problem(error.code, str(error), facts)
    if isinstance(error, InputError):
        return Problem(error.code, str(error), {"name": error.name, "condition": error.condition})
    if isinstance(error, CapacityError | EvaluationError | NotFoundError | SnapshotReplacedError):
        return Problem(error.code, str(error), {})
    constant = error if isinstance(error, _CONSTANT) else MeasurementError()
    return Problem(constant.code, str(constant), {})


def error_from_problem(problem: Mapping[str, Any]) -> QServerError:
    """The error that `problem_from_error` wrote."""
    code, facts = problem.get("code"), problem.get("facts") or {}
    for refused in _REFUSED:
        if code == refused.code:
            error: Any = refused(**{name: facts[name] for name in refused.kept})
            if "free_each" in facts:
                error.free = tuple(plain and Offer(*plain) for plain in facts["free_each"])
            elif "free" in facts:
                error.free = facts["free"] and Offer(*facts["free"])
            return cast("QServerError", error)
    for kind in (
        CapacityError,
        EvaluationError,
        SnapshotReplacedError,
        StoreNotDurableError,
        StoreUnavailableError,
    ):
        if code == kind.code:
            return kind(problem["message"])
    for input_kind in (DomainError, QueryError, RequirementError, InputError):
        if code == input_kind.code and "condition" in facts:
            return input_kind(facts["name"], facts["condition"])
    constant = {kind.code: kind for kind in _CONSTANT}
    return constant.get(str(code), MeasurementError)()


def _plain_offer(offer: Offer | None) -> list[Any] | None:
    """An offer in the old form, if its interval is that of the estimate's error."""
    if offer is None:
        return None
    plain = list(astuple(offer))
    return plain if offer.law != "estimator" else plain[:3]
