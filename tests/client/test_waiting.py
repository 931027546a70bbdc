"""How long a client waits for a job: never past its own deadline."""

from __future__ import annotations

from typing import Any

import pytest

from qserver.client.errors import NotDoneError, ServerProblemError
from qserver.client.flows import Call, Patience, Pause, answered, job_result
from qserver.client.http import Reply

QUEUED = {"id": 7, "state": "queued"}
DONE = {"id": 7, "state": "done", "result": {"estimate": 3}}


class Clock:
    """Seconds that pass when somebody waits."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def _played(clock: Clock, wait_s: float, done_s: float) -> tuple[list[float], list[float], Any]:
    """The pauses, the waits that the server is asked for, and what came; a server that waits."""
    pauses: list[float] = []
    waits: list[float] = []
    patience = Patience(retries=0, wait_s=wait_s, clock=clock)
    steps = job_result(patience, QUEUED, clock.now + wait_s)
    start, reply = clock.now, None
    while True:
        try:
            step = steps.send(reply)
        except StopIteration as end:
            return pauses, waits, end.value
        except NotDoneError as exc:
            return pauses, waits, exc
        if isinstance(step, Pause):
            pauses.append(step.seconds)
            clock.now += step.seconds
            reply = None
        else:
            assert isinstance(step, Call)
            assert step.segments == ("v1", "jobs", "7")
            waits.append(step.wait_s)
            clock.now = min(clock.now + step.wait_s, max(clock.now, start + done_s))
            reply = Reply("", DONE if clock.now >= start + done_s else QUEUED)


@pytest.mark.parametrize("wait_s", [0.5, 3.0, 7.0, 30.0])
def test_nobody_is_asked_to_wait_longer_than_the_client_does(wait_s: float) -> None:
    clock = Clock()
    pauses, waits, found = _played(clock, wait_s, done_s=float("inf"))
    assert isinstance(found, NotDoneError)
    assert found.job == "7"
    assert sum(pauses) + sum(waits) <= wait_s
    assert clock.now == pytest.approx(1000.0 + sum(pauses) + sum(waits))
    # What is left is shorter than the pause that would come.
    assert wait_s - sum(pauses) - sum(waits) < 2.0
    assert waits[0] == pytest.approx(min(5.0, wait_s - 0.1))


def test_the_result_comes_as_soon_as_the_server_has_it() -> None:
    clock = Clock()
    pauses, waits, found = _played(clock, wait_s=30.0, done_s=4.0)
    assert found == {"estimate": 3}
    assert clock.now == 1004.0
    assert (pauses, waits) == ([0.1], [5.0])


def test_pauses_grow_up_to_two_seconds_where_the_server_does_not_let_wait() -> None:
    patience = Patience(retries=0, wait_s=60.0, clock=lambda: 0.0)
    steps, reply, pauses = job_result(patience, QUEUED, 60.0), None, []
    while len(pauses) < 10:
        step = steps.send(reply)
        reply = None if isinstance(step, Pause) else Reply("", QUEUED)
        if isinstance(step, Pause):
            pauses.append(step.seconds)
    assert pauses[:3] == pytest.approx([0.1, 0.15, 0.225])
    assert pauses[-1] == 2.0
    assert pauses == sorted(pauses)


def test_an_answer_that_is_there_at_once_is_not_waited_for() -> None:
    patience = Patience(retries=0, wait_s=0.0, clock=lambda: 0.0)
    steps = answered(patience, Call(("v1", "datasets", "a", "query"), {}))
    next(steps)
    with pytest.raises(StopIteration) as end:
        steps.send(Reply("", {"estimate": 3}))
    assert end.value.value.document == {"estimate": 3}


def _forgetful(n_forgotten: int) -> tuple[list[Call], Any]:
    """The questions that are sent, and what comes; a store that forgets the first jobs."""
    patience = Patience(retries=0, wait_s=60.0, clock=lambda: 0.0)
    steps, asked = answered(patience, Call(("v1", "datasets", "a", "query"), {})), list[Call]()
    reply: Reply | ServerProblemError | None = None
    while True:
        try:
            step = steps.send(reply)
        except StopIteration as end:
            return asked, end.value.document
        except ServerProblemError as exc:
            return asked, exc.code
        reply = None
        if isinstance(step, Call) and step.document is not None:
            asked.append(step)
            reply = Reply("", QUEUED, status=202)
        elif isinstance(step, Call):
            lost = ServerProblemError(code="not_found", detail="", status=404)
            reply = lost if len(asked) <= n_forgotten else Reply("", DONE)


def test_a_queued_question_that_the_store_forgot_is_asked_once_more_under_its_key() -> None:
    asked, found = _forgetful(1)
    assert found == {"estimate": 3}
    first, second = (call.headers["Idempotency-Key"] for call in asked)
    assert first == second
    asked, found = _forgetful(2)
    assert (len(asked), found) == (2, "not_found")


def test_a_dataset_that_is_not_there_is_asked_once() -> None:
    patience = Patience(retries=0, wait_s=60.0, clock=lambda: 0.0)
    steps = answered(patience, Call(("v1", "datasets", "a", "query"), {}))
    next(steps)
    with pytest.raises(ServerProblemError):
        steps.send(ServerProblemError(code="not_found", detail="", status=404))
