"""Rows as CSV, results alone, the history, and jobs that were left."""

from __future__ import annotations

import csv
import io
import json
import stat
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from qserver.cli.console import Console
from qserver.cli.jobs import JobNotes, note_left
from qserver.cli.main import build_parser, main
from qserver.cli.runtime import Runtime
from qserver.client.errors import NotDoneError
from tests.cli.fake_server import FakeServer
from tests.cli.test_commands import ANSWER, DATASET, LEDGER
from tests.cli.test_console import Terminal

ASK = ("query", "adult", "--where", "sex=Female", "--length", "100")
ROWS = {
    "rows": [
        {"id": 0, "value": 1234.5678901, "scale": 2.0, "alpha": 0.5, "rows": []},
        {"id": 3, "n_cells": 6, "scale": 4.0, "alpha": 0.25},
    ],
    "version": 4,
    "next_after": None,
}


def call(server: FakeServer, home: Path, *arguments: str) -> int:
    return main(arguments, environ={"QSERVER_URL": server.url, "XDG_STATE_HOME": str(home)})


@pytest.mark.parametrize(
    ("arguments", "document", "shown"),
    [
        (("dataset", "list"), {"datasets": [DATASET], "next_after": None}, ["adult", "2.0", "0.5"]),
        (ASK, ANSWER, ["2720.5", "2670.5", "2770.5", "0.95", "measured", "0.059914646"]),
        (("workload", "adult", "[]"), {"answers": [ANSWER]}, ["2720.5", "2670.5", "2770.5"]),
        (("budget", "adult"), LEDGER, ["Female", "0.25"]),
        (("budget", "adult"), {**LEDGER, "by_value": None}, ["2.0", "0.5", "1.5", "7", "0.25"]),
        (("history", "adult"), ROWS, ["0", "1", "1234.5678901", "2.0", "0.5"]),
    ],
)
def test_rows_are_csv_with_every_digit(
    server: FakeServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    document: Any,
    shown: list[str],
) -> None:
    server.reply(document)
    assert call(server, tmp_path, *arguments, "--csv") == 0
    header, first, *_ = csv.reader(io.StringIO(capsys.readouterr().out))
    assert first[: len(shown)] == shown
    assert len(header) == len(first)


def test_json_and_csv_exclude_one_another(
    server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        call(server, tmp_path, *ASK, "--json", "--csv")
    assert "not allowed with argument --json" in capsys.readouterr().err


def test_a_quiet_answer_is_its_interval_alone(
    server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.reply(ANSWER)
    assert call(server, tmp_path, *ASK, "--quiet") == 0
    said = capsys.readouterr()
    assert said.out == "between 2,670 and 2,771 with 95 percent confidence\n"
    assert said.err == ""


def test_a_quiet_refusal_is_still_told(
    server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.refuse(404, "not_found", "No dataset is called adult.")
    assert call(server, tmp_path, *ASK, "-q") != 0
    assert "No dataset is called adult." in capsys.readouterr().err


def test_progress_is_left_out_where_it_shall_be_quiet() -> None:
    err = Terminal()
    with Console(out=io.StringIO(), err=err, quiet=True).progress("Waiting"):
        pass
    assert err.getvalue() == ""


def test_the_history_shows_what_was_released(
    server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.reply(ROWS)
    assert call(server, tmp_path, "history", "adult", "--after", "-1") == 0
    assert server.requests[0].line.startswith("GET /v1/datasets/adult/history?after=-1&")
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines()] == ["id", "0", "3", "version"]


def left(server: FakeServer, home: Path, job: str) -> str:
    """What is said where a question's answer is not there when a clock of ours says so."""
    server.reply({"id": job, "state": "queued", "dataset": "adult"}, status=202)
    err, times = io.StringIO(), count(step=1000.0)
    environ = {"QSERVER_URL": server.url, "XDG_STATE_HOME": str(home)}
    console = Console(out=io.StringIO(), err=err)
    runtime = Runtime(console, environ, clock=lambda: next(times), sleep=lambda _s: None)
    args = build_parser(runtime).parse_args(ASK)
    with pytest.raises(NotDoneError) as caught:
        args.run(args, runtime)
    note_left(args, runtime, caught.value.job)
    return err.getvalue()


def test_a_question_that_was_left_is_listed_until_the_server_forgets_it(
    server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "jobs town.1" in left(server, tmp_path, "town.1")
    left(server, tmp_path, "town.2")
    assert stat.S_IMODE((tmp_path / "qserver" / "jobs").stat().st_mode) == 0o600
    server.reply({"id": "town.1", "state": "done", "dataset": "adult", "result": ANSWER})
    server.refuse(404, "not_found", "No job is called town.2.")
    assert call(server, tmp_path, "jobs") == 0
    _, row = capsys.readouterr().out.splitlines()
    assert row.split() == ["town.1", "adult", "done", "between", "2,670", "and", "2,771"]
    server.reply({"id": "town.1", "state": "running", "dataset": "adult"})
    assert call(server, tmp_path, "jobs", "--json") == 0
    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    assert (job["id"], job["state"]) == ("town.1", "running")


@pytest.mark.parametrize(
    ("result", "first"),
    [
        (ANSWER, "between 2,670 and 2,771"),
        ({"id": "m1", "epsilon_charged": 0.5, "epsilon_remaining": 1.5}, "model: m1"),
        ({"epsilon_charged": 0.5, "epsilon_remaining": 1.5}, "done: ask again"),
    ],
)
def test_a_job_is_awaited_and_shown(
    server: FakeServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    result: Any,
    first: str,
) -> None:
    server.reply({"id": "town.1", "state": "done", "dataset": "adult", "result": result})
    assert call(server, tmp_path, "jobs", "town.1") == 0
    assert capsys.readouterr().out.startswith(first)
    assert server.requests[0].line == "GET /v1/jobs/town.1"


def test_notes_of_jobs_keep_to_their_server_and_to_a_hundred(tmp_path: Path) -> None:
    notes = JobNotes(tmp_path / "deep" / "jobs")
    notes.add("http://other", "x")
    for i in range(100):
        notes.add("http://here", str(i))
    assert notes.ids("http://other") == []
    assert notes.ids("http://here") == [str(i) for i in range(100)]
    notes.forget("http://here", "0")
    notes.add("http://here", "1")
    assert notes.ids("http://here")[-2:] == ["99", "1"]


def test_where_nothing_can_be_noted_nothing_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    notes = JobNotes(tmp_path / "file" / "jobs")
    notes.add("http://here", "x")
    assert notes.ids("http://here") == []
