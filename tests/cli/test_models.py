"""`qserver model` against a server that says what each test has it say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qserver.cli.main import main
from qserver.cli.runtime import ExitCode
from tests.cli.fake_server import FakeServer, Request

LEARNT = {
    "id": "adult~1",
    "kind": "network",
    "epsilon_charged": 0.5,
    "epsilon_remaining": 1.5,
    "tables": [0, 1],
    "version": 2,
}
SAID: dict[str, Any] = {
    "source": "model",
    "model": "adult~1",
    "version": 2,
    "answer": None,
    "estimate": None,
    "guarantee": None,
    "verdict": None,
    "fallback": None,
}
MEASURED = {
    "estimate": 2720.5,
    "interval": [2670.5, 2770.5],
    "confidence": 0.95,
    "source": "measured",
    "epsilon_charged": 0.06,
    "epsilon_remaining": 1.44,
}


def call(server: FakeServer, *arguments: str) -> int:
    return main(["model", *arguments], environ={"QSERVER_URL": server.url})


def test_edges_are_sent_and_the_models_id_is_told(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.reply(LEARNT)
    options = ("--edge", "sex>income", "--variable", "sex", "--variable", "income")
    assert call(server, "learn", "adult", *options, "--epsilon", "0.5") == ExitCode.OK
    network = {"edges": [["sex", "income"]], "variables": ["sex", "income"]}
    sent = {"kind": "network", "network": network, "epsilon": 0.5, "allocation": "best"}
    assert server.requests == [Request("POST /v1/datasets/adult/models", sent)]
    assert capsys.readouterr().out.splitlines() == [
        "model: adult~1",
        "cost: 0.5 epsilon",
        "remaining: 1.5 epsilon",
    ]


def test_marginals_are_sent_as_lists_of_attributes(server: FakeServer) -> None:
    server.reply(LEARNT | {"kind": "marginals"})
    options = ("--marginals", "sex,income", "age", "--oracle", "saturated", "--selection", "merged")
    assert call(server, "learn", "adult", *options, "--epsilon", "0.5") == ExitCode.OK
    sent = {
        "kind": "marginals",
        "marginals": [["sex", "income"], ["age"]],
        "selection": "merged",
        "oracle": "saturated",
        "likelihood": "squares",
        "epsilon": 0.5,
    }
    assert server.requests == [Request("POST /v1/datasets/adult/models", sent)]


def test_any_kind_is_sent_by_its_name_with_its_members(server: FakeServer) -> None:
    server.reply(LEARNT | {"kind": "tree"})
    fields = ("--field", "root=age", "--field", "depth=2", "--field", 'leaves=["a", "b"]')
    asked = ("learn", "adult", "--kind", "tree", *fields, "--epsilon", "0.5")
    assert call(server, *asked) == ExitCode.OK
    sent = {"kind": "tree", "root": "age", "depth": 2, "leaves": ["a", "b"], "epsilon": 0.5}
    assert server.requests == [Request("POST /v1/datasets/adult/models", sent)]


def test_no_marginals_make_a_model_of_history_alone(server: FakeServer) -> None:
    server.reply(LEARNT | {"kind": "marginals", "epsilon_charged": 0})
    assert call(server, "learn", "adult", "--marginals", "--epsilon", "0") == ExitCode.OK
    (request,) = server.requests
    assert request.document["marginals"] == []


def test_a_bif_file_is_sent_as_it_is_and_a_job_is_waited_for(
    server: FakeServer, tmp_path: Path
) -> None:
    path = tmp_path / "x.bif"
    path.write_text("network x { }")
    job = {"id": "adult~1", "state": "done", "dataset": "adult", "result": LEARNT, "problem": None}
    server.reply(job, status=202)
    assert call(server, "learn", "adult", "--network", str(path), "--epsilon", "1") == ExitCode.OK
    assert server.requests[0].document["network"] == "network x { }"


def test_a_distribution_is_shown_as_a_table(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    shares = {"variables": ["sex"], "labels": [["Female", "Male"]], "probabilities": [0.25, 0.75]}
    merged = {"sex": [["Female", "Male"]], "country": [[f"c{i}" for i in range(10)]]}
    server.reply({**SAID, "answer": {**shares, "merged": merged}})
    asked = ("--marginal", "sex", "--given", "income=>50K")
    assert call(server, "ask", "adult", "adult~1", *asked) == ExitCode.OK
    sent = {"marginal": ["sex"], "given": {"income": ">50K"}}
    assert server.requests == [Request("POST /v1/datasets/adult/models/adult~1/query", sent)]
    *lines, sex, country = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["sex", "probability"],
        ["Female", "0.250000"],
        ["Male", "0.750000"],
    ]
    assert sex == "not told apart, sex: Female, Male"
    assert country.endswith("country: c0, c1, c2, c3, c4, c5, c6, c7 and 2 more")


def test_the_most_probable_labels_and_counts_are_shown(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.reply({**SAID, "answer": {"labels": {"sex": "Male"}, "probability": 0.75}})
    call(server, "ask", "adult", "m", "--most-probable", "sex")
    server.reply({**SAID, "estimate": 2710.25})
    call(server, "ask", "adult", "m", "--where", "sex=Male")
    assert server.requests[1].document == {"count": {"where": {"sex": "Male"}}}
    out = capsys.readouterr().out
    assert "probability: 0.75" in out
    assert "the model expects 2,710.2, without a guarantee" in out


def test_a_check_is_waited_for_and_asked_for_again(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The job has the check's interval alone; the reply after it tells the verdict."""
    checked = {**SAID, "estimate": 2810.25, "guarantee": MEASURED, "verdict": "contradicted"}
    job = {"id": "j", "state": "done", "dataset": "adult", "result": MEASURED, "problem": None}
    server.reply(job, status=202)
    server.reply({**checked, "fallback": {**MEASURED, "interval": [2700.5, 2740.5]}})
    options = ("--where", "sex=Male", "--length", "100", "--fallback-length", "40")
    assert call(server, "ask", "adult", "m", *options) == ExitCode.OK
    assert [r.line for r in server.requests] == ["POST /v1/datasets/adult/models/m/query"] * 2
    assert len({*server.keys, None}) == 2
    sent = {"length": 100, "confidence": 0.95, "fallback_length": 40}
    assert all(
        r.document == {"count": {"where": {"sex": "Male"}}, "check": sent} for r in server.requests
    )
    out = capsys.readouterr().out
    assert "the model expects 2,810.2; the check contradicts it" in out
    assert "between 2,670 and 2,771 with 95 percent confidence" in out
    assert "measured instead\nbetween 2,700 and 2,741" in out
    server.reply({**checked, "verdict": "confirmed"})
    call(server, "ask", "adult", "m", "--where", "sex=Male", "--length", "100")
    assert "the check confirms it" in capsys.readouterr().out


