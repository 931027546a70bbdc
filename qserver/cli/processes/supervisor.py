"""The supervisor keeps child processes running, and stops them in order on request."""

from __future__ import annotations

import select
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Protocol, Self

from qserver.cli.processes.children import Child, ChildSpec
from qserver.errors import (
    ChildFailedError,
    StateInUseError,
    StoreKilledError,
    StoreUnavailableError,
)

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LONGEST_WAIT_S = 1.0


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
    """The embedded store, which the supervisor starts again as it does its children."""

    @property
    def status(self) -> int | None:
        """Exit status once it ended; None while it runs."""

    @property
    def advice(self) -> str:
        """Where to read why it failed."""

    def restart(self) -> None:
        """Start it again at the same address.

        Raises:
            StoreUnavailableError, StateInUseError: not now; another try may succeed. A process that
                the dead server had forked may hold its folder for a while.
            OSError: likewise, such as on a full disk.
            StoreCorruptError: it must not run on these data.
        """

    def tend(self) -> str:
        """Do what is due while it runs; returns a line for people, '' for none."""


@dataclass
class _Post:
    """A position in the server: what runs there, or the time when it is started again."""

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
        # The store comes first: what starts after it finds it there.
        self._posts: list[_Post] = []
        if store is not None:
            self._add("store", lambda: store.status, store.restart, store.advice)

    def start(self, spec: ChildSpec) -> None:
        """Start one more child; it is stopped before those started earlier."""
        held = _ChildPost(spec, self._start_child)
        self._children.append(held)
        self._add(spec.name, held.status, held.start, spec.advice)

    def check_start(self) -> None:
        """Start again what was killed; for the time before the server is announced.

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
        """Start again what is due; returns the seconds until the next check.

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
