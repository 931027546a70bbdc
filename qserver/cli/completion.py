"""`qserver completion`: the script by which a shell completes our command lines."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from qserver.cli.runtime import Commands, ExitCode, Runtime
from qserver.program import SHELLS, completion_script

_TEXT = """\
Print the script by which a shell completes commands and options of `qserver`; `qserver-worker
completion` is the same for the worker.

  bash  qserver completion bash > ~/.local/share/bash-completion/completions/qserver
  zsh   qserver completion zsh > _qserver, in a folder of $fpath
  fish  qserver completion fish > ~/.config/fish/completions/qserver.fish
"""


def register(
    commands: Commands, build_parser: Callable[[Runtime], argparse.ArgumentParser]
) -> None:
    """Add `completion` to the command line whose parser `build_parser` makes."""
    parser = commands.add_parser(
        "completion",
        help="complete command lines in a shell",
        description=_TEXT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS)

    def run(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
        runtime.console.line(completion_script(build_parser(runtime), args.shell).rstrip("\n"))
        return ExitCode.OK

    parser.set_defaults(run=run)
