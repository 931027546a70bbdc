"""The runtime of every command, the exit codes, and how hints spell our programs.

Hints are ready to paste: `.venv/bin` is rarely on the path.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from shlex import quote
from typing import TypeAlias

from qserver.cli.console import Console
from qserver.config import Settings
from qserver.errors import InputError, QServerError

# A command within a sentence.
_COMMAND = re.compile(r"`(qserver(?:-worker)?)(?= [a-z])")


@dataclass(frozen=True)
class Programs:
    """Our programs in the folder of the one that runs.

    Args:
        started: the path that started this program, or '' if unknown.
        interpreter: path of Python, whose folder has the installed programs.
        search_path: folders that a shell searches, as in PATH.
    """

    started: str = ""
    interpreter: str = ""
    search_path: str = ""

    @classmethod
    def of(cls, started: str, environ: Mapping[str, str]) -> Programs:
        """The programs of a process with this environment."""
        return cls(started, sys.executable if started else "", environ.get("PATH", ""))

    def typed(self, name: str) -> str:
        """How to type a program: its name if a shell finds this very program, else its path.

        The path is in the folder of the running program or, for a module that Python runs, in the
        folder of Python. It is quoted for a shell.
        """
        places = (Path(at).with_name(name) for at in (self.started, self.interpreter) if at)
        beside = next(filter(Path.is_file, places), None)
        if beside is None:
            return name
        found = shutil.which(name, path=self.search_path) if self.search_path else None
        if found is not None and Path(found).samefile(beside):
            return name
        text = str(beside)
        # A shell would search the path for a bare name.
        return quote(text if "/" in text else f"./{text}")

    def spelt(self, text: str) -> str:
        """The sentence, with its commands in backquotes as a shell takes them."""
        return _COMMAND.sub(lambda found: f"`{self.typed(found[1])}", text)


Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""The place in the command line where a group adds its commands."""


class ExitCode(IntEnum):
    """How a command ended; `EXIT_CODES_HELP` explains the codes to people."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    REFUSED = 3
    UNREACHABLE = 4
    NOT_NOW = 5
    IN_USE = 6


EXIT_CODES_HELP = """\
exit codes:
  0  done
  1  failed
  2  the command line, a setting or the question is wrong
  3  refused by the budget, your allowance, a guard or a gate
  4  no server answers at the URL
  5  not now: no worker, no store, too many requests, or the job is not done yet
  6  the port or the state folder is in use
"""

_CODES = {
    "budget_exhausted": ExitCode.REFUSED,
    "over_at_most": ExitCode.REFUSED,
    "allowance_exhausted": ExitCode.REFUSED,
    "pace_exceeded": ExitCode.REFUSED,
    "rate_limited": ExitCode.NOT_NOW,
    "disclosure_guard": ExitCode.REFUSED,
    "claim_guard": ExitCode.REFUSED,
    "period_retired": ExitCode.REFUSED,
    "unconfirmed": ExitCode.REFUSED,
    "unreachable": ExitCode.UNREACHABLE,
    "no_worker": ExitCode.NOT_NOW,
    "snapshot_replaced": ExitCode.NOT_NOW,
    "busy": ExitCode.NOT_NOW,
    "not_done": ExitCode.NOT_NOW,
    "store_unavailable": ExitCode.NOT_NOW,
    "store_error": ExitCode.NOT_NOW,
    "fenced": ExitCode.NOT_NOW,
    "stale_version": ExitCode.NOT_NOW,
    "state_in_use": ExitCode.IN_USE,
    "port_in_use": ExitCode.IN_USE,
}


@dataclass(frozen=True)
class Runtime:
    """The environment of a command, passed in so that tests can pass their own.

    Args:
        console: gets the output.
        environ: the environment variables.
        clock: seconds, monotonic.
        sleep: waits for so many seconds.
        programs: how to type the commands of hints.
    """

    console: Console
    environ: Mapping[str, str]
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    programs: Programs = field(default_factory=Programs)

    def command(self, text: str) -> None:
        """Show one of our commands on its own line, ready to paste."""
        name, _, rest = text.partition(" ")
        self.console.line(f"  {self.programs.typed(name)} {rest}")

    @property
    def token(self) -> str:
        """QSERVER_TOKEN, or '' for none.

        A token is no option of the command line: other users of the machine could read it there.
        """
        return self.environ.get("QSERVER_TOKEN", "").strip()

    @property
    def user_folder(self) -> Path:
        """The user's folder in XDG_STATE_HOME, or in ~/.local/state."""
        home = Path(self.environ.get("XDG_STATE_HOME") or "")
        # The XDG specification says to ignore relative paths.
        base = home if home.is_absolute() else Path.home() / ".local" / "state"
        return base / "qserver"

    @property
    def default_state_dir(self) -> Path:
        """The demo's folder."""
        return self.user_folder / "demo"


def exit_code_of(error: QServerError) -> ExitCode:
    """The exit code for `error`, by its stable code."""
    if isinstance(error, InputError) or error.code.startswith("invalid_"):
        return ExitCode.USAGE
    return _CODES.get(error.code, ExitCode.FAILURE)


REDIS_HELP = "unix://, redis://, rediss:// (TLS) or redis+sentinel:// address of the store"


def add_store_options(parser: argparse.ArgumentParser, runtime: Runtime) -> None:
    """Add `--redis-url` and `--state`, for the owner's commands on a store."""
    parser.add_argument("--redis-url", metavar="URL", help=REDIS_HELP)
    default = runtime.default_state_dir
    shown = str(default).replace("%", "%%")
    parser.add_argument(
        "--state",
        type=Path,
        default=default,
        metavar="DIR",
        help="folder of a store of ours that runs; without it and --redis-url the store is that "
        f"of QSERVER_REDIS_URL, or of the demo ({shown})",
    )


def store_settings(args: argparse.Namespace, runtime: Runtime, **more: object) -> Settings:
    """The settings of the store that the options or the environment name, with `more` settings.

    The store may not be running; opening it will tell.
    """
    named = args.redis_url
    if named is None and args.state == runtime.default_state_dir:
        named = runtime.environ.get("QSERVER_REDIS_URL")
    return Settings.from_environment(
        runtime.environ, redis_url=named or "", state_dir=args.state.absolute(), **more
    )
