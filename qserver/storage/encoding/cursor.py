"""Positions in the lists of a snapshot, and the entries that lead from one to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qserver.records.audit_chain import GENESIS, digest_of, digest_of_all


@dataclass(frozen=True)
class Cursor:
    """A reader's position in the lists of a snapshot.

    Args:
        n_events: events of the history: released rows, tables and refinements.
        n_measurements: the new ones among them, so the next id.
        head: digest of the last event; None if the history had no chain yet.
        charges_head: digest of the last charge.
        paid_head: digest of all paid questions.
    """

    n_events: int = 0
    n_measurements: int = 0
    n_estimators: int = 0
    n_charges: int = 0
    n_paid: int = 0
    head: str | None = GENESIS
    charges_head: str = GENESIS
    paid_head: str = GENESIS

    @property
    def n_entries(self) -> int:
        """Events and paid questions read so far."""
        return self.n_events + self.n_paid


@dataclass(frozen=True)
class Entries:
    """The texts after a cursor."""

    rows: Sequence[str]
    estimators: Sequence[str]
    charges: Sequence[str]
    paid: Sequence[str]

    def begin_with(self, known: Cursor) -> bool:
        """Whether all entries, read from the start, are at first those up to this position."""
        return (
            known.head == _head(self.rows, known.n_events)
            and known.charges_head == _head(self.charges, known.n_charges)
            and len(self.paid) >= known.n_paid
            and known.paid_head == digest_of_all(self.paid[: known.n_paid])
        )

    def after(self, cursor: Cursor, *, ids: Sequence[int], is_chained: bool) -> Cursor:
        """The position after these entries.

        Args:
            ids: of their measurements.
            is_chained: whether the history has a chain.
        """
        head = digest_of(self.rows[-1]) if self.rows else cursor.head
        return Cursor(
            cursor.n_events + len(self.rows),
            max([cursor.n_measurements, *(i + 1 for i in ids)]),
            cursor.n_estimators + len(self.estimators),
            cursor.n_charges + len(self.charges),
            cursor.n_paid + len(self.paid),
            head if is_chained else None,
            digest_of(self.charges[-1]) if self.charges else cursor.charges_head,
            digest_of_all(self.paid, after=cursor.paid_head),
        )


def _head(texts: Sequence[str], n: int) -> str | None:
    """The digest of the n-th entry; None if there are fewer."""
    if n > len(texts):
        return None
    return digest_of(texts[n - 1]) if n else GENESIS
