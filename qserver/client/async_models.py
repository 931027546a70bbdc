"""What can be asked about models, with answers that are awaited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from types import MappingProxyType
from typing import Protocol

from qserver.client.flows import Flow, Patience, T
from qserver.client.leaks import LeakAudit, StructureProposal
from qserver.client.model_requests import (
    Check,
    Gate,
    Model,
    ModelRequests,
    Network,
    audit_options,
    marginals_document,
    network_document,
)
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

_NOTHING: Mapping[str, str] = MappingProxyType({})


class AsyncRun(Protocol):
    """Carries out a flow."""

    async def __call__(self, flow: Flow[T]) -> T:
        """What the flow comes to."""


class AsyncModelPrices:
    """What learning and checking would cost, by the same arguments; nothing is spent."""

    def __init__(self, run: AsyncRun, requests: ModelRequests) -> None:
        self._run = run
        self._requests = requests

    async def network(
        self, dataset: str, network: Network, *, epsilon: float, allocation: str = "best"
    ) -> LearningPrice:
        """What `learn_network` would cost, and which tables it would buy.

        Args:
            network: BIF text, edges (parent, child), or the object that HTTP takes.
        """
        document = network_document(network, epsilon=epsilon, allocation=allocation)
        return await self._run(self._requests.price_of_learning(dataset, document))

    async def marginals(
        self,
        dataset: str,
        marginals: Sequence[Sequence[str]] = (),
        *,
        epsilon: float,
        selection: str = "best",
        oracle: str = "auto",
        likelihood: str = "squares",
    ) -> LearningPrice:
        """What `learn_marginals` would cost, and which tables it would buy."""
        document = marginals_document(
            marginals,
            epsilon=epsilon,
            selection=selection,
            oracle=oracle,
            likelihood=likelihood,
        )
        return await self._run(self._requests.price_of_learning(dataset, document))

    async def check(
        self,
        dataset: str,
        model: Model,
        query: Query,
        *,
        length: float,
        confidence: float = 0.95,
        fallback_length: float | None = None,
    ) -> CheckPrice:
        """What `check` would cost, and what would happen."""
        check = Check(length, confidence, fallback_length)
        return await self._run(self._requests.price_of_check(dataset, model, query, check))


class AsyncModels:
    """`Models` whose answers are awaited; `client.models` of an `AsyncClient`.

    Asking a model costs nothing; learning and checking do. `model` is an id, or what was told of
    the model. All methods raise as those of the client do.
    """

    def __init__(self, run: AsyncRun, patience: Patience) -> None:
        self._run = run
        self._requests = ModelRequests(patience)
        self.prices = AsyncModelPrices(run, self._requests)

    async def learn_network(
        self, dataset: str, network: Network, *, epsilon: float, allocation: str = "best"
    ) -> LearntModel:
        """Learn a network from tables bought for `epsilon` beside those of history.

        Args:
            network: BIF text, edges (parent, child), or the object that HTTP takes.
        """
        document = network_document(network, epsilon=epsilon, allocation=allocation)
        return await self._run(self._requests.learn(dataset, document))

    async def learn_marginals(
        self,
        dataset: str,
        marginals: Sequence[Sequence[str]] = (),
        *,
        epsilon: float,
        selection: str = "best",
        oracle: str = "auto",
        likelihood: str = "squares",
    ) -> LearntModel:
        """Learn what all tables tell together; `epsilon` is spent for these marginals."""
        document = marginals_document(
            marginals,
            epsilon=epsilon,
            selection=selection,
            oracle=oracle,
            likelihood=likelihood,
        )
        return await self._run(self._requests.learn(dataset, document))

    async def all(self, dataset: str) -> list[ModelInfo]:
        """The models of a dataset's present snapshot."""
        return await self._run(self._requests.all(dataset))

    async def get(self, dataset: str, model: Model) -> ModelInfo:
        """One model with its facts."""
        return await self._run(self._requests.get(dataset, model))

    async def marginal(
        self,
        dataset: str,
        model: Model,
        variables: Sequence[str],
        *,
        given: Mapping[str, str] = _NOTHING,
    ) -> Distribution:
        """The joint distribution of some variables, given labels of others."""
        return await self._run(self._requests.marginal(dataset, model, variables, given=given))

    async def most_probable(
        self,
        dataset: str,
        model: Model,
        variables: Sequence[str] = (),
        *,
        given: Mapping[str, str] = _NOTHING,
    ) -> MostProbable:
        """The most probable labels of some variables of a network; of all others if none."""
        flow = self._requests.most_probable(dataset, model, variables, given=given)
        return await self._run(flow)

    async def count(self, dataset: str, model: Model, query: Query) -> ModelCount:
        """What a model expects of a linear counting query, without a guarantee."""
        return await self._run(self._requests.count(dataset, model, query))

    async def check(
        self,
        dataset: str,
        model: Model,
        query: Query,
        *,
        length: float,
        confidence: float = 0.95,
        fallback_length: float | None = None,
    ) -> ModelCount:
        """The same beside an interval of at most `length`, from history or bought, and a verdict.

        Args:
            fallback_length: measure to this length where the interval contradicts the model.
        """
        check = Check(length, confidence, fallback_length)
        return await self._run(self._requests.check(dataset, model, query, check))

    async def sample(
        self, dataset: str, model: Model, n: int = 1000, *, seed: int | None = None
    ) -> SyntheticRecords:
        """Synthetic records, of 64 MiB at most; the same for the same seed."""
        return await self._run(self._requests.sample(dataset, model, n, seed=seed))

    async def write_sample(
        self,
        dataset: str,
        model: Model,
        path: str | PathLike[str],
        n: int = 1000,
        *,
        seed: int | None = None,
    ) -> None:
        """Write synthetic records to a CSV file as they come, 1,000,000 at most."""
        await self._run(self._requests.write_sample(dataset, model, path, n, seed=seed))

    async def export(self, dataset: str, model: Model) -> str:
        """A network as BIF, other models as JSON text."""
        return await self._run(self._requests.export(dataset, model))

    async def audit(
        self,
        dataset: str,
        network: Network,
        *,
        records: float,
        epsilon: float | None = None,
        gate: Gate | None = None,
        game: str = "replaced",
        release: str = "tables",
        reference_records: float | None = None,
    ) -> LeakAudit:
        """How well anyone could tell whose records a network was learnt from, by its structure."""
        flow = self._requests.audit(
            dataset,
            network,
            records=records,
            epsilon=epsilon,
            gate=gate,
            options=audit_options(game, release, reference_records),
        )
        return await self._run(flow)

    async def propose(
        self,
        dataset: str,
        model: Model,
        *,
        records: float,
        gate: Gate,
        epsilon: float | None = None,
        variables: Sequence[str] | None = None,
        max_parents: int = 2,
        min_gain: float = 0.01,
        game: str = "replaced",
        release: str = "tables",
    ) -> StructureProposal:
        """A structure for a network, as rich as `gate` lets it be, by a model's correlations."""
        flow = self._requests.propose(
            dataset,
            model,
            records=records,
            gate=gate,
            epsilon=epsilon,
            variables=variables,
            options={
                **audit_options(game, release, None),
                "max_parents": max_parents,
                "min_gain": min_gain,
            },
        )
        return await self._run(flow)
