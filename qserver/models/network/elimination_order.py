"""Plans of variable elimination: the order of the variables, from the structure alone.

A plan depends on the asked and observed variables but not on their values, so it can be cached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from qserver.errors import CapacityError
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
