"""The options of the commands on this machine's store: demo, serve, doctor, metrics.

The options are apart from the code of the commands. A command that only talks HTTP therefore starts
without loading Redis and numerics.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from qserver.cli.runtime import REDIS_HELP, Commands, ExitCode, Runtime, add_store_options
from qserver.program.start import loading

_DEMO = """\
Run everything on this machine over the UCI Adult data, which come with the package: a durable
store, a worker that holds the data, and HTTP. The first start on a state folder attaches the data;
later ones go on with the budget that was left and the answers that were released. --weekly serves
flights from New York instead: some weeks are sealed, and a command appends the next one.
"""
_SERVE = """\
Answer over HTTP from a store: a Redis 7.2+ or Valkey 8+ server given by --redis-url or
QSERVER_REDIS_URL, or a server of our own on the folder given by --state. Whoever owns the private
data runs `qserver-worker` beside it; without a worker only history answers. Every request needs
the token of an account (`qserver account create`), unless --open is given.
"""
_DOCTOR = """\
Check what a server stands on: the state folder, the store (reachable, new enough, durable), the
workers, HTTP and the numeric libraries. Each fault comes with what to do. Nothing is changed.
"""
_METRICS = """\
Answer Prometheus: requests as the HTTP processes count them in QSERVER_METRICS_DIR, and budgets,
queues and workers as the store has them.
"""


def register(commands: Commands, runtime: Runtime) -> None:
    """Add the commands to the command line."""
    _register_demo(commands, runtime)
    _register_serve(commands, runtime)
    _register_doctor(commands, runtime)
    _register_metrics(commands, runtime)


def _register_demo(commands: Commands, runtime: Runtime) -> None:
    parser = commands.add_parser("demo", help="run everything over public data", description=_DEMO)
    _add_address(parser)
    default = runtime.default_state_dir
    parser.add_argument(
        "--state", type=Path, default=default, metavar="DIR", help=_state_help(default)
    )
    parser.add_argument(
        "--limit",
        default="2",
        metavar="E",
        help="limit of the budget in epsilon; taken at the first start on a state folder "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--weekly",
        action="store_true",
        help="data that arrive by the week: flights, with the command that appends the next week",
    )
    _add_postgres(parser)
    parser.set_defaults(run=_run_demo, open=True)


def _register_serve(commands: Commands, runtime: Runtime) -> None:
    parser = commands.add_parser("serve", help="answer over HTTP from a store", description=_SERVE)
    _add_address(parser)
    is_named = bool(runtime.environ.get("QSERVER_REDIS_URL"))
    store = parser.add_mutually_exclusive_group(required=not is_named)
    store.add_argument("--redis-url", metavar="URL", help=REDIS_HELP)
    store.add_argument(
        "--state", type=Path, metavar="DIR", help="start a store of its own in this folder"
    )
    parser.add_argument(
        "--open",
        action="store_true",
        help="ask for no tokens: whoever is on this machine may ask and spend",
    )
    _add_postgres(parser)
    parser.set_defaults(run=_run_serve)


def _register_doctor(commands: Commands, runtime: Runtime) -> None:
    parser = commands.add_parser("doctor", help="check this installation", description=_DOCTOR)
    parser.add_argument("--redis-url", metavar="URL", help=REDIS_HELP)
    default = runtime.default_state_dir
    parser.add_argument(
        "--state", type=Path, default=default, metavar="DIR", help=_state_help(default)
    )
    parser.add_argument("--url", metavar="URL", help="address of a server to check as well")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.set_defaults(run=_run_doctor)


def _register_metrics(commands: Commands, runtime: Runtime) -> None:
    parser = commands.add_parser("metrics", help="answer Prometheus", description=_METRICS)
    add_store_options(parser, runtime)
    parser.add_argument(
        "--host", metavar="ADDRESS", help="default 127.0.0.1; no token is asked for on any other"
    )
    parser.add_argument("--port", type=int, metavar="N", help="default 9464")
    parser.set_defaults(run=_run_metrics)


def _state_help(default: Path) -> str:
    # argparse treats % in a help text as a format.
    shown = str(default).replace("%", "%%")
    return f"folder of the store and of the worker's private files (default: {shown})"


def _add_address(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host", metavar="ADDRESS", help="default 127.0.0.1; where access is open that or ::1"
    )
    parser.add_argument(
        "--port", type=int, metavar="N", help="default 8000; 0 takes a free one and prints it"
    )


def _add_postgres(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--postgres",
        type=int,
        metavar="PORT",
        help="also answer clients of PostgreSQL on this port; 0 takes a free one and prints it",
    )


def _run_demo(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    with loading():
        from qserver.cli.local.demo import run

    return run(args, runtime)


def _run_serve(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    with loading():
        from qserver.cli.local.serve import run

    return run(args, runtime)


def _run_metrics(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    from qserver.cli.local.exporter import run

    return run(args, runtime)


def _run_doctor(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    from qserver.cli.local.doctor import run

    return run(args, runtime)
