"""Learning of a network's parameters within a budget, with five allocations of the budget.

| allocation | tables | divided by | parameters |
|---|---|---|---|
| `best` | few wide ones | expected error, without data | posterior means from all tables |
| `rows` | maximal families | root of the number of rows* | each family from its own table |
| `uniform` | every family | equally | own table after consistency |
| `arxiv`, `icml` | every family | as printed in two versions of one paper | as `uniform` |

* The least sum over tables of rows times deviation. In rho it is their number to the power of 2/3.

The first three take one step: their tables are known before any data is read, and the rest is
post-processing. The last two first spend a tenth on a sample (paper_methods); the server
runs them by `qserver.answering.models.kinds.network_kind`.

Table choice: which tables to measure for a network's parameters, and how exactly, without data.

The objective is the expected absolute error of the parameters, to first order and up to a constant:
the sum over families of a public weight times the standard deviation per cell under the weights of
least variance on all tables. The tables are the maximal families. Two of them are merged into one
wider table if that lowers the objective. A merged table with four times the cells, at the sum of
both prices, is as exact for each family as a separate table, so any smaller one gains. Under
Gaussian noise it is so with twice the cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import sqrt
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from qserver.errors import NetworkError
from qserver.models.network.learning.estimation import (
    NoisyTable,
    Scope,
    TablePrice,
    component_share,
    n_cells,
    network_from_tables,
    onto_family,
    scope_of,
    subsets,
)
from qserver.models.network.learning.paper_methods import consistent_network
from qserver.models.network.network import Network, normalised
from qserver.models.network.structure import Structure
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw

Floats = NDArray[np.float64]

MAX_MERGED_CELLS = 4096
MAX_CHOICE_SIZE = 1 << 23
"""Most entries of the matrices of the choice; models learnt by a server stay far below."""
# With more tables than this only neighbours in order are merged: the search is quadratic.
_MANY_TABLES = 64
_LEAST_GAIN = 1e-3
# Most multiplications of the search for mergers, so that it ends soon for any structure.
_MOST_WORK = 1_000_000_000
_LEAST_SHARE = 1e-4
# Half of the weight is for the mean over rows, which counts rare and frequent rows equally. The
# other half counts rows as often as they occur, which matters for the errors of questions.
_FREQUENT = 3.0


def maximal_families(structure: Structure) -> tuple[Scope, ...]:
    """The scopes of the families that lie in no larger family, by their first variable."""
    families = list(dict.fromkeys(scope_of(structure.family(i)) for i in structure.order))
    sets = [set(f) for f in families]
    keep = [f for f, s in zip(families, sets, strict=True) if not any(s < o for o in sets)]
    return tuple(sorted(keep))


def choose_tables(
    structure: Structure,
    *,
    epsilon: float,
    known: Sequence[TablePrice] = (),
    law: NoiseLaw = LAPLACE,
) -> tuple[TablePrice, ...]:
    """Tables to measure; their prices add up to `epsilon`.

    Args:
        epsilon: total price, > 0; a charge of the law, as all prices.
        known: tables released already; they are free evidence. If one of them is chosen again it is
            refined, and its price is the added epsilon.
        law: of the noise.
    """
    search = _MergerSearch(structure, epsilon, tuple(known), law)
    return search.best()


def choice_size(structure: Structure) -> int:
    """Most entries of a matrix in `choose_tables`: families times their parts."""
    n = len(structure.variables)
    return n * sum(1 << len(structure.family(i)) for i in range(n))


def most_numbers_chosen(structure: Structure) -> int:
    """A bound on the independent numbers in the tables that `choose_tables` would choose.

    A chosen table is a maximal family, or several merged ones; no family is in two tables. A single
    family of c cells has c - 1 independent numbers besides the total. A merged table has at least
    as many cells as any of its families and at most 4,096, so at most 4,095 numbers: at most half
    of that for each of its two or more families. So a family of more than 4,096 cells counts c - 1,
    and any other the greater of c - 1 and 2,048. All together are at most the number of joint
    values of all variables, less one.
    """
    sizes = structure.sizes
    cells = [n_cells(family, sizes) for family in maximal_families(structure)]
    half = MAX_MERGED_CELLS // 2
    bound = sum(c - 1 if c > MAX_MERGED_CELLS else max(c - 1, half) for c in cells)
    return min(bound, n_cells(range(len(sizes)), sizes) - 1)


def family_weights(structure: Structure) -> dict[Scope, float]:
    """Weight in the objective of one record of standard deviation per cell, by family scope."""
    rows = [n_cells(structure.parents[i], structure.sizes) for i in range(len(structure.sizes))]
    n_rows, n_families = sum(rows), len(rows)
    found: dict[Scope, float] = {}
    for i, own in enumerate(rows):
        # Rows have n / own records each, and the error of every cell is divided by that.
        weight = own * own * structure.sizes[i] / n_rows
        weight += _FREQUENT * own * structure.sizes[i] / n_families
        scope = scope_of(structure.family(i))
        found[scope] = found.get(scope, 0.0) + weight
    return found


@dataclass(frozen=True)
class _Chosen:
    cost: float
    scopes: tuple[Scope, ...]
    prices: Floats


@dataclass(eq=False)
class _MergerSearch:
    structure: Structure
    epsilon: float
    known: tuple[TablePrice, ...]
    law: NoiseLaw
    _columns: dict[Scope, Floats] = field(default_factory=dict)
    _work: int = 0

    def __post_init__(self) -> None:
        weights = family_weights(self.structure)
        self._families = tuple(weights)
        self._weights = np.array(list(weights.values()))
        self._parts = sorted({part for f in self._families for part in subsets(f)})
        place = {part: k for k, part in enumerate(self._parts)}
        sizes = self.structure.sizes
        self._shares = np.zeros((len(self._families), len(self._parts)))
        for row, scope in enumerate(self._families):
            for part in subsets(scope):
                self._shares[row, place[part]] = component_share(part, scope, sizes)
        self._given = {t.scope: t.epsilon for t in self.known}

    def best(self) -> tuple[TablePrice, ...]:
        scopes = maximal_families(self.structure)
        chosen = self._solved(scopes, np.full(len(scopes), 1.0), n_steps=60)
        while True:
            better = self._merged(chosen)
            if better is None:
                break
            chosen = self._solved(better.scopes, better.prices, n_steps=30)
        chosen = self._without_trifles(chosen)
        pairs = zip(chosen.scopes, chosen.prices, strict=True)
        return tuple(TablePrice(s, float(p)) for s, p in sorted(pairs, key=lambda pair: pair[0]))

    def _without_trifles(self, chosen: _Chosen) -> _Chosen:
        keep = chosen.prices > _LEAST_SHARE * self.epsilon
        scopes = tuple(s for s, is_kept in zip(chosen.scopes, keep, strict=True) if is_kept)
        if keep.all() or not self._covered(scopes):
            return chosen
        return self._solved(scopes, chosen.prices[keep], n_steps=30)

    def _covered(self, scopes: Sequence[Scope]) -> bool:
        held = [set(s) for s in (*scopes, *self._given)]
        return all(any(set(f) <= h for h in held) for f in self._families)

    def _merged(self, chosen: _Chosen) -> _Chosen | None:
        """The best merger of two tables, or None if none gains a thousandth."""
        best: _Chosen | None = None
        for i, j in self._pairs(chosen.scopes):
            if self._work > _MOST_WORK:
                break
            joint = scope_of(tuple({*chosen.scopes[i], *chosen.scopes[j]}))
            if not self._may_merge(joint, chosen.scopes[i], chosen.scopes[j]):
                continue
            rest = [k for k in range(len(chosen.scopes)) if k not in (i, j)]
            scopes = (*(chosen.scopes[k] for k in rest), joint)
            prices = np.append(chosen.prices[rest], chosen.prices[i] + chosen.prices[j])
            found = self._solved(scopes, prices, n_steps=6)
            least = best.cost if best else chosen.cost * (1 - _LEAST_GAIN)
            best = found if found.cost < least else best
        return best

    def _pairs(self, scopes: tuple[Scope, ...]) -> Sequence[tuple[int, int]]:
        if len(scopes) > _MANY_TABLES:
            return [(i, i + 1) for i in range(len(scopes) - 1)]
        return list(combinations(range(len(scopes)), 2))

    def _may_merge(self, joint: Scope, one: Scope, two: Scope) -> bool:
        sizes = self.structure.sizes
        cells = n_cells(joint, sizes)
        larger = max(n_cells(one, sizes), n_cells(two, sizes))
        return cells <= min(MAX_MERGED_CELLS, 8 * larger)

    def _solved(self, scopes: tuple[Scope, ...], start: Floats, *, n_steps: int) -> _Chosen:
        """The optimal prices of these tables, by multiplicative steps.

        At the optimum all non-zero prices have the same derivative. A step multiplies each price by
        the root of its derivative and divides by the sum.
        """
        columns = np.stack([self._column(s) for s in scopes], axis=1)
        self._work += (n_steps + 1) * columns.size
        given = np.array([self._given.get(s, 0.0) for s in scopes])
        fixed = np.zeros(len(self._parts))
        for scope, epsilon in self._given.items():
            if scope not in scopes:
                fixed += self._column(scope) * self.law.information(epsilon)
        prices = np.maximum(start, 1e-12) * (self.epsilon / start.sum())
        cost = np.inf
        for _ in range(n_steps + 1):
            total = given + prices
            precision = columns @ self.law.information(total) + fixed
            deviation = np.sqrt(self._shares @ (1 / precision))
            cost = float(self._weights @ deviation)
            slope = (self._weights / deviation) @ self._shares / precision**2
            stepped = prices * np.sqrt(slope @ columns * self.law.information_slope(total) / 2.0)
            prices = np.maximum(stepped / stepped.sum(), 1e-12) * self.epsilon
        return _Chosen(cost, scopes, prices / prices.sum() * self.epsilon)

    def _column(self, scope: Scope) -> Floats:
        found = self._columns.get(scope)
        if found is None:
            held, cells = set(scope), n_cells(scope, self.structure.sizes)
            found = np.array([held.issuperset(p) / (2 * cells) for p in self._parts])
            self._columns[scope] = found
        return found


Allocation = Literal["best", "rows", "uniform", "arxiv", "icml"]
ALLOCATIONS: tuple[Allocation, ...] = get_args(Allocation)


def one_step_prices(
    structure: Structure,
    *,
    epsilon: float,
    allocation: Allocation = "best",
    known: Sequence[NoisyTable] = (),
    law: NoiseLaw = LAPLACE,
) -> tuple[TablePrice, ...]:
    """The tables to buy for a total charge of `epsilon`, known before any data is read.

    Raises:
        NetworkError: the allocation needs a sample first.
    """
    if allocation == "best":
        like = law.like_laplace(1.0)
        released = [TablePrice(t.scope, law.charge(t.scale / like)) for t in known]
        return choose_tables(structure, epsilon=epsilon, known=released, law=law)
    if allocation == "rows":
        return _row_weighted(structure, epsilon, law)
    if allocation == "uniform":
        n = len(structure.variables)
        return tuple(TablePrice(scope_of(structure.family(i)), epsilon / n) for i in range(n))
    raise NetworkError("allocation", "be known before any data is read", allocation)


def one_step_network(
    structure: Structure, tables: Sequence[NoisyTable], *, allocation: Allocation = "best"
) -> Network:
    """The parameters from the tables of a one-step allocation.

    Args:
        tables: one per variable in order for `uniform`; else in any order.
    """
    if allocation == "best":
        return network_from_tables(structure, tables)
    if allocation == "uniform":
        return consistent_network(structure, tables)
    cpds = []
    for i in range(len(structure.variables)):
        family = structure.family(i)
        table = next(t for t in tables if set(t.scope) >= set(family))
        gone = tuple(k for k, j in enumerate(table.scope) if j not in family)
        own = onto_family(table.values.sum(axis=gone), scope_of(family), family)
        cpds.append(normalised(own))
    return Network(structure, tuple(cpds))


def _row_weighted(structure: Structure, epsilon: float, law: NoiseLaw) -> tuple[TablePrice, ...]:
    """Maximal families, priced by the root of the most rows of any family inside."""
    scopes, power = maximal_families(structure), 2 * law.power / (law.power + 1)
    roots = []
    for scope in scopes:
        held = [p for i, p in enumerate(structure.parents) if set(scope) >= {*p, i}]
        roots.append(sqrt(max(n_cells(p, structure.sizes) for p in held)) ** power)
    share = epsilon / sum(roots)
    return tuple(TablePrice(s, share * r) for s, r in zip(scopes, roots, strict=True))
