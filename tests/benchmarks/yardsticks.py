"""How far the spend is from the best that is known, on domains of at most 144 cells.

`spent` is the planner's, `rows` own rows alone, `blocks` the best blocks in hindsight, `mixture`
the best blocks and rows, `matrix` the best measurements of any shape that a local search found, and
`bound` what none can go below. All in epsilon, under add-remove; `over_` is the spend over each.
The questions of a mixed stream are of length 20, and every eighth of a quarter of it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import islice, product
from math import prod
from statistics import median

from qserver.query.linear import linear_query
from qserver.query.measure import DEFAULT_PHI
from qserver.query.primitive import primitive
from qserver.query.requirement import Requirement
from qserver.query.weights import interval

from .streams import COVID_SIZES, Asked, covid
from .tables import Report, Value
from .yardstick.distances import (
    CONFIDENCE,
    LENGTH,
    Distances,
    SmallStream,
    distances,
    small_stream,
)

SEEDS = (5021,)
_N, _QUICK = 60, 8
_PRODUCT = (2, 3, 4, 5)


def run(*, quick: bool) -> Report:
    """Spend and yardsticks per stream."""
    seeds, streams = (SEEDS[:1], STREAMS[:1]) if quick else (SEEDS, STREAMS)
    n = _QUICK if quick else _N
    return Report(
        name="yardsticks",
        title=f"Spend and yardsticks on small domains, {n} questions, {len(seeds)} seed",
        parameters={"seeds": list(seeds), "phi": DEFAULT_PHI, "questions": n},
        rows=tuple(_row(s, [distances(s, seed, n) for seed in seeds]) for s in streams),
    )


def _row(stream: SmallStream, found: Sequence[Distances]) -> dict[str, Value]:
    names = ("spent", "rows", "blocks", "mixture", "matrix", "bound")
    return {
        "stream": stream.name,
        "cells": prod(stream.sizes),
        **{name: median(getattr(d, name) for d in found) for name in names},
        **{f"over_{name}": median(d.spent / getattr(d, name) for d in found) for name in names[2:]},
    }


def _marginals(seed: int, n: int) -> list[Asked]:
    """Cells of marginals of one or two attributes."""
    generator = random.Random(seed)
    axes = [a for k in (1, 2) for a in product(range(len(_PRODUCT)), repeat=k) if len({*a}) == k]
    found = []
    for _ in range(n):
        values = {a: generator.randrange(_PRODUCT[a]) for a in generator.choice(axes)}
        cell = {a: interval(_PRODUCT[a], v, v + 1) for a, v in values.items()}
        query = primitive(linear_query(_PRODUCT, [(1, cell)]))
        found.append(Asked(query, Requirement(LENGTH, CONFIDENCE)))
    return found


def _covid(seed: int, n: int) -> list[Asked]:
    return list(islice(covid(seed, zipf=0.0, n_draws=n), n))


STREAMS = (
    small_stream("ranges on 16 values", (16,)),
    small_stream("ranges on 64 values", (64,)),
    small_stream("boxes on 12 x 12", (12, 12)),
    small_stream("boxes on 12 x 12, mixed", (12, 12), is_mixed=True),
    SmallStream("marginals of 2 x 3 x 4 x 5", _PRODUCT, _marginals),
    SmallStream("covid, Zipf 0", COVID_SIZES, _covid),
)
