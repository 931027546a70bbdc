"""Answers that are longer than asked, and what fresh noise costs: on every face."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qserver.answering import remarks as longer_than_asked
from qserver.answering.remarks import DISAGREEING, Longer, sentence, told, told_of_all
from qserver.answering.replica import Replica
from qserver.api.bodies.workloads_and_sql import WorkloadAnswerBody
from qserver.client.tables import Table
from qserver.inference.smooth import number as looking
from qserver.portal.pages.sql import known_view
from qserver.postgres.results import Asked, table
from qserver.postgres.session import Session
from qserver.query.asking.after_looking import Looking, Selection
from qserver.query.question import Question, Workload
from qserver.query.requirement import Requirement
from qserver.query.sql.parser import parse_statement
from qserver.records.answer import Answer, JobStatus, WorkloadAnswer
from qserver.records.statement import Simultaneous
from qserver.service.statement_answers import StatementAnswer
from qserver.service.statements import Statements
from qserver.storage.store import Store
from tests.deployment import PEOPLE, Deployment
from tests.service.test_looking import FRESH, TOP, asked, explained
from tests.service.test_statements import answered
from tests.until_tables import LENGTH


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="100")


def _replica(town: Deployment) -> Replica:
    replica = Replica(town.meta, town.settings, shown_only=True)
    replica.refresh(Store.open(town.settings))
    return replica


def _question(town: Deployment, *, length: float = LENGTH, **where: Any) -> Question:
    query = town.service().parse("people", {"where": where})
    return Question(query, Requirement(length, 0.95))


def test_the_price_of_fresh_noise_stands_beside_the_price_and_is_what_it_costs(
    town: Deployment,
) -> None:
    asked(town, Looking())
    found = explained(town, Looking())
    assert found.price_nano == 0
    fresh = found.measure.independent_nano
    assert fresh
    assert explained(town, TOP).measure.independent_nano == fresh
    assert explained(town, FRESH).measure.independent_nano == fresh
    assert asked(town, FRESH).charged_nano == fresh


def test_no_noise_is_fine_enough_for_a_length_below_the_lattice(town: Deployment) -> None:
    longer = replace(asked(town, Looking()), high=1e9)
    found = told(_replica(town), _question(town, length=1e-8, sex="Female"), longer)
    assert found.rest_nano is None
    assert "fresh noise" not in found.remarks[0]


def test_an_answer_that_is_longer_than_asked_says_what_the_rest_costs(town: Deployment) -> None:
    short = asked(town, Looking())
    replica, question = _replica(town), _question(town, sex="Female")
    fresh = explained(town, Looking()).measure.independent_nano
    assert told(replica, question, short) == short
    longer = replace(short, low=short.high - 1.01 * LENGTH, confidence_attained=0.94279)
    found = told(replica, question, longer)
    assert found.rest_nano == fresh
    assert found.remarks == (
        "The interval is longer than asked by what released answers disagree about: 40.4 in place "
        "of 40, which holds with 94.2 percent; fresh noise (`independent`) would make it as short "
        "as asked for 0.1498 epsilon.",
    )
    # An interval that allows for a choice is longer on purpose.
    chosen = replace(longer, selected_from=Selection(64))
    assert told(replica, question, chosen) == chosen


def test_worker_and_history_both_say_it(town: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every answer counts as longer than asked here; by luck of the noise one in five is."""
    monkeypatch.setattr(longer_than_asked, "_ROUNDING", -0.9)
    measured, again = asked(town, Looking()), asked(town, Looking())
    assert (measured.source, again.source) == ("measured", "history")
    price = explained(town, Looking()).measure.independent_nano
    assert measured.rest_nano == again.rest_nano == price
    assert isinstance(measured, Answer)
    text = town.web().post(
        "/v1/datasets/people/query",
        json={"query": {"where": {"sex": "Female"}}, "length": LENGTH, "confidence": 0.95},
    )
    assert text.get_json()["epsilon_rest"] == pytest.approx((price or 0) / 1e9)
    assert text.get_json()["remarks"] == list(again.remarks) != []


