"""The codes of data that a worker read."""

from __future__ import annotations

from worker.private.record_tables import Codes, RecordTable
from worker.private.snapshot import Snapshot


def codes_of(found: Snapshot) -> tuple[Codes, ...]:
    """Per attribute, the code of each record that is kept."""
    assert isinstance(found.table, RecordTable)
    return found.table.codes
