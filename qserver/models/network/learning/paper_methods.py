"""Data-dependent allocation as printed in two versions of one paper, with their faults.

Both versions first measure a Poisson sample (stage I, a tenth of the budget), price the tables of
stage II by its result, and make the tables consistent. `arxiv` puts Laplace noise of scale
1 / eps_i on the family's table and uses stage II alone. `icml` splits eps_i between the family's
table and its parents' table and averages both stages by their nominal epsilon.

Kept as printed, although wrong or without effect:

- The sensitivity of equation 7 does not depend on data: the derivatives over the values of a child
  add up to P(parents), so it is the mean of 1 / |Y| over the children Y, divided by the number of
  rows.
- In `icml` the parents' table cancels in the normalisation, so half of each price has no effect.
- The mean of the stages is weighted by nominal epsilon. But stage I counts a tenth of the records,
  so per record of the whole data it is about ten times as noisy as its epsilon suggests.
- Consistency weighs by epsilon; inverse variances would be right.

Corrected, as the printed form does not run: the closed form's products over all variables
underflow (here eps_i is in proportion to the root of W_i delta_i, which is the same value), and
counts of one or less are read as one in delta_i.

References:
    Chowdhury, Rekatsinas and Jha, Data-Dependent Differentially Private Parameter Learning for
    Directed Graphical Models: arXiv 1905.12813, and ICML 2020.

*Mutual consistency of noisy tables* is as printed in both papers, too. The procedure goes through
every set of variables in which tables meet, smaller sets first. All tables that contain the set are
moved to one common marginal: the mean of theirs, weighted by nominal epsilon. Weights by inverse
variance would be closer to the truth. After one pass smaller sets still agree up to rounding.
`estimation` does better; this is the baseline.

References:
    Qardaji, Yang and Li (2014); Chowdhury, Rekatsinas and Jha (2020), appendix, equations 17, 18.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np

from qserver.errors import CapacityError
from qserver.models.network.learning.estimation import (
    NoisyTable,
    Scope,
    TablePrice,
    n_cells,
    onto_family,
    scope_of,
)
from qserver.models.network.network import Network, Table, normalised
from qserver.models.network.structure import Structure

MAX_MEETINGS = 20_000


def meetings(scopes: Sequence[Scope]) -> tuple[Scope, ...]:
    """The non-empty sets in which two or more of the scopes meet, smaller ones first.

    Raises:
        CapacityError: more than 20,000 of them.
    """
    found: set[frozenset[int]] = set()
    sets = [frozenset(s) for s in scopes]
    fresh = {a & b for k, a in enumerate(sets) for b in sets[:k]}
    while fresh:
        found |= fresh
        if len(found) > MAX_MEETINGS:
            raise CapacityError(f"More than {MAX_MEETINGS:,} sets of variables are shared.")
        fresh = {a & b for a in fresh for b in sets} - found
    return tuple(sorted((tuple(sorted(f)) for f in found if f), key=lambda s: (len(s), s)))


def consistent_network(structure: Structure, tables: Sequence[NoisyTable]) -> Network:
    """The parameters from one table per variable, after consistency as in both papers."""
    joints = []
    for table in tables:
        kept = np.maximum(table.values, 0.0)
        joints.append(kept / kept.sum() if kept.sum() > 0 else np.full(kept.shape, 1 / kept.size))
    scopes, weights = [t.scope for t in tables], [t.epsilon for t in tables]
    cpds = []
    for i, joint in enumerate(consistent(joints, scopes, weights)):
        cpds.append(normalised(onto_family(joint, tables[i].scope, structure.family(i))))
    return Network(structure, tuple(cpds))


def consistent(
    tables: Sequence[Table], scopes: Sequence[Scope], weights: Sequence[float]
) -> tuple[Table, ...]:
    """The tables, moved to agree on every set of variables in which they meet.

    Args:
        tables: the tables, each with one axis per variable of its scope.
        weights: weight of each table in the common marginals: its nominal epsilon, as printed.
    """
    moved = [np.array(t, dtype=np.float64) for t in tables]
    for part in meetings(scopes):
        holders = [k for k, scope in enumerate(scopes) if set(part) <= set(scope)]
        margins = {k: _margin(moved[k], scopes[k], part) for k in holders}
        total = sum(weights[k] for k in holders)
        common = sum(weights[k] / total * margins[k] for k in holders)
        for k in holders:
            shape = [n if i in part else 1 for i, n in zip(scopes[k], moved[k].shape, strict=True)]
            share = margins[k].size / moved[k].size
            moved[k] += share * (common - margins[k]).reshape(shape)
    return tuple(moved)


def _margin(table: Table, scope: Scope, part: Scope) -> Table:
    return np.asarray(table.sum(axis=tuple(k for k, i in enumerate(scope) if i not in part)))


Version = Literal["arxiv", "icml"]

SAMPLING_RATE = 0.1


@dataclass(frozen=True)
class StageOneBudget:
    """The cost of stage I.

    Args:
        epsilon: cost on all records: ln(1 + rate (e^nominal - 1)).
        nominal: cost on the sample.
        rate: probability of a record to be in the sample.
    """

    epsilon: float
    nominal: float
    rate: float


@dataclass(frozen=True, eq=False)
class StageOne:
    """The tables released from the sample.

    Args:
        families: noisy counts per variable, axes as in its CPD.
        parents: noisy counts of the parents: measured (`icml`), or sums of the families (`arxiv`).
        network: the parameters from these tables.
    """

    families: tuple[Table, ...]
    parents: tuple[Table, ...]
    network: Network

    @staticmethod
    def measured(
        structure: Structure,
        measure: Callable[[Scope, float], Table],
        budget: StageOneBudget,
        version: Version,
    ) -> StageOne:
        """Stage I: the tables of a sample, each for an equal part of the nominal epsilon."""
        each = budget.nominal / len(structure.variables)
        own = each / 2 if version == "icml" else each
        tables, families, parents = [], [], []
        for i, above in enumerate(structure.parents):
            scope = scope_of(structure.family(i))
            tables.append(NoisyTable(scope, 1 / own, measure(scope, own)))
            family = onto_family(tables[-1].values, scope, structure.family(i))
            families.append(family)
            if version == "icml":
                held = scope_of(above)
                parents.append(onto_family(measure(held, own), held, above))
            else:
                parents.append(family.sum(axis=-1))
        network = consistent_network(structure, tables)
        return StageOne(tuple(families), tuple(parents), network)


def sensitivity(structure: Structure, i: int) -> float:
    """Equation 7 in closed form: mean of 1 / |Y| over the children Y, by the number of rows."""
    children = structure.children[i]
    if not children:
        return 0.0
    mean = sum(1 / structure.sizes[y] for y in children) / len(children)
    return mean / n_cells(structure.parents[i], structure.sizes)


def importance(structure: Structure, i: int) -> float:
    """W of equation 11: (height + 1) (out-degree + 1) (sensitivity + 1)."""
    n_children = len(structure.children[i])
    return (structure.heights[i] + 1) * (n_children + 1) * (sensitivity(structure, i) + 1)


def relative_error(first: StageOne, i: int) -> float:
    """delta of equation 12: the mean over cells of theta sqrt(1 / T_pa^2 + 1 / T^2)."""
    cells = np.maximum(first.families[i], 1.0)
    rows = np.maximum(first.parents[i], 1.0)[..., None]
    return float(np.mean(first.network.cpds[i] * np.sqrt(1 / rows**2 + 1 / cells**2)))


def final_prices(structure: Structure, first: StageOne, epsilon: float) -> tuple[TablePrice, ...]:
    """Prices of stage II, one per variable in order: in proportion to sqrt(W_i delta_i)."""
    n = len(structure.variables)
    roots = [sqrt(importance(structure, i) * relative_error(first, i)) for i in range(n)]
    total = sum(roots)
    scopes = [scope_of(structure.family(i)) for i in range(n)]
    return tuple(TablePrice(s, epsilon * r / total) for s, r in zip(scopes, roots, strict=True))
