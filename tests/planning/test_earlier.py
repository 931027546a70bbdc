"""The known base of earlier questions: what is bought of it, when, and what it can cost."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from qserver.planning.blocks.earlier_questions import EarlierDemand
from qserver.planning.blocks.needed_part import PurchaseOffer
from qserver.planning.blocks.rent_or_buy import RentOrBuy
from qserver.query.linear_query import linear_query
from qserver.query.primitive import Primitive, primitive
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.query.weights import interval
from qserver.records.charge import NANO
from qserver.records.paid_question import PaidQuestion
from tests.benchmarks.best_blocks import hindsight_price
from tests.benchmarks.play import play
from tests.benchmarks.streams import Asked
from tests.benchmarks.synthetic_noise import Snapshot
from tests.sweeps import share

pytestmark = [
    pytest.mark.promise(
        "Guard rails",
        "a new snapshot plans for the questions paid for on the old one, also after a restore; a "
        "demand that nobody attached is found",
    ),
]

SIZE = 64
LOOSE, TIGHT = Requirement(40.0, 0.95), Requirement(4.0, 0.95)


def row_of(low: int, high: int) -> Primitive:
    return primitive(linear_query((SIZE,), [(1, {0: interval(SIZE, low, high)})]))


def ranges(seed: int, n: int) -> list[Asked]:
    generator = random.Random(seed)
    pairs = [sorted(generator.sample(range(SIZE + 1), 2)) for _ in range(n)]
    return [Asked(row_of(*pair), LOOSE) for pair in pairs]


def snapshot(*weeks: list[PaidQuestion], phi: float = 0.4) -> Snapshot:
    earlier = EarlierDemand(tuple(tuple(week) for week in weeks), phi) if weeks else None
    return Snapshot((SIZE,), rule=RentOrBuy(phi), earlier=earlier)


@pytest.fixture(scope="module")
def first_week() -> list[PaidQuestion]:
    """What a week of forty ranges paid for."""
    first = snapshot()
    play(first, ranges(1, 40))
    return first.paid


@pytest.mark.slow
def test_a_replayed_week_costs_little_more_than_the_best_blocks(
    first_week: list[PaidQuestion],
) -> None:
    asked = ranges(1, 40)
    best = hindsight_price((SIZE,), asked, relation="add-remove")
    random.Random(2).shuffle(asked)
    known, anew = (play(s, asked).spent[-1] for s in (snapshot(first_week), snapshot()))
    assert known <= 1.2 * best
    assert known <= 0.9 * anew


@pytest.mark.slow
def test_every_interval_is_as_short_as_asked_and_plans_are_found_again(
    first_week: list[PaidQuestion],
) -> None:
    """A copy made from public facts alone plans the same."""
    asked = ranges(3, 8)
    found = snapshot(first_week)
    for question in asked:
        again = found.replayed().plan(question.query, question.requirement)
        plan = found.ask(question.query, question.requirement)
        assert (plan.rows, plan.tables) == (again.rows, again.tables)
        known = found.engine.estimate(question.query, confidence=0.95)
        assert known is not None
        assert known.half_width <= question.requirement.half_width


@pytest.mark.slow
def test_questions_that_the_base_does_not_answer_cost_at_most_the_base_more(
    first_week: list[PaidQuestion],
) -> None:
    """They are ten times as precise; a longer length of theirs may be due."""
    base = hindsight_price(
        (SIZE,), [Asked(p.form, LOOSE) for p in first_week], relation="add-remove"
    )
    known, anew = snapshot(first_week), snapshot()
    for low in range(6):
        for one in (known, anew):
            one.ask(row_of(low, low + 20), TIGHT)
    more = known.ledger.spent_nano - anew.ledger.spent_nano
    assert more <= 1.1 * base * NANO


@pytest.mark.slow
@pytest.mark.parametrize("seed", share([9501, 9502], 1))
def test_with_a_known_base_too_the_price_never_rises_with_the_length(
    seed: int, first_week: list[PaidQuestion]
) -> None:
    found, generator, kinds = snapshot(first_week), random.Random(seed), set()
    for asked in ranges(seed, 8):
        lengths = [5.0 * 2.0 ** (n / 4) for n in range(18)]
        plans = [found.plan(asked.query, Requirement(length, 0.95)) for length in lengths]
        prices = [plan.price_nano for plan in plans]
        assert prices == sorted(prices, reverse=True)
        kinds |= {plan.kind for plan in plans}
        found.ask(asked.query, Requirement(generator.choice((40.0, 10.0, 80.0)), 0.95))
    assert "blocks" in kinds


@pytest.mark.slow
def test_only_this_never_buys_of_the_known_base(first_week: list[PaidQuestion]) -> None:
    found = snapshot(first_week)
    assert found.earlier is not None
    for asked in ranges(4, 8):
        question = Question(asked.query.row, asked.requirement, "only_this")
        direct = found.plan_by_rows(asked.query, asked.requirement)
        offer = found.earlier.offer(
            found.holdings,
            question,
            direct=PurchaseOffer(found.holdings.priced(direct.purchase), direct.weights),
            by_rows=lambda _: None,
            allowed_nano=found.limit_nano,
        )
        assert offer is None
        found.carry_out(direct, asked.query)


def test_a_base_that_would_not_have_saved_anything_is_not_known(
    first_week: list[PaidQuestion],
) -> None:
    """Had the week cost next to nothing, rows would do."""
    cheap = [replace(paid, price_nano=1) for paid in first_week]
    asked = ranges(5, 10)
    assert play(snapshot(cheap), asked).spent == play(snapshot(), asked).spent


@pytest.mark.slow
def test_a_week_of_many_lengths_that_saved_nothing_leaves_a_plan_its_work() -> None:
    """Six classes of precision, none of whose bases is known: each was fitted once."""
    sizes = (64, 8)

    def asked(seed: int) -> Primitive:
        rng = random.Random(seed)
        ends = [sorted(rng.sample(range(n + 1), 2)) for n in sizes]
        weights = {i: interval(n, *ends[i]) for i, n in enumerate(sizes)}
        return primitive(linear_query(sizes, [(1, weights)]))

    week = Snapshot(sizes, rule=RentOrBuy())
    for i in range(36):
        week.ask(asked(i), Requirement(320.0 / 2 ** (i % 6), 0.95))
    cheap = EarlierDemand((tuple(replace(paid, price_nano=1) for paid in week.paid),))
    spent = []
    for earlier in (None, cheap):
        found = Snapshot(sizes, rule=RentOrBuy(), earlier=earlier)
        for i in range(50, 90):
            plan = found.plan(asked(i), Requirement(20.0, 0.95))
            found.carry_out(plan, asked(i))
        spent.append(found.ledger.spent_nano)
    assert spent[0] == spent[1]


def test_the_dearest_snapshot_decides_not_the_sum(first_week: list[PaidQuestion]) -> None:
    """Ten weeks of cheap rows do not make a base worthwhile."""
    cheap = [replace(paid, price_nano=paid.price_nano // 5) for paid in first_week]
    asked = ranges(5, 10)
    assert play(snapshot(*[cheap] * 10), asked).spent == play(snapshot(), asked).spent


def test_all_that_is_bought_of_the_base_costs_about_the_base(
    first_week: list[PaidQuestion],
) -> None:
    """Whatever is asked that it answers: 40 other ranges, and never the first ones."""
    base = hindsight_price(
        (SIZE,), [Asked(p.form, LOOSE) for p in first_week], relation="add-remove"
    )
    found, bought = snapshot(first_week), 0
    assert found.earlier is not None
    for asked in ranges(6, 40):
        direct = found.plan_by_rows(asked.query, asked.requirement)
        if direct.kind == "free":
            continue
        question = Question(asked.query.row, asked.requirement)
        row = PurchaseOffer(found.holdings.priced(direct.purchase), direct.weights)
        offer = found.earlier.offer(
            found.holdings,
            question,
            direct=row,
            by_rows={question.roomy_half_width: row}.get,
            allowed_nano=found.limit_nano,
        )
        if offer is not None:
            bought += offer.priced.price_nano
            found.buy(offer.priced.purchase)
        elif found.ledger.spent_nano < base * NANO:
            found.carry_out(direct, asked.query)
    assert 0 < bought <= 1.1 * base * NANO


def test_a_large_phi_keeps_to_rows(first_week: list[PaidQuestion]) -> None:
    asked = ranges(7, 10)
    known, anew = snapshot(first_week, phi=20.0), snapshot(phi=20.0)
    assert play(known, asked).spent == play(anew, asked).spent
