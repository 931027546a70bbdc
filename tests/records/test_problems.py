"""Errors through the store and back."""

from __future__ import annotations

import json

import pytest

from qserver.errors import (
    AllowanceExhaustedError,
    BudgetExhaustedError,
    CapacityError,
    JournalError,
    MeasurementError,
    PaceExceededError,
    QServerError,
    QueryError,
    RequirementError,
    UnanswerableError,
)
from qserver.records.answer import Offer
from qserver.records.problem import error_from_problem, problem_from_error


def there_and_back(error: QServerError) -> QServerError:
    return error_from_problem(json.loads(problem_from_error(error).to_json()))


@pytest.mark.parametrize(
    "error",
    [
        CapacityError("too many"),
        QueryError("query.where", "be an object", [1]),
        RequirementError("length", "be > 0", -1),
        MeasurementError(),
        UnanswerableError(),
    ],
)
def test_an_error_comes_back_with_its_code(error: QServerError) -> None:
    back = there_and_back(error)
    assert type(back) is type(error)
    assert back.code == error.code


@pytest.mark.parametrize(
    "free", [None, Offer(-1.5, 2.5, 0.9), Offer(-1.5, 2.5, 0.9, 3.75, "posterior")]
)
def test_a_refusal_keeps_price_remaining_and_offer(free: Offer | None) -> None:
    error = BudgetExhaustedError(price_nano=7, remaining_nano=3)
    error.free = free
    back = there_and_back(error)
    assert isinstance(back, BudgetExhaustedError)
    assert (back.price_nano, back.remaining_nano, back.free) == (7, 3, free)


def test_what_may_depend_on_data_becomes_the_constant_failure() -> None:
    back = there_and_back(JournalError("a text that names a private path"))
    assert isinstance(back, MeasurementError)
    assert "private path" not in str(back)


@pytest.mark.parametrize("kind", [AllowanceExhaustedError, PaceExceededError])
@pytest.mark.parametrize("more_at", [None, 1_800_000_000])
def test_a_refusal_for_an_allowance_keeps_its_facts(
    kind: type[AllowanceExhaustedError], more_at: int | None
) -> None:
    back = there_and_back(kind(price_nano=7, remaining_nano=3, more_at=more_at))
    assert type(back) is kind
    assert isinstance(back, AllowanceExhaustedError)
    assert (back.price_nano, back.remaining_nano, back.more_at) == (7, 3, more_at)
