"""The present content of what is attached."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from secrets import compare_digest
from typing import TYPE_CHECKING

from qserver.errors import BusyError, PrivateDataError
from qserver.query.domain_file import domain_from_document
from qserver.records.dataset import DatasetMeta
from worker.journal.journal import Journal
from worker.journal.records import Retired, Sealed
from worker.private.content import Content
from worker.private.growing import GrowingTable
from worker.private.registry import Registry, RegistryEntry
from worker.private.seal import fingerprint_of, fingerprint_of_table, open_seal
from worker.private.spark.place import SparkCodes
from worker.private.tables import RecordTable
from worker.sources.address import Address

if TYPE_CHECKING:
    from worker.private.snapshot import Snapshot
    from worker.private.spark.tables import SparkTable


def sealed_table(registry: Registry, entry: RegistryEntry) -> RecordTable:
    """The records of an attached snapshot, from its seal. Its source may be gone.

    Raises:
        PrivateDataError: the seal is missing, or is not what was attached.
    """
    if entry.grows:
        raise PrivateDataError(f"The data of {entry.name} arrive in parts: there is no one seal.")
    domain = domain_from_document(entry.domain)
    if entry.spark is not None:
        raise PrivateDataError(f"The codes of {entry.name} are on Spark, and are only counted.")
    if not entry.sealed:
        found_now = _still_as_attached(registry, entry).seal
        if found_now is None:
            raise PrivateDataError(f"The file of {entry.name} gave no codes.")
        return found_now.table()
    table = open_seal(registry.seal_path(entry), domain)
    found = fingerprint_of_table(table, domain, registry.key())
    if not compare_digest(found, entry.fingerprint):
        raise PrivateDataError(f"The seal of {entry.name} is not what was attached.")
    return table


def table_on_spark(entry: RegistryEntry) -> SparkTable | None:
    """The codes of an attached snapshot on Spark, which is not opened yet; None for others."""
    if entry.spark is None:
        return None
    from worker.private.spark.tables import SparkTable

    sizes = domain_from_document(entry.domain).sizes
    return SparkTable(SparkCodes.of_plain(entry.spark), sizes)


def check_spark(registry: Registry, entry: RegistryEntry) -> None:
    """Return if the codes of a snapshot on Spark have the fingerprint that was attached.

    Raises:
        PrivateDataError: they have not, or Spark cannot be reached.
    """
    table, domain = table_on_spark(entry), domain_from_document(entry.domain)
    if table is None:
        return
    try:
        codes = table.open()
        n = int(codes.check("").split()[0])
        columns = (codes.pieces(axis) for axis in range(len(domain.sizes)))
        found = fingerprint_of(columns, n, domain, registry.key())
    finally:
        table.close()
    if not compare_digest(found, entry.fingerprint):
        raise PrivateDataError(f"The codes of {entry.name} on Spark are not what was attached.")


def seal_entry(registry: Registry, entry: RegistryEntry) -> None:
    """Seal what an earlier version attached, which read its file at each start.

    Raises:
        PrivateDataError: the file cannot be read, or is not what was attached.
    """
    found = _still_as_attached(registry, entry)
    if found.seal is not None:
        content = {name: str(text) for name, text in found.content.details().items()}
        sealed = replace(entry, sealed=True, fingerprint=found.fingerprint, content=content)
        registry.put_seal(sealed, found.seal)


def content_now(registry: Registry, entry: RegistryEntry) -> Content | None:
    """What an earlier version's file holds; None if it cannot be known any more."""
    if entry.content is not None:
        return Content.of_details(entry.content)
    if entry.sealed or entry.grows:
        return None
    try:
        return _still_as_attached(registry, entry).content
    except PrivateDataError:
        return None


def _still_as_attached(registry: Registry, entry: RegistryEntry) -> Snapshot:
    """The content of the file of a snapshot that has no seal yet."""
    # What reads files loads long, and a worker reads seals.
    from worker.private.snapshot import read_snapshot

    found = read_snapshot(
        Address(entry.data),
        domain_from_document(entry.domain),
        key=registry.key(),
        folder=registry.seals,
        person=entry.person_rule,
    )
    if not compare_digest(found.in_order, entry.fingerprint):
        raise PrivateDataError(f"The file of {entry.name} was changed since it was attached.")
    return found


def sweep_parts(registry: Registry, entry: RegistryEntry, journal: Journal) -> None:
    """Delete the part files that no line of the journal names.

    Their append died before it was decided. Nothing is done while an append is under way.
    """
    folder = registry.parts(entry)
    with suppress(BusyError), folder.appending(), journal.exclusive():
        state = journal.state
        folder.sweep(state.parts.get(entry.snapshot, ()), state.retired.get(entry.snapshot))


def read_parts(registry: Registry, entry: RegistryEntry, journal: Journal) -> GrowingTable:
    """The sealed parts of a snapshot whose data arrive over time.

    Raises:
        PrivateDataError: a part is missing, or is not what was sealed.
    """
    with journal.exclusive():
        record = journal.state.by_snapshot.get(entry.snapshot)
    if record is None:
        raise PrivateDataError(f"The journal does not know dataset {entry.name}.")
    meta = DatasetMeta.from_json(str(record.details["meta"]))
    table = GrowingTable(meta, registry.parts(entry))
    follow_parts(table, entry.snapshot, journal)
    return table


def follow_parts(table: GrowingTable, snapshot: str, journal: Journal) -> None:
    """Bring a table up to the journal; PrivateDataError as `read_parts`."""
    sealed, retired = _parts_now(snapshot, journal)
    try:
        table.follow(sealed, retired)
    except PrivateDataError:
        # Nothing is held here, so files may have been retired while they were read.
        if (now := _parts_now(snapshot, journal)) == (sealed, retired):
            raise
        table.follow(*now)


def _parts_now(snapshot: str, journal: Journal) -> tuple[tuple[Sealed, ...], Retired | None]:
    with journal.exclusive():
        state = journal.state
        return tuple(state.parts.get(snapshot, ())), state.retired.get(snapshot)
