"""Old weeks whose records are erased: what was released stays, and nothing more is measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qserver.client.results import DatasetInfo
from qserver.errors import ConfigError
from qserver.query.calendar import PeriodRetiredError
from qserver.query.linear_query import LinearQuery
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.answer import Answer, JobStatus
from qserver.records.problem import error_from_problem
from qserver.records.unit import Unit
from qserver.service.statements import Statements
from tests.growing import Growing, Row, rows_of, week
from tests.portal.portal_site import browser_on
from worker import cli
from worker.owner.checks.audit import audit, examine
from worker.private.parts import Part

N = 6


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Growing:
    """Weeks 0 to 2 in one part, and one part for each of weeks 3 to 5."""
    town = Growing.begin(tmp_path, store_url)
    for i in range(3, N):
        town.append(i)
    return town


def known(town: Growing, where: dict[str, object], length: float = 60) -> Answer:
    service = town.service()
    query = service.parse("people", {"where": where})
    found = service.ask("people", Question(query, Requirement(length, 0.95)), wait_s=0)
    assert isinstance(found, Answer)
    assert found.charged_nano == 0
    return found


def question(town: Growing) -> LinearQuery:
    return town.service().parse("people", {"where": {"week": week(0)}})


def refused(town: Growing, job: Answer | JobStatus) -> PeriodRetiredError:
    """Why a job ended without an answer."""
    assert isinstance(job, JobStatus)
    town.work_off()
    error = error_from_problem(town.service().job(job.id).problem or {})
    assert isinstance(error, PeriodRetiredError)
    return error


def parts(town: Growing) -> list[Part]:
    folder = town.registry.parts(town.registry.entry("people"))
    with town.registry.journal("town", create=False).exclusive() as journal:
        state, snapshot = journal.state, town.meta.snapshot
        return folder.read(state.parts[snapshot], state.retired.get(snapshot))


def files(town: Growing) -> list[str]:
    folder = town.registry.folder / "parts" / town.meta.snapshot
    return sorted(path.name for path in folder.iterdir() if path.name != "lock")


@pytest.mark.parametrize(
    ("first", "left"),
    [
        (1, ["0000001-0000003.part", "0000003-0000004.part"]),
        (3, ["0000003-0000003.part", "0000003-0000004.part"]),
        (4, ["0000004-0000004.part", "0000004-0000005.part"]),
        (6, ["0000006-0000006.part"]),
    ],
)
def test_the_records_of_old_weeks_are_gone(town: Growing, first: int, left: list[str]) -> None:
    """In the middle of a part, at its end, after several, and all of them."""
    done = town.retire(first)
    assert (done.retired, done.first_kept, done.again) == (first, week(first), False)
    assert files(town)[: len(left)] == left
    codes = [code for part in parts(town) for code in part.codes[0].tolist()]
    assert sorted(set(codes)) == list(range(first, N))
    assert len(codes) == 200 * (N - first)


@pytest.mark.slow
def test_what_was_released_stays_free_to_the_last_bit(town: Growing) -> None:
    asked: list[dict[str, object]] = [
        {},
        {"sex": "Female"},
        {"week": week(0)},
        {"week": {"between": [week(1), week(4)]}},
    ]
    for where in asked:
        town.ask(where, length=60)
    before = [known(town, where) for where in asked]
    town.retire(4)
    assert [known(town, where) for where in asked] == before
    town.append(N)
    town.work_off()
    assert known(town, {"week": week(0)}).estimate == before[2].estimate
    assert known(town, {"week": {"between": [week(1), week(4)]}}).low == before[3].low


@pytest.mark.slow
@pytest.mark.parametrize(
    "where",
    [{}, {"week": week(0)}, {"week": {"between": [week(3), week(5)]}}, {"sex": "Female"}],
)
def test_a_question_that_needs_noise_about_them_is_refused(
    town: Growing, where: dict[str, object]
) -> None:
    """Also one that came before, and waited."""
    waiting = town.submit(where, length=20)
    town.retire(4)
    for job in (waiting, town.submit(where, length=30)):
        assert f"from {week(4)} on" in str(refused(town, job))
    assert town.service().dataset("people").spent_nano == 0


@pytest.mark.slow
def test_weeks_that_are_kept_are_measured_as_before(town: Growing) -> None:
    spender = town.spender()
    town.retire(4)
    found = town.submit({"week": {"at_least": week(4)}}, length=20)
    assert isinstance(found, JobStatus)
    town.work_off(spender)
    result = town.service().job(found.id).result
    assert abs(result.estimate - 400) < 30
    town.append(N)
    assert abs(town.ask({"week": {"at_least": week(5)}}, length=20).estimate - 400) < 30


@pytest.mark.slow
def test_what_is_known_of_a_retired_week_is_offered(town: Growing) -> None:
    answer = town.ask({"week": week(0)}, length=60)
    town.retire(2)
    error = refused(town, town.submit({"week": week(0)}, length=20))
    assert (error.first_kept, error.free.low) == (week(2), answer.low)
    text = str(
        town.service().explain("people", Question(question(town), Requirement(60, 0.95))).kind
    )
    assert text == "free"
    with pytest.raises(PeriodRetiredError) as caught:
        town.service().explain("people", Question(question(town), Requirement(20, 0.95)))
    assert caught.value.free.low == answer.low


QUESTION: dict[str, Any] = {"query": {"where": {"week": week(0)}}, "length": 20, "confidence": 0.95}
SQL = f"SELECT COUNT(*) FROM people WHERE week < '{week(3)}' WITHIN 20"


@pytest.mark.limit("period_retired")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("query", QUESTION),
        ("explain", QUESTION),
        ("workload", {"questions": [QUESTION]}),
        ("workload/explain", {"questions": [QUESTION]}),
        ("sql", {"sql": SQL}),
        ("sql", {"sql": f"EXPLAIN {SQL}"}),
        ("sql", {"sql": "SELECT week, COUNT(*) FROM people GROUP BY week WITHIN 20"}),
    ],
)
def test_every_face_names_the_first_week_that_is_kept(
    town: Growing, path: str, body: dict[str, Any]
) -> None:
    town.retire(3)
    found = town.web().post(f"/v1/datasets/people/{path}", json=body)
    problem = found.json
    assert problem is not None
    if found.status_code == 202:
        town.work_off()
        problem = town.web().get(f"/v1/jobs/{problem['id']}").json["problem"]
    assert (problem["status"], problem["code"]) == (409, "period_retired")
    assert problem["first_kept"] == week(3)
    assert f"The records before {week(3)} are erased" in problem["detail"]


@pytest.mark.slow
def test_the_pages_say_so_too(town: Growing) -> None:
    town.retire(3)
    browser = browser_on(town, is_open=True)
    assert f"records before {week(3)} are erased" in browser.text("/portal/")
    fields = {"from:week": week(0), "to:week": week(0), "length": "60", "confidence": "95"}
    page = browser.post("/portal/datasets/people/price", fields)
    assert f"The records before {week(3)} are erased" in page.text
    assert "Ask about later periods" in page.text


@pytest.mark.slow
def test_a_dataset_shows_what_is_erased(town: Growing) -> None:
    town.retire(3)
    found = town.web().get("/v1/datasets/people").json
    assert found is not None
    assert (found["periods"]["retired"], found["periods"]["first_kept"]) == (3, week(3))
    info = DatasetInfo.of(found)
    assert info.periods is not None
    assert info.periods.first_kept == week(3)


@pytest.mark.slow
def test_the_same_retirement_again_does_nothing(town: Growing) -> None:
    town.retire(4)
    lines = town.registry.journal("town", create=False).n_records
    assert town.retire(4).again
    assert (town.retire(2).again, town.retire(2).retired) == (True, 4)
    assert town.registry.journal("town", create=False).n_records == lines


@pytest.mark.slow
def test_more_weeks_are_retired_later(town: Growing) -> None:
    for first in (1, 2, 4, 5):
        assert town.retire(first).retired == first
    assert files(town) == ["0000005-0000005.part", "0000005-0000006.part"]
    assert abs(town.ask({"week": week(5)}, length=20).estimate - 200) < 30


def test_a_week_that_did_not_arrive_cannot_be_kept_from(town: Growing) -> None:
    with pytest.raises(ConfigError, match=f"be {week(N)} at the latest"):
        town.retire(N + 1)


@pytest.mark.slow
def test_an_append_of_retired_weeks_cannot_be_compared(town: Growing) -> None:
    town.retire(4)
    with pytest.raises(ConfigError, match="be a period that was not retired"):
        town.append(3)
    assert town.append(4).again


VISITS: list[Row] = [(week(0), "Female", "ann"), (week(1), "Female", "ann"), *rows_of(2)]


@pytest.mark.parametrize(
    ("unit", "k", "kept"),
    [
        (Unit("person"), 3, 1),
        (Unit("person", 1), 3, 1),
        (Unit("person-period"), 3, 3),
        (Unit("person-unbounded", 3), 180, 3),
    ],
)
def test_nobody_begins_anew(tmp_path: Path, store_url: str, unit: Unit, k: int, kept: int) -> None:
    """Ann had two records in weeks that are erased: with three in all, one more is kept."""
    town = Growing.begin(tmp_path, store_url, rows=VISITS, unit=unit, k=k)
    done = town.retire(2)
    in_all = unit.protects == "person"
    assert done.keeps_people == in_all
    assert bool(parts(town)[0].kept) == in_all
    assert town.append(3, [(week(3), "Female", "ann")] * 3).n_dropped == 3 - kept


@pytest.mark.slow
def test_doctor_and_accountant_find_nothing_wrong(town: Growing) -> None:
    town.ask({}, length=60)
    town.retire(4)
    town.ask({"week": week(5)}, length=60)
    found = examine(town.registry, town.settings)
    assert not [f for f in found if not f.ok and not f.check.startswith(("BLAS", "slot"))]
    assert all(check.ok for check in audit(town.registry, town.settings))


@pytest.mark.slow
def test_sql_from_history_stays_free(town: Growing) -> None:
    sql = "SELECT week, COUNT(*) FROM people GROUP BY week WITHIN 60"
    Statements(town.service()).run("people", sql, wait_s=0)
    town.work_off()
    before = town.web().post("/v1/datasets/people/sql", json={"sql": sql}).json
    town.retire(4)
    assert town.web().post("/v1/datasets/people/sql", json={"sql": sql}).json == before


@pytest.mark.slow
@pytest.mark.usefixtures("full_minute")
def test_retire_is_a_command(town: Growing, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["retire", "people", "--before", week(4)]
    arguments += ["--state", str(town.settings.state_dir)]
    arguments += ["--redis-url", town.settings.redis_url]
    assert cli.main(arguments) == 0
    shown = capsys.readouterr().out
    assert f"the records of the periods before {week(4)} are erased" in shown
    assert "How many records each person had in them stays" in shown
    assert cli.main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["again"]
