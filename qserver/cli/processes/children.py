"""The child processes of a server: how each is run, and the socket that they share.

Each child has its own session. An interrupt at the terminal therefore reaches only the parent,
which stops the children one after another. If the parent ends in any other way, the kernel ends
them.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from qserver.config import Settings
from qserver.errors import ConfigError, PortInUseError
from qserver.storage.server.embedded_store import end_with_parent

_BACKLOG = 512
_GRACE_S = 20.0


@dataclass(frozen=True, kw_only=True)
class ChildSpec:
    """How to run one child.

    Args:
        name: for messages.
        command: the program and its arguments.
        environment: all its environment variables.
        log: file for its output, or None for our standard error.
        pass_fds: descriptors that it inherits.
        stop_timeout_s: seconds from SIGTERM to SIGKILL.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    log: Path | None
    pass_fds: tuple[int, ...] = ()
    stop_timeout_s: float = 20.0

    @property
    def advice(self) -> str:
        """Where to read why it failed. Its output may be private, so it is never shown."""
        return f"{self.log} says why." if self.log else "Its output above says why."


class Child:
    """A running child. Start it from the main thread: it ends when that thread ends."""

    def __init__(self, spec: ChildSpec) -> None:
        self.spec = spec
        with _log_file(spec.log) as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own programs, no shell
                spec.command,
                cwd="/",  # so that no package of the current folder replaces ours
                env=dict(spec.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=spec.pass_fds,
                preexec_fn=functools.partial(end_with_parent, os.getpid()),
            )
        self.pid = self._process.pid

    @property
    def status(self) -> int | None:
        """Exit status once it ended, negative for a signal; None while it runs."""
        if self._process.returncode is None and self._has_ended():
            self._end_session()
        return self._process.returncode

    def stop(self) -> None:
        """Send SIGTERM, wait, then send SIGKILL to its whole session; returns when it is gone."""
        if self.status is None:
            self._process.terminate()
            _wait_for_end(self.pid, self.spec.stop_timeout_s)
            self._end_session()

    def _has_ended(self) -> bool:
        """Whether it ended. It stays unreaped, so that its id is not given to another session."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _end_session(self) -> None:
        """End what it leaves behind: gunicorn may end before the processes that it forked."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, taken before anything else starts; port 0 takes a free port.

    Raises:
        ConfigError: the host or the port is not available to us.
        PortInUseError: another program listens there.
    """
    if not 0 <= port <= 65535:
        raise ConfigError("port", "be from 0 to 65535", port)
    sock = socket.socket(address_family(host), socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # A connection made before HTTP is there keeps what its listener had: without this, its
        # replies, which are written in two parts, wait 40 ms each for as long as it lives.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.bind((host, port))
        sock.listen(_BACKLOG)
    except OSError as exc:
        sock.close()
        if exc.errno == errno.EADDRINUSE:
            raise PortInUseError(
                f"Port {port} of {host} is taken by another program, or by a server that is still "
                "stopping. Choose another with --port, or wait for it."
            ) from exc
        field, value = ("port", port) if exc.errno == errno.EACCES else ("host", host)
        raise ConfigError(field, f"be open to us ({exc.strerror})", value) from exc
    return sock


def address_family(host: str) -> socket.AddressFamily:
    """The address family of a host: only addresses of IPv6 have a colon."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def http_spec(
    settings: Settings, *, listener: socket.socket, log: Path | None, environ: Mapping[str, str]
) -> ChildSpec:
    """The HTTP server: gunicorn on a socket that already listens."""
    fd = listener.fileno()
    command = (
        "-m",
        "gunicorn",
        "--config",
        "python:qserver.api.process.gunicorn",
        "--bind",
        f"fd://{fd}",
    )
    return ChildSpec(
        name="HTTP server",
        command=python_command(*command, "qserver.wsgi:app"),
        environment=child_environment(settings, environ),
        log=log,
        pass_fds=(fd,),
        # gunicorn lets questions in progress finish, and kills the rest.
        stop_timeout_s=settings.wait_s + _GRACE_S,
    )


def postgres_spec(
    settings: Settings, *, listener: socket.socket, log: Path | None, environ: Mapping[str, str]
) -> ChildSpec:
    """The server of PostgreSQL's clients, on a socket that already listens."""
    fd = listener.fileno()
    return ChildSpec(
        name="PostgreSQL port",
        command=python_command("-m", "qserver.postgres", str(fd)),
        environment=child_environment(settings, environ),
        log=log,
        pass_fds=(fd,),
        stop_timeout_s=settings.wait_s + _GRACE_S,
    )


def python_command(*arguments: str) -> tuple[str, ...]:
    """A command for our own interpreter; -P keeps the current folder out of its module path."""
    return (sys.executable, "-P", *arguments)


def child_environment(settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child: ours, the settings, and one BLAS thread per process."""
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return {**environ, **settings.to_environment(), **one_thread}


def _wait_for_end(pid: int, timeout_s: float) -> None:
    """Return when our child ended, or after the timeout; the child stays unreaped."""
    fd = os.pidfd_open(pid)
    try:
        select.select([fd], [], [], timeout_s)
    finally:
        os.close(fd)


@contextlib.contextmanager
def _log_file(path: Path | None) -> Iterator[int]:
    if path is None:
        yield sys.stderr.fileno()
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)
