"""An owner who expects many questions: blocks are bought at once, within bounds; else nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from qserver.planning.blocks import rent_or_buy
from qserver.planning.blocks.rent_or_buy import RentOrBuy
from qserver.query.requirement import MIN_LENGTH, Requirement
from qserver.records.charge import NANO
from tests.benchmarks.adult_questions import SIZES, mixed_predicates
from tests.benchmarks.blocks_spend import STREAMS
from tests.benchmarks.synthetic_noise import Snapshot

SEED = 5_301


def empty(expected: int = 0, limit_nano: int = NANO) -> Snapshot:
    rule = RentOrBuy(expected=expected)
    return Snapshot(SIZES, rule=rule, limit_nano=limit_nano, generator=np.random.default_rng(1))


def after(n: int, expected: int) -> Snapshot:
    """A snapshot on which so many mixed questions were asked."""
    snapshot = empty(expected)
    for asked in mixed_predicates(SEED, n=n):
        snapshot.ask(asked.query, asked.requirement)
    return snapshot


@pytest.mark.slow
@pytest.mark.parametrize("stream", STREAMS[:4], ids=lambda s: s.name)
def test_without_a_word_every_decision_is_that_of_the_rule_alone(
    stream: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decided() -> list[tuple[str, int, int]]:
        snapshot = Snapshot(stream.sizes, stream.relation, is_total=True)  # type: ignore[attr-defined]
        asked = islice(stream.questions(SEED, 40), 40)  # type: ignore[attr-defined]
        plans = [snapshot.ask(a.query, a.requirement) for a in asked]
        return [(p.kind, p.price_nano, len(p.tables)) for p in plans]

    found = decided()
    monkeypatch.setattr(rent_or_buy, "invested", lambda *_args, **_named: None)
    assert found == decided()
    assert any(n for _, _, n in found)


def test_blocks_take_no_more_than_is_bearable_beside_a_row() -> None:
    snapshot, bought = empty(10_000), 0
    for asked in mixed_predicates(SEED, n=12):
        left = NANO - snapshot.ledger.spent_nano
        row = snapshot.plan_by_rows(asked.query, asked.requirement)
        plan = snapshot.ask(asked.query, asked.requirement)
        if plan.tables:
            bought += 1
            n = len(snapshot.paid)
            assert plan.price_nano <= left * n // (n + 2) + row.price_nano
            assert plan.spent_after_nano <= NANO
    assert bought >= 3


def test_blocks_wait_where_rows_can_answer_what_is_expected() -> None:
    dearer = 0
    for asked in mixed_predicates(SEED, n=4):
        silent, few, many = (empty(n).plan(asked.query, asked.requirement) for n in (0, 5, 10_000))
        assert few.purchase == silent.purchase
        dearer += many.price_nano > silent.price_nano
    assert dearer >= 2
    ample = empty(10_000, limit_nano=10_000 * silent.price_nano)
    assert ample.plan(asked.query, asked.requirement).kind == silent.kind == "fresh"


@pytest.mark.slow
def test_once_all_that_were_expected_came_the_rule_decides_alone() -> None:
    over, silent = after(6, expected=6), after(6, expected=6)
    assert over.rule is not None
    assert silent.rule is not None
    silent.rule.expected = 0
    for asked in islice(mixed_predicates(SEED, n=20), 6, None):
        plans = [s.ask(asked.query, asked.requirement) for s in (over, silent)]
        assert plans[0].purchase == plans[1].purchase


@pytest.mark.parametrize("n", [0, 4])
def test_a_shorter_length_never_costs_less(n: int) -> None:
    """From lengths whose blocks are bearable to those that need a row beside them."""
    snapshot = after(n, expected=10_000)
    for asked in islice(mixed_predicates(SEED + 1, n=4), 4):
        least = MIN_LENGTH * float(asked.query.sensitivity)
        lengths = [x for x in (1_600.0, 800.0, 400.0, 200.0, 100.0, 50.0, 25.0) if x > least]
        plans = [snapshot.plan(asked.query, replace(asked.requirement, length=x)) for x in lengths]
        prices = [p.price_nano for p in plans if p.spent_after_nano <= NANO]
        assert prices == sorted(prices)


@pytest.mark.slow
def test_an_expected_thousand_answers_more_under_the_same_limit() -> None:
    answered = []
    for expected in (0, 1_000):
        snapshot = empty(expected)
        plans = [snapshot.ask(a.query, a.requirement) for a in mixed_predicates(SEED, n=300)]
        answered.append(sum(p.spent_after_nano <= NANO for p in plans))
    assert answered[1] > answered[0]


def test_what_a_plan_says_of_a_question_is_what_comes_true() -> None:
    """The answers that blocks for expected questions give are as exact as asked."""
    snapshot = empty(10_000)
    for asked in mixed_predicates(SEED + 2, n=8):
        plan = snapshot.ask(asked.query, asked.requirement)
        if plan.spent_after_nano <= NANO:
            again = snapshot.plan(asked.query, asked.requirement)
            assert again.kind == "free"
            assert again.price_nano == 0
            looser = Requirement(2.0 * asked.requirement.length, asked.requirement.confidence)
            assert snapshot.plan(asked.query, looser).price_nano == 0
