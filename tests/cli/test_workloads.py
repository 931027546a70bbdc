"""`qserver workload` against a server that says what each test has it say."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from qserver.cli.main import main
from qserver.cli.runtime import ExitCode
from tests.cli.fake_server import FakeServer, Request

ONE = {
    "estimate": 2720.5,
    "interval": [2670.5, 2770.5],
    "confidence": 0.95,
    "source": "measured",
    "epsilon_charged": 0.06,
}
ANSWERS: dict[str, Any] = {
    "answers": [ONE, {**ONE, "source": "history", "epsilon_charged": 0.0}],
    "epsilon_charged": 0.06,
    "epsilon_remaining": 1.94,
    "simultaneous": {"confidence": 0.95037, "method": "sampled"},
    "version": 1,
}
PRICE = {
    "kind": "blocks",
    "price": 0.06,
    "price_apart": 0.25,
    "remaining": 0.01,
    "affordable": False,
    "plan": [],
    "free": [None, None],
    "curve": [[0.5, None], [1.0, 0.06]],
    "simultaneous": None,
    "version": 1,
}
QUESTIONS = [{"query": {"where": {"sex": "Male"}}}, {"query": {"where": {}}, "length": 7.5}]


def call(server: FakeServer, *arguments: str) -> int:
    return main(["workload", "adult", *arguments], environ={"QSERVER_URL": server.url})


def test_where_answers_disagree_it_tells_what_the_asked_lengths_reach(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    together = {"confidence": 0.95, "method": "posterior", "attained": 0.91239}
    said = "1 of 2 intervals is longer than asked."
    server.reply({**ANSWERS, "simultaneous": together, "remarks": [said]})
    assert call(server, json.dumps(QUESTIONS), "--length", "100", "--simultaneous") == 0
    printed = capsys.readouterr().out.splitlines()
    assert "all at once with 95 percent confidence (posterior)" in printed
    assert said in printed


def test_a_list_of_questions_is_sent_with_what_holds_for_all(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.reply(ANSWERS)
    code = call(server, json.dumps(QUESTIONS), "--length", "100", "--simultaneous")
    sent = {"questions": QUESTIONS, "length": 100, "confidence": 0.95, "simultaneous": True}
    assert server.requests == [Request("POST /v1/datasets/adult/workload", sent)]
    assert capsys.readouterr().out.splitlines() == [
        "question    low   high  estimate  percent                        source",
        "1         2,670  2,771     2,720       95                  measured now",
        "2         2,670  2,771     2,720       95  from answers released before",
        "all at once with 95.03 percent confidence (sampled)",
        "cost: 0.06 epsilon",
        "remaining: 1.94 epsilon",
    ]
    assert code == ExitCode.OK


def test_a_file_may_hold_the_whole_body_and_options_win(server: FakeServer, tmp_path: Path) -> None:
    body = {"questions": QUESTIONS, "length": 2.5, "confidence": 0.9, "simultaneous": False}
    (tmp_path / "w.json").write_text(json.dumps(body))
    server.reply(ANSWERS)
    assert call(server, str(tmp_path / "w.json"), "--confidence", "0.8") == ExitCode.OK
    assert server.requests[0].document == {**body, "confidence": 0.8}


def test_explain_shows_the_price_of_all_and_of_each(
    server: FakeServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(QUESTIONS)))
    server.reply(PRICE)
    assert call(server, "-", "--explain") == ExitCode.OK
    assert server.requests[0].line == "POST /v1/datasets/adult/workload/explain"
    assert capsys.readouterr().out.splitlines() == [
        "price: 0.06 epsilon, more than remains",
        "one by one: 0.25 epsilon",
        "remaining: 0.01 epsilon",
        "",
        "lengths times  price",
        "1               0.06",
    ]


def test_a_job_is_waited_for(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    job = {"id": "adult.1", "state": "queued", "dataset": "adult", "result": None, "problem": None}
    server.reply(job, status=202)
    server.reply({**job, "state": "done", "result": ANSWERS})
    assert call(server, json.dumps(QUESTIONS), "--json") == ExitCode.OK
    assert json.loads(capsys.readouterr().out) == ANSWERS


def test_a_refusal_shows_what_each_question_has_for_nothing(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    free = [None, {"interval": [1.0, 9.0], "confidence": 0.95}, None]
    server.refuse(409, "budget_exhausted", "It costs 3.", price=3, remaining=1, free=free)
    assert call(server, json.dumps(QUESTIONS)) == ExitCode.REFUSED
    assert capsys.readouterr().err.splitlines() == [
        "budget_exhausted: It costs 3.",
        "question 2, known at no cost: between 1.0 and 9.0 with 95 percent confidence",
        "known at no cost of the other 2: nothing yet",
    ]
    server.refuse(409, "budget_exhausted", "It costs 3.", price=3, remaining=1, free=[None] * 224)
    assert call(server, json.dumps(QUESTIONS)) == ExitCode.REFUSED
    assert capsys.readouterr().err.splitlines()[1:] == ["known at no cost: nothing yet"]


@pytest.mark.parametrize("text", ["{}", "[", '{"questions": 3}', '[{"query": {}, "length": "x"}]'])
def test_what_is_no_workload_is_refused_before_it_is_sent(
    server: FakeServer, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(server, text) == ExitCode.USAGE
    assert capsys.readouterr().err.startswith("invalid_config")
    assert server.requests == []


CONSISTENT = {"estimates": [2719.0, 0.0], "total": None, "distance": 1.5, "gap": 0.0}


def test_consistent_answers_are_a_column_of_their_own(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.reply({**ANSWERS, "consistent": CONSISTENT})
    assert call(server, json.dumps(QUESTIONS), "--length", "100", "--consistent") == ExitCode.OK
    assert server.requests[0].document["consistent"] is True
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split()[-2:] == ["consistent", "source"]
    assert [line.split()[5] for line in lines if line.startswith(("1 ", "2 "))] == ["2,719", "0"]
    assert len(server.requests) == 1


def test_after_a_job_the_consistent_answers_are_asked_for_once_more(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The result of a job has none; what was charged stays that of the job."""
    queued = {"id": "j", "state": "queued", "dataset": "adult"}
    server.reply(queued, status=202)
    server.reply({**queued, "state": "done", "result": {**ANSWERS, "consistent": None}})
    free = [{**one, "epsilon_charged": 0.0, "source": "history"} for one in ANSWERS["answers"]]
    again = {**ANSWERS, "answers": free, "epsilon_charged": 0.0, "consistent": CONSISTENT}
    server.reply(again)
    code = call(server, json.dumps(QUESTIONS), "--length", "100", "--consistent", "--json")
    assert code == ExitCode.OK
    shown = json.loads(capsys.readouterr().out)
    assert shown == {**ANSWERS, "consistent": CONSISTENT}
    assert [r.line.split()[0] for r in server.requests] == ["POST", "GET", "POST"]
