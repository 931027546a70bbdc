"""Find the parts of a store that differ from the journal, and make the store forget a population.

A restore gives back what a store has forgotten. So what was changed in it is forgotten first, with
all else that the journal can give back: then the whole is as it was, answer by answer.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

from qserver.errors import NotFoundError, StoreBehindError, StoreCorruptError
from qserver.records.digest_links import check_links
from qserver.storage.encoding.digests import checked_fields, unsealed
from qserver.storage.histories import Cursor
from qserver.storage.keys import ACCOUNTS, TOKENS, Keys
from qserver.storage.owner import Forgotten
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from worker.books.journal_lines import BookFaultError
from worker.journal.journal import Journal
from worker.journal.records import Adopted, Attached, Reserved
from worker.journal.sections import Replay
from worker.private.registry import Registry
from worker.spending.bookkeeper import Bookkeeper
from worker.spending.trail import Trail


class Damage:
    """The differences between one population's part of a store and its journal; reads only."""

    def __init__(
        self, population: str, *, reader: Store, writer: SpendingStore, journal: Journal
    ) -> None:
        self._population = population
        self._reader = reader
        self._writer = writer
        self._journal = journal

    def found(self, registry: Registry) -> list[str]:
        """The differences, in words for the owner."""
        return [*self._of_facts(), *self._of_datasets(registry), *self._of_jobs()]

    def of_ledger(self) -> list[str]:
        """The faults of the ledger's own figures, if there is or was one."""
        fields: dict[Any, Any] = self._reader.client.hgetall(Keys(self._population).ledger)
        try:
            checked_fields(fields)
        except StoreCorruptError as exc:
            return [str(exc)]
        is_listed = self._population in self._reader.datasets().values()
        return ["There is no ledger."] if is_listed and not fields else []

    def can_be_forgotten(self) -> bool:
        """Whether the journal can restore all that the store has of its charges.

        It cannot where older lines lack plans, where a charge was made in a crash and not written
        down, or where the store has charges that the journal lacks.
        """
        texts, n_charged = list[str](), 0
        with self._journal.exclusive():
            known = set(self._journal.state.reserved)
            for record in self._journal.records():
                if isinstance(record, Adopted):
                    return False
                if isinstance(record, Attached) and "meta" not in record.details:
                    return False
                if isinstance(record, Reserved):
                    n_charged += 1
                    if not record.replay or record.ledger_version != n_charged:
                        return False
                    texts += Replay.from_json(record.replay).charges
        try:
            check_links(texts, name="the journal's charges")
        except StoreCorruptError:
            return False
        return self._writer.reserved_jobs(self._population) <= known

    def everything(self) -> Forgotten:
        """All that the journal can restore, by name."""
        with self._journal.exclusive():
            state = self._journal.state
            return Forgotten(
                tuple(state.by_snapshot),
                tuple(state.snapshots),
                tuple(state.reserved.keys() | state.burnt),
            )

    def _of_facts(self) -> list[str]:
        keeper = Bookkeeper(
            self._reader, {self._population: self._journal}, logging.getLogger(__name__)
        )
        try:
            found = keeper.faults(self._population, with_jobs=True)
            anchor = self._journal.state.charges_digest
            Trail(self._population).read(self._reader, anchor=anchor)
        except (StoreCorruptError, StoreBehindError, BookFaultError) as exc:
            return [str(exc)]
        return found

    def _of_datasets(self, registry: Registry) -> Iterator[str]:
        entries = [e for e in registry.entries().values() if e.population == self._population]
        # During a rotation either snapshot of a dataset may be the store's.
        snapshots = {(entry.name, entry.snapshot) for entry in entries}
        for name in sorted({entry.name for entry in entries}):
            try:
                meta = self._reader.meta(name)
                is_there = (name, meta.snapshot) in snapshots
                # Also paid questions, and the weights of answers.
                self._reader.changes(meta, Cursor(), shown_only=False)
            except (NotFoundError, StoreCorruptError):
                is_there = False
            if not is_there:
                yield f"dataset {name}, its list, or its weights of answers"

    def _of_jobs(self) -> Iterator[str]:
        """Charged jobs, which are kept for ever, and their models."""
        for job in self._journal.state.released:
            try:
                record = self._reader.own_job(job)
                request = json.loads(record.request)
                is_there = record.state in ("done", "failed") and (
                    "model" not in request or self._has_model(request["snapshot"], job)
                )
            except (NotFoundError, StoreCorruptError):
                is_there = False
            if not is_there:
                yield f"the answer of job {job} is missing, or was changed"

    def _has_model(self, snapshot: str, job: str) -> bool:
        text = self._reader.client.hget(Keys(self._population).models(snapshot), job)
        return text is not None and bool(unsealed(str(text), name=job))


def lost_texts(reader: Store, populations: list[str]) -> Iterator[str]:
    """Damaged parts of the store outside any journal: accounts, tokens, allowances."""
    hashes = [("account", ACCOUNTS), ("token", TOKENS)]
    hashes += [(f"allowance on {name} of", Keys(name).allowances) for name in populations]
    for words, key in hashes:
        texts: dict[Any, Any] = reader.client.hgetall(key)
        for name, text in texts.items():
            try:
                unsealed(text, name=name)
            except StoreCorruptError:
                yield f"{words} {name}"
