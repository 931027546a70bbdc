"""The streams of questions of the published workloads, made from seeds.

covid and citibike are the workloads of the Turbo cache's evaluation, apex the two of APEx; see
docs/comparison.md for where the reference figures come from. No data is needed: only domain,
number of records, pool and required error.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from qserver.query.linear_query import linear_query
from qserver.query.primitive import Primitive, primitive
from qserver.query.requirement import Requirement
from qserver.query.weights import indicator, interval

COVID_SIZES = (2, 2, 4, 8)
COVID_RECORDS = 1_008_532
CITIBIKE_SIZES = (7, 6, 6, 10, 10, 2, 3, 4)
CITIBIKE_RECORDS = 300_000
# fmt: off
CITIBIKE_MARGINALS = (
    "", "0", "01", "02", "03", "034", "04", "1", "12", "13", "134", "14", "2", "25", "26", "267",
    "27", "3", "34", "347", "37", "4", "47", "5", "56", "567", "57", "6", "67", "7",
)
# fmt: on
N_DRAWS = 70_000
_CONFIDENCE = 0.999
_ERROR = 0.05
# age, workclass, education, marital, occupation, relationship, race, sex, hours, country, income
ADULT_SIZES = (74, 9, 16, 7, 15, 6, 5, 2, 99, 42, 2)
ADULT_ORDERED = (0, 2, 8)
APEX_RECORDS = 32_561
APEX_BINS = 100
_APEX_DELTA = 0.0005


@dataclass(frozen=True)
class Asked:
    """A question of a stream: a query with its requirement."""

    query: Primitive
    requirement: Requirement


def covid(seed: int, *, zipf: float, n_draws: int = N_DRAWS) -> Iterator[Asked]:
    """Draws with replacement from all products of non-empty value subsets, shuffled.

    Args:
        zipf: exponent of the draws over the shuffled order; 0 is uniform.
    """
    generator = random.Random(seed)
    subsets = [
        [tuple(v for v in range(s) if mask >> v & 1) for mask in range(1, 1 << s)]
        for s in COVID_SIZES
    ]
    pool = list(product(*subsets))
    generator.shuffle(pool)
    requirement = Requirement(2 * _ERROR * COVID_RECORDS, _CONFIDENCE)
    asked: dict[int, Asked] = {}
    for i in _draws(len(pool), seed, zipf, n_draws):
        if i not in asked:
            axes = {a: indicator(COVID_SIZES[a], chosen) for a, chosen in enumerate(pool[i])}
            asked[i] = Asked(primitive(linear_query(COVID_SIZES, [(1, axes)])), requirement)
        yield asked[i]


def citibike(seed: int, *, n_draws: int = N_DRAWS) -> Iterator[Asked]:
    """Uniform draws from the cells of 30 marginals."""
    sizes = CITIBIKE_SIZES
    pool = [
        dict(zip(map(int, name), cell, strict=True))
        for name in CITIBIKE_MARGINALS
        for cell in product(*(range(sizes[int(a)]) for a in name))
    ]
    requirement = Requirement(2 * _ERROR * CITIBIKE_RECORDS, _CONFIDENCE)
    asked: dict[int, Asked] = {}
    for i in _draws(len(pool), seed, 0.0, n_draws):
        if i not in asked:
            axes = {a: interval(sizes[a], v, v + 1) for a, v in pool[i].items()}
            asked[i] = Asked(primitive(linear_query(sizes, [(1, axes)])), requirement)
        yield asked[i]


def apex_bins(*, error: float) -> list[Asked]:
    """APEx's QW1: 100 bins, each within `error` of the number of records."""
    return _apex([(i, i + 1) for i in range(APEX_BINS)], error)


def apex_prefixes(*, error: float) -> list[Asked]:
    """APEx's QW2: 100 prefixes, each within `error` of the number of records."""
    return _apex([(0, i + 1) for i in range(APEX_BINS)], error)


def predicates(seed: int, *, n_draws: int) -> Iterator[Asked]:
    """Mixed predicate questions on a domain of Adult's shape.

    One to three attributes; a range on ordered ones (age, education, hours), else a random set of
    values; lengths log-uniform from 20 to 2,000, confidences uniform from 0.8 to 0.999.
    """
    generator = random.Random(seed)
    for _ in range(n_draws):
        axes = {}
        for axis in generator.sample(range(len(ADULT_SIZES)), generator.randint(1, 3)):
            size = ADULT_SIZES[axis]
            if axis in ADULT_ORDERED:
                axes[axis] = interval(size, *sorted(generator.sample(range(size + 1), 2)))
            else:
                axes[axis] = indicator(
                    size, generator.sample(range(size), generator.randint(1, size - 1))
                )
        requirement = Requirement(20.0 * 100.0 ** generator.random(), generator.uniform(0.8, 0.999))
        yield Asked(primitive(linear_query(ADULT_SIZES, [(1, axes)])), requirement)


APEX_CONFIDENCE = 1 - _APEX_DELTA


def _apex(ranges: Sequence[tuple[int, int]], error: float) -> list[Asked]:
    requirement = Requirement(2 * error * APEX_RECORDS, APEX_CONFIDENCE)
    sizes = (APEX_BINS,)
    queries = [linear_query(sizes, [(1, {0: interval(APEX_BINS, *r)})]) for r in ranges]
    return [Asked(primitive(q), requirement) for q in queries]


def _draws(n: int, seed: int, zipf: float, n_draws: int) -> list[int]:
    weights = np.arange(1, n + 1, dtype=float) ** -zipf
    generator = np.random.default_rng(seed)
    drawn: list[int] = generator.choice(n, size=n_draws, p=weights / weights.sum()).tolist()
    return drawn
