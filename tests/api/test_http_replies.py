"""What every reply keeps to: plain JSON, short numbers, exact epsilon; and what it says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, NoReturn

import pytest

from qserver.api.wire import SAFE_INTEGER
from tests.api.calls import ASK, MODEL, QUESTION, Caller
from tests.api.every_reply import TEXTS, D, Replies
from tests.api.fake_answers import FREE
from tests.api.fake_service import FakeService

# Members that are in epsilon wherever they are numbers.
EPSILON = {"alpha", "auto", "charge", "epsilon_charged", "epsilon_remaining", "epsilon_rest"} | {
    "independent", "only_this", "per_day", "price", "price_apart", "remaining", "spent",
    "spent_today",
}  # fmt: skip
INTERVALS = {"interval", "intervals"}
AVERAGE = TEXTS[2]

Route = tuple[str, str, str]


def _documents(replies: Replies) -> Iterator[tuple[Route, Any]]:
    """Every JSON reply but the OpenAPI document itself, numbers as they are written."""
    for route, found in replies.items():
        for reply in found:
            if reply.headers["Content-Type"] == "application/json" and "openapi" not in route[0]:
                yield (
                    route,
                    json.loads(reply.body, parse_float=Decimal, parse_constant=_is_no_number),
                )


def _is_no_number(text: str) -> NoReturn:
    raise AssertionError(f"{text} is no JSON.")


def _members(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """All values in a document with the name of the nearest member that holds them."""
    yield name, value
    if isinstance(value, dict):
        for inner, held in value.items():
            yield from _members(held, inner)
    elif isinstance(value, list):
        for held in value:
            yield from _members(held, name)


def test_numbers_are_written_short_and_exact(replies: Replies) -> None:
    """A number is the shortest that reads back as itself; integers fit in a double."""
    seen = [value for _, document in _documents(replies) for _, value in _members(document)]
    floats = [value for value in seen if isinstance(value, Decimal)]
    assert len(floats) > 200
    assert [value for value in floats if Decimal(repr(float(value))) != value] == []
    integers = [value for value in seen if isinstance(value, int)]
    assert max(map(abs, integers)) <= SAFE_INTEGER


def test_epsilon_is_a_multiple_of_one_in_a_thousand_million(replies: Replies) -> None:
    seen = dict[str, list[Decimal]]()
    for _, document in _documents(replies):
        for name, value in _members(document):
            if name in EPSILON and isinstance(value, Decimal):
                seen.setdefault(name, []).append(value)
    assert set(seen) == EPSILON
    found = {name: [v for v in values if v * 10**9 % 1] for name, values in seen.items()}
    assert not any(found.values()), found


def test_every_interval_is_low_and_high(replies: Replies) -> None:
    found = [
        value
        for _, document in _documents(replies)
        for name, value in _members(document)
        if name in INTERVALS and isinstance(value, list) and isinstance(value[0], Decimal)
    ]
    assert len(found) > 10
    assert [value for value in found if len(value) != 2 or value[0] > value[1]] == []


@pytest.mark.parametrize("text", ["Zürich", "年齢", 'a"b\\c\n', "\U0001f600", "</script>"])
def test_a_text_comes_back_as_it_is(caller: Caller, service: FakeService, text: str) -> None:
    service.outcome = replace(FREE, weights=text)
    assert caller.post(ASK, QUESTION).document["weights"] == text


def _at(document: Any, path: str) -> Any:
    for part in path.split("."):
        document = document[int(part) if isinstance(document, list) else part]
    return document


MEANT: list[tuple[str, object, Mapping[str, Any]]] = [
    ("/history", None, {"version": 5, "rows.4.key": "table:k", "next_after": None}),
    (
        "/ledger",
        None,
        {
            "limit": 1.0,
            "spent": 0.060000001,
            "remaining": 0.939999999,
            "relation": "add-remove",
            "n_charges": 1,
            "loss": 0.060000001,
        },
    ),
    (
        "/spending",
        None,
        {
            "population": "people",
            "limit": 1.0,
            "spent": 0.060000001,
            "accounts.0.account": "ann",
            "accounts.0.spent": 0.060000001,
            "accounts.0.spent_today": 1e-9,
            "accounts.0.n_charges": 1,
            "accounts.0.last_at": 1_800_000_000,
            "accounts.0.limit": 1.0,
            "accounts.0.per_day": None,
            "accounts.1.last_at": None,
        },
    ),
    ("/audit?after=0", None, {"entries.0.place": 1, "entries.1.place": 2, "next_after": None}),
    (
        "/audit?limit=1",
        None,
        {
            "entries.0.text": '{"kind": "x", "at": 1}',
            "entries.0.entry": {"kind": "x", "at": 1},
            "entries.0.digest": "ab" * 32,
            "next_after": 0,
        },
    ),
    (
        "/models/m1",
        None,
        {
            "id": "m1",
            "kind": "network",
            "epsilon_charged": 0.400000001,
            "tables": [0, 4],
            "version": 7,
            "specification": {"edges": [["sex", "age"]]},
        },
    ),
    (
        "/models/m1/query",
        {"marginal": ["sex"]},
        {
            "answer.variables": ["sex"],
            "answer.labels": [["Female", "Male", "other"]],
            "answer.probabilities": [0.5, 0.25, 0.25],
            "model": "m1",
            "version": 7,
        },
    ),
    (
        "/models/explain",
        MODEL,
        {
            "kind": "blocks",
            "remaining": 0.001234567,
            "sample": None,
            "second": None,
            "plan.0.charge": 0.001,
            "error.width": 1,
            "error.term_upper": 3610.0,
            "own.spent_today": 0.008,
        },
    ),
    (
        "/sql",
        {"sql": TEXTS[0]},
        {
            "table.columns": ["COUNT(*)"],
            "table.rows.0.cells.0.estimate": 120.5,
            "table.rows.0.cells.0.interval": [70.25, 170.75],
            "table.rows.0.cells.0.source": "history",
            "table.epsilon_charged": 0.0,
            "table.epsilon_remaining": 0.001234567,
            "table.version": 7,
            "price": None,
        },
    ),
    (
        "/sql",
        {"sql": TEXTS[1]},
        {
            "table": None,
            "price.n_questions": 1,
            "price.price": 0.060000001,
            "price.remaining": 0.001234567,
            "price.affordable": False,
            "price.at_most": False,
            "price.free": [{"group": [], "intervals": [[-3.5, 300.25]]}],
            "price.own.price": 0.05,
        },
    ),
]


@pytest.mark.parametrize(("path", "body", "meant"), MEANT)
def test_each_member_has_what_the_service_said(
    caller: Caller, path: str, body: object, meant: Mapping[str, Any]
) -> None:
    """Of the replies that no other test of HTTP compares; see `fake_service.py`."""
    reply = caller.get(D + path) if body is None else caller.post(D + path, body)
    assert {member: _at(reply.document, member) for member in meant} == meant


def test_a_statement_of_many_steps_is_charged_for_each(
    caller: Caller, service: FakeService
) -> None:
    """By hand: incomes from 0.5 to 10 are taken for 5.25, which may be 4.75 away."""
    table = caller.post(f"{D}/sql", {"sql": AVERAGE}).document["table"]
    steps = len(service.calls_of("ask_workload"))
    assert table["epsilon_charged"] == float(Decimal(steps * 60_000_001) / 10**9) > 0
    (cell,) = table["rows"][0]["cells"]
    assert 0 <= cell["interval"][0] < cell["estimate"] < cell["interval"][1] <= 10
    assert cell["binning"] == {"error": 4.75, "of": "average"}
