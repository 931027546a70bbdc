"""What `qserver doctor` finds."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from qserver.cli.main import main
from qserver.cli.runtime import ExitCode
from qserver.records.charge import epsilon_text
from qserver.storage.server.embedded_store import EmbeddedServer
from tests.deployment import Deployment


def test_doctor_names_each_fault_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    (state / "redis").mkdir(parents=True)
    (state / "redis").chmod(0o755)
    arguments = [
        "doctor",
        "--state",
        str(state),
        "--redis-url",
        f"unix://{tmp_path}/none",
        "--json",
    ]
    assert main(arguments, environ={"OMP_NUM_THREADS": "8"}) == ExitCode.FAILURE
    findings = json.loads(capsys.readouterr().out)["findings"]
    verdicts = {finding["subject"]: finding["verdict"] for finding in findings}
    assert verdicts.pop("disk") in ("ok", "note", "fault")
    assert verdicts == {
        "OPENBLAS_NUM_THREADS": "ok",
        "OMP_NUM_THREADS": "note",
        "embedded server": "ok",
        "state folder": "fault",
        "store": "fault",
    }
    texts = {finding["subject"]: finding["text"] for finding in findings}
    assert f"chmod -R go= {state}" in texts["state folder"]


def test_doctor_says_where_a_population_stands(
    tmp_path: Path, store_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    town = Deployment.make(tmp_path, store_url)
    charged = town.ask({"age": 20}).charged_nano
    arguments = ["doctor", "--state", str(tmp_path), "--redis-url", store_url, "--json"]
    main(arguments, environ={})
    findings = json.loads(capsys.readouterr().out)["findings"]
    (text,) = [f["text"] for f in findings if f["subject"] == "population town"]
    spent = f"{epsilon_text(charged)} of 1.000000000 epsilon spent"
    assert text.startswith(f"{spent} in 1 reservations, 0 of them burnt")


@pytest.mark.parametrize("space", [1, 10**6])
def test_doctor_warns_before_the_disk_is_full(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, space: int
) -> None:
    found = SimpleNamespace(f_bavail=space, f_frsize=1 << 20)
    monkeypatch.setattr("os.statvfs", lambda _path: found)
    main(["doctor", "--state", str(tmp_path), "--json"], environ={})
    findings = json.loads(capsys.readouterr().out)["findings"]
    verdicts = {finding["subject"]: finding["verdict"] for finding in findings}
    assert verdicts["disk"] == ("ok" if space > 1000 else "fault")


def test_doctor_finds_nothing_wrong_before_the_first_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor"], environ={"XDG_STATE_HOME": str(tmp_path)}) == ExitCode.OK
    output = capsys.readouterr().out
    assert f"{tmp_path}/qserver/demo is not there yet" in output
    start = f"`qserver serve --state {tmp_path}/qserver/demo` or `qserver demo` starts one"
    assert f"note   store: none runs on the state folder; {start}" in output


def test_doctor_finds_the_store_of_a_folder_and_says_when_it_is_stopping(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with EmbeddedServer.start(tmp_path) as server:
        Deployment.make(tmp_path, server.url).writer().queue.leave(["town"], worker="test")
        assert main(["doctor", "--state", str(tmp_path)], environ={}) == ExitCode.FAILURE
        output = capsys.readouterr().out
        assert f"ok     store: the store of {tmp_path} answers" in output
        assert re.search(rf"Start one with `\S*qserver-worker run --state {tmp_path}`\.", output)
        server.mark_stopping()
        main(["doctor", "--state", str(tmp_path)], environ={})
        assert "note   store: the server on the state folder is stopping" in capsys.readouterr().out
