"""The models of a service in memory: one network, which answers constants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from qserver.answering.models.correlations import Correlated
from qserver.answering.models.kinds.kind import Answered
from qserver.answering.models.price import ModelExplanation
from qserver.errors import NotFoundError
from qserver.models.network.error_bounds import ErrorBounds
from qserver.query.linear_query import LinearQuery
from qserver.records.answer import JobStatus, ModelAnswer, OwnPrice
from qserver.service.ask import Idempotency
from qserver.service.models import ModelStatus
from tests.api.fake_answers import PLANNED

OWN_PRICE = OwnPrice(
    price_nano=50_000_000,
    affordable=False,
    more_at=1_800_000_000,
    spent_nano=9_000_000,
    today_nano=8_000_000,
    limit_nano=None,
    pace_nano=55_000_000,
)
LEARNT = ModelAnswer("m1", "network", 400_000_001, 1_234_567, (0, 4), 7)


class Recorder(Protocol):
    """The service that the models belong to."""

    @property
    def learnt(self) -> ModelAnswer | JobStatus:
        """What learning a model returns."""

    def enter(self, method: str, name: str | None = None, **arguments: Any) -> None:
        """Record a call, and fail where a test says so."""


@dataclass(frozen=True)
class FakeModels:
    """The models of a fake service: one network, `m1`, over sex and age."""

    service: Recorder

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
        arguments = {"kind": kind, "document": document, "epsilon_nano": epsilon_nano}
        terms = {"wait_s": wait_s, "idempotency": idempotency, "by": by}
        self.service.enter("learn_model", name, **arguments, **terms)
        return self.service.learnt

    def explain(
        self,
        name: str,
        kind: str,
        document: Mapping[str, Any],
        epsilon_nano: int,
        *,
        by: str = "",
    ) -> ModelExplanation:
        arguments = {"kind": kind, "document": document, "epsilon_nano": epsilon_nano, "by": by}
        self.service.enter("explain_model", name, **arguments)
        return ModelExplanation(
            kind="blocks",
            price_nano=400_000_001,
            sample_nano=None,
            remaining_nano=1_234_567,
            affordable=False,
            tables=(PLANNED,),
            version=7,
            error=ErrorBounds(2, 1, 10, 12.5, 90.25, 12.5, 3610.0),
            own=OWN_PRICE,
        )

    def all(self, name: str) -> list[ModelStatus]:
        self.service.enter("all_models", name)
        return [ModelStatus(LEARNT, {"edges": [["sex", "age"]]})]

    def one(self, name: str, number: str) -> ModelStatus:
        self._enter("one_model", name, number)
        return ModelStatus(LEARNT, {"edges": [["sex", "age"]]}, {"n_records": 500.5})

    def learnt(self, name: str, number: str) -> ModelAnswer:
        self._enter("learnt_model", name, number)
        return LEARNT

    def ask(self, name: str, number: str, question: Mapping[str, Any]) -> Answered:
        self._enter("ask_model", name, number, question=question)
        labels = [["Female", "Male", "other"]]
        return Answered(
            {"variables": ["sex"], "labels": labels, "probabilities": [0.5, 0.25, 0.25]}
        )

    def count(self, name: str, number: str, query: LinearQuery) -> float:
        self._enter("count_of_model", name, number, query=query)
        return 123.25

    def correlations(self, name: str, number: str, variables: Sequence[str] | None) -> Correlated:
        self._enter("correlations_of_model", name, number, variables=variables)
        labels = {"sex": ("Female", "Male", "other"), "income": ("<=50K", ">50K")}
        return Correlated(labels, np.array([[1.0, 0.4], [0.4, 1.0]]))

    def columns(self, name: str, number: str) -> tuple[str, ...]:
        self._enter("columns_of_model", name, number)
        return ("age", "sex")

    def records(
        self, name: str, number: str, n: int, *, seed: int | None
    ) -> Iterator[tuple[str, ...]]:
        self._enter("records_of_model", name, number, n=n, seed=seed)
        return iter([("3", "Female, or so")] * n)

    def export(self, name: str, number: str) -> str:
        self._enter("export_model", name, number)
        return "network x {\n}\n"

    def _enter(self, method: str, name: str, number: str, **arguments: Any) -> None:
        self.service.enter(method, name, number=number, **arguments)
        if number != LEARNT.id:
            raise NotFoundError("model", number)
