"""Small random histories, and what they are cell by cell."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Sequence
from fractions import Fraction

from qserver.inference.engine import InferenceEngine
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import Primitive, primitive
from qserver.query.weights import interval
from qserver.records.history import Estimator, Measurement
from tests.query.dense_weights import scaled_weights

NANO = 10**9
STEP = Fraction(1, 1 << 20)


def measured(
    number: int, query: LinearQuery, *, scale: Fraction | int = 10, answer: Fraction | int = 0
) -> Measurement:
    """Measurement `number` of the query's row; scale 0 is a public row. `answer` is the row's."""
    row = primitive(query)
    alpha = 0 if scale == 0 else round(NANO / Fraction(scale))
    return Measurement(number, row.row, row.key, alpha, STEP, round(Fraction(answer) / STEP))


def engine(sizes: Sequence[int], events: Iterable[Measurement | Estimator]) -> InferenceEngine:
    found = InferenceEngine(tuple(sizes))
    found.extend(events)
    return found


def is_estimable(engine: InferenceEngine, row: Primitive) -> bool:
    """Whether history gives the row any estimate at all."""
    return engine.estimate(row, confidence=0.5, enough=math.inf) is not None


def combined_alpha(
    engine: InferenceEngine, row: Primitive, *, half_width: float, confidence: float, step: Fraction
) -> float | None:
    """The alpha of a new measurement of the row that meets a target with history."""
    found = engine.combined(row, half_width=half_width, confidence=confidence, step=step)
    return None if found is None else found.alpha


def dense(query: LinearQuery) -> list[Fraction]:
    """The value of every cell; small domains only."""
    return [query.value_at(c) for c in itertools.product(*(range(s) for s in query.sizes))]


def random_query(rng: random.Random, sizes: Sequence[int], *, n_terms: int = 2) -> LinearQuery:
    """A non-zero query with small weights on random attributes."""
    while True:
        terms = []
        for _ in range(rng.randint(1, n_terms)):
            axes = {}
            for axis, size in enumerate(sizes):
                if rng.random() < 0.7:
                    axes[axis] = scaled_weights([rng.choice((0, 1, 1, 2, -1)) for _ in range(size)])
            terms.append((Fraction(rng.choice((1, 1, -1, 2)), rng.choice((1, 3))), axes))
        query = linear_query(sizes, terms)
        if not primitive(query).is_zero:
            return query


def random_range(rng: random.Random, size: int, cuts: int) -> LinearQuery:
    """A range on one attribute with ends on a grid of `cuts` cuts."""
    low, high = sorted(rng.sample(range(cuts + 1), 2))
    return linear_query(
        (size,), [(1, {0: interval(size, low * size // cuts, high * size // cuts)})]
    )


def combination(
    rng: random.Random, queries: Sequence[LinearQuery], *, n: int = 3
) -> LinearQuery | None:
    """A random combination of some queries, or None where it vanishes."""
    total = queries[0].scaled(0)
    for query in rng.sample(list(queries), min(n, len(queries))):
        total = total + query.scaled(Fraction(rng.choice((1, -1, 2, 3)), rng.choice((1, 2))))
    return None if primitive(total).is_zero else total


def row_of(query: LinearQuery) -> Primitive:
    return primitive(query)
