"""A whole site of real processes: store, workers, HTTP; what is killed is started again."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Self

from qserver.cli.processes import Child, ChildSpec, child_environment, http_spec, listen
from qserver.client.http import HttpClient
from qserver.config import LOOPBACK, Settings
from qserver.errors import StoreError
from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient, connect
from qserver.storage.server.embedded_store import EmbeddedServer
from tests.deployment import PEOPLE, write_people
from tests.faults.steps import WITNESSES, Traps
from worker.journal.witness import WitnessSettings
from worker.owner.attach import MAX_PHI, AttachRequest, attach
from worker.private.registry import Registry

ROOT = Path(__file__).parents[2]
_POLL_S = 0.02


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A dataset of the site and its population; `phi` as for `qserver-worker attach`."""

    name: str
    population: str
    limit: str = "100000"
    phi: float = MAX_PHI
    n_records: int = 500


PEOPLE_ONLY = (Dataset(name="people", population="town"),)


class Site:
    """A running site; a context manager that ends every process of it.

    Attributes:
        deaths: how often each kind of process was found dead and started again.
        odd_ends: exit statuses of workers other than 0 and SIGKILL.
    """

    def __init__(
        self,
        folder: Path,
        *,
        datasets: Sequence[Dataset] = PEOPLE_ONLY,
        n_workers: int = 2,
        store_url: str | None = None,
        **settings: object,
    ) -> None:
        self.folder = folder
        self.datasets = datasets
        self._n_workers = n_workers
        self._url = store_url
        self._given = settings
        self._store: EmbeddedServer | None = None
        self._socket = folder / "store.sock"
        self.traps = Traps(folder)
        self.workers: list[Child] = []
        self.deaths = {"store": 0, "worker": 0, "http": 0}
        self.odd_ends: list[int] = []

    def __enter__(self) -> Self:
        # Short times, so that what a dead process held is soon taken over.
        quick = Settings(
            slot_ms=5, lease_ms=1000, wait_s=3.0, http_workers=2, max_queue=5000, open_access=True
        )
        self._listener = listen(LOOPBACK, 0)
        url = self._url or f"unix://{self._socket}"
        port = self._listener.getsockname()[1]
        self.settings = replace(
            quick,
            redis_url=url,
            state_dir=self.folder,
            port=port,
            witness=str(self.folder / WITNESSES),
            **self._given,  # type: ignore[arg-type]
        )
        try:
            self.start_store()
            witnesses = self.folder / WITNESSES
            witnesses.mkdir(exist_ok=True)
            self.registry = Registry(self.folder, witness=WitnessSettings(witnesses, required=True))
            for dataset in self.datasets:
                self._attach(dataset)
            self.workers = [self._start_worker() for _ in range(self._n_workers)]
            self.http = Child(self._http_spec())
            self.wait_until(self._is_ready, what="be ready")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self._end()

    @property
    def client(self) -> HttpClient:
        """A client of its HTTP side."""
        return HttpClient(f"http://{LOOPBACK}:{self.settings.port}", timeout_s=20)

    @property
    def store_pid(self) -> int:
        """The store's process."""
        assert self._store is not None
        return self._store.pid

    def http_pids(self) -> list[int]:
        """gunicorn's processes that answer, without the one that oversees them."""
        tasks = Path(f"/proc/{self.http.pid}/task")
        with contextlib.suppress(OSError):
            return [int(p) for t in tasks.iterdir() for p in (t / "children").read_text().split()]
        return []

    def connect(self) -> StoreClient:
        """A client of its store."""
        return connect(self.settings.redis_url, role="test")

    def start_store(self) -> None:
        """Start the store, at the address that it had before."""
        if self._url is not None:
            return
        self._store = EmbeddedServer.start(self.folder / "store")
        new = self.folder / "store.new"
        new.symlink_to(self._store.url.removeprefix("unix://"))
        new.replace(self._socket)

    def tend(self) -> None:
        """Start again what has ended."""
        if self._store is not None and not self._store.alive:
            self.deaths["store"] += 1
            self._store.stop()
            self.start_store()
        for i, child in enumerate(self.workers):
            if child.status is not None:
                self.deaths["worker"] += 1
                if child.status not in (0, -signal.SIGKILL):
                    self.odd_ends.append(child.status)
                self.workers[i] = self._start_worker()
        if self.http.status is not None:
            self.deaths["http"] += 1
            self.http = Child(self._http_spec())

    def wait_until(
        self, met: Callable[[], bool], *, what: str, timeout_s: float = 60, tend: bool = True
    ) -> None:
        """Return once `met()`; tends the site meanwhile.

        Raises:
            TimeoutError: it is not, in time.
        """
        deadline = time.monotonic() + timeout_s
        while not met():
            if time.monotonic() > deadline:
                raise TimeoutError(f"The site must {what} within {timeout_s} s.")
            if tend:
                self.tend()
            time.sleep(_POLL_S)

    def n_unfinished(self) -> int:
        """Jobs of every population that are in a queue."""
        with contextlib.closing(self.connect()) as client, contextlib.suppress(StoreError):
            streams = [Keys(d.population).jobs(d.name) for d in self.datasets]
            return sum(int(client.xlen(stream)) for stream in streams)
        return 1

    def stop_workers(self) -> None:
        """Let every worker finish its job and end."""
        for child in self.workers:
            child.stop()
        self.workers = []

    def last_words(self) -> dict[str, int]:
        """What workers' command lines said other than that they began or stopped: how often."""
        path = self.folder / "worker.err"
        lines = path.read_text().splitlines() if path.exists() else []
        return dict(Counter(line for line in lines if not line.startswith("worker ")))

    def _is_ready(self) -> bool:
        with contextlib.suppress(Exception):
            alive = self.client.get("readyz").document["worker_alive"]
            return len(alive) == len(self.datasets) and all(alive.values())
        return False

    def _attach(self, dataset: Dataset) -> None:
        rows = [(20 + i % 10, ("Female", "Male")[i % 3 == 0]) for i in range(dataset.n_records)]
        request = AttachRequest(
            name=dataset.name,
            data=write_people(self.folder / f"{dataset.name}.csv", rows),
            domain=PEOPLE,
            limit=Fraction(dataset.limit),
            relation="add-remove",
            population=dataset.population,
            records_per_person=1,
            phi=dataset.phi,
            same_data_other_people=True,
        )
        attach(request, settings=self.settings, registry=self.registry, progress=lambda _t: None)

    def _start_worker(self) -> Child:
        command = (sys.executable, "-m", "tests.faults.worker_main", str(self.folder), "run")
        environment = child_environment(self.settings, os.environ)
        paths = (str(ROOT), environment.get("PYTHONPATH", ""))
        spec = ChildSpec(
            name="worker",
            command=command,
            environment={**environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            log=self.folder / "worker.err",
        )
        return Child(spec)

    def _http_spec(self) -> ChildSpec:
        spec = http_spec(
            self.settings, listener=self._listener, log=self.folder / "http.err", environ=os.environ
        )
        paths = (str(ROOT), spec.environment.get("PYTHONPATH", ""))
        path = os.pathsep.join(filter(None, paths))
        return replace(spec, environment={**spec.environment, "PYTHONPATH": path})

    def _end(self) -> None:
        children = [*self.workers, *([self.http] if hasattr(self, "http") else [])]
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGCONT)
            child.stop()
        if self._store is not None:
            self._store.stop()
        self._listener.close()


@contextlib.contextmanager
def paused(pid: int) -> Iterator[None]:
    """Hold a process still."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
