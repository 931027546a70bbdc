"""The worker's command line: what attach, rotate and top-up say of what they enforce."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qserver.query.domain_file import domain_to_document
from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient
from tests.deployment import PEOPLE, write_people
from worker.cli import main

Out = pytest.CaptureFixture[str]


@pytest.fixture
def common(tmp_path: Path, store_url: str) -> list[str]:
    (tmp_path / "domain.json").write_text(json.dumps(domain_to_document(PEOPLE)))
    owned = "who,age,sex\n1,20,Male\n1,21,Male\n2,22,Female\n"
    (tmp_path / "owned.csv").write_text(owned)
    write_people(tmp_path / "people.csv")
    return ["--state", str(tmp_path / "state"), "--redis-url", store_url]


def run(*argv: object) -> int:
    return main([str(a) for a in argv])


def attach(tmp_path: Path, common: list[str], name: str, *more: object) -> int:
    data = tmp_path / ("owned.csv" if "--person-id" in more else "people.csv")
    domain = tmp_path / "domain.json"
    return run("attach", name, "--data", data, "--domain", domain, "--limit", "1", *common, *more)


def test_attach_tells_a_declared_k_from_an_enforced_one_and_counts_for_the_owner_alone(
    tmp_path: Path, common: list[str], capsys: Out
) -> None:
    assert attach(tmp_path, common, "declared") == 0
    assert "Records per person: 1, as declared; not verified." in capsys.readouterr().out
    assert attach(tmp_path, common, "enforced", "--person-id", "who") == 0
    output = capsys.readouterr()
    assert "Records per person: 1, enforced." in output.out
    assert "dropped" not in output.out
    assert "private, for you alone: 3 rows read, 2 kept" in output.err
    assert "1 dropped because of records per person" in output.err


@pytest.mark.parametrize(("cap", "binds"), [("0.1", True), ("0.5", False)])
def test_attach_says_when_the_guard_cannot_bind(
    tmp_path: Path, common: list[str], capsys: Out, cap: str, binds: bool
) -> None:
    assert attach(tmp_path, common, "people", "--disclosure-cap", cap) == 0
    out = capsys.readouterr().out
    assert f"its count is known with probability {cap} at most" in out
    assert ("It cannot bind" in out) != binds


def test_attach_repeats_the_claims_and_refuses_what_is_no_question(
    tmp_path: Path, common: list[str], capsys: Out
) -> None:
    claims = tmp_path / "claims.json"
    claim = {"name": "men", "query": {"where": {"sex": "Male"}}, "width": 2.5, "p": 0.4}
    claims.write_text(json.dumps(claim))
    assert attach(tmp_path, common, "people", "--claims", claims) == 0
    out = capsys.readouterr().out
    assert "Claim men: within a width of 2.5 it is known with probability 0.4 at most." in out
    claims.write_text(json.dumps([{**claim, "query": {"where": {"height": 3}}}]))
    assert attach(tmp_path, common, "others", "--claims", claims) == 1
    assert "`claims.query.where.height` must name an attribute" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (("--disclosure-cap", "1"), "`disclosure_cap`"),
        (("--person-id", "sex"), "`person_id`"),
        (("--disjoint-from", "nobody"), "No dataset is called 'nobody'"),
    ],
)
def test_a_wrong_guard_rail_is_refused_by_name(
    tmp_path: Path, common: list[str], capsys: Out, more: tuple[str, ...], named: str
) -> None:
    assert attach(tmp_path, common, "people", *more) == 1
    assert named in capsys.readouterr().err


def test_rotate_and_top_up_say_what_is_in_force_now(
    tmp_path: Path, common: list[str], capsys: Out, redis_client: StoreClient
) -> None:
    assert attach(tmp_path, common, "people") == 0
    capsys.readouterr()
    data = tmp_path / "people.csv"
    for more, said in (((), "counts for its people"), (("--disjoint-people",), "does not count")):
        assert run("rotate", "people", "--data", data, *more, *common) == 0
        assert said in capsys.readouterr().out
    assert run("rotate", "people", "--data", data, "--json", *common) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["snapshot"] == redis_client.hget(Keys("people").ledger, "snapshot:people")
    assert redis_client.llen(Keys("people").earlier("people")) == 3
    assert run("top-up", "people", "--to", "2.5", *common) == 0
    assert "was 1.000000000 and is 2.500000000 epsilon" in capsys.readouterr().out
    assert run("top-up", "people", "--to", "2.5", *common) == 1
    assert "be more than 2.500000000 epsilon" in capsys.readouterr().err
    assert run("top-up", "people", "--to", "3", "--json", *common) == 0
    assert json.loads(capsys.readouterr().out) == {"population": "people", "limit": "3.000000000"}


def test_an_inferred_domain_is_said_to_publish_its_values(
    tmp_path: Path, common: list[str], capsys: Out
) -> None:
    call = ("attach", "people", "--data", tmp_path / "people.csv", "--limit", "1", *common)
    assert run(*call) == 1
    assert "`domain`" in capsys.readouterr().err
    assert run(*call, "--infer-domain") == 0
    assert "makes every distinct value of every column public" in capsys.readouterr().err


def test_the_owner_begins_checks_and_accepts_a_witness(
    tmp_path: Path, common: list[str], capsys: Out
) -> None:
    assert attach(tmp_path, common, "town") == 0
    place = (*common, "--witness", tmp_path / "other")
    assert run("witness", *common) == 1
    assert "name a folder" in capsys.readouterr().err
    assert run("witness", *place) == 1
    assert "FAIL witness of town" in capsys.readouterr().out
    (tmp_path / "other").mkdir()
    assert run("witness", *place) == 0
    assert "begun; it has seen 2 lines of the journal" in capsys.readouterr().out
    assert run("witness", *place, "--accept", "village") == 1
    assert "`accept`" in capsys.readouterr().err
    journal = tmp_path / "state" / "worker" / "journals" / "town.journal"
    first = journal.read_bytes().splitlines(keepends=True)[0]
    journal.write_bytes(first)
    assert run("witness", *place) == 1
    assert "an older copy was put back. Nothing is drawn." in capsys.readouterr().out
    assert run("witness", *place, "--accept", "town") == 0
    assert "accepted 1 lines of the journal, on your word" in capsys.readouterr().out
    assert run("witness", *place) == 0


def test_attach_begins_the_witness_of_a_new_population(
    tmp_path: Path, common: list[str], capsys: Out
) -> None:
    place = [*common, "--witness", str(tmp_path / "other")]
    assert attach(tmp_path, place, "town") == 1
    assert "Mount its disk" in capsys.readouterr().err
    (tmp_path / "other").mkdir()
    assert attach(tmp_path, place, "town") == 0
    assert (tmp_path / "other" / "town.witness").read_bytes().count(b"\n") == 1
    assert run("witness", *place) == 0
