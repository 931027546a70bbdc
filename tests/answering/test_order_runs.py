"""Quantiles of groups of 0 to 20,000 records.

They hold as often as they say, after all their steps. The noise is the worker's own, from a seed.
"""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import get_args

import pytest

from qserver.records.charge import Relation
from tests.answering.order_runs import LEAST_AGE, N_AGES, Asked, Group
from tests.sweeps import n_of

SIZES = (0, 1, 9, 300, 1_500, 20_000)
SEED = 20_261_126
CONFIDENCE = 0.95
N_WHOLE, N_SHARE = 2_000, 20
SIGMAS = 3.5
"""One false alarm in 4,000; of 2,000 intervals 93.3 percent that hold are told from 95."""
OTHERS = 500
ASKED = {
    "median": Asked(Fraction(1, 2), 2.0, CONFIDENCE),
    "last tenth": Asked(Fraction(9, 10), 4.0, CONFIDENCE),
}


def ages(rng: random.Random, n: int) -> list[int]:
    """Those of so many people, sorted."""
    return sorted(min(int(rng.expovariate(1 / 20)), N_AGES - 1) + LEAST_AGE for _ in range(n))


@pytest.mark.slow
@pytest.mark.parametrize("relation", get_args(Relation))
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ASKED)
def test_quantiles_miss_no_more_often_than_they_say(
    kind: str, size: int, relation: Relation
) -> None:
    n, rng = n_of(N_WHOLE, share=N_SHARE), random.Random(f"{SEED} {kind} {size} {relation}")
    most = n * (1 - CONFIDENCE) + SIGMAS * math.sqrt(n * CONFIDENCE * (1 - CONFIDENCE))
    people, misses = ages(rng, size), 0
    for _ in range(n):
        group = Group(ASKED[kind], people, OTHERS, relation, rng)
        misses += not group.holds(group.answered())
    assert misses <= most


@pytest.mark.parametrize("size", [0, 20_000])
def test_a_quantile_is_told_as_exactly_as_asked_or_its_group_is_known_to_be_small(
    size: int,
) -> None:
    rng = random.Random(SEED)
    group = Group(ASKED["median"], ages(rng, size), OTHERS, "add-remove", rng)
    known = group.answered()
    assert known.state(group.number) == ("met" if size else "few")
    # An empty group is not measured as exactly as one with a thousand records would need.
    assert max(group.loss) < 0.05
    assert group.n_steps < 12


def test_what_is_known_by_all_counts_is_measured_no_further() -> None:
    """And other quantiles follow from the same counts."""
    rng = random.Random(SEED)
    people = ages(rng, 2_000)
    group = Group(ASKED["median"], people, OTHERS, "add-remove", rng)
    group.measure_all(rate=1.0)
    known = group.answered()
    assert group.n_steps == 0
    assert group.holds(known)
    assert known.state(group.number) == "met"
