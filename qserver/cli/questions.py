"""`qserver query` and `qserver explain`; the texts of answers, prices and refusals."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qserver.cli.conditions import WHERE_HELP, question_document
from qserver.cli.console import Console, cost_text, interval_text, percent_text
from qserver.cli.remote_commands import (
    Rows,
    add_fields,
    add_looking,
    add_reading,
    add_server_options,
    add_where,
    given,
    reading_of,
    reply_to,
    selection_of,
    show_reply,
)
from qserver.cli.runtime import Commands, ExitCode, Runtime
from qserver.query import request_fields as fields
from qserver.query.asking.after_looking import Selection, chosen_text
from qserver.records.codec import read
from qserver.text import ADDS_NOTHING, at_delta, left_text, most_text, part_text
from qserver.text import price_text as price_of

if TYPE_CHECKING:
    from qserver.client.errors import ServerProblemError

_QUERY = """\
Ask how many records meet the conditions, as an interval of at most --length at --confidence. The
answer costs budget only where the answers released before cannot give it.
"""
_PROBABILITY = """\
Show how probable it is, by the answers released before, that the number of records is at least T,
or from A to B. Spends nothing.
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
        add_fields(parser, fields.MEASURE)
        add_looking(parser, may_measure_anew=True)
        add_reading(parser)
        add_server_options(parser, runtime, run, has_rows=name == "query")
    _register_probability(commands, runtime)


