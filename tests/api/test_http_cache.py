"""Answers that come from the bytes of an earlier one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from qserver.api.repeated_questions import AnswerCache, KeptAnswer
from qserver.errors import StoreUnavailableError
from tests.api.calls import ASK, QUESTION, Caller, assert_problem, chunk
from tests.api.fake_answers import FREE, MEASURED
from tests.api.fake_service import FakeService


def test_a_repeated_free_question_is_computed_once(caller: Caller, service: FakeService) -> None:
    first = caller.post(ASK, QUESTION)
    service.calls.clear()
    assert [caller.post(ASK, QUESTION).body for _ in range(2)] == [first.body] * 2
    assert [method for method, _ in service.calls] == ["state", "state"]


def test_a_repeated_answer_has_the_headers_of_the_first(caller: Caller) -> None:
    first, again = (caller.post(ASK, QUESTION, {"X-Request-Id": "same"}) for _ in range(2))
    unsteady = {"Date"}
    headers = [{k: v for k, v in r.headers.items() if k not in unsteady} for r in (first, again)]
    assert headers[0] == headers[1]


def test_an_unusual_form_of_a_repeated_question_gets_the_same_answer(
    caller: Caller, service: FakeService
) -> None:
    body = json.dumps(QUESTION).encode()
    plain = caller.send(ASK, body)
    unusual = [
        caller.send(ASK, body, {"Content-Type": "application/json; charset=utf-8"}),
        caller.send(ASK, body, {"Content-Encoding": "identity"}),
        caller.send_chunks(ASK, chunk(body)),
        caller.send("/v1/datasets/%61dult/query", body),
    ]
    assert [reply.body for reply in unusual] == [plain.body] * 4
    assert len(service.calls_of("ask")) == 1


def test_an_unforeseen_fault_behind_a_kept_answer_is_still_a_problem(
    caller: Caller, service: FakeService
) -> None:
    caller.post(ASK, QUESTION)
    service.fail("state", RuntimeError("private"))
    assert_problem(caller.post(ASK, QUESTION), 500, "internal")


def test_a_new_version_is_computed_anew(caller: Caller, service: FakeService) -> None:
    caller.post(ASK, QUESTION)
    service.stamp += 1
    service.outcome = replace(FREE, version=8)
    assert caller.post(ASK, QUESTION).document["version"] == 8


def test_an_answer_that_was_measured_is_never_served_again_as_it_was(
    caller: Caller, service: FakeService
) -> None:
    service.outcome = MEASURED
    assert caller.post(ASK, QUESTION).document["epsilon_charged"] > 0
    service.outcome = FREE
    assert caller.post(ASK, QUESTION).document["epsilon_charged"] == 0


def test_a_version_that_moves_during_the_computation_makes_the_answer_useless(
    caller: Caller, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = service.ask

    def ask_while_another_spends(*args: object, **kwargs: object) -> object:
        service.stamp += 1
        return asked(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(service, "ask", ask_while_another_spends, raising=False)
    caller.post(ASK, QUESTION)
    caller.post(ASK, QUESTION)
    assert len(service.calls_of("ask")) == 2


def test_the_same_body_on_another_dataset_is_another_question(
    caller: Caller, service: FakeService
) -> None:
    caller.post(ASK, QUESTION)
    caller.post("/v1/datasets/wide/query", QUESTION)
    assert [c["name"] for c in service.calls_of("ask")] == ["adult", "wide"]


def test_under_a_key_an_answer_is_kept_only_where_nothing_was_asked_under_it(
    caller: Caller, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = {"Idempotency-Key": "k"}
    caller.post(ASK, QUESTION)
    caller.post(ASK, QUESTION, key)
    assert len(service.calls_of("ask")) == 1
    monkeypatch.setattr(FakeService, "is_new", lambda *_: False)
    caller.post(ASK, QUESTION, key)
    assert [c["key"] is None for c in service.calls_of("ask")] == [True, False]


def test_a_kept_answer_is_not_shown_when_the_store_cannot_be_asked(
    caller: Caller, service: FakeService
) -> None:
    caller.post(ASK, QUESTION)
    service.fail("state", StoreUnavailableError("redis://secret@host"))
    assert_problem(caller.post(ASK, QUESTION), 503, "store_unavailable")


def test_the_checks_of_a_request_come_before_a_kept_answer(caller: Caller) -> None:
    caller.post(ASK, QUESTION)
    reply = caller.post(ASK, QUESTION, {"Content-Type": "text/plain"})
    assert_problem(reply, 415, "unsupported_media_type")
    assert_problem(caller.post(ASK + "?x=1", QUESTION), 422, "invalid_input")


def test_the_least_recently_used_answer_leaves_first() -> None:
    cache = AnswerCache(max_entries=2)
    for body in (b"a", b"b"):
        cache.keep("d", body, KeptAnswer(1, body))
    cache.find("d", b"a")
    cache.keep("d", b"c", KeptAnswer(1, b"c"))
    assert [cache.find("d", body) is None for body in (b"a", b"b", b"c")] == [False, True, False]


def test_long_requests_are_not_kept() -> None:
    cache = AnswerCache(max_body_bytes=10)
    cache.keep("d", b"x" * 10, KeptAnswer(1, b""))
    cache.keep("d", b"x" * 9, KeptAnswer(1, b""))
    assert cache.find("d", b"x" * 10) is None
    assert cache.find("d", b"x" * 9) is not None
