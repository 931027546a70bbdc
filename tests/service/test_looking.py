"""Questions that came of looking: a longer interval for the same price, or fresh noise."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from qserver.answering.replica import Replica
from qserver.query.asking.after_looking import Looking, Rule, Selection
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.answer import Answer, Explanation, JobStatus
from qserver.records.history import AnyMeasurement, Measurement, TableMeasurement
from qserver.storage.store import Store
from tests.deployment import Deployment
from tests.until_tables import LENGTH, next_that_buys
from tests.until_tables import asked as paid

pytestmark = [
    pytest.mark.promise(
        "Privacy",
        "an independent answer is a new measurement alone, charged in full each time, and the "
        "books agree beside tables and refinements of the same row",
    ),
]

CONFIDENCE = 0.95
WOMEN: dict[str, Any] = {"sex": "Female"}
TOP = Looking(Selection(64, "largest"))
FRESH = Looking(independent=True)
WIDER = math.log(64 / 0.05) / math.log(20)
"""How much farther the reading for the largest of 64 reaches below, for one Laplace variable."""


@pytest.fixture(params=["add-remove", "replace-one"])
def town(request: pytest.FixtureRequest, tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="100", relation=request.param)


def asked(
    town: Deployment, looking: Looking, *, where: dict[str, Any] = WOMEN, length: float = LENGTH
) -> Answer:
    service = town.service()
    query = service.parse("people", {"where": where})
    requirement = Requirement(length, CONFIDENCE)
    found = service.ask("people", Question(query, requirement, looking=looking), wait_s=0)
    if isinstance(found, JobStatus):
        town.work_off()
        result = town.service().job(found.id).result
        assert isinstance(result, Answer)
        return result
    return found


def explained(town: Deployment, looking: Looking) -> Explanation:
    service = town.service()
    query = service.parse("people", {"where": WOMEN})
    return service.explain(
        "people", Question(query, Requirement(LENGTH, CONFIDENCE), looking=looking)
    )


def test_a_choice_lengthens_the_interval_for_the_same_price(town: Deployment) -> None:
    price = explained(town, TOP).price_nano
    assert price == explained(town, Looking()).price_nano > 0
    top = asked(town, TOP)
    assert (top.charged_nano, top.selected_from) == (price, Selection(64, "largest"))
    plain = asked(town, Looking())
    assert (plain.charged_nano, plain.estimate) == (0, top.estimate)
    assert plain.selected_from is None
    assert top.high == plain.high
    assert top.estimate - top.low == pytest.approx((plain.high - plain.estimate) * WIDER, rel=1e-3)
    # The promise is for the interval by itself.
    assert plain.high - plain.low <= LENGTH < top.high - top.low
    assert asked(town, TOP).charged_nano == 0


def test_what_is_known_at_no_cost_allows_for_the_choice(town: Deployment) -> None:
    answer = asked(town, TOP)
    free = explained(town, TOP).free
    assert free is not None
    assert free.interval == answer.interval


def test_an_independent_answer_is_a_new_measurement_alone_each_time(town: Deployment) -> None:
    first = asked(town, Looking())
    anew = [asked(town, FRESH) for _ in range(3)]
    [own] = first.evidence
    assert [a.evidence for a in anew] == [(own + 1,), (own + 2,), (own + 3,)]
    assert all(a.weights == "independent" and a.source == "measured" for a in anew)
    assert {a.charged_nano for a in anew} == {first.charged_nano}
    assert len({a.estimate for a in (first, *anew)}) > 1
    assert all(a.high - a.low <= LENGTH for a in anew)
    replica_rows = released(town)
    assert [m.id for m in replica_rows] == [own, own + 1, own + 2, own + 3]
    # Each costs and says as much as the first one did.
    assert len({m.alpha_nano for m in replica_rows}) == 1
    for answer, row in zip(anew, replica_rows[1:], strict=True):
        assert answer.estimate == row.value_float


def test_an_independent_answer_is_priced_before_it_is_asked(town: Deployment) -> None:
    asked(town, Looking())
    assert explained(town, Looking()).price_nano == 0
    found = explained(town, FRESH)
    assert (found.kind, found.free, len(found.rows), found.tables) == ("fresh", None, 1, ())
    assert found.measure.only_this_nano == found.measure.auto_nano == found.price_nano
    assert asked(town, FRESH).charged_nano == found.price_nano


def test_a_plain_question_combines_what_independent_answers_left(town: Deployment) -> None:
    used = (*asked(town, Looking()).evidence, *asked(town, FRESH).evidence)
    both = asked(town, Looking(), length=LENGTH * 0.9)
    assert both.charged_nano == 0
    assert both.evidence == used


@pytest.mark.slow
def test_independent_answers_beside_tables_stay_sound(tmp_path: Path, store_url: str) -> None:
    """Some rows are cells of tables on the same step; all are refined later, and the books hold."""
    town = Deployment.make(tmp_path, store_url, limit="1000", phi=0.4)
    paid(town, next_that_buys(town))
    tables = [m for m in history(town) if isinstance(m, TableMeasurement)]
    assert tables
    cells = [{"age": age} for age in range(20, 30)]
    for length in (LENGTH, LENGTH / 2):
        for where in cells[:4]:
            assert asked(town, FRESH, where=where, length=length).weights == "independent"
        town.workload(cells, length=length * 0.6)
    twins = [
        (table.id, row.id)
        for table in history(town)
        for row in released(town)
        if isinstance(table, TableMeasurement)
        and table.partition.cell_of(row.row) is not None
        and table.step == row.step
    ]
    assert twins


def history(town: Deployment) -> list[AnyMeasurement]:
    replica = Replica(town.meta, town.settings, shown_only=False)
    replica.refresh(Store.open(town.settings))
    return replica.measurements


def released(town: Deployment) -> list[Measurement]:
    return [m for m in history(town) if isinstance(m, Measurement) and not m.is_public]


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["largest", "least", "any"])
def test_where_answers_disagree_every_choice_takes_the_ends_for_any(
    tmp_path: Path, store_url: str, rule: Rule
) -> None:
    """Each of 64 posteriors by itself bounds any choice; to move one end takes laws of errors."""
    town = Deployment.make(tmp_path, store_url, limit="1000")
    for sex in ("Female", "Male", "other"):
        asked(town, Looking(), where={"sex": sex})
    asked(town, Looking(), where={}, length=LENGTH / 2)
    chosen = Looking(Selection(64, rule))
    free, answer = explained(town, chosen).free, asked(town, chosen)
    assert free is not None
    assert free.interval == answer.interval
    plain = asked(town, Looking())
    assert plain.statement.disagreements > 0
    assert answer.statement == plain.statement
    assert answer.statement.law == free.law == "posterior"
    assert answer.estimate == plain.estimate
    assert answer.interval == asked(town, Looking(Selection(64, "any"))).interval
    assert answer.selected_from == Selection(64, rule)
    # The length from which on it is free is that of the estimate's error, as the price is.
    assert asked(town, chosen, length=free.free_length).charged_nano == 0
    assert answer.low < plain.low < plain.high < answer.high
