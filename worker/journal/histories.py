"""The histories that a journal has: every released answer as the store must have it."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from qserver.storage.encoding.requests import Reservation, events_of
from worker.journal.journal import Journal
from worker.journal.records import Adopted, Attached, Released, Reserved
from worker.journal.sections import Drawn, Replay
from worker.journal.state import first_events

ATTACHED = "attach"
"""In place of a job: the event that came with the snapshot."""


@dataclass(frozen=True)
class JobEvents:
    """The events of one job, or of the attach, as JSON texts without links."""

    job: str
    texts: Sequence[str]


@dataclass(frozen=True)
class JournalHistories:
    """The released answers of a population, by snapshot, in the order of their release.

    Args:
        is_whole: the journal has the plan of every answer. Older lines lack plans, and a journal
            that began on the owner's word lacks what was released before.
    """

    by_snapshot: Mapping[str, Sequence[JobEvents]]
    is_whole: bool

    def texts(self, snapshot: str, *, jobs: Container[str]) -> list[str]:
        """The events of a snapshot that came with it, or of one of these jobs; not linked."""
        found = self.by_snapshot.get(snapshot, ())
        return [t for one in found if one.job == ATTACHED or one.job in jobs for t in one.texts]


def read_histories(journal: Journal) -> JournalHistories:
    """The histories of a journal, read again from its file; within a section."""
    found: dict[str, list[JobEvents]] = {}
    plans: dict[str, Reservation] = {}
    is_whole = True
    for record in journal.records():
        if isinstance(record, Attached):
            found[record.snapshot] = [JobEvents(ATTACHED, first_events(record).texts)]
        elif isinstance(record, Adopted):
            is_whole = False
        elif isinstance(record, Reserved) and record.replay:
            plans[record.job] = Replay.from_json(record.replay).reservation
        elif isinstance(record, Released):
            plan = plans.pop(record.job, None)
            is_whole = is_whole and plan is not None
            if plan is not None:
                drawn = Drawn.of_journal(plan, record)
                texts = events_of(drawn.reservation, drawn.indices)
                found.setdefault(plan.request.snapshot, []).append(JobEvents(record.job, texts))
    return JournalHistories(found, is_whole)
