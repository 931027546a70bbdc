"""Variances, deviations and correlations of 0 to 2,000 records hold as often as they say.

The noise is the worker's own, from a seed; steps, posteriors and public bounds are the server's.
"""

from __future__ import annotations

import math
import random
from typing import get_args

import pytest

from qserver.query.sql.cells import CellValue
from qserver.records.charge import Relation
from tests.answering.small_spreads import FUNCTIONS, Group, drawn_pairs, truth
from tests.sweeps import n_of

SIZES = (0, 1, 2, 10, 200, 2000)
SEED = 20_261_127
CONFIDENCE = 0.95
ASSUMED = 200
"""Sums of every other group are measured for so many records, else for as many as it has."""
N_WHOLE, N_SHARE, N_CHEAP = 2_000, 20, 3
SIGMAS = 3.0
LEAST_PART = 0.02
"""Of the asked length: no interval is nearly as short by its noise."""
ROUNDING = 1e-9


def held(function: str, value: CellValue, true: float | None) -> bool:
    """Whether an interval holds the truth; it is possible, and no point."""
    _, within, (least, most) = FUNCTIONS[function]
    low, high = value.interval.low, value.interval.high
    assert low is not None
    assert high is not None
    assert least <= low < high <= most + ROUNDING
    assert high - low > LEAST_PART * 2 * within
    assert value.estimate is None or low <= value.estimate <= high
    return true is None or low - ROUNDING <= true <= high + ROUNDING


def misses(function: str, size: int, relation: Relation, n: int) -> int:
    """How many of n numbers miss."""
    rng, missed = random.Random(f"{SEED} {function} {size} {relation}"), 0
    for i in range(n):
        pairs = drawn_pairs(size, rng)
        found = Group(pairs, relation, rng).answered(
            function, assuming=ASSUMED if i % 2 else max(size, 1)
        )
        missed += not held(function, found, truth(function, pairs))
    return missed


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("size", [0, 2, 10])
def test_a_small_group_never_gets_a_point_or_what_is_impossible(function: str, size: int) -> None:
    assert misses(function, size, "add-remove", N_CHEAP) <= N_CHEAP


@pytest.mark.slow
@pytest.mark.parametrize("relation", get_args(Relation))
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_spreads_of_small_groups_miss_no_more_often_than_they_say(
    function: str, size: int, relation: Relation
) -> None:
    n = n_of(N_WHOLE, share=N_SHARE)
    most = n * (1 - CONFIDENCE) + SIGMAS * math.sqrt(n * CONFIDENCE * (1 - CONFIDENCE))
    assert misses(function, size, relation, n) <= most
