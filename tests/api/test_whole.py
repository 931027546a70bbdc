"""The whole server as processes: gunicorn, two workers, a real store, real HTTP clients."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from qserver.cli.processes import (
    Child,
    ChildSpec,
    child_environment,
    http_spec,
    listen,
    python_command,
)
from qserver.config import Settings
from qserver.storage.histories import Cursor
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.store import Store
from tests.deployment import Deployment
from tests.privacy.scan import count_secret, exposures

# Programs that are killed are not waited for, so that their time is not counted.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.promise(
        "Privacy",
        "nothing private reaches the store",
    ),
]

N_WORKERS = 2
# Whoever looks without a pause takes the processor from those that it waits for.
POLL_S = 0.05
# 7,919 of 12,345 people are 20 years old: numbers to look for where they must not be.
N_PLANTED, N_TOTAL = 7919, 12345
SECRET = "PLANTED-LABEL-ZANZIBAR"
PLANTED = [(20, "Male")] * N_PLANTED + [(21, SECRET)] * (N_TOTAL - N_PLANTED)


@dataclass(frozen=True)
class Reply:
    status: int
    body: dict[str, Any]
    headers: dict[str, str]


@dataclass(frozen=True)
class Whole:
    """A running server with its processes."""

    town: Deployment
    port: int
    workers: list[Child]
    logs: Path

    def call(self, method: str, path: str, document: object = None, **headers: str) -> Reply:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        body = None if document is None else json.dumps(document)
        sent = {"Content-Type": "application/json"} if body else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body=body, headers=sent)
        response = connection.getresponse()
        reply = Reply(response.status, json.loads(response.read()), dict(response.headers))
        connection.close()
        return reply

    def ask(self, where: dict[str, Any], *, length: float = 60, **headers: str) -> Reply:
        document = {"query": {"where": where}, "length": length, "confidence": 0.95}
        return self.call("POST", "/v1/datasets/people/query", document, **headers)

    def charges(self) -> tuple[str, ...]:
        store = Store.open(self.town.settings)
        return store.changes(self.town.meta, Cursor(), shown_only=True).charges


def start_worker(settings: Settings, log: Path) -> Child:
    command = python_command("-m", "worker", "run")
    return Child(
        ChildSpec(
            name="worker",
            command=command,
            log=log,
            environment=child_environment(settings, os.environ),
        )
    )


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Whole]:
    with running(tmp_path, limit="0.3") as found:
        yield found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    """For tests that stop nothing, and ask of their own ages."""
    with running(tmp_path_factory.mktemp("shared"), limit="3") as found:
        yield found


@contextmanager
def running(folder: Path, *, limit: str) -> Iterator[Whole]:
    with EmbeddedServer.start(folder / "state") as server:
        town = Deployment.make(folder / "state", server.url, limit=limit, rows=PLANTED)
        listener = listen("127.0.0.1", 0)
        settings = replace(town.settings, wait_s=60, slot_ms=5, lease_ms=5000)
        town = replace(town, settings=settings)
        logs = folder / "logs"
        logs.mkdir()
        workers = [start_worker(settings, logs / f"worker{i}.log") for i in range(N_WORKERS)]
        web = Child(
            http_spec(settings, listener=listener, log=logs / "web.log", environ=os.environ)
        )
        found = Whole(town, listener.getsockname()[1], workers, logs)
        try:
            assert found.call("GET", "/healthz").status == 200
            yield found
        finally:
            web.stop()
            for worker in workers:
                worker.stop()
            listener.close()


def everything_public(whole: Whole) -> bytes:
    """All that left the workers' memory but their private folder: store files, logs, replies."""
    store = whole.town.settings.state_dir / "redis"
    parts = [p.read_bytes() for p in store.rglob("*") if p.is_file()]
    parts += [p.read_bytes() for p in whole.logs.iterdir()]
    for path in ("", "/people", "/people/history", "/people/ledger"):
        parts.append(json.dumps(whole.call("GET", f"/v1/datasets{path}").body).encode())
    return b"".join(parts)


def test_sixty_identical_questions_charge_once(shared: Whole) -> None:
    before = len(shared.charges())
    with ThreadPoolExecutor(60) as pool:
        # Not of those whose number is looked for below: an exact answer may be it by chance.
        replies = list(pool.map(lambda _i: shared.ask({"age": 26}), range(60)))
    assert {r.status for r in replies} == {200}
    assert len({r.body["estimate"] for r in replies}) == 1
    assert len(shared.charges()) == before + 1


def test_forty_identical_workloads_charge_once(whole: Whole) -> None:
    """A histogram of eleven cells: one charge, one table, the same answers for everybody."""
    questions = [{"query": {"where": {"age": age}}} for age in range(20, 30)]
    body = {"questions": questions, "length": 60, "confidence": 0.95, "simultaneous": True}
    path = "/v1/datasets/people/workload"
    with ThreadPoolExecutor(40) as pool:
        replies = list(pool.map(lambda _i: whole.call("POST", path, body), range(40)))
    assert {r.status for r in replies} == {200}
    assert len({str([a["estimate"] for a in r.body["answers"]]) for r in replies}) == 1
    assert len(whole.charges()) == 1
    assert replies[0].body["simultaneous"]["confidence"] >= 0.95
    quote = whole.call("POST", f"{path}/explain", {**body, "length": 1})
    refused = whole.call("POST", path, {**body, "length": 1})
    assert (refused.status, refused.body["code"]) == (409, "budget_exhausted")
    assert refused.body["price"] == quote.body["price"] > quote.body["remaining"]
    assert len(refused.body["free"]) == 10
    assert len(whole.charges()) == 1
    later = whole.call("POST", path, {**body, "length": 50}, Prefer="respond-async")
    assert later.status == 202
    assert later.headers["Location"] == f"/v1/jobs/{later.body['id']}"


