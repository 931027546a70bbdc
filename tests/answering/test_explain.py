"""A price curve never asks more for less: longer intervals cost no more than shorter ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.answering import explain
from qserver.answering.explain import falling
from qserver.answering.replica import Replica
from qserver.ledger.cell_ledger import CellLedger
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.planner import Plan, plan_answer, proven
from qserver.query.primitive import primitive
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.answer import CurvePoint, FactorPoint
from qserver.storage.store import Store
from tests.benchmarks.synthetic_noise import question_of
from tests.deployment import Deployment
from tests.until_tables import next_that_buys

PRICES = st.lists(st.none() | st.integers(0, 5), max_size=8)


@given(PRICES)
def test_a_point_is_kept_just_where_no_shorter_one_costs_less(prices: list[int | None]) -> None:
    """Against comparing every pair; a price out of reach is above all others."""
    points = [CurvePoint(float(i), price) for i, price in enumerate(prices)]

    def costs_less(one: CurvePoint, other: CurvePoint) -> bool:
        if one.price_nano is None:
            return False
        return other.price_nano is None or one.price_nano < other.price_nano

    kept = [p for i, p in enumerate(points) if not any(costs_less(q, p) for q in points[:i])]
    assert list(falling(points)) == kept


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    """Where tables are bought for later questions, beside a little that was spent."""
    town = Deployment.make(tmp_path, store_url, limit="1", phi=0.7)
    town.ask({"age": {"below": 24}})
    return town


def test_no_length_costs_more_than_a_shorter_one_so_all_are_on_the_curve(
    town: Deployment,
) -> None:
    """Tables are due at the longer lengths; at the shorter ones they once gave way to a row."""
    service = town.service()
    query = service.parse("people", {"where": {"age": {"between": [23, 28]}}})

    def price_nano(length: float) -> int:
        return service.explain("people", Question(query, Requirement(length, 0.95))).price_nano

    found = service.explain("people", Question(query, Requirement(20, 0.95)))
    lengths = [5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 80.0]
    prices = [price_nano(length) for length in lengths]
    assert prices == sorted(prices, reverse=True)
    assert [(p.length, p.price_nano) for p in found.curve] == list(
        zip(lengths, prices, strict=True)
    )


def test_a_workload_that_costs_more_than_with_shorter_lengths_is_not_on_its_curve(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = town.workload([{"age": {"between": [24, 27]}}, {"age": 28}])
    whole = town.service().explain_workload("people", workload)
    assert FactorPoint(1.0, whole.price_nano) in whole.curve
    prices = {0.5: whole.price_nano - 1, 2.0: whole.price_nano - 2}
    monkeypatch.setattr("qserver.answering.explain._workload_price", lambda *args: prices[args[-1]])
    curve = town.service().explain_workload("people", workload).curve
    assert curve == tuple(FactorPoint(f, price) for f, price in prices.items())


def test_a_question_is_planned_once_per_length_and_as_if_it_had_not_been_planned_before(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One plan for each of the seven lengths, one for the other choice and one for fresh noise; the
    work counted is that of two plans.
    """
    replica = replica_of(town)
    query = primitive(town.service().parse("people", {"where": {"age": {"between": [24, 27]}}}))
    asked = question_of(query, Requirement(20, 0.95))
    alone, twice = Effort(), Effort()
    replica.plans_apart([asked], alone)
    n_plans = 0

    def counted(*args: Any, **kwargs: Any) -> Plan:
        nonlocal n_plans
        n_plans += 1
        return plan_answer(*args, **kwargs)

    monkeypatch.setattr("qserver.answering.replica.plan_answer", counted)
    found = replica.plans_apart([asked, asked], twice)
    assert found is not None
    assert (n_plans, found[0], twice.done) == (0, found[1], 2 * alone.done)
    assert alone.done > 0
    town.service().explain("people", Question(query.row, Requirement(20, 0.95)))
    assert n_plans == 7 + 2
    town.ask({"age": 29})
    n_plans = 0
    replica.refresh(Store.open(town.settings))
    replica.plans_apart([asked], Effort())
    assert n_plans == 1


