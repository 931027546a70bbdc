"""Models in the store: specification, version of the history, tables. No parameters."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from qserver.errors import NotFoundError, StoreCorruptError, StoreError
from qserver.query.question import ModelAsked
from qserver.records.answer import ModelAnswer
from qserver.records.dataset import DatasetMeta
from qserver.records.history import AnyMeasurement
from qserver.storage.encoding.jobs import measurements_in_force, model_answer_from_plain
from qserver.storage.encoding.requests import Request
from qserver.storage.encoding.sealed import ADVICE, reading, sealed, unsealed
from qserver.storage.histories import read_history
from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient


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
    return json.dumps({"request": request.to_json(), "answer": asdict(answer)})


def model_from_json(text: str) -> ModelRecord:
    """The model that `model_json` wrote."""
    plain = json.loads(text)
    request, answer = Request.from_json(plain["request"]), plain["answer"]
    if not isinstance(request.asked, ModelAsked):
        raise StoreError("The store's record of a model is of another form.")
    return ModelRecord(request.asked, model_answer_from_plain(answer), request.by)


class ModelStore:
    """The models of the datasets. Only the worker writes. Thread-safe as its client is."""

    def __init__(self, client: StoreClient) -> None:
        self._client = client

    def keep(self, population: str, request: Request, answer: ModelAnswer) -> None:
        """Keep the facts that a model is made from; nothing changes them later."""
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
            return tuple(measurements_in_force(texts[:version], sizes=meta.domain.sizes))


@reading("record of a model")
def _model(text: str, number: str) -> ModelRecord:
    found = model_from_json(unsealed(text, name=number))
    if found.answer.id != number:
        raise StoreCorruptError(f"The store's record of model {number} is another's. {ADVICE}")
    return found
