"""The store's histories, compared with the journal: checked, chained, and mended.

The journal has the digest of every history's last event (`JournalState.heads`), which no change of
the store can follow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from qserver.errors import StoreCorruptError
from qserver.records.digest_links import Links, relinked
from qserver.storage.charging import Lease
from qserver.storage.encoding.digests import ADVICE
from qserver.storage.histories import check_history
from qserver.storage.spend import SpendingStore
from worker.journal.journal import Journal
from worker.journal.records import HistoryChained, Released
from worker.journal.sections import ATTACHED, JournalHistories, read_histories


class Histories:
    """The histories of a worker's populations; use it under the lease."""

    def __init__(self, writer: SpendingStore, journals: Mapping[str, Journal]) -> None:
        self._writer = writer
        self._journals = journals

    def check(self, population: str) -> None:
        """Return if the store's heads are the journal's.

        Raises:
            StoreCorruptError: one is not.
        """
        known = self._journals[population].state.heads
        for snapshot, head in self._writer.heads(population).items():
            if head != known.get(snapshot):
                raise _other(snapshot)

    def differences(self, population: str) -> list[str]:
        """The differences between histories in store and journal, in words; takes no lease."""
        journal, found = self._journals[population], list[str]()
        with journal.exclusive():
            released = read_histories(journal)
            jobs, known = set(journal.state.released), dict(journal.state.heads)
        is_open = set(self._writer.open_reservations(population))
        for snapshot, head in self._writer.heads(population).items():
            texts = self._raw(population, snapshot)
            right = relinked(released.texts(snapshot, jobs=jobs - is_open))
            if released.is_whole and self._as_linked(texts, head) != right.texts:
                found.append(_difference(snapshot, texts, right.texts))
            elif head is not None and not is_open and head != known.get(snapshot):
                found.append(f"the head of snapshot {snapshot} is not the journal's")
        return found

    def chain(self, lease: Lease) -> None:
        """Link the histories of an earlier version, after a comparison with the journal.

        Raises:
            StoreCorruptError: a history is not the one that the journal has.
        """
        population, journal = lease.population, self._journals[lease.population]
        heads, known = self._writer.heads(population), journal.state.heads
        unlinked = [s for s, head in heads.items() if head is None or s not in known]
        if not unlinked:
            return
        with journal.exclusive():
            found = read_histories(journal)
        for snapshot in unlinked:
            texts = self._writer.owner.history(population, snapshot)
            check_history(texts, head=heads[snapshot], snapshot=snapshot)
            self._compare(population, snapshot, texts, found)
            if heads[snapshot] is None:
                self._replace(lease, snapshot, relinked(texts))
            if snapshot not in known:
                self._keep_head(population, snapshot, texts, found)

    def mend(self, lease: Lease, *, whole: bool) -> int:
        """Replace differing histories by the journal's; returns their number.

        Args:
            whole: with every released answer. Else those of jobs that the store has published:
                a replay publishes the others.
        """
        population, journal = lease.population, self._journals[lease.population]
        with journal.exclusive():
            found = read_histories(journal)
            released, reserved = set(journal.state.released), set(journal.state.reserved)
        published = self._writer.published_jobs(population)
        if not found.is_whole or not published <= reserved:
            # What the journal does not know must not be thrown away: the replay, or the check after
            # it, refuses such a store.
            return 0
        n_mended, heads = 0, self._writer.heads(population)
        jobs = released if whole else released & published
        for snapshot, head in heads.items():
            right = relinked(found.texts(snapshot, jobs=jobs))
            if Links(self._raw(population, snapshot), head or "") != right:
                self._replace(lease, snapshot, right, n_shown=len(right.texts))
                n_mended += 1
            if whole and snapshot not in journal.state.heads:
                self._keep_head(population, snapshot, right.texts, found)
        return n_mended

    @staticmethod
    def _as_linked(texts: Sequence[str], head: str | None) -> tuple[str, ...]:
        """The events with links, which a history of an earlier version lacks."""
        try:
            return relinked(texts).texts if head is None else tuple(texts)
        except (ValueError, TypeError):
            return tuple(texts)

    def _raw(self, population: str, snapshot: str) -> tuple[str, ...]:
        """The stored events; none if they are no text."""
        try:
            return tuple(self._writer.owner.history(population, snapshot))
        except StoreCorruptError:
            return ()

    def _compare(
        self, population: str, snapshot: str, texts: Sequence[str], found: JournalHistories
    ) -> None:
        """Return if the journal has these events, as far as it knows any.

        Raises:
            StoreCorruptError: it has others.
        """
        published = self._writer.published_jobs(population)
        if found.is_whole:
            right = relinked(found.texts(snapshot, jobs=published))
            if relinked(texts) != right:
                raise _other(snapshot)
            return
        released = self._journals[population].state.released
        for job, events in _by_job(texts).items():
            record = released.get(job)
            if record is not None and _indices_of(record) != list(map(_indices, events)):
                raise _other(snapshot)

    def _keep_head(
        self, population: str, snapshot: str, texts: Sequence[str], found: JournalHistories
    ) -> None:
        """Write the head to the journal, as it will be once open jobs are published."""
        is_open = set(self._writer.open_reservations(population))
        later = [e for e in found.by_snapshot.get(snapshot, ()) if e.job in is_open]
        history = relinked([*texts, *(text for one in later for text in one.texts)])
        journal = self._journals[population]
        with journal.exclusive():
            journal.append(HistoryChained(snapshot, history.head, len(history.texts)))

    def _replace(
        self, lease: Lease, snapshot: str, history: Links, *, n_shown: int | None = None
    ) -> None:
        self._writer.owner.replace_history(
            lease.population,
            snapshot,
            history,
            nonce=lease.nonce,
            fence=lease.fence,
            n_shown=n_shown,
        )
        self._writer.await_durable()


def _difference(snapshot: str, texts: Sequence[str], right: Sequence[str]) -> str:
    """The first event that differs."""
    if len(texts) < len(right) and tuple(texts) == tuple(right[: len(texts)]):
        return f"snapshot {snapshot} lacks its last {len(right) - len(texts)} events"
    same = (one == other for one, other in zip(texts, right, strict=False))
    place = next((i for i, is_same in enumerate(same) if not is_same), len(right))
    if place == len(right):
        return f"snapshot {snapshot} has {len(texts) - place} events that the journal lacks"
    job = json.loads(right[place])["job"]
    return f"event {place} of snapshot {snapshot}, of job {job}, is not what was released"


def _by_job(texts: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for plain in map(json.loads, texts):
        if plain["job"] != ATTACHED:
            found.setdefault(plain["job"], []).append(plain)
    return found


def _indices(plain: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(map(int, plain["index"].split()))


def _indices_of(record: Released) -> list[tuple[int, ...]]:
    return [row.indices for row in record.rows]


def _other(snapshot: str) -> StoreCorruptError:
    return StoreCorruptError(
        f"The history of snapshot {snapshot} is not the one that the worker's journal has. "
        f"Nothing is measured. {ADVICE}"
    )
