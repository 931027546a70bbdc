"""`qserver account` and `qserver audit` on a real store."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from qserver.cli.main import main
from qserver.cli.runtime import ExitCode
from qserver.records.account import Token
from qserver.storage.accounts import AccountBook
from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient
from tests.deployment import Deployment


@dataclass(frozen=True)
class Printed:
    code: int
    out: str
    err: str


Run = Callable[..., Printed]


@pytest.fixture
def run(store_url: str, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command on the store that the environment names."""

    def call(*arguments: str) -> Printed:
        code = main(arguments, environ={"QSERVER_REDIS_URL": store_url})
        captured = capsys.readouterr()
        return Printed(code, captured.out, captured.err)

    return call


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path / "state", store_url, limit="2")


def test_a_token_is_printed_alone_once_and_is_in_force(run: Run, redis_client: StoreClient) -> None:
    made = run("account", "create", "ann", "--role", "analyst")
    token = Token.parse(made.out.strip())
    assert token is not None
    record = AccountBook(redis_client).token_record(token.id)
    assert record is not None
    assert record.accepts(token)
    assert "shown once" in made.err
    listed = run("account", "list").out
    assert "ann" in listed
    assert token.id in listed
    assert token.secret not in listed


def test_renew_and_revoke_end_the_token_before(run: Run, redis_client: StoreClient) -> None:
    first = Token.parse(run("account", "create", "ann", "--role", "owner").out.strip())
    second = Token.parse(run("account", "renew", "ann").out.strip())
    assert first is not None
    assert second is not None
    book = AccountBook(redis_client)
    assert book.token_record(first.id) is None
    assert book.token_record(second.id) is not None
    assert run("account", "revoke", "ann").code == ExitCode.OK
    assert book.token_record(second.id) is None
    assert "revoked" in run("account", "list").out


def test_a_group_is_let_in_bounded_and_shut_out(run: Run, town: Deployment) -> None:
    assert "team/ may sign in (owner)" in run("account", "let-in", "team/", "--role", "owner").out
    bound = ("allow", "team/", "--population", "town", "--limit", "0.3")
    assert "team/ on town: 0.3 epsilon" in run("account", *bound).out
    assert "team/ann can no longer ask" in run("account", "revoke", "team/ann").out
    shown = run("account", "list").out.splitlines()
    assert [line.split()[:2] for line in shown if "team" in line] == [
        ["team/", "owner"],
        ["team/ann", "owner"],
    ]


def test_an_allowance_is_read_exactly_and_shown(run: Run, town: Deployment) -> None:
    run("account", "create", "ann", "--role", "analyst")
    bounds = ("--limit", "0.3", "--per-day", "1e-9")
    assert run("account", "allow", "ann", "--population", "town", *bounds).code == ExitCode.OK
    assert "town: 0.3 epsilon in all, 0.000000001 epsilon a day" in run("account", "list").out
    [row] = csv.DictReader(io.StringIO(run("account", "list", "--csv").out))
    assert (row["account"], row["allowance"][:16]) == ("ann", "town: 0.3 epsilo")
    assert json.loads(run("account", "list", "--json").out) == [row]
    run("account", "allow", "ann", "--population", "town")
    assert "epsilon" not in run("account", "list").out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("create", "a b", "--role", "owner"), "`name` must be 1 to 64 letters"),
        (("renew", "nobody"), "No account is called 'nobody'"),
        (("allow", "ann", "--population", "nowhere"), "No population is called 'nowhere'"),
        (("allow", "ann", "--population", "town", "--limit", "-1"), "`--limit` must be >= 0"),
        (("allow", "ann", "--population", "town", "--limit", "x"), "`--limit` must be"),
    ],
)
def test_a_wrong_command_says_what_is_wrong(
    run: Run, town: Deployment, arguments: tuple[str, ...], text: str
) -> None:
    run("account", "create", "ann", "--role", "analyst")
    refused = run("account", *arguments)
    assert refused.code in (ExitCode.USAGE, ExitCode.FAILURE)
    assert text in refused.err


def test_without_a_store_the_commands_say_how_to_name_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["account", "list", "--state", str(tmp_path)]
    assert main(arguments, environ={}) == ExitCode.NOT_NOW
    assert "name one with --redis-url" in capsys.readouterr().err


def test_the_audit_is_verified_on_the_store_and_on_its_export(
    run: Run, town: Deployment, redis_client: StoreClient, tmp_path: Path
) -> None:
    town.ask({"age": 21}, by="ann")
    file = str(tmp_path / "audit.jsonl")
    assert run("audit", "export", file).code == ExitCode.OK
    assert run("audit", "export", file).code == ExitCode.USAGE
    for target in ((), (file,)):
        found = run("audit", "verify", *target)
        assert found.code == ExitCode.OK
        assert "is just what 1 charges of 1 jobs cost" in found.out
    text = json.loads(str(redis_client.lindex(Keys("town").charges, 0)))
    redis_client.lset(Keys("town").charges, 0, json.dumps({**text, "prev": "0"}))
    found = run("audit", "verify", "--json")
    assert found.code == ExitCode.FAILURE
    faults = [c["subject"] for c in json.loads(found.out)["checks"] if not c["ok"]]
    assert faults == ["charges of town"]
    assert run("audit", "verify", file).code == ExitCode.OK


def test_a_file_that_is_no_export_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello\n")
    assert "`file` must be an audit log" in run("audit", "verify", str(tmp_path / "x")).err
    assert "`file` must be a readable file" in run("audit", "verify", str(tmp_path / "y")).err
