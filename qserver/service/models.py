"""The use cases of models: learn, price, list, ask, sample, export."""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qserver.answering.explain import explain_model
from qserver.answering.models.correlations import Correlated, correlated
from qserver.answering.models.kinds.kind import Answered, GrowingKind, Model
from qserver.answering.models.kinds.registry import kind_of
from qserver.answering.models.price import ModelExplanation
from qserver.answering.models.purchase import check_whole
from qserver.errors import CapacityError
from qserver.query.linear_query import LinearQuery
from qserver.query.question import ModelAsked
from qserver.records.answer import JobStatus, ModelAnswer
from qserver.records.dataset import DatasetMeta
from qserver.service.ask import Asking, Idempotency, narrowed
from qserver.service.cache.last_used import LastUsed
from qserver.service.datasets import OpenDatasets
from qserver.service.ledger import Allowances, Asker
from qserver.service.parking import is_second_run
from qserver.storage.histories import ModelRecord
from qserver.storage.store import Store

_MOST_KEPT = 8
_LINES_AT_ONCE = 1000
MAX_MODELS = 1000
"""Most models of a snapshot: they are kept for as long as it is there."""


@dataclass(frozen=True)
class ModelStatus:
    """A model's public face.

    Args:
        specification: the request, as the kind of model read it.
        facts: facts about the model; None in lists.
    """

    learnt: ModelAnswer
    specification: dict[str, Any]
    facts: dict[str, Any] | None = None


@dataclass(frozen=True, eq=False)
class Made:
    """A model made from history; hold the lock while using it."""

    record: ModelRecord
    model: Model
    lock: threading.Lock


