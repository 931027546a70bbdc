"""The processes of a server on one machine: children, and the supervisor that keeps them running.

Each child has its own session. An interrupt at the terminal therefore reaches only the parent,
which stops the children one after another. If the parent ends in any other way, the kernel ends
them.

The supervisor stops the children in order on request.
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
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Protocol, Self

from qserver.config import Settings
from qserver.errors import (
    ChildFailedError,
    ConfigError,
    PortInUseError,
    StateInUseError,
    StoreKilledError,
    StoreUnavailableError,
)
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
        """The log that says why the child failed. Its output may be private, so it is never
        shown."""
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
        """Whether the child ended. It stays unreaped, so that no other session gets its id."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _end_session(self) -> None:
        """End the child's remains: gunicorn may end before the processes that it forked."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, taken before other starts; port 0 takes a free port.

    Raises:
        ConfigError: the host or the port is not available to us.
        PortInUseError: another program listens there.
    """
    if not 0 <= port <= 65535:
        raise ConfigError("port", "be from 0 to 65535", port)
    sock = socket.socket(address_family(host), socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # A connection made before HTTP is there keeps what its listener had. A reply goes out in
        # one write, but a static file sends a head first: without this, its body waits 40 ms.
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
        raise ConfigError(field, f"be accessible ({exc.strerror})", value) from exc
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


_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LONGEST_WAIT_S = 4.0


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """Delays before a child is started again, in seconds.

    Args:
        most_s: after failures of its own, which another start will not mend.
        killed_s: the most after it was killed: it had not failed, and was perhaps of use.
        calm_s: how long it must run for what came before to be forgotten.
    """

    first_s: float = 0.1
    most_s: float = 30.0
    killed_s: float = 1.0
    calm_s: float = 10.0

    def delay_s(self, n_failures: int, *, was_killed: bool = False) -> float:
        """`first_s`, doubled with each further failure in a row, up to a bound."""
        most_s = self.killed_s if was_killed else self.most_s
        return min(most_s, self.first_s * 2.0 ** min(n_failures - 1, 30))


class OwnStore(Protocol):
    """The embedded store, which the supervisor restarts as it does its children."""

    @property
    def status(self) -> int | None:
        """Exit status once it ended; None while it runs."""

    @property
    def advice(self) -> str:
        """The log that says why the store failed."""

    def restart(self) -> None:
        """Start the store again at the same address.

        Raises:
            StoreUnavailableError, StateInUseError: not now; another try may succeed. A process that
                the dead server had forked may hold its folder for a while.
            OSError: likewise, such as on a full disk.
            StoreCorruptError: it must not run on these data.
        """

    def tend(self) -> str:
        """Do what is due for a running process; returns a line for people, '' for none."""


@dataclass
class _Post:
    """A position in the server: its process, or the time of the next start."""

    name: str
    status: Callable[[], int | None]
    start: Callable[[], None]
    advice: str
    started_at: float
    n_failures: int = 0
    due_at: float | None = None


class _ChildPost:
    """The present child of a specification."""

    def __init__(self, spec: ChildSpec, start_child: Callable[[ChildSpec], Child]) -> None:
        self._spec = spec
        self._start_child = start_child
        self.start()

    def start(self) -> None:
        self.child = self._start_child(self._spec)

    def status(self) -> int | None:
        return self.child.status


class Supervisor:
    """Keeps the store and the children running. A context manager that stops the children.

    Args:
        store: our own store; None for another's.
        report: called with one line for people.
        clock: seconds, monotonic.
        start_child: makes a child of a spec.
    """

    def __init__(
        self,
        *,
        store: OwnStore | None,
        report: Callable[[str], None],
        backoff: Backoff | None = None,
        clock: Callable[[], float] = time.monotonic,
        start_child: Callable[[ChildSpec], Child] = Child,
    ) -> None:
        self._store = store
        self._report = report
        self._backoff = backoff or Backoff()
        self._clock = clock
        self._start_child = start_child
        self._children: list[_ChildPost] = []
        # The store comes first, so that later children find it.
        self._posts: list[_Post] = []
        if store is not None:
            self._add("store", lambda: store.status, store.restart, store.advice)

    def start(self, spec: ChildSpec) -> None:
        """Start one more child; it is stopped before those started earlier."""
        held = _ChildPost(spec, self._start_child)
        self._children.append(held)
        self._add(spec.name, held.status, held.start, spec.advice)

    def check_start(self) -> None:
        """Start killed processes again, before the server is announced.

        Raises:
            ChildFailedError: the store or a child ended by itself, as it will the next time.
            StoreCorruptError: the store must not be started again.
        """
        for post in self._posts:
            status = post.status()
            if status is not None and status >= 0:
                raise ChildFailedError(
                    f"The {post.name} ended with status {status} before all was ready. "
                    f"{post.advice}"
                )
        self.check()

    def check(self) -> float:
        """Start due processes again; returns the seconds until the next check.

        Raises:
            StoreCorruptError: the store must not be started again.
        """
        waits = [self._check_post(post) for post in self._posts]
        if self._store is not None and self._store.status is None:
            said = self._store.tend()
            if said:
                self._report(said)
        return min([_LONGEST_WAIT_S, *waits])

    def run(self, signals: StopSignals) -> None:
        """Check until a signal asks to stop. Raises as `check` does."""
        while not signals.stop_requested:
            signals.wait(self.check())

    def stop(self) -> None:
        """Stop the children, the last one first."""
        while self._children:
            self._children.pop().child.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def _add(
        self,
        name: str,
        status: Callable[[], int | None],
        start: Callable[[], None],
        advice: str,
    ) -> None:
        self._posts.append(_Post(name, status, start, advice, started_at=self._clock()))

    def _check_post(self, post: _Post) -> float:
        status, now = post.status(), self._clock()
        if status is None:
            return _LONGEST_WAIT_S
        if post.due_at is None:
            if now - post.started_at >= self._backoff.calm_s:
                post.n_failures = 0
            self._put_off(post, f"ended with status {status}", was_killed=status < 0)
        elif now >= post.due_at:
            self._start_again(post)
        return _LONGEST_WAIT_S if post.due_at is None else max(0.0, post.due_at - now)

    def _start_again(self, post: _Post) -> None:
        try:
            post.start()
        except (StoreUnavailableError, StateInUseError, OSError) as exc:
            was_killed = isinstance(exc, StoreKilledError)
            self._put_off(post, f"did not start ({exc})", was_killed=was_killed)
        else:
            post.started_at, post.due_at = self._clock(), None

    def _put_off(self, post: _Post, why: str, *, was_killed: bool = False) -> None:
        """Wait before the next start, longer after each failure in a row."""
        post.n_failures += 1
        delay_s = self._backoff.delay_s(post.n_failures, was_killed=was_killed)
        post.due_at = self._clock() + delay_s
        self._report(f"The {post.name} {why}; it starts again in {delay_s:g} s. {post.advice}")


class StopSignals:
    """Turns signals into requests to stop, in the main thread, within a `with` block.

    The end of a child also ends a wait. A hangup that was ignored (nohup) stays ignored.
    """

    def __init__(self) -> None:
        self._requested = False

    @property
    def stop_requested(self) -> bool:
        """Whether SIGINT, SIGTERM or SIGHUP arrived."""
        return self._requested

    def wait(self, timeout_s: float) -> None:
        """Return after `timeout_s` seconds, or at once after a signal or the end of a child."""
        if self._requested:
            return
        ready, _, _ = select.select([self._reader], [], [], timeout_s)
        if ready:
            self._reader.recv(4096)

    def __enter__(self) -> Self:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._old_fd = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        handled = [s for s in _STOP_SIGNALS if s != signal.SIGHUP or _is_heeded(s)]
        self._old = {s: signal.signal(s, self._request) for s in handled}
        self._old[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_fd)
        self._reader.close()
        self._writer.close()

    def _request(self, _number: int, _frame: FrameType | None) -> None:
        self._requested = True


def run_to_end(spec: ChildSpec, *, signals: StopSignals) -> None:
    """Run a child until it ends; a request to stop ends it early.

    Raises:
        ChildFailedError: it ended with a status other than 0.
    """
    child = Child(spec)
    try:
        while child.status is None and not signals.stop_requested:
            signals.wait(_LONGEST_WAIT_S)
    finally:
        child.stop()
    if child.status and not signals.stop_requested:
        raise ChildFailedError(f"The {spec.name} failed with status {child.status}. {spec.advice}")


def _is_heeded(number: signal.Signals) -> bool:
    return signal.getsignal(number) is not signal.SIG_IGN
