"""What the commands that talk to a server share: options, sending, and showing replies."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from qserver.cli.conditions import where_document
from qserver.cli.console import Console
from qserver.cli.runtime import ExitCode, Runtime
from qserver.errors import ConfigError, InputError
from qserver.query.asking.reading import METHODS, USUAL_ERROR, Reading, prior_of
from qserver.query.looking import RULES, Selection
from qserver.query.requirement import Measure

if TYPE_CHECKING:
    from qserver.client.clients import SyncDriver
    from qserver.client.flows import Exchange
    from qserver.client.http import Reply


Rows: TypeAlias = tuple[Sequence[str], Iterable[Sequence[Any]]]
"""A header and rows, with numbers as the server sent them."""


def number(text: str) -> float:
    """A finite number; ValueError otherwise."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def add_server_options(
    parser: argparse.ArgumentParser,
    runtime: Runtime,
    run: Callable[[argparse.Namespace, Runtime], ExitCode],
    *,
    has_rows: bool = False,
) -> None:
    """Add `--url`, `--timeout`, `--json` and `--quiet` to a command that `run` carries out.

    Args:
        has_rows: whether it shows rows; then `--csv` too.
    """
    parser.add_argument(
        "--url",
        default=runtime.environ.get("QSERVER_URL") or None,
        help="address of the server (default: QSERVER_URL, or http://127.0.0.1:8000)",
    )
    parser.add_argument(
        "--timeout",
        type=number,
        default=60.0,
        metavar="S",
        help="how long to wait, in seconds (default: %(default)g)",
    )
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print the server's JSON")
    if has_rows:
        shape.add_argument("--csv", action="store_true", help="print CSV, numbers in full")
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="print the result alone: no cost, no remarks"
    )
    parser.set_defaults(run=run)


def add_only_this(parser: argparse.ArgumentParser) -> None:
    """`--only-this` and `--no-only-this`; without either the dataset's owner decides."""
    parser.add_argument(
        "--only-this",
        action=argparse.BooleanOptionalAction,
        help="measure nothing for later questions, or let the planner buy tables that these use "
        "too (default: as the dataset's owner says)",
    )


def chosen_of(args: argparse.Namespace) -> Measure | None:
    """The choice that `add_only_this` reads; None for the owner's."""
    if args.only_this is None:
        return None
    return "only_this" if args.only_this else "auto"


def add_as_of(parser: argparse.ArgumentParser) -> None:
    """`--as-of`, for data that arrive over time."""
    parser.add_argument(
        "--as-of",
        metavar="PERIOD",
        help="where data arrive over time: the last period to count (default: the last sealed one)",
    )


def add_looking(parser: argparse.ArgumentParser, *, may_measure_anew: bool) -> None:
    """`--largest-of`, `--least-of`, `--any-of` and `--first`; `--independent` for one question."""
    group = parser.add_mutually_exclusive_group()
    for rule in RULES:
        group.add_argument(
            f"--{rule}-of",
            type=int,
            metavar="M",
            help="state intervals that hold for the largest of M numbers that were looked at"
            if rule == "largest"
            else f"the same for {'the least' if rule == 'least' else 'any choice'}",
        )
    if may_measure_anew:
        group.add_argument(
            "--independent",
            action="store_true",
            help="measure anew, with noise that is combined with nothing; charged each time",
        )
    parser.add_argument(
        "--first", type=int, metavar="K", help="of the K largest or least, all at once"
    )


def selection_of(args: argparse.Namespace) -> Selection | None:
    """The choice that `add_looking` reads; ConfigError names the option that is wrong."""
    for rule in RULES:
        m = getattr(args, f"{rule}_of")
        if m is None:
            continue
        try:
            return Selection(m, rule, 1 if args.first is None else args.first)
        except InputError as exc:
            name = "--first" if exc.name == "first" else f"--{rule}-of"
            raise ConfigError(name, exc.condition, hint=exc.hint) from exc
    if args.first is not None:
        raise ConfigError("--first", "come with --largest-of or --least-of")
    return None


