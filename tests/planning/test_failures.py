"""A fault of the program in one way of planning costs that way, and no plan."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qserver.answering.replica import note_fault
from qserver.errors import CapacityError
from qserver.inference.engine import InferenceEngine
from qserver.ledger.cell_ledger import CellLedger
from qserver.planning import planner
from qserver.planning.blocks.rent_or_buy import RentOrBuy
from qserver.planning.failures import WayFault, raised, sound
from qserver.planning.holdings import Holdings
from qserver.planning.planner import Plan, plan_answer
from qserver.planning.row_candidates import RowCandidates
from qserver.planning.workloads import workload
from qserver.planning.workloads.workload import plan_workload
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.service.datasets import PLANNING_FAULTS, counted
from tests.deployment import Deployment
from tests.planning.test_period_ways import LIMIT, SEALED, SIZES, history, is_met, weeks

HISTORY = history(0.15, n_weeks=4, own={4: 0.15})
QUESTION = Question(weeks(0, SEALED), Requirement(60.0, 0.95))
ASKED = [QUESTION, Question(weeks(1, SEALED), Requirement(60.0, 0.95))]
FAULTS = (IndexError("of an array"), np.linalg.LinAlgError("singular"), ZeroDivisionError())


def fails(error: Exception) -> Callable[..., Any]:
    def broken(*_args: Any, **_named: Any) -> Any:
        raise error

    return broken


def told(holdings: Holdings) -> tuple[Holdings, list[WayFault]]:
    """The holdings, and the faults that plans on them will tell."""
    faults = list[WayFault]()
    return replace(holdings, on_fault=faults.append), faults


BROKEN: dict[str, tuple[object, str]] = {
    "own row": (RowCandidates, "own_rows"),
    "rows of history": (RowCandidates, "by_history"),
    "periods": (planner, "_by_periods"),
    "extended tables": (planner, "extended"),
    "rent or buy": (RentOrBuy, "propose"),
}
BROKEN_OF_MANY: dict[str, tuple[object, str]] = {
    "own rows": (Holdings, "own_row"),
    "base": (workload, "_bases"),
    "one by one": (workload, "one_by_one"),
    "extended tables": (workload, "extended"),
}


@pytest.mark.parametrize("error", FAULTS, ids=repr)
@pytest.mark.parametrize("way", BROKEN)
def test_a_question_is_planned_by_the_ways_that_are_left(
    way: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    holdings, faults = told(HISTORY)
    monkeypatch.setattr(*BROKEN[way], fails(error))
    plan = plan_answer(QUESTION, holdings, rule=RentOrBuy(0.7))
    assert {(fault.way, fault.error) for fault in faults} == {(way, error)}
    assert plan.price_nano > 0
    assert meets(plan)


def meets(plan: Plan) -> bool:
    """Whether what is bought gives the question exactly enough: by its weights, or by tables."""
    if plan.weights and not plan.tables:
        return is_met(QUESTION, HISTORY, plan)
    return bool(plan.tables or plan.rows)


@pytest.mark.parametrize("way", BROKEN_OF_MANY)
def test_many_questions_are_planned_by_the_ways_that_are_left(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    holdings, faults = told(HISTORY)
    monkeypatch.setattr(*BROKEN_OF_MANY[way], fails(FAULTS[0]))
    plan = plan_workload(ASKED, holdings, rule=RentOrBuy(0.7))
    assert way in {fault.way for fault in faults}
    assert plan.price_nano > 0


def test_where_every_way_by_history_fails_a_fresh_row_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is what a first question costs."""
    holdings, faults = told(HISTORY)
    for place in BROKEN.values():
        monkeypatch.setattr(*place, fails(FAULTS[0]))
    plan = plan_answer(QUESTION, holdings, rule=RentOrBuy(0.7))
    monkeypatch.undo()
    empty = Holdings(InferenceEngine(SIZES, apart=0), CellLedger(SIZES), LIMIT, period_axis=0)
    first = plan_answer(QUESTION.with_measure("only_this"), replace(empty, period_axis=None))
    assert [row.alpha_nano for row in plan.rows] == [row.alpha_nano for row in first.rows]
    assert {fault.way for fault in faults} == set(BROKEN)


def test_a_refusal_passes_and_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    holdings, faults = told(HISTORY)
    monkeypatch.setattr(*BROKEN["periods"], fails(CapacityError("too many")))
    with pytest.raises(CapacityError, match="too many"):
        plan_answer(QUESTION, holdings)
    assert faults == []


def test_a_fault_passes_where_nobody_asked_to_be_told() -> None:
    with pytest.raises(IndexError, match="of an array"):
        sound("way", fails(FAULTS[0]), raised)


def test_a_fault_is_counted_and_logged_with_its_trace(caplog: pytest.LogCaptureFixture) -> None:
    before = count_of("a way")
    with caplog.at_level(logging.ERROR):
        assert sound("a way", fails(FAULTS[0]), counted) is None
        assert sound("a way", fails(FAULTS[0]), note_fault) is None
    assert count_of("a way") == before + 1
    assert "planning by way of a way failed, and the next way is taken" in caplog.text
    assert "IndexError: of an array" in caplog.text


def count_of(way: str) -> float:
    return PLANNING_FAULTS.labels(way)._value.get()


def test_a_statement_whose_way_fails_is_priced_answered_and_counted(
    tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Web and worker take the same next way."""
    town = Deployment.make(tmp_path, store_url, limit="100")
    monkeypatch.setattr(workload, "one_by_one", fails(FAULTS[0]))
    before, web = count_of("one by one"), town.web()
    statement = "SELECT sex, COUNT(*) FROM people GROUP BY sex WITHIN 20"
    price = web.post("/v1/datasets/people/sql", json={"sql": statement, "explain": True})
    assert price.status_code == 200
    assert count_of("one by one") > before
    asked = web.post("/v1/datasets/people/sql", json={"sql": statement})
    assert asked.status_code == 202
    town.work_off()
    answer = web.post("/v1/datasets/people/sql", json={"sql": statement})
    assert answer.status_code == 200
    spent = town.service().dataset("people").spent_nano
    assert spent / 1e9 == pytest.approx(price.get_json()["price"]["price"])
