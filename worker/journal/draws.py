"""What was drawn for a job: released answers, and what they are answers of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from qserver.errors import JournalError
from qserver.storage.encoding.requests import Reservation
from worker.journal.records import Released, ReleasedRow


@dataclass(frozen=True, repr=False)
class Drawn:
    """Released answers.

    Args:
        reservation: with the alphas that the answers were drawn at, where a sample decided them.
        indices: lattice indices per planned row and table.
    """

    reservation: Reservation
    indices: Sequence[Sequence[int]]

    @classmethod
    def of_journal(cls, reservation: Reservation, released: Released) -> Drawn:
        """What the journal has of a job.

        Raises:
            JournalError: it lacks an alpha that a sample decided.
        """
        indices = [row.indices for row in released.rows]
        if reservation.sampled is None:
            return cls(reservation, indices)
        if any(row.alpha_nano == 0 for row in released.rows):
            raise JournalError("The journal lacks the alphas of tables that it has answers of.")
        tables = tuple(
            replace(table, alpha_nano=row.alpha_nano)
            for table, row in zip(reservation.tables, released.rows, strict=True)
        )
        return cls(replace(reservation, tables=tables), indices)

    def to_journal(self) -> Released:
        """The same as a line of the journal; alphas only where a sample decided them."""
        decided = self.reservation.sampled is not None
        rows = tuple(
            ReleasedRow(planned.key, tuple(found), planned.alpha_nano if decided else 0)
            for planned, found in zip(self.reservation.planned, self.indices, strict=True)
        )
        return Released(self.reservation.job, rows)
