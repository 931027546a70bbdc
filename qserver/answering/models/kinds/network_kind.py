"""Bayesian networks as a kind of model: their documents, tables and answers.

The two stages of a network's published allocations, as the server runs them.

As printed but for two things. Tables over the same attributes are measured once, at the sum of
their prices: a chain of one noise in place of several. And the sample's parameters are no part of
the network, which follows from history alone (the later version averages them in).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, prod, sqrt
from typing import Any, cast, get_args

import numpy as np

from qserver.answering.models.kinds.kind import (
    NETWORK_FACE,
    Answered,
    Document,
    TwoStages,
    WantedTable,
)
from qserver.answering.models.kinds.marginal_tables import Marginal, marginals
from qserver.errors import CapacityError, NetworkError
from qserver.models.network.bif import read_bif, write_bif
from qserver.models.network.error_bounds import ErrorBounds, even_error_bounds
from qserver.models.network.learning.allocations import (
    ALLOCATIONS,
    one_step_network,
    one_step_prices,
)
from qserver.models.network.learning.estimation import (
    CombinedTables,
    NoisyTable,
    Scope,
    n_cells,
    scope_of,
)
from qserver.models.network.learning.paper_methods import (
    SAMPLING_RATE,
    StageOne,
    StageOneBudget,
    Version,
    final_prices,
)
from qserver.models.network.network import Network, Table, draw_records
from qserver.models.network.structure import Structure, structure_of_edges
from qserver.models.network.variable_elimination import NetworkQuestions
from qserver.query.class_grid import MAX_TABLE_CELLS
from qserver.query.domain import Domain
from qserver.query.linear_query import LinearQuery
from qserver.records.history import AnyMeasurement
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw


def foretold_bounds(
    structure: Structure, allocation: str, tables: Sequence[NoisyTable]
) -> ErrorBounds | None:
    """The bounds on errors of answers, times the number of records; see `even_error_bounds`.

    Args:
        allocation: `best` reads a family off all tables, any other off one of its own.
        tables: the tables that will be released, on the network's variables; values do not
            matter.
    """
    combined = CombinedTables(structure.sizes, tuple(tables))
    noise = []
    for i, size in enumerate(structure.sizes):
        # Attributes of one value are in no table.
        scope = scope_of([v for v in structure.family(i) if structure.sizes[v] > 1])
        if size == 1:
            noise.append(0.0)
        elif allocation == "best":
            noise.append(combined.variance_within(scope, i))
        else:
            noise.append(_own_variance(scope, tables, structure, allocation))
    return even_error_bounds(structure, noise)


def own_table(scope: Scope, tables: Sequence[NoisyTable], structure: Structure) -> NoisyTable:
    """A family's table; if history has none, the sums of a table that contains the family."""
    holding = [t for t in tables if set(t.scope) >= set(scope)]
    found = [_summed(table, scope, structure) for table in holding]
    own = [t for t, wide in zip(found, holding, strict=True) if wide.scope == scope]
    return min(own or found, key=lambda t: t.scale)


def _own_variance(
    scope: Scope, tables: Sequence[NoisyTable], structure: Structure, allocation: str
) -> float:
    if allocation == "rows":
        holding = [t for t in tables if set(t.scope) >= set(scope)]
        return _summed(min(holding, key=lambda t: t.scale), scope, structure).variance
    return own_table(scope, tables, structure).variance


def _summed(table: NoisyTable, scope: Scope, structure: Structure) -> NoisyTable:
    gone = tuple(k for k, i in enumerate(table.scope) if i not in scope)
    summed = n_cells([table.scope[k] for k in gone], structure.sizes)
    # Sums of independent noise: exact in variance, and only the variance is read.
    return NoisyTable(scope, table.scale * summed**0.5, table.values.sum(axis=gone))


# All tables of the sample have one price, and nothing later depends on which one.
_EVEN = StageOneBudget(epsilon=1.0, nominal=1.0, rate=SAMPLING_RATE)


