"""Every problem that a route documents is provoked, and every one provoked is documented."""

from __future__ import annotations

import inspect
import re

import pytest
from flask import Flask
from openapi_schema_validator import OAS31Validator

from qserver import errors
from qserver.api.errors import KINDS
from qserver.api.openapi import openapi_document
from qserver.records import claim
from tests.api.calls import ASK, QUESTION, Caller, assert_problem
from tests.api.fake_service import BrokenTestError, FakeService
from tests.api.provoked import (
    DATASET,
    STORE_ERRORS,
    claimed,
    exhausted,
    guarded,
    retired,
    scenarios,
)


def _documented(app: Flask) -> list[tuple[str, str, int, str]]:
    found = []
    for path, item in openapi_document(app)["paths"].items():
        for method, operation in item.items():
            for status, response in operation["responses"].items():
                schema = response["content"].get("application/problem+json", {}).get("schema")
                codes = schema["allOf"][1]["properties"]["code"]["enum"] if schema else []
                found += [(method.upper(), path, int(status), code) for code in codes]
    return found


# Nothing that a test can send makes these fail.
UNPROVOKED = {(path, 500, "internal") for path in ("/healthz", "/openapi.json", "/docs")}


@pytest.mark.slow
def test_each_documented_problem_comes_as_documented(
    caller: Caller, service: FakeService, api_app: Flask
) -> None:
    document = openapi_document(api_app)
    for method, path, status, code in _documented(api_app):
        if (path, status, code) in UNPROVOKED:
            continue
        service.failures.clear()
        service.stamp += 1
        reply = scenarios(method, path)[status, code](caller, service)
        problem = assert_problem(reply, status, code)
        response = document["paths"][path][method.lower()]["responses"][str(status)]
        schema = response["content"]["application/problem+json"]["schema"]
        OAS31Validator({**schema, "components": document["components"]}).validate(problem)


def test_each_problem_that_a_route_can_give_is_documented(api_app: Flask) -> None:
    documented = set(_documented(api_app))
    for path, item in openapi_document(api_app)["paths"].items():
        for method in item:
            given = {(method.upper(), path, *key) for key in scenarios(method.upper(), path)}
            assert given <= documented


def test_every_route_of_the_app_is_documented(api_app: Flask) -> None:
    paths = openapi_document(api_app)["paths"]
    found: dict[str, set[str]] = {}
    for rule in api_app.url_map.iter_rules():
        path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule)
        found.setdefault(path, set()).update(m.lower() for m in rule.methods or ())
    assert {path: methods - {"head"} for path, methods in found.items()} == {
        path: set(item) for path, item in paths.items()
    }


def test_every_error_of_the_tree_has_a_status_or_is_the_servers_own_fault() -> None:
    codes = {
        cls.code
        for _, cls in (*inspect.getmembers(errors), *inspect.getmembers(claim))
        if inspect.isclass(cls) and issubclass(cls, errors.QServerError)
    }
    inner = {
        "invalid_domain",
        "invalid_config",
        "worker_error",
        "journal_error",
        "private_data_error",
        "state_in_use",
        # Of the command line and of a client, which meet no request.
        "port_in_use",
        "store_killed",
        "child_failed",
        "server_problem",
        "unreachable",
        "not_done",
        # Told with its place, as `invalid_sql`.
        "not_calculable",
    }
    assert codes - inner <= set(KINDS)
    assert not inner & set(KINDS)


def test_an_error_of_an_unknown_code_is_the_servers_own_fault(
    caller: Caller, service: FakeService
) -> None:
    service.fail("dataset", BrokenTestError("private"))
    assert_problem(caller.get(DATASET), 500, "internal")


