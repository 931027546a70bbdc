"""What is shown of data that arrive: over HTTP, in Python, on the command line and on the pages."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from qserver.cli.datasets import _show_dataset
from qserver.cli.sql import _show_price
from qserver.client.results import Answer, DatasetInfo, Price
from qserver.client.tables import Table
from tests.growing import CAPACITY, Growing, week, write_rows
from worker import cli

QUESTION: dict[str, Any] = {"query": {"where": {"sex": "Female"}}, "length": 60, "confidence": 0.95}


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Growing:
    return Growing.begin(tmp_path, store_url)


def test_a_dataset_shows_which_weeks_it_has(town: Growing) -> None:
    web = town.web()
    found = web.get("/v1/datasets/people").json
    assert found is not None
    assert found["periods"] == {
        "attribute": "week",
        "sealed": 3,
        "last": week(2),
        "declared": 60,
        "capacity": CAPACITY,
        "retired": 0,
        "first_kept": None,
    }
    assert found["capacity"] is None
    town.append(3)
    listed = web.get("/v1/datasets").json
    assert listed is not None
    assert listed["datasets"][0]["periods"]["last"] == week(3)
    info = DatasetInfo.of(web.get("/v1/datasets/people").json)
    assert info.periods is not None
    assert asdict(info.periods) == found["periods"] | {"sealed": 4, "last": week(3)}


def test_a_repeated_question_is_answered_anew_after_an_arrival(town: Growing) -> None:
    web = town.web()
    town.ask({"sex": "Female"}, length=60)
    first = web.post("/v1/datasets/people/query", json=QUESTION).json
    assert first is not None
    assert (first["as_of"], first["epsilon_charged"]) == (week(2), 0)
    town.append(3)
    assert web.post("/v1/datasets/people/query", json=QUESTION).status_code == 202
    town.work_off()
    again = web.post("/v1/datasets/people/query", json=QUESTION).json
    then = web.post("/v1/datasets/people/query", json=QUESTION | {"as_of": week(2)}).json
    assert again is not None
    assert then is not None
    assert again["as_of"] == week(3)
    assert (then["as_of"], then["epsilon_charged"]) == (week(2), 0)
    assert f"as of {week(3)}" in repr(Answer.of(again))


@pytest.mark.limit("period_not_sealed")
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("query", QUESTION | {"query": {"where": {"week": week(9)}}}),
        ("explain", QUESTION | {"as_of": week(9)}),
        ("probability", {"query": {"where": {}}, "at_least": 5, "as_of": week(9)}),
        ("sql", {"sql": "SELECT COUNT(*) FROM people WITHIN 100", "as_of": week(9)}),
        ("workload", {"questions": [QUESTION], "as_of": week(9)}),
    ],
)
def test_a_week_to_come_is_a_problem_of_its_own(
    town: Growing, path: str, body: dict[str, Any]
) -> None:
    found = town.web().post(f"/v1/datasets/people/{path}", json=body)
    assert found.json is not None
    assert (found.status_code, found.json["code"]) == (422, "period_not_sealed")
    assert week(2) in found.json["detail"]


def test_tables_say_up_to_when_they_count(town: Growing) -> None:
    web, sql = town.web(), {"sql": "SELECT sex, COUNT(*) FROM people GROUP BY sex WITHIN 60"}
    assert web.post("/v1/datasets/people/sql", json=sql).status_code == 202
    town.work_off()
    found = web.post("/v1/datasets/people/sql", json=sql).json
    assert found is not None
    assert Table.of(found["table"]).as_of == week(2)
    many = {"questions": [QUESTION, QUESTION | {"query": {"where": {"week": week(0)}}}]}
    assert web.post("/v1/datasets/people/workload", json=many).status_code == 202
    town.work_off()
    answers = web.post("/v1/datasets/people/workload", json=many).json
    assert answers is not None
    assert Table.of_workload(answers, ("a", "b")).as_of == week(2)


def test_replies_say_where_weeks_count(town: Growing) -> None:
    web, said = town.web(), "Each week counts in the month of its Thursday."
    text = "SELECT month(week), COUNT(*) FROM people GROUP BY month(week) WITHIN 60"
    price = web.post("/v1/datasets/people/sql", json={"sql": text, "explain": True}).json
    assert price is not None
    assert price["price"]["remarks"] == [said]
    console = Lines()
    _show_price(console, Price.of(price["price"]), as_json=False)  # type: ignore[arg-type]
    assert said in console.lines
    assert "  protected: a person with up to 1 record, in whatever periods" in console.lines
    web.post("/v1/datasets/people/sql", json={"sql": text})
    town.work_off()
    found = web.post("/v1/datasets/people/sql", json={"sql": text}).json
    assert found is not None
    table = Table.of(found["table"])
    assert table.remarks == (said,)
    assert said in table.notes()
    page = web.get(f"/portal/datasets/people/answer?{urlencode({'text': text})}")
    noted = f"Counted up to {week(2)}, the last period that had its data. {said}"
    assert noted in page.get_data(as_text=True)
    by_week = {"sql": "SELECT week, COUNT(*) FROM people GROUP BY week WITHIN 60", "explain": True}
    plain = web.post("/v1/datasets/people/sql", json=by_week).json
    assert plain is not None
    assert plain["price"]["remarks"] == []


@pytest.mark.limit("invalid_input")
def test_models_are_refused_while_data_arrive(town: Growing) -> None:
    body = {"kind": "network", "edges": [], "epsilon": 0.1}
    found = town.web().post("/v1/datasets/people/models", json=body)
    assert (found.status_code, (found.json or {})["code"]) == (422, "invalid_input")


def test_a_table_of_weeks_is_shown_with_the_weeks_that_it_has(town: Growing) -> None:
    """Bought by SQL; over HTTP, part -1 is of weeks to come."""
    sql = {"sql": "SELECT week, sex, COUNT(*) FROM people GROUP BY week, sex WITHIN 60"}
    web = town.web()
    web.post("/v1/datasets/people/sql", json=sql)
    town.work_off()
    found = web.get("/v1/datasets/people/history").json
    assert found is not None
    (table,) = found["rows"]
    assert table["n_cells"] == 9
    assert table["table"] == [[0, [1, 2, 3, 60], [0, 1, 2, -1]], [1, [1, 2, 3], [0, 1, 2]]]
    assert "every cell of week (3 parts) by sex (3 parts)" in web.get(
        "/portal/datasets/people/history"
    ).get_data(as_text=True)


def test_the_pages_show_the_weeks(town: Growing) -> None:
    text = town.web().get("/portal/").get_data(as_text=True)
    assert f"3 of 60 periods of week have their data, up to {week(2)}" in text
    town.ask({"sex": "Female"}, length=60)
    page = town.web().get("/portal/datasets/people/answer?is:sex=Female&length=60&confidence=95")
    assert f"Counted up to {week(2)}" in page.get_data(as_text=True)


class Lines:
    """A console that keeps its lines."""

    def __init__(self) -> None:
        self.lines = list[str]()

    def line(self, text: str = "") -> None:
        self.lines.append(text)


def test_the_command_line_shows_the_weeks(town: Growing) -> None:
    console = Lines()
    _show_dataset(console, town.web().get("/v1/datasets/people").json)  # type: ignore[arg-type]
    assert (
        f"data arrive over time, by week: up to {week(2)} (3 of 60 sealed, at most 500 records "
        "each)" in console.lines
    )


@pytest.mark.usefixtures("full_minute")
def test_append_is_a_command(town: Growing, capsys: pytest.CaptureFixture[str]) -> None:
    """The same one again is done, with exit code 0."""
    data = write_rows(town.settings.state_dir / "w3.csv", [(week(3), "Male", "one")] * 2)
    arguments = ["append", "people", "--data", str(data), "--to", week(3), "--json"]
    arguments += ["--state", str(town.settings.state_dir)]
    arguments += ["--redis-url", town.settings.redis_url]
    assert cli.main(arguments) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["last"], done["sealed"], done["again"], done["n_dropped"]) == (
        week(3),
        4,
        False,
        1,
    )
    assert cli.main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["again"]
    assert cli.main([*arguments[:-5], "--to", "spring", *arguments[-5:]]) == 1


def test_attach_asks_for_the_capacity_of_a_period(
    tmp_path: Path, store_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    domain = tmp_path / "domain.json"
    attribute = {"name": "week", "kind": "period"}
    domain.write_text(
        json.dumps({"attributes": [attribute | {"every": "week", "first": week(0), "count": 9}]})
    )
    data = tmp_path / "data.csv"
    data.write_text(f"week\n{week(0)}\n")
    arguments = ["attach", "people", "--data", str(data), "--domain", str(domain), "--limit", "1"]
    arguments += ["--to", week(0), "--state", str(tmp_path), "--redis-url", store_url]
    arguments += ["--records-per-person", "2"]
    assert cli.main(arguments) == 1
    assert "`capacity` must be given with --to" in capsys.readouterr().err
    assert cli.main([*arguments, "--capacity", "5"]) == 0
    shown = capsys.readouterr().out
    assert "Data arrive over time, by week: up to 5 records each, public." in shown