def test_different_questions_never_pass_the_limit(whole: Whole) -> None:
    """40 overlapping questions of 0.1 epsilon under a limit of 0.3, from 40 clients at once."""
    questions = [
        {"age": {"below": 21 + i % 10}, "sex": {"not": ["Male", "Female"][: i // 10]}}
        for i in range(20, 40)
    ]
    questions += [{"age": {"at_least": 20 + i % 10}} for i in range(1, 10)]
    with ThreadPoolExecutor(30) as pool:
        replies = list(pool.map(whole.ask, questions))
    refused = [r for r in replies if r.status == 409]
    assert {r.status for r in replies} == {200, 409}
    assert {r.body["code"] for r in refused} == {"budget_exhausted"}
    assert all(r.body["price"] > r.body["remaining"] for r in refused)
    status = whole.call("GET", "/v1/datasets/people").body
    assert 0.2 < status["spent"] <= status["limit"] == 0.3
    measured = [r for r in replies if r.status == 200 and r.body["source"] == "measured"]
    assert len(whole.charges()) == len({r.body["evidence"][-1] for r in measured})


def test_a_tighter_question_refines_and_pays_the_difference(whole: Whole) -> None:
    """L and then L/2 cost together what L/2 alone would: twice the first price, to a nano or so."""
    first = whole.ask({"age": 28}, length=400).body
    second = whole.ask({"age": 28}, length=200).body
    assert (first["source"], second["source"]) == ("measured", "refined")
    assert second["interval"][1] - second["interval"][0] <= 200 * (1 + 1e-9)
    total = first["epsilon_charged"] + second["epsilon_charged"]
    assert total == pytest.approx(2 * first["epsilon_charged"], rel=1e-5)
    live = whole.call("GET", "/v1/datasets/people/history").body["rows"]
    assert [row["alpha"] for row in live] == [pytest.approx(total, abs=1e-9)]


def test_a_job_is_polled_to_its_answer(shared: Whole) -> None:
    accepted = shared.ask({"age": 22}, Prefer="respond-async")
    assert accepted.status == 202
    assert accepted.headers["Location"] == f"/v1/jobs/{accepted.body['id']}"
    deadline = time.monotonic() + 120
    job = shared.call("GET", accepted.headers["Location"]).body
    while job["state"] not in ("done", "failed") and time.monotonic() < deadline:
        time.sleep(POLL_S)
        job = shared.call("GET", accepted.headers["Location"]).body
    assert job["state"] == "done"
    assert job["result"]["source"] == "measured"


@pytest.mark.slow
def test_an_idempotency_key_gives_the_same_answer_and_refuses_another_body(shared: Whole) -> None:
    before = len(shared.charges())
    first = shared.ask({"age": 23}, Idempotency_Key="k1")
    again = shared.ask({"age": 23}, Idempotency_Key="k1")
    other = shared.ask({"age": 24}, Idempotency_Key="k1")
    assert first.body == again.body
    assert first.body["source"] == "measured"
    assert (other.status, other.body["code"]) == (422, "idempotency_mismatch")
    assert len(shared.charges()) == before + 1


def test_the_server_goes_on_when_a_worker_is_killed_and_says_so_when_none_is_left(
    whole: Whole,
) -> None:
    os.kill(whole.workers[0].pid, 9)
    assert whole.ask({"age": 25}).status == 200
    os.kill(whole.workers[1].pid, 9)
    deadline = time.monotonic() + 120
    while whole.call("GET", "/v1/datasets/people").body["worker_alive"]:
        assert time.monotonic() < deadline
        time.sleep(POLL_S)
    # A process that has just started waits for a worker that may be starting, too.
    for ages in combinations(range(20, 30), 2):
        refused = whole.ask({"age": {"between": ages}}, Prefer="wait=1")
        if refused.status != 202:
            break
    assert (refused.status, refused.body["code"]) == (503, "no_worker")
    assert whole.ask({"age": 25}).body["source"] == "history"


def test_workers_finish_their_job_and_leave_when_asked_to_stop(whole: Whole) -> None:
    accepted = whole.ask({"age": 27}, Prefer="respond-async")
    for worker in whole.workers:
        worker.stop()
    assert [w.status for w in whole.workers] == [0, 0]
    state = whole.call("GET", accepted.headers["Location"]).body["state"]
    assert state in ("done", "queued")


def test_nothing_private_leaves_the_worker(shared: Whole) -> None:
    """True counts, labels outside the domain and file names are planted and looked for."""
    for question in ({"age": 20}, {"age": 21}, {"sex": "other"}, {"age": {"below": 22}}):
        shared.ask(question, length=2000)
    public = everything_public(shared)
    entry = shared.town.registry.entry("people")
    assert b"people" in public  # the control: what is public is found by the same search
    assert entry.snapshot.encode() in public
    registry = shared.town.registry
    for text in (SECRET, entry.data, entry.fingerprint, registry.key().hex()):
        assert text.encode() not in public, text
    # Numbers of their own: so few digits turn up inside random ids by chance.
    for count in (N_PLANTED, N_TOTAL, N_TOTAL - N_PLANTED):
        assert not exposures([count_secret("count", count)], {"public": public}), count
    assert exposures([count_secret("count", N_TOTAL)], {"public": public + b' "%d",' % N_TOTAL})