def two_stages(structure: Structure, axes: Sequence[int], version: Version) -> TwoStages:
    """The tables of both stages.

    Args:
        axes: position in the domain of each variable.
    """
    first = [_axes(scope, axes) for scope in _first_scopes(structure, version)]
    final = [_real(scope, structure, axes) for scope in _final_scopes(structure, version)]
    return TwoStages(tuple(first), tuple(dict.fromkeys(final)))


def shares_of(
    structure: Structure, axes: Sequence[int], version: Version, noisy: Sequence[Table]
) -> tuple[float, ...]:
    """The share of stage two's price for each final table, by the noisy counts of the sample.

    Args:
        noisy: per table of the sample its noisy counts, one axis per attribute, ascending.
    """
    tables = iter(noisy)

    def drawn(scope: Scope, _epsilon: float) -> Table:
        order = _axes(scope, axes)
        shape = [structure.sizes[scope[[axes[i] for i in scope].index(a)]] for a in order]
        counts = np.asarray(next(tables), dtype=np.float64).reshape(shape)
        return counts.transpose([order.index(axes[i]) for i in scope])

    measure = cast("Callable[[Scope, float], Table]", drawn)
    first = StageOne.measured(structure, measure, _EVEN, version)
    prices = [price.epsilon for price in final_prices(structure, first, 1.0)]
    if version == "icml":
        prices = [price / 2 for price in (*prices, *prices)]
    found: dict[tuple[int, ...], float] = {}
    for scope, price in zip(_final_scopes(structure, version), prices, strict=True):
        key = _real(scope, structure, axes)
        found[key] = found.get(key, 0.0) + price
    return tuple(found.values())


def _first_scopes(structure: Structure, version: Version) -> list[Scope]:
    """In the order in which stage I measures them."""
    found = []
    for i, parents in enumerate(structure.parents):
        found.append(scope_of(structure.family(i)))
        if version == "icml":
            found.append(scope_of(parents))
    return found


def _final_scopes(structure: Structure, version: Version) -> list[Scope]:
    """Families, then, in the later version, their parents."""
    found = [scope_of(structure.family(i)) for i in range(len(structure.variables))]
    return found if version == "arxiv" else [*found, *map(scope_of, structure.parents)]


def _axes(scope: Scope, axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(axes[i] for i in scope))


def _real(scope: Scope, structure: Structure, axes: Sequence[int]) -> tuple[int, ...]:
    """Attributes with more than one value."""
    return tuple(sorted(axes[i] for i in scope if structure.sizes[i] > 1))


MAX_ANSWER_CELLS = 100_000
MAX_PARENTS = 8
"""Most parents of a variable: all their subsets are looked at."""
MAX_SUBSETS = 70_000
"""Most pairs of a set of a family's variables and a set within it, over all families."""
MAX_CELLS = 1 << 17
"""Most cells of all families together: each costs some tens of microseconds at every use."""
ROWS_AT_ONCE = 10_000


@dataclass(frozen=True)
class _Plan:
    """A specification as objects."""

    structure: Structure
    axes: tuple[int, ...]
    allocation: str


