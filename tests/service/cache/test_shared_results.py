"""What one process took long to find is found by all, until something bears on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qserver.answering.smooth_numbers import KnownParts, SmoothOf, known_parts
from qserver.errors import StoreCorruptError
from qserver.inference.engine import InferenceEngine
from qserver.query.question import Question, Workload
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.statistics.smooth_functions import smooth_asked
from qserver.records.answer import JobStatus, WorkloadAnswer
from qserver.records.privacy.noise_law import GAUSSIAN
from qserver.service import ask
from qserver.service.cache import smooth_numbers as numbers
from qserver.service.cache.shared_results import SharedResults
from qserver.service.service import Service
from qserver.service.statement_answers import StatementAnswer
from qserver.service.statements import Statements
from qserver.storage.server.connection import StoreClient
from tests.deployment import Deployment
from tests.growing import Growing, week

pytestmark = pytest.mark.slow

Where = Mapping[str, Any]
OF = "FROM people WHERE sex = 'Female' AND age < 25"
AVERAGES = f"SELECT AVG(age), STDDEV(age) {OF} WITHIN 2 ASSUMING AT LEAST 50"
SUMS: Sequence[Where] = [
    {"age": {"between": ages}, "sex": "Female"} for ages in ([20, 24], [20, 22], [23, 24])
]
"""The count of all these women and those of both parts disagree."""
ELSEWHERE: Where = {"sex": "Male"}
WOMEN: Where = {"age": {"between": [20, 22]}, "sex": "Female"}

MEN: Where = {"age": {"between": [20, 22]}, "sex": "Male"}


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    """The averages are known, of sums that disagree."""
    found = Deployment.make(tmp_path, store_url, limit="100")
    for where in SUMS:
        found.ask(where, length=40)
    while isinstance(Statements(found.service()).run("people", AVERAGES, wait_s=0), JobStatus):
        found.work_off()
    return found


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What was read from the history, to draw it."""
    found = list[int]()

    def counted(engine: InferenceEngine, ones: Sequence[SmoothOf], *, seed: str) -> KnownParts:
        found.append(len(ones))
        return known_parts(engine, ones, seed=seed)

    monkeypatch.setattr(numbers, "known_parts", counted)
    return found


@pytest.fixture
def averages(town: Deployment) -> tuple[SmoothOf, ...]:
    statement = parse_statement(AVERAGES, town.service().domain("people"), dataset="people")
    return tuple(
        SmoothOf(one.cell.queries, one.cell.function, one.smooth, one.confidence, town.meta.law)
        for one in smooth_asked(statement).values()
    )


def drawn_by(service: Service, averages: Sequence[SmoothOf]) -> list[float | None]:
    view = service.smooth.view("people", averages)
    return [view.known(one).look.estimate for one in averages]


def apart(town: Deployment, averages: Sequence[SmoothOf]) -> list[float | None]:
    """What a process finds that shares nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SharedResults, "find", lambda *_: "")
        patch.setattr(SharedResults, "keep", lambda *_: None)
        return drawn_by(town.service(), averages)


def table(service: Service, text: str = AVERAGES) -> StatementAnswer:
    found = Statements(service).run("people", text, wait_s=30)
    assert isinstance(found, StatementAnswer)
    assert found.charged_nano == 0
    return found


def test_another_process_finds_what_one_drew_as_it_found_it(
    town: Deployment, drawn: list[int]
) -> None:
    first = table(town.service())
    assert all(cell.statement and cell.statement.disagreements for cell in first.cells[0])
    drawn.clear()
    assert table(town.service()).cells == first.cells
    assert drawn == []


def test_what_is_bought_elsewhere_makes_no_process_draw_anew(
    town: Deployment, drawn: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that drew, one that found that, and one that is asked for the first time.

    Here all ages are in one table, so everything bears on it; other tests tell what does not.
    """
    monkeypatch.setattr(InferenceEngine, "is_unchanged", lambda *_, **__: True)
    one, two = town.service(), town.service()
    first = table(one)
    table(two)
    drawn.clear()
    for who in ((two, town.service()), (one, town.service())):
        town.ask(ELSEWHERE, length=10)
        for service in who:
            found = table(service)
            assert found.version > first.version
            assert [[c.value for c in row] for row in found.cells] == [
                [c.value for c in row] for row in first.cells
            ]
    assert drawn == []


