"""The methods that a kind of model must have to be learnt, asked and sampled in the server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from qserver.answering.models.kinds.face import Document, KindFace
from qserver.query.domain import Domain
from qserver.query.linear import LinearQuery
from qserver.records.history import AnyMeasurement


@dataclass(frozen=True)
class WantedTable:
    """A marginal to be measured.

    Args:
        axes: its attributes' positions in the domain, ascending.
        epsilon: 1 / b of its cells afterwards, in epsilon per record.
        is_more: whether `epsilon` adds to the epsilon that history has of the same table.
    """

    axes: tuple[int, ...]
    epsilon: float
    is_more: bool


@dataclass(frozen=True, eq=False)
class Answered:
    """A model's reply to a question in the terms of its kind; `document` is plain JSON."""

    document: dict[str, Any]


class Model(Protocol):
    """A model made from history; `ask`, `count` and `describe` are called one at a time."""

    def ask(self, question: Document) -> Answered:
        """The answer to a question in the kind's own terms.

        Raises:
            InputError, CapacityError: the question is wrong, or too large.
        """

    def count(self, query: LinearQuery) -> float:
        """What the model expects a linear query to be, in the query's units.

        Raises:
            InputError: the query is about attributes that the model lacks.
        """

    def columns(self) -> tuple[str, ...]:
        """Names of the attributes of a synthetic record."""

    def records(self, n: int, generator: np.random.Generator) -> Iterator[tuple[str, ...]]:
        """Synthetic records, as the names of their values."""

    def export(self) -> str:
        """The model as text in a format of its field."""

    def describe(self) -> dict[str, Any]:
        """Public facts of the model, as plain JSON."""


class ModelKind(Protocol):
    """A kind of model; pure and without state."""

    @property
    def face(self) -> KindFace:
        """How it presents itself in requests, in forms and in words."""

    def read(self, document: Document, domain: Domain) -> str:
        """The specification as JSON text, from the analyst's document.

        Raises:
            InputError: the document is wrong; the message names the field.
        """

    def wanted(
        self,
        specification: str,
        domain: Domain,
        measurements: Sequence[AnyMeasurement],
        *,
        epsilon: float,
    ) -> tuple[WantedTable, ...]:
        """The tables to buy, whose epsilons add up to at most `epsilon`, > 0."""

    def used(
        self, specification: str, domain: Domain, measurements: Sequence[AnyMeasurement]
    ) -> tuple[int, ...]:
        """Ids of the measurements that the model is made from.

        Raises:
            InputError: they do not suffice for a model.
        """

    def build(
        self, specification: str, domain: Domain, measurements: Sequence[AnyMeasurement]
    ) -> Model:
        """The model; a function of its arguments alone."""


@runtime_checkable
class GrowingKind(Protocol):
    """A kind whose models are made faster from an earlier model."""

    def goes_on(self, specification: str, earlier: str) -> bool:
        """Whether models of two specifications differ only in the tables bought for them."""

    def rebuild(
        self,
        specification: str,
        domain: Domain,
        measurements: Sequence[AnyMeasurement],
        *,
        earlier: Model,
    ) -> Model:
        """The model of `build`, up to the precision that the kind states.

        Args:
            earlier: a model of this kind on another version of the history, whose specification
                this one continues.
        """
