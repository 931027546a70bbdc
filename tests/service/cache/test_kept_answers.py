"""An answer is kept until something is bought that bears on it, and is that of a fresh process."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qserver.answering import quantiles
from qserver.answering.grounds import Estimates
from qserver.answering.quantiles import Laws, QuantileAsked, known_laws
from qserver.answering.replica import Replica
from qserver.answering.smooth_numbers import KnownParts, SmoothOf, known_parts
from qserver.inference.engine import InferenceEngine
from qserver.query.question import Question, Workload
from qserver.query.requirement import Requirement
from qserver.records.answer import Answer, JobStatus, WorkloadAnswer
from qserver.service import ask
from qserver.service.cache import smooth_numbers as numbers
from qserver.service.cache.answers import KeptAnswers
from qserver.service.service import Service
from qserver.service.statement_answers import StatementAnswer
from qserver.service.statements import Statements
from qserver.storage.store import Store
from tests.deployment import Deployment

Where = Mapping[str, Any]
ALL: Where = {"age": {"between": [21, 26]}}
YOUNG: Where = {"age": {"between": [21, 23]}}
OLD: Where = {"age": {"between": [24, 26]}}
WOMEN: Where = {"sex": "Female"}
MEN: Where = {"age": {"between": [20, 24]}, "sex": "Male"}


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="100")


def known(service: Service, where: Where, *, length: float = 80) -> Answer:
    query = service.parse("people", {"where": where})
    found = service.ask("people", Question(query, Requirement(length, 0.95)), wait_s=0)
    assert isinstance(found, Answer)
    return found


def known_workload(service: Service, *wheres: Where) -> WorkloadAnswer:
    requirement = Requirement(80.0, 0.95)
    asked = [Question(service.parse("people", {"where": w}), requirement) for w in wheres]
    found = service.ask_workload("people", Workload(tuple(asked)), wait_s=0)
    assert isinstance(found, WorkloadAnswer)
    return found


def assert_same(found: Answer, expected: Answer) -> None:
    """The answers of two processes, to a thousandth of the error that laws are found with."""
    ends = [found.estimate, *found.interval, found.confidence_attained]
    others = [expected.estimate, *expected.interval, expected.confidence_attained]
    assert ends == pytest.approx(others, rel=1e-9, abs=1e-6 * (expected.high - expected.low))
    assert _without_figures(found) == _without_figures(expected)


def _without_figures(one: Answer) -> Answer:
    law = replace(one.statement, error=0.0)
    return replace(one, estimate=0.0, low=0.0, high=0.0, confidence_attained=0.0, statement=law)


def test_what_is_bought_elsewhere_leaves_answers_as_they_are(
    town: Deployment, computed: list[Question | Workload]
) -> None:
    """They say what is left of the budget now, and are those of a fresh process."""
    for where in (ALL, WOMEN):
        town.ask(where)
    service = town.service()
    before = [known(service, where) for where in (ALL, WOMEN)]
    both = known_workload(service, ALL, WOMEN)
    town.ask(MEN, length=5)
    computed.clear()
    after = [known(service, where) for where in (ALL, WOMEN)]
    assert known_workload(service, ALL, WOMEN).answers[0].low == both.answers[0].low
    assert computed == []
    fresh = town.service()
    for old, new, where in zip(before, after, (ALL, WOMEN), strict=True):
        assert new.remaining_nano < old.remaining_nano
        assert new.version > old.version
        assert_same(new, known(fresh, where))
    assert known_workload(service, ALL, WOMEN) == known_workload(fresh, ALL, WOMEN)


def test_what_is_bought_of_the_same_numbers_is_told(
    town: Deployment, computed: list[Question | Workload]
) -> None:
    """The old disagree with the young and all of them; the women do not."""
    for where in (ALL, YOUNG, WOMEN):
        town.ask(where)
    service = town.service()
    for where in (ALL, YOUNG, WOMEN):
        known(service, where)
    town.ask(OLD)
    computed.clear()
    assert known(service, YOUNG).statement.disagreements == 1
    assert known(service, WOMEN).statement.disagreements == 0
    assert len(computed) == 1
    assert_same(known(service, YOUNG), known(town.service(), YOUNG))


def test_an_answer_that_names_a_price_is_kept_until_anything_is_bought(town: Deployment) -> None:
    """The price of fresh noise depends on all that was bought."""
    town.ask(WOMEN)
    answer, kept = known(town.service(), WOMEN), KeptAnswers()
    replica = Replica(town.meta, town.settings, shown_only=True)
    replica.refresh(Store.open(town.settings))
    query = town.service().parse("people", {"where": WOMEN})
    question, since = Question(query, Requirement(80.0, 0.95)), replica.engine.n_changes
    with_price, other = replace(answer, rest_nano=5), replace(question, measure="only_this")
    kept.keep(replica, question, with_price, since=since)
    assert kept.find(replica, question) == with_price
    town.ask(MEN, length=5)
    replica.refresh(Store.open(town.settings))
    assert kept.find(replica, question) is None
    kept.keep(replica, other, answer, since=since)
    found = kept.find(replica, question)
    assert found is not None
    assert found.version > answer.version


@pytest.mark.slow
@pytest.mark.parametrize("wheres", [(OLD, YOUNG, WOMEN), (MEN, WOMEN, {"age": 25})])
def test_a_bought_workload_is_known_at_once_and_as_a_fresh_process_knows_it(
    town: Deployment,
    computed: list[Question | Workload],
    wheres: Sequence[Where],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it was bought with disagrees with what was there; somebody may buy more meanwhile."""
    town.ask(ALL, length=20)

    def sleep(_seconds: float) -> None:
        town.work_off()

    service = Service(Store.open(town.settings), town.settings, short_s=60.0, sleep=sleep)
    bought = service.ask_workload("people", town.workload(wheres, length=80), wait_s=30)
    assert isinstance(bought, WorkloadAnswer)
    assert bought.charged_nano > 0
    computed.clear()
    again = known_workload(service, *wheres)
    assert computed == []
    assert (again.charged_nano, again.remaining_nano) == (0, bought.remaining_nano)
    monkeypatch.setattr(Store, "bound", lambda *_, **__: "")  # it finds nothing shared
    expected = known_workload(town.service(), *wheres)
    assert again.remarks == expected.remarks
    assert again.rest_nano == expected.rest_nano
    for one, other in zip(again.answers, expected.answers, strict=True):
        assert_same(one, other)


