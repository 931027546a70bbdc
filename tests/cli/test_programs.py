"""Commands in hints can be pasted: by name where the path has this program, else by its place."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from qserver.cli.main import main
from qserver.cli.runtime import ExitCode, Programs


def make(folder: Path, *names: str) -> Path:
    """A folder of programs that tell their own place."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text('#!/bin/sh\necho "$0"\n')
        (folder / name).chmod(0o755)
    return folder


def test_a_program_on_the_path_is_called_by_its_name(tmp_path: Path) -> None:
    own = make(tmp_path / "bin", "qserver", "qserver-worker")
    programs = Programs(str(own / "qserver"), search_path=f"/nowhere:{own}")
    assert programs.typed("qserver") == "qserver"
    assert programs.typed("qserver-worker") == "qserver-worker"


@pytest.mark.parametrize("folder", ["plain", "with space", "it's; rm"])
@pytest.mark.parametrize("is_shadowed", [False, True])
def test_any_other_is_called_by_the_place_it_was_started_from(
    tmp_path: Path, folder: str, is_shadowed: bool
) -> None:
    """Also where a shell would find another program of that name."""
    own = make(tmp_path / folder, "qserver", "qserver-worker")
    others = make(tmp_path / "others", *(["qserver", "qserver-worker"] if is_shadowed else []))
    programs = Programs(str(own / "qserver"), search_path=str(others))
    for name in ("qserver", "qserver-worker"):
        pasted = f"{programs.typed(name)} query"
        run = subprocess.run(["sh", "-c", pasted], capture_output=True, text=True, check=True)
        assert run.stdout.strip() == str(own / name)
        assert shlex.split(pasted) == [str(own / name), "query"]


def test_a_link_on_the_path_is_the_same_program(tmp_path: Path) -> None:
    own = make(tmp_path / "own", "qserver")
    links = make(tmp_path / "links")
    os.symlink(own / "qserver", links / "qserver")
    assert Programs(str(own / "qserver"), search_path=str(links)).typed("qserver") == "qserver"


def test_a_relative_place_stays_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / ".venv" / "bin", "qserver")
    monkeypatch.chdir(tmp_path)
    assert Programs(".venv/bin/qserver", search_path="/bin").typed("qserver") == ".venv/bin/qserver"
    monkeypatch.chdir(tmp_path / ".venv" / "bin")
    assert Programs("qserver", search_path="/bin").typed("qserver") == "./qserver"


def test_a_module_that_python_runs_is_called_by_the_program_beside_python(tmp_path: Path) -> None:
    own = make(tmp_path / "bin", "qserver", "python")
    module = make(tmp_path / "lib") / "cli.py"
    programs = Programs(str(module), str(own / "python"), "/bin")
    assert programs.typed("qserver") == str(own / "qserver")


def test_where_nothing_is_known_names_stay(tmp_path: Path) -> None:
    assert Programs().typed("qserver") == "qserver"
    assert Programs(str(tmp_path / "cli.py"), search_path="/bin").typed("qserver") == "qserver"


def test_commands_within_a_sentence_are_spelt(tmp_path: Path) -> None:
    own = make(tmp_path / "bin", "qserver", "qserver-worker")
    programs = Programs(str(own / "qserver"), search_path="")
    said = programs.spelt(
        "Run `qserver demo`, `qserver-worker run` or a `qserver`; see qserver docs."
    )
    assert (
        said
        == f"Run `{own}/qserver demo`, `{own}/qserver-worker run` or a `qserver`; see qserver docs."
    )


def test_an_error_names_a_command_that_can_be_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = make(tmp_path / "bin", "qserver")
    arguments = [str(own / "qserver"), "dataset", "list", "--url", "http://127.0.0.1:9"]
    monkeypatch.setattr("sys.argv", arguments)
    assert main(environ={"PATH": "/nowhere"}) == ExitCode.UNREACHABLE
    assert f"Start one with `{own}/qserver demo`" in capsys.readouterr().err
    assert main(environ={"PATH": str(own)}) == ExitCode.UNREACHABLE
    assert "Start one with `qserver demo`" in capsys.readouterr().err
