"""Histories in the store, including those of replaced snapshots, and the models learnt from them.

Whoever reads events checks them from where it stopped before up to the head. The worker's journal
has the head as well, at every release, so a change of events and head together is found there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from qserver.errors import NotFoundError, StoreCorruptError, StoreError
from qserver.query.question import ModelAsked
from qserver.records.answer import ModelAnswer
from qserver.records.codec import plain, read
from qserver.records.dataset import DatasetMeta
from qserver.records.digest_links import GENESIS, check_links, digest_of, digest_of_all, is_linked
from qserver.records.history import AnyMeasurement
from qserver.storage.encoding.digests import ADVICE, read_meta, reading, sealed, unsealed
from qserver.storage.encoding.jobs import measurements_in_force
from qserver.storage.encoding.queued_requests import Request
from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient


def check_history(
    texts: Sequence[str], *, head: str | None, snapshot: str, after: str | None = GENESIS
) -> None:
    """Return if these events form a chain up to the head.

    Args:
        texts: the events after the one with the digest `after`, to the last.
        head: digest of the last event in the ledger; None in a store of an earlier version, whose
            events name no others. A worker chains it when it starts.

    Raises:
        StoreCorruptError: an event was changed, moved, added or removed, or the head was.
    """
    if head is None and not after and not any(map(is_linked, texts)):
        return
    found = check_links(texts, name=f"the history of snapshot {snapshot}", prev=after or GENESIS)
    if found != head:
        raise StoreCorruptError(
            f"The history of snapshot {snapshot} does not end as it was published. {ADVICE}"
        )


def check_charges(texts: Sequence[str], *, after: str, head: str | None) -> None:
    """Return if these charges form a chain, after the one with the digest `after`.

    Args:
        head: digest of the last charge in the ledger; None in a store of an earlier version. The
            worker's journal has it as well.

    Raises:
        StoreCorruptError: a charge was changed, moved, added or removed.
    """
    if texts and (after != GENESIS or is_linked(texts[0])):
        check_links(texts, name="the charges", prev=after)
    if head is not None and head != (digest_of(texts[-1]) if texts else after):
        raise StoreCorruptError(f"The charges do not end as they were made. {ADVICE}")


def read_history(client: StoreClient, meta: DatasetMeta) -> list[str]:
    """All events of a snapshot's history, checked up to its head."""
    keys, snapshot = Keys(meta.population), meta.snapshot
    pipe = client.pipeline(transaction=True)
    pipe.lrange(keys.history(snapshot), 0, -1)
    pipe.hget(keys.ledger, f"head:{snapshot}")
    texts, head = pipe.execute()
    check_history(texts, head=head, snapshot=snapshot)
    return list(texts)


@dataclass(frozen=True)
class FrozenHistory:
    """The released answers of a replaced snapshot.

    Args:
        version: events of the history, refinements included.
    """

    measurements: tuple[AnyMeasurement, ...]
    version: int


class FrozenSnapshots:
    """The replaced snapshots of a store. Thread-safe as its client is."""

    def __init__(self, client: StoreClient) -> None:
        self._client = client

    def ids(self, meta: DatasetMeta) -> tuple[str, ...]:
        """Ids of a dataset's replaced snapshots, oldest first."""
        found: Any = self._client.lrange(Keys(meta.population).earlier(meta.name), 0, -1)
        return tuple(found)

    def meta(self, meta: DatasetMeta, snapshot: str) -> DatasetMeta:
        """The facts of a replaced snapshot of a dataset.

        Args:
            meta: the dataset's present facts.

        Raises:
            NotFoundError: the dataset had no such snapshot.
        """
        text: Any = self._client.hget(Keys(meta.population).snapshots, snapshot)
        if text is None or snapshot not in self.ids(meta):
            raise NotFoundError("snapshot", snapshot)
        return read_meta(text, name=meta.name)

    def history(self, frozen: DatasetMeta) -> FrozenHistory:
        """The released answers of a replaced snapshot, in the order of ids; they never change."""
        texts = read_history(self._client, frozen)
        with reading("released answers"):
            found = measurements_in_force(texts, sizes=frozen.domain.sizes, law=frozen.law)
        return FrozenHistory(tuple(found), len(texts))


@dataclass(frozen=True)
class ModelRecord:
    """A model: the request and its answer.

    Args:
        by: account that asked; '' where there are no accounts.
    """

    asked: ModelAsked
    answer: ModelAnswer
    by: str


def model_json(request: Request, answer: ModelAnswer) -> str:
    """JSON text of a model that was learnt on request."""
    return json.dumps({"request": request.to_json(), "answer": plain(answer)})


def model_from_json(text: str) -> ModelRecord:
    """The model that `model_json` wrote."""
    found = json.loads(text)
    request, answer = Request.from_json(found["request"]), found["answer"]
    if not isinstance(request.asked, ModelAsked):
        raise StoreError("The store's record of a model is of another form.")
    return ModelRecord(request.asked, read(ModelAnswer, answer), request.by)


class ModelStore:
    """The models of the datasets. Only the worker writes. Thread-safe as its client is."""

    def __init__(self, client: StoreClient) -> None:
        self._client = client

    def keep(self, population: str, request: Request, answer: ModelAnswer) -> None:
        """Keep the facts behind a model; they never change."""
        key = Keys(population).models(request.snapshot)
        text = sealed(model_json(request, answer), name=answer.id)
        self._client.hsetnx(key, answer.id, text)

    def count(self, meta: DatasetMeta) -> int:
        """Number of models of the present snapshot."""
        return int(self._client.hlen(Keys(meta.population).models(meta.snapshot)))

    def all(self, meta: DatasetMeta) -> tuple[ModelRecord, ...]:
        """The models of the present snapshot, oldest version first."""
        texts: Any = self._client.hgetall(Keys(meta.population).models(meta.snapshot))
        found = [_model(text, number) for number, text in texts.items()]
        return tuple(sorted(found, key=lambda m: (m.answer.version, m.answer.id)))

    def one(self, meta: DatasetMeta, number: str) -> ModelRecord:
        """A model of the present snapshot; NotFoundError."""
        text: Any = self._client.hget(Keys(meta.population).models(meta.snapshot), number)
        if text is None:
            raise NotFoundError("model", number)
        return _model(str(text), number)

    def history(self, meta: DatasetMeta, version: int) -> tuple[AnyMeasurement, ...]:
        """The measurements in force after the first `version` events of the history."""
        texts = read_history(self._client, meta)
        if len(texts) < version:
            raise StoreCorruptError("The store's history is shorter than a model's.")
        with reading("released answers"):
            sizes, law = meta.domain.sizes, meta.law
            return tuple(measurements_in_force(texts[:version], sizes=sizes, law=law))


@reading("record of a model")
def _model(text: str, number: str) -> ModelRecord:
    found = model_from_json(unsealed(text, name=number))
    if found.answer.id != number:
        raise StoreCorruptError(f"The store's record of model {number} is another's. {ADVICE}")
    return found


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
        """Whether all entries, read from the start, begin with those up to this position."""
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
