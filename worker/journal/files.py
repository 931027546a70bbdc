"""Files that only grow: read their lines, write to their end, and make them durable."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from worker.constants import WORKER

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Faults for want of room: of the disk, of its owner's share, or of a limit on files."""


def read_lines(descriptor: int, *, start: int, end: int) -> Iterator[bytes]:
    """Lines with their newlines from byte `start` to `end`; the last may lack its newline."""
    pending = b""
    while start < end:
        chunk = os.pread(descriptor, min(WORKER.journal_chunk_bytes, end - start), start)
        if not chunk:
            break
        start += len(chunk)
        # Not splitlines: a carriage return, which damage can make, ends no line.
        *whole, pending = (pending + chunk).split(b"\n")
        yield from (text + b"\n" for text in whole)
    if pending:
        yield pending


def write_all(descriptor: int, text: bytes) -> None:
    """Write all of `text`, in as many parts as the system takes it."""
    while text:
        text = text[os.write(descriptor, text) :]


def require_room(folder: Path, *, n_bytes: int) -> bool:
    """True if so many bytes can be written to the folder's disk; OSError if not."""
    disk = os.statvfs(folder)
    if disk.f_bavail * disk.f_frsize < n_bytes:
        # To try would take the last bytes from a store on the same disk.
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
    path = folder / f".room-{os.getpid()}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        write_all(descriptor, bytes(n_bytes))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
        path.unlink()
    return True


def sync_folder(folder: Path, *, fsync: Callable[[int], None]) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fsync(descriptor)
    finally:
        os.close(descriptor)
