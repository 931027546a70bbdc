"""Clients that ask without pause, over HTTP, and remember every answer that they were shown.

They ask single questions, workloads, and for models to be learnt.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from qserver.config import LOOPBACK

_PATIENCE_S = 240.0
_FINER = 0.98
_SEXES = ("Female", "Male", "other")
_SHARES = {"query": 0.7, "workload": 0.85, "models": 1.0}
"""How often each kind is asked for, summed up."""
_STRUCTURES: tuple[dict[str, Any], ...] = (
    {"edges": [["sex", "age"]]},
    {"edges": [], "variables": ["sex", "age"]},
    {"edges": [], "variables": ["age"]},
)


@dataclass(frozen=True)
class Reply:
    """One reply over HTTP."""

    status: int
    document: dict[str, Any]


@dataclass(frozen=True)
class Shown:
    """How a question ended for its client.

    Args:
        job: the job's id, where the client knows it.
        state: `done`, `failed`, or `lost` where nothing was heard in time.
        document: the answer, or the problem.
        kind: what was asked, by the last part of its path.
    """

    dataset: str
    job: str | None
    state: str
    document: dict[str, Any]
    took_s: float
    kind: str = "query"


@dataclass
class Memory:
    """All that clients were shown; for several threads."""

    shown: list[Shown] = field(default_factory=list)
    n_broken: int = 0

    def count(self, state: str) -> int:
        """How many questions ended so."""
        return sum(s.state == state for s in self.shown)

    def codes(self) -> dict[str, int]:
        """How many questions failed with each code."""
        found: dict[str, int] = {}
        for shown in self.shown:
            if shown.state == "failed":
                code = str(shown.document.get("code"))
                found[code] = found.get(code, 0) + 1
        return found


def call(
    port: int,
    method: str,
    path: str,
    body: str | None = None,
    headers: dict[str, str] | None = None,
) -> Reply | None:
    """The reply, or None when the connection broke before it was whole."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=20)
    try:
        kind = {"Content-Type": "application/json"} if body is not None else {}
        connection.request(method, path, body=body, headers={**kind, **(headers or {})})
        response = connection.getresponse()
        return Reply(response.status, json.loads(response.read()))
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


@dataclass(frozen=True)
class Question:
    """A question as clients write it."""

    dataset: str
    where: dict[str, Any]
    length: float

    kind = "query"

    @property
    def document(self) -> dict[str, Any]:
        """The request's body as an object."""
        return {"query": {"where": self.where}, "length": self.length, "confidence": 0.95}

    @property
    def body(self) -> str:
        """The request's body."""
        return json.dumps(self.document)


@dataclass(frozen=True)
class Workload:
    """Questions on one dataset that are asked as one."""

    questions: tuple[Question, ...]
    simultaneous: bool

    kind = "workload"

    @property
    def dataset(self) -> str:
        """Whom they are about."""
        return self.questions[0].dataset

    @property
    def body(self) -> str:
        """The request's body."""
        questions = [question.document for question in self.questions]
        return json.dumps({"questions": questions, "simultaneous": self.simultaneous})


@dataclass(frozen=True)
class Model:
    """A network that is to be learnt, and what its tables may cost, in epsilon."""

    dataset: str
    network: Mapping[str, Any]
    epsilon: float

    kind = "models"

    @property
    def body(self) -> str:
        """The request's body."""
        return json.dumps({"kind": "network", "network": self.network, "epsilon": self.epsilon})


Asked = Question | Workload | Model


def random_question(rng: random.Random, datasets: Sequence[str], *, finer: float = 1.0) -> Question:
    """A count of some ages and perhaps one sex, at a length from 1 to 100, times `finer`."""
    low = rng.randrange(20, 30)
    where: dict[str, Any] = {"age": {"between": [low, rng.randrange(low, 30)]}}
    if rng.random() < 0.5:
        where["sex"] = rng.choice(_SEXES)
    return Question(rng.choice(list(datasets)), where, round(finer * 100 ** rng.random(), 4))


