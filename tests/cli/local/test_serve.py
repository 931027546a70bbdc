"""`qserver serve` on an embedded store and on a store by URL, and what doctor says of both."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from qserver.cli.main import main
from qserver.cli.runtime import ExitCode
from qserver.client import Client
from qserver.storage.server.state_folder import StateFolder
from tests.cli.local.running_program import running
from tests.sweeps import share


@pytest.mark.slow
def test_serve_runs_its_own_store_lends_it_to_another_server_and_doctor_is_content(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    with running(state, "serve", "--port", "0", "--state", str(state)) as owner:
        owner.read_until("qserver-worker run")
        redis_url = StateFolder(state).require_url()
        with running(state, "serve", "--open", "--port", "0", "--redis-url", redis_url) as guest:
            assert guest.client.get("v1", "datasets").document["datasets"] == []
            assert guest.stop(signal.SIGTERM) == ExitCode.OK
        doctor = ["doctor", "--state", str(state), "--url", owner.url, "--json"]
        assert main(doctor, environ={}) == ExitCode.OK
        findings = json.loads(capsys.readouterr().out)["findings"]
        verdicts = {finding["subject"]: finding["verdict"] for finding in findings}
        subjects = ("state folder", "store", "durability", "HTTP")
        assert [verdicts[subject] for subject in subjects] == ["ok"] * 4
        assert verdicts["datasets"] == "note"
        assert owner.stop(signal.SIGINT) == ExitCode.OK
        assert owner.processes() == {}


def test_serve_refuses_a_store_that_is_not_there_before_it_starts_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["serve", "--port", "0", "--redis-url", f"unix://{tmp_path}/none"]
    assert main(arguments, environ={}) == ExitCode.NOT_NOW
    output = capsys.readouterr()
    assert "store_unavailable: " in output.err
    assert output.out == ""


@pytest.mark.slow
def test_serve_asks_for_a_token_until_it_is_revoked_and_open_serves_this_machine_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    at = ("--state", str(state))
    with running(state, "serve", "--port", "0", *at) as server:
        server.read_until("qserver account create NAME --role owner")
        assert main(["account", "create", "ann", "--role", "analyst", *at], environ={}) == 0
        token = capsys.readouterr().out.strip()
        listing = ["dataset", "list", "--url", server.url]
        assert main(listing, environ={}) == ExitCode.FAILURE
        assert "unauthenticated: " in capsys.readouterr().err
        assert main(listing, environ={"QSERVER_TOKEN": token}) == ExitCode.OK
        assert main(["account", "renew", "ann", *at], environ={}) == ExitCode.OK
        renewed = capsys.readouterr().out.splitlines()[-1]
        assert main(listing, environ={"QSERVER_TOKEN": renewed}) == ExitCode.OK
        assert server.stop(signal.SIGINT) == ExitCode.OK
    refused = ["serve", "--open", "--host", "0.0.0.0", "--port", "0", *at]
    assert main(refused, environ={}) == ExitCode.USAGE
    assert "Without accounts whoever reaches the port" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("host", share(["[::1]", "::1"], 1))
def test_serve_on_an_address_of_ipv6_is_asked_by_every_client(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], host: str
) -> None:
    state = tmp_path / "state"
    asked = ("serve", "--open", "--host", host, "--port", "0", "--state", str(state))
    with running(state, *asked) as server:
        assert re.fullmatch(r"http://\[::1\]:[0-9]+", server.url)
        assert server.client.get("readyz").status == 200
        assert main(["dataset", "list", "--url", server.url], environ={}) == ExitCode.OK
        assert capsys.readouterr().out.startswith("dataset ")
        assert Client(server.url).datasets() == []
        assert main(["doctor", "--state", str(state), "--url", server.url], environ={}) == 0
        assert server.stop(signal.SIGINT) == ExitCode.OK
