"""What each route answers when all is well, over real HTTP."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.api.wire import epsilon
from qserver.errors import BudgetExhaustedError
from qserver.query.asking.structured_question import parse_query
from qserver.query.domain_file import domain_from_document
from qserver.query.requirement import Requirement
from qserver.records.answer import Answer, JobState, JobStatus
from qserver.records.problem import problem_from_error
from tests.api.calls import ASK, QUERY, QUESTION, Caller
from tests.api.fake_answers import DOMAIN, FREE, MEASURED, PLANNED, WIDE_CELLS
from tests.api.fake_service import FakeService

JOB = JobStatus("j1", "queued", "adult")
ASYNC = {"Prefer": "respond-async"}
PROBABILITY = {
    "probability": 0.75,
    "version": 7,
    "statement": {
        "law": "estimator",
        "error": 0.0,
        "disagreements": 0,
        "method": "auto",
        "step": None,
        "draws": None,
        "prior": None,
    },
}


def test_an_answer_holds_every_member_of_the_contract(caller: Caller) -> None:
    assert caller.post(ASK, QUESTION).document == {
        "estimate": 120.5,
        "interval": [70.25, 170.75],
        "confidence": 0.95,
        "confidence_attained": 0.96,
        "source": "history",
        "epsilon_charged": 0.0,
        "epsilon_remaining": 0.001234567,
        "evidence": [0, 3],
        "weights": "contour",
        "version": 7,
        "selected_from": None,
        "statement": {
            "law": "posterior",
            "error": 0.0004,
            "disagreements": 2,
            "method": "auto",
            "step": None,
            "draws": None,
            "prior": None,
        },
        "epsilon_rest": 0.040000001,
        "as_of": None,
        "remarks": ["It is longer than asked."],
    }


def test_the_service_gets_the_query_and_the_requirement_that_were_sent(
    caller: Caller, service: FakeService
) -> None:
    caller.post(ASK, QUESTION)
    (asked,) = service.calls_of("ask")
    assert asked["query"] == parse_query(QUERY, DOMAIN)
    assert asked["requirement"] == Requirement(100.0, 0.95)
    assert asked["key"] is None


def test_numbers_in_a_query_are_read_as_exact_decimals(
    caller: Caller, service: FakeService
) -> None:
    body = b"""{"query": {"terms": [{"coefficient": 0.1}]}, "length": 1e2, "confidence": 0.95}"""
    caller.send(ASK, body)
    (asked,) = service.calls_of("ask")
    assert asked["query"].terms[0].coefficient == Fraction(1, 10)
    assert asked["requirement"].length == 100.0


@given(st.integers(0, 10**15))
def test_epsilon_prints_as_the_exact_decimal_of_its_nano_units(nano: int) -> None:
    assert Decimal(json.dumps(epsilon(nano))) == Decimal(nano) / 10**9


def test_integers_beyond_two_to_the_53_travel_as_texts(caller: Caller) -> None:
    assert caller.get("/v1/datasets/wide").document["n_cells"] == str(WIDE_CELLS)
    assert caller.get("/v1/datasets/adult").document["n_cells"] == DOMAIN.n_cells


def test_a_dataset_shows_a_domain_that_reads_back_equal(caller: Caller) -> None:
    shown = caller.get("/v1/datasets/adult").document
    assert domain_from_document(shown.pop("domain")) == DOMAIN
    assert shown == {
        "name": "adult",
        "population": "people",
        "snapshot": "5f0c",
        "n_cells": DOMAIN.n_cells,
        "relation": "add-remove",
        "records_per_person": 1,
        "records_verified": False,
        "unit": None,
        "limit": 1.0,
        "spent": 0.060000001,
        "remaining": 0.939999999,
        "guard": {
            "cap": 0.5,
            "loss_allowed": 1.098612288,
            "loss": 0.060000001,
            "known": 0.03,
            "binds": False,
        },
        "claims": [
            {
                "name": "women",
                "query": {"where": {"sex": "Female"}},
                "width": 10.0,
                "p": 0.5,
                "known": 0.26,
            }
        ],
        "earlier_snapshots": ["41aa"],
        "phi": 0.25,
        "capacity": 50_000,
        "measure": "auto",
        "version": 7,
        "worker_alive": True,
        "periods": None,
        "time": None,
        "expected": 2_000,
    }


def test_the_list_of_datasets_is_paged_by_name_without_their_domains(caller: Caller) -> None:
    first = caller.get("/v1/datasets?limit=1").document
    assert [d["name"] for d in first["datasets"]] == ["adult"]
    assert "domain" not in first["datasets"][0]
    rest = caller.get(f"/v1/datasets?limit=1&after={first['next_after']}").document
    assert [d["name"] for d in rest["datasets"]] == ["wide"]
    assert rest["next_after"] is None


def test_explain_shows_price_plan_offer_and_curve_in_epsilon(caller: Caller) -> None:
    found = caller.post("/v1/datasets/adult/explain", QUESTION).document
    rows = found.pop("plan")
    assert [(row["alpha"], row["key"]) for row in rows] == [
        (0.060000001, "k"),
        (0.005, PLANNED.key),
    ]
    assert rows[1]["table"] == [[1, [1, 3], [0, 1]]]
    assert (rows[1]["n_cells"], rows[1]["refines"], rows[1]["charge"]) == (2, 3, 0.001)
    assert rows[0]["terms"] == parse_query(QUERY, DOMAIN).to_document()
    assert found == {
        "kind": "fresh",
        "price": 0.060000001,
        "most": 0.060000001,
        "remaining": 0.001234567,
        "affordable": False,
        "free": {
            "interval": [-3.5, 300.25],
            "confidence": 0.95,
            "free_length": 303.75,
            "law": "estimator",
        },
        "curve": [[50.0, None], [100.0, 0.060000001]],
        "measure": {
            "chosen": "only_this",
            "only_this": 0.060000001,
            "auto": 0.09,
            "buys": "1 table: age (2 cells)",
            "independent": 0.07,
        },
        "sensitivity": 1.0,
        "sensitivity_exact": True,
        "version": 7,
        "own": {
            "price": 0.05,
            "affordable": False,
            "more_at": 1_800_000_000,
            "spent": 0.009,
            "spent_today": 0.008,
            "limit": None,
            "per_day": 0.055,
        },
        "protected": None,
    }


@pytest.mark.parametrize(
    ("form", "low", "high"),
    [
        ({"at_least": 10.5}, 10.5, float("inf")),
        ({"at_least": 0}, 0.0, float("inf")),
        ({"between": [-1, 2.5]}, -1.0, 2.5),
        ({"between": [3, 3]}, 3.0, 3.0),
    ],
)
def test_probability_asks_for_the_bounds_that_were_sent(
    caller: Caller, service: FakeService, form: dict[str, object], low: float, high: float
) -> None:
    reply = caller.post("/v1/datasets/adult/probability", {"query": QUERY, **form})
    assert reply.document == PROBABILITY
    (asked,) = service.calls_of("probability")
    assert (asked["low"], asked["high"]) == (low, high)


def test_history_is_walked_to_its_end_page_by_page(caller: Caller) -> None:
    ids, after = [], -1
    while after is not None:
        page = caller.get(f"/v1/datasets/adult/history?limit=2&after={after}").document
        ids += [row["id"] for row in page["rows"]]
        after = page["next_after"]
    assert ids == [0, 1, 2, 3, 4]


def test_a_history_row_shows_what_was_released(caller: Caller) -> None:
    row = caller.get("/v1/datasets/adult/history").document["rows"][0]
    assert row == {
        "id": 0,
        "terms": [["2/3", [[0, [5, 10], [1, 0]]]]],
        "key": "k0",
        "value": 41.5,
        "scale": 16.6,
        "alpha": 0.060000001,
        "step": "1/4",
    }


def test_a_table_is_listed_without_its_values_and_shown_with_them(caller: Caller) -> None:
    listed = caller.get("/v1/datasets/adult/history").document["rows"][4]
    shown = caller.get("/v1/datasets/adult/history/4").document
    assert listed == {
        "id": 4,
        "table": [[1, [1, 2], [0, 1]]],
        "n_cells": 2,
        "key": "table:k",
        "scale": 200.0,
        "alpha": 0.005,
        "step": "1/4",
        "values": None,
    }
    assert shown == {**listed, "values": [40.5, 1.25]}


@pytest.mark.parametrize("number", ["5", "-1", "x", "%C2%B2", "9" * 16, "1" * 5000])
def test_a_measurement_that_is_not_there_is_not_found(caller: Caller, number: str) -> None:
    reply = caller.get(f"/v1/datasets/adult/history/{number}")
    assert (reply.status, reply.document["code"]) == (404, "not_found")


def test_the_ledger_takes_a_set_of_cells_and_an_attribute(
    caller: Caller, service: FakeService
) -> None:
    where = quote('{"age": {"at_least": 3}}')
    found = caller.get(f"/v1/datasets/adult/ledger?attribute=sex&where={where}").document
    assert found["by_value"] == {"Female": 0.060000001, "Male": 0.060000001, "other": 0.060000001}
    assert (found["limit"], found["spent"], found["remaining"]) == (1.0, 0.060000001, 0.939999999)
    (asked,) = service.calls_of("loss")
    assert (asked["where"], asked["attribute"]) == ({"age": {"at_least": 3}}, "sex")
    assert caller.get("/v1/datasets/adult/ledger").document["by_value"] is None


def test_a_question_that_outlasts_the_time_limit_becomes_a_job(
    caller: Caller, service: FakeService
) -> None:
    service.outcome = JOB
    reply = caller.post(ASK, QUESTION)
    assert reply.status == 202
    assert reply.headers["Location"] == "/v1/jobs/j1"
    assert "Preference-Applied" not in reply.headers
    assert reply.document == {
        "id": "j1",
        "state": "queued",
        "dataset": "adult",
        "result": None,
        "problem": None,
    }
    assert service.calls_of("ask")[0]["wait_s"] == 10.0


def test_respond_async_waits_for_nothing_and_says_that_it_was_applied(
    caller: Caller, service: FakeService
) -> None:
    service.outcome = JOB
    reply = caller.post(ASK, QUESTION, ASYNC)
    assert (reply.status, reply.headers["Preference-Applied"]) == (202, "respond-async")
    assert service.calls_of("ask")[0]["wait_s"] == 0


def test_respond_async_still_gets_an_answer_that_is_there(caller: Caller) -> None:
    reply = caller.post(ASK, QUESTION, ASYNC)
    assert (reply.status, reply.document["source"]) == (200, "history")
    assert "Preference-Applied" not in reply.headers


@pytest.mark.parametrize(
    ("prefer", "wait_s"),
    [
        ("respond-async, wait=3", 3.0),
        ("wait=3", 3.0),
        ("wait=9999", 10.0),
        ("wait=soon", 10.0),
        ("wait", 10.0),
        ("Respond-Async", 0.0),
        (", ;=\x7f", 10.0),
        ("return=minimal", 10.0),
    ],
)
def test_a_client_may_prefer_to_wait_less_but_never_longer(
    caller: Caller, service: FakeService, prefer: str, wait_s: float
) -> None:
    assert caller.post(ASK, QUESTION, {"Prefer": prefer}).status == 200
    assert service.calls_of("ask")[0]["wait_s"] == wait_s


@pytest.mark.parametrize("state", ["queued", "running"])
def test_an_open_job_shows_its_state_without_a_result(
    caller: Caller, service: FakeService, state: JobState
) -> None:
    service.jobs["j1"] = JobStatus("j1", state, "adult")
    found = caller.get("/v1/jobs/j1").document
    assert (found["state"], found["result"], found["problem"]) == (state, None, None)


def test_a_finished_job_shows_the_answer_that_the_question_would_have_got(
    caller: Caller, service: FakeService
) -> None:
    service.outcome = MEASURED
    service.jobs["j1"] = JobStatus("j1", "done", "adult", result=MEASURED)
    assert caller.get("/v1/jobs/j1").document["result"] == caller.post(ASK, QUESTION).document


def test_a_failed_job_shows_the_problem_that_the_question_would_have_got(
    caller: Caller, service: FakeService
) -> None:
    error = BudgetExhaustedError(price_nano=60_000_001, remaining_nano=5)
    stored = problem_from_error(error)
    problem = {"code": stored.code, "message": stored.message, "facts": stored.facts}
    service.jobs["j1"] = JobStatus("j1", "failed", "adult", problem=problem)
    service.fail("ask", error)
    found = caller.get("/v1/jobs/j1").document
    assert found["state"] == "failed"
    assert found["problem"] == caller.post(ASK, QUESTION).document


def test_an_idempotency_key_reaches_the_service_with_the_bodys_digest(
    caller: Caller, service: FakeService
) -> None:
    for confidence in (0.95, 0.95, 0.9):
        caller.post(ASK, {**QUESTION, "confidence": confidence}, {"Idempotency-Key": "a key"})
    caller.post("/v1/datasets/wide/query", QUESTION, {"Idempotency-Key": "a key"})
    first, again, other, elsewhere = (c["key"] for c in service.calls_of("ask"))
    assert first == again
    assert len({first.body_digest, other.body_digest, elsewhere.body_digest}) == 3
    assert first.key == "a key"


def test_health_asks_nothing_of_the_store(caller: Caller, service: FakeService) -> None:
    assert caller.get("/healthz").document == {"status": "ok"}
    assert service.calls == []


def test_readiness_reports_which_datasets_have_a_worker(caller: Caller) -> None:
    assert caller.get("/readyz").document == {
        "status": "ready",
        "workers": "some",
        "worker_alive": {"adult": True, "wide": False},
    }


@pytest.mark.parametrize("path", ["/v1/datasets", "/healthz", "/nowhere", "/docs", "/v1/jobs/x"])
def test_every_response_forbids_storing_sniffing_and_framing(caller: Caller, path: str) -> None:
    headers = caller.get(path).headers
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]


def test_a_sane_request_id_comes_back_and_another_is_replaced(caller: Caller) -> None:
    assert caller.get("/healthz", {"X-Request-Id": "abc-1.2_3"}).headers["X-Request-Id"] == (
        "abc-1.2_3"
    )
    for hostile in ("a b", "x" * 65, "<script>", ""):
        given_back = caller.get("/healthz", {"X-Request-Id": hostile}).headers["X-Request-Id"]
        assert given_back != hostile
        assert len(given_back) == 32


def test_a_head_request_gets_the_headers_alone(caller: Caller) -> None:
    reply = caller.call("HEAD", "/v1/datasets")
    assert (reply.status, reply.body) == (200, b"")


@pytest.mark.parametrize("answer", [FREE, MEASURED])
def test_an_answer_is_the_same_by_both_content_type_spellings(
    caller: Caller, service: FakeService, answer: Answer
) -> None:
    service.outcome = answer
    plain = caller.post(ASK, QUESTION)
    spelled = caller.post(ASK, QUESTION, {"Content-Type": "application/JSON; charset=UTF-8"})
    assert plain.body == spelled.body
