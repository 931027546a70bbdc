"""The state folder of the embedded server: its layout, its lock, and the folder of its socket.

    STATE/redis/appendonlydir/   the data
    STATE/redis/damaged/         copies of files made before a repair
    STATE/redis/server.log       output of the server
    STATE/redis/lock             locked while a server lives
    STATE/redis/socket           a note with the folder of the socket
    STATE/redis/stopping         exists from the request to stop until the next start

The socket cannot be there: its path must be shorter than 108 bytes, and not every disk takes
sockets. Its folder is new at each start, and the note tells clients where it is.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shlex import quote as shell_quoted
from urllib.parse import quote

from qserver.errors import StateInUseError, StoreUnavailableError

_MAX_SOCKET_PATH_BYTES = 107
_PREFIX = "qserver-"
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
        """The folder at `state_dir`, made if absent, readable by its owner only.

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

    @property
    def _stop_note(self) -> Path:
        return self.data / "stopping"

    @property
    def is_stopping(self) -> bool:
        """Whether the folder's present server was asked to stop."""
        return self._is_held() and self._stop_note.exists()

    def mark_stopping(self) -> None:
        """Tell others that the folder's server was asked to stop."""
        with contextlib.suppress(OSError):  # on a full disk it stops without telling
            self._stop_note.touch(mode=0o600)

    def lock(self, *, timeout_s: float) -> int:
        """Descriptor of the exclusive lock. The lock lasts while any copy of it is open.

        It waits for a server that is still stopping.

        Raises:
            StateInUseError: another server held it for `timeout_s` seconds.
        """
        fd = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + timeout_s
        while not _try_lock(fd, fcntl.LOCK_EX):
            if time.monotonic() >= deadline:
                os.close(fd)
                raise StateInUseError(self._in_use_text())
            time.sleep(_POLL_S)
        return fd

    @contextlib.contextmanager
    def locked(self, *, timeout_s: float) -> Iterator[int]:
        """The descriptor of `lock`; a server that inherited it keeps the lock."""
        fd = self.lock(timeout_s=timeout_s)
        try:
            yield fd
        finally:
            os.close(fd)

    def make_socket_folder(self) -> SocketFolder:
        """A new private folder for the socket; removes one that a crashed server left.

        Call it with the lock held.

        Raises:
            StoreUnavailableError: no temporary folder has a short enough path.
        """
        stale = self._noted_socket()
        folder = SocketFolder(_make_short_folder())
        # First, and in one step, so that no reader finds half a note or a missing folder.
        try:
            new_note = self._socket_note.with_suffix(".new")
            new_note.write_text(str(folder.path), encoding="utf-8")
            new_note.replace(self._socket_note)
        except OSError as exc:
            folder.remove()
            raise StoreUnavailableError(
                f"{self._socket_note} cannot be written: {exc.strerror}."
            ) from exc
        if stale is not None:
            stale.remove()
        self._stop_note.unlink(missing_ok=True)
        return folder

    def running_url(self) -> str | None:
        """URL of the folder's present server, or None.

        Raises:
            StoreUnavailableError: the folder is closed to us.
        """
        noted = self._noted_socket() if self._is_held() else None
        return noted.url if noted is not None else None

    def require_url(self) -> str:
        """URL of the folder's present server.

        Raises:
            StoreUnavailableError: none does, or the folder is closed to us.
        """
        url = self.running_url()
        if url is None:
            raise StoreUnavailableError(
                f"No store runs on the state folder {self.root}. Start one with "
                f"`qserver serve --state {shell_quoted(str(self.root))}`, or name one with "
                "--redis-url."
            )
        return url

    def _is_held(self) -> bool:
        try:
            fd = os.open(self._lock, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as exc:
            raise StoreUnavailableError(
                f"The store of the state folder {self.root} is closed to us ({exc.strerror})."
            ) from exc
        try:
            return not _try_lock(fd, fcntl.LOCK_SH)
        finally:
            os.close(fd)

    def _noted_socket(self) -> SocketFolder | None:
        """The noted folder, if it exists and belongs to the data's owner alone.

        Others can write next to it, and could replace it once it is gone.
        """
        try:
            path = Path(self._socket_note.read_text(encoding="utf-8"))
            found, ours = path.lstat(), self.data.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        is_private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
        is_ours = is_private and found.st_uid == ours.st_uid
        return SocketFolder(path) if is_ours and path.name.startswith(_PREFIX) else None

    def _in_use_text(self) -> str:
        if self._stop_note.exists():
            return (
                f"The server on the state folder {self.root} is stopping: it finishes the "
                "questions at hand first. Start again when it is gone."
            )
        return (
            f"Another server uses the state folder {self.root}. Stop it, connect to it, or choose "
            "another state folder."
        )


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

    def make_again(self) -> None:
        """Make the folder again if somebody tidied it away.

        Raises:
            StoreUnavailableError: another user has it now, or it cannot be made.
        """
        try:
            self.path.mkdir(mode=0o700, exist_ok=True)
            found = self.path.lstat()
        except OSError as exc:
            raise StoreUnavailableError(f"{self.path} cannot be made: {exc.strerror}.") from exc
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise StoreUnavailableError(f"The folder {self.path} is not ours alone any more.")

    def remove(self) -> None:
        """Remove the socket and the folder, unless the folder has other files."""
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
            path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
            if len(os.fsencode(path / _SOCKET_NAME)) <= _MAX_SOCKET_PATH_BYTES:
                return path
            path.rmdir()
    raise StoreUnavailableError(
        "The server's socket needs a temporary folder with a short path. Set TMPDIR to one."
    )
