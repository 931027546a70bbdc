"""Completion: the scripts are of the parser itself, and bash completes by one."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from qserver.cli.console import Console
from qserver.cli.main import build_parser, main
from qserver.cli.runtime import Runtime
from qserver.program.start import SHELLS, completion_script
from worker.parser import build_parser as worker_parser


def options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Every long option and command of a parser."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                yield name
                yield from options(command)
        yield from (o.removeprefix("--") for o in action.option_strings if o.startswith("--"))


@pytest.fixture(scope="module")
def parsers() -> dict[str, argparse.ArgumentParser]:
    import sys

    runtime = Runtime(console=Console(out=sys.stdout, err=sys.stderr), environ={})
    return {"qserver": build_parser(runtime), "qserver-worker": worker_parser()}


@pytest.mark.parametrize("program", ["qserver", "qserver-worker"])
@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_has_every_command_and_option(
    parsers: dict[str, argparse.ArgumentParser], program: str, shell: str
) -> None:
    script = completion_script(parsers[program], shell)
    assert [name for name in options(parsers[program]) if name not in script] == []


def completed(script: str, line: str) -> set[str]:
    """What bash would offer at the end of a line."""
    words = line.split(" ")
    program = f"""
{script}
COMP_WORDS=({" ".join(words[:-1])} "{words[-1]}")
COMP_CWORD={len(words) - 1}
COMP_LINE="{line}"
COMP_POINT=${{#COMP_LINE}}
$(complete -p qserver | sed 's/.*-F \\([^ ]*\\) .*/\\1/') qserver "{words[-1]}" ""
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    ended = subprocess.run(
        ["bash", "--norc", "-c", program], capture_output=True, text=True, check=True
    )
    return set(ended.stdout.split())


def test_bash_completes_commands_options_and_choices(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["completion", "bash"], environ={}) == 0
    script = capsys.readouterr().out
    assert completed(script, "qserver da") == {"dataset"}
    assert completed(script, "qserver dataset ") >= {"list", "show"}
    assert completed(script, "qserver history --c") == {"--csv"}
    assert completed(script, "qserver completion f") == {"fish"}
    (tmp_path / "here").mkdir()
    assert completed(script, f"qserver serve --state {tmp_path}/h") == {f"{tmp_path}/here"}


def test_a_shell_that_nothing_is_made_for_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["completion", "csh"], environ={})
    assert caught.value.code == 2
    assert "choose from bash, zsh, fish" in capsys.readouterr().err.replace("'", "")
