"""The state folder of the embedded server: its layout, its lock, and the folder of its socket.

    STATE/redis/appendonlydir/   the data
    STATE/redis/damaged/         copies of files made before a repair
    STATE/redis/server.log       what the server says
    STATE/redis/lock             locked while a server lives
    STATE/redis/socket           where the socket is

The socket cannot live there: its path must be shorter than 108 bytes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from qserver.errors import StateInUseError, StoreUnavailableError

_MAX_SOCKET_PATH_BYTES = 107
_SOCKET_FOLDER_PREFIX = "qserver-"
_SOCKET_NAME = "redis.sock"
_POLL_S = 0.01


@dataclass(frozen=True)
class StateFolder:
    """Paths of one state folder; `prepare` makes them exist.

    Args:
        root: the folder, absolute.
    """

    root: Path

    @classmethod
    def prepare(cls, state_dir: Path) -> StateFolder:
        """The folder at `state_dir`, made when absent, readable by its owner only.

        Raises:
            StoreUnavailableError: it cannot be made or entered.
        """
        folder = cls(Path(state_dir).absolute())
        try:
            folder.data.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.data.chmod(0o700)
        except OSError as exc:
            raise StoreUnavailableError(
                f"`state_dir` must be a folder that can be written, got {state_dir}: "
                f"{exc.strerror}."
            ) from exc
        return folder

    @property
    def data(self) -> Path:
        """Working folder of the server."""
        return self.root / "redis"

    @property
    def log(self) -> Path:
        """Output of the server, appended to at each start."""
        return self.data / "server.log"

    @property
    def damaged(self) -> Path:
        """Copies of append-only files made before a repair."""
        return self.data / "damaged"

    @property
    def _lock(self) -> Path:
        return self.data / "lock"

    @property
    def _socket_note(self) -> Path:
        return self.data / "socket"

    def lock(self, *, timeout_s: float) -> int:
        """Descriptor of the exclusive lock. The lock lasts while any copy of it is open.

        The wait is for a server that is still on its way out.

        Raises:
            StateInUseError: another server held it all through `timeout_s` seconds.
        """
        fd = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + timeout_s
        while not _try_lock(fd, fcntl.LOCK_EX):
            if time.monotonic() >= deadline:
                os.close(fd)
                raise StateInUseError(
                    f"Another server uses the state folder {self.root}. Stop it, connect to it, "
                    "or choose another state folder."
                )
            time.sleep(_POLL_S)
        return fd

    def make_socket_folder(self) -> SocketFolder:
        """A new private folder for the socket; what a crashed server left behind is removed.

        Call with the lock held.

        Raises:
            StoreUnavailableError: no temporary folder has a short enough path.
        """
        stale = self._noted_socket()
        if stale is not None:
            stale.remove()
        folder = SocketFolder(_make_short_folder())
        self._socket_note.write_text(str(folder.path), encoding="utf-8")
        return folder

    def running_url(self) -> str | None:
        """URL of the server that holds the folder now, or None."""
        try:
            fd = os.open(self._lock, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            running = not _try_lock(fd, fcntl.LOCK_SH)
        finally:
            os.close(fd)
        noted = self._noted_socket()
        return noted.url if running and noted is not None else None

    def _noted_socket(self) -> SocketFolder | None:
        try:
            path = Path(self._socket_note.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return SocketFolder(path) if path.name.startswith(_SOCKET_FOLDER_PREFIX) else None


@dataclass(frozen=True)
class SocketFolder:
    """A private temporary folder that holds one unix socket."""

    path: Path

    @property
    def socket(self) -> Path:
        """Path of the socket, at most 107 bytes."""
        return self.path / _SOCKET_NAME

    @property
    def url(self) -> str:
        """The socket as a `unix://` URL."""
        return "unix://" + quote(str(self.socket))

    def remove(self) -> None:
        """Remove the socket and the folder; anything else in it stays, and so does the folder."""
        with contextlib.suppress(OSError):
            self.socket.unlink(missing_ok=True)
            self.path.rmdir()


def _try_lock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _make_short_folder() -> Path:
    for parent in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"):  # noqa: S108
        with contextlib.suppress(OSError):
            path = Path(tempfile.mkdtemp(prefix=_SOCKET_FOLDER_PREFIX, dir=parent))
            if len(os.fsencode(path / _SOCKET_NAME)) <= _MAX_SOCKET_PATH_BYTES:
                return path
            path.rmdir()
    raise StoreUnavailableError(
        "The server's socket needs a temporary folder with a short path. Set TMPDIR to one."
    )