def test_the_client_gets_a_known_answer_from_the_kept_bytes(
    town: Deployment, computed: list[Question | Workload], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question under a key of its own; one that was charged says so again under its key."""
    web, path = town.web(), "/v1/datasets/people/query"
    body = {"query": {"where": WOMEN}, "length": 40, "confidence": 0.95}

    def asked(key: str) -> Any:
        return web.post(path, json=body, headers={"Idempotency-Key": key})

    assert asked("paid").status_code == 202
    town.work_off()
    free = asked("new")
    computed.clear()
    monkeypatch.setattr(ask.Asking, "_found", lambda *_: pytest.fail("it was looked up"))
    assert [asked(key).data for key in ("other", "new", "third")] == [free.data] * 3
    monkeypatch.undo()
    assert free.json["epsilon_charged"] == 0
    assert asked("paid").json["epsilon_charged"] > 0


AVERAGES = "SELECT sex, AVG(age) FROM people GROUP BY sex WITHIN 2 ASSUMING AT LEAST 100"


MEDIANS = "SELECT sex, MEDIAN(age) FROM people GROUP BY sex WITHIN 2 ASSUMING AT LEAST 100"


def table(service: Service, text: str = AVERAGES) -> StatementAnswer:
    found = Statements(service).run("people", text, wait_s=0)
    assert isinstance(found, StatementAnswer)
    assert found.charged_nano == 0
    return found


@pytest.mark.slow
def test_averages_are_drawn_anew_only_where_something_bears_on_their_sums(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A range of ages bears on none of the sums; the women of known age are one of them."""
    drawn = list[int]()

    def counted(engine: InferenceEngine, ones: Sequence[SmoothOf], *, seed: str) -> KnownParts:
        drawn.append(len(ones))
        return known_parts(engine, ones, seed=seed)

    while isinstance(Statements(town.service()).run("people", AVERAGES, wait_s=0), JobStatus):
        town.work_off()
    service = town.service()
    table(service)
    monkeypatch.setattr(numbers, "known_parts", counted)
    counted_women = {"age": {"between": [20, 29]}, **WOMEN}
    for where, n_drawn in ((YOUNG, 0), (counted_women, 1)):
        town.ask(where, length=10)
        drawn.clear()
        found = table(service)
        assert len(drawn) == n_drawn
        fresh = table(town.service())
        assert found.version == fresh.version
        for row, other in zip(found.cells, fresh.cells, strict=True):
            for one, two in zip(row, other, strict=True):
                ends, others = one.value.interval, two.value.interval
                assert [ends.low, ends.high] == pytest.approx([others.low, others.high], rel=1e-9)


@pytest.mark.slow
def test_medians_are_found_anew_only_where_something_bears_on_their_counts(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A range of all ages bears on no count; women in a range may, by their noise."""
    found_of = list[QuantileAsked]()

    def counted(engine: Estimates, one: QuantileAsked) -> Laws | None:
        found_of.append(one)
        return known_laws(engine, one)

    while isinstance(Statements(town.service()).run("people", MEDIANS, wait_s=0), JobStatus):
        town.work_off()
    service = town.service()
    table(service, MEDIANS)
    monkeypatch.setattr(quantiles, "known_laws", counted)
    women = {"age": {"between": [20, 24]}, **WOMEN}
    for where, length in ((YOUNG, 10), (women, 5)):
        town.ask(where, length=length)
        found_of.clear()
        found = table(service, MEDIANS)
        assert where is women or not found_of
        fresh = table(town.service(), MEDIANS)
        assert [[c.value.interval for c in row] for row in found.cells] == [
            [c.value.interval for c in row] for row in fresh.cells
        ]


def _random_where(rng: random.Random) -> Where:
    where = dict[str, Any]()
    if rng.random() < 0.7:
        where["age"] = {"between": sorted(rng.sample(range(20, 30), 2))}
    if rng.random() < 0.6:
        where["sex"] = rng.choice(("Female", "Male"))
    return where


@pytest.mark.slow
@pytest.mark.parametrize("phi", [1.0, 0.05])
@pytest.mark.parametrize("seed", range(2))
def test_all_that_is_kept_is_what_a_fresh_process_says(
    seed: int, phi: float, tmp_path: Path, store_url: str
) -> None:
    """Random counts, bought by others one by one, in rows and, with a small phi, in tables."""
    town, rng = Deployment.make(tmp_path, store_url, limit="100", phi=phi), random.Random(seed)
    asked: list[Where] = []
    service = town.service()
    for _ in range(5):
        where = _random_where(rng)
        town.ask(where, length=rng.choice((40, 60)))
        asked.append(where)
        fresh = town.service()
        for one in asked[-3:]:
            assert_same(known(service, one), known(fresh, one))
        _assert_alike(known_workload(service, *asked[:3]), known_workload(fresh, *asked[:3]))


def _assert_alike(found: WorkloadAnswer, expected: WorkloadAnswer) -> None:
    pairs: Sequence[tuple[Answer, Answer]] = list(zip(found.answers, expected.answers, strict=True))
    for pair in pairs:
        assert_same(*pair)