def test_a_workload_says_once_how_many_are_longer_and_what_all_of_them_cost(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two groups are of other people, so fresh noise for both costs what it costs for one."""
    monkeypatch.setattr(longer_than_asked, "_ROUNDING", -0.9)
    workload = Workload((_question(town, sex="Female"), _question(town, sex="Male")))
    job = town.service().ask_workload("people", workload, wait_s=0)
    assert isinstance(job, JobStatus)
    town.work_off()
    paid = town.service().job(job.id).result
    again = town.service().ask_workload("people", workload, wait_s=0)
    assert isinstance(paid, WorkloadAnswer)
    assert isinstance(again, WorkloadAnswer)
    (said,) = paid.remarks
    assert said.startswith("2 of 2 intervals are longer than asked by what released answers")
    fresh = explained(town, Looking()).measure.independent_nano
    assert paid.rest_nano == again.rest_nano == paid.answers[1].rest_nano == fresh
    assert again.remarks == paid.remarks
    document = WorkloadAnswerBody.of(paid, consistent=None).model_dump()
    assert document["epsilon_rest"] == pytest.approx((fresh or 0) / 1e9)
    assert said in Table.of_workload(document, ("a", "b")).notes()


def test_fresh_noise_that_only_others_would_lose_by_is_not_told_as_free() -> None:
    longer = Longer(asked=40.0, reached=41.0, attained=0.94, by=DISAGREEING)
    said = sentence([longer, longer], 3, rest_nano=0)
    assert said.endswith("would make each as short as asked and adds nothing to the largest loss.")


def test_intervals_that_hold_at_once_say_how_surely_the_asked_lengths_do(town: Deployment) -> None:
    asked_of = _question(town, sex="Female"), _question(town, sex="Male")
    short = asked(town, Looking())
    longer = replace(short, low=short.high - 1.01 * LENGTH)
    found = WorkloadAnswer((short, longer), 0, 0, Simultaneous(0.95, "posterior", 0.91239), 1)
    (said,) = told_of_all(_replica(town), Workload(asked_of, simultaneous=True), found).remarks
    assert said == (
        "1 of 2 intervals is longer than asked by what released answers disagree about: 40.4 in "
        "place of 40, which holds with 91.2 percent."
    )


def test_every_face_of_sql_says_in_half_widths_that_numbers_are_longer(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(longer_than_asked, "_ROUNDING", -0.9)
    text = "SELECT sex, COUNT(*) FROM people GROUP BY sex WITHIN 20 ONLY THIS"
    found = answered(town, text)
    (said,) = found.asked.statement.remarks
    n = len(found.cells)
    assert said.startswith(f"{n} of {n} intervals are longer than asked by what released answers")
    assert "±20 in place of ±20" in said
    web = town.web().post("/v1/datasets/people/sql", json={"sql": text}).get_json()["table"]
    assert web["remarks"] == [said]
    assert said in Table.of(web).notes()
    assert said in table(found, Session("ann", "people"), Asked()).notices
    statement = parse_statement(text, PEOPLE, dataset="people")
    shown = known_view(town.service(), "people", statement, query="").notes
    # What the rest costs is said where it was asked.
    assert shown.rstrip(".") in said


@pytest.mark.slow
def test_an_average_says_nothing_of_the_lengths_of_its_parts(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(longer_than_asked, "_ROUNDING", -0.9)
    found = answered(town, "SELECT AVG(age) FROM people WITHIN 1 ASSUMING AT LEAST 300")
    assert not [one for one in found.asked.statement.remarks if "longer than asked" in one]


@pytest.mark.slow
def test_groups_of_too_few_records_are_told_apart(town: Deployment) -> None:
    """Of 500 people 167 are men, and nobody is of another sex; noise may tell the men at once."""
    text = "SELECT sex, AVG(age) FROM people GROUP BY sex WITHIN 1 ASSUMING AT LEAST 300"
    [remark, *_] = answered(town, text).asked.statement.remarks
    assert remark[0] in "12"
    assert remark[1:].startswith(
        " of 3 numbers: too few records, surely under 300 (ASSUMING AT LEAST)"
    )
    assert remark.endswith("in place of ±1. A smaller ASSUMING AT LEAST measures more.")


def test_a_number_far_from_linear_within_its_noise_is_told(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    for sex in ("Female", "Male"):
        town.ask({"sex": sex}, length=20)
    text = (
        "SELECT COUNT_IF(sex = 'Female') / COUNT_IF(sex = 'Male') FROM people"
        " WITHIN 1 ASSUMING AT LEAST 1"
    )
    # Known within 6 percent, both counts are nearly as good as fixed ones.
    assert answered(town, text).asked.statement.remarks == ()
    monkeypatch.setattr(looking, "FAR_FROM_LINEAR", -1.0)
    [remark] = answered(town, text).asked.statement.remarks
    assert remark.startswith("The number is far from linear within the noise of the sums behind it")


def test_a_number_is_the_same_whatever_its_process_was_asked_before(town: Deployment) -> None:
    """Its draws are those of its statement, not of an earlier one that it shares sums with."""
    for where in ({"age": 21}, {"sex": "Female"}, {"sex": "Male"}):
        town.ask(where, length=20)
    first = "COUNT_IF(sex = 'Female') / COUNT_IF(sex = 'Male')"
    second = "COUNT_IF(age = 21) / COUNT_IF(sex = 'Male')"
    busy = Statements(town.service())
    for items in (first, f"{second}, {first}"):
        text = f"SELECT {items} FROM people WITHIN 1 ASSUMING AT LEAST 1"
        found = busy.run("people", text, wait_s=0)
        assert isinstance(found, StatementAnswer)
        assert found.cells == answered(town, text).cells
