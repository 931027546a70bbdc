"""Read a file as attach does, for tests that look at its codes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from qserver.query.domain import Domain
from worker.private.snapshot import Snapshot, read_records, read_snapshot
from worker.private.truncation import PersonRule
from worker.sources.address import Address

KEY = b"k" * 32


def snapshot_of(
    data: Path | Address,
    domain: Domain,
    *,
    folder: Path,
    key: bytes = KEY,
    person: PersonRule | None = None,
    say: Callable[[str], None] = print,
) -> Snapshot:
    """What attach would register."""
    return read_snapshot(data, domain, key=key, folder=folder, person=person, say=say)


def codes_in_order(data: Path | Address, domain: Domain, *, folder: Path) -> list[list[int]]:
    """Per attribute, the code of each record, in the order of the source."""
    found = read_records(data, domain, key=KEY, folder=folder)
    return [codes.tolist() for codes in found.codes]
