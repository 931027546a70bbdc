"""The requests about models as flows: bodies on the way out, results on the way back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from qserver.client.flows import Flow, Patience, answered, read, read_text, told, written
from qserver.client.leaks import LeakAudit, StructureProposal
from qserver.client.model_results import (
    CheckPrice,
    Distribution,
    LearningPrice,
    LearntModel,
    ModelCount,
    ModelInfo,
    MostProbable,
    SyntheticRecords,
)
from qserver.client.requests import Query

Network = str | Mapping[str, Any] | Sequence[tuple[str, str]]
"""BIF text, the object that HTTP takes, or edges (parent, child)."""
Model = str | LearntModel | ModelInfo
"""A model's id, or what was told of it."""


@dataclass(frozen=True)
class Gate:
    """A rule that an audit decides: at `fpr` false positives at most `max_power` may be found."""

    fpr: float
    max_power: float
    basis: str = "least"

    def to_document(self) -> dict[str, Any]:
        """The rule as HTTP takes it."""
        return {"fpr": self.fpr, "max_power": self.max_power, "basis": self.basis}


@dataclass(frozen=True)
class Check:
    """An interval to be had beside a model's answer, and one where that contradicts."""

    length: float
    confidence: float
    fallback_length: float | None

    def to_document(self) -> dict[str, Any]:
        """The check as HTTP takes it."""
        found = {"length": self.length, "confidence": self.confidence}
        if self.fallback_length is not None:
            found["fallback_length"] = self.fallback_length
        return found


