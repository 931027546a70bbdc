"""The spend on a stream of a small domain, next to all yardsticks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np

from qserver.query.measure import DEFAULT_PHI
from qserver.query.primitive import primitive
from qserver.query.requirement import Requirement
from tests.benchmarks.play import play, snapshot_for
from tests.benchmarks.streams import Asked
from tests.benchmarks.workloads import QuerySource, Segments

from . import matrix
from .bound import least_ratio, lower_bound
from .mixture import Hindsight

LENGTH, CONFIDENCE = 20.0, 0.95
_TIGHT, _TIGHT_EVERY = 5.0, 8


@dataclass(frozen=True)
class SmallStream:
    """A named stream of questions on a small domain."""

    name: str
    sizes: tuple[int, ...]
    questions: Callable[[int, int], list[Asked]]


@dataclass(frozen=True)
class Distances:
    """The spend on one stream with one seed, and the yardsticks, in epsilon."""

    spent: float
    rows: float
    blocks: float
    mixture: float
    matrix: float
    bound: float


def distances(stream: SmallStream, seed: int, n: int) -> Distances:
    """One stream with one seed."""
    asked = stream.questions(seed, n)
    empty = snapshot_for(stream.sizes, relation="add-remove", phi=DEFAULT_PHI, seed=seed)
    hindsight = Hindsight.of(stream.sizes, asked, relation="add-remove")
    blocks, mixture = hindsight.blocks(), hindsight.best(seed=seed)
    cells = _cells(stream.sizes)
    known = matrix.Asked.of([need.question for need in hindsight.needs], cells)
    own = [matrix.strategy_of(hindsight.purchase(m.rented), cells) for m in (mixture, blocks)]
    deviations = known.half_widths / np.array([least_ratio(c) for c in known.confidences])
    return Distances(
        spent=play(empty, asked).spent[-1],
        rows=hindsight.rows().price,
        blocks=blocks.price,
        mixture=mixture.price,
        matrix=matrix.best_matrix(known, [*own, *matrix.usual_starts(known)]),
        bound=lower_bound(known.queries, deviations),
    )


def small_stream(name: str, sizes: tuple[int, ...], *, is_mixed: bool = False) -> SmallStream:
    """Boxes on a small domain, of one length or mixed."""
    return SmallStream(name, sizes, partial(_boxes, sizes=sizes, is_mixed=is_mixed))


def _cells(sizes: Sequence[int]) -> Segments:
    """Every cell of the domain."""
    grid = np.indices(sizes).reshape(len(sizes), prod(sizes)).T
    return Segments(tuple(sizes), np.ascontiguousarray(grid))


def _boxes(seed: int, n: int, *, sizes: tuple[int, ...], is_mixed: bool = False) -> list[Asked]:
    """A range on every attribute."""
    source = QuerySource.seeded(sizes, seed)
    lengths = (_TIGHT if is_mixed and i % _TIGHT_EVERY == 0 else LENGTH for i in range(n))
    return [Asked(primitive(source.box()), Requirement(x, CONFIDENCE)) for x in lengths]
