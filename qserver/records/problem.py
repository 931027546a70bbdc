"""Errors as the store keeps them in a failed job, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

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
from qserver.records.claim import FACTS, ClaimGuardError


@dataclass(frozen=True)
class Problem:
    """Why a job failed: a stable code, a public text, public facts."""

    code: str
    message: str
    facts: Mapping[str, Any]

    def to_json(self) -> str:
        """The problem as JSON text."""
        return json.dumps({"code": self.code, "message": self.message, "facts": dict(self.facts)})


_ALLOWANCE = ("price_nano", "remaining_nano", "more_at")
_REFUSED = (BudgetExhaustedError, DisclosureGuardError, ClaimGuardError, PeriodRetiredError)
_Refused = (
    type[BudgetExhaustedError]
    | type[DisclosureGuardError]
    | type[ClaimGuardError]
    | type[PeriodRetiredError]
)
_FACTS: Mapping[_Refused, tuple[str, ...]] = {
    BudgetExhaustedError: ("price_nano", "remaining_nano"),
    AtMostError: ("price_nano", "remaining_nano"),
    DisclosureGuardError: ("price_nano", "loss_nano", "allowed_nano", "cap"),
    ClaimGuardError: FACTS,
    PeriodRetiredError: ("attribute", "first_kept"),
}

_CONSTANT = (BooksError, ClosedError, UnanswerableError)
"""What ends a job before anything is charged, in constant text."""


def problem_from_error(error: QServerError) -> Problem:
    """The public part of an error that ended a job; an unforeseen one becomes constant text."""
    if isinstance(error, _REFUSED):
        facts: dict[str, Any] = {name: getattr(error, name) for name in _FACTS[type(error)]}
        if isinstance(error.free, tuple):
            facts["free_each"] = [_plain_offer(offer) for offer in error.free]
        else:
            facts["free"] = _plain_offer(error.free)
        return Problem(error.code, str(error), facts)
    if isinstance(error, AllowanceExhaustedError):
        return Problem(error.code, str(error), {name: getattr(error, name) for name in _ALLOWANCE})
    if isinstance(error, InputError):
        return Problem(error.code, str(error), {"name": error.name, "condition": error.condition})
    if isinstance(error, CapacityError | EvaluationError | NotFoundError | SnapshotReplacedError):
        return Problem(error.code, str(error), {})
    constant = error if isinstance(error, _CONSTANT) else MeasurementError()
    return Problem(constant.code, str(constant), {})


def error_from_problem(problem: Mapping[str, Any]) -> QServerError:
    """The error that `problem_from_error` wrote."""
    code, facts = problem.get("code"), problem.get("facts") or {}
    for refused, names in _FACTS.items():
        if code == refused.code:
            error = refused(**{name: facts[name] for name in names})
            if "free_each" in facts:
                error.free = tuple(plain and Offer(*plain) for plain in facts["free_each"])
            else:
                error.free = facts["free"] and Offer(*facts["free"])
            return error
    for allowance_kind in (AllowanceExhaustedError, PaceExceededError):
        if code == allowance_kind.code:
            return allowance_kind(**{name: facts[name] for name in _ALLOWANCE})
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
    """As it always was where the interval is that of the estimate's error."""
    if offer is None:
        return None
    plain = list(astuple(offer))
    return plain if offer.law != "estimator" else plain[:3]
