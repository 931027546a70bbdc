"""Queries that may come: the predicates seen so far, put together anew.

A base fitted to few questions serves those and little else. Predicates on one attribute tend to
return beside other ones, so some combinations are wanted in advance. Only what a base should look
like depends on it, never whether an answer is right.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from qserver.inference.lattice.pattern import Components, Pattern, PatternTerm

MAX_SEEN = 64
_STRIDES = (1, 5, 11)


@dataclass
class SeenPredicates:
    """Components of the latest different predicates, per attribute."""

    by_axis: dict[int, list[Components]] = field(default_factory=dict)
    _count: int = 0

    def combined_with(self, pattern: Pattern) -> list[Pattern]:
        """Take in the query's predicates; some recombinations over its scope.

        None for a query of several terms.
        """
        if len(pattern.terms) != 1:
            return []
        (term,) = pattern.terms
        for axis, components in term.axes.items():
            seen = self.by_axis.setdefault(axis, [])
            if not any(components is s for s in seen):
                seen.append(components)
                del seen[:-MAX_SEEN]
        self._count += 1
        return [self._recombined(pattern, term, stride) for stride in _STRIDES if term.axes]

    def _recombined(self, pattern: Pattern, term: PatternTerm, stride: int) -> Pattern:
        axes = {}
        for i, axis in enumerate(term.axes):
            seen = self.by_axis[axis]
            axes[axis] = seen[(self._count * (1 + i) * stride + 7 * i) % len(seen)]
        return Pattern(pattern.lattice, (replace(term, axes=axes),), None)
