"""Averages, shares, deviations, extremes and other numbers of groups of 0 to 20,000 records.

They hold as often as they say, after all their steps. The noise is the worker's own, from a seed.
"""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import get_args

import numpy as np
import pytest

from qserver.answering.smooth_numbers import SmoothKnown
from qserver.records.charge import Relation
from qserver.records.privacy.noise_law import GAUSSIAN, LAPLACE, NoiseLaw
from tests.answering.smooth_runs import AGES, HOURS, Asked, Group, Record
from tests.sweeps import n_of

SIZES = (0, 1, 9, 300, 1_500, 20_000)
SEED = 20_261_126
CONFIDENCE = 0.95
N_WHOLE, N_SHARE = 500, 20
SIGMAS = 3.5
"""One false alarm in 4,000; of 500 intervals 91 percent that hold are told from 95."""
OTHERS = 500
Floats = np.ndarray[tuple[int, int], np.dtype[np.float64]]


def _deviation(found: Floats) -> float | None:
    return float(found[0].std(ddof=1)) if found.shape[1] > 1 else None


def _correlation(found: Floats) -> float | None:
    if found.shape[1] < 2 or (found.std(axis=1) == 0.0).any():
        return None
    return float(np.corrcoef(found)[0, 1])


def _average(found: Floats) -> float | None:
    return float(found[0].mean()) if found.shape[1] else None


def _share(found: Floats) -> float | None:
    return float((found[0] < 30).mean()) if found.shape[1] else None


def _coefficient(found: Floats) -> float | None:
    deviation, mean = _deviation(found), _average(found)
    return None if deviation is None or not mean else deviation / mean


def _logarithm(found: Floats) -> float | None:
    return math.log(found.shape[1]) if found.shape[1] else None


def _product(found: Floats) -> float | None:
    below = float((found[0] < 30).sum())
    return below * (found.shape[1] - below) / 1e6


def _by_hours(found: Floats) -> Floats:
    """How many there are by the rest of their hours by 8: nearly equal numbers."""
    return np.array([[(found[1] % 8 == k).sum()] for k in range(8)], dtype=float)


def _part_of_greatest(found: Floats) -> float | None:
    counts = _by_hours(found)[:, 0]
    return float(counts[0] / counts.max()) if counts.max() else None


def _distance(found: Floats) -> float | None:
    return abs(float((found[1] % 2 == 0).sum() - (found[1] % 2 == 1).sum()))


def _skewness(found: Floats) -> float | None:
    if found.shape[1] < 3 or found[0].std() == 0.0:
        return None
    n, off = found.shape[1], found[0] - found[0].mean()
    skew = (off**3).mean() / (off**2).mean() ** 1.5
    return float(skew * math.sqrt(n * (n - 1)) / (n - 2))


EIGHTHS = ", ".join(f"COUNT_IF(hours % 8 = {k})" for k in range(8))
ASKED = {
    "average": Asked("AVG(age)", "1", _average),
    "share": Asked("COUNT_IF(age < 30) / COUNT(*)", "0.05", _share),
    "deviation": Asked("STDDEV(age)", "1", _deviation),
    "correlation": Asked("CORR(age, hours)", "0.2", _correlation),
    "coefficient": Asked("STDDEV(age) / AVG(age)", "0.05", _coefficient),
    "logarithm": Asked("LN(COUNT(*))", "0.1", _logarithm),
    "greatest": Asked(f"GREATEST({EIGHTHS})", "40", lambda found: float(_by_hours(found).max())),
    "part": Asked(f"COUNT_IF(hours % 8 = 0) * 1.0 / GREATEST({EIGHTHS})", "0.1", _part_of_greatest),
    "distance": Asked("ABS(COUNT_IF(hours % 2 = 0) - COUNT_IF(hours % 2 = 1))", "40", _distance),
    "skewness": Asked("SKEWNESS(age)", "0.3", _skewness),
    "product": Asked("COUNT_IF(age < 30) * COUNT_IF(age >= 30) / 1e6", "0.1", _product),
}


def records(rng: random.Random, n: int) -> list[Record]:
    """So many people, whose hours have something to do with their age."""
    ages = [min(AGES[0] + int(rng.expovariate(1 / 20)), AGES[1]) for _ in range(n)]
    return [(age, max(HOURS[0], min(HOURS[1], rng.randrange(20) + age // 2))) for age in ages]


def holds(group: Group, known: SmoothKnown) -> bool:
    """Whether the centred interval holds the truth; where there is none, all is possible."""
    estimate, half_width = known.look.estimate, known.look.half_width
    if group.truth is None or estimate is None or not known.look.is_known:
        return True
    return abs(estimate - group.truth) <= half_width


@pytest.mark.slow
@pytest.mark.parametrize("relation", get_args(Relation))
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ASKED)
@pytest.mark.parametrize("law", [LAPLACE, GAUSSIAN])
def test_smooth_numbers_miss_no_more_often_than_they_say(
    law: NoiseLaw, kind: str, size: int, relation: Relation
) -> None:
    n, rng = n_of(N_WHOLE, share=N_SHARE), random.Random(f"{SEED} {kind} {size} {relation}")
    most = n * (1 - CONFIDENCE) + SIGMAS * math.sqrt(n * CONFIDENCE * (1 - CONFIDENCE))
    people, sums, misses = records(rng, size), dict[str, Fraction](), 0
    for _ in range(n):
        group = Group(ASKED[kind], people, OTHERS, relation, rng, sums, law)
        misses += not holds(group, group.answered())
    assert misses <= most


@pytest.mark.parametrize("size", [0, 20_000])
def test_a_group_is_told_as_exactly_as_asked_or_is_known_to_be_small(size: int) -> None:
    rng = random.Random(SEED)
    group = Group(ASKED["average"], records(rng, size), OTHERS, "add-remove", rng)
    known = group.answered()
    assert (known.look.half_width <= 1.0) == (size > 0)
    assert (known.size_at_most < 1000.0) == (size == 0)
    # An empty group is not measured as exactly as one with a thousand records would need.
    assert group.loss < 0.05
    assert group.n_steps < 12