def test_what_bears_on_a_sum_is_drawn_once_in_all(town: Deployment, drawn: list[int]) -> None:
    services = [town.service(), town.service()]
    first = [table(one) for one in services]
    town.ask(WOMEN, length=10)
    drawn.clear()
    found = [table(one) for one in services]
    assert len(drawn) == 1
    assert found[0].cells == found[1].cells != first[0].cells


def test_a_function_of_the_same_sums_is_another_number(town: Deployment) -> None:
    one = table(town.service()).cells[0][0]
    [two] = table(town.service(), f"SELECT AVG(age) * 2 {OF} WITHIN 9").cells[0]
    assert two.value.estimate == pytest.approx(2 * (one.value.estimate or 0.0))


def known(service: Service, workload: Workload) -> WorkloadAnswer:
    found = service.ask_workload("people", workload, wait_s=90)
    assert isinstance(found, WorkloadAnswer)
    assert found.charged_nano == 0
    return found


@pytest.mark.parametrize("a_second", [0.1, 50.0])
def test_a_table_of_many_laws_is_found_once_for_all_processes(
    town: Deployment,
    computed: list[Question | Workload],
    monkeypatch: pytest.MonkeyPatch,
    a_second: float,
) -> None:
    """Not one of few: that takes no longer than a look into the store is worth."""
    monkeypatch.setattr(ask, "_LAWS_A_SECOND", a_second)
    workload = town.workload(SUMS, length=80)
    first, again = (known(town.service(), workload) for _ in range(2))
    assert all(one.statement.disagreements for one in first.answers)
    assert again == first
    assert len(computed) == (1 if a_second < 1 else 2)
    town.ask(WOMEN, length=5)
    assert known(town.service(), workload) != first


