"""The present content of what is attached."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from qserver.errors import BusyError, PrivateDataError
from qserver.query.domain_file import domain_from_document
from qserver.records.dataset import DatasetMeta
from worker.journal.journal import Journal
from worker.private.growing import GrowingTable
from worker.private.read import Snapshot, read_snapshot
from worker.private.registry import Registry, RegistryEntry


def read_entry(registry: Registry, entry: RegistryEntry) -> Snapshot:
    """The present content of an attached snapshot's private file; PrivateDataError."""
    if entry.grows:
        raise PrivateDataError(f"The data of {entry.name} arrive in parts: there is no one file.")
    return read_snapshot(
        Path(entry.data),
        domain_from_document(entry.domain),
        key=registry.key(),
        person=entry.person_rule,
    )


def sweep_parts(registry: Registry, entry: RegistryEntry, journal: Journal) -> None:
    """Delete the part files that no line of the journal names.

    Their append died before it was decided. Nothing is done while an append is under way.
    """
    folder = registry.parts(entry)
    with suppress(BusyError), folder.appending(), journal.exclusive():
        folder.sweep(journal.state.parts.get(entry.snapshot, ()))


def read_parts(registry: Registry, entry: RegistryEntry, journal: Journal) -> GrowingTable:
    """The sealed parts of a snapshot whose data arrive over time.

    Raises:
        PrivateDataError: a part is missing, or is not what was sealed.
    """
    with journal.exclusive():
        record = journal.state.by_snapshot.get(entry.snapshot)
        sealed = tuple(journal.state.parts.get(entry.snapshot, ()))
    if record is None:
        raise PrivateDataError(f"The journal does not know dataset {entry.name}.")
    meta = DatasetMeta.from_json(str(record.details["meta"]))
    table = GrowingTable(meta, registry.parts(entry))
    table.follow(sealed)
    return table
