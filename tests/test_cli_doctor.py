"""What `qserver doctor` finds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qserver.cli import main
from qserver.commands.runtime import ExitCode


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
    assert verdicts == {
        "OPENBLAS_NUM_THREADS": "ok",
        "OMP_NUM_THREADS": "note",
        "embedded server": "ok",
        "state folder": "fault",
        "store": "fault",
    }
    texts = {finding["subject"]: finding["text"] for finding in findings}
    assert f"chmod -R go= {state}" in texts["state folder"]


def test_doctor_finds_nothing_wrong_before_the_first_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor"], environ={"XDG_STATE_HOME": str(tmp_path)}) == ExitCode.OK
    output = capsys.readouterr().out
    assert f"{tmp_path}/qserver/demo is not there yet" in output
