"""Models over HTTP: what is learnt, asked, drawn and exported, and what is refused."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import Any

import pytest

from qserver.errors import NetworkError
from qserver.records.answer import JobStatus
from tests.api.calls import MODEL, QUERY, Caller, assert_problem
from tests.api.fake_answers import FREE
from tests.api.fake_models import LEARNT
from tests.api.fake_service import FakeService

M = "/v1/datasets/adult/models"


def test_a_model_is_learnt_for_what_it_may_cost(caller: Caller, service: FakeService) -> None:
    found = caller.post(M, MODEL).document
    assert found["id"] == "m1"
    assert found["epsilon_charged"] == 0.400000001
    assert found["tables"] == [0, 4]
    (asked,) = service.calls_of("learn_model")
    assert asked["epsilon_nano"] == 500_000_000
    assert asked["document"] == {"network": MODEL["network"], "allocation": "best"}
    assert asked["by"] == "tester"


def test_learning_may_become_a_job(caller: Caller, service: FakeService) -> None:
    service.learnt = JobStatus("j", "queued", "adult")
    reply = caller.post(M, MODEL, {"Prefer": "respond-async", "Idempotency-Key": "k"})
    assert (reply.status, reply.headers["Location"]) == (202, "/v1/jobs/j")
    (asked,) = service.calls_of("learn_model")
    assert (asked["wait_s"], asked["idempotency"].key) == (0.0, "k")
    service.jobs = {"j": JobStatus("j", "done", "adult", result=LEARNT)}
    assert caller.get("/v1/jobs/j").document["result"]["id"] == "m1"


def test_a_count_comes_without_a_guarantee_unless_one_is_bought(
    caller: Caller, service: FakeService
) -> None:
    found = caller.post(f"{M}/m1/query", {"count": QUERY}).document
    assert (found["source"], found["estimate"], found["guarantee"]) == ("model", 123.25, None)
    assert not service.calls_of("ask")
    check = {"length": 100, "confidence": 0.95, "fallback_length": 20}
    found = caller.post(f"{M}/m1/query", {"count": QUERY, "check": check}).document
    assert found["estimate"] == 123.25
    assert found["guarantee"]["interval"] == [FREE.low, FREE.high]
    assert (found["verdict"], found["fallback"]) == ("confirmed", None)
    (asked,) = service.calls_of("ask")
    assert (asked["requirement"].length, asked["requirement"].confidence) == (100, 0.95)


def test_a_check_that_contradicts_is_followed_by_the_fallback_under_a_key_of_its_own(
    caller: Caller, service: FakeService
) -> None:
    service.outcome = replace(FREE, low=130.0)
    check: dict[str, Any] = {"length": 100, "confidence": 0.9}
    found = caller.post(f"{M}/m1/query", {"count": QUERY, "check": check}).document
    assert (found["verdict"], found["fallback"]) == ("contradicted", None)
    body = {"count": QUERY, "check": {**check, "fallback_length": 20}}
    found = caller.post(f"{M}/m1/query", body, {"Idempotency-Key": "k"}).document
    assert found["fallback"]["interval"] == [130.0, FREE.high]
    _, first, second = service.calls_of("ask")
    assert [call["requirement"].length for call in (first, second)] == [100, 20]
    assert (first["key"].key, second["key"].key) == ("k", "k\n2")


def test_what_learning_would_cost_is_told_and_nothing_learnt(
    caller: Caller, service: FakeService
) -> None:
    found = caller.post(f"{M}/explain", MODEL).document
    assert (found["price"], found["affordable"]) == (0.400000001, False)
    assert found["plan"][0]["refines"] == 3
    (asked,) = service.calls_of("explain_model")
    assert (asked["epsilon_nano"], asked["by"]) == (500_000_000, "tester")
    assert not service.calls_of("learn_model")
    assert_problem(caller.get(f"{M}/explain"), 405, "method_not_allowed")


def test_what_a_check_and_its_fallback_would_cost_is_told_and_nothing_asked(
    caller: Caller, service: FakeService
) -> None:
    body = {"count": QUERY, "check": {"length": 100, "confidence": 0.9, "fallback_length": 20}}
    found = caller.post(f"{M}/m1/explain", body).document
    assert (found["estimate"], found["would"]) == (123.25, "check")
    assert found["check"]["price"] == found["fallback"]["price"] == 0.060000001
    lengths = [call["requirement"].length for call in service.calls_of("explain")]
    assert lengths == [100, 20]
    found = caller.post(f"{M}/m1/explain", {"count": QUERY}).document
    assert (found["would"], found["check"], found["fallback"]) == ("tell", None, None)
    found = caller.post(f"{M}/m1/explain", {"marginal": ["sex"]}).document
    assert (found["would"], found["estimate"]) == ("tell", None)
    assert not service.calls_of("ask")
    longer = {**body, "check": {"length": 10, "confidence": 0.9, "fallback_length": 20}}
    assert_problem(caller.post(f"{M}/m1/explain", longer), 422, "invalid_input")


def test_a_question_that_would_be_refused_is_refused_before_its_price_is_told(
    caller: Caller, service: FakeService
) -> None:
    """Whether attributes and labels are there is for the model to say, as when it is asked."""
    questions = [{"marginal": ["sex"], "given": {"age": "3"}}, {"most_probable": ["sex"]}]
    for question in questions:
        assert caller.post(f"{M}/m1/explain", question).document["would"] == "tell"
    service.fail("ask_model", NetworkError("variables", "be variables of the network", "colour"))
    for question in questions:
        refused = caller.post(f"{M}/m1/explain", question)
        assert_problem(refused, 422, "invalid_network")


def test_probabilities_and_most_probable_labels_are_asked_as_the_kind_has_it(
    caller: Caller, service: FakeService
) -> None:
    caller.post(f"{M}/m1/query", {"marginal": ["sex"], "given": {"age": "3"}})
    caller.post(f"{M}/m1/query", {"most_probable": []})
    found = [asked["question"] for asked in service.calls_of("ask_model")]
    assert found == [
        {"marginal": ["sex"], "given": {"age": "3"}},
        {"most_probable": None, "given": {}},
    ]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"marginal": ["sex"], "count": QUERY},
        {"marginal": ["sex"], "check": {"length": 1, "confidence": 0.9}},
        {"count": QUERY, "given": {"sex": "Male"}},
        {"marginal": "sex"},
        {"marginal": None},
        {"given": {}},
        {"marginal": ["sex"], "given": {"age": 3}},
    ],
)
def test_a_question_has_one_form(caller: Caller, body: dict[str, Any]) -> None:
    assert_problem(caller.post(f"{M}/m1/query", body), 422, "invalid_input")


def test_a_check_out_of_range_is_refused_by_its_place(caller: Caller) -> None:
    body = {"count": QUERY, "check": {"length": 0, "confidence": 0.9}}
    problem = caller.post(f"{M}/m1/query", body)
    assert_problem(problem, 422, "invalid_requirement")
    assert problem.document["errors"][0]["field"] == "check.length"


@pytest.mark.parametrize("epsilon", [-1, 1e9, "0.5", None])
def test_a_price_out_of_range_is_refused(caller: Caller, epsilon: Any) -> None:
    assert_problem(caller.post(M, {**MODEL, "epsilon": epsilon}), 422, "invalid_input")


def test_synthetic_records_are_csv_in_pieces(caller: Caller, service: FakeService) -> None:
    reply = caller.get(f"{M}/m1/sample?n=2500&seed=4")
    assert reply.headers["Content-Type"] == "text/csv; charset=utf-8"
    rows = list(csv.reader(io.StringIO(reply.body.decode())))
    assert rows[0] == ["age", "sex"]
    assert rows[1:] == [["3", "Female, or so"]] * 2500
    (asked,) = service.calls_of("records_of_model")
    assert (asked["n"], asked["seed"]) == (2500, 4)
    for wrong in ("n=0", "n=1000001", "seed=x", "m=1"):
        assert_problem(caller.get(f"{M}/m1/sample?{wrong}"), 422, "invalid_input")


def test_a_model_is_listed_shown_and_exported(caller: Caller) -> None:
    (listed,) = caller.get(M).document["models"]
    shown = caller.get(f"{M}/m1").document
    assert listed["facts"] is None
    assert shown["facts"] == {"n_records": 500.5}
    assert {**listed, "facts": shown["facts"]} == shown
    reply = caller.get(f"{M}/m1/export")
    assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert reply.body.startswith(b"network")
    for path in ("m2", "m2/sample", "m2/export"):
        assert_problem(caller.get(f"{M}/{path}"), 404, "not_found")
