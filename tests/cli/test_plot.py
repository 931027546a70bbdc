"""`qserver plot` and `qserver audit-structure`: what they ask, write and refuse."""

from __future__ import annotations

import gzip
import json
from math import exp
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from qserver.cli.main import main
from qserver.cli.runtime import ExitCode
from qserver.models.network.bif import write_bif
from qserver.models.network.network import Network
from qserver.models.tracing.bound import TracingBound
from qserver.query.domain_file import domain_to_document
from tests.benchmarks.published_networks import FOLDER
from tests.cli.fake_server import FakeServer
from tests.deployment import PEOPLE
from tests.models.structures import sized

Out = pytest.CaptureFixture[str]
FREE = {"interval": [80.0, 120.0], "confidence": 0.9}
ALARM = str(FOLDER / "alarm.bif.gz")
N_TAILS = 65


def call(server: FakeServer, *arguments: object) -> int:
    return main([*map(str, arguments)], environ={"QSERVER_URL": server.url})


def heard(path: Path) -> str:
    return ElementTree.parse(path).getroot().get("aria-label", "")


def test_a_posterior_is_drawn_from_tails_about_the_free_interval(
    server: FakeServer, tmp_path: Path, capsys: Out
) -> None:
    server.reply({"free": FREE})
    places = [100 + 40 * (i / 32 - 1) for i in range(N_TAILS)]
    for place in places:
        server.reply({"probability": 1 / (1 + exp((place - 100) / 5)), "version": 1})
    out = tmp_path / "p.svg"
    asked = ("--where", "sex=Female", "--length", "40", "--confidence", "0.9", "--out", out)
    assert call(server, "plot", "posterior", "adult", *asked) == ExitCode.OK
    assert capsys.readouterr().out == f"Wrote {out}.\n"
    lines = [r.line for r in server.requests]
    assert lines[0] == "POST /v1/datasets/adult/explain"
    assert set(lines[1:]) == {"POST /v1/datasets/adult/probability"}
    assert [r.document["at_least"] for r in server.requests[1:]] == pytest.approx(places)
    assert "adult: records with sex=Female" in heard(out)
    assert "between 80 and 120 with 90 percent" in heard(out)


def test_nothing_is_drawn_of_what_history_does_not_know(
    server: FakeServer, tmp_path: Path, capsys: Out
) -> None:
    server.reply({"free": None})
    out = tmp_path / "p.svg"
    code = call(server, "plot", "posterior", "adult", "--length", "40", "--out", out)
    assert code == ExitCode.FAILURE
    assert "not_estimable" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("attribute", ["", "sex"])
def test_a_budget_is_drawn_in_all_or_by_attribute(
    server: FakeServer, tmp_path: Path, attribute: str
) -> None:
    losses = {"Female": 0.25, "Male": 0.5} if attribute else None
    server.reply({"limit": 2.0, "spent": 0.5, "remaining": 1.5, "by_value": losses})
    out = tmp_path / "b.svg"
    more = ("--attribute", attribute) if attribute else ()
    assert call(server, "plot", "budget", "adult", *more, "--out", out, "--json") == ExitCode.OK
    text = out.read_text(encoding="utf-8")
    assert "0.5 of 2 epsilon are spent" in text
    assert (">Female<" in text) == bool(attribute)
    query = "?attribute=sex" if attribute else ""
    assert server.requests[0].line == f"GET /v1/datasets/adult/ledger{query}"


def test_another_kind_of_file_is_refused_before_anything_is_asked(
    server: FakeServer, tmp_path: Path, capsys: Out
) -> None:
    code = call(server, "plot", "budget", "adult", "--out", tmp_path / "b.png")
    assert code == ExitCode.USAGE
    assert "`out` must end in .svg, got 'b.png'" in capsys.readouterr().err
    assert server.requests == []


def test_a_file_that_cannot_be_written_is_wrong_usage(
    server: FakeServer, tmp_path: Path, capsys: Out
) -> None:
    server.reply({"limit": 2.0, "spent": 0.5, "remaining": 1.5, "by_value": None})
    assert call(server, "plot", "budget", "adult", "--out", tmp_path / "no" / "b.svg") == 2
    assert "can be written" in capsys.readouterr().err


def audit(*arguments: object) -> int:
    return main(["audit-structure", *map(str, arguments)], environ={})


def test_a_structure_is_audited_without_a_server(tmp_path: Path, capsys: Out) -> None:
    """Alarm has 509 parameters; Phi(sqrt(509/6000)) = 0.6146."""
    out = tmp_path / "a.svg"
    assert audit(ALARM, "--records", 3000, "--release", "model", "--plot", out) == ExitCode.OK
    output = capsys.readouterr().out
    assert "independent numbers: 509 in the model, 601 in its tables" in output
    assert "0.6146" in output
    assert "509 released numbers learnt from 3,000 records" in heard(out)


