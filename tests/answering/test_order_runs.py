"""Quantiles, extremes and numbers of groups, of 0 to 20,000 records.

They hold as often as they say, after all their steps. The noise is the worker's own, from a seed.
"""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import get_args

import pytest

from qserver.records.charge import Relation
from qserver.records.privacy.noise_law import GAUSSIAN, LAPLACE, NoiseLaw
from tests.answering.order_runs import LEAST_AGE, N_AGES, Asked, Counted, Group, Measured
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
    "least": Asked(Fraction(0), 50.0, CONFIDENCE),
    "greatest": Asked(Fraction(1), 50.0, CONFIDENCE),
}
COUNTED: dict[str, tuple[int, int, float]] = {
    "often": (20, 40, 2.0),
    "one record": (20, 1, 20.0),
    "one age": (1, 20, 0.4),
}
"""How many ages, how many records are enough, and the half-width."""
NEAR: dict[str, tuple[int, int, int, float]] = {
    "one group": (19, 1, 20, 0.4),
    "twenty groups": (39, 20, 40, 2.0),
    "three groups without a record": (0, 3, 1, 20.0),
    "twenty groups without a record": (0, 20, 1, 20.0),
}
"""How many records each age has, and what `COUNTED` says."""


def ages(rng: random.Random, n: int) -> list[int]:
    """Those of so many people, sorted."""
    return sorted(min(int(rng.expovariate(1 / 20)), N_AGES - 1) + LEAST_AGE for _ in range(n))


@pytest.mark.slow
@pytest.mark.parametrize("relation", get_args(Relation))
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ASKED)
@pytest.mark.parametrize("law", [LAPLACE, GAUSSIAN])
def test_they_miss_no_more_often_than_they_say(
    law: NoiseLaw, kind: str, size: int, relation: Relation
) -> None:
    n, rng = n_of(N_WHOLE, share=N_SHARE), random.Random(f"{SEED} {kind} {size} {relation}")
    people, misses = ages(rng, size), 0
    for _ in range(n):
        group = Group(ASKED[kind], Measured(people, OTHERS, relation, rng, law))
        misses += not group.holds(group.answered())
    assert misses <= most_misses(n)


def most_misses(n: int) -> float:
    """Of so many intervals."""
    return n * (1 - CONFIDENCE) + SIGMAS * math.sqrt(n * CONFIDENCE * (1 - CONFIDENCE))


@pytest.mark.slow
@pytest.mark.parametrize("relation", get_args(Relation))
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", COUNTED)
@pytest.mark.parametrize("law", [LAPLACE, GAUSSIAN])
def test_numbers_of_groups_miss_no_more_often_than_they_say(
    law: NoiseLaw, kind: str, size: int, relation: Relation
) -> None:
    n, rng = n_of(N_WHOLE, share=N_SHARE), random.Random(f"{SEED} {kind} {size} {relation}")
    people, misses = ages(rng, size), 0
    for _ in range(n):
        counted = Counted(Measured(people, OTHERS, relation, rng, law), *COUNTED[kind])
        misses += not counted.holds(counted.answered())
    assert misses <= most_misses(n)


@pytest.mark.slow
@pytest.mark.parametrize("kind", NEAR)
@pytest.mark.parametrize("law", [LAPLACE, GAUSSIAN])
def test_groups_at_the_constant_are_judged_wrongly_no_more_often_than_said(
    law: NoiseLaw, kind: str
) -> None:
    """Where each look at each group is as likely to be wrong as may be."""
    at, n_ages, enough, within = NEAR[kind]
    n, rng, misses = n_of(N_WHOLE, share=N_SHARE), random.Random(f"{SEED} {kind}"), 0
    people = [LEAST_AGE + i for i in range(20) for _ in range(at)]
    for _ in range(n):
        measured = Measured(people, OTHERS, "add-remove", rng, law)
        counted = Counted(measured, n_ages, enough, within)
        misses += not counted.holds(counted.answered())
    assert misses <= most_misses(n)


@pytest.mark.parametrize("size", [0, 20_000])
@pytest.mark.parametrize("kind", ["often", "one age"])
def test_groups_are_measured_until_so_few_are_in_doubt_and_large_ones_roughly(
    kind: str, size: int
) -> None:
    rng = random.Random(SEED)
    counted = Counted(Measured(ages(rng, size), OTHERS, "add-remove", rng), *COUNTED[kind])
    known = counted.answered()
    assert known.state(counted.number) == "met"
    assert counted.holds(known)
    assert float(known.ends.high - known.ends.low) <= 2 * counted.within
    at_most = counted.number.unit / counted.number.least_half
    assert max(counted.records.loss) <= at_most * 1.01
    if size:
        assert max(counted.records.loss) < at_most / 2


@pytest.mark.parametrize(("kind", "size"), [("least", 0), ("greatest", 20_000)])
def test_an_extreme_is_one_that_few_are_beyond(kind: str, size: int) -> None:
    rng = random.Random(SEED)
    group = Group(ASKED[kind], Measured(ages(rng, size), OTHERS, "add-remove", rng))
    known = group.answered()
    assert known.state(group.number) == "met"
    assert group.holds(known)
    assert group.beyond(known) < 100
    # Ten counts within 50 cost 0.6.
    assert max(group.records.loss) < 0.6
    assert group.records.n_steps < 12


@pytest.mark.parametrize("size", [0, 20_000])
def test_a_quantile_is_told_as_exactly_as_asked_or_its_group_is_known_to_be_small(
    size: int,
) -> None:
    rng = random.Random(SEED)
    group = Group(ASKED["median"], Measured(ages(rng, size), OTHERS, "add-remove", rng))
    known = group.answered()
    assert known.state(group.number) == ("met" if size else "few")
    # An empty group is not measured as exactly as one with a thousand records would need.
    assert max(group.records.loss) < 0.05
    assert group.records.n_steps < 12


def test_what_is_known_by_all_counts_is_measured_no_further() -> None:
    """And other quantiles follow from the same counts."""
    rng = random.Random(SEED)
    people = ages(rng, 2_000)
    group = Group(ASKED["median"], Measured(people, OTHERS, "add-remove", rng))
    group.measure_all(rate=1.0)
    known = group.answered()
    assert group.records.n_steps == 0
    assert group.holds(known)
    assert known.state(group.number) == "met"
