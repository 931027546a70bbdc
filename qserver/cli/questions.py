"""`qserver query` and `qserver explain`; how answers, prices and refusals are shown."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from qserver.cli.conditions import WHERE_HELP, question_document
from qserver.cli.console import Console, epsilon_text, interval_text, percent_text
from qserver.cli.runtime import Commands, ExitCode, Runtime
from qserver.cli.server import (
    add_only_this,
    add_server_options,
    add_where,
    chosen_of,
    number,
    reply_to,
    show_reply,
)
from qserver.client import requests
from qserver.client.errors import ServerProblemError

_QUERY = """\
Ask how many records meet the conditions, as an interval of at most --length at --confidence. The
answer costs budget only where the answers released before cannot give it.
"""
_EXPLAIN = "Show what an answer would cost and what is known at no cost. Spends nothing."
SOURCES = {
    "history": "from answers released before",
    "measured": "measured now",
    "refined": "released before, refined now",
    "exact": "exact, without noise",
}


def register(commands: Commands, runtime: Runtime) -> None:
    """Add `query` and `explain` to the command line."""
    for name, text, run in (("query", _QUERY, run_query), ("explain", _EXPLAIN, run_explain)):
        parser = commands.add_parser(
            name,
            help={"query": "ask a question", "explain": "show a question's price"}[name],
            description=text,
            epilog=WHERE_HELP,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        add_question_options(parser)
        add_only_this(parser)
        add_server_options(parser, runtime, run)


def add_question_options(parser: argparse.ArgumentParser) -> None:
    """The dataset, the conditions, `--length` and `--confidence`."""
    parser.add_argument("dataset", metavar="DATASET")
    add_where(parser)
    parser.add_argument(
        "--json-query", metavar="FILE|JSON", help="the structured form of the question; - reads it"
    )
    parser.add_argument(
        "--length", type=number, required=True, metavar="L", help="longest interval, in records"
    )
    parser.add_argument(
        "--confidence", type=number, default=0.95, metavar="C", help="default: %(default)s"
    )


def run_query(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Ask, wait for the job if there is one, and show the answer."""
    asked = requests.query(args.dataset, question_of(args), **_exactness(args))
    return show_reply(reply_to(asked, args, runtime), show_answer, args, runtime)


def run_explain(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Show the price of a question."""
    asked = requests.explain(args.dataset, question_of(args), **_exactness(args))
    return show_reply(reply_to(asked, args, runtime), _show_explanation, args, runtime)


def _exactness(args: argparse.Namespace) -> dict[str, Any]:
    """How exact the answer shall be, and what may be measured for it."""
    return {"length": args.length, "confidence": args.confidence, "measure": chosen_of(args)}


def question_of(args: argparse.Namespace) -> dict[str, Any]:
    """The question that `--where` or `--json-query` gives."""
    return question_document(conditions=args.where, json_query=args.json_query, stdin=sys.stdin)


def show_answer(console: Console, answer: Mapping[str, Any]) -> None:
    """An answer with its interval, its cost and what remains."""
    low, high = answer["interval"]
    text = interval_text(estimate=answer["estimate"], low=low, high=high)
    percent = percent_text(answer["confidence"])
    console.line(f"between {text.low} and {text.high} with {percent} percent confidence")
    console.line(f"estimate: {text.estimate} ({SOURCES.get(answer['source'], answer['source'])})")
    show_cost(console, answer)


def show_cost(console: Console, answer: Mapping[str, Any]) -> None:
    """The cost of an answer, and the budget that remains."""
    console.line(f"cost: {epsilon_text(answer['epsilon_charged'])} epsilon")
    console.line(f"remaining: {epsilon_text(answer['epsilon_remaining'])} epsilon")


def _show_explanation(console: Console, explanation: Mapping[str, Any]) -> None:
    show_price(console, explanation)
    console.line(offer_text(explanation.get("free")))
    show_curve(console, explanation["curve"], "length")


def show_price(console: Console, explanation: Mapping[str, Any], *more: str) -> None:
    """The price, more lines about it, what remains, and the asker's own allowance."""
    console.line(f"price: {price_text(explanation)}")
    show_choices(console, explanation.get("measure"))
    for line in more:
        console.line(line)
    show_remaining(console, explanation)


def show_choices(console: Console, choices: Mapping[str, Any] | None) -> None:
    """What both choices of what is measured cost, where the planner would buy tables."""
    if choices is None or not choices["buys"]:
        return
    console.line(f"  only this question: {epsilon_text(choices['only_this'])} epsilon")
    auto = epsilon_text(choices["auto"])
    console.line(f"  with what later ones use too: {auto} epsilon, for {choices['buys']}")


def show_remaining(console: Console, explanation: Mapping[str, Any]) -> None:
    """The budget that remains, and the asker's own allowance."""
    console.line(f"remaining: {epsilon_text(explanation['remaining'])} epsilon")
    if explanation.get("own") is not None:
        console.line(_own_text(explanation["own"]))


def price_text(explanation: Mapping[str, Any]) -> str:
    """A price, and whether it can be paid."""
    fits = "" if explanation["affordable"] else ", more than remains"
    return f"{epsilon_text(explanation['price'])} epsilon{fits}"


def show_curve(console: Console, curve: Sequence[tuple[float, float | None]], heading: str) -> None:
    """The prices at other lengths, those that can be reached."""
    rows = [(f"{length:g}", epsilon_text(price)) for length, price in curve if price is not None]
    if rows:
        console.line()
        console.table((heading, "price"), rows)


def _own_text(own: Mapping[str, Any]) -> str:
    """The asker's own allowance, in one line."""
    parts = [f"your allowance: it costs {epsilon_text(own['price'])} epsilon of it"]
    for spent, bound, when in (("spent", "limit", "in all"), ("spent_today", "per_day", "today")):
        if own[bound] is not None:
            parts.append(f"{epsilon_text(own[spent])} of {epsilon_text(own[bound])} spent {when}")
    if not own["affordable"]:
        parts.append("which is too little")
    return ", ".join(parts)


def offer_text(offer: Mapping[str, Any] | None) -> str:
    """The interval known without charge, in one line."""
    if offer is None:
        return "known at no cost: nothing yet"
    low, high = offer["interval"]
    text = interval_text(estimate=None, low=low, high=high)
    percent = percent_text(offer["confidence"])
    return f"known at no cost: between {text.low} and {text.high} with {percent} percent confidence"


def show_problem(console: Console, problem: ServerProblemError) -> None:
    """The facts of a refusal: the place in a text, or the interval known for each question."""
    if "excerpt" in problem.facts:
        console.point(str(problem.facts["excerpt"]))
    if problem.code not in ("budget_exhausted", "disclosure_guard"):
        return
    free = problem.facts.get("free")
    if not isinstance(free, list):
        console.note(offer_text(free))
        return
    for i, offer in enumerate(free):
        console.note(f"question {i + 1}, {offer_text(offer)}")
