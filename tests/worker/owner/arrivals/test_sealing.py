"""Weeks that arrive, on a real store: what is sealed, what is refused, what is free afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import pytest

from qserver.errors import (
    BusyError,
    ConfigError,
    InputError,
    NotFoundError,
    PrivateDataError,
)
from qserver.query.calendar import PeriodNotSealedError
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.answer import Answer, JobStatus
from qserver.records.dataset import DatasetMeta
from qserver.service.statements import Statements
from tests.deployment import LOG, Deployment
from tests.growing import CAPACITY, Growing, rows_of, week
from tests.sweeps import n_of
from worker.owner.arrivals.sealing import AppendRequest, append
from worker.owner.attach import AttachRequest, attach
from worker.owner.changes import detach
from worker.owner.checks.audit import examine
from worker.private.registry import Registry

FEMALE = {"sex": "Female"}


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Growing:
    return Growing.begin(tmp_path, store_url)


def part_files(town: Growing) -> list[str]:
    folder = town.registry.folder / "parts" / town.meta.snapshot
    return sorted(path.name for path in folder.iterdir() if path.name != "lock")


def test_a_week_is_counted_once_it_is_sealed(town: Growing) -> None:
    where = {"week": week(3), **FEMALE}
    assert town.n_shown == 3
    with pytest.raises(PeriodNotSealedError, match=f"The last sealed one is {week(2)}"):
        town.ask(where)
    done = town.append(3)
    assert (done.first, done.last, done.sealed, done.again) == (week(3), week(3), 4, False)
    assert town.n_shown == 4
    answer = town.ask(where)
    assert answer.estimate == pytest.approx(150, abs=100)
    assert answer.as_of == week(3)


def test_a_running_worker_counts_a_new_week_without_a_restart(town: Growing) -> None:
    spender = town.spender()
    town.work_off(spender)
    town.append(3)
    query = town.service().parse("people", {"where": {"week": week(3)}})
    found = town.service().ask("people", Question(query, Requirement(8, 0.95)), wait_s=0)
    assert isinstance(found, JobStatus)
    town.work_off(spender)
    result = town.service().job(found.id).result
    assert result is not None
    assert abs(result.estimate - 200) < 30


@pytest.mark.slow
def test_a_question_that_waited_is_answered_as_it_was_asked(town: Growing) -> None:
    """It was clipped to three weeks when it came in; the fourth comes before it is drawn."""
    waiting = town.submit({}, length=8)
    assert isinstance(waiting, JobStatus)
    town.append(3)
    town.work_off()
    result = town.service().job(waiting.id).result
    assert result is not None
    assert abs(result.estimate - 600) < 30
    assert result.as_of == week(2)
    assert town.ask({}, length=8).as_of == week(3)


@pytest.mark.slow
def test_an_arrival_alone_changes_no_known_answer(town: Growing) -> None:
    """After each arrival all earlier answers are free, and the same to the last bit."""
    asked = list[tuple[Mapping[str, object], str]]()
    for i in range(3, n_of(15, share=9)):
        before = [known(town, where, at) for where, at in asked]
        town.append(i)
        assert [known(town, where, at) for where, at in asked] == before
        for where in ({"week": week(i)}, {"week": {"between": [week(i - 2), week(i)]}}, FEMALE):
            town.ask(where, length=60)
            asked.append((where, week(i)))


def known(town: Growing, where: Mapping[str, object], at: str) -> Answer:
    """What is known of a question as it was asked when this week was the last one."""
    service = town.service()
    query = service.parse("people", {"where": where}, at=at)
    found = service.ask("people", Question(query, Requirement(60, 0.95)), wait_s=0)
    assert isinstance(found, Answer)
    assert (found.charged_nano, found.as_of) == (0, at)
    return found


@pytest.mark.slow
def test_weeks_that_follow_cost_as_one(town: Growing) -> None:
    """The same question about each week: no record is in two of them."""
    first = town.ask({"week": week(0)}, length=40)
    for i in range(3, 8):
        town.append(i)
        town.ask({"week": week(i)}, length=40)
    assert town.service().dataset("people").spent_nano == first.charged_nano


@pytest.mark.parametrize("text", ["GROUP BY week", "GROUP BY MONTH(week)"])
def test_groups_are_those_of_sealed_weeks(town: Growing, text: str) -> None:
    sql = f"SELECT COUNT(*) FROM people {text} WITHIN 100"
    found = Statements(town.service()).run("people", sql, wait_s=0)
    assert isinstance(found, JobStatus)
    town.work_off()
    table = Statements(town.service()).run("people", sql, wait_s=0)
    rows = table.asked.statement.rows
    assert len(rows) == (3 if "MONTH" not in text else 1)


@pytest.mark.parametrize(
    "where",
    [
        {"week": week(3)},
        {"week": [week(0), week(5)]},
        {"week": {"at_least": week(3)}},
        {"week": {"between": [week(0), week(3)]}},
        {"week": {"below": week(4)}},
        {"week": {"not": week(30)}},
        {"week": {"weights": {week(4): 2}}},
        {"week": {"at_least": "2024-02-12"}},
    ],
)
def test_a_condition_that_names_a_week_to_come_is_refused(
    town: Growing, where: dict[str, object]
) -> None:
    with pytest.raises(PeriodNotSealedError, match=f"last sealed one is {week(2)}"):
        town.service().parse("people", {"where": where})


@pytest.mark.parametrize(
    "where",
    [
        {},
        {"week": {"at_least": week(0)}},
        {"week": {"below": week(3)}},
        {"week": {"not": week(1)}},
        {"week": {"between": [week(0), "9999-12-31"]}},
    ],
)
def test_open_ranges_are_clipped(town: Growing, where: dict[str, object]) -> None:
    query = town.service().parse("people", {"where": where})
    assert query.as_of == week(2)
    assert query.value_at((2, 0)) == 1
    assert query.value_at((3, 0)) == 0


@pytest.mark.parametrize(
    "condition",
    [f"week = '{week(3)}'", f"week > '{week(2)}'", f"week BETWEEN '{week(0)}' AND '{week(3)}'"],
)
def test_sql_refuses_a_week_to_come(town: Growing, condition: str) -> None:
    sql = f"SELECT COUNT(*) FROM people WHERE {condition} WITHIN 100"
    with pytest.raises(PeriodNotSealedError):
        Statements(town.service()).run("people", sql, wait_s=0)


def test_an_earlier_time_can_be_asked_about(town: Growing) -> None:
    service = town.service()
    query = service.parse("people", {"where": {}}, at=week(0))
    assert (query.as_of, query.value_at((0, 0)), query.value_at((1, 0))) == (week(0), 1, 0)
    with pytest.raises(PeriodNotSealedError):
        service.parse("people", {"where": {}}, at=week(3))
    with pytest.raises(InputError, match="be a week"):
        service.parse("people", {"where": {}}, at="spring")


def test_the_same_append_again_does_nothing(town: Growing) -> None:
    town.append(3)
    lines = town.registry.journal("town", create=False).n_records
    done = town.append(3, list(reversed(rows_of(3))))
    assert done.again
    assert town.append(2, [r for i in range(3) for r in rows_of(i)]).again
    assert town.registry.journal("town", create=False).n_records == lines


def test_other_records_for_a_sealed_week_are_refused(town: Growing) -> None:
    town.append(3)
    with pytest.raises(ConfigError, match=f"hold the records that {week(3)} was sealed with"):
        town.append(3, rows_of(3)[1:])
    with pytest.raises(ConfigError, match="be a period that is not sealed yet"):
        town.append(1)
    assert town.n_shown == 4


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([*rows_of(3), *rows_of(4, 7)], "7 records are of periods after"),
    ],
)
def test_records_of_weeks_to_come_are_refused_before_anything_is_sealed(
    town: Growing, rows: list[tuple[str, str, str]], message: str
) -> None:
    with pytest.raises(PrivateDataError, match=message):
        town.append(3, rows)
    assert town.n_shown == 3
    assert part_files(town) == ["0000000-0000003.part"]


def test_a_gap_must_be_meant(town: Growing) -> None:
    with pytest.raises(ConfigError, match=f"{week(3)} has none"):
        town.append(4)
    assert town.append(4, empty=True).sealed == 5
    assert abs(town.ask({"week": week(3)}, length=8).estimate) < 30
    with pytest.raises(ConfigError, match="has none"):
        town.append(5, [])
    assert town.append(5, [], empty=True).sealed == 6


def test_more_records_than_the_capacity_are_refused(town: Growing) -> None:
    with pytest.raises(ConfigError, match="be at least the number of records of every period"):
        town.append(3, rows_of(3, CAPACITY + 1))
    assert town.n_shown == 3
    town.append(3, rows_of(3, CAPACITY))
    assert abs(town.ask({"week": week(3)}, length=8).estimate - CAPACITY) < 30


def test_one_record_and_one_person(town: Growing) -> None:
    town.append(3, rows_of(3, 1))
    done = town.append(4, [(week(4), "Male", "one")] * 20)
    assert done.n_dropped == 19
    assert abs(town.ask({"week": {"at_least": week(3)}}, length=8).estimate - 2) < 30


def test_a_persons_earlier_records_decide_what_is_kept(tmp_path: Path, store_url: str) -> None:
    """k = 2 in all weeks: two of p0-0 are kept in week 0, so none of hers in week 3."""
    town = Growing.begin(tmp_path, store_url, k=2)
    assert town.append(3, [(week(3), "Female", "p0-0")] * 3).n_dropped == 2
    assert town.append(4, [(week(4), "Female", "p0-0"), *rows_of(4, 10)]).n_dropped == 1


def test_an_unknown_person_is_never_kept(town: Growing) -> None:
    assert town.append(3, [(week(3), "Female", ""), *rows_of(3, 3)]).n_dropped == 1


def test_two_appends_at_once_are_refused(town: Growing) -> None:
    entry = town.registry.entry("people")
    with town.registry.parts(entry).appending(), pytest.raises(BusyError, match="Another command"):
        town.append(3)


def test_new_weeks_are_shown_at_a_full_minute(town: Growing) -> None:
    """The clock of the test stands half a minute after one, however long the file takes."""
    town.append(3)
    assert town.waits == [30.0]


def test_the_same_data_in_another_population_must_be_other_people(
    town: Growing,
) -> None:
    town.append(3)
    data = town.settings.state_dir / "next.csv"
    request = AttachRequest(
        name="other",
        data=data,
        domain=town.meta.domain,
        limit=Fraction(1),
        relation="add-remove",
        population="village",
        records_per_person=1,
        person_column="who",
    )
    with pytest.raises(ConfigError, match="hold other data than every other population"):
        attach(request, settings=town.settings, registry=town.registry, progress=lambda _t: None)


def test_a_dataset_of_one_file_cannot_be_appended_to(tmp_path: Path, store_url: str) -> None:
    town = Deployment.make(tmp_path, store_url)
    with pytest.raises(ConfigError, match="be a dataset whose data arrive over time"):
        append(
            AppendRequest("people", town.data, week(3)),
            settings=town.settings,
            registry=town.registry,
            progress=lambda _text: None,
            log=LOG,
        )
    query = town.service().parse("people", {"where": {}})
    assert query.as_of == ""
    with pytest.raises(InputError, match="be left out"):
        town.service().parse("people", {"where": {}}, at=week(3))


def test_a_changed_or_lost_part_is_refused(town: Growing) -> None:
    town.append(3)
    folder = town.registry.folder / "parts" / town.meta.snapshot
    path = folder / "0000003-0000004.part"
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    assert town.meta.snapshot not in town.trusted().tables
    path.unlink()
    assert town.meta.snapshot not in town.trusted().tables
    found = {f.check: f for f in examine(town.registry, town.settings)}
    assert not found["data of people"].ok
    path.write_bytes(whole)
    assert town.meta.snapshot in town.trusted().tables
    assert {f.check: f for f in examine(town.registry, town.settings)}["data of people"].ok


def test_facts_of_growth_are_kept(town: Growing) -> None:
    found = DatasetMeta.from_json(town.meta.to_json())
    assert found == town.meta
    assert (found.growth, found.n_periods) == (town.meta.growth, 60)
    assert found.most_records == 60 * CAPACITY
    assert town.meta.capacity is None
    assert Registry(town.settings.state_dir).entry("people").grows


def test_a_detached_dataset_leaves_no_parts_behind(town: Growing) -> None:
    town.append(3)
    detach("people", settings=town.settings, registry=town.registry, log=LOG)
    assert not (town.registry.folder / "parts" / town.meta.snapshot).exists()
    with pytest.raises(NotFoundError):
        town.append(4)
