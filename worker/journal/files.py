"""Files that only grow: read their lines, write to their end, and make them durable."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from worker.constants import WORKER


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


def sync_folder(folder: Path, *, fsync: Callable[[int], None]) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fsync(descriptor)
    finally:
        os.close(descriptor)
