"""Requests that wait hold no thread: a real gunicorn with one thread for short requests.

The worker is this process, so each test says when what is waited for is there.
"""

from __future__ import annotations

import http.client
import json
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from qserver.api.process.parking import ParkingWorker, _Joined
from qserver.records.charge import NANO
from qserver.service.parking import Visit
from qserver.service.statement_answers import StatementAnswer
from qserver.service.statements import Statements
from tests.api.calls import Caller, Reply, assert_problem
from tests.api.test_http_gunicorn import TIMEOUT_S, Server, _environ_for, _gunicorn
from tests.deployment import Deployment

PATH = "/v1/datasets/people"


def test_the_head_of_a_reply_goes_with_its_body_and_before_all_else() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        for parts in ([b"head"], [b"head", b"body"], [b"head", b"one", b"two"]):
            joined = _Joined(ours)
            for part in parts:
                joined.sendall(part)
            joined.flush()
            joined.send(b"more")
            sent = [b"".join(parts[:2]), *parts[2:], b"more"]
            assert [theirs.recv(100) for _ in sent] == sent


SMALL_ROOM = """
from qserver.api.process import parking
from qserver.wsgi import app

parking.MOST_WAITING = 3
"""

SMALL_MEMORY = """
from qserver.api.process import parking
from qserver.wsgi import app

parking.MOST_WAITING_BYTES = 4000
"""

SLOW_LOOKS = """
import pathlib
import time

from qserver.service.statements import Statements
from qserver.wsgi import app

look = Statements._look


def slow(*args):
    while not pathlib.Path("go_on").exists():
        time.sleep(0.01)
    look(*args)


Statements._look = slow
"""


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="100")


@pytest.fixture
def server(town: Deployment, tmp_path: Path) -> Iterator[Server]:
    with serving(town, tmp_path) as found:
        yield found


def serving(town: Deployment, folder: Path, app: str = "qserver.wsgi:app") -> Any:
    settings = replace(town.settings, http_workers=1, http_threads=1, wait_s=60.0)
    return _gunicorn(app, {**_environ_for(folder), **settings.to_environment()}, folder)


def question(age: int) -> dict[str, Any]:
    return {"query": {"where": {"age": age}}, "length": 40, "confidence": 0.95}


def _long_question(age: int) -> dict[str, Any]:
    """A question in more than 2,400 bytes."""
    return question(age) | {"query": {"where": {"age": [age] * 600}}}


def asked(pool: ThreadPoolExecutor, caller: Caller, *ages: int) -> list[Future[Reply]]:
    return [pool.submit(caller.post, f"{PATH}/query", question(age)) for age in ages]


def _cost(document: dict[str, Any]) -> float:
    return float(document.get("table", document)["epsilon_charged"])


def wait_for_jobs(town: Deployment, n: int) -> None:
    queue, deadline = town.writer().queue, time.monotonic() + TIMEOUT_S
    while len(queue.waiting("town")) < n:
        assert time.monotonic() < deadline, f"{n} jobs must wait"
        time.sleep(0.02)


@pytest.mark.slow
def test_short_requests_pass_while_more_questions_wait_than_there_are_threads(
    town: Deployment, server: Server
) -> None:
    free = town.ask({"age": 20}).estimate
    with ThreadPoolExecutor(16) as pool:
        waiting = asked(pool, server.caller, *range(21, 29))
        wait_for_jobs(town, len(waiting))
        assert server.caller.get("/healthz").document == {"status": "ok"}
        for _ in range(2):
            reply = server.caller.post(f"{PATH}/query", question(20))
            assert (reply.document["source"], reply.document["estimate"]) == ("history", free)
        assert server.caller.post(f"{PATH}/explain", question(29)).status == 200
        assert not any(future.done() for future in waiting)
        town.work_off()
        replies = [future.result(TIMEOUT_S) for future in waiting]
    assert [(r.status, r.document["source"]) for r in replies] == [(200, "measured")] * 8
    assert all(r.headers["X-Request-Id"] for r in replies)


