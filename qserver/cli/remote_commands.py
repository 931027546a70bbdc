"""What the commands that talk to a server share: options, sending, and showing replies."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from qserver.cli.conditions import where_document
from qserver.cli.console import Console
from qserver.cli.runtime import ExitCode, Runtime
from qserver.errors import ConfigError, InputError, QServerError
from qserver.query import request_fields as fields
from qserver.query.asking.after_looking import RULES, Selection
from qserver.query.asking.method_and_prior import Reading, prior_of
from qserver.query.request_fields import Field, told

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
    """Add `--url`, `--timeout`, `--json` and `--quiet` to a command; `run` carries it out.

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


class _ByFlag(argparse.Action):
    """Stores the value of a flag."""

    def __init__(self, *, values: Mapping[str, str], **more: Any) -> None:
        super().__init__(nargs=0, **more)
        self._values = values

    def format_usage(self) -> str:
        return " | ".join(self.option_strings)

    def __call__(self, _parser: Any, args: Any, _typed: Any, option: str | None = None) -> None:
        setattr(args, self.dest, self._values[option or ""])


def add_fields(
    parser: argparse.ArgumentParser,
    *asked: Field,
    to: argparse._ActionsContainer | None = None,
    may_lack: bool = False,
    more: str = "",
) -> None:
    """Add the flags of fields, and note their names for refusals.

    Args:
        to: the group of the parser that gets them.
        may_lack: whether what a request needs may be left out here, and is not sent then.
        more: what else the help says.
    """
    named = {name: field.flag for field in asked for name in (field.name, field.member)}
    words = {**_WORDS, **(parser.get_default("flags") or {}), **named}
    parser.set_defaults(flags=words)
    for field in asked:
        about = told(field.about, words | {v: k for k, v in field.flags.items()}, "{}") + more
        usual = field.usual if field.default is fields.NEEDED else field.default
        if isinstance(usual, str | int | float) and field.kind != "truth" and not may_lack:
            about += f" (default: {usual})"
        names = tuple(field.flags) or (field.flag,)
        (to or parser).add_argument(
            *names, dest=field.member, help=about, **_read_as(field, usual, may_lack=may_lack)
        )


def _read_as(field: Field, usual: Any, *, may_lack: bool) -> dict[str, Any]:
    """How argparse reads a field; `usual`: the value if the field is left out."""
    if field.kind == "truth":
        return {"action": "store_false" if field.default else "store_true"}
    if field.flags:
        return {"action": _ByFlag, "values": field.flags}
    if field.kind == "texts":
        return {
            "metavar": field.unit,
            "action": "append",
            "default": None if usual is None else list(usual),
        }
    found: dict[str, Any] = {"metavar": field.unit, "default": None if may_lack else usual}
    found["required"] = field.default is fields.NEEDED and usual is None and not may_lack
    if field.kind == "pair":
        found |= {"nargs": 2, "metavar": ("A", "B"), "type": number}
    if field.choices and field.kind != "prior":
        found["choices"] = tuple(field.choices)
    elif field.kind in _READERS:
        found["type"] = _READERS[field.kind]
    return found


def given(args: argparse.Namespace, *asked: Field) -> dict[str, Any]:
    """The typed values of these fields, by name."""
    return {field.member: getattr(args, field.member) for field in asked}


def in_flags(error: QServerError, args: argparse.Namespace) -> str:
    """The message of a refusal, with flags in place of a command's field names."""
    flags: dict[str, str] = getattr(args, "flags", {})
    rule = next((rule for rule in RULES if getattr(args, f"{rule}_of", None) is not None), "any")
    flags = flags | dict.fromkeys(
        (fields.SELECTED_FROM.name, fields.AMONG.name, "m"), f"--{rule}-of"
    )
    facts = getattr(error, "facts", {}).get("errors") or [{"field": getattr(error, "name", "")}]
    if facts[0]["field"] not in flags:
        return str(error)
    return told(str(error), {name: f"`{flag}`" for name, flag in flags.items()})


def add_looking(parser: argparse.ArgumentParser, *, may_measure_anew: bool) -> None:
    """`--largest-of`, `--least-of`, `--any-of` and `--first`; `--independent` for one question."""
    group = parser.add_mutually_exclusive_group()
    for rule in RULES:
        about = "the same" if rule != RULES[0] else fields.SELECTED_FROM.about
        about += f": {fields.RULE.choices[rule]} of M"
        group.add_argument(f"--{rule}-of", type=int, metavar=fields.AMONG.unit, help=about)
    if may_measure_anew:
        add_fields(parser, fields.INDEPENDENT, to=group)
    add_fields(parser, fields.FIRST, may_lack=True)


def selection_of(args: argparse.Namespace) -> Selection | None:
    """The choice of `add_looking`'s options; InputError if it means nothing."""
    for rule in RULES:
        m = getattr(args, f"{rule}_of")
        if m is not None:
            try:
                return Selection(m, rule, 1 if args.first is None else args.first)
            except InputError as exc:
                raise exc.under("selected_from") from exc
    if args.first is not None:
        raise ConfigError("--first", "come with --largest-of or --least-of")
    return None


def add_reading(parser: argparse.ArgumentParser) -> None:
    """`--method`, `--step`, `--draws`, `--error` and `--prior`."""
    add_fields(parser, fields.METHOD, fields.STEP, fields.DRAWS, fields.ERROR)
    add_fields(parser, fields.PRIOR, more="; two ends are A,B (--prior=A,B where A is negative)")


def reading_of(args: argparse.Namespace) -> dict[str, Any]:
    """The reading of a posterior by `add_reading`'s options; InputError names a wrong one."""
    prior = None if args.prior is None else prior_of(args.prior)
    Reading(args.method, args.step, args.draws, args.error, prior)
    return given(args, *fields.READING)


def _prior(text: str) -> str | dict[str, list[float]]:
    """A prior from the command line."""
    ends = text.split(",")
    return {"between": [number(end) for end in ends]} if len(ends) == 2 else text


_WORDS = {field.name: field.flag for field in fields.QUESTION}
_READERS: Mapping[str, Callable[[str], Any]] = {"number": number, "whole": int, "prior": _prior}


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
    """The request of `add_ledger_options`."""
    from qserver.client import requests

    where = where_document(args.where) if args.where else None
    return requests.ledger(args.dataset, attribute=args.attribute, where=where)


def url_of(args: argparse.Namespace) -> str:
    """The server's address: `--url`, or a local demo's."""
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
    """Show a reply by `show`; with `--json` as JSON, with `--csv` by `rows`."""
    if args.json:
        runtime.console.line(reply.text.rstrip("\n"))
    elif rows is not None and args.csv:
        runtime.console.csv(*rows(reply.document))
    else:
        show(runtime.console, reply.document)
    return ExitCode.OK
