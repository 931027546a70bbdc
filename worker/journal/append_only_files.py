"""Append-only files: read their lines, append to them, and make them durable.

An append that a crash cut off is told from a last line that was changed. What was cut off was never
acknowledged, so it may go. A changed line may hold an answer that was released, so it must not.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from qserver.errors import JournalError
from worker.constants import WORKER
from worker.journal.records import read_line

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
    """True if the folder's disk has room for so many bytes; OSError if not."""
    disk = os.statvfs(folder)
    if disk.f_bavail * disk.f_frsize < n_bytes:
        # A trial write would take the last bytes from a store on the same disk.
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


_ALONE = re.compile(rb"(?<!\0)\0(?!\0)")


def is_torn(text: bytes, *, sequence: int, previous: bytes) -> bool:
    """Whether a crash tore the last line of a file.

    That is a line without its newline, or one with blocks that were never written, which are read
    as zeros. A zero alone is no block.

    Args:
        text: the last line.
        sequence: its place among the lines.
        previous: digest of the line before.
    """
    if not text.endswith(b"\n"):
        return not _is_whole(text[:-1] + b"\n", sequence=sequence, previous=previous)
    return has_unwritten_block(text)


def has_unwritten_block(text: bytes) -> bool:
    """Whether a crash left a part of this line unwritten: zeros, and none of them alone."""
    return b"\0" in text and not _ALONE.search(text)


def _is_whole(text: bytes, *, sequence: int, previous: bytes) -> bool:
    """Whether this is the written line, with only its newline changed."""
    try:
        read_line(text, sequence=sequence, previous=previous)
    except JournalError:
        return False
    return True
