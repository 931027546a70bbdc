"""The datasets that this process has read, each with its lock, and the questions saved of them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client import Counter

from qserver.answering import checkpoint
from qserver.answering.checkpoint import shared_folder
from qserver.answering.replica import Replica, note_fault
from qserver.config import Settings
from qserver.errors import NotFoundError
from qserver.planning.failures import WayFault
from qserver.query.domain import Domain
from qserver.records.dataset import DatasetMeta
from qserver.records.statement import ClaimStatus
from qserver.storage.saved_questions import SavedQuestion as SavedQuestion
from qserver.storage.standings import Stamp
from qserver.storage.store import Store

PLANNING_FAULTS = Counter(
    "qserver_planning_faults", "Ways of planning that failed, and cost no answer.", ["way"]
)


def counted(fault: WayFault) -> None:
    """Count a fault in a way of planning, for the operator, and write it down."""
    PLANNING_FAULTS.labels(fault.way).inc()
    note_fault(fault)


@dataclass(frozen=True)
class OpenDataset:
    """A dataset's replica; hold the lock while using it."""

    replica: Replica
    lock: threading.Lock

    @property
    def meta(self) -> DatasetMeta:
        """The dataset's public facts."""
        return self.replica.meta


class OpenDatasets:
    """Replicas by dataset, read on first use. Thread-safe."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._lock = threading.Lock()
        self._open: dict[str, OpenDataset] = {}

    def get(self, name: str) -> OpenDataset:
        """The dataset's replica; NotFoundError if no dataset has this name."""
        with self._lock:
            found = self._open.get(name)
        if found is not None:
            return found
        meta = self._store.meta(name)
        saved = checkpoint.found(shared_folder(self._settings.state_dir), meta, self._settings)
        replica = Replica(meta, self._settings, shown_only=True, saved=saved, on_fault=counted)
        fresh = OpenDataset(replica, threading.Lock())
        with self._lock:
            return self._open.setdefault(name, fresh)

    def meta(self, name: str) -> DatasetMeta:
        """The dataset's public facts; NotFoundError."""
        return self.get(name).meta

    def domain(self, name: str) -> Domain:
        """The domain that questions are read by now; NotFoundError.

        One small round trip where data arrive over time, as periods are sealed meanwhile.
        """
        if self.meta(name).growth is None:
            return self.meta(name).domain
        stamp = self.stamp(name)
        return self.meta(name).domain_at(stamp.n_sealed)

    def stamp(self, name: str) -> Stamp:
        """The facts that every answer on the dataset depends on; one small round trip;
        NotFoundError."""
        try:
            return self._store.stamp(self.meta(name))
        except NotFoundError:
            # Detached, or attached again: this process's copy is useless.
            self.forget(name)
            return self._store.stamp(self.meta(name))

    def refresh(self, name: str) -> OpenDataset:
        """The dataset's replica, brought up to date; lock it before use; NotFoundError."""
        found = self.get(name)
        try:
            with found.lock:
                found.replica.refresh(self._store)
        except NotFoundError:
            self.forget(name)
            found = self.get(name)
            with found.lock:
                found.replica.refresh(self._store)
        return found

    def claims(self, name: str, stamp: Stamp) -> tuple[ClaimStatus, ...]:
        """The dataset's claims, and how well each can be known now; NotFoundError."""
        if not stamp.claims:
            return ()
        found = self.refresh(name)
        with found.lock:
            return tuple(claim.status(known) for claim, known in found.replica.known_claims)

    def forget(self, name: str) -> None:
        """Forget a dataset."""
        with self._lock:
            self._open.pop(name, None)


class SavedViews:
    """The saved questions of accounts by dataset. Each method raises NotFoundError."""

    def __init__(self, store: Store, datasets: OpenDatasets) -> None:
        self._store = store
        self._datasets = datasets

    def all(self, name: str, account: str) -> tuple[SavedQuestion, ...]:
        """The account's saved questions of a dataset, oldest first."""
        return self._store.saved.all(self._datasets.meta(name), account)

    def one(self, name: str, account: str, number: str) -> SavedQuestion | None:
        """One saved question, or None."""
        return next((q for q in self.all(name, account) if q.id == number), None)

    def keep(
        self, name: str, account: str, *, fields: str, title: str, as_of: str
    ) -> SavedQuestion:
        """Keep a question; raises as `SavedQuestions.keep` does."""
        meta = self._datasets.meta(name)
        return self._store.saved.keep(meta, account, fields=fields, title=title, as_of=as_of)

    def remove(self, name: str, account: str, number: str) -> None:
        """Forget a question; NotFoundError."""
        self._store.saved.remove(self._datasets.meta(name), account, number)

    def seen(self, name: str, account: str, as_of: Mapping[str, str]) -> None:
        """Note the period up to which some questions' answers were seen whole, by id."""
        self._store.saved.seen(self._datasets.meta(name), account, as_of)
