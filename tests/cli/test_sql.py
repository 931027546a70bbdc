"""`qserver sql`: tables, prices, and refusals that point into the text; colours on terminals."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from qserver.cli.console import Console, wants_colour
from qserver.cli.main import main
from qserver.cli.runtime import ExitCode
from tests.cli.fake_server import FakeServer, Request
from tests.cli.test_console import Terminal

TEXT = "SELECT sex, COUNT(*) FROM adult GROUP BY sex WITHIN 50"
CELL = {"estimate": 2720.5, "interval": [2670.5, 2770.5], "source": "measured", "binning": None}
OPEN = {
    "estimate": None,
    "interval": [None, 7.0],
    "source": "history",
    "binning": {"error": 2.5, "of": "average"},
}
TABLE: dict[str, Any] = {
    "groups": ["sex"],
    "columns": ["COUNT(*)"],
    "rows": [{"group": ["Female"], "cells": [CELL]}, {"group": ["Male"], "cells": [OPEN]}],
    "confidence": 0.95,
    "simultaneous": None,
    "epsilon_charged": 0.059914646,
    "epsilon_remaining": 1.940085354,
    "version": 3,
}
PRICE: dict[str, Any] = {
    "groups": ["sex"],
    "columns": ["COUNT(*)"],
    "n_questions": 2,
    "kind": "blocks",
    "price": 0.5,
    "price_apart": 1.0,
    "remaining": 0.25,
    "affordable": False,
    "free": [
        {"group": ["Female"], "intervals": [[2670.5, 2770.5]]},
        {"group": ["Male"], "intervals": [None]},
    ],
    "confidence": 0.95,
    "version": 3,
}


def call(server: FakeServer, *arguments: str) -> int:
    return main(arguments, environ={"QSERVER_URL": server.url})


def test_a_table_is_shown_with_its_intervals_and_cost(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.reply({"table": TABLE, "price": None})
    assert call(server, "sql", TEXT) == ExitCode.OK
    assert server.requests == [Request("POST /v1/datasets/adult/sql", {"sql": TEXT})]
    assert capsys.readouterr().out.splitlines() == [
        "sex     COUNT(*)        low   high",
        "Female     2,720      2,670  2,771",
        "Male           -  -infinity      7",
        "",
        "each with 95 percent confidence; cost 0.05991, 1.94 left",
    ]


def test_what_bins_hide_and_what_holds_at_once_is_said(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    together = {"confidence": 0.9500287, "method": "sampled"}
    rows = [{"group": ["Male"], "cells": [OPEN]}]
    server.reply({"table": {**TABLE, "rows": rows, "simultaneous": together}, "price": None})
    assert call(server, "sql", TEXT) == ExitCode.OK
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "all at once with 95 percent confidence; cost 0.05991, 1.94 left",
        "COUNT(*): by the middles of bins, 2.5 off at most per average",
    ]


def test_what_bins_hide_of_a_deviation_is_that_of_the_number_itself(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = {**OPEN, "binning": {"error": 2.5, "of": "value"}}
    rows = [{"group": ["Male"], "cells": [cell]}]
    server.reply({"table": {**TABLE, "rows": rows}, "price": None})
    assert call(server, "sql", TEXT) == ExitCode.OK
    assert "COUNT(*): by the middles of bins, 2.5 off at most\n" in capsys.readouterr().out


def test_json_holds_null_where_there_is_no_number(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.reply({"table": TABLE, "price": None})
    assert call(server, "sql", TEXT, "--json") == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert found["rows"][1] == {
        "sex": "Male",
        "COUNT(*)": None,
        "COUNT(*)_low": None,
        "COUNT(*)_high": 7.0,
    }
    assert (found["epsilon_charged"], found["confidence"]) == (0.059914646, 0.95)


def test_a_price_says_that_it_is_the_whole_tables(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.reply({"table": None, "price": {**PRICE, "whole_table": True}})
    assert call(server, "sql", f"EXPLAIN {TEXT}") == ExitCode.OK
    assert "that is for the whole table;" in capsys.readouterr().out.splitlines()[1]


def test_a_price_shows_the_askers_own_allowance(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    spent = {"spent": 0.4, "spent_today": 0.0, "limit": 0.42, "per_day": None}
    own = {"price": 0.05, "affordable": False, "more_at": None, **spent}
    for arguments in ((), ("--json",)):
        server.reply({"table": None, "price": {**PRICE, "own": own}})
        assert call(server, "sql", TEXT, "--explain", *arguments) == ExitCode.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == (
        "your allowance: it costs 0.05 epsilon of it, 0.4 of 0.42 spent in all, which is too little"
    )
    assert json.loads("\n".join(lines[4:]))["own"] == own


@pytest.mark.parametrize("arguments", [[TEXT, "--explain"], [f"EXPLAIN {TEXT}"]])
def test_a_price_is_shown_and_spends_nothing(
    server: FakeServer, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    server.reply({"table": None, "price": PRICE})
    assert call(server, "sql", *arguments) == ExitCode.OK
    # The text goes as it was typed, so that what a refusal says of its places is true.
    assert [r.document for r in server.requests] == [{"sql": arguments[0], "explain": True}]
    assert capsys.readouterr().out.splitlines() == [
        "price: 0.5 epsilon, more than remains",
        "remaining: 0.25 epsilon",
        "known at no cost: 2,670 to 2,771",
    ]


def test_a_text_is_read_from_standard_input(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(TEXT))
    server.reply({"table": TABLE, "price": None})
    assert call(server, "sql", "-") == ExitCode.OK
    assert server.requests[0].document == {"sql": TEXT}


def test_a_refusal_points_at_the_place(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    excerpt = "SELECT EXP(age) FROM adult\n       ^^^"
    detail = "`sql` must select COUNT."
    server.refuse(422, "invalid_sql", detail, line=1, column=8, excerpt=excerpt)
    assert call(server, "sql", "SELECT EXP(age) FROM adult") == ExitCode.USAGE
    assert capsys.readouterr().err == f"invalid_sql: {detail}\n{excerpt}\n"


@pytest.mark.parametrize("text", ["", "SELECT COUNT(*)", "SELECT COUNT(*) FROM 'adult'"])
def test_a_text_without_a_dataset_is_refused_before_it_is_sent(
    server: FakeServer, text: str
) -> None:
    assert call(server, "sql", text) == ExitCode.USAGE
    assert server.requests == []


def test_colours_go_to_terminals_alone_and_only_where_they_are_wanted() -> None:
    def shown(stream: io.StringIO, *, may_colour: bool) -> str:
        console = Console(out=stream, err=stream, may_colour=may_colour)
        console.warn("code", "text")
        console.point("SELECT\n   ^")
        console.table(("a", "b"), [("1", "2")])
        return stream.getvalue()

    plain = "code: text\nSELECT\n   ^\na  b\n1  2\n"
    assert shown(io.StringIO(), may_colour=True) == plain
    assert shown(Terminal(), may_colour=False) == plain
    coloured = shown(Terminal(), may_colour=True)
    assert coloured.startswith(
        "\x1b[31mcode\x1b[0m: text\nSELECT\n\x1b[31m   ^\x1b[0m\n\x1b[1ma  b"
    )
    assert coloured.endswith("1  2\n")


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_the_environment_says_whether_colours_are_wanted(
    environ: dict[str, str], wanted: bool
) -> None:
    assert wants_colour(environ) is wanted


def test_a_price_that_a_guard_forbids_is_said_to_be_forbidden(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.reply({"table": None, "price": {**PRICE, "price": 0.25}})
    assert call(server, "sql", TEXT, "--explain") == ExitCode.OK
    first = capsys.readouterr().out.splitlines()[0]
    assert first == "price: 0.25 epsilon, but the owner's guard forbids it"


def test_nothing_is_spent_where_that_is_said(server: FakeServer) -> None:
    for _ in range(2):
        server.reply({"table": TABLE, "price": None})
    assert call(server, "sql", TEXT, "--no-spend") == ExitCode.OK
    assert call(server, "sql", TEXT) == ExitCode.OK
    one, other = (request.document for request in server.requests)
    assert one == {"sql": TEXT, "spend": False}
    assert other == {"sql": TEXT}