def random_asked(rng: random.Random, datasets: Sequence[str], *, finer: float = 1.0) -> Asked:
    """Mostly a question; at times a workload of two or three, or a small network."""
    drawn, dataset = rng.random(), rng.choice(list(datasets))
    if drawn < _SHARES["query"]:
        return random_question(rng, [dataset], finer=finer)
    if drawn < _SHARES["workload"]:
        n = rng.choice((2, 3))
        questions = tuple(random_question(rng, [dataset], finer=finer) for _ in range(n))
        return Workload(questions, rng.random() < 0.3)
    return Model(dataset, rng.choice(_STRUCTURES), round(0.0005 + 0.01 * rng.random(), 6))


class Asker:
    """One client. It repeats what got no reply, under the same idempotency key."""

    def __init__(self, port: int, memory: Memory, *, key: str) -> None:
        self._port = port
        self._memory = memory
        self._key = key
        self._n_asked = 0

    def ask(self, asked: Asked, *, waits: bool) -> Shown:
        """How what was asked ended.

        Args:
            waits: let HTTP wait for the answer, rather than ask for a job.
        """
        begun = time.monotonic()
        self._n_asked += 1
        headers = {"Idempotency-Key": f"{self._key}-{self._n_asked}"}
        if not waits:
            headers["Prefer"] = "respond-async"
        path = f"/v1/datasets/{asked.dataset}/{asked.kind}"
        reply = self._until(
            lambda: call(self._port, "POST", path, asked.body, headers), begun=begun
        )
        job = None
        if reply is not None and reply.status == 202:
            job = str(reply.document["id"])
            reply = self._until(lambda: self._ended(str(job)), begun=begun)
        shown = _shown(asked, job, reply, took_s=time.monotonic() - begun)
        self._memory.shown.append(shown)
        return shown

    def _ended(self, job: str) -> Reply | None:
        reply = call(self._port, "GET", f"/v1/jobs/{job}")
        if reply is None or (reply.status == 200 and reply.document["state"] in ("done", "failed")):
            return reply
        if reply.status == 200:
            return Reply(503, {})
        return reply

    def _until(self, attempt: Callable[[], Reply | None], *, begun: float) -> Reply | None:
        """The first reply that is no passing failure."""
        while time.monotonic() < begun + _PATIENCE_S:
            reply = attempt()
            if reply is None:
                self._memory.n_broken += 1
            elif reply.status != 503:
                return reply
            time.sleep(0.02)
        return None


def _shown(asked: Asked, job: str | None, reply: Reply | None, *, took_s: float) -> Shown:
    if reply is None:
        return Shown(asked.dataset, job, "lost", {}, took_s, asked.kind)
    document = reply.document
    if job is not None and reply.status == 200:
        done = document["state"] == "done"
        part = document["result"] if done else document["problem"]
        return Shown(asked.dataset, job, document["state"], part, took_s, asked.kind)
    state = "done" if reply.status == 200 else "failed"
    return Shown(asked.dataset, job, state, document, took_s, asked.kind)


class Crowd:
    """Clients in threads of their own, from entering the context until leaving it."""

    def __init__(
        self, port: int, *, datasets: Sequence[str], n_clients: int, seed: int, pause_s: float = 0.0
    ) -> None:
        self.memory = Memory()
        self._stop = threading.Event()
        self._pause_s = pause_s
        self._threads = [
            threading.Thread(target=self._run, args=(port, list(datasets), f"{seed}-{i}"))
            for i in range(n_clients)
        ]

    def __enter__(self) -> Crowd:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop_asking()
        with contextlib.suppress(RuntimeError):
            for thread in self._threads:
                thread.join(timeout=2 * _PATIENCE_S)

    def stop_asking(self) -> None:
        """Ask nothing new; what was asked is still waited for."""
        self._stop.set()

    @property
    def n_waiting(self) -> int:
        """Clients that still wait for an answer."""
        return sum(thread.is_alive() for thread in self._threads)

    def _run(self, port: int, datasets: list[str], key: str) -> None:
        rng = random.Random(key)
        asker, finer = Asker(port, self.memory, key=key), 1.0
        while not self._stop.is_set():
            # Ever finer, so that history does not answer nearly everything in the end.
            asker.ask(random_asked(rng, datasets, finer=finer), waits=rng.random() < 0.5)
            finer *= _FINER
            self._stop.wait(self._pause_s)
