"""A spend's sections of the journal, which decides between two workers of one population.

Under the journal's lock either the released answers are written first, and are then published by
whoever holds the lease, or the reservation is burnt first, and nothing is ever drawn for it.
"""

from __future__ import annotations

from qserver.errors import FencedError
from qserver.storage.encoding.requests import Reservation
from worker.journal.draws import Drawn
from worker.journal.journal import Journal
from worker.journal.records import Burnt, ChargeLine, Released, Reserved


def write_reserved(
    journal: Journal,
    reservation: Reservation,
    *,
    ledger_version: int,
    charges_digest: str,
    replay: str,
) -> None:
    """Write down what a job is charged.

    Args:
        ledger_version: the store's, after the charge.
        charges_digest: of the job's last entry in the trail of charges.
        replay: what the store was given, by `worker.journal.replay`.

    Raises:
        FencedError: another worker took over meanwhile, and burnt the reservation.
    """
    lines = tuple(charge_lines(reservation))
    with journal.exclusive():
        if journal.is_burnt(reservation.job):
            raise FencedError("The lease passed to another worker.")
        journal.append(
            Reserved(
                job=reservation.job,
                ledger_version=ledger_version,
                spent_nano_after=reservation.after.spent_nano,
                charges=lines,
                charges_digest=charges_digest,
                replay=replay,
            )
        )


def charge_lines(reservation: Reservation) -> list[ChargeLine]:
    """A line for each row and table, by its rise of alpha; of two stages one for each."""
    sampled = reservation.sampled
    if sampled is None:
        return [ChargeLine(planned.key, planned.charge_nano) for planned in reservation.planned]
    return [ChargeLine("sample", sampled.sample_nano), ChargeLine("tables", sampled.tables_nano)]


def write_released(journal: Journal, drawn: Drawn) -> bool:
    """Write the released answers down; False when the reservation was burnt meanwhile."""
    with journal.exclusive():
        if journal.is_burnt(drawn.reservation.job):
            return False
        journal.append(drawn.to_journal())
    return True


def released_or_burnt(journal: Journal, job: str) -> Released | None:
    """The answers of a job that was begun before, or None: it is burnt then, now at the latest."""
    with journal.exclusive():
        released = journal.released(job)
        if released is None and not journal.is_burnt(job):
            journal.append(Burnt(job))
    return released


def write_burnt(journal: Journal, job: str) -> None:
    """Write down that a job's answer will never be drawn; nothing where that is written."""
    with journal.exclusive():
        if not journal.is_burnt(job):
            journal.append(Burnt(job))
