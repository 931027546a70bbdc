"""A question that measures only itself: no tables, and the demand counts it like any other."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from qserver.planning.blocks.rent_or_buy import RentOrBuy
from qserver.planning.planner import Plan, plan_answer
from qserver.query.linear_query import linear_query
from qserver.query.primitive import primitive
from qserver.query.question import Question
from qserver.query.requirement import Measure, Requirement
from qserver.query.weights import interval
from qserver.records.paid_question import PaidQuestion
from tests.benchmarks.synthetic_noise import Snapshot

SIZES = (40,)


def questions(seed: int, n: int) -> list[Question]:
    generator = random.Random(seed)
    found = []
    for _ in range(n):
        low, high = sorted(generator.sample(range(SIZES[0] + 1), 2))
        query = linear_query(SIZES, [(1, {0: interval(SIZES[0], low, high)})])
        found.append(Question(query, Requirement(generator.choice((60.0, 100.0)), 0.95)))
    return found


def plan_of(snapshot: Snapshot, question: Question, measure: Measure) -> Plan:
    return plan_answer(question.with_measure(measure), snapshot.holdings, rule=snapshot.rule)


@pytest.mark.slow
def test_it_costs_no_more_than_by_rows_alone_and_buys_no_table() -> None:
    snapshot, n_bought = Snapshot(SIZES), 0
    for question in questions(3, 40):
        only = plan_of(snapshot, question, "only_this")
        assert not only.tables
        assert only.price_nano <= plan_answer(question, snapshot.holdings).price_nano
        auto = plan_of(snapshot, question, "auto")
        n_bought += bool(auto.tables)
        assert auto.tables or auto.price_nano == only.price_nano
        snapshot.carry_out(auto, question.row)
    assert n_bought


def test_the_demand_counts_it_like_a_question_that_could_have_bought() -> None:
    """The same paid questions, marked otherwise, make the same plans."""
    snapshot = Snapshot(SIZES)
    *earlier, last = questions(5, 12)
    for question in earlier:
        snapshot.carry_out(plan_of(snapshot, question, "auto"), question.row)
    marked = RentOrBuy(snapshot.rule.phi if snapshot.rule else 1.0)
    for paid in snapshot.paid:
        text = replace(paid, measure="only_this").to_json()
        assert PaidQuestion.from_json(text, SIZES).measure == "only_this"
        marked.take_in(PaidQuestion.from_json(text, SIZES))
    expected = plan_of(snapshot, last, "auto")
    assert replace(plan_answer(last, snapshot.holdings, rule=marked), estimate=None) == replace(
        expected, estimate=None
    )


def test_a_paid_question_of_an_earlier_version_could_have_bought() -> None:
    snapshot = Snapshot(SIZES)
    snapshot.ask(primitive(questions(7, 1)[0].query), Requirement(100.0, 0.95))
    text = snapshot.paid[0].to_json()
    assert "measure" not in text
    assert PaidQuestion.from_json(text, SIZES).measure == "auto"
