"""Which workers of one folder live: each holds the lock of a file of its name.

The kernel gives a lock back at once when its holder dies, in any way. So the other workers of the
host need not wait until a dead one's lease expires. A worker of another host, and one whose
file cannot be locked, is left to its lease.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

from qserver.errors import FencedError, QServerError
from qserver.storage.charging import Lease
from qserver.storage.spend import SpendingStore


class Presence:
    """One worker among those of a folder.

    Args:
        folder: made if absent.
        host: the name of this machine. A folder may be shared with others.

    Attributes:
        name: what this worker is called in the store; no other worker has the same.
    """

    def __init__(self, folder: Path, *, host: str | None = None) -> None:
        self._folder = folder
        self._host = os.uname().nodename if host is None else host
        self.name = f"{self._host}-{os.getpid()}-{secrets.token_hex(4)}"
        self._path = folder / self.name
        self._descriptor: int | None = None
        with contextlib.suppress(OSError):  # on a full disk the worker works without being seen
            self._descriptor = self._appear()

    def _appear(self) -> int:
        """The descriptor of our locked file, which other workers see only with its lock."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self._path.with_name(f".{self.name}")
        descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            new.rename(self._path)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def leave(self) -> None:
        """Leave in good order, so that nobody has to see this worker off."""
        if self._descriptor is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None

    def fall(self) -> None:
        """Leave as the dead do: the next who looks gives back what this worker held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def see_off(self, end: Callable[[str], None]) -> None:
        """Call `end` with the name of each dead worker of this host, then forget it.

        One worker at a time sees a dead one off. If `end` raises, the next call tries again.
        """
        with contextlib.suppress(FileNotFoundError):
            names = sorted(os.listdir(self._folder))
            for name in (n for n in names if n.rsplit("-", 2)[0] == self._host and n != self.name):
                self._see_off(name, end)

    def _see_off(self, name: str, end: Callable[[str], None]) -> None:
        path = self._folder / name
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return  # another worker has just seen it off, or it left by itself
        try:
            if _is_free(descriptor):
                end(name)
                path.unlink(missing_ok=True)
        finally:
            os.close(descriptor)


def _is_free(descriptor: int) -> bool:
    """Whether nobody held this file's lock; now we do."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def while_held(writer: SpendingStore, lease: Lease, *faults: type[QServerError]) -> Iterator[None]:
    """Raise FencedError instead of these faults if another worker has the lease by now.

    The new holder may have charged and released more than this worker has read.
    """
    try:
        yield
    except faults as exc:
        if not writer.renew(lease):
            raise FencedError("The lease passed to another worker.") from exc
        raise
