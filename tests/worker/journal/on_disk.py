"""Journals on disk without fsync, where durability is not what is tested."""

from __future__ import annotations

from pathlib import Path

from worker.journal.journal import Journal
from worker.journal.records import Record


def no_sync(descriptor: int) -> None:
    """Stands in for fsync."""


def opened(path: Path, *, create: bool = False, population: str = "people") -> Journal:
    """The journal of a file."""
    return Journal.open(path, population=population, create=create, fsync=no_sync)


def written(path: Path, *records: Record) -> Journal:
    """A new journal with these records."""
    journal = opened(path, create=True)
    for record in records:
        with journal.exclusive():
            journal.append(record)
    return journal
