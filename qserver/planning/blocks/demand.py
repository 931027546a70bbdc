"""What was asked and paid for: requirements, predicates, rent, and the bases fitted to them.

A function of the paid questions in their order and of the lattice, whoever computes it and when:
a question that was not paid for leaves no trace.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from qserver.inference.tables.blocks.pattern import Pattern
from qserver.planning.blocks.own_rows_alone import OwnRowsAlone
from qserver.planning.blocks.recombination import SeenPredicates
from qserver.planning.blocks.star import Star, calibrate, uses
from qserver.planning.blocks.wants import Want, Wants
from qserver.planning.constants import PLANNER
from qserver.planning.holdings import Holdings
from qserver.query.primitive import Primitive
from qserver.records.charge import NANO
from qserver.records.paid_question import PaidQuestion


@dataclass
class Demand:
    """The demand of one snapshot.

    Args:
        wanted: requirements that matter, and those that the questions suggest.
        asked: requirements of questions alone.
        alone: what own rows alone would have cost.
        stars: the latest base, by class of precision and finest level.
    """

    wanted: Wants = field(default_factory=Wants)
    asked: Wants = field(default_factory=Wants)
    seen: SeenPredicates = field(default_factory=SeenPredicates)
    alone: OwnRowsAlone = field(default_factory=OwnRowsAlone)
    stars: dict[tuple[int, int], Star] = field(default_factory=dict)

    def with_want(self, want: Want) -> Wants:
        """What would be wanted once this is paid for; nothing is changed."""
        wanted = self.wanted.copy()
        _remember(wanted, self.seen.copy(), want)
        return wanted

    def alone_nano(self, holdings: Holdings, query: Primitive, want: Want) -> int:
        """What own rows alone would have cost, this question's too."""
        return self.alone.with_row(holdings, query, want.half_width, want.confidence)

    @property
    def octave(self) -> int | None:
        """The tightest class of precision wanted."""
        return max((w.octave for w in self.wanted.wants), default=None)

    def take_in(self, paid: PaidQuestion, holdings: Holdings) -> None:
        """Add a paid question."""
        self._count(paid, holdings)
        want = want_of(holdings, paid.form, half_width=paid.half_width, confidence=paid.confidence)
        if want is None:
            return
        _remember(self.wanted, self.seen, want)
        self.asked.add(replace(want))
        if len(self.asked.wants) > PLANNER.most_wants:
            self.asked.forget(self.asked.wants[: -PLANNER.most_wants // 2])
        for fitted in paid.bases:
            star = Star.of_base(holdings, fitted.base)
            # On another lattice what was coarse may be blocks of finer levels.
            if star is not None and star.depth <= fitted.depth:
                self.stars[fitted.octave, fitted.depth] = star
                if fitted.depth == depth_of(holdings):
                    calibrate(holdings, star, self.wanted.up_to(fitted.octave))
        self._trim(holdings, want.octave)

    def _count(self, paid: PaidQuestion, holdings: Holdings) -> None:
        """Add its own row, unless own rows alone cost so much that it no longer matters."""
        dearest = max((star.price for star in self.stars.values()), default=inf)
        if self.alone.settled_nano <= PLANNER.plenty * dearest * NANO:
            self.alone.add(holdings, paid.form, paid.half_width, paid.confidence)

    def _trim(self, holdings: Holdings, octave: int) -> None:
        """Of too many requirements keep those that the latest base is hardest pressed by."""
        wants, star = self.wanted.wants, self.stars.get((octave, depth_of(holdings)))
        if len(wants) <= PLANNER.most_wants:
            return
        if star is None:
            self.wanted.forget(wants[: -PLANNER.most_wants // 2])
            return
        looser = self.wanted.up_to(octave)
        kept = set(np.argsort(-uses(holdings, star, looser))[: PLANNER.most_wants // 2].tolist())
        self.wanted.forget([w for i, w in enumerate(looser) if i not in kept])


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
    """Want it, and what it suggests."""
    wanted.add(want)
    for other in seen.combined_with(want.pattern):
        wanted.add(replace(want, pattern=other))
