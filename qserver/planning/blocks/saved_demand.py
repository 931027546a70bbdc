"""A demand as arrays and a head, and back.

It is of one lattice: on another one, requirements have other components. So the head names the
chains that it was made on, and what was made on others is of no use.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
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
from qserver.planning.blocks.demand import Demand, SeenPredicates
from qserver.planning.blocks.star import Star
from qserver.planning.blocks.wants import Want, Wants
from qserver.query.weights import Weights
from qserver.records.state import State, bytes_of_rows, rows_of_bytes


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