@pytest.mark.parametrize("error", [RuntimeError("/private/path"), errors.JournalError("/private")])
def test_a_fault_of_the_server_shows_constant_text_and_the_request_id(
    caller: Caller, service: FakeService, error: Exception
) -> None:
    service.fail("dataset", error)
    reply = caller.get(DATASET, {"X-Request-Id": "find-me"})
    problem = assert_problem(reply, 500, "internal")
    assert problem["request_id"] == reply.headers["X-Request-Id"] == "find-me"
    assert b"private" not in reply.body


@pytest.mark.parametrize("code", sorted(STORE_ERRORS))
def test_a_store_that_fails_shows_nothing_of_where_it_is(
    caller: Caller, service: FakeService, code: str
) -> None:
    service.fail("dataset", STORE_ERRORS[code]("redis://secret@host"))
    assert b"secret" not in caller.get(DATASET).body


@pytest.mark.parametrize("code", sorted(STORE_ERRORS))
def test_a_store_that_is_not_ready_fails_the_readiness_probe(
    caller: Caller, service: FakeService, code: str
) -> None:
    service.fail("ready", STORE_ERRORS[code]("it broke"))
    assert_problem(caller.get("/readyz"), 503, code)
    assert caller.get("/healthz").status == 200


def test_an_exhausted_budget_shows_price_remaining_and_what_is_free(
    caller: Caller, service: FakeService
) -> None:
    service.fail("ask", exhausted())
    problem = assert_problem(caller.post(ASK, QUESTION), 409, "budget_exhausted")
    assert (problem["price"], problem["remaining"]) == (0.060000001, 5e-9)
    assert problem["free"] == {
        "interval": [1.5, 9.5],
        "confidence": 0.95,
        "free_length": 8.0,
        "law": "estimator",
    }


def test_an_exhausted_budget_with_nothing_free_says_so(
    caller: Caller, service: FakeService
) -> None:
    service.fail("ask", errors.BudgetExhaustedError(price_nano=2, remaining_nano=1))
    problem = assert_problem(caller.post(ASK, QUESTION), 409, "budget_exhausted")
    assert problem["free"] is None


def test_the_disclosure_guard_shows_losses_cap_and_what_is_free(
    caller: Caller, service: FakeService
) -> None:
    service.fail("ask", guarded())
    problem = assert_problem(caller.post(ASK, QUESTION), 409, "disclosure_guard")
    facts = {k: problem[k] for k in ("price", "loss", "loss_allowed", "cap")}
    assert facts == {"price": 0.3, "loss": 0.2, "loss_allowed": 0.4, "cap": 0.19}
    assert problem["free"] == {
        "interval": [1.5, 9.5],
        "confidence": 0.95,
        "free_length": 8.0,
        "law": "estimator",
    }


def test_the_guard_of_claims_shows_the_claim_its_bounds_and_what_is_free(
    caller: Caller, service: FakeService
) -> None:
    service.fail("ask", claimed())
    problem = assert_problem(caller.post(ASK, QUESTION), 409, "claim_guard")
    facts = {k: problem[k] for k in ("claim", "width", "before", "after", "cap")}
    assert facts == {"claim": "young", "width": 10, "before": 0.39, "after": 0.53, "cap": 0.4}
    assert problem["free"] == {
        "interval": [1.5, 9.5],
        "confidence": 0.95,
        "free_length": 8.0,
        "law": "estimator",
    }


def test_a_refusal_for_retired_periods_says_which_are_kept_and_what_is_free(
    caller: Caller, service: FakeService
) -> None:
    service.fail("ask", retired())
    problem = assert_problem(caller.post(ASK, QUESTION), 409, "period_retired")
    assert problem["first_kept"] == "2024-W10"
    assert problem["free"]["interval"] == [1.5, 9.5]
    assert "from 2024-W10 on" in problem["detail"]


def test_a_missing_worker_says_when_to_come_back(caller: Caller, service: FakeService) -> None:
    service.fail("ask", errors.NoWorkerError("x"))
    reply = caller.post(ASK, QUESTION)
    assert_problem(reply, 503, "no_worker")
    assert int(reply.headers["Retry-After"]) > 0
