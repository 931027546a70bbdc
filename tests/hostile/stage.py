"""A real server for hostile input: embedded store, a worker process, gunicorn, a wide dataset."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from qserver.cli.processes import (
    Child,
    ChildSpec,
    child_environment,
    http_spec,
    listen,
    python_command,
)
from qserver.client.http import HttpClient
from qserver.config import Settings
from qserver.query.domain import Attribute, Domain
from qserver.storage.accounts import AccountBook
from qserver.storage.server.embedded_store import EmbeddedServer
from tests.deployment import Deployment
from worker.owner.attach import AttachRequest, attach
from worker.private.registry import Registry

N_WIDE = 60
N_BINS = 1000
PATIENCE_S = 60.0
_PEAK = re.compile(r"VmHWM:\s+([0-9]+) kB")


@dataclass(frozen=True)
class Stage:
    """A running server with two datasets, `people` and `wide` (1000^60 cells).

    Args:
        port: where HTTP answers, on 127.0.0.1.
        web: the gunicorn master.
        worker: the process that measures.
        token: of an owner.
        model: a network learnt from `people`.
    """

    port: int
    web: Child
    worker: Child
    logs: Path
    token: str
    model: str

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    def pids(self) -> list[int]:
        """The processes that read what clients send: gunicorn's, and the worker."""
        listed = Path(f"/proc/{self.web.pid}/task/{self.web.pid}/children").read_text()
        return [*map(int, listed.split()), self.worker.pid]

    def peak_megabytes(self) -> float:
        """The most resident memory that any of these processes has used so far."""
        texts = [Path(f"/proc/{pid}/status").read_text() for pid in self.pids()]
        peaks = [int(found[1]) for found in map(_PEAK.search, texts) if found]
        return max(peaks) / 1024


@contextmanager
def running_stage(folder: Path, *, wait_s: float = 20) -> Iterator[Stage]:
    """A server on `folder`, stopped at the end.

    Args:
        wait_s: how long a question waits for its answer before it becomes a job, in seconds.
    """
    with ExitStack() as stack:
        store = stack.enter_context(EmbeddedServer.start(folder / "state"))
        town = Deployment.make(folder / "state", store.url, limit="1")
        settings = replace(
            town.settings,
            wait_s=wait_s,
            slot_ms=5,
            http_workers=1,
            http_threads=4,
            open_access=False,
            token_rate=0,
            address_rate=0,
        )
        token = AccountBook.open(settings, role="test").create("owner", "owner")
        _attach_wide(folder, settings)
        logs = folder / "logs"
        logs.mkdir()
        listener = stack.enter_context(listen("127.0.0.1", 0))
        worker = Child(_worker_spec(settings, logs / "worker.log"))
        stack.callback(worker.stop)
        log = logs / "web.log"
        web = Child(http_spec(settings, listener=listener, log=log, environ=os.environ))
        stack.callback(web.stop)
        port = listener.getsockname()[1]
        client = HttpClient(f"http://127.0.0.1:{port}", timeout_s=60, token=token.text)
        yield Stage(port, web, worker, logs, token.text, _learn(client))


def _learn(client: HttpClient) -> str:
    """The id of a small network on `people`, for a tenth of its budget."""
    network = {"kind": "network", "network": {"edges": [["sex", "age"]]}, "epsilon": 0.1}
    reply = client.post("v1/datasets/people/models", document=network)
    deadline = time.monotonic() + PATIENCE_S
    while reply.document.get("state") in ("queued", "running"):
        if time.monotonic() > deadline:
            raise RuntimeError(f"A network must be learnt within {PATIENCE_S:g} s.")
        time.sleep(0.1)
        reply = client.get(f"v1/jobs/{reply.document['id']}")
    found = reply.document.get("result", reply.document)
    return str(found["id"])


def _attach_wide(folder: Path, settings: Settings) -> None:
    """A dataset of 60 attributes with 1,000 bins each, and one record."""
    names = [f"a{i}" for i in range(N_WIDE)]
    data = folder / "wide.csv"
    data.write_text(",".join(names) + "\n" + ",".join("0" for _ in names) + "\n")
    edges = tuple(map(Fraction, range(N_BINS + 1)))
    attributes = (Attribute(n, "integer", edges=edges, outside="clamp") for n in names)
    request = AttachRequest(
        name="wide",
        data=data,
        domain=Domain(tuple(attributes)),
        limit=Fraction(1),
        relation="add-remove",
        population="crowd",
        records_per_person=1,
    )
    registry = Registry(settings.state_dir)
    attach(request, settings=settings, registry=registry, progress=lambda _text: None)


def _worker_spec(settings: Settings, log: Path) -> ChildSpec:
    command = python_command("-m", "worker", "run")
    environment = child_environment(settings, os.environ)
    return ChildSpec(name="worker", command=command, environment=environment, log=log)
