"""Streams of questions on many attributes, where the best base often costs more than rows.

Only the domain counts: the sizes are those of Adult's fourteen attributes, of the samples of the
networks, and of synthetic domains. Every question is drawn on its own, unless a stream says that
combinations return.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, product
from math import exp, log, prod

from qserver.query.linear_query import linear_query
from qserver.query.primitive import primitive
from qserver.query.requirement import Requirement
from qserver.query.weights import ScaledWeights, Weights, indicator, interval

from .streams import Asked

# Adult: age, work class, final weight in bins, education and its number, marital status,
# occupation, relationship, race, sex, capital gain and loss in bins, hours, country.
ADULT_14 = (74, 9, 30, 16, 16, 7, 15, 6, 5, 2, 25, 25, 99, 42)
_ADULT_ORDERED = frozenset({0, 2, 4, 10, 11, 12})
ALARM = (2, 3, 3, 2, 3, 2, 2, 3, 2, 2, 4, 3, 3, 2, 2, 4, 4, 3, 2, 3, 3, 4, 4, 4, 2, 4)
CHILD = (2, 3, 6, 3, 3, 3, 2, 3, 3, 2, 3, 5, 3, 5, 5, 2, 3, 2, 3, 5)
_MOST_GROUPS = 20
_CONFIDENCES = (0.9, 0.95, 0.99)

Draw = Callable[[random.Random], Iterator[Asked]]


@dataclass(frozen=True)
class ManyStream:
    """A named stream of questions.

    Args:
        repeats: whether combinations of attributes return, so that blocks may win in the end.
    """

    name: str
    sizes: tuple[int, ...]
    draw: Draw
    repeats: bool = False

    def questions(self, seed: int, n: int) -> list[Asked]:
        """The first `n` questions of this seed."""
        drawn = self.draw(random.Random(f"{self.name} {seed}"))
        return [asked for asked, _ in zip(drawn, range(n), strict=False)]


def _predicate(generator: random.Random, size: int, *, ordered: bool) -> Weights | ScaledWeights:
    if not ordered or size == 2:
        return indicator(size, generator.sample(range(size), generator.randint(1, size - 1)))
    low, high = 0, size
    while (low, high) == (0, size):
        low, high = sorted(generator.sample(range(size + 1), 2))
    return interval(size, low, high)


def _requirement(generator: random.Random, least: float, most: float) -> Requirement:
    length = least * exp(generator.random() * log(most / least))
    return Requirement(length, generator.choice(_CONFIDENCES))


def _mixed(
    generator: random.Random,
    sizes: Sequence[int],
    *,
    ordered: frozenset[int],
    n_axes: tuple[int, int],
    lengths: tuple[float, float],
) -> Iterator[Asked]:
    """Conjunctions of predicates on attributes drawn anew each time."""
    while True:
        chosen = generator.sample(range(len(sizes)), generator.randint(*n_axes))
        axes = {a: _predicate(generator, sizes[a], ordered=a in ordered) for a in chosen}
        yield Asked(primitive(linear_query(sizes, [(1, axes)])), _requirement(generator, *lengths))


def _grouped(generator: random.Random) -> Iterator[Asked]:
    """On Adult: a range, or all groups of a small GROUP BY under one condition."""
    sizes, small = ADULT_14, [a for a, s in enumerate(ADULT_14) if s <= 16]
    while True:
        requirement = _requirement(generator, 100.0, 2_000.0)
        if generator.random() < 0.7:
            chosen = generator.sample(range(len(sizes)), 2)
            found = {a: _predicate(generator, sizes[a], ordered=True) for a in chosen}
            yield Asked(primitive(linear_query(sizes, [(1, found)])), requirement)
            continue
        group = sorted(generator.sample(small, generator.randint(1, 2)))
        if prod(sizes[a] for a in group) > _MOST_GROUPS:
            continue
        other = generator.choice([a for a in range(len(sizes)) if a not in group])
        where = {other: _predicate(generator, sizes[other], ordered=other in _ADULT_ORDERED)}
        for cell in product(*(range(sizes[a]) for a in group)):
            axes = {a: interval(sizes[a], v, v + 1) for a, v in zip(group, cell, strict=True)}
            row = primitive(linear_query(sizes, [(1, {**where, **axes})]))
            yield Asked(row, requirement)


def _cells(generator: random.Random, sizes: Sequence[int], *, n_axes: int) -> Iterator[Asked]:
    """Single cells of marginals drawn anew each time."""
    while True:
        chosen = generator.sample(range(len(sizes)), generator.randint(1, n_axes))
        values = {a: generator.randrange(sizes[a]) for a in chosen}
        axes = {a: interval(sizes[a], v, v + 1) for a, v in values.items()}
        yield Asked(
            primitive(linear_query(sizes, [(1, axes)])), _requirement(generator, 50.0, 1_000.0)
        )


def returning(
    generator: random.Random,
    sizes: Sequence[int],
    *,
    ordered: frozenset[int],
    n_kept: int,
    share: float,
) -> Iterator[Asked]:
    """Predicates on a few combinations of attributes that return, and on others that never do."""
    kept = [sorted(generator.sample(range(len(sizes)), 2)) for _ in range(n_kept)]
    for _ in count():
        chosen: Sequence[int] = generator.choice(kept)
        if generator.random() >= share:
            chosen = generator.sample(range(len(sizes)), 3)
        axes = {a: _predicate(generator, sizes[a], ordered=a in ordered) for a in chosen}
        yield Asked(primitive(linear_query(sizes, [(1, axes)])), Requirement(200.0, 0.95))


def _drawn(sizes: Sequence[int], n_axes: tuple[int, int], ordered: frozenset[int]) -> Draw:
    return partial(_mixed, sizes=sizes, ordered=ordered, n_axes=n_axes, lengths=(100.0, 2_000.0))


_TEN, _THIRTY = (16,) * 10, (3,) * 30
_FIFTEEN = (100, 50, 24, 12, 12, 10, 8, 7, 6, 5, 4, 4, 3, 2, 2)
_FIFTEEN_ORDERED = frozenset({0, 1, 2, 5})

MANY_STREAMS = (
    ManyStream("Adult, 1 to 3 of 14", ADULT_14, _drawn(ADULT_14, (1, 3), _ADULT_ORDERED)),
    ManyStream("Adult, ranges and GROUP BYs", ADULT_14, _grouped),
    ManyStream("alarm, cells of 1 to 3 of 26", ALARM, partial(_cells, sizes=ALARM, n_axes=3)),
    ManyStream("child, sets on 1 to 3 of 20", CHILD, _drawn(CHILD, (1, 3), frozenset())),
    ManyStream("ranges on 2 of 10", _TEN, _drawn(_TEN, (2, 2), frozenset(range(10)))),
    ManyStream("sets on 3 of 30", _THIRTY, _drawn(_THIRTY, (3, 3), frozenset())),
    ManyStream("1 to 4 of 15", _FIFTEEN, _drawn(_FIFTEEN, (1, 4), _FIFTEEN_ORDERED)),
    ManyStream(
        "4 pairs of 15 and others",
        _FIFTEEN,
        partial(returning, sizes=_FIFTEEN, ordered=_FIFTEEN_ORDERED, n_kept=4, share=0.7),
        repeats=True,
    ),
    ManyStream(
        "6 pairs of 10",
        _TEN,
        partial(returning, sizes=_TEN, ordered=frozenset(range(10)), n_kept=6, share=1.0),
        repeats=True,
    ),
)
