"""A longer interval never costs more than a shorter one, with any history."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from qserver.planning.blocks.needed_part import least_whole
from qserver.planning.blocks.rent_or_buy import RentOrBuy
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.query.linear_query import linear_query
from qserver.query.primitive import Primitive, primitive
from qserver.query.requirement import Requirement
from qserver.query.weights import Weights, interval
from tests.benchmarks.synthetic_noise import Snapshot
from tests.sweeps import share

DOMAINS = ((24,), (12, 6), (8, 5, 4))
FACTORS = tuple(2.0 ** (n / 5) for n in range(-10, 16))


def random_range(generator: random.Random, sizes: tuple[int, ...]) -> Primitive:
    axes: dict[int, Weights] = {}
    while not axes:
        for axis, size in enumerate(sizes):
            low, high = sorted(generator.sample(range(size + 1), 2))
            if generator.random() < 0.6 and high - low < size:
                axes[axis] = interval(size, low, high)
    return primitive(linear_query(sizes, [(1, axes)]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", share([9501, 9505, 9506], 1))
def test_the_price_never_rises_with_the_length(seed: int) -> None:
    """Lengths of four classes of precision are paid for; a decision by the asked length fails."""
    generator = random.Random(seed)
    sizes = generator.choice(DOMAINS)
    snapshot = Snapshot(sizes, rule=RentOrBuy(generator.choice((0.4, 0.6))))
    kinds = set()
    for n in range(16):
        query = random_range(generator, sizes)
        if n % 3 == 2:
            plans = [snapshot.plan(query, Requirement(50.0 * f, 0.95)) for f in FACTORS]
            kinds |= {plan.kind for plan in plans}
            for shorter, longer in pairwise(plans):
                assert longer.price_nano <= shorter.price_nano
        snapshot.ask(query, Requirement(50.0 * 2.0 ** generator.choice((0, 0, 0, 1, -1, 2)), 0.95))
    assert "blocks" in kinds


@pytest.mark.slow
@pytest.mark.parametrize("limit", [60_000.0, 100_000.0, PLANNER.question_work])
def test_no_length_ends_the_search_for_another_one(limit: float) -> None:
    """Of this stream the work is near its limit; what a length alone takes must not count there."""
    generator = random.Random(9506)
    sizes = generator.choice(DOMAINS)
    snapshot = Snapshot(sizes, rule=RentOrBuy(generator.choice((0.4, 0.6))))
    for n in range(12):
        query = random_range(generator, sizes)
        if n == 11:
            plans = [
                snapshot.plan(query, Requirement(50.0 * f, 0.95), Effort(limit)) for f in FACTORS
            ]
        snapshot.ask(query, Requirement(50.0 * 2.0 ** generator.choice((0, 0, 0, 1, -1, 2)), 0.95))
    assert all(longer.price_nano <= shorter.price_nano for shorter, longer in pairwise(plans))


@pytest.mark.slow
def test_a_question_that_history_answers_changes_no_price() -> None:
    generator = random.Random(9410)
    asked, snapshot = Snapshot((24,)), Snapshot((24,))
    for _ in range(12):
        query = random_range(generator, (24,))
        for one in (asked, snapshot):
            one.ask(query, Requirement(60.0, 0.95))
        looser = Requirement(90.0, 0.9)
        assert asked.ask(query, looser).kind == "free"
        other, requirement = random_range(generator, (24,)), Requirement(40.0, 0.95)
        prices = [one.plan(other, requirement).price_nano for one in (asked, snapshot)]
        assert prices[0] == prices[1]


@pytest.mark.parametrize("floor", [0.0, 0.5, 0.97])
def test_the_least_whole_number_does_not_depend_on_the_guess(floor: float) -> None:
    """By trial of all numbers, for a function that falls towards `floor`."""

    def ratio(n: int) -> float:
        return floor + (1.0 - floor) * 137.3 / n if n else 1e9

    least = next(n for n in range(1, 1000) if ratio(n) <= 1.0)
    for guess in (1, 2, 137, 138, 139, 400, 5000):
        assert least_whole(ratio, low=0, high=guess, most=10_000) == least
    assert least_whole(ratio, low=0, high=10, most=100) is None


def test_a_class_whose_questions_no_table_answers_has_no_base() -> None:
    """A table over both attributes would have 90,000 cells."""
    snapshot, loose = Snapshot((300, 300)), Requirement(50.0, 0.95)
    both = {0: interval(300, 7, 151), 1: interval(300, 3, 222)}
    assert snapshot.ask(primitive(linear_query((300, 300), [(1, both)])), loose).kind == "fresh"
    one = primitive(linear_query((300, 300), [(1, {0: interval(300, 7, 150)})]))
    assert snapshot.ask(one, loose).kind != "blocks"
