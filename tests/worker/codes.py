"""The codes of data that a worker read."""

from __future__ import annotations

from worker.private.snapshot import Snapshot
from worker.private.tables import Codes, RecordTable


def codes_of(found: Snapshot) -> tuple[Codes, ...]:
    """Per attribute, the code of each record that is kept."""
    assert isinstance(found.table, RecordTable)
    return found.table.codes