@pytest.mark.slow
def test_the_same_question_of_many_is_measured_once_and_told_to_all(
    town: Deployment, server: Server
) -> None:
    """Whoever waited is told what it cost, though the answer is free by then."""
    with ThreadPoolExecutor(12) as pool:
        waiting = asked(pool, server.caller, *[22] * 12)
        wait_for_jobs(town, 1)
        # Whoever came late on a busy machine, before the answer was read, has a job of its own.
        while wait(waiting, timeout=0.02).not_done:
            town.work_off()
        replies = [future.result() for future in waiting]
    assert {r.status for r in replies} == {200}
    assert len({r.document["estimate"] for r in replies}) == 1
    told = [r.document for r in replies if r.document["source"] == "measured"]
    assert len({_cost(d) for d in told}) == 1
    assert _cost(told[0]) * NANO == pytest.approx(town.service().dataset("people").spent_nano)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("/query", question(22)),
        ("/workload", {"questions": [question(22), question(23)]}),
        ("/sql", {"sql": "SELECT COUNT(*) FROM people WHERE age = 22 WITHIN 20 CONFIDENCE 0.95"}),
    ],
)
def test_every_kind_of_question_waits_and_tells_what_it_cost(
    town: Deployment, server: Server, path: str, document: dict[str, Any]
) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(server.caller.post, PATH + path, document)
        wait_for_jobs(town, 1)
        town.work_off()
        reply = waiting.result(TIMEOUT_S)
    assert reply.status == 200, reply.body
    assert _cost(reply.document) > 0


@pytest.mark.slow
def test_what_a_job_fails_with_is_told_to_whoever_waits(town: Deployment, server: Server) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = asked(pool, server.caller, 22)
        wait_for_jobs(town, 1)
        town.work_off(town.spender(trusted=replace(town.trusted(), tables={})))
        assert_problem(waiting[0].result(TIMEOUT_S), 502, "measurement_failed")


@pytest.mark.slow
def test_when_the_time_is_over_a_question_is_its_job_which_can_be_waited_for(
    town: Deployment, server: Server
) -> None:
    headers = {"Prefer": "wait=1"}
    reply = server.caller.post(f"{PATH}/query", question(22), headers=headers)
    assert (reply.status, reply.document["state"]) == (202, "queued")
    place = reply.headers["Location"]
    later = server.caller.get(place, headers=headers)
    assert (later.status, later.document["state"]) == (200, "queued")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(server.caller.get, place, {"Prefer": "wait=60"})
        assert server.caller.get("/healthz").status == 200
        town.work_off()
        assert waiting.result(TIMEOUT_S).document["state"] == "done"


@pytest.mark.slow
def test_a_connection_goes_on_after_a_question_that_waited(
    town: Deployment, server: Server
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.caller.port, timeout=TIMEOUT_S)
    for age in (22, 23):
        body = json.dumps(question(age))
        connection.request("POST", f"{PATH}/query", body, {"Content-Type": "application/json"})
        wait_for_jobs(town, 1)
        town.work_off()
        assert json.loads(connection.getresponse().read())["source"] == "measured"
        connection.request("GET", "/healthz")
        assert connection.getresponse().read() == b'{"status":"ok"}'
    connection.close()


@pytest.mark.slow
def test_connections_that_send_nothing_hold_no_thread(server: Server) -> None:
    # gunicorn's own worker would give its one thread to each of them for 5 s.
    n_idle = 2 * TIMEOUT_S // 5
    idle = [socket.create_connection(("127.0.0.1", server.caller.port)) for _ in range(n_idle)]
    assert server.caller.get("/healthz").status == 200
    for one in idle:
        one.close()


@pytest.mark.limit("busy")
@pytest.mark.slow
def test_more_waiting_requests_than_there_is_room_for_get_a_job_or_busy(
    town: Deployment, tmp_path: Path
) -> None:
    (tmp_path / "small_room.py").write_text(SMALL_ROOM)
    with serving(town, tmp_path, "small_room:app") as server, ThreadPoolExecutor(8) as pool:
        waiting = asked(pool, server.caller, *range(21, 24))
        wait_for_jobs(town, 3)
        refused = server.caller.post(f"{PATH}/query", question(29))
        assert_problem(refused, 503, "busy")
        assert refused.headers["Retry-After"]
        assert server.caller.get("/healthz").status == 200
        town.work_off()
        assert [f.result(TIMEOUT_S).status for f in waiting] == [200] * 3


