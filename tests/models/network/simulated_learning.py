"""Learning of a network from simulated tables, with all five allocations in one call.

The server buys the same tables through its worker. Here a source gives them at once, so that tests
and benchmarks can compare the allocations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import expm1, log1p
from typing import Protocol

from qserver.errors import NetworkError
from qserver.models.network.learning.allocations import (
    ALLOCATIONS,
    Allocation,
    one_step_network,
    one_step_prices,
)
from qserver.models.network.learning.estimation import NoisyTable, Scope, TablePrice, scope_of
from qserver.models.network.learning.paper_methods import (
    SAMPLING_RATE,
    StageOne,
    StageOneBudget,
    Version,
    consistent_network,
    final_prices,
)
from qserver.models.network.network import Network, Table, normalised
from qserver.models.network.structure import Structure

STAGE_ONE_SHARE = 0.1


class TableSource(Protocol):
    """A source of noisy tables: a worker or a simulation."""

    def measure(self, scope: Scope, epsilon: float) -> Table:
        """Counts over `scope`, each with Laplace noise of scale 1 / epsilon."""

    def sample(self, rate: float) -> TableSource:
        """A Poisson sample of the records: each is kept with probability `rate`."""


@dataclass(frozen=True, eq=False)
class Learned:
    """The result of learning.

    Args:
        network: the network with learnt parameters.
        tables: the noisy tables of all records, as released, without processing.
        stage_one_epsilon: cost of the sample's tables together, after amplification; 0 without.
    """

    network: Network
    tables: tuple[NoisyTable, ...]
    stage_one_epsilon: float = 0.0


def learn(
    structure: Structure,
    source: TableSource,
    *,
    epsilon: float,
    allocation: Allocation = "best",
    known: Sequence[NoisyTable] = (),
) -> Learned:
    """Parameters of a network from tables bought for `epsilon`.

    Args:
        known: tables released already; only `best` uses them.

    Raises:
        NetworkError: epsilon is not above zero, or the allocation is unknown.
    """
    if not epsilon > 0:
        raise NetworkError("epsilon", "be above zero", epsilon)
    if allocation not in ALLOCATIONS:
        raise NetworkError("allocation", f"be one of {', '.join(ALLOCATIONS)}", allocation)
    if allocation in ("arxiv", "icml"):
        return _learn_in_two_stages(structure, source, epsilon, allocation)
    prices = one_step_prices(structure, epsilon=epsilon, allocation=allocation, known=known)
    tables = tuple(_measured(source, price) for price in prices)
    network = one_step_network(structure, (*known, *tables), allocation=allocation)
    return Learned(network, tables)


def stage_one_budget(epsilon: float, *, rate: float = SAMPLING_RATE) -> StageOneBudget:
    """A tenth of `epsilon`, and the nominal epsilon that it allows on a sample of this rate."""
    own = STAGE_ONE_SHARE * epsilon
    return StageOneBudget(own, log1p(expm1(own) / rate), rate)


def _measured(source: TableSource, price: TablePrice) -> NoisyTable:
    values = source.measure(price.scope, price.epsilon)
    return NoisyTable(price.scope, 1 / price.epsilon, values)


def _learn_in_two_stages(
    structure: Structure, source: TableSource, epsilon: float, version: Version
) -> Learned:
    budget = stage_one_budget(epsilon)
    sample = source.sample(budget.rate)
    first = StageOne.measured(structure, sample.measure, budget, version)
    prices = final_prices(structure, first, epsilon - budget.epsilon)
    # The last version measures the parents' tables with half of each price: see paper_allocation.
    share = 0.5 if version == "icml" else 1.0
    tables = tuple(_measured(source, TablePrice(p.scope, share * p.epsilon)) for p in prices)
    bought = list(tables)
    if version == "icml":
        for price, parents in zip(prices, structure.parents, strict=True):
            bought.append(_measured(source, TablePrice(scope_of(parents), price.epsilon / 2)))
    own = consistent_network(structure, tables)
    network = final_network(own, first, prices, budget, version)
    return Learned(network, tuple(bought), budget.epsilon)


def final_network(
    own: Network,
    first: StageOne,
    prices: Sequence[TablePrice],
    budget: StageOneBudget,
    version: Version,
) -> Network:
    """Stage II's parameters (`arxiv`), or their mean with stage I's by nominal epsilon (`icml`)."""
    if version == "arxiv":
        return own
    share = budget.epsilon / len(prices)
    cpds = []
    for price, early, late in zip(prices, first.network.cpds, own.cpds, strict=True):
        weight = share / (price.epsilon + share)
        cpds.append(normalised(weight * early + (1 - weight) * late))
    return Network(own.structure, tuple(cpds))
