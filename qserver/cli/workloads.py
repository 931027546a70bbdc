"""`qserver workload`: ask many questions as one, or show their price."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping
from typing import Any

from qserver.cli.conditions import read_json
from qserver.cli.console import Console, cost_text, interval_text, percent_text
from qserver.cli.questions import (
    SOURCES,
    answer_rows,
    show_cost,
    show_curve,
    show_price,
    show_remarks,
)
from qserver.cli.remote_commands import (
    add_fields,
    add_looking,
    add_server_options,
    given,
    number,
    reply_to,
    selection_of,
    show_reply,
)
from qserver.cli.runtime import Commands, ExitCode, Runtime
from qserver.errors import ConfigError
from qserver.query import request_fields as fields
from qserver.query.asking.after_looking import Selection, chosen_text
from qserver.records.codec import plain, read

_NAME = "FILE|JSON"
_TEXT = """\
Ask many questions as one: planned, paid and measured together, all of them or none. The questions
are a JSON list such as [{"query": {"where": {"sex": "Female"}}}, ...]; each may have a `length` and
a `confidence` of its own.
"""
_REQUIREMENTS = ("length", "confidence")


def register(commands: Commands, runtime: Runtime) -> None:
    """Add `workload` to the command line."""
    parser = commands.add_parser("workload", help="ask many questions as one", description=_TEXT)
    parser.add_argument("dataset", metavar="DATASET")
    parser.add_argument(
        "questions", metavar=_NAME, help="the questions, or a file with them; - reads them"
    )
    add_fields(
        parser, fields.LENGTH, fields.CONFIDENCE, may_lack=True, more=", where a question has none"
    )
    add_fields(parser, *fields.WORKLOAD, fields.MEASURE)
    add_looking(parser, may_measure_anew=False)
    add_fields(parser, fields.EXPLAIN)
    add_server_options(parser, runtime, run_workload, has_rows=True)


def run_workload(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Ask, or show the price."""
    from qserver.client.flows import Call, Exchange, answered
    from qserver.client.http import Reply
    from qserver.client.requests import path_of

    document = _document(args)
    asked = Exchange(Call(path_of(args.dataset, "workload"), document), dict, answered)
    if args.explain:
        reply = reply_to(asked.explained(dict), args, runtime)
        return show_reply(reply, _show_price, args, runtime)
    reply = reply_to(asked, args, runtime)
    if document.get("consistent") and reply.document.get("consistent") is None:
        # The result of a job has none; history now answers the same without charge.
        again = reply_to(asked, args, runtime)
        merged = {**reply.document, "consistent": again.document.get("consistent")}
        reply = Reply(text=json.dumps(merged), document=merged)
    return show_reply(reply, show_answers, args, runtime, rows=lambda a: answer_rows(a["answers"]))


def _document(args: argparse.Namespace) -> dict[str, Any]:
    """The body of a workload; options replace the requirements that the JSON has for all."""
    wanted = read_json(args.questions, stdin=sys.stdin, name=_NAME)
    if isinstance(wanted, list):
        wanted = {"questions": wanted}
    if not isinstance(wanted, dict) or not isinstance(wanted.get("questions"), list):
        raise ConfigError(_NAME, "be a list of questions, or an object with `questions`")
    document: dict[str, Any] = {
        "confidence": 0.95,
        **_with_numbers(wanted),
        "questions": [_with_numbers(q) if isinstance(q, dict) else q for q in wanted["questions"]],
    }
    asked = given(args, *fields.EXACTNESS, *fields.WORKLOAD)
    document |= {
        name: value for name, value in asked.items() if value is not None and value is not False
    }
    if (selection := selection_of(args)) is not None:
        document["selected_from"] = plain(selection)
    return document


def _with_numbers(given: Mapping[str, Any]) -> dict[str, Any]:
    """The members with numbers for decimals that were read as texts."""
    found = dict(given)
    for name in _REQUIREMENTS:
        if isinstance(found.get(name), str):
            try:
                found[name] = number(found[name])
            except ValueError as exc:
                raise ConfigError(name, "be a number", found[name]) from exc
    return found


def show_answers(console: Console, answer: Mapping[str, Any]) -> None:
    """The answers of a workload as a table, with remarks."""
    nearest = answer.get("consistent")
    rows = []
    for i, one in enumerate(answer["answers"]):
        low, high = one["interval"]
        text = interval_text(estimate=one["estimate"], low=low, high=high)
        source = SOURCES.get(one["source"], one["source"])
        row = [str(i + 1), text.low, text.high, text.estimate, percent_text(one["confidence"])]
        if nearest is not None:
            value = nearest["estimates"][i]
            row.append(interval_text(estimate=value, low=low, high=high).estimate)
        rows.append((*row, source))
    header = ["question", "low", "high", "estimate", "percent"]
    header += ["consistent"] if nearest is not None else []
    console.table((*header, "source"), rows)
    together = answer["simultaneous"]
    if together is not None:
        percent = percent_text(_rounded_down(together["confidence"]))
        console.aside(f"all at once with {percent} percent confidence ({together['method']})")
    _show_looking(console, answer)
    show_remarks(console, answer)
    show_cost(console, answer)


def _show_looking(console: Console, answer: Mapping[str, Any]) -> None:
    """What holds after looking at all answers, and its law, a line each."""
    from qserver.client.tables import Table

    told = answer["answers"][0].get("selected_from")
    if chosen := chosen_text(told and read(Selection, told)):
        console.aside(f"each{chosen}")
    table = Table.of_workload(answer, [str(i + 1) for i in range(len(answer["answers"]))])
    for line in (table.looking, table.laws):
        if line:
            console.aside(line)


def _rounded_down(probability: float) -> float:
    """A certified confidence, rounded down to four decimals unless that would hide it."""
    rounded = math.floor(probability * 1e4) / 1e4
    return rounded if rounded > 0.0 and probability < 0.999 else probability


def _show_price(console: Console, explanation: Mapping[str, Any]) -> None:
    apart = explanation["price_apart"]
    more = () if apart is None else (f"one by one: {cost_text(apart)} epsilon",)
    show_price(console, explanation, *more)
    show_curve(console, explanation["curve"], "lengths times")
