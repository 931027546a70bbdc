"""Errors as the store keeps them in a failed job, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qserver.answer import Offer
from qserver.errors import (
    AllowanceExhaustedError,
    BudgetExhaustedError,
    CapacityError,
    DisclosureGuardError,
    DomainError,
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
)
from qserver.storage.records import Problem

_ALLOWANCE = ("price_nano", "remaining_nano", "more_at")
_Refused = type[BudgetExhaustedError] | type[DisclosureGuardError]
_FACTS: Mapping[_Refused, tuple[str, ...]] = {
    BudgetExhaustedError: ("price_nano", "remaining_nano"),
    DisclosureGuardError: ("price_nano", "loss_nano", "allowed_nano", "cap"),
}


def problem_from_error(error: QServerError) -> Problem:
    """What may be told of an error that ended a job; anything unforeseen becomes constant text."""
    if isinstance(error, BudgetExhaustedError | DisclosureGuardError):
        free, names = error.free, _FACTS[type(error)]
        facts: dict[str, Any] = {name: getattr(error, name) for name in names}
        facts["free"] = None if free is None else [free.low, free.high, free.confidence]
        return Problem(error.code, str(error), facts)
    if isinstance(error, AllowanceExhaustedError):
        return Problem(error.code, str(error), {name: getattr(error, name) for name in _ALLOWANCE})
    if isinstance(error, InputError):
        return Problem(error.code, str(error), {"name": error.name, "condition": error.condition})
    if isinstance(error, CapacityError | NotFoundError | SnapshotReplacedError):
        return Problem(error.code, str(error), {})
    constant = MeasurementError()
    return Problem(constant.code, str(constant), {})


def error_from_problem(problem: Mapping[str, Any]) -> QServerError:
    """The error that `problem_from_error` wrote down."""
    code, facts = problem.get("code"), problem.get("facts") or {}
    for refused, names in _FACTS.items():
        if code == refused.code:
            error = refused(**{name: facts[name] for name in names})
            error.free = None if facts["free"] is None else Offer(*facts["free"])
            return error
    for allowance_kind in (AllowanceExhaustedError, PaceExceededError):
        if code == allowance_kind.code:
            return allowance_kind(**{name: facts[name] for name in _ALLOWANCE})
    for kind in (CapacityError, SnapshotReplacedError, StoreNotDurableError, StoreUnavailableError):
        if code == kind.code:
            return kind(problem["message"])
    for input_kind in (DomainError, QueryError, RequirementError, InputError):
        if code == input_kind.code and "condition" in facts:
            return input_kind(facts["name"], facts["condition"])
    return MeasurementError()
