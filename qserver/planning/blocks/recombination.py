"""Queries that may come: the predicates seen so far, put together anew.

A base fitted to few questions serves those and little else. Predicates on one attribute tend to
return beside other ones, so some combinations are wanted in advance. Only what a base should look
like depends on it, never whether an answer is right.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from qserver.inference.tables.blocks.pattern import Components, Pattern, PatternTerm
from qserver.planning.constants import PLANNER
from qserver.query.partition import MAX_TABLE_CELLS
from qserver.query.weights import Weights


@dataclass
class SeenPredicates:
    """Components of the latest different predicates, per attribute, and how often it was asked."""

    by_axis: dict[int, dict[Weights, Components]] = field(default_factory=dict)
    count: int = 0

    def copy(self) -> SeenPredicates:
        """The same, to be changed apart."""
        return SeenPredicates({a: dict(seen) for a, seen in self.by_axis.items()}, self.count)

    def combined_with(self, pattern: Pattern) -> list[Pattern]:
        """Take in the query's predicates; some recombinations over its scope.

        None for a query of several terms, nor any that takes a table of too many cells.
        """
        if pattern.query is None or len(pattern.terms) != 1:
            return []
        (term,) = pattern.terms
        weights = pattern.query.terms[0].by_axis
        for axis, components in term.axes.items():
            seen = self.by_axis.setdefault(axis, {})
            seen.setdefault(weights[axis], components)
            if len(seen) > PLANNER.most_predicates:
                del seen[next(iter(seen))]
        self.count += 1
        found = [self._recombined(pattern, term, stride) for stride in PLANNER.strides if term.axes]
        return [other for other in found if _has_tables(other)]

    def _recombined(self, pattern: Pattern, term: PatternTerm, stride: int) -> Pattern:
        axes = {}
        for i, axis in enumerate(term.axes):
            seen = list(self.by_axis[axis].values())
            axes[axis] = seen[(self.count * (1 + i) * stride + 7 * i) % len(seen)]
        return Pattern(pattern.lattice, (replace(term, axes=axes),), None)


def _has_tables(pattern: Pattern) -> bool:
    """Whether every component of the row has a block of no more cells than a table may have."""
    return all(pattern.lattice.n_real_cells(j) <= MAX_TABLE_CELLS for j in pattern.energies)
