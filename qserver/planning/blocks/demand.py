"""The demand: requirements that were paid for, the predicates in them, and the bases fitted so far.

It is a function of the paid questions, in their order, and of the lattice. So every process finds
the same demand. A question that was not paid for leaves no trace.

A checkpoint keeps a demand as arrays and a head. It is of one lattice: on another one, requirements
have other components. So the head names the chains that it was made on, and what was made on others
is of no use.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.tables.blocks.pattern import (
    BlockKey,
    Components,
    Lattice,
    Pattern,
    PatternTerm,
)
from qserver.planning.blocks.star import Star, calibrate, uses
from qserver.planning.blocks.wants import Want, Wants
from qserver.planning.constants import PLANNER
from qserver.planning.holdings import Holdings
from qserver.query.partition import MAX_TABLE_CELLS
from qserver.query.primitive import Primitive
from qserver.query.weights import Weights
from qserver.records.paid_question import PaidQuestion
from qserver.records.state import State, bytes_of_rows, rows_of_bytes


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


def state_of_demand(demand: Demand, lattice: Lattice) -> State:
    """What `demand_of_state` needs."""
    wants, seen = demand.wanted.wants, demand.seen
    terms = [t for w in wants for t in w.pattern.terms]
    axes = {*seen.by_axis, *(a for t in terms for a in t.axes)}
    parts = [c for t in terms for components in t.axes.values() for c in components]
    head = {
        "chains": _chains(lattice, axes),
        "wants": [_want_plain(w) for w in wants],
        "seen": [
            [axis, [[list(w.stops), list(w.values)] for w in found]]
            for axis, found in seen.by_axis.items()
        ],
        "count": seen.count,
        "stars": [
            [*key, [[_block_plain(b), a] for b, a in star.alphas.items()], star.price]
            for key, star in demand.stars.items()
        ],
        "forgotten": [[_block_plain(b), octave] for b, octave in demand.dropped.items()],
    }
    rows = [w.pattern.query for w in wants if w.pattern.query is not None]
    components = np.concatenate([np.zeros(0), *parts])
    return State(head, {"components": components, "rows": bytes_of_rows(rows)})


def demand_of_state(state: State, lattice: Lattice, *, sizes: Sequence[int]) -> Demand | None:
    """The demand that `state_of_demand` was given; None if it was made on another lattice."""
    head = state.head
    if head["chains"] != _chains(lattice, [axis for axis, _ in head["chains"]]):
        return None
    rows = iter(rows_of_bytes(state.arrays["rows"], sizes))
    reader = _ComponentReader(lattice, state.arrays["components"])
    wants = []
    for plain in head["wants"]:
        exact = plain["exact"]
        pattern = Pattern(
            lattice,
            tuple(reader.term(c, axes) for c, axes in plain["terms"]),
            next(rows) if plain["has_row"] else None,
            None if exact is None else frozenset(map(_block, exact)),
        )
        wants.append(Want(pattern, *plain["facts"]))
    stars = {
        (octave, depth): Star({_block(b): a for b, a in alphas}, price)
        for octave, depth, alphas, price in head["stars"]
    }
    dropped = {_block(b): octave for b, octave in head["forgotten"]}
    return Demand(Wants(wants), _seen(head), stars, dropped)


class _ComponentReader:
    """Hands out components one after the other."""

    def __init__(self, lattice: Lattice, values: FloatArray) -> None:
        self._lattice, self._values, self._place = lattice, values, 0

    def term(self, coefficient: float, axes: Sequence[int]) -> PatternTerm:
        """The next term."""
        return PatternTerm(coefficient, {axis: self._next(axis) for axis in axes})

    def _next(self, axis: int) -> Components:
        found = []
        for n in self._lattice.chains[axis].n_parts:
            found.append(self._values[self._place : self._place + n])
            self._place += n
        return tuple(found)


def _seen(head: Mapping[str, Any]) -> SeenPredicates:
    by_axis = {
        axis: dict.fromkeys(Weights(tuple(stops), tuple(values)) for stops, values in found)
        for axis, found in head["seen"]
    }
    return SeenPredicates(by_axis, head["count"])


def _want_plain(want: Want) -> dict[str, Any]:
    pattern = want.pattern
    return {
        "facts": [want.half_width, want.confidence, want.octave, want.stretch],
        "terms": [[t.coefficient, list(t.axes)] for t in pattern.terms],
        "has_row": pattern.query is not None,
        "exact": None if pattern.exact is None else sorted(map(_block_plain, pattern.exact)),
    }


def _chains(lattice: Lattice, axes: Iterable[int]) -> list[list[Any]]:
    """A digest of each of these chains."""
    found = ((axis, lattice.chains[axis]) for axis in sorted(axes))
    facts = ((a, repr((c.classes, c.slots, c.n_parts))) for a, c in found)
    return [[a, hashlib.sha256(text.encode()).hexdigest()] for a, text in facts]


def _block_plain(block: BlockKey) -> list[list[int]]:
    return [list(p) for p in block]


def _block(plain: Iterable[Sequence[int]]) -> BlockKey:
    return tuple((axis, level) for axis, level in plain)