def test_a_plan_is_kept_while_as_much_may_be_spent(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = replica_of(town)
    query = primitive(town.service().parse("people", {"where": {"age": {"between": [24, 27]}}}))
    asked = question_of(query, Requirement(20, 0.95))
    allowed, charged = [], []

    def recorded(*args: Any, **kwargs: Any) -> Plan:
        allowed.append(kwargs["allowed_nano"])
        return plan_answer(*args, **kwargs)

    def searched(plan: Plan, **kwargs: Any) -> Plan:
        charged.append(kwargs["allowed_nano"])
        return proven(plan, **kwargs)

    monkeypatch.setattr("qserver.answering.replica.plan_answer", recorded)
    monkeypatch.setattr("qserver.answering.replica.proven", searched)
    present = replica.present
    lower = replace(present, standing=replace(present.standing, limit_nano=600_000_000))
    for stamp in (present, present, lower):
        replica.stand_at(stamp)
        replica.plan(asked)
    assert allowed == charged == [1_000_000_000, 600_000_000]


@pytest.mark.slow
def test_a_workload_is_priced_without_the_demand_of_earlier_questions(
    tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It buys nothing for later questions, so a process need not replay the earlier ones first."""
    town = Deployment.make(tmp_path, store_url, limit="1000", phi=0.4)
    where = next_that_buys(town)
    town.ask(where)

    def follow(*_args: Any) -> None:
        raise AssertionError("The demand was replayed.")

    monkeypatch.setattr("qserver.planning.blocks.scopes.Scope.follow", follow)
    workload = town.workload([{"age": {"between": [23, 27]}}, {"age": 21}, {"sex": "Female"}])
    found = town.service().explain_workload("people", workload)
    assert found.price_apart_nano is not None
    assert 0 < found.price_nano <= found.price_apart_nano
    assert town.ask_workload(replace(workload, as_drawn=True)).charged_nano == found.price_nano


def replica_of(town: Deployment) -> Replica:
    """The public state, read now."""
    replica = Replica(town.meta, town.settings, shown_only=True)
    replica.refresh(Store.open(town.settings))
    return replica


@pytest.mark.slow
def test_of_a_long_workload_only_the_price_is_told(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The prices one by one and those of other lengths have a limit of work; the price has not."""
    workload = town.workload([{"age": {"between": [23, 27]}}, {"age": 21}, {"sex": "Female"}])
    whole = town.service().explain_workload("people", workload)
    assert len(whole.curve) > 1
    monkeypatch.setattr(explain, "APART_WORK", 1.0)
    found = town.service().explain_workload("people", workload)
    assert found == replace(whole, price_apart_nano=None)
    # What certainly takes too long is not begun.
    monkeypatch.setattr(Replica, "plans_apart", lambda *_: pytest.fail("single plans were made"))
    assert town.service().explain_workload("people", workload) == found
    monkeypatch.setattr(CellLedger, "n_shifted", 10_000)
    found = town.service().explain_workload("people", workload)
    assert [p.factor for p in found.curve] == [1.0]
    assert found.price_nano == whole.price_nano


def test_a_plan_by_many_rows_counts_as_more_work(town: Deployment) -> None:
    """Each row of history that gives the question may be raised, and is priced."""
    replica = replica_of(town)
    query = primitive(town.service().parse("people", {"where": {"age": {"between": [21, 24]}}}))
    asked, fresh, combined = question_of(query, Requirement(5, 0.95)), Effort(), Effort()
    replica.plans_apart([asked], fresh)
    for age in (21, 22, 23, 24):
        town.ask({"age": age})
    replica.refresh(Store.open(town.settings))
    replica.plans_apart([asked], combined)
    rows = 4 * PLANNER.row_of_history_work
    assert combined.done == fresh.done + rows
