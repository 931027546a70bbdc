"""The command line `qserver`: its parser, errors and exit codes; each command has its own file.

`qserver completion`: the script by which a shell completes our command lines.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

from qserver import __version__
from qserver.cli import datasets, jobs, models, plot, questions, sql, workloads
from qserver.cli.console import Console, wants_colour
from qserver.cli.local import accounts, audit
from qserver.cli.local import options as local
from qserver.cli.remote_commands import in_flags
from qserver.cli.runtime import EXIT_CODES_HELP, Commands, ExitCode, Programs, Runtime, exit_code_of
from qserver.errors import QServerError
from qserver.program.start import SHELLS, completion_script

_DESCRIPTION = """\
Linear counting queries over private data, answered with a credible interval as short as you ask, at
the confidence you ask. Budget is spent only where the answers released before cannot give that.
"""
_INTERRUPTED = 130
_PIPE_CLOSED = 141


def main(argv: Sequence[str] | None = None, *, environ: Mapping[str, str] | None = None) -> int:
    """Run one command line, and return its exit code.

    Args:
        argv: the arguments; by default those of the process.
        environ: the environment; by default that of the process.
    """
    given = os.environ if environ is None else environ
    console = Console(out=sys.stdout, err=sys.stderr, may_colour=wants_colour(given))
    # Without `argv`, the path that started this process can be typed again.
    programs = Programs.of(sys.argv[0] if argv is None else "", given)
    runtime = Runtime(console=console, environ=given, programs=programs)
    args = build_parser(runtime).parse_args(argv)
    if getattr(args, "quiet", False):
        runtime = replace(runtime, console=replace(console, quiet=True))
    try:
        code: ExitCode = args.run(args, runtime)
    except QServerError as exc:
        from qserver.client.errors import NotDoneError, ServerProblemError

        console.warn(exc.code, programs.spelt(in_flags(exc, args)))
        if isinstance(exc, NotDoneError):
            jobs.note_left(args, runtime, exc.job)
        if isinstance(exc, ServerProblemError):
            questions.show_problem(console, exc)
        return exit_code_of(exc)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone. Suppress the second failure at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    return code


def build_parser(runtime: Runtime) -> argparse.ArgumentParser:
    """The parser of all commands; each sets `run(args, runtime) -> ExitCode`."""
    parser = argparse.ArgumentParser(
        prog="qserver",
        description=_DESCRIPTION,
        epilog=EXIT_CODES_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"qserver {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    local.register(commands, runtime)
    datasets.register(commands, runtime)
    questions.register(commands, runtime)
    workloads.register(commands, runtime)
    sql.register(commands, runtime)
    plot.register(commands, runtime)
    audit.register_structure(commands, runtime)
    models.register(commands, runtime)
    accounts.register(commands, runtime)
    audit.register(commands, runtime)
    jobs.register(commands, runtime)
    _register_completion(commands)
    return parser


_TEXT = """\
Print the script by which a shell completes commands and options of `qserver`; `qserver-worker
completion` is the same for the worker.

  bash  qserver completion bash > ~/.local/share/bash-completion/completions/qserver
  zsh   qserver completion zsh > _qserver, in a folder of $fpath
  fish  qserver completion fish > ~/.config/fish/completions/qserver.fish
"""


def _register_completion(commands: Commands) -> None:
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


if __name__ == "__main__":
    sys.exit(main())