@pytest.mark.slow
def test_bodies_that_wait_have_a_bound_in_all(town: Deployment, tmp_path: Path) -> None:
    (tmp_path / "small_memory.py").write_text(SMALL_MEMORY)
    with serving(town, tmp_path, "small_memory:app") as server, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(server.caller.post, f"{PATH}/query", _long_question(21))
        wait_for_jobs(town, 1)
        assert_problem(server.caller.post(f"{PATH}/query", _long_question(22)), 503, "busy")
        assert server.caller.post(f"{PATH}/explain", question(23)).status == 200
        town.work_off()
        assert waiting.result(TIMEOUT_S).status == 200
        assert server.caller.post(f"{PATH}/explain", _long_question(22)).status == 200


@pytest.mark.slow
def test_ratios_that_wait_hold_no_explanation_up(town: Deployment, server: Server) -> None:
    """The steps of a ratio run only once, so they keep their thread, in a lane of their own."""
    with ThreadPoolExecutor(4) as pool:
        ratios = [
            {
                "sql": f"SELECT AVG(age) FROM people WHERE age >= {age} WITHIN 5 CONFIDENCE 0.9 "
                "ASSUMING AT LEAST 50"
            }
            for age in (21, 22, 23)
        ]
        waiting = [pool.submit(server.caller.post, f"{PATH}/sql", ratio) for ratio in ratios]
        wait_for_jobs(town, 1)
        assert server.caller.post(f"{PATH}/explain", question(23)).status == 200
        assert not any(future.done() for future in waiting)
        deadline = time.monotonic() + TIMEOUT_S
        while not all(future.done() for future in waiting) and time.monotonic() < deadline:
            town.work_off()
            time.sleep(0.02)
        assert [future.result(TIMEOUT_S).status for future in waiting] == [200] * 3


@pytest.mark.slow
def test_a_question_that_waits_is_answered_when_the_server_is_asked_to_stop(
    town: Deployment, server: Server
) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = asked(pool, server.caller, 22)
        wait_for_jobs(town, 1)
        server.process.send_signal(signal.SIGTERM)
        server.wait_for_line("Handling signal: term")
        town.work_off()
        assert waiting[0].result(TIMEOUT_S).status == 200
    assert server.process.wait(timeout=TIMEOUT_S) == 0


@pytest.mark.parametrize(
    ("lane", "pool"),
    [("", "short"), ("questions", "short"), ("costly", "again"), ("long", "again")],
)
def test_a_reply_that_may_take_long_to_form_holds_no_short_thread(lane: str, pool: str) -> None:
    """Of a workload's answers the consistent ones are computed once its job has ended."""
    worker = object.__new__(ParkingWorker)
    pools: Any = {"again": "again"}
    worker.tpool, worker._lanes = "short", pools
    submit = MagicMock()
    worker._submit = submit  # type: ignore[method-assign]
    conn = MagicMock(visit=Visit(lane=lane))
    worker._run_again(conn)
    submit.assert_called_once_with(pool, conn)


@pytest.mark.slow
def test_a_long_look_at_what_is_known_is_a_job_whose_statement_is_free_again(
    town: Deployment, tmp_path: Path
) -> None:
    (tmp_path / "slow_looks.py").write_text(SLOW_LOOKS)
    town.ask_workload(town.workload([{"age": age} for age in range(20, 30)], length=20))
    spent = town.service().dataset("people").spent_nano
    path, sql = f"{PATH}/sql", {"sql": "SELECT AVG(age) FROM people WHERE age < 30"}
    with serving(town, tmp_path, "slow_looks:app") as server, ThreadPoolExecutor(1) as pool:
        reply = server.caller.post(path, sql, {"Prefer": "wait=0"})
        assert (reply.status, reply.document["state"]) == (202, "running")
        waiting = pool.submit(server.caller.get, reply.headers["Location"], {"Prefer": "wait=60"})
        assert server.caller.get("/healthz").status == 200
        (tmp_path / "go_on").touch()
        assert waiting.result(TIMEOUT_S).document["state"] == "done"
        again = server.caller.post(path, sql, {"Prefer": "wait=0"})
    assert again.status == 200
    found = Statements(town.service()).run("people", sql["sql"], wait_s=60.0)
    assert isinstance(found, StatementAnswer)
    (cell,) = again.document["table"]["rows"][0]["cells"]
    ends = found.cells[0][0].value.interval
    assert cell["interval"] == pytest.approx([ends.low, ends.high])
    assert town.service().dataset("people").spent_nano == spent
