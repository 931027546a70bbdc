"""The parts of a running server, as the project itself starts them, for the benchmarks of HTTP."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from qserver.cli.processes import (
    Child,
    ChildSpec,
    child_environment,
    http_spec,
    listen,
    postgres_spec,
    python_command,
)
from qserver.config import LOOPBACK, Settings
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.store import Store

from .load import ROOT

_READY_S = 60.0


@dataclass(frozen=True)
class Site:
    """A server that answers at this port of the loopback address, by these settings."""

    port: int
    settings: Settings


@contextlib.contextmanager
def serving(settings: Settings, *, log: Path) -> Iterator[Site]:
    """qserver's HTTP side on the store that the settings name."""
    with contextlib.closing(listen(LOOPBACK, 0)) as listener:
        spec = http_spec(settings, listener=listener, log=log, environ=os.environ)
        with _running(spec):
            yield _ready(listener, settings)


@contextlib.contextmanager
def deployed(
    name: str,
    *arguments: str,
    before: Callable[[Settings], None] = lambda _: None,
    **chosen: Any,
) -> Iterator[Site]:
    """A dataset attached with these arguments, its worker, and one HTTP process, open to all.

    Args:
        before: called once it is attached, before the worker runs.
        chosen: further settings.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(EmbeddedServer.start(folder / "state"))
        settings = Settings(
            redis_url=server.url,
            state_dir=folder / "state",
            http_workers=1,
            open_access=True,
            **chosen,
        )
        attach(settings, name, *arguments, log=folder / "attach.log")
        before(settings)
        store = Store.open(settings)
        alive = lambda: store.worker_alive(name)  # noqa: E731
        stack.enter_context(working(settings, log=folder / "worker.log", alive=alive))
        yield stack.enter_context(serving(settings, log=folder / "http.log"))


@contextlib.contextmanager
def porting(settings: Settings, *, log: Path) -> Iterator[Site]:
    """The PostgreSQL port on the same store; it listens from the beginning."""
    with contextlib.closing(listen(LOOPBACK, 0)) as listener:
        spec = postgres_spec(settings, listener=listener, log=log, environ=os.environ)
        with _running(spec):
            yield Site(int(listener.getsockname()[1]), settings)


@contextlib.contextmanager
def echoing(settings: Settings, *, log: Path) -> Iterator[Site]:
    """The bare echo, under the very same gunicorn, configuration and environment."""
    with contextlib.closing(listen(LOOPBACK, 0)) as listener:
        spec = http_spec(settings, listener=listener, log=log, environ=os.environ)
        *command, _app = spec.command
        echo = replace(
            spec,
            command=(*command, "tests.benchmarks.echo:app"),
            environment={**spec.environment, "PYTHONPATH": str(ROOT)},
        )
        with _running(echo):
            yield _ready(listener, settings)


@contextlib.contextmanager
def working(settings: Settings, *, log: Path, alive: Callable[[], bool]) -> Iterator[None]:
    """A worker; returns once `alive`."""
    with _running(_worker_spec(settings, log, "run")):
        _wait(alive)
        yield


def attach(settings: Settings, *arguments: str, log: Path) -> None:
    """`python -m worker attach` with these arguments; RuntimeError where it fails."""
    owner(settings, "attach", *arguments, log=log)


def owner(settings: Settings, *arguments: str, log: Path) -> None:
    """A command of `python -m worker`.

    Raises:
        RuntimeError: it failed.
    """
    with _running(_worker_spec(settings, log, *arguments)) as child:
        _wait(lambda: child.status is not None)
        if child.status:
            said = log.read_text(encoding="utf-8")[-2000:]
            raise RuntimeError(f"{arguments[0]} failed: {said}")


def free_port() -> int:
    """A port of the loopback address that nobody listens on now."""
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        return int(free.getsockname()[1])


def _worker_spec(settings: Settings, log: Path, *arguments: str) -> ChildSpec:
    return ChildSpec(
        name="worker",
        command=python_command("-m", "worker", *arguments),
        environment=child_environment(settings, os.environ),
        log=log,
    )


@contextlib.contextmanager
def _running(spec: ChildSpec) -> Iterator[Child]:
    child = Child(spec)
    try:
        yield child
    finally:
        child.stop()


def _ready(listener: socket.socket, settings: Settings) -> Site:
    port = int(listener.getsockname()[1])
    _wait(lambda: _answers(port))
    return Site(port, settings)


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=2.0)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    return False


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _READY_S
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"A part of the server was not ready after {_READY_S:g} s.")
        time.sleep(0.05)
