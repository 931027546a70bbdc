"""A text of SQL in place of a structured query, over HTTP."""

from __future__ import annotations

import pytest

from tests.api.calls import Caller, assert_problem
from tests.api.fake_service import FakeService

D = "/v1/datasets/adult"
WHERE = {"age": {"between": [2, 4]}, "sex": "Female"}
TEXT = "SELECT COUNT(*) FROM adult WHERE age BETWEEN 2 AND 4 AND sex = 'Female'"


@pytest.mark.parametrize(
    ("route", "method", "more"),
    [
        ("query", "ask", {"length": 100, "confidence": 0.95}),
        ("explain", "explain", {"length": 100, "confidence": 0.95}),
        ("probability", "probability", {"at_least": 5}),
    ],
)
def test_a_text_means_the_same_as_the_structured_form(
    route: str, method: str, more: dict[str, object], caller: Caller, service: FakeService
) -> None:
    for query in (TEXT, {"where": WHERE}):
        assert caller.post(f"{D}/{route}", {"query": query, **more}).status == 200
    one, other = (call["query"] for call in service.calls_of(method))
    assert one == other


def test_a_refusal_points_at_the_place_in_the_text(caller: Caller) -> None:
    body = {"query": "SELECT COUNT(*)\nFROM adult WHERE sex = 'female'", "length": 9}
    reply = caller.post(f"{D}/query", {**body, "confidence": 0.95})
    problem = assert_problem(reply, 422, "invalid_sql")
    assert (problem["line"], problem["column"]) == (2, 24)
    assert problem["excerpt"] == "FROM adult WHERE sex = 'female'\n" + " " * 23 + "^" * 8
    assert "Did you mean 'Female'?" in problem["detail"]
    assert problem["errors"][0]["field"] == "query"


@pytest.mark.parametrize("text", ["SELECT COUNT(*) FROM adult WITHIN 50", "EXPLAIN {}"])
def test_a_price_is_asked_for_by_a_word_or_a_field(caller: Caller, text: str) -> None:
    whole = text.format("SELECT COUNT(*) FROM adult WITHIN 50")
    found = caller.post(f"{D}/sql", {"sql": whole, "explain": True}).document
    assert (found["table"], found["price"]["columns"]) == (None, ["COUNT(*)"])


def test_a_field_that_asks_for_the_price_moves_no_place(caller: Caller) -> None:
    body = {"sql": "SELECT COUNT(*) FROM adult WHERE sex = 'female' WITHIN 9", "explain": True}
    problem = assert_problem(caller.post(f"{D}/sql", body), 422, "invalid_sql")
    assert (problem["line"], problem["column"]) == (1, 40)
    assert problem["excerpt"].startswith("SELECT COUNT(*)")
    wrong = caller.post(f"{D}/sql", {**body, "explain": "yes"})
    assert assert_problem(wrong, 422, "invalid_input")["errors"][0]["field"] == "explain"


@pytest.mark.limit("unconfirmed")
def test_a_text_without_a_length_is_priced_and_not_asked(
    caller: Caller, service: FakeService
) -> None:
    text = "SELECT COUNT(*) FROM adult"
    problem = assert_problem(
        caller.post(f"{D}/sql", {"sql": f"EXPLAIN {text}"}), 409, "unconfirmed"
    )
    assert problem["add"] == "WITHIN 100"
    assert problem["price"] > 0
    assert "remaining" in problem
    assert (problem["line"], problem["column"]) == (1, len(f"EXPLAIN {text}") + 1)
    assert not service.calls_of("ask")


def test_fields_say_what_the_text_leaves_out(caller: Caller) -> None:
    text = "SELECT COUNT(*) FROM adult"
    found = caller.post(f"{D}/sql", {"sql": text, "within": 50, "confidence": 0.9})
    assert found.document["table"]["confidence"] == 0.9
    for name, wrong in (("within", 0), ("confidence", 1), ("within", "50")):
        body = {"sql": text, name: wrong}
        problem = assert_problem(caller.post(f"{D}/sql", body), 422, "invalid_input")
        assert problem["errors"][0]["field"] == name


def test_a_statement_is_sent_so_that_it_does_not_spend(
    caller: Caller, service: FakeService
) -> None:
    body = {"sql": "SELECT COUNT(*) FROM adult WITHIN 50", "spend": False}
    problem = assert_problem(caller.post(f"{D}/sql", body), 409, "unconfirmed")
    assert problem["price"] > 0
    assert problem["add"] == ""
    assert "Nothing was spent" in problem["detail"]
    assert not service.calls_of("ask")
    assert caller.post(f"{D}/sql", {**body, "spend": True}).status == 200
    wrong = caller.post(f"{D}/sql", {**body, "spend": 0})
    assert assert_problem(wrong, 422, "invalid_input")["errors"][0]["field"] == "spend"