ERROR = {
    "eta": 2,
    "width": 1,
    "values": 16,
    "parameter_least": 12.345,
    "parameter_greatest": 1234.5,
    "term_lower": 12.345,
    "term_upper": 79008.0,
}
PRICE = {
    "price": 0.06,
    "remaining": 1.5,
    "affordable": True,
    "own": None,
    "work": None,
    "wanted": [],
    "second": None,
}


def test_what_learning_would_cost_is_shown(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    table = {"n_cells": 4096, "refines": None, "charge": 0.04}
    raised = {"n_cells": 2, "refines": 3, "charge": 0.02}
    known = {"sample": None, "affordable": False, "plan": [table, raised], "error": ERROR}
    server.reply({**PRICE, **known})
    options = ("--edge", "sex>income", "--epsilon", "0.06", "--explain")
    assert call(server, "learn", "adult", *options) == ExitCode.OK
    assert server.requests[0].line == "POST /v1/datasets/adult/models/explain"
    assert server.requests[0].document["epsilon"] == 0.06
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "price: 0.06 epsilon, but the owner's guard forbids it"
    assert lines[2:5] == [
        "by noise alone, were all values equally likely among N records:",
        "  deviation of a parameter: 12.3 / N to 1.23e+03 / N",
        "  error of a term of an answer: 12.3 / N at least, 7.9e+04 / N at most",
    ]
    assert [line.split() for line in lines[-2:]] == [
        ["4,096", "new", "0.04"],
        ["2", "raises", "3", "0.02"],
    ]
    work = {"n_tables": 1771, "n_cells": 139_108, "memory_bytes": 50 << 20, "seconds": 8.1}
    wanted = [
        {"attributes": ["sex", f"a{i}"], "deviation": 10.0 + i, "as_wanted": 1234.5, "tables": [0]}
        for i in range(12)
    ]
    bought = {"sample": None, "plan": [table], "work": work, "error": None, "wanted": wanted}
    server.reply({**PRICE, **bought})
    call(server, "learn", "adult", "--marginals", "sex,income", "--epsilon", "1", "--explain")
    out = capsys.readouterr().out
    assert "takes about 8 s and 50 MiB: 1,771 tables of 139,108 cells" in out
    cells = [line.split() for line in out.splitlines()]
    assert ["sex,", "a11", "1", "0.04", "21.0", "1,234.5"] in cells
    assert ["sex,", "a1", "1", "0.04", "11.0", "1,234.5"] not in cells
    assert "and 2 more, each less; --json shows all" in out
    server.reply({**PRICE, "sample": None, "second": 0.7, "plan": [table], "error": None})
    call(server, "learn", "adult", "--marginals", "sex,income", "--epsilon", "1", "--explain")
    out = capsys.readouterr().out
    assert "of that for tables that the first decide: 0.7 epsilon" in out
    server.reply({**PRICE, "sample": 0.006, "plan": [table], "error": None})
    call(server, "learn", "adult", *options, "--allocation", "arxiv")
    out = capsys.readouterr().out
    assert "of that for a sample: 0.006 epsilon" in out
    assert "rise of 1/b, at most" in out


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"would": "tell"}, ["price: 0 epsilon, without a guarantee"]),
        (
            {"would": "check", "check": PRICE, "fallback": {**PRICE, "price": 0.2}},
            [
                "check: 0.06 epsilon",
                "measuring instead, where the check contradicts: 0.2 epsilon",
                "remaining: 1.5 epsilon",
            ],
        ),
        (
            {"would": "contradict", "check": PRICE, "fallback": PRICE},
            [
                "history contradicts it at no cost",
                "measuring instead: 0.06 epsilon",
                "remaining: 1.5 epsilon",
            ],
        ),
        (
            {"would": "confirm", "check": PRICE, "fallback": PRICE},
            ["history confirms it at no cost", "remaining: 1.5 epsilon"],
        ),
    ],
)
def test_what_a_question_would_cost_is_shown(
    server: FakeServer,
    capsys: pytest.CaptureFixture[str],
    said: dict[str, Any],
    told: list[str],
) -> None:
    server.reply({"estimate": 120.5, "check": None, "fallback": None, **said})
    options = ("--where", "sex=Male", "--length", "100", "--explain")
    assert call(server, "ask", "adult", "m", *options) == ExitCode.OK
    assert server.requests[0].line == "POST /v1/datasets/adult/models/m/explain"
    assert capsys.readouterr().out.splitlines() == ["the model expects 120.5", *told]


