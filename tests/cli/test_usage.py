"""The command line by itself: wrong usage, help, exit codes and its version."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

import pytest

from qserver import __version__
from qserver.cli.console import Console
from qserver.cli.main import build_parser, main
from qserver.cli.runtime import EXIT_CODES_HELP, ExitCode, Runtime


@pytest.mark.parametrize(
    "url",
    ["", "127.0.0.1:8000", "ftp://host", "http://", "http://user:secret@host", "http://h:99999"],
)
def test_a_malformed_url_is_a_usage_error_that_repeats_no_password(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dataset", "list", "--url", url], environ={}) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert "invalid_config: `url` must" in error
    assert "secret" not in error


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["query", "adult"],
        ["query", "adult", "--length", "nan"],
        ["query", "adult", "--length", "ten"],
        ["dataset"],
        ["serve"],
        ["serve", "--state", "a", "--redis-url", "unix:///b"],
    ],
)
def test_a_wrong_command_line_ends_with_the_usage_code(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments, environ={})
    assert caught.value.code == ExitCode.USAGE
    assert "usage: qserver" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        "",
        "demo",
        "serve",
        "doctor",
        "dataset",
        "dataset list",
        "dataset show",
        "budget",
        "query",
        "explain",
        "probability",
        "workload",
        "account",
        "account create",
        "account list",
        "account renew",
        "account revoke",
        "account allow",
        "audit",
        "audit export",
        "audit verify",
    ],
)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    environ: Mapping[str, str] = {"XDG_STATE_HOME": "/a%b"}
    with pytest.raises(SystemExit) as caught:
        main([*command.split(), "--help"], environ=environ)
    assert caught.value.code == 0
    assert f"usage: qserver {command}".strip() in capsys.readouterr().out


def test_the_help_explains_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"], environ={})
    output = capsys.readouterr().out
    explained = {line.split()[0] for line in EXIT_CODES_HELP.splitlines()[1:]}
    assert explained == {str(int(code)) for code in ExitCode}
    assert EXIT_CODES_HELP.strip() in output


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"], environ={})
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"qserver {__version__}\n"


def test_the_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "qserver.cli", "--version"]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout == f"qserver {__version__}\n"


def test_serve_takes_its_store_from_the_environment() -> None:
    """So that no password of it stands on a command line; without one `serve` alone is wrong."""
    environ = {"QSERVER_REDIS_URL": "redis://web:secret@store"}
    parser = build_parser(Runtime(Console(sys.stdout, sys.stderr), environ))
    assert parser.parse_args(["serve"]).redis_url is None
