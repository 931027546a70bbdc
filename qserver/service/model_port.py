"""What HTTP needs of models; the service of `qserver.service.models` has this shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from qserver.answering.models.correlated import Correlated
from qserver.answering.models.kinds.kind import Answered
from qserver.answering.models.price import ModelExplanation
from qserver.query.linear import LinearQuery
from qserver.records.answer import JobStatus, ModelAnswer
from qserver.service.ask import Idempotency
from qserver.service.models import ModelStatus


class ModelUseCases(Protocol):
    """The use cases behind the routes of models. Thread-safe; raises `qserver.errors`."""

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
        """The model, or the state of its job after `wait_s` seconds."""

    def explain(
        self,
        name: str,
        kind: str,
        document: Mapping[str, Any],
        epsilon_nano: int,
        *,
        by: str = "",
    ) -> ModelExplanation:
        """What learning would cost; spends nothing."""

    def all(self, name: str) -> Sequence[ModelStatus]:
        """The models of a dataset; NotFoundError."""

    def one(self, name: str, number: str) -> ModelStatus:
        """One model with its facts; NotFoundError."""

    def learnt(self, name: str, number: str) -> ModelAnswer:
        """What was told when the model was learnt; NotFoundError."""

    def ask(self, name: str, number: str, question: Mapping[str, Any]) -> Answered:
        """A model's answer to a question in its kind's own terms."""

    def count(self, name: str, number: str, query: LinearQuery) -> float:
        """What a model expects of a linear query."""

    def correlations(self, name: str, number: str, variables: Sequence[str] | None) -> Correlated:
        """How a model correlates its attributes; all of them for None."""

    def columns(self, name: str, number: str) -> tuple[str, ...]:
        """Names of a synthetic record's attributes."""

    def records(
        self, name: str, number: str, n: int, *, seed: int | None
    ) -> Iterator[tuple[str, ...]]:
        """Synthetic records."""

    def export(self, name: str, number: str) -> str:
        """The model as text."""
