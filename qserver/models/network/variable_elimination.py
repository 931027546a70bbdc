"""Exact answers of a network: marginal, conditional and most probable values.

Variable elimination (Koller and Friedman, 2009, chapter 9 and section 13.2) with cached plans.

Plans of variable elimination: the order of the variables, from the structure alone.

A plan depends on the asked and observed variables but not on their values, so it can be cached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, inf, log, prod

import numpy as np

from qserver.errors import CapacityError, NetworkError
from qserver.models.network.network import Network, Table
from qserver.models.network.structure import Structure

MAX_FACTOR_CELLS = 1 << 24

Scope = tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """One elimination step: factors are multiplied, and one variable is removed.

    Args:
        variable: the removed variable.
        factors: places of the factors with this variable in the list of all factors so far.
        shapes: how each factor is reshaped so that the product's axes align.
        scope: the product's variables, ascending.
        axis: the axis of `variable` in the product.
    """

    variable: int
    factors: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    scope: Scope
    axis: int


@dataclass(frozen=True)
class Elimination:
    """A plan that reduces the tables of the relevant variables to the asked variables.

    Args:
        relevant: variables whose tables take part, ascending; the k-th table is factor k. Each is
            sliced at the observed values and has its axes in ascending order.
        steps: the result of step s is factor len(relevant) + s.
        last: places of the remaining factors.
        last_shapes: how each of them is reshaped to the axes of `kept`.
        kept: the asked variables, ascending.
        largest: cells of the largest product.
    """

    relevant: tuple[int, ...]
    steps: tuple[Step, ...]
    last: tuple[int, ...]
    last_shapes: tuple[tuple[int, ...], ...]
    kept: Scope
    largest: int


def plan_elimination(
    structure: Structure,
    kept: Iterable[int],
    observed: Iterable[int],
    *,
    last: Iterable[int] = (),
    weighted: Iterable[int] = (),
) -> Elimination:
    """A plan to eliminate all variables except `kept` and `observed`, by least fill.

    A variable that is not an ancestor of an asked or observed one sums to one and is left out.

    Args:
        last: unobserved variables to eliminate after all others. The maximum is taken over these,
            since maximum and sum do not commute.
        weighted: further variables whose tables take part.

    Raises:
        CapacityError: a product would have more than 2^24 cells.
    """
    kept, observed, last = frozenset(kept), frozenset(observed), frozenset(last)
    touched = kept | observed | last | frozenset(weighted)
    relevant = tuple(sorted(structure.ancestors(touched)))
    scopes = [tuple(sorted(set(structure.family(i)) - observed)) for i in relevant]
    free = set(relevant) - observed - kept
    order = least_fill_order(scopes, free - last, structure.sizes)
    live = dict(enumerate(scopes))
    steps = _steps(live, order, structure.sizes, n_first=len(scopes))
    if last:
        rest = least_fill_order(list(live.values()), last, structure.sizes)
        steps += _steps(live, rest, structure.sizes, n_first=len(scopes) + len(steps))
    kept_scope = tuple(sorted(kept))
    largest = max([_cells(s.scope, structure.sizes) for s in steps] + [1])
    largest = max(largest, _cells(kept_scope, structure.sizes))
    if largest > MAX_FACTOR_CELLS:
        raise CapacityError(
            f"The question needs a table of {largest:,} cells; at most {MAX_FACTOR_CELLS:,} fit."
        )
    shapes = tuple(_aligned(live[k], kept_scope, structure.sizes) for k in live)
    return Elimination(relevant, tuple(steps), tuple(live), shapes, kept_scope, largest)


def _steps(
    live: dict[int, Scope], order: Sequence[int], sizes: Sequence[int], *, n_first: int
) -> list[Step]:
    """The steps for `order`; updates `live`, the remaining factors by place."""
    steps: list[Step] = []
    for variable in order:
        held = tuple(place for place, scope in live.items() if variable in scope)
        scope = tuple(sorted(set().union(*(live[place] for place in held))))
        shapes = tuple(_aligned(live[place], scope, sizes) for place in held)
        axis = scope.index(variable)
        for place in held:
            del live[place]
        live[n_first + len(steps)] = scope[:axis] + scope[axis + 1 :]
        steps.append(Step(variable, held, shapes, scope, axis))
    return steps


def _aligned(scope: Scope, onto: Scope, sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple(sizes[i] if i in scope else 1 for i in onto)


def _cells(scope: Iterable[int], sizes: Sequence[int]) -> int:
    return prod(sizes[i] for i in scope)


def least_fill_order(
    scopes: Iterable[Scope], variables: Iterable[int], sizes: Sequence[int]
) -> tuple[int, ...]:
    """An elimination order: next comes the variable that joins the fewest pairs of neighbours.

    Ties go to the smaller product, then to the earlier variable.
    """
    return tuple(variable for variable, _ in _by_least_fill(scopes, variables, sizes))


def _by_least_fill(
    scopes: Iterable[Scope], variables: Iterable[int], sizes: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """The order: each variable with its number of neighbours when it is removed."""
    around = _neighbours(scopes)
    waiting = set(variables)
    costs = {v: _cost(v, around, sizes) for v in waiting}
    while waiting:
        best = min(waiting, key=costs.__getitem__)
        waiting.remove(best)
        beside = around.pop(best, set())
        yield best, len(beside)
        for i in beside:
            around[i] |= beside
            around[i] -= {i, best}
        # Only costs within two edges of `best` can have changed.
        near = beside.union(*(around[i] for i in beside)) if beside else set()
        costs.update((v, _cost(v, around, sizes)) for v in near & waiting)


def _neighbours(scopes: Iterable[Scope]) -> dict[int, set[int]]:
    around: dict[int, set[int]] = {}
    for scope in scopes:
        for i in scope:
            around.setdefault(i, set()).update(scope)
    for i, beside in around.items():
        beside.discard(i)
    return around


def _cost(
    variable: int, around: Mapping[int, set[int]], sizes: Sequence[int]
) -> tuple[int, int, int]:
    beside = around.get(variable, set())
    n_joined = sum(len(around[i] & beside) for i in beside) // 2
    n_pairs = len(beside) * (len(beside) - 1) // 2
    return n_pairs - n_joined, _cells(beside, sizes), variable


def width(structure: Structure, *, most: int) -> int | None:
    """The width of the least-fill order of the whole graph: an upper bound on its treewidth.

    Args:
        most: the search ends when the width exceeds this.

    Returns:
        The width, or None if it exceeds `most`.
    """
    scopes = [structure.family(i) for i in range(len(structure.variables))]
    widest = 0
    for _, n_beside in _by_least_fill(scopes, range(len(scopes)), structure.sizes):
        widest = max(widest, n_beside)
        if widest > most:
            return None
    return widest


_MOST_PLANS = 256

# The observed label of each observed variable.
Evidence = Mapping[str, str]


@dataclass(frozen=True)
class MostProbable:
    """The most probable joint value of some variables.

    Args:
        labels: a label per asked variable.
        log_probability: natural logarithm of their joint probability given the evidence.
    """

    labels: dict[str, str]
    log_probability: float


@dataclass(frozen=True, eq=False)
class NetworkQuestions:
    """Answers questions about one network, with a cache of recent plans. Not thread-safe.

    Args:
        network: the network.
    """

    network: Network
    _plans: dict[tuple[Scope, Scope, Scope], Elimination] = field(default_factory=dict, repr=False)
    _tables: tuple[Table, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        structure = self.network.structure
        tables = []
        for i, cpd in enumerate(self.network.cpds):
            axes = np.argsort(structure.family(i))
            tables.append(np.ascontiguousarray(cpd.transpose(axes)))
        object.__setattr__(self, "_tables", tuple(tables))

    def probability(self, names: Sequence[str], evidence: Evidence | None = None) -> Table:
        """P(names | evidence), one axis per name in the order asked.

        Raises:
            NetworkError: an unknown name or label, a name that occurs twice or is also observed,
                or evidence of probability zero.
            CapacityError: a table would have more than 2^24 cells.
        """
        asked = self._asked(names, evidence or {})
        observed = self._observed(evidence or {})
        plan = self._plan(tuple(sorted(asked)), tuple(sorted(observed)), ())
        factors, _ = self._eliminated(plan, observed)
        joint, _ = _product([factors[k] for k in plan.last], plan.last_shapes)
        total = joint.sum()
        if not total > 0:
            raise NetworkError("evidence", "have a probability above zero in the model")
        return np.asarray(np.transpose(joint / total, [plan.kept.index(i) for i in asked]))

    def expected(self, weights: Mapping[str, Table]) -> float:
        """Mean of a product of functions of single variables.

        Args:
            weights: per variable, the function's value at each label; any real numbers.

        Raises:
            NetworkError: an unknown name, or a number of values that is not that of the labels.
            CapacityError: a table would have more than 2^24 cells.
        """
        structure = self.network.structure
        by_place = {structure.index(name): w for name, w in weights.items()}
        for i, values in by_place.items():
            if values.shape != (structure.sizes[i],):
                raise NetworkError(structure.names[i], "have one weight per label", values.shape)
        plan = plan_elimination(structure, (), (), weighted=by_place)
        factors = [self._weighted(i, by_place) for i in plan.relevant]
        for step in plan.steps:
            product, log_left = _product([factors[k] for k in step.factors], step.shapes)
            factors.append(np.add.reduce(product, axis=step.axis) * exp(log_left))
        return float(np.prod([float(factors[k]) for k in plan.last]))

    def _weighted(self, i: int, weights: Mapping[int, Table]) -> Table:
        if i not in weights:
            return self._tables[i]
        axes = sorted(self.network.structure.family(i))
        shape = [-1 if j == i else 1 for j in axes]
        return self._tables[i] * weights[i].reshape(shape)

    def log_evidence(self, evidence: Evidence) -> float:
        """Natural logarithm of the probability of the evidence; minus infinity if it is 0."""
        observed = self._observed(evidence)
        plan = self._plan((), tuple(sorted(observed)), ())
        factors, log_scale = self._eliminated(plan, observed)
        return _log_of_product([float(factors[k]) for k in plan.last]) + log_scale

    def most_probable(
        self, names: Sequence[str] | None = None, evidence: Evidence | None = None
    ) -> MostProbable:
        """The most probable joint value of `names`, with the other variables summed out.

        Of equally probable values, the one with the earliest labels in order of elimination.

        Args:
            names: the asked variables; by default all that are not observed.

        Raises:
            NetworkError, CapacityError: as `probability`.
        """
        evidence = evidence or {}
        if names is None:
            names = [n for n in self.network.names if n not in evidence]
        asked, observed = self._asked(names, evidence), self._observed(evidence)
        plan = self._plan((), tuple(sorted(observed)), tuple(sorted(asked)))
        n_sums = len(plan.steps) - len(asked)
        factors, log_scale = self._eliminated(plan, observed, n_sums=n_sums)
        best = _maximised(plan, factors, n_sums)
        log_evidence = self.log_evidence(evidence)
        if log_evidence == -inf:
            raise NetworkError("evidence", "have a probability above zero in the model")
        variables = self.network.structure.variables
        labels = {variables[i].name: variables[i].labels[best.values[i]] for i in asked}
        return MostProbable(labels, best.log_value + log_scale - log_evidence)

    def _asked(self, names: Sequence[str], evidence: Evidence) -> list[int]:
        if not names or len(set(names)) < len(names):
            raise NetworkError("variables", "name one or more variables, each once")
        for name in names:
            if name in evidence:
                raise NetworkError("variables", "not be observed too", name)
        return [self.network.structure.index(name) for name in names]

    def _observed(self, evidence: Evidence) -> dict[int, int]:
        structure = self.network.structure
        places = {structure.index(name): label for name, label in evidence.items()}
        return {i: structure.label_index(i, label) for i, label in places.items()}

    def _plan(self, kept: Scope, observed: Scope, last: Scope) -> Elimination:
        key = (kept, observed, last)
        found = self._plans.get(key)
        if found is None:
            found = plan_elimination(self.network.structure, kept, observed, last=last)
            if len(self._plans) >= _MOST_PLANS:
                self._plans.pop(next(iter(self._plans)))
            self._plans[key] = found
        return found

    def _eliminated(
        self, plan: Elimination, observed: Mapping[int, int], *, n_sums: int | None = None
    ) -> tuple[list[Table], float]:
        """All factors after the first `n_sums` steps, and the log of the factor taken out."""
        factors = [self._sliced(i, observed) for i in plan.relevant]
        log_scale = 0.0
        for step in plan.steps[:n_sums]:
            product, log_left = _product([factors[k] for k in step.factors], step.shapes)
            summed = np.add.reduce(product, axis=step.axis)
            log_scale += log_left
            if observed:
                # Many observations give small numbers; without observations nothing underflows.
                peak = float(summed.max())
                if peak > 0:
                    summed, log_scale = summed / peak, log_scale + log(peak)
            factors.append(summed)
        return factors, log_scale

    def _sliced(self, i: int, observed: Mapping[int, int]) -> Table:
        table = self._tables[i]
        family = self.network.structure.family(i)
        if observed.keys().isdisjoint(family):
            return table
        return np.asarray(table[tuple(observed.get(j, slice(None)) for j in sorted(family))])


def _product(factors: Sequence[Table], shapes: Iterable[tuple[int, ...]]) -> tuple[Table, float]:
    """The product of aligned factors up to a power of e, and that power.

    Long products are rescaled to one on the way so that they do not underflow.
    """
    result: Table = np.ones(())
    log_left = 0.0
    for n, (factor, shape) in enumerate(zip(factors, shapes, strict=True)):
        part = factor.reshape(shape)
        result = part if n == 0 else result * part
        if n % 8 == 7:
            peak = float(np.abs(result).max())
            if peak > 0:
                result, log_left = result / peak, log_left + log(peak)
    return result, log_left


def _log_of_product(values: Sequence[float]) -> float:
    return sum(map(log, values)) if all(v > 0 for v in values) else -inf


@dataclass(frozen=True)
class _Maximum:
    log_value: float
    values: dict[int, int]


def _maximised(plan: Elimination, factors: list[Table], n_sums: int) -> _Maximum:
    """Logarithm of the greatest product, and the values that attain it."""
    with np.errstate(divide="ignore"):
        logs = [np.log(factor) for factor in factors]
    choices = []
    for step in plan.steps[n_sums:]:
        shaped = [logs[k].reshape(s) for k, s in zip(step.factors, step.shapes, strict=True)]
        total = sum(shaped[1:], start=shaped[0])
        choices.append((step, np.argmax(total, axis=step.axis)))
        logs.append(np.max(total, axis=step.axis))
    best = float(sum(float(logs[k]) for k in plan.last))
    values: dict[int, int] = {}
    for step, choice in reversed(choices):
        others = tuple(values[i] for i in step.scope if i != step.variable)
        values[step.variable] = int(choice[others])
    return _Maximum(best, values)