def _register_probability(commands: Commands, runtime: Runtime) -> None:
    parser = commands.add_parser(
        "probability",
        help="show how probable a number is",
        description=_PROBABILITY,
        epilog=WHERE_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_what(parser)
    bound = parser.add_mutually_exclusive_group(required=True)
    add_fields(parser, fields.AT_LEAST, fields.BETWEEN, to=bound, may_lack=True)
    add_reading(parser)
    add_server_options(parser, runtime, run_probability)


def add_question_options(parser: argparse.ArgumentParser) -> None:
    """The dataset, the conditions, `--length` and `--confidence`."""
    _add_what(parser)
    add_fields(parser, fields.LENGTH, fields.CONFIDENCE)


def _add_what(parser: argparse.ArgumentParser) -> None:
    """The dataset and the conditions."""
    parser.add_argument("dataset", metavar="DATASET")
    add_where(parser)
    add_fields(parser, fields.QUERY, fields.AS_OF, may_lack=True)


def run_query(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Ask, wait for the job if any, and show the answer."""
    from qserver.client import requests

    asked = requests.query(args.dataset, question_of(args), **_asked(args))
    reply = reply_to(asked, args, runtime)
    return show_reply(reply, show_asked, args, runtime, rows=lambda a: answer_rows([a]))


def run_explain(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Show the price of a question."""
    from qserver.client import requests

    asked = requests.explain(args.dataset, question_of(args), **_asked(args))
    return show_reply(reply_to(asked, args, runtime), _show_explanation, args, runtime)


def run_probability(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Show a probability from history."""
    from qserver.client import requests

    bounds = given(args, fields.AT_LEAST, fields.BETWEEN, fields.AS_OF)
    asked = requests.probability(args.dataset, question_of(args), **bounds, **reading_of(args))
    return show_reply(reply_to(asked, args, runtime), _show_probability, args, runtime)


def _show_probability(console: Console, found: Mapping[str, Any]) -> None:
    console.line(f"probability: {found['probability']:.9g}")
    _show_reading(console, found)


def _show_reading(console: Console, found: Mapping[str, Any]) -> None:
    """Show the law, its reading if asked for, and its numerical error."""
    from qserver.records.statement import Statement

    if found.get("statement") is None:
        return
    told = read(Statement, found["statement"])
    if told.reading:
        console.aside(f"{told.reading}; each probability within {part_text(told.error)}")
    if told.law_said:
        console.aside(told.law_said)


def _asked(args: argparse.Namespace) -> dict[str, Any]:
    """The asked exactness, and what may be measured."""
    wanted = given(args, *fields.EXACTNESS, fields.INDEPENDENT, fields.AS_OF)
    return {**wanted, "selected_from": selection_of(args), **reading_of(args)}


def question_of(args: argparse.Namespace, json_query: str | None = None) -> dict[str, Any]:
    """The question of `--where` or `--json-query`."""
    text = json_query or getattr(args, "query", None)
    return question_document(conditions=args.where, json_query=text, stdin=sys.stdin)


def show_asked(console: Console, answer: Mapping[str, Any]) -> None:
    """An answer with its remarks."""
    show_answer(console, answer)
    if answer.get("as_of"):
        console.aside(f"counted up to {answer['as_of']}")
    _show_reading(console, answer)
    show_remarks(console, answer)


def show_remarks(console: Console, answer: Mapping[str, Any]) -> None:
    """The remarks on an answer or on a workload's, a line each."""
    for remark in answer.get("remarks", ()):
        console.aside(remark)


def show_answer(console: Console, answer: Mapping[str, Any]) -> None:
    """An answer with its interval, its cost and the budget left."""
    low, high = answer["interval"]
    text = interval_text(estimate=answer["estimate"], low=low, high=high)
    percent = percent_text(answer["confidence"])
    told = answer.get("selected_from")
    chosen = chosen_text(told and read(Selection, told))
    console.line(f"between {text.low} and {text.high} with {percent} percent confidence{chosen}")
    console.aside(f"estimate: {text.estimate} ({SOURCES.get(answer['source'], answer['source'])})")
    show_cost(console, answer)


def answer_rows(answers: Sequence[Mapping[str, Any]]) -> Rows:
    """Answers as rows, in their order."""
    header = ("estimate", "low", "high", "confidence", "source", "epsilon_charged")
    rows = [(a["estimate"], *a["interval"], *(a.get(name) for name in header[3:])) for a in answers]
    return header, rows


def show_cost(console: Console, answer: Mapping[str, Any]) -> None:
    """The cost of an answer, and the budget left."""
    charged = answer["epsilon_charged"]
    is_free = not charged and answer.get("source") in ("history", "exact")
    more = "" if charged or is_free or "source" not in answer else f": {ADDS_NOTHING}"
    console.aside(f"cost: {cost_text(charged)} epsilon{more}")
    left = left_text(answer["epsilon_remaining"])
    console.aside(f"remaining: {left} epsilon{at_delta(answer.get('delta'))}")


def _show_explanation(console: Console, explanation: Mapping[str, Any]) -> None:
    show_price(console, explanation)
    console.line(offer_text(explanation.get("free")))
    show_curve(console, explanation["curve"], "length")


def show_price(console: Console, explanation: Mapping[str, Any], *more: str) -> None:
    """The price with further lines, the budget left, and the asker's own allowance."""
    console.line(f"price: {price_text(explanation)}")
    show_protected(console, explanation.get("protected"))
    show_choices(console, explanation.get("measure"))
    for line in more:
        console.line(line)
    show_remaining(console, explanation)


def show_protected(console: Console, protected: str | None) -> None:
    """Whose loss the price is, where data have periods."""
    if protected:
        console.line(f"  protected: {protected}")


def show_choices(console: Console, choices: Mapping[str, Any] | None) -> None:
    """The prices of both choices of `measure`, where the planner would buy tables."""
    if choices is None:
        return
    if (fresh := choices.get("independent")) is not None:
        console.line(f"  by itself, after looking (--independent): {cost_text(fresh)} epsilon")
    if not choices["buys"]:
        return
    console.line(f"  only this question: {cost_text(choices['only_this'])} epsilon")
    auto = cost_text(choices["auto"])
    console.line(f"  with what later ones use too: {auto} epsilon, for {choices['buys']}")


def show_remaining(console: Console, explanation: Mapping[str, Any]) -> None:
    """The budget left, and the asker's own allowance."""
    left = left_text(explanation["remaining"])
    console.line(f"remaining: {left} epsilon{at_delta(explanation.get('delta'))}")
    if explanation.get("own") is not None:
        console.line(_own_text(explanation["own"]))


def price_text(explanation: Mapping[str, Any]) -> str:
    """A price, and whether the asker can pay it."""
    price, left = explanation["price"], explanation["remaining"]
    said = price_of(price, explanation.get("kind"))
    said += most_text(price, explanation.get("most"))
    return f"{said}{unpayable(price, left, explanation['affordable'])}"


def unpayable(price: float, remaining: float, affordable: bool) -> str:  # noqa: FBT001 - a fact
    """The reason that a price cannot be paid, to end a sentence; '' if it can."""
    if affordable:
        return ""
    return ", more than remains" if price > remaining else ", but the owner's guard forbids it"


def show_curve(console: Console, curve: Sequence[tuple[float, float | None]], heading: str) -> None:
    """The prices at other lengths in reach."""
    rows = [(f"{length:g}", cost_text(price)) for length, price in curve if price is not None]
    if rows:
        console.line()
        console.table((heading, "price"), rows)


def _own_text(own: Mapping[str, Any]) -> str:
    """The asker's own allowance, in one line."""
    parts = [f"your allowance: it costs {cost_text(own['price'])} epsilon of it"]
    for spent, bound, when in (("spent", "limit", "in all"), ("spent_today", "per_day", "today")):
        if own[bound] is not None:
            parts.append(f"{cost_text(own[spent])} of {cost_text(own[bound])} spent {when}")
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
    known = f"between {text.low} and {text.high} with {percent} percent confidence"
    by = ", by the law of the estimate's error" if offer.get("law") == "estimator" else ""
    return f"known at no cost: {known}{by}"


def show_problem(console: Console, problem: ServerProblemError) -> None:
    """The facts of a refusal: the place in a text, or the known interval of each question."""
    if "excerpt" in problem.facts:
        console.point(str(problem.facts["excerpt"]))
    if "free" not in problem.facts:
        return
    free = problem.facts["free"]
    if not isinstance(free, list):
        console.note(offer_text(free))
        return
    known = [(i, offer) for i, offer in enumerate(free) if offer is not None]
    for i, offer in known:
        console.note(f"question {i + 1}, {offer_text(offer)}")
    if len(known) < len(free):
        # Medians and groups are hundreds of questions, most of them usually unknown.
        of = f" of the other {len(free) - len(known)}" if known else ""
        console.note(f"known at no cost{of}: nothing yet")
