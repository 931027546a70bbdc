"""A field, parameter or header that is wrong is named."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from qserver.api.bodies.requests import WorkloadRequest
from qserver.errors import InputError
from qserver.query.asking.after_looking import Looking, Selection
from qserver.query.asking.method_and_prior import Prior, Reading
from qserver.query.linear_query import LinearQuery
from tests.api.calls import ASK, QUERY, QUESTION, WORKLOAD, Caller, assert_problem
from tests.api.fake_service import FakeService

D = "/v1/datasets/adult"
FIELDS: list[tuple[dict[str, Any], str, str]] = [
    ({"length": None}, "length", "invalid_input"),
    ({"length": "100"}, "length", "invalid_input"),
    ({"length": True}, "length", "invalid_input"),
    ({"length": [1]}, "length", "invalid_input"),
    ({"length": 0}, "length", "invalid_requirement"),
    ({"length": 1e300}, "length", "invalid_requirement"),
    ({"confidence": 1}, "confidence", "invalid_requirement"),
    ({"confidence": -0.5}, "confidence", "invalid_requirement"),
    ({"query": None}, "query", "invalid_input"),
    ({"query": "SELECT COUNT(*)"}, "query", "invalid_sql"),
    ({"query": "SELECT COUNT(*) FROM adult WITHIN 5"}, "query", "invalid_sql"),
    ({"query": "EXPLAIN SELECT COUNT(*) FROM adult"}, "query", "invalid_sql"),
    ({"query": "SELECT AVG(age) FROM adult"}, "query", "invalid_sql"),
    ({"query": []}, "query", "invalid_input"),
    ({"query": {}}, "query", "invalid_query"),
    ({"query": {"where": {"age": "old"}}}, "query.where.age", "invalid_query"),
    ({"query": {"where": {"age": {"between": [1]}}}}, "query.where.age.between", "invalid_query"),
    (
        {"query": {"where": {"income": {"below": 0.25}}}},
        "query.where.income.below",
        "invalid_query",
    ),
    ({"query": {"any": [{"sex": "x"}]}}, "query.any[0].sex", "invalid_query"),
    ({"epsilon": 1}, "epsilon", "invalid_input"),
    ({"measure": "only this"}, "measure", "invalid_input"),
    ({"measure": True}, "measure", "invalid_input"),
    ({"measure": ["auto"]}, "measure", "invalid_input"),
    ({"selected_from": 64}, "selected_from", "invalid_input"),
    ({"selected_from": {}}, "selected_from.m", "invalid_input"),
    ({"selected_from": {"m": 0}}, "selected_from.m", "invalid_input"),
    ({"selected_from": {"m": 2.5}}, "selected_from.m", "invalid_input"),
    ({"selected_from": {"m": True}}, "selected_from.m", "invalid_input"),
    ({"selected_from": {"m": 4, "first": 5}}, "selected_from.first", "invalid_input"),
    ({"selected_from": {"m": 4, "first": 0}}, "selected_from.first", "invalid_input"),
    (
        {"selected_from": {"m": 4, "rule": "any", "first": 2}},
        "selected_from.first",
        "invalid_input",
    ),
    ({"selected_from": {"m": 4, "rule": "top"}}, "selected_from.rule", "invalid_input"),
    ({"selected_from": {"m": 4, "of": 2}}, "selected_from.of", "invalid_input"),
    ({"selected_from": {"m": 4}, "independent": True}, "independent", "invalid_input"),
    ({"independent": 1}, "independent", "invalid_input"),
    ({"method": "exact"}, "method", "invalid_input"),
    ({"method": None}, "method", "invalid_input"),
    ({"step": 1}, "step", "invalid_input"),
    ({"method": "convolution", "step": 0}, "step", "invalid_input"),
    ({"method": "convolution", "step": "1"}, "step", "invalid_input"),
    ({"method": "convolution", "draws": 20_000}, "draws", "invalid_input"),
    ({"method": "monte-carlo", "draws": 5}, "draws", "invalid_input"),
    ({"method": "monte-carlo", "draws": 20_000.5}, "draws", "invalid_input"),
    ({"error": 0.0001}, "error", "invalid_input"),
    ({"error": None}, "error", "invalid_input"),
    ({"prior": "positive"}, "prior", "invalid_input"),
    ({"prior": {"between": [1]}}, "prior", "invalid_input"),
    ({"prior": {"between": [2, 2]}}, "prior", "invalid_input"),
    ({"prior": {"between": [2, 1]}}, "prior", "invalid_input"),
    ({"prior": {"between": ["1", 2]}}, "prior", "invalid_input"),
    ({"prior": {"between": [1, 2], "of": 3}}, "prior", "invalid_input"),
    ({"prior": {"between": [True, 2]}}, "prior", "invalid_input"),
]


@pytest.mark.parametrize(("change", "field", "code"), FIELDS)
def test_a_wrong_field_is_named(
    caller: Caller, change: dict[str, Any], field: str, code: str
) -> None:
    problem = assert_problem(caller.post(ASK, {**QUESTION, **change}), 422, code)
    assert problem["errors"][0]["field"] == field
    # A refusal of SQL speaks of the statement, and shows its place.
    subject = "The statement must" if code == "invalid_sql" else f"`{field}`"
    assert subject in problem["errors"][0]["message"]


@pytest.mark.parametrize("path", ["query", "explain"])
def test_a_question_that_could_not_be_asked_has_no_price(caller: Caller, path: str) -> None:
    """What holds after looking is said of the estimate's error alone, so it has no other method."""
    asked = {**QUESTION, "selected_from": {"m": 4}, "method": "convolution"}
    problem = assert_problem(caller.post(f"{D}/{path}", asked), 422, "invalid_input")
    assert problem["errors"][0]["field"] == "method"


