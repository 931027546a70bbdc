"""The command line against a server that says what each test has it say."""

from __future__ import annotations

import json
import socket

import pytest

from qserver.cli.main import main
from qserver.cli.runtime import ExitCode
from qserver.client.errors import ServerProblemError, ServerUnreachableError
from qserver.client.http import HttpClient
from tests.cli.fake_server import FakeServer, Request

ANSWER = {
    "estimate": 2720.5,
    "interval": [2670.5, 2770.5],
    "confidence": 0.95,
    "confidence_attained": 0.951,
    "source": "measured",
    "epsilon_charged": 0.059914646,
    "epsilon_remaining": 1.940085354,
    "evidence": [0],
    "weights": "direct",
    "version": 1,
    "statement": {"law": "posterior", "error": 0.0, "disagreements": 0},
}
DATASET = {
    "name": "adult",
    "population": "adult",
    "snapshot": "00ff",
    "n_cells": "170000000000000000",
    "relation": "add-remove",
    "records_per_person": 1,
    "records_verified": False,
    "unit": {"protects": "person-period", "text": "what a person did in one period"},
    "limit": 2.0,
    "spent": 0.5,
    "remaining": 1.5,
    "capacity": 2_000_000,
    "claims": [{"name": "old", "query": {"where": {}}, "width": 10.0, "p": 0.5, "known": 0.393469}],
    "version": 3,
    "worker_alive": True,
    "domain": {
        "attributes": [
            {"name": "sex", "kind": "labels", "labels": ["Female", "Male"], "other": "unknown"},
            {"name": "age", "kind": "integer", "edges": [17, 18, 91]},
        ]
    },
}
EXPLANATION = {
    "kind": "fresh",
    "price": 0.06,
    "remaining": 2.0,
    "affordable": True,
    "plan": [],
    "free": {"interval": [2600.0, 2800.0], "confidence": 0.95},
    "curve": [[50.0, 0.12], [100.0, 0.06], [1.0, None]],
    "sensitivity": 1.0,
    "sensitivity_exact": True,
    "version": 0,
}
LEDGER = {
    "limit": 2.0,
    "spent": 0.5,
    "remaining": 1.5,
    "relation": "add-remove",
    "n_charges": 7,
    "loss": 0.25,
    "by_value": {"Female": 0.25, "Male": 0.5},
}


def assert_names(line: str, *things: str) -> None:
    """A line that is said to people names these; its other words are free."""
    assert [thing for thing in things if thing not in line] == [], line


def call(server: FakeServer, *arguments: str) -> int:
    return main(arguments, environ={"QSERVER_URL": server.url})