class NetworkKind:
    """Networks over attributes of a dataset; see ModelKind."""

    face = NETWORK_FACE

    def read(self, document: Document, domain: Domain) -> str:
        """The specification: edges, the attributes and the allocation.

        Args:
            document: `network` (BIF text, or `{"edges": [[parent, child], ...]}` with `variables`
                for fewer than all attributes) and `allocation`.
        """
        if set(document) - {"network", "allocation"}:
            raise NetworkError("network", "come with `allocation` only")
        allocation = document.get("allocation", "best")
        if allocation not in ALLOCATIONS:
            raise NetworkError("allocation", f"be one of {', '.join(ALLOCATIONS)}", allocation)
        network = document.get("network")
        if isinstance(network, str):
            structure = read_bif(network).structure
            _check_labels(structure, domain)
            names, edges = list(structure.names), list(structure.edges)
        elif isinstance(network, Mapping):
            names, edges = _names(network, domain), _edges(network)
        else:
            raise NetworkError("network", "be BIF text or an object with `edges`")
        plain = {"variables": names, "edges": [list(e) for e in edges], "allocation": allocation}
        text = json.dumps(plain)
        _plan(text, domain)
        return text

    def check_law(self, specification: str, law: NoiseLaw) -> None:
        """Refuse a secret sample where noise is Gaussian; see ModelKind."""
        allocation = json.loads(specification)["allocation"]
        if law.is_additive and allocation in get_args(Version):
            why = "what a secret sample costs is proven for Laplace noise"
            raise NetworkError(
                "allocation",
                f"be `best`, `rows` or `uniform` in a population under zcdp: {why}",
                allocation,
            )

    def stages(self, specification: str, domain: Domain) -> TwoStages | None:
        """The tables of both stages of a published allocation."""
        plan = _plan(specification, domain)
        version = _version(plan)
        return None if version is None else two_stages(plan.structure, plan.axes, version)

    def shares(
        self, specification: str, domain: Domain, noisy: Sequence[Table]
    ) -> tuple[float, ...]:
        """Shares by the importance of a variable and the relative error of its noisy counts."""
        plan = _plan(specification, domain)
        version = _version(plan)
        if version is None:
            raise NetworkError("allocation", "be one of two stages", plan.allocation)
        return shares_of(plan.structure, plan.axes, version, noisy)

    def wanted(
        self,
        specification: str,
        domain: Domain,
        measurements: Sequence[AnyMeasurement],
        *,
        epsilon: float,
        law: NoiseLaw = LAPLACE,
    ) -> tuple[WantedTable, ...]:
        """The tables that the allocation wants; `best` takes history into account."""
        plan = _plan(specification, domain)
        known: list[NoisyTable] = []
        if plan.allocation == "best":
            known = [t.table for t in _tables(plan, marginals(measurements))]
        prices = one_step_prices(
            plan.structure,
            epsilon=epsilon,
            allocation=plan.allocation,  # type: ignore[arg-type]
            known=known,
            law=law,
        )
        found: dict[tuple[int, ...], float] = {}
        for price in prices:
            axes = tuple(sorted(plan.axes[i] for i in price.scope))
            found[axes] = found.get(axes, 0.0) + price.epsilon
        is_more = plan.allocation == "best"
        return tuple(WantedTable(axes, e, is_more) for axes, e in found.items())

    def error_bounds(
        self, specification: str, domain: Domain, released: Sequence[Marginal]
    ) -> ErrorBounds | None:
        """Bounds on the errors of answers, from those of parameters; see `even_error_bounds`."""
        plan = _plan(specification, domain)
        tables = [known.table for known in _tables(plan, released)]
        return foretold_bounds(plan.structure, plan.allocation, tables)

    def used(
        self, specification: str, domain: Domain, measurements: Sequence[AnyMeasurement]
    ) -> tuple[int, ...]:
        """Ids of the tables that share a variable with a family."""
        plan = _plan(specification, domain)
        tables = _tables(plan, marginals(measurements))
        _check_held(plan.structure, tables)
        return tuple(sorted(number for t in tables for number in t.ids))

    def build(
        self, specification: str, domain: Domain, measurements: Sequence[AnyMeasurement]
    ) -> LearntNetwork:
        """The network from all marginals of its attributes."""
        plan = _plan(specification, domain)
        found = _tables(plan, marginals(measurements))
        _check_held(plan.structure, found)
        tables = [t.table for t in found]
        if plan.allocation == "best":
            network = one_step_network(plan.structure, tables)
        else:
            network = _from_own_tables(plan, tables)
        combined = CombinedTables(plan.structure.sizes, tuple(tables))
        n_records = max(float(combined.marginal(())), 0.0)
        return LearntNetwork(network, plan.axes, n_records)


@dataclass(frozen=True, eq=False)
class _Known:
    """A marginal of history on the network's variables, and the ids of its measurements."""

    ids: tuple[int, ...]
    table: NoisyTable