@pytest.mark.parametrize("path", ["query", "explain", "workload", "workload/explain", "sql"])
def test_an_unknown_choice_of_what_is_measured_is_refused_with_those_that_there_are(
    caller: Caller, path: str
) -> None:
    body: dict[str, dict[str, Any]]
    body = {"sql": {"sql": "SELECT COUNT(*) FROM adult WITHIN 5"}, "query": QUESTION}
    document = body.get(path, WORKLOAD if "workload" in path else QUESTION)
    problem = assert_problem(
        caller.post(f"{D}/{path}", {**document, "measure": "all"}), 422, "invalid_input"
    )
    message = "`measure` must be `auto` or `only_this`, or be left out."
    assert problem["errors"] == [{"field": "measure", "message": message}]


@pytest.mark.parametrize("measure", ["auto", "only_this", None])
def test_the_choice_of_what_is_measured_reaches_the_service(
    caller: Caller, service: FakeService, measure: str | None
) -> None:
    more = {} if measure is None else {"measure": measure}
    caller.post(ASK, {**QUESTION, **more})
    caller.post(f"{D}/explain", {**QUESTION, **more})
    caller.post(f"{D}/sql", {"sql": "SELECT COUNT(*) FROM adult WITHIN 5", **more})
    caller.post(f"{D}/workload", {**WORKLOAD, **more})
    asked = [*service.calls_of("ask"), *service.calls_of("explain")]
    assert [found["measure"] for found in asked] == [measure] * 3
    (workload,) = service.calls_of("ask_workload")
    assert workload["workload"].measure == measure


def test_an_unknown_member_of_an_object_is_told_with_those_that_there_are(caller: Caller) -> None:
    gate = {"fpr": 0.1, "max_power": 0.5, "power": 1}
    body = {"network": {"edges": []}, "records": 10, "gate": gate}
    problem = assert_problem(caller.post(f"{D}/models/audit", body), 422, "invalid_input")
    message = "`gate.power` must be left out: the fields are `fpr`, `max_power`, `basis`."
    assert problem["errors"] == [{"field": "gate.power", "message": message}]