class ModelService:
    """Models of one process, made from history; the last used are kept. Thread-safe.

    Args:
        workloads: what prices are found on; that may take seconds, and questions shall not wait.
    """

    def __init__(
        self,
        store: Store,
        datasets: OpenDatasets,
        workloads: OpenDatasets,
        asking: Asking,
        allowances: Allowances,
    ) -> None:
        self._store = store
        self._datasets = datasets
        self._workloads = workloads
        self._allowances = allowances
        self._asking = asking
        self._kept = LastUsed[tuple[str, str], Made](_MOST_KEPT)

    def learn(
        self,
        name: str,
        kind: str,
        document: Mapping[str, Any],
        epsilon_nano: int,
        *,
        wait_s: float,
        idempotency: Idempotency | None = None,
        by: str = "",
    ) -> ModelAnswer | JobStatus:
        """The model, or after `wait_s` seconds the job that learns it.

        Raises:
            InputError: the document does not fit the kind or the dataset.
            BudgetExhaustedError, NoWorkerError, ...: as `Service.ask`.
        """
        meta = self._meta(name)
        check_whole(meta)
        domain = meta.domain
        # The awaited model may be the last one allowed.
        if not is_second_run() and self._store.models.count(meta) >= MAX_MODELS:
            raise CapacityError(f"A dataset keeps at most {MAX_MODELS:,} models.")
        specification = kind_of(kind).read(document, domain)
        kind_of(kind).check_law(specification, meta.law)
        if epsilon_nano == 0 and not is_second_run():
            self._check_enough(name, kind, specification)
        asked = ModelAsked(kind, domain.sizes, specification, epsilon_nano)
        found = self._asking.ask(name, asked, wait_s=wait_s, idempotency=idempotency, by=by)
        return narrowed(found, ModelAnswer)

    def explain(
        self,
        name: str,
        kind: str,
        document: Mapping[str, Any],
        epsilon_nano: int,
        *,
        by: str = "",
    ) -> ModelExplanation:
        """The price of learning, and the tables that it would buy; spends nothing.

        Args:
            by: account that asks, whose own allowance is shown.

        Raises:
            InputError: as `learn`.
        """
        opened = self._workloads.refresh(name)
        domain = opened.meta.domain
        specification = kind_of(kind).read(document, domain)
        asked = ModelAsked(kind, domain.sizes, specification, epsilon_nano)
        with opened.lock:
            explained = explain_model(opened.replica, asked)
        asker = Asker(by, opened.meta.population)
        own = self._allowances.price(asker, opened.meta.snapshot, explained.charges)
        return replace(explained.explanation, own=own)

    def all(self, name: str) -> list[ModelStatus]:
        """The models of a dataset's present snapshot; NotFoundError."""
        return [_status(record) for record in self._store.models.all(self._meta(name))]

    def one(self, name: str, number: str) -> ModelStatus:
        """One model with its facts; NotFoundError."""
        made = self._made(name, number)
        with made.lock:
            return _status(made.record, made.model.describe())

    def learnt(self, name: str, number: str) -> ModelAnswer:
        """The answer given when the model was learnt; NotFoundError."""
        return self._store.models.one(self._meta(name), number).answer

    def ask(self, name: str, number: str, question: Mapping[str, Any]) -> Answered:
        """A model's answer to a question in its kind's own terms.

        Raises:
            NotFoundError, InputError, CapacityError.
        """
        made = self._made(name, number)
        with made.lock:
            return made.model.ask(question)

    def count(self, name: str, number: str, query: LinearQuery) -> float:
        """The expected value of a linear query under a model. Raises as `ask` does."""
        made = self._made(name, number)
        with made.lock:
            return made.model.count(query)

    def correlations(self, name: str, number: str, variables: Sequence[str] | None) -> Correlated:
        """The correlations of a model's attributes by pair; nothing new is learnt.

        Args:
            variables: of which; all of the model's for None.

        Raises:
            NotFoundError, InputError, CapacityError.
        """
        return correlated(
            self._meta(name).domain,
            self.columns(name, number),
            variables,
            lambda question: self.ask(name, number, question),
        )

    def columns(self, name: str, number: str) -> tuple[str, ...]:
        """Names of a synthetic record's attributes; NotFoundError."""
        return self._made(name, number).model.columns()

    def records(
        self, name: str, number: str, n: int, *, seed: int | None
    ) -> Iterator[tuple[str, ...]]:
        """Synthetic records of a model; the same for the same seed. NotFoundError."""
        return self._made(name, number).model.records(n, np.random.default_rng(seed))

    def export(self, name: str, number: str) -> str:
        """A model as text in a format of its field; NotFoundError."""
        return self._made(name, number).model.export()

    def _check_enough(self, name: str, kind: str, specification: str) -> None:
        """Return if history alone gives the model; InputError otherwise."""
        opened = self._datasets.refresh(name)
        with opened.lock:
            measurements = tuple(opened.replica.measurements)
        kind_of(kind).used(specification, opened.meta.domain, measurements)

    def _meta(self, name: str) -> DatasetMeta:
        # Read again if the dataset was replaced.
        self._datasets.stamp(name)
        return self._datasets.meta(name)

    def _made(self, name: str, number: str) -> Made:
        meta = self._meta(name)
        key = (meta.snapshot, number)
        return self._kept.get(key, lambda: self._make(meta, number))

    def _make(self, meta: DatasetMeta, number: str) -> Made:
        record = self._store.models.one(meta, number)
        return Made(record, self._build(meta, record), threading.Lock())

    def _build(self, meta: DatasetMeta, record: ModelRecord) -> Model:
        history = self._store.models.history(meta, record.answer.version)
        kind, specification = kind_of(record.asked.kind), record.asked.specification
        earlier = self._earlier(meta, record, kind) if isinstance(kind, GrowingKind) else None
        if earlier is None or not isinstance(kind, GrowingKind):
            return kind.build(specification, meta.domain, history)
        return kind.rebuild(specification, meta.domain, history, earlier=earlier)

    def _earlier(self, meta: DatasetMeta, record: ModelRecord, kind: GrowingKind) -> Model | None:
        """The kept model with the longest history that this one can continue from."""
        asked = record.asked
        same = [
            made
            for (snapshot, _), made in self._kept.items()
            if snapshot == meta.snapshot
            and made.record.asked.kind == asked.kind
            and kind.goes_on(asked.specification, made.record.asked.specification)
        ]
        found = max(same, key=lambda made: made.record.answer.version, default=None)
        return None if found is None else found.model


def _status(record: ModelRecord, facts: dict[str, Any] | None = None) -> ModelStatus:
    return ModelStatus(record.answer, json.loads(record.asked.specification), facts)


def csv_lines(columns: tuple[str, ...], records: Iterator[tuple[str, ...]]) -> Iterator[str]:
    """Synthetic records as CSV with a header, some lines at a time."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for n, record in enumerate(records, start=1):
        writer.writerow(record)
        if n % _LINES_AT_ONCE == 0:
            yield text.getvalue()
            text.seek(0)
            text.truncate()
    yield text.getvalue()