class LearntNetwork:
    """A network made from history, with an estimate of the number of records; see Model.

    Args:
        axes: position in the domain of each variable.
        n_records: expected number of records.
    """

    def __init__(self, network: Network, axes: Sequence[int], n_records: float) -> None:
        self.network = network
        self._axes = {axis: i for i, axis in enumerate(axes)}
        self._n_records = n_records
        self._questions = NetworkQuestions(network)

    def ask(self, question: Document) -> Answered:
        """`{"marginal": [names], "given": {name: label}}`, or `most_probable` in its place."""
        given = _labels_by_name(question.get("given", {}))
        if "marginal" in question:
            return self._marginal(_names_of(question["marginal"], "marginal"), given)
        names = question.get("most_probable")
        asked = None if names is None else _names_of(names, "most_probable")
        best = self._questions.most_probable(asked, given)
        return Answered({"labels": best.labels, "probability": exp(best.log_probability)})

    def _marginal(self, names: Sequence[str], given: Mapping[str, str]) -> Answered:
        # Before cells are counted: of names that return, their number may be too long to print.
        if len(set(names)) < len(names):
            raise NetworkError("marginal", "name each variable once")
        structure = self.network.structure
        cells = prod(structure.sizes[structure.index(n)] for n in names)
        if cells > MAX_ANSWER_CELLS:
            raise CapacityError(
                f"The answer would have {cells:,} cells; at most {MAX_ANSWER_CELLS:,} are given."
            )
        found = self._questions.probability(names, given)
        labels = [list(structure.variables[structure.index(n)].labels) for n in names]
        return Answered(
            {"variables": list(names), "labels": labels, "probabilities": found.tolist()}
        )

    def count(self, query: LinearQuery) -> float:
        """The number of records times the expectation of the query's weights."""
        names = self.network.names
        total = 0.0
        for term in query.terms:
            weights = {}
            for axis, w in term.by_axis.items():
                if axis not in self._axes:
                    raise NetworkError("count", "be about the network's attributes only")
                values = np.asarray(w.dense, dtype=np.float64)
                weights[names[self._axes[axis]]] = values
            total += float(term.coefficient) * self._questions.expected(weights)
        return self._n_records * total

    def columns(self) -> tuple[str, ...]:
        """The variables' names."""
        return self.network.names

    def records(self, n: int, generator: np.random.Generator) -> Iterator[tuple[str, ...]]:
        """Records by ancestral sampling, some thousands at a time."""
        labels = [np.array(v.labels, dtype=object) for v in self.network.structure.variables]
        for start in range(0, n, ROWS_AT_ONCE):
            drawn = draw_records(self.network, min(ROWS_AT_ONCE, n - start), generator)
            columns = [labels[i][drawn[:, i]] for i in range(len(labels))]
            yield from zip(*columns, strict=True)

    def export(self) -> str:
        """The network as BIF."""
        return write_bif(self.network)

    def describe(self) -> dict[str, Any]:
        """Variables, edges, parameters and the expected number of records."""
        return {
            "variables": list(self.network.names),
            "edges": [list(e) for e in self.network.structure.edges],
            "n_parameters": self.network.n_parameters,
            "n_records": self._n_records,
        }


def _plan(specification: str, domain: Domain) -> _Plan:
    plain = json.loads(specification)
    names = [str(n) for n in plain["variables"]]
    axes = [domain.axis(n) for n in names]
    labels = {}
    for name, axis in zip(names, axes, strict=True):
        if axis is None or name in labels:
            raise NetworkError("variables", "be attributes of the dataset, each once", name)
        labels[name] = domain.attributes[axis].value_names
    structure = structure_of_edges(labels, [(str(p), str(c)) for p, c in plain["edges"]])
    check_learnable(structure)
    return _Plan(structure, tuple(a for a in axes if a is not None), str(plain["allocation"]))


def _version(plan: _Plan) -> Version | None:
    if plan.allocation == "arxiv":
        return "arxiv"
    return "icml" if plan.allocation == "icml" else None


