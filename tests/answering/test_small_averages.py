"""Averages of groups of 0 to 2,000 records, within 3: they hold as often as they say.

The noise is the worker's own, from a seed; steps, posterior and public bounds are the server's.
"""

from __future__ import annotations

import math
import random
from typing import get_args

import pytest

from qserver.query.sql.cells import CellValue
from qserver.records.charge import Relation
from tests.answering.small_averages import LEAST, MOST, Group
from tests.sweeps import n_of

SIZES = (0, 1, 2, 5, 10, 50, 200, 2000)
SEED = 20_261_126
CONFIDENCE = 0.95
N_WHOLE, N_SHARE, N_CHEAP = 2_000, 40, 3
SIGMAS = 3.5
"""One false alarm in 4,000; of 2,000 intervals 93.3 percent that hold are told from 95."""
LEAST_LENGTH = 1.0
"""None is nearly as short by its noise: the asked length is 6."""


def held(group: Group, value: CellValue) -> bool:
    """Whether an interval holds the truth; it is possible, and no point."""
    low, high = value.interval.low, value.interval.high
    assert low is not None
    assert high is not None
    assert LEAST <= low < high <= MOST
    assert high - low > LEAST_LENGTH
    assert value.estimate is None or low <= value.estimate <= high
    return group.truth is None or low <= group.truth <= high


def misses(size: int, relation: Relation, n: int) -> int:
    """How many of n averages miss."""
    rng = random.Random(f"{SEED} {size} {relation}")
    values = [[rng.choice((20, 25, 30, 35, 40, 60)) for _ in range(size)] for _ in range(n)]
    groups = [Group(own, relation, rng) for own in values]
    return sum(not held(group, group.answered()) for group in groups)


@pytest.mark.parametrize("size", [0, 2, 50])
def test_a_small_group_never_gets_a_point_or_what_is_impossible(size: int) -> None:
    assert misses(size, "add-remove", N_CHEAP) <= N_CHEAP


@pytest.mark.slow
@pytest.mark.parametrize("relation", get_args(Relation))
@pytest.mark.parametrize("size", SIZES)
def test_averages_of_small_groups_miss_no_more_often_than_they_say(
    size: int, relation: Relation
) -> None:
    n = n_of(N_WHOLE, share=N_SHARE)
    most = n * (1 - CONFIDENCE) + SIGMAS * math.sqrt(n * CONFIDENCE * (1 - CONFIDENCE))
    assert misses(size, relation, n) <= most
