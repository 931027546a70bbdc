"""The demand: requirements that were paid for, and the bases fitted so far.

It is a function of the paid questions, in their order, and of the lattice. So every process finds
the same demand. Unpaid questions leave no trace.

A checkpoint keeps a demand as rows and a head. Requirements have other components on another
lattice. So the head names the chains, and a demand made on other chains is not restored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qserver.inference.tables.blocks.pattern import (
    BlockKey,
    Lattice,
    Pattern,
)
from qserver.planning.blocks.star import Star, calibrate, uses
from qserver.planning.blocks.wants import Want, Wants
from qserver.planning.constants import PLANNER
from qserver.planning.holdings import Holdings
from qserver.query.primitive import Primitive, primitive
from qserver.records.paid_question import PaidQuestion
from qserver.records.state import State, bytes_of_rows, rows_of_bytes


@dataclass
class Demand:
    """The demand of one snapshot.

    Args:
        wanted: requirements that matter.
        stars: the latest base, by class of precision and finest level.
        dropped: components of dropped requirements, each with its loosest class.
    """

    wanted: Wants = field(default_factory=Wants)
    stars: dict[tuple[int, int], Star] = field(default_factory=dict)
    dropped: dict[BlockKey, int] = field(default_factory=dict)

    def forgotten(self, octave: int) -> set[BlockKey]:
        """Components of dropped requirements of this class and looser ones."""
        return {j for j, loosest in self.dropped.items() if loosest <= octave}

    def with_want(self, want: Want) -> Wants:
        """A copy of the requirements with one more; the demand does not change."""
        wanted = self.wanted.copy()
        wanted.add(want)
        return wanted

    def take_in(self, paid: PaidQuestion, holdings: Holdings, *, has_bases: bool = True) -> None:
        """Add a paid question.

        Args:
            has_bases: whether the bases fitted for it count.
        """
        want = want_of(holdings, paid.form, half_width=paid.half_width, confidence=paid.confidence)
        if want is None:
            return
        self.wanted.add(want)
        for fitted in paid.bases if has_bases else ():
            star = Star.of_base(holdings, fitted.base)
            # A block that was coarse may have finer levels on another lattice.
            if star is not None and star.depth <= fitted.depth:
                self.stars[fitted.octave, fitted.depth] = star
                if fitted.depth == depth_of(holdings):
                    calibrate(holdings, star, self.wanted.up_to(fitted.octave))
        self._trim(holdings, want.octave)

    def _trim(self, holdings: Holdings, octave: int) -> None:
        """Keep the requirements nearest to their targets if there are too many."""
        wants = self.wanted.wants
        if len(wants) <= PLANNER.most_choices:
            return
        star = self.stars.get((octave, depth_of(holdings)))
        if star is None:
            self._forget(wants[: -PLANNER.most_choices // 2])
            return
        looser = self.wanted.up_to(octave)
        kept = set(np.argsort(-uses(holdings, star, looser))[: PLANNER.most_choices // 2].tolist())
        self._forget([w for i, w in enumerate(looser) if i not in kept])

    def _forget(self, dropped: Sequence[Want]) -> None:
        self.wanted.forget(dropped)
        for want in dropped:
            for j in want.energies:
                self.dropped[j] = min(want.octave, self.dropped.get(j, want.octave))


def depth_of(holdings: Holdings) -> int:
    """The finest level of all attributes."""
    return holdings.lattice.depth


def want_of(
    holdings: Holdings, row: Primitive, *, half_width: float, confidence: float
) -> Want | None:
    """A question's requirement on the lattice; None if no blocks can be bought for it."""
    axes = {a for t in row.row.terms for a in t.by_axis}
    n_parts = len(row.row.terms) ** 2
    for axis in axes:
        n_parts *= holdings.lattice.chains[axis].n_levels
        if n_parts > PLANNER.most_choices:
            return None
    pattern = holdings.pattern(row)
    if pattern is None or not _has_table(holdings, pattern):
        return None
    return Want.of(pattern, half_width=half_width, confidence=confidence)


def _has_table(holdings: Holdings, pattern: Pattern) -> bool:
    """Whether every component of the row has a measurable block, or is reached."""
    return all(not j or holdings.is_candidate(j) for j in pattern.energies)


def state_of_demand(demand: Demand, lattice: Lattice) -> State:
    """State that `demand_of_state` reads."""
    wants = demand.wanted.wants
    rows = [w.pattern.query for w in wants if w.pattern.query is not None]
    head = {
        "chains": _chains(lattice, {axis for row in rows for axis in row.scope}),
        "wants": [[w.half_width, w.confidence, w.octave, w.stretch] for w in wants],
        "stars": [
            [*key, [[_block_plain(b), a] for b, a in star.alphas.items()], star.price]
            for key, star in demand.stars.items()
        ],
        "forgotten": [[_block_plain(b), octave] for b, octave in demand.dropped.items()],
    }
    return State(head, {"rows": bytes_of_rows(rows)})


def demand_of_state(state: State, holdings: Holdings) -> Demand | None:
    """Restore the demand of a state; None if it was made on another lattice."""
    head = state.head
    if head["chains"] != _chains(holdings.lattice, [axis for axis, _ in head["chains"]]):
        return None
    rows = rows_of_bytes(state.arrays["rows"], holdings.ledger.sizes)
    patterns = [holdings.pattern(primitive(row)) for row in rows]
    wants = [
        Want(pattern, *facts)
        for pattern, facts in zip(patterns, head["wants"], strict=True)
        if pattern is not None
    ]
    stars = {
        (octave, depth): Star({_block(b): a for b, a in alphas}, price)
        for octave, depth, alphas, price in head["stars"]
    }
    dropped = {_block(b): octave for b, octave in head["forgotten"]}
    return Demand(Wants(wants), stars, dropped)


def _chains(lattice: Lattice, axes: Iterable[int]) -> list[list[Any]]:
    """A digest of each of these chains."""
    found = ((axis, lattice.chains[axis]) for axis in sorted(axes))
    facts = ((a, repr((c.classes, c.slots, c.n_parts))) for a, c in found)
    return [[a, hashlib.sha256(text.encode()).hexdigest()] for a, text in facts]


def _block_plain(block: BlockKey) -> list[list[int]]:
    return [list(p) for p in block]


def _block(plain: Iterable[Sequence[int]]) -> BlockKey:
    return tuple((axis, level) for axis, level in plain)
