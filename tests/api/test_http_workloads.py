"""Workloads over HTTP: what is asked, what is answered, what is refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from qserver.errors import BudgetExhaustedError
from qserver.query.question import MAX_QUESTIONS
from qserver.records.answer import JobStatus, Offer
from qserver.records.problem import problem_from_error
from tests.api.calls import QUERY, WORKLOAD, Caller, assert_problem
from tests.api.fake_answers import FREE, MANY
from tests.api.fake_service import FakeService

W = "/v1/datasets/adult/workload"
ALL = {"length": 100, "confidence": 0.95}


def test_the_answers_come_in_the_order_of_the_questions_with_one_price(caller: Caller) -> None:
    found = caller.post(W, WORKLOAD).document
    assert [a["epsilon_charged"] for a in found["answers"]] == [0.0, 0.060000001]
    assert found["epsilon_charged"] == 0.060000001
    assert found["epsilon_remaining"] == 0.001234567
    assert found["simultaneous"] == {"confidence": 0.951, "method": "sampled", "attained": None}
    assert found["version"] == 7


def test_what_a_question_leaves_out_is_as_for_all(caller: Caller, service: FakeService) -> None:
    caller.post(W, {**WORKLOAD, "simultaneous": True})
    (asked,) = service.calls_of("ask_workload")
    workload = asked["workload"]
    found = [(q.requirement.length, q.requirement.confidence) for q in workload.questions]
    assert found == [(100, 0.95), (50, 0.95)]
    assert workload.simultaneous
    assert asked["wait_s"] == 10.0


def test_prefer_and_the_idempotency_key_are_heeded(caller: Caller, service: FakeService) -> None:
    service.many = JobStatus("j", "queued", "adult")
    headers = {"Prefer": "respond-async", "Idempotency-Key": "k"}
    reply = caller.post(W, WORKLOAD, headers)
    assert reply.status == 202
    assert reply.headers["Location"] == "/v1/jobs/j"
    assert reply.headers["Preference-Applied"] == "respond-async"
    (asked,) = service.calls_of("ask_workload")
    assert asked["wait_s"] == 0.0
    assert asked["key"].key == "k"


def test_a_job_shows_the_answers_of_its_workload(caller: Caller, service: FakeService) -> None:
    service.jobs = {"j": JobStatus("j", "done", "adult", result=MANY)}
    found = caller.get("/v1/jobs/j").document["result"]
    assert found == caller.post(W, WORKLOAD).document


def test_explain_shows_the_price_of_all_beside_that_of_each_apart(caller: Caller) -> None:
    found = caller.post(f"{W}/explain", WORKLOAD).document
    assert (found["price"], found["price_apart"]) == (0.060000001, 0.120000002)
    assert found["free"] == [
        {"interval": [-3.5, 300.25], "confidence": 0.95, "free_length": 303.75, "law": "estimator"},
        None,
    ]
    assert found["curve"] == [[0.5, None], [1.0, 0.060000001]]
    assert found["simultaneous"] is None
    assert found["plan"][0]["n_cells"] == 2


@pytest.mark.parametrize("by_job", [False, True])
def test_a_refusal_tells_what_each_question_has_for_nothing(
    caller: Caller, service: FakeService, by_job: bool
) -> None:
    error = BudgetExhaustedError(price_nano=5, remaining_nano=3)
    error.free = (None, Offer(1.0, 2.0, 0.95))
    if by_job:
        problem = json.loads(problem_from_error(error).to_json())
        service.jobs = {"j": JobStatus("j", "failed", "adult", problem=problem)}
        found = caller.get("/v1/jobs/j").document["problem"]
    else:
        service.fail("ask_workload", error)
        found = assert_problem(caller.post(W, WORKLOAD), 409, "budget_exhausted")
    assert found["free"] == [
        None,
        {"interval": [1.0, 2.0], "confidence": 0.95, "free_length": 1.0, "law": "estimator"},
    ]
    assert (found["price"], found["remaining"]) == (5e-9, 3e-9)


@pytest.mark.parametrize(
    ("change", "field", "code"),
    [
        ({"questions": []}, "questions", "invalid_requirement"),
        ({"questions": {}}, "questions", "invalid_input"),
        ({"questions": [3]}, "questions[0]", "invalid_input"),
        ({"questions": [{}]}, "questions[0].query", "invalid_input"),
        ({"questions": [{"query": QUERY, "lenght": 1}]}, "questions[0].lenght", "invalid_input"),
        (
            {"questions": [{"query": QUERY}, {"query": {"where": {"sex": "x"}}}]},
            "questions[1].query.where.sex",
            "invalid_query",
        ),
        (
            {"questions": [{"query": QUERY, "length": 0}]},
            "questions[0].length",
            "invalid_requirement",
        ),
        ({"questions": [{"query": QUERY, "length": None}]}, "questions[0].length", "invalid_input"),
        ({"simultaneous": 1}, "simultaneous", "invalid_input"),
        ({"consistent": "yes"}, "consistent", "invalid_input"),
        ({"more": 1}, "more", "invalid_input"),
        (
            {
                "questions": [{"query": QUERY, "confidence": 0.9}, {"query": QUERY}],
                "simultaneous": True,
            },
            "confidence",
            "invalid_requirement",
        ),
        (
            {
                "questions": [{"query": QUERY}] * 2,
                "confidence": 0.999999999,
                "simultaneous": True,
            },
            "confidence",
            "invalid_requirement",
        ),
    ],
)
def test_a_wrong_field_of_a_workload_is_named(
    caller: Caller, change: dict[str, Any], field: str, code: str
) -> None:
    problem = assert_problem(caller.post(W, {**WORKLOAD, **change}), 422, code)
    assert problem["errors"][0]["field"] == field
    assert f"`{field}`" in problem["errors"][0]["message"]


def test_a_length_that_nobody_gives_is_asked_for(caller: Caller) -> None:
    body = {"questions": [{"query": QUERY, "length": 5}, {"query": QUERY}], "confidence": 0.9}
    problem = assert_problem(caller.post(W, body), 422, "invalid_input")
    assert problem["errors"][0]["field"] == "questions[1].length"
    assert "here or for all questions" in problem["errors"][0]["message"]


def test_more_questions_than_a_thousand_are_too_many(caller: Caller, service: FakeService) -> None:
    """Refused before one is parsed; the small server of these tests has a small body limit too."""
    body = {"questions": [{"query": {}}] * (MAX_QUESTIONS + 1), **ALL}
    assert_problem(caller.post(W, body), 413, "body_too_large")
    assert service.calls_of("parse") == []


def test_free_answers_are_still_a_workload(caller: Caller, service: FakeService) -> None:
    service.many = replace(MANY, answers=(FREE,), charged_nano=0, simultaneous=None)
    found = caller.post(W, {"questions": [{"query": QUERY}], **ALL}).document
    assert (len(found["answers"]), found["epsilon_charged"]) == (1, 0.0)
    assert found["simultaneous"] is None


def test_consistent_answers_come_beside_those_that_were_asked(
    caller: Caller, service: FakeService
) -> None:
    """By hand: 200 men of 180 people; both give way alike."""
    small = replace(FREE, estimate=200.0, low=190.0, high=210.0)
    whole = replace(FREE, estimate=180.0, low=170.0, high=190.0)
    service.many = replace(MANY, answers=(small, whole), simultaneous=None)
    asked = {"questions": [{"query": {"where": {"sex": "Male"}}}, {"query": {"where": {}}}], **ALL}
    plain = caller.post(W, asked).document
    assert plain["consistent"] is None
    found = caller.post(W, {**asked, "consistent": True}).document
    nearest = found.pop("consistent")
    assert found == {k: v for k, v in plain.items() if k != "consistent"}
    assert nearest["estimates"] == pytest.approx([190.0, 190.0], abs=1e-3)
    # Half of the squares of ten records each over the scale 10 / ln 20.
    assert nearest["distance"] == pytest.approx(math.log(20) ** 2, rel=1e-6)
    assert (nearest["total"], nearest["gap"] < 1e-4) == (None, True)


def test_consistent_answers_respect_a_public_total(caller: Caller, service: FakeService) -> None:
    service.known = Offer(150.0, 150.0, 1 - 1e-9)
    service.many = replace(MANY, answers=(FREE, FREE), simultaneous=None)
    sexes = [{"query": {"where": {"sex": s}}} for s in ("Male", ["Female", "other"])]
    found = caller.post(W, {"questions": sexes, **ALL, "consistent": True}).document["consistent"]
    assert found["total"] == 150
    assert found["estimates"] == pytest.approx([75.0, 75.0], abs=1e-3)


def test_explain_says_that_consistent_answers_are_free(caller: Caller) -> None:
    plain = caller.post(f"{W}/explain", WORKLOAD).document
    found = caller.post(f"{W}/explain", {**WORKLOAD, "consistent": True}).document
    assert plain["consistent"] is None
    assert found["consistent"] == {"price": 0.0}
    assert found["price"] == plain["price"]


@pytest.mark.parametrize("route", [W, f"{W}/explain"])
def test_consistent_answers_of_too_much_are_refused_before_anything_is_spent(
    caller: Caller, service: FakeService, monkeypatch: pytest.MonkeyPatch, route: str
) -> None:
    monkeypatch.setattr("qserver.answering.consistency.MAX_CELLS", 3)
    problem = assert_problem(caller.post(route, {**WORKLOAD, "consistent": True}), 422, "too_large")
    assert "`consistent`" in problem["detail"]
    assert service.calls_of("ask_workload") == service.calls_of("explain_workload") == []