def test_a_table_stays_found_while_nothing_bears_on_it(
    town: Deployment, computed: list[Question | Workload], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a process that is asked for the first time, and by one that is asked again after that."""
    monkeypatch.setattr(ask, "_LAWS_A_SECOND", 0.1)
    workload, one, two = town.workload(SUMS, length=80), town.service(), town.service()
    first = [known(service, workload) for service in (one, two)]
    assert len(computed) == 1
    monkeypatch.setattr(InferenceEngine, "is_unchanged", lambda *_, **__: True)
    for service in (one, two):
        town.ask(ELSEWHERE, length=10)
        computed.clear()
        found = [known(who, workload) for who in (service, town.service())]
        assert computed == []
        assert found[0] == found[1]
        assert found[0].version > first[0].version
        assert [a.interval for a in found[0].answers] == [a.interval for a in first[0].answers]


def test_a_bought_table_stays_found_as_history_gives_it(
    town: Deployment, computed: list[Question | Workload], monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = town.workload([MEN, ELSEWHERE], length=30)
    town.ask_workload(workload)
    computed.clear()
    one = town.service()
    first = known(one, workload)
    assert computed == []
    monkeypatch.setattr(InferenceEngine, "is_unchanged", lambda *_, **__: True)
    town.ask(WOMEN, length=10)
    computed.clear()
    found = [known(who, workload) for who in (one, town.service())]
    assert computed == []
    assert found[0] == found[1]
    assert {a.source for a in found[1].answers} == {"history"}
    assert [a.interval for a in found[1].answers] == [a.interval for a in first.answers]


def test_a_table_is_found_anew_once_records_are_erased(
    tmp_path: Path,
    store_url: str,
    computed: list[Question | Workload],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may name the price of measuring them."""
    monkeypatch.setattr(ask, "_LAWS_A_SECOND", 0.1)
    town = Growing.begin(tmp_path, store_url, limit="100")
    weeks = [{"week": {"between": list(map(week, ends))}} for ends in ((0, 2), (0, 1), (2, 2))]
    for where in weeks:
        town.ask(where, length=40)
    computed.clear()
    workload = town.workload(weeks, length=80)
    for _ in range(2):
        town.service().ask_workload("people", workload, wait_s=90)
    assert len(computed) == 1
    town.retire(2)
    town.service().ask_workload("people", workload, wait_s=90)
    assert len(computed) == 2


def test_sums_read_late_do_not_keep_numbers_found_before(
    town: Deployment, averages: tuple[SmoothOf, ...]
) -> None:
    """Another thread takes in a purchase before the sums are read."""
    drawn_by(town.service(), averages)
    late = town.service()
    view, before = late.smooth.view("people", averages), drawn_by(late, averages)
    town.ask(WOMEN, length=10)
    drawn_by(late, averages[:1])
    view.law(averages[0])
    found = drawn_by(late, averages)
    assert found != before
    assert found == pytest.approx(apart(town, averages))


def test_numbers_found_late_are_not_carried_to_later_states(
    town: Deployment, averages: tuple[SmoothOf, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = town.service()
    with monkeypatch.context() as patch:
        patch.setattr(SharedResults, "find", lambda *_: "")
        view = one.smooth.view("people", averages)
        view.law(averages[0])
        town.ask(WOMEN, length=10)
        one.smooth.view("people", averages).law(averages[0])
        view.known(averages[0])
    with monkeypatch.context() as patch:
        patch.setattr(InferenceEngine, "is_unchanged", lambda *_, **__: True)
        town.ask(ELSEWHERE, length=10)
        one.smooth.view("people", averages)
    assert drawn_by(town.service(), averages) == pytest.approx(apart(town, averages))


def test_what_is_carried_is_in_the_store_once(
    town: Deployment,
    averages: tuple[SmoothOf, ...],
    redis_client: StoreClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also if another thread finds numbers meanwhile."""
    monkeypatch.setattr(InferenceEngine, "is_unchanged", lambda *_, **__: True)
    keep, one = SharedResults.keep_far, town.service()
    drawn_by(one, averages)

    def n_texts() -> int:
        keys = redis_client.scan_iter("*idempotency*")
        return sum('"half_width"' in str(redis_client.hget(key, "outcome")) for key in keys)

    def kept(*of: Any) -> None:
        monkeypatch.setattr(SharedResults, "keep_far", keep)
        one.smooth.view("people", averages).known(averages[0], among=5)
        keep(*of)

    n_before = n_texts()
    for length in (10, 9, 8):
        town.ask(ELSEWHERE, length=length)
        monkeypatch.setattr(SharedResults, "keep_far", kept)
        drawn_by(one, averages)
    assert n_texts() == n_before + 1


def test_changed_bytes_are_damage_of_the_store(town: Deployment, redis_client: StoreClient) -> None:
    table(town.service())
    keys = [str(key) for key in redis_client.scan_iter("*idempotency*")]
    texts = {key: str(redis_client.hget(key, "outcome")) for key in keys}
    n_changed = 0
    for key, text in texts.items():
        if '"half_width"' in text:
            changed = text.replace('"half_width": ', '"half_width": 1', 1)
            n_changed += redis_client.hset(key, "outcome", changed) == 0
    assert n_changed
    with pytest.raises(StoreCorruptError, match="was changed"):
        table(town.service())


def test_the_key_of_a_number_tells_all_apart_that_it_depends_on(
    town: Deployment, averages: tuple[SmoothOf, ...]
) -> None:
    domain, keys = town.service().domain("people"), set[str]()
    items = ["AVG(age)", "STDDEV_POP(age)", "STDDEV_SAMP(age)", "VAR_POP(age)", "SQRT(AVG(age))"]
    items += ["AVG(age) + 1", "ABS(AVG(age) - 25)", "ABS(AVG(age) - 24)"]
    for item in items:
        statement = parse_statement(f"SELECT {item} FROM people WITHIN 1", domain, dataset="people")
        ones = [
            SmoothOf(a.cell.queries, a.cell.function, a.smooth, 0.9)
            for a in smooth_asked(statement).values()
        ]
        assert " at 0x" not in repr([one.function for one in ones])
        keys.add(numbers._key("s", ones, 1, 1).text)
    others = [replace(averages[0], confidence=0.8), replace(averages[0], law=GAUSSIAN)]
    keys |= {numbers._key("s", [one], 1, 1).text for one in (averages[0], *others)}
    for of in ((averages, 1, 1), (averages, 2, 1), (averages, 1, 2), (averages[::-1], 1, 1)):
        keys.add(numbers._key("s", *of).text)
    keys.add(numbers._key("t", averages, 1, 1).text)
    assert len(keys) == len(items) + 1 + len(others) + 4 + 1