@dataclass(frozen=True)
class ModelRequests:
    """What can be asked of a server about models; each method gives a flow."""

    patience: Patience

    def learn(self, dataset: str, document: Mapping[str, Any]) -> Flow[LearntModel]:
        """A model that is learnt, once it is there."""
        path = _path(dataset)
        return LearntModel.of((yield from answered(self.patience, *path, document=document)))

    def all(self, dataset: str) -> Flow[list[ModelInfo]]:
        """All models of a dataset."""
        found = yield from read(self.patience, *_path(dataset))
        return list(map(ModelInfo.of, found["models"]))

    def get(self, dataset: str, model: Model) -> Flow[ModelInfo]:
        """One model with its facts."""
        return ModelInfo.of((yield from read(self.patience, *_path(dataset, model))))

    def marginal(
        self, dataset: str, model: Model, variables: Sequence[str], *, given: Mapping[str, str]
    ) -> Flow[Distribution]:
        """A distribution that a model gives."""
        document = {"marginal": list(variables), "given": dict(given)}
        return Distribution.of((yield from self._told(dataset, model, document)))

    def most_probable(
        self, dataset: str, model: Model, variables: Sequence[str], *, given: Mapping[str, str]
    ) -> Flow[MostProbable]:
        """The most probable labels that a network gives."""
        document = {"most_probable": list(variables), "given": dict(given)}
        return MostProbable.of((yield from self._told(dataset, model, document)))

    def count(self, dataset: str, model: Model, query: Query) -> Flow[ModelCount]:
        """What a model expects of a query."""
        return ModelCount.of((yield from self._told(dataset, model, {"count": query})))

    def check(self, dataset: str, model: Model, query: Query, check: Check) -> Flow[ModelCount]:
        """What a model expects of a query, beside an interval."""
        document = {"count": query, "check": check.to_document()}
        path = (*_path(dataset, model), "query")
        return ModelCount.of((yield from answered(self.patience, *path, document=document)))

    def price_of_check(
        self, dataset: str, model: Model, query: Query, check: Check
    ) -> Flow[CheckPrice]:
        """What a check would cost."""
        document = {"count": query, "check": check.to_document()}
        path = (*_path(dataset, model), "explain")
        return CheckPrice.of((yield from told(self.patience, *path, document=document)))

    def price_of_learning(self, dataset: str, document: Mapping[str, Any]) -> Flow[LearningPrice]:
        """What learning a model would cost."""
        path = (*_path(dataset), "explain")
        return LearningPrice.of((yield from told(self.patience, *path, document=document)))

    def sample(
        self, dataset: str, model: Model, n: int, *, seed: int | None
    ) -> Flow[SyntheticRecords]:
        """Records drawn from a model."""
        path = (*_path(dataset, model), "sample")
        return SyntheticRecords((yield from read_text(self.patience, *path, **_drawn(n, seed))))

    def write_sample(
        self, dataset: str, model: Model, path: str | PathLike[str], n: int, *, seed: int | None
    ) -> Flow[None]:
        """Return once records drawn from a model are in a file."""
        segments, query = (*_path(dataset, model), "sample"), _drawn(n, seed)
        return written(self.patience, *segments, path=Path(path), n_records=n, query=query)

    def export(self, dataset: str, model: Model) -> Flow[str]:
        """A model as text in the format of its field."""
        return read_text(self.patience, *_path(dataset, model), "export")

    def audit(
        self,
        dataset: str,
        network: Network,
        *,
        records: float,
        epsilon: float | None,
        gate: Gate | None,
        options: Mapping[str, Any],
    ) -> Flow[LeakAudit]:
        """What a network could leak, by its structure."""
        document = {"network": _network(network), "records": records, **options}
        if epsilon is not None:
            document["epsilon"] = epsilon
        if gate is not None:
            document["gate"] = gate.to_document()
        path = (*_path(dataset), "audit")
        return LeakAudit.of((yield from told(self.patience, *path, document=document)))

    def propose(
        self,
        dataset: str,
        model: Model,
        *,
        records: float,
        gate: Gate,
        epsilon: float | None,
        variables: Sequence[str] | None,
        options: Mapping[str, Any],
    ) -> Flow[StructureProposal]:
        """A structure under a cap on what it could leak."""
        document = {"records": records, "gate": gate.to_document(), **options}
        if epsilon is not None:
            document["epsilon"] = epsilon
        if variables is not None:
            document["variables"] = list(variables)
        path = (*_path(dataset, model), "structure")
        return StructureProposal.of((yield from told(self.patience, *path, document=document)))

    def _told(
        self, dataset: str, model: Model, document: Mapping[str, Any]
    ) -> Flow[Mapping[str, Any]]:
        return told(self.patience, *_path(dataset, model), "query", document=document)


def network_document(network: Network, *, epsilon: float, allocation: str) -> dict[str, Any]:
    """The body that asks for a network."""
    return {
        "kind": "network",
        "network": _network(network),
        "epsilon": epsilon,
        "allocation": allocation,
    }


def marginals_document(
    marginals: Sequence[Sequence[str]],
    *,
    epsilon: float,
    selection: str,
    oracle: str,
    likelihood: str,
) -> dict[str, Any]:
    """The body that asks for what all tables tell together."""
    return {
        "kind": "marginals",
        "marginals": [list(names) for names in marginals],
        "epsilon": epsilon,
        "selection": selection,
        "oracle": oracle,
        "likelihood": likelihood,
    }


def audit_options(game: str, release: str, reference_records: float | None) -> dict[str, Any]:
    """The members of an audit's body that say how it is made."""
    found: dict[str, Any] = {"game": game, "release": release}
    return found if reference_records is None else found | {"reference_records": reference_records}


def _path(dataset: str, model: Model | None = None) -> tuple[str, ...]:
    head = ("v1", "datasets", dataset, "models")
    if model is None:
        return head
    return (*head, model if isinstance(model, str) else model.id)


def _network(network: Network) -> Any:
    if isinstance(network, str | Mapping):
        return network
    return {"edges": [list(edge) for edge in network]}


def _drawn(n: int, seed: int | None) -> dict[str, str]:
    return {"n": str(n)} | ({} if seed is None else {"seed": str(seed)})