def check_learnable(structure: Structure) -> None:
    """Return if a network of this structure may be learnt; NetworkError if too large."""
    n_cells = [prod(structure.family_shape(i)) for i in range(len(structure.names))]
    for name, parents, cells in zip(structure.names, structure.parents, n_cells, strict=True):
        if cells > MAX_TABLE_CELLS:
            raise NetworkError(name, f"have at most {MAX_TABLE_CELLS:,} cells with its parents")
        if len(parents) > MAX_PARENTS:
            raise NetworkError(name, f"have at most {MAX_PARENTS} parents", len(parents))
    if sum(n_cells) > MAX_CELLS:
        raise NetworkError("network", f"have at most {MAX_CELLS:,} cells in all", sum(n_cells))
    if sum(3 ** (len(parents) + 1) for parents in structure.parents) > MAX_SUBSETS:
        raise NetworkError("network", "have fewer variables with many parents")


def _tables(plan: _Plan, released: Sequence[Marginal]) -> list[_Known]:
    """Every marginal of history that has some of the network's variables, or the total."""
    place = {axis: i for i, axis in enumerate(plan.axes)}
    return [_known(m, place) for m in released]


def _known(marginal: Marginal, place: Mapping[int, int]) -> _Known:
    """The marginal, summed over attributes outside the network, and its variance."""
    gone = tuple(k for k, axis in enumerate(marginal.axes) if axis not in place)
    summed = prod(marginal.values.shape[k] for k in gone)
    kept = [place[axis] for axis in marginal.axes if axis in place]
    scope = scope_of(kept)
    values = marginal.values.sum(axis=gone).transpose([kept.index(i) for i in scope])
    return _Known(marginal.ids, NoisyTable(scope, marginal.scale * sqrt(summed), values))


def _check_held(structure: Structure, tables: Sequence[_Known]) -> None:
    combined = CombinedTables(structure.sizes, tuple(t.table for t in tables))
    for i, name in enumerate(structure.names):
        if not combined.holds(scope_of(structure.family(i))):
            raise NetworkError(
                "epsilon",
                "be above zero",
                hint=f"History has no table of {name} with its parents: it must be bought.",
            )


def _from_own_tables(plan: _Plan, tables: Sequence[NoisyTable]) -> Network:
    """Per family its own least noisy table: the estimate of all allocations but `best`."""
    structure = plan.structure
    if plan.allocation == "rows":
        by_noise = sorted(tables, key=lambda t: t.scale)
        return one_step_network(structure, by_noise, allocation="rows")
    scopes = [scope_of(structure.family(i)) for i in range(len(structure.variables))]
    own = [own_table(scope, tables, structure) for scope in scopes]
    return one_step_network(structure, own, allocation="uniform")


def _check_labels(structure: Structure, domain: Domain) -> None:
    for variable in structure.variables:
        axis = domain.axis(variable.name)
        if axis is None:
            raise NetworkError("network", "be over attributes of the dataset", variable.name)
        if set(variable.labels) != set(domain.attributes[axis].value_names):
            raise NetworkError(variable.name, "have the labels of the dataset's attribute")


def _names(network: Mapping[str, Any], domain: Domain) -> list[str]:
    if set(network) - {"edges", "variables"}:
        raise NetworkError("network", "hold `edges` and `variables` only")
    return _names_of(network.get("variables", list(domain.names)), "variables")


def _edges(network: Mapping[str, Any]) -> list[tuple[str, str]]:
    edges = network.get("edges")
    if not isinstance(edges, list):
        raise NetworkError("edges", "be a list of pairs [parent, child]")
    for edge in edges:
        is_pair = isinstance(edge, list) and len(edge) == 2
        if not is_pair or not all(isinstance(e, str) for e in edge):
            raise NetworkError("edges", "be a list of pairs [parent, child]")
    return [(p, c) for p, c in edges]


def _names_of(names: object, field: str) -> list[str]:
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise NetworkError(field, "be a list of one or more names")
    return names


def _labels_by_name(given: object) -> dict[str, str]:
    if not isinstance(given, Mapping) or not all(isinstance(v, str) for v in given.values()):
        raise NetworkError("given", "be an object of a label per variable")
    return dict(given)