def add_reading(parser: argparse.ArgumentParser) -> None:
    """`--method`, `--step`, `--draws`, `--error` and `--prior`."""
    parser.add_argument(
        "--method",
        choices=METHODS,
        default="auto",
        help="how probabilities are computed: by the exact law, or by an algorithm of the paper",
    )
    parser.add_argument(
        "--step", type=number, metavar="S", help="of convolution's lattice, in records"
    )
    parser.add_argument("--draws", type=int, metavar="N", help="of monte-carlo")
    parser.add_argument(
        "--error", type=number, metavar="E", help="numerical error of probabilities that is wanted"
    )
    parser.add_argument(
        "--prior",
        type=_prior,
        metavar="PRIOR",
        help="what is held true beforehand: non-negative, known-total, or A,B for between A and B "
        "(--prior=A,B where A is negative)",
    )


def reading_of(args: argparse.Namespace) -> dict[str, Any]:
    """How a posterior is read, by the options of `add_reading`; ConfigError names a wrong one."""
    found = {name: getattr(args, name) for name in ("method", "step", "draws", "error", "prior")}
    try:
        prior = None if args.prior is None else prior_of(args.prior)
        Reading(
            args.method,
            args.step,
            args.draws,
            USUAL_ERROR if args.error is None else args.error,
            prior,
        )
    except InputError as exc:
        raise ConfigError(f"--{exc.name}", exc.condition, hint=exc.hint) from exc
    return found


def _prior(text: str) -> str | dict[str, list[float]]:
    """A prior as the command line has it."""
    ends = text.split(",")
    return {"between": [number(end) for end in ends]} if len(ends) == 2 else text


def add_where(parser: argparse.ArgumentParser) -> None:
    """Add `--where`, which may be repeated."""
    parser.add_argument(
        "--where", action="append", default=[], metavar="CONDITION", help="see below"
    )


def add_ledger_options(parser: argparse.ArgumentParser) -> None:
    """Add the dataset, `--attribute` and `--where`."""
    parser.add_argument("dataset", metavar="DATASET")
    parser.add_argument("--attribute", metavar="NAME", help="the loss by value of an attribute")
    add_where(parser)


def ledger_of(args: argparse.Namespace) -> Exchange[Mapping[str, Any]]:
    """The request for the options of `add_ledger_options`."""
    from qserver.client import requests

    where = where_document(args.where) if args.where else None
    return requests.ledger(args.dataset, attribute=args.attribute, where=where)


def url_of(args: argparse.Namespace) -> str:
    """The server's address: `--url`, or that of a local demo."""
    from qserver.client.http import DEFAULT_URL

    return DEFAULT_URL if args.url is None else str(args.url)


def driver_of(args: argparse.Namespace, runtime: Runtime) -> SyncDriver:
    """The driver that sends requests to the server of the command line, each once."""
    from qserver.client.clients import SyncDriver
    from qserver.client.flows import Patience
    from qserver.client.http import HttpClient

    http = HttpClient(url_of(args), timeout_s=args.timeout, token=runtime.token)
    patience = Patience(0, args.timeout, runtime.clock, always_keyed=False)
    return SyncDriver(http, patience, runtime.sleep)


def reply_to(exchange: Exchange[Any], args: argparse.Namespace, runtime: Runtime) -> Reply:
    """The server's reply; progress is shown meanwhile.

    Raises:
        NotDoneError: the time is over.
        ServerProblemError: the server refused, or the job failed.
    """
    driver = driver_of(args, runtime)
    awaited = "answer" if exchange.may_take_long else "server"
    with runtime.console.progress(f"Waiting for the {awaited}"):
        return driver.reply(exchange)


def show_reply(
    reply: Reply,
    show: Callable[[Console, Mapping[str, Any]], None],
    args: argparse.Namespace,
    runtime: Runtime,
    *,
    rows: Callable[[Mapping[str, Any]], Rows] | None = None,
) -> ExitCode:
    """Show a reply by `show`; with `--json` as the server's JSON, with `--csv` by `rows`."""
    if args.json:
        runtime.console.line(reply.text.rstrip("\n"))
    elif rows is not None and args.csv:
        runtime.console.csv(*rows(reply.document))
    else:
        show(runtime.console, reply.document)
    return ExitCode.OK
