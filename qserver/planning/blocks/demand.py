"""The demand: requirements that were paid for, the predicates in them, and the bases fitted so far.

It is a function of the paid questions, in their order, and of the lattice. So every process finds
the same demand. A question that was not paid for leaves no trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from qserver.inference.tables.blocks.pattern import BlockKey, Pattern, PatternTerm
from qserver.planning.blocks.star import Star, calibrate, uses
from qserver.planning.blocks.wants import Want, Wants
from qserver.planning.constants import PLANNER
from qserver.planning.holdings import Holdings
from qserver.query.partition import MAX_TABLE_CELLS
from qserver.query.primitive import Primitive
from qserver.query.weights import Weights
from qserver.records.paid_question import PaidQuestion


@dataclass
class SeenPredicates:
    """The latest different predicates, per attribute, to be combined in new ways.

    A base fitted to few questions serves those and little else. Predicates on one attribute often
    return together with others, so some combinations are wanted in advance. They only change which
    base is fitted, never an answer.
    """

    by_axis: dict[int, dict[Weights, None]] = field(default_factory=dict)
    count: int = 0

    def copy(self) -> SeenPredicates:
        """A copy."""
        return SeenPredicates({a: dict(seen) for a, seen in self.by_axis.items()}, self.count)

    def combined_with(self, pattern: Pattern) -> list[Pattern]:
        """Take in the query's predicates, and return some new combinations over its attributes.

        There are none for a query of several terms, and none that needs a table of too many cells.
        """
        if pattern.query is None or len(pattern.terms) != 1:
            return []
        (term,) = pattern.terms
        weights = pattern.query.terms[0].by_axis
        for axis in term.axes:
            seen = self.by_axis.setdefault(axis, {})
            seen.setdefault(weights[axis])
            if len(seen) > PLANNER.most_predicates:
                del seen[next(iter(seen))]
        self.count += 1
        found = [self._recombined(pattern, term, stride) for stride in PLANNER.strides if term.axes]
        return [other for other in found if _has_tables(other)]

    def _recombined(self, pattern: Pattern, term: PatternTerm, stride: int) -> Pattern:
        axes = {}
        for i, axis in enumerate(term.axes):
            seen = list(self.by_axis[axis])
            chosen = seen[(self.count * (1 + i) * stride + 7 * i) % len(seen)]
            axes[axis] = pattern.lattice.components(axis, chosen)
        return Pattern(pattern.lattice, (replace(term, axes=axes),), None)


def _has_tables(pattern: Pattern) -> bool:
    """Whether every component of the row has a block of no more cells than a table may have."""
    lattice = pattern.lattice
    apart = () if lattice.apart is None else (lattice.apart,)
    return all(lattice.n_real_cells(j, without=apart) <= MAX_TABLE_CELLS for j in pattern.energies)


@dataclass
class Demand:
    """The demand of one snapshot.

    Args:
        wanted: requirements that matter, and those that the questions suggest.
        stars: the latest base, by class of precision and finest level.
        dropped: components of requirements that are not kept, with the loosest of their classes.
    """

    wanted: Wants = field(default_factory=Wants)
    seen: SeenPredicates = field(default_factory=SeenPredicates)
    stars: dict[tuple[int, int], Star] = field(default_factory=dict)
    dropped: dict[BlockKey, int] = field(default_factory=dict)

    def forgotten(self, octave: int) -> set[BlockKey]:
        """Components of the requirements of this class and looser ones that are not kept."""
        return {j for j, loosest in self.dropped.items() if loosest <= octave}

    def with_want(self, want: Want) -> Wants:
        """The requirements once this one is paid for; the demand itself stays as it is."""
        wanted = self.wanted.copy()
        _remember(wanted, self.seen.copy(), want)
        return wanted

    def take_in(self, paid: PaidQuestion, holdings: Holdings, *, has_bases: bool = True) -> None:
        """Add a paid question.

        Args:
            has_bases: whether the bases count that were fitted for it.
        """
        want = want_of(holdings, paid.form, half_width=paid.half_width, confidence=paid.confidence)
        if want is None:
            return
        _remember(self.wanted, self.seen, want)
        for fitted in paid.bases if has_bases else ():
            star = Star.of_base(holdings, fitted.base)
            # A block that was coarse may have finer levels on another lattice.
            if star is not None and star.depth <= fitted.depth:
                self.stars[fitted.octave, fitted.depth] = star
                if fitted.depth == depth_of(holdings):
                    calibrate(holdings, star, self.wanted.up_to(fitted.octave))
        self._trim(holdings, want.octave)

    def _trim(self, holdings: Holdings, octave: int) -> None:
        """If there are too many requirements, keep those nearest to their targets."""
        wants, star = self.wanted.wants, self.stars.get((octave, depth_of(holdings)))
        if len(wants) <= PLANNER.most_wants:
            return
        if star is None:
            self._forget(wants[: -PLANNER.most_wants // 2])
            return
        looser = self.wanted.up_to(octave)
        kept = set(np.argsort(-uses(holdings, star, looser))[: PLANNER.most_wants // 2].tolist())
        self._forget([w for i, w in enumerate(looser) if i not in kept])

    def _forget(self, dropped: Sequence[Want]) -> None:
        self.wanted.forget(dropped)
        for want in dropped:
            for j in want.energies:
                self.dropped[j] = min(want.octave, self.dropped.get(j, want.octave))


def depth_of(holdings: Holdings) -> int:
    """The finest level of all attributes."""
    return max(c.n_levels for c in holdings.lattice.chains.values()) - 1


def want_of(
    holdings: Holdings, row: Primitive, *, half_width: float, confidence: float
) -> Want | None:
    """The requirement seen from the lattice; None where no blocks can be bought for it."""
    axes = {a for t in row.row.terms for a in t.by_axis}
    n_parts = len(row.row.terms) ** 2
    for axis in axes:
        n_parts *= holdings.lattice.chains[axis].n_levels
        if n_parts > PLANNER.most_parts:
            return None
    pattern = holdings.pattern(row)
    if pattern is None or not _has_table(holdings, pattern):
        return None
    return Want.of(pattern, half_width=half_width, confidence=confidence)


def _has_table(holdings: Holdings, pattern: Pattern) -> bool:
    """Whether every component of the row has a block that can be measured, or is reached."""
    return all(not j or holdings.is_candidate(j) for j in pattern.energies)


def _remember(wanted: Wants, seen: SeenPredicates, want: Want) -> None:
    """Record the requirement and the combinations it suggests."""
    wanted.add(want)
    for other in seen.combined_with(want.pattern):
        wanted.add(replace(want, pattern=other))