def test_query_sends_the_question_and_shows_the_interval_and_its_cost(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.reply(ANSWER)
    code = call(
        server,
        *("query", "adult", "--where", "age=30..39", "--where", "sex=Female"),
        *("--length", "100", "--confidence", "0.95"),
    )
    where = {"age": {"between": ["30", "39"]}, "sex": "Female"}
    expected = {"query": {"where": where}, "length": 100, "confidence": 0.95}
    assert server.requests == [Request("POST /v1/datasets/adult/query", expected)]
    assert server.keys == [None]
    assert capsys.readouterr().out.splitlines() == [
        "between 2,670 and 2,771 with 95 percent confidence",
        "estimate: 2,720 (measured now)",
        "cost: 0.05991 epsilon",
        "remaining: 1.94 epsilon",
    ]
    assert code == ExitCode.OK


def test_query_says_what_released_answers_disagree_about(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    statement = {"law": "posterior", "error": 0.0012, "disagreements": 2}
    remarks = ["It is longer than asked.", "It counts other records, too."]
    server.reply({**ANSWER, "remarks": remarks, "statement": statement})
    assert call(server, "query", "adult", "--length", "90") == ExitCode.OK
    law, *said = capsys.readouterr().out.splitlines()[4:]
    assert_names(law, "posterior", "2 disagreements", "within 0.0012")
    assert said == remarks


def test_query_says_that_an_interval_is_of_the_error(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    statement = {"law": "estimator", "error": 0.0, "disagreements": 0}
    server.reply({**ANSWER, "statement": statement})
    assert call(server, "query", "adult", "--length", "200") == ExitCode.OK
    (law,) = capsys.readouterr().out.splitlines()[4:]
    assert_names(law, "law of the estimate's error")


def test_probability_says_its_numerical_error(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    statement = {"law": "posterior", "error": 0.0012, "disagreements": 1}
    server.reply({"probability": 0.8497, "version": 3, "statement": statement})
    assert call(server, "probability", "adult", "--at-least", "32000") == ExitCode.OK
    probability, law = capsys.readouterr().out.splitlines()
    assert probability == "probability: 0.8497"
    assert_names(law, "posterior", "1 disagreement ", "within 0.0012")


def test_json_prints_what_the_server_sent_to_the_letter(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.dumps(ANSWER, indent=1).replace("2720.5", "2720.50")
    server.reply(text.encode())
    assert call(server, "query", "adult", "--length", "100", "--json") == ExitCode.OK
    assert capsys.readouterr().out == text + "\n"


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        ("explain adult --length 100", EXPLANATION),
        ("dataset show adult", DATASET),
        ("budget adult --attribute sex", LEDGER),
        ("model list adult", {"models": []}),
        ("model show adult m", {"facts": None}),
        ("model ask adult m --marginal sex", {"answer": None}),
        ("model ask adult m --marginal sex --explain", {"would": "tell"}),
        ("model learn adult --edge a>b --epsilon 1 --explain", {"plan": []}),
        ("workload adult [] --explain", {"curve": []}),
    ],
)
def test_json_is_the_servers_own_text_for_every_command_that_shows_a_reply(
    server: FakeServer, capsys: pytest.CaptureFixture[str], command: str, reply: object
) -> None:
    text = json.dumps(reply, indent=3) + "  "
    server.reply(text.encode())
    assert call(server, *command.split(), "--json") == ExitCode.OK
    assert capsys.readouterr().out == text + "\n"


def test_the_datasets_of_all_pages_are_one_json_document(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.reply({"datasets": [DATASET], "next_after": "adult"})
    server.reply({"datasets": [{"name": "census"}], "next_after": None})
    assert call(server, "dataset", "list", "--json") == ExitCode.OK
    assert json.loads(capsys.readouterr().out) == {"datasets": [DATASET, {"name": "census"}]}


def test_query_waits_for_a_job_and_shows_its_result(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    job = {"id": "adult.1", "state": "queued", "dataset": "adult", "result": None, "problem": None}
    server.reply(job, status=202)
    server.reply({**job, "state": "running"})
    server.reply({**job, "state": "done", "result": ANSWER})
    assert call(server, "query", "adult", "--length", "100") == ExitCode.OK
    assert [request.line for request in server.requests[1:]] == ["GET /v1/jobs/adult.1"] * 2
    assert "between 2,670 and 2,771" in capsys.readouterr().out


def test_query_gives_up_on_a_job_when_its_time_is_over(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.reply({"id": "adult.1", "state": "queued", "dataset": "adult"}, status=202)
    code = call(server, "query", "adult", "--length", "100", "--timeout", "0.05")
    assert code == ExitCode.NOT_NOW
    assert "not_done: " in capsys.readouterr().err


def test_query_tells_why_a_job_failed(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = {"code": "measurement_failed", "detail": "The measurement failed.", "status": 502}
    job = {"id": "adult.1", "state": "failed", "dataset": "adult", "result": None}
    server.reply({**job, "problem": problem}, status=202)
    assert call(server, "query", "adult", "--length", "100") == ExitCode.FAILURE
    assert "measurement_failed: The measurement failed." in capsys.readouterr().err


@pytest.mark.parametrize(
    "code", ["budget_exhausted", "disclosure_guard", "claim_guard", "period_retired"]
)
def test_a_refusal_for_budget_or_a_guard_shows_what_is_known_for_nothing(
    server: FakeServer, capsys: pytest.CaptureFixture[str], code: str
) -> None:
    free = {"interval": [2600.0, 2800.0], "confidence": 0.95}
    server.refuse(409, code, "It costs 3.", price=3, remaining=1, free=free)
    assert call(server, "query", "adult", "--length", "1") == ExitCode.REFUSED
    output = capsys.readouterr()
    assert f"{code}: It costs 3." in output.err
    assert "between 2,600 and 2,800 with 95 percent confidence" in output.err


def test_explain_shows_price_curve_and_what_is_known_for_nothing(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.reply(EXPLANATION)
    question = '{"terms": [{"coefficient": 0.5, "where": {"sex": "Female"}}]}'
    code = call(server, "explain", "adult", "--json-query", question, "--length", "100")
    assert code == ExitCode.OK
    assert server.requests[0].line == "POST /v1/datasets/adult/explain"
    assert server.requests[0].document["query"]["terms"][0]["coefficient"] == "0.5"
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "price: 0.06 epsilon",
        "remaining: 2 epsilon",
        "known at no cost: between 2,600 and 2,800 with 95 percent confidence",
    ]
    assert [line.split() for line in lines[-2:]] == [["50", "0.12"], ["100", "0.06"]]


def test_explain_shows_the_askers_own_allowance(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    own = {"price": 0.05, "affordable": False, "more_at": None, "spent": 0.4, "spent_today": 0}
    server.reply({**EXPLANATION, "own": {**own, "limit": 0.42, "per_day": 0.1}})
    server.reply({**EXPLANATION, "own": {**own, "limit": None, "per_day": 1, "affordable": True}})
    for _ in range(2):
        assert call(server, "explain", "adult", "--length", "100") == ExitCode.OK
    found = [line for line in capsys.readouterr().out.splitlines() if "allowance" in line]
    assert len(found) == 2
    assert_names(found[0], "0.05 epsilon", "0.4 of 0.42", "0 of 0.1", "today", "too little")
    assert_names(found[1], "0.05 epsilon", "0 of 1 ", "today")
    assert "too little" not in found[1]


def test_dataset_list_follows_the_pages(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.reply({"datasets": [DATASET], "next_after": "adult"})
    server.reply({"datasets": [{**DATASET, "name": "census"}], "next_after": None})
    assert call(server, "dataset", "list") == ExitCode.OK
    lines = [request.line for request in server.requests]
    assert lines == ["GET /v1/datasets", "GET /v1/datasets?after=adult"]
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[1:] == [["adult", "2", "0.5", "1.5"], ["census", "2", "0.5", "1.5"]]


def test_dataset_show_lists_attributes_with_their_values(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.reply(DATASET)
    assert call(server, "dataset", "show", "adult/../x") == ExitCode.OK
    assert server.requests[0].line == "GET /v1/datasets/adult%2F..%2Fx"
    output = capsys.readouterr().out
    assert "budget: 0.5 of 2 epsilon spent, 1.5 remain" in output
    assert "cells: 170,000,000,000,000,000" in output
    assert "capacity: 2,000,000 records" in output
    assert "protected: what a person did in one period" in output
    assert "claim old: within 10 known with probability 0.3935 at most, 0.5 allowed" in output
    assert "sex  labels       3  Female, Male, or unknown" in output
    assert "age  integer      2  from 17 to below 91" in output


def test_dataset_show_tells_what_the_owner_says_of_the_data(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    about = {"description": "Adults.", "licence": "CC BY 4.0", "within": 50, "attributes": []}
    about["attributes"] = [{"name": "sex", "kind": "labels", "labels": ["F", "M"]}]
    server.reply({**DATASET, "domain": about})
    assert call(server, "dataset", "show", "adult") == ExitCode.OK
    output = capsys.readouterr().out
    assert (
        "description: Adults.\nlicence: CC BY 4.0\nSQL without WITHIN: counts within 50\n" in output
    )


def test_dataset_show_tells_periods_by_unit_first_and_number(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    weeks = {"name": "week", "kind": "period", "every": "week", "first": "2024-W10", "count": 1520}
    server.reply({**DATASET, "domain": {"attributes": [weeks]}})
    assert call(server, "dataset", "show", "adult") == ExitCode.OK
    assert "week  period   1,520  every week from 2024-W10" in capsys.readouterr().out


def test_budget_asks_for_the_loss_of_chosen_records_by_value(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.reply(LEDGER)
    code = call(server, "budget", "adult", "--attribute", "sex", "--where", "age>=65")
    assert code == ExitCode.OK
    where = "%7B%22age%22%3A+%7B%22at_least%22%3A+%2265%22%7D%7D"
    expected = f"GET /v1/datasets/adult/ledger?attribute=sex&where={where}"
    assert server.requests[0].line == expected
    output = capsys.readouterr().out
    assert "largest loss of the asked records: 0.25 epsilon" in output
    assert [line.split() for line in output.splitlines()[-2:]] == [
        ["Male", "0.5"],
        ["Female", "0.25"],
    ]


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (422, "invalid_query", ExitCode.USAGE),
        (422, "invalid_requirement", ExitCode.USAGE),
        (503, "no_worker", ExitCode.NOT_NOW),
        (503, "store_unavailable", ExitCode.NOT_NOW),
        (404, "not_found", ExitCode.FAILURE),
        (500, "internal", ExitCode.FAILURE),
    ],
)
def test_a_refusal_is_shown_as_code_and_message_and_sets_the_exit_code(
    server: FakeServer,
    capsys: pytest.CaptureFixture[str],
    status: int,
    code: str,
    expected: ExitCode,
) -> None:
    server.refuse(status, code, "Said the server.")
    assert call(server, "query", "adult", "--length", "100") == expected
    output = capsys.readouterr()
    assert output.err == f"{code}: Said the server.\n"
    assert output.out == ""


@pytest.mark.parametrize("reply", [b"<html>", b"[1]", b"\xff", b'"' + b"[" * 10_000])
def test_a_reply_that_is_not_ours_is_a_failure_and_no_crash(
    server: FakeServer, capsys: pytest.CaptureFixture[str], reply: bytes
) -> None:
    server.reply(reply)
    assert call(server, "dataset", "show", "adult") == ExitCode.FAILURE
    assert "bad_reply: " in capsys.readouterr().err


def test_a_server_that_is_not_there_has_an_exit_code_of_its_own(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    # The port was given out and is closed again by asking for nothing on it: port 1 is reserved.
    code = main(["dataset", "list", "--url", "http://127.0.0.1:1"], environ={})
    assert code == ExitCode.UNREACHABLE
    assert "unreachable: No qserver answers at http://127.0.0.1:1" in capsys.readouterr().err


def test_a_server_that_is_silent_is_unreachable_after_the_time_given(server: FakeServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ServerUnreachableError, match=r"did not answer within 0\.05 s"):
            HttpClient(url, timeout_s=0.05).get("healthz")


def test_facts_of_a_problem_are_kept_apart_from_its_text(server: FakeServer) -> None:
    server.refuse(409, "budget_exhausted", "It costs 3.", price=3, remaining=1, free=None)
    with pytest.raises(ServerProblemError, match=r"It costs 3\.") as caught:
        HttpClient(server.url).post("v1", "datasets", "adult", "query", document={})
    assert caught.value.facts == {"price": 3, "remaining": 1, "free": None}
