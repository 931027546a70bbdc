"""The present content of what is attached."""

from __future__ import annotations

from pathlib import Path

from qserver.query.domain_file import domain_from_document
from worker.private.read import Snapshot, read_snapshot
from worker.private.registry import Registry, RegistryEntry


def read_entry(registry: Registry, entry: RegistryEntry) -> Snapshot:
    """The present content of an attached snapshot's private file; PrivateDataError."""
    return read_snapshot(
        Path(entry.data),
        domain_from_document(entry.domain),
        key=registry.key(),
        person=entry.person_rule,
    )
