"""A correction: all sealed periods of a dataset anew, for the snapshot that takes its place.

A sealed period never changes, so a rotation is the only way to correct one. Periods whose records
are erased stay so: the new snapshot begins with the first one that is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from qserver.errors import ConfigError
from qserver.records.charge import epsilon_text
from qserver.records.dataset import DatasetMeta
from qserver.storage.standings import Stamp
from worker.journal.records import Retired, Sealed
from worker.owner.arrivals.append import JournalledParts
from worker.owner.arrivals.part import Arrived, Arriving, read_part
from worker.private.registry import RegistryEntry
from worker.sources.address import Address


def cost_of(meta: DatasetMeta, stamp: Stamp) -> str:
    """What a correction costs, in words: public facts alone. Retired periods are not taken."""
    share, limit = epsilon_text(stamp.spent_snapshot_nano), epsilon_text(stamp.budget.limit_nano)
    n_kept = (stamp.n_sealed or 0) - stamp.n_retired
    return (
        f"This takes all {n_kept} sealed periods of {meta.name} anew. What is known "
        f"freezes, and asking it again costs again: {share} epsilon was spent on it so far. That "
        "stays spent for its people, and what is asked of the new data adds to it; "
        f"{epsilon_text(stamp.remaining_nano)} of {limit} are left."
    )


@dataclass(frozen=True, repr=False)
class Correction:
    """The records of all periods that are kept, as one part."""

    now: JournalledParts
    arrived: Arrived

    @classmethod
    def read(
        cls,
        data: Path | Address,
        now: JournalledParts,
        entry: RegistryEntry,
        *,
        key: bytes,
        folder: Path,
        empty: bool,
        as_it_is: bool,
        say: Callable[[str], None],
    ) -> Correction:
        """Read the new data; raises as `read_part`.

        Raises:
            ConfigError: no sealed period has records that could be corrected.
        """
        if now.n_sealed == now.n_retired or now.meta.growth is None:
            raise ConfigError("name", "be a dataset with a sealed period that is kept")
        arriving = Arriving(
            now.meta.domain,
            now.meta.growth,
            entry.person_rule,
            key,
            (),
            now.n_retired,
            now.n_sealed,
            empty,
            person_type=entry.person_type,
            as_it_is=as_it_is,
        )
        return cls(now, read_part(data, arriving, folder=folder, say=say))

    def lines(self, meta: DatasetMeta, *, key: bytes) -> list[Sealed | Retired]:
        """The journal's lines of the new snapshot's periods; their one file is the part's."""
        part = self.arrived.part
        whole = replace(part, start=0)
        fingerprint = whole.fingerprint(meta.domain, key=key, previous="")
        sealed = Sealed(meta.snapshot, 0, part.stop, whole.file, fingerprint)
        if not part.start:
            return [sealed]
        kept = part.fingerprint(meta.domain, key=key, previous=fingerprint)
        return [sealed, Retired(meta.snapshot, part.start, part.stop, part.file, kept)]
