"""A query rounded to coarser parts, and the rest that a row measures.

A predicate that is rounded to level l of a chain takes or leaves every part as a whole. The rest
lies in the parts that the predicate cuts. So its row weighs on few cells, and many such rows cost
little together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

import numpy as np

from qserver.inference.tables.blocks.nested_partitions import Chain
from qserver.inference.tables.blocks.pattern import (
    BlockKey,
    Lattice,
    Pattern,
    as_box,
    remainder,
    sets_of,
)
from qserver.planning.constants import PLANNER
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import Primitive
from qserver.query.weights import Weights, from_runs


@dataclass(frozen=True, eq=False)
class Rounded:
    """A query as a coarser one and the rest: query = coarse + weight * rest, exactly.

    Args:
        query: the row that is rounded.
        coarse: the coarser query, which the blocks give; an indicator.
        pattern: of the coarser query.
    """

    query: LinearQuery
    coarse: LinearQuery
    pattern: Pattern

    @cached_property
    def rest(self) -> Primitive:
        """The primitive row of the rest; zero if nothing is left."""
        return remainder(self.query, [(self.coarse, 1.0)])

    @property
    def weight(self) -> float:
        """Weight of the rest's row in the query: 1 or -1."""
        return float(self.rest.multiplier)

    @cached_property
    def cell_of(self) -> BlockKey | None:
        """The block that the rest's row is a cell of, or None."""
        found = self.pattern.lattice.pattern(self.rest.row)
        return None if found is None else found.cell_of


def roundings(lattice: Lattice, query: Primitive) -> list[Rounded]:
    """The query rounded to every choice of levels of its attributes, and of sides.

    The query itself is among them. There are none for a query of several terms or of weights other
    than 0 and 1, and none if there are more than 256 choices.
    """
    row = as_box(query.row)
    axes = sets_of(row)
    if axes is None or query.multiplier == 0 or not lattice.resolves(row):
        return []
    # Rounded to all periods, a query would count those without data yet.
    options = [
        [w] if a == lattice.apart else _options(lattice.chains[a], w) for a, w in axes.items()
    ]
    if prod(map(len, options)) > PLANNER.most_choices:
        return []
    found = [_rounded(lattice, row, dict(zip(axes, p, strict=True))) for p in product(*options)]
    return [r for r in found if r is not None]


def _rounded(lattice: Lattice, row: LinearQuery, kept: Mapping[int, Weights]) -> Rounded | None:
    coarse = linear_query(row.sizes, [(1, dict(kept))])
    pattern = lattice.pattern(coarse)
    return None if pattern is None else Rounded(row, coarse, pattern)


def _options(chain: Chain, weights: Weights) -> list[Weights]:
    """Distinct roundings of a predicate to unions of parts, over levels and sides."""
    found: dict[Weights, None] = {}
    inside = chain.classes.on_classes(weights)
    for level in range(chain.n_levels):
        parts, n = chain.part_of(level), chain.n_parts[level]
        total = np.bincount(parts, minlength=n)
        taken = np.bincount(parts, weights=inside, minlength=n)
        # Nearest, outer, inner.
        for is_in in (2 * taken >= total, taken > 0, taken == total):
            by_class = (is_in & (total > 0))[parts]
            if by_class.any():
                runs = [int(by_class[c]) for c in chain.classes.ids]
                found[from_runs(chain.classes.stops, runs).weights] = None
    return list(found)