def test_a_number_out_of_bounds_is_told_by_a_sentence(caller: Caller) -> None:
    body = {"sql": "SELECT COUNT(*) FROM adult", "within": 0}
    problem = assert_problem(caller.post(f"{D}/sql", body), 422, "invalid_input")
    message = "`within` must be greater than 0."
    assert problem["errors"] == [{"field": "within", "message": message}]


@pytest.mark.parametrize(("name", "field"), [("as_of", "as_of"), ("where", "questions[0].where")])
def test_the_period_of_a_workload_is_that_of_all_its_questions(name: str, field: str) -> None:
    def refuse(_query: object) -> LinearQuery:
        raise InputError(name, "be left out")

    asked = WorkloadRequest.read(
        {"questions": [{"query": {}}], "length": 5, "confidence": Decimal("0.9")}
    )
    with pytest.raises(InputError) as refused:
        asked.workload(refuse)
    assert refused.value.name == field


@pytest.mark.parametrize("field", sorted(QUESTION))
def test_a_missing_field_is_named(caller: Caller, field: str) -> None:
    body = {name: value for name, value in QUESTION.items() if name != field}
    problem = assert_problem(caller.post(ASK, body), 422, "invalid_input")
    assert problem["errors"] == [{"field": field, "message": f"`{field}` must be given."}]


def test_all_wrong_fields_are_named_at_once(caller: Caller) -> None:
    body = {"query": QUERY, "length": "long", "lenght": 100}
    problem = assert_problem(caller.post(ASK, body), 422, "invalid_input")
    assert {e["field"] for e in problem["errors"]} == {"length", "lenght", "confidence"}
    assert any("`length`" in e["message"] for e in problem["errors"] if e["field"] == "lenght")


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({}, "at_least"),
        ({"at_least": 1, "between": [1, 2]}, "at_least"),
        ({"between": [2, 1]}, "between"),
        ({"between": [1]}, "between[1]"),
        ({"between": [1, 2, 3]}, "between"),
        ({"between": 5}, "between"),
        ({"between": [1, "x"]}, "between[1]"),
        ({"at_least": "1"}, "at_least"),
        ({"at_least": None}, "at_least"),
        ({"at_least": 1, "between": None}, "between"),
        ({"at_most": 1}, "at_most"),
    ],
)
def test_probability_names_a_wrong_bound(caller: Caller, form: dict[str, Any], field: str) -> None:
    reply = caller.post(f"{D}/probability", {"query": QUERY, **form})
    problem = assert_problem(reply, 422, "invalid_input")
    assert problem["errors"][0]["field"] == field


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/datasets?limit=0", "limit"),
        ("/v1/datasets?limit=1001", "limit"),
        ("/v1/datasets?limit=ten", "limit"),
        ("/v1/datasets?limit=%D9%A3", "limit"),
        ("/v1/datasets?limit=1&limit=2", "limit"),
        (f"{D}/history?after=-2", "after"),
        (f"{D}/history?after=99999999999999999999", "after"),
        (f"{D}/history?limt=3", "limt"),
        (f"{D}?x", "x"),
        (f"{D}/ledger?where=", "where"),
        (f"{D}/ledger?where=[]", "where"),
        (f"{D}/ledger?where=%7B%7D%7D", "where"),
        ("/v1/jobs/j1?verbose=1", "verbose"),
    ],
)
def test_a_wrong_query_parameter_is_named(caller: Caller, path: str, field: str) -> None:
    problem = assert_problem(caller.get(path), 422, "invalid_input")
    assert problem["errors"][0]["field"] == field


def test_an_unknown_attribute_of_the_ledger_is_named(caller: Caller) -> None:
    problem = assert_problem(caller.get(f"{D}/ledger?attribute=x"), 422, "invalid_query")
    assert problem["errors"][0]["field"] == "attribute"


