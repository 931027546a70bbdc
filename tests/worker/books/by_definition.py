"""Losses by definition, from the draws as they were made: over every cell, pair and set of files.

Shares no code with the ledger or with the books. A draw is a row as a vector over all cells, the
answer that it went on from, and its alpha.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, product
from typing import Any

Vector = tuple[Fraction, ...]


def cells_of(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    return list(product(*map(range, sizes)))


def row_vector(plain: Any, sizes: Sequence[int]) -> Vector:
    """A row's document over all cells."""
    return tuple(
        sum(
            (
                Fraction(c)
                * math.prod(v[next(i for i, e in enumerate(s) if cell[a] < e)] for a, s, v in fs)
                for c, fs in plain
            ),
            Fraction(0),
        )
        for cell in cells_of(sizes)
    )


def table_vectors(plain: Any, sizes: Sequence[int]) -> list[Vector]:
    """The indicator of each cell of a table's document, in its order."""
    labels = [
        tuple(ids[next(i for i, e in enumerate(stops) if cell[a] < e)] for a, stops, ids in plain)
        for cell in cells_of(sizes)
    ]
    n_parts = [1 + max(ids) for _, _, ids in plain]
    return [
        tuple(Fraction(found == label) for found in labels)
        for label in product(*map(range, n_parts))
    ]


@dataclass
class Chain:
    vector: Vector
    alphas: list[int]


@dataclass(frozen=True)
class Spread:
    """At most m records of a person have the same value of attribute 0."""

    most: int
    keeps_period: bool


@dataclass
class Draws:
    """All draws on one snapshot."""

    sizes: tuple[int, ...]
    relation: str
    k: int
    null_cell: bool
    chains: list[Chain] = field(default_factory=list)
    by_answer: dict[int, int] = field(default_factory=dict)
    samples: float = 0.0
    spread: Spread | None = None

    @property
    def is_exact(self) -> bool:
        """Whether `worst` is the greatest loss, not only one that somebody has."""
        spread = self.spread
        return spread is None or self.relation == "add-remove" or spread.keeps_period

    def draw(self, vector: Vector, *, origin: int | None, alpha: int, answer: int) -> None:
        """A draw of `answer` that goes on from the answer `origin`."""
        if origin is None:
            self.chains.append(Chain(vector, [alpha]))
            self.by_answer[answer] = len(self.chains) - 1
            return
        place = self.by_answer.pop(origin)  # KeyError: drawn from twice
        chain = self.chains[place]
        assert chain.vector == vector
        assert chain.alphas[-1] < alpha
        chain.alphas.append(alpha)
        self.by_answer[answer] = place

    def sample(self, nominal_nano: int) -> None:
        x = nominal_nano / 1e9
        self.samples += math.log1p(0.1 * math.expm1(x)) * 1e9

    def worst(self) -> float:
        """The greatest loss of a person in this snapshot, in nano-epsilon."""
        tips = [(chain.vector, chain.alphas[-1]) for chain in self.chains]
        n = math.prod(self.sizes)
        if self.spread is not None:
            return self._worst_spread(tips, self.spread)
        alone = [sum((a * abs(v[c]) for v, a in tips), Fraction(0)) for c in range(n)]
        least = self.k * (float(max(alone)) + self.samples)
        if self.relation == "add-remove":
            return least
        pairs = [
            sum((a * abs(v[c] - v[d]) for v, a in tips), Fraction(0))
            for c, d in combinations(range(n), 2)
        ]
        most = self.k * (float(max(pairs, default=Fraction(0))) + 2 * self.samples)
        return max(most, least) if self.null_cell else most

    def _worst_spread(self, tips: list[tuple[Vector, int]], spread: Spread) -> float:
        """The same where the k records may not all be of one period.

        Where a record may come from any period, only what some person certainly loses.
        """
        size = math.prod(self.sizes[1:])
        periods = [range(t * size, (t + 1) * size) for t in range(self.sizes[0])]

        def apart(c: int, d: int) -> Fraction:
            return sum((a * abs(v[c] - v[d]) for v, a in tips), Fraction(0))

        alone = [
            max(sum((a * abs(v[c]) for v, a in tips), Fraction(0)) for c in cells)
            for cells in periods
        ]
        least = self._most(alone, spread) + self.k * self.samples
        if self.relation == "add-remove":
            return least
        if spread.keeps_period:
            pairs = [max(apart(c, d) for c in cells for d in cells) for cells in periods]
            if self.null_cell:
                pairs = list(map(max, pairs, alone))
            return self._most(pairs, spread) + 2 * self.k * self.samples
        every = range(math.prod(self.sizes))
        pair = spread.most * float(max(apart(c, d) for c in every for d in every))
        return max(pair + 2 * spread.most * self.samples, least if self.null_cell else 0.0)

    def _most(self, of_periods: Sequence[Fraction], spread: Spread) -> float:
        """The greatest sum, over every way to spread the records."""
        ways = product(range(spread.most + 1), repeat=len(of_periods))
        return float(
            max(
                sum((n * one for n, one in zip(way, of_periods, strict=True)), Fraction(0))
                for way in ways
                if sum(way) <= self.k
            )
        )


def worst_person(worst: Mapping[str, float], pairs: Collection[tuple[str, str]]) -> float:
    """The greatest loss of a person in any files no two of which are declared disjoint."""
    names, best = list(worst), 0.0
    apart = {frozenset(pair) for pair in pairs}
    for size in range(len(names) + 1):
        for chosen in combinations(names, size):
            if not any(frozenset(two) in apart for two in combinations(chosen, 2)):
                best = max(best, sum(worst[name] for name in chosen))
    return best