@pytest.mark.parametrize(
    ("most", "code", "verdict"), [(0.2, ExitCode.OK, "pass"), (0.1, ExitCode.REFUSED, "refused")]
)
def test_the_gate_s_refusal_is_the_exit_code(
    capsys: Out, most: float, code: ExitCode, verdict: str
) -> None:
    assert audit(ALARM, "--records", 3000, "--epsilon", 1, "--max-power", most) == code
    assert f"gate: {verdict}. At 0.05 false positives" in capsys.readouterr().out


def chain(n: int, size: int = 2) -> str:
    """BIF of a chain of variables of one size."""
    edges = [(f"x{i}", f"x{i + 1}") for i in range(n - 1)]
    structure = sized({f"x{i}": size for i in range(n)}, edges)
    tables = [np.full(structure.family_shape(i), 1 / size) for i in range(n)]
    return write_bif(Network(structure, tuple(tables)))


@pytest.mark.slow
@pytest.mark.parametrize(("n", "size"), [(70, 17), (441, 2)])
def test_networks_of_many_variables_are_audited_with_an_epsilon(
    tmp_path: Path, capsys: Out, n: int, size: int
) -> None:
    path = tmp_path / "n.bif"
    path.write_text(chain(n, size))
    assert audit(path, "--records", 100, "--epsilon", 1) == ExitCode.OK
    found = capsys.readouterr().out
    numbers = size - 1 + (n - 1) * size * (size - 1)
    assert f"network: {n} variables, {n - 1} edges" in found
    assert f"independent numbers: {numbers:,} in the model, " in found
    assert "at most" not in found


def test_the_command_line_says_where_the_tables_numbers_are_a_bound(
    tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qserver.models.tracing.report.MAX_CHOICE_SIZE", 0)
    path = tmp_path / "n.bif"
    path.write_text(chain(12))
    assert audit(path, "--records", 100, "--epsilon", 1) == ExitCode.OK
    assert "23 in the model, at most 4,095 in its tables" in capsys.readouterr().out


def test_a_failure_is_no_refusal(tmp_path: Path) -> None:
    """The gate refuses with 3; what cannot be audited ends with another code."""
    path = tmp_path / "n.bif"
    path.write_text("no network")
    gate = ("--records", 3000, "--epsilon", 1, "--max-power", 0.1)
    assert audit(ALARM, *gate) == ExitCode.REFUSED == 3
    assert audit(path, *gate) == ExitCode.USAGE


def test_edges_take_their_sizes_from_the_domain(tmp_path: Path, capsys: Out) -> None:
    (tmp_path / "domain.json").write_text(json.dumps(domain_to_document(PEOPLE)))
    names = PEOPLE.names
    edges = tmp_path / "edges.json"
    edges.write_text(json.dumps({"edges": [[names[0], names[1]]]}))
    arguments = (edges, "--domain", tmp_path / "domain.json", "--records", 100, "--json")
    assert audit(*arguments, "--reference", 50, "--epsilon", 0.5, "--game", "added") == ExitCode.OK
    document = json.loads(capsys.readouterr().out)
    first, second = PEOPLE.sizes[:2]
    expected = first - 1 + first * (second - 1)
    assert document["complexity"] == document["table_complexity"] == expected
    assert document["auc"]["finite_bound"] == TracingBound(expected, 100, 50).auc
    assert document["cap"]["exponent"] == 0.5


@pytest.mark.parametrize(
    ("content", "more", "message"),
    [
        (b"no BIF", (), "invalid_network: `network, line 1`"),
        (b"\xff\xfe", (), "UnicodeDecodeError"),
        (b"variable a { type discrete [ 1 ] { x }; }", (), "probability block"),
        (b"{", ("--domain", "there"), "line 1, column 2"),
    ],
)
def test_a_file_that_holds_no_network_is_wrong_usage(
    tmp_path: Path, capsys: Out, content: bytes, more: tuple[str, ...], message: str
) -> None:
    path = tmp_path / "n.bif"
    path.write_bytes(content)
    domain = tmp_path / "domain.json"
    domain.write_text(json.dumps(domain_to_document(PEOPLE)))
    given = ("--domain", domain) if more else ()
    assert audit(path, "--records", 10, *given) == ExitCode.USAGE
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--records", "0"), "`--records` must be a finite number > 0"),
        (("--records", "5", "--reference", "0"), "`--reference` must be a number > 0"),
        (("--records", "5", "--epsilon", "-1"), "`--epsilon`"),
        (("--records", "5", "--max-power", "0.01"), "`--max-power`"),
        (("--records", "5", "--plot", "x.png"), "`out` must end in .svg"),
    ],
)
def test_options_out_of_range_are_wrong_usage(
    capsys: Out, arguments: tuple[str, ...], message: str
) -> None:
    assert audit(ALARM, *arguments) == ExitCode.USAGE
    assert message in capsys.readouterr().err


def test_a_damaged_archive_is_wrong_usage(tmp_path: Path, capsys: Out) -> None:
    path = tmp_path / "n.bif.gz"
    path.write_bytes(gzip.compress(b"network n { }")[:-6])
    assert audit(path, "--records", 10) == ExitCode.USAGE
    assert "readable file" in capsys.readouterr().err