def test_records_and_networks_are_written_where_asked(
    server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.reply(b"sex\nMale\n")
    target = tmp_path / "x.csv"
    call(server, "sample", "adult", "m", "-n", "1", "--seed", "3", "-o", str(target))
    assert server.requests[0].line == "GET /v1/datasets/adult/models/m/sample?n=1&seed=3"
    assert target.read_text() == "sex\nMale\n"
    server.reply(b"network x { }\n")
    call(server, "export", "adult", "m")
    assert capsys.readouterr().out == "network x { }\n"


def test_models_are_listed_and_shown(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.reply({"models": [LEARNT]})
    server.reply({**LEARNT, "facts": {}})
    assert call(server, "list", "adult") == ExitCode.OK
    assert call(server, "show", "adult", "adult~1") == ExitCode.OK
    out = capsys.readouterr().out
    assert out.splitlines()[1].split() == ["adult~1", "network", "2", "0.5"]
    assert '"facts": {}' in out


@pytest.mark.parametrize(
    "arguments",
    [
        ("ask", "adult", "m"),
        ("ask", "adult", "m", "--marginal", "a", "--most-probable", "b"),
        ("ask", "adult", "m", "--marginal", "a", "--given", "b"),
        ("ask", "adult", "m", "--where", "a=b", "--fallback-length", "3"),
        ("learn", "adult", "--edge", "a", "--epsilon", "1"),
        ("learn", "adult", "--network", "/nowhere/x.bif", "--epsilon", "1"),
        ("learn", "adult", "--kind", "tree", "--field", "root", "--epsilon", "1"),
        ("learn", "adult", "--kind", "tree", "--field", "epsilon=2", "--epsilon", "1"),
        ("learn", "adult", "--marginals", "--field", "oracle=exact", "--epsilon", "1"),
    ],
)
def test_what_means_nothing_is_refused_before_it_is_sent(
    server: FakeServer, arguments: tuple[str, ...]
) -> None:
    assert call(server, *arguments) == ExitCode.USAGE
    assert server.requests == []


def test_a_refusal_ends_with_its_exit_code(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.refuse(422, "invalid_network", "`edges` must have no cycle.")
    assert call(server, "learn", "adult", "--edge", "a>a", "--epsilon", "1") == ExitCode.USAGE
    server.refuse(404, "not_found", "No model is called 'm'.")
    assert call(server, "export", "adult", "m") == ExitCode.FAILURE
    assert "no cycle" in capsys.readouterr().err


PROPOSED = {
    "network": {"variables": ["sex", "income"], "edges": [["sex", "income"]]},
    "score": 0.4,
    "complexity": 3,
    "table_complexity": 1234,
    "table_complexity_is_exact": False,
    "decision": {"passes": True, "power": 0.06, "decided_by": "bound", "reason": "It is so."},
}


def test_a_proposed_structure_is_shown_as_edges_to_learn(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.reply(PROPOSED)
    options = ("--records", "3000", "--max-power", "0.1", "--epsilon", "1", "--variable", "sex")
    assert call(server, "propose", "adult", "m", *options) == ExitCode.OK
    [request] = server.requests
    assert request.line == "POST /v1/datasets/adult/models/m/structure"
    assert request.document == {
        "records": 3000,
        "gate": {"fpr": 0.05, "max_power": 0.1, "basis": "least"},
        "game": "replaced",
        "release": "tables",
        "max_parents": 2,
        "min_gain": 0.01,
        "epsilon": 1,
        "variables": ["sex"],
    }
    assert capsys.readouterr().out.splitlines() == [
        "sex>income",
        "independent numbers: 3 in the model, at most 1,234 in its tables",
        "gate: pass. It is so.",
    ]


def test_a_structure_that_the_gate_refuses_has_a_code_of_its_own(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = {**PROPOSED, "decision": {"passes": False, "reason": "Too much."}}
    server.reply(refused)
    options = ("--records", "30", "--max-power", "0.1", "--json")
    assert call(server, "propose", "adult", "m", *options) == ExitCode.REFUSED
    assert '"passes": false' in capsys.readouterr().out