@pytest.mark.parametrize("key", ["", "x" * 256, "caf\xe9", "tab\there"])
def test_an_idempotency_key_must_be_printable_ascii(
    caller: Caller, service: FakeService, key: str
) -> None:
    reply = caller.post(ASK, QUESTION, {"Idempotency-Key": key})
    problem = assert_problem(reply, 422, "invalid_input")
    assert problem["errors"][0]["field"] == "Idempotency-Key"
    assert service.calls_of("ask") == []


def test_an_idempotency_key_with_another_body_is_refused(caller: Caller) -> None:
    key = {"Idempotency-Key": "k"}
    assert caller.post(ASK, QUESTION, key).status == 200
    assert caller.post(ASK, QUESTION, key).status == 200
    reply = caller.post(ASK, {**QUESTION, "length": 99}, key)
    assert_problem(reply, 422, "idempotency_mismatch")


@pytest.mark.parametrize(
    ("more", "looking"),
    [
        ({}, Looking()),
        ({"selected_from": None, "independent": False}, Looking()),
        ({"selected_from": {"m": 64}}, Looking(Selection(64, "largest", 1))),
        (
            {"selected_from": {"m": 64, "rule": "least", "first": 5}},
            Looking(Selection(64, "least", 5)),
        ),
        ({"independent": True}, Looking(independent=True)),
    ],
)
def test_what_was_looked_at_reaches_the_service(
    caller: Caller, service: FakeService, more: dict[str, Any], looking: Looking
) -> None:
    caller.post(ASK, {**QUESTION, **more})
    caller.post(f"{D}/explain", {**QUESTION, **more})
    asked = [*service.calls_of("ask"), *service.calls_of("explain")]
    assert [found["looking"] for found in asked] == [looking] * 2


@pytest.mark.parametrize(
    ("more", "reading"),
    [
        ({}, Reading()),
        ({"method": "auto", "step": None, "draws": None, "prior": None}, Reading()),
        ({"method": "convolution", "step": 0.5}, Reading("convolution", step=0.5)),
        ({"method": "monte-carlo", "draws": 20_000}, Reading("monte-carlo", draws=20_000)),
        ({"error": 0.001}, Reading(error=0.001)),
        ({"prior": "non-negative"}, Reading(prior=Prior("non-negative"))),
        ({"prior": "known-total"}, Reading(prior=Prior("known-total"))),
        ({"prior": {"between": [-1, 2.5]}}, Reading(prior=Prior("between", -1.0, 2.5))),
    ],
)
def test_how_a_posterior_is_read_reaches_the_service(
    caller: Caller, service: FakeService, more: dict[str, Any], reading: Reading
) -> None:
    assert caller.post(ASK, {**QUESTION, **more}).status == 200
    assert caller.post(f"{D}/explain", {**QUESTION, **more}).status == 200
    sent = {"query": QUERY, "at_least": 5, **more}
    assert caller.post(f"{D}/probability", sent).status == 200
    asked = [*service.calls_of("ask"), *service.calls_of("probability")]
    assert [found["reading"] for found in asked] == [reading] * 2


@pytest.mark.parametrize("path", ["probability", "explain"])
def test_a_reading_that_means_nothing_is_refused_wherever_it_is_sent(
    caller: Caller, path: str
) -> None:
    sent = {"query": QUERY, "at_least": 5} if path == "probability" else QUESTION
    problem = assert_problem(caller.post(f"{D}/{path}", {**sent, "step": 1}), 422, "invalid_input")
    assert problem["errors"][0]["field"] == "step"


def test_a_refused_choice_says_how_to_mend_it(caller: Caller) -> None:
    document = {**QUESTION, "selected_from": {"m": 4, "first": 5}}
    problem = assert_problem(caller.post(ASK, document), 422, "invalid_input")
    assert problem["detail"] == (
        "`selected_from.first` must be a whole number from 1 to `m`, which is 4, got 5. "
        "It says how many of the m are reported."
    )
