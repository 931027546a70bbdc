"""`qserver query` and `qserver explain`: ask a server, and show what it says."""

from __future__ import annotations

import argparse
import json
import math
import sys
import uuid
from collections.abc import Mapping
from typing import Any

from qserver.cli.conditions import WHERE_HELP, question_document
from qserver.cli.console import Console, epsilon_text, interval_text, percent_text
from qserver.cli.runtime import ExitCode, Runtime
from qserver.client.errors import NotDoneError, ServerProblemError
from qserver.client.http import HttpClient, Reply, problem_of

_FIRST_POLL_S = 0.1
_LONGEST_POLL_S = 2.0
_QUERY = """\
Ask how many records meet the conditions, as an interval of at most --length at --confidence. The
answer costs budget only where the answers released before cannot give it.
"""
_EXPLAIN = "Show what an answer would cost and what is known for nothing. Spends nothing."
SOURCES = {
    "history": "from answers released before",
    "measured": "measured now",
    "refined": "released before, refined now",
    "exact": "exact, without noise",
}


def register(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], runtime: Runtime
) -> None:
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
        add_server_options(parser, runtime)
        parser.set_defaults(run=run)


def add_question_options(parser: argparse.ArgumentParser) -> None:
    """The dataset, the conditions, `--length` and `--confidence`."""
    parser.add_argument("dataset", metavar="DATASET")
    parser.add_argument(
        "--where", action="append", default=[], metavar="CONDITION", help="see below"
    )
    parser.add_argument(
        "--json-query", metavar="FILE|JSON", help="the structured form of the question; - reads it"
    )
    parser.add_argument(
        "--length", type=number, required=True, metavar="L", help="longest interval, in records"
    )
    parser.add_argument(
        "--confidence", type=number, default=0.95, metavar="C", help="default: %(default)s"
    )


def add_server_options(parser: argparse.ArgumentParser, runtime: Runtime) -> None:
    """`--url`, `--timeout` and `--json`, for the commands that talk to a server."""
    parser.add_argument(
        "--url",
        default=runtime.default_url,
        help="address of the server (default: QSERVER_URL, or http://127.0.0.1:8000)",
    )
    parser.add_argument(
        "--timeout",
        type=number,
        default=60.0,
        metavar="S",
        help="how long to wait, in seconds (default: %(default)g)",
    )
    parser.add_argument("--json", action="store_true", help="print the server's JSON")


def run_query(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Ask, wait for the job if there is one, and show the answer."""
    reply = ask(args, runtime, "query", document=_request(args))
    if args.json:
        runtime.console.line(reply.text.rstrip("\n"))
    else:
        show_answer(runtime.console, reply.document)
    return ExitCode.OK


def ask(
    args: argparse.Namespace,
    runtime: Runtime,
    *route: str,
    document: Mapping[str, Any],
    again: bool = False,
) -> Reply:
    """The answer of a route that asks, waited for where it is a job.

    Args:
        again: whether a job's result is but a part of the answer, so that the same is sent again,
            under one key, once the job is done.

    Raises:
        NotDoneError: the time is over.
        ServerProblemError: the server refused, or the job failed.
    """
    client = runtime.http_client(args.url, timeout_s=args.timeout)
    deadline = runtime.clock() + args.timeout
    with runtime.console.progress("Waiting for the answer"):
        path = ("v1", "datasets", args.dataset, *route)
        headers = {"Idempotency-Key": uuid.uuid4().hex} if again else {}
        reply = client.post(*path, document=document, headers=headers)
        while "state" in reply.document:
            result = _await_job(client, reply.document, runtime, deadline)
            if not again:
                return result
            reply = client.post(*path, document=document, headers=headers)
    return reply


def run_explain(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Show the price of a question."""
    client = runtime.http_client(args.url, timeout_s=args.timeout)
    reply = client.post("v1", "datasets", args.dataset, "explain", document=_request(args))
    if args.json:
        runtime.console.line(reply.text.rstrip("\n"))
    else:
        _show_explanation(runtime.console, reply.document)
    return ExitCode.OK


def _request(args: argparse.Namespace) -> dict[str, Any]:
    question = question_document(conditions=args.where, json_query=args.json_query, stdin=sys.stdin)
    return {"query": question, "length": args.length, "confidence": args.confidence}


def _await_job(
    client: HttpClient, job: Mapping[str, Any], runtime: Runtime, deadline: float
) -> Reply:
    """The answer of a job, asked for with growing pauses.

    Raises:
        NotDoneError: the deadline passed.
        ServerProblemError: the job failed.
    """
    pause_s = _FIRST_POLL_S
    while job.get("state") in ("queued", "running"):
        if runtime.clock() + pause_s > deadline:
            raise NotDoneError(
                f"The answer is not there yet (job {job.get('id')}). Ask again: whatever is "
                "measured meanwhile is answered for nothing."
            )
        runtime.sleep(pause_s)
        pause_s = min(_LONGEST_POLL_S, pause_s * 1.5)
        job = client.get("v1", "jobs", str(job["id"])).document
    result = job.get("result")
    if not isinstance(result, dict):
        raise problem_of(job.get("problem") or {})
    return Reply(text=json.dumps(result), document=result)


def show_answer(console: Console, answer: Mapping[str, Any]) -> None:
    """An answer with its interval, its cost and what remains."""
    low, high = answer["interval"]
    text = interval_text(estimate=answer["estimate"], low=low, high=high)
    percent = percent_text(answer["confidence"])
    console.line(f"between {text.low} and {text.high} with {percent} percent confidence")
    console.line(f"estimate: {text.estimate} ({SOURCES.get(answer['source'], answer['source'])})")
    console.line(f"cost: {epsilon_text(answer['epsilon_charged'])} epsilon")
    console.line(f"remaining: {epsilon_text(answer['epsilon_remaining'])} epsilon")


def _show_explanation(console: Console, explanation: Mapping[str, Any]) -> None:
    price, remaining = explanation["price"], explanation["remaining"]
    fits = "" if explanation["affordable"] else ", more than remains"
    console.line(f"price: {epsilon_text(price)} epsilon{fits}")
    console.line(f"remaining: {epsilon_text(remaining)} epsilon")
    own = explanation.get("own")
    if own is not None:
        console.line(own_text(own))
    console.line(offer_text(explanation.get("free")))
    points = [p for p in explanation["curve"] if p[1] is not None]
    if points:
        console.line()
        console.table(("length", "price"), [(f"{p[0]:g}", epsilon_text(p[1])) for p in points])


def own_text(own: Mapping[str, Any]) -> str:
    """What the asker's own allowance says, in one line."""
    parts = [f"your allowance: it costs {epsilon_text(own['price'])} epsilon of it"]
    for spent, bound, when in (("spent", "limit", "in all"), ("spent_today", "per_day", "today")):
        if own[bound] is not None:
            parts.append(f"{epsilon_text(own[spent])} of {epsilon_text(own[bound])} spent {when}")
    if not own["affordable"]:
        parts.append("which is too little")
    return ", ".join(parts)


def offer_text(offer: Mapping[str, Any] | None) -> str:
    """What is known for nothing, in one line."""
    if offer is None:
        return "known for nothing: nothing yet"
    low, high = offer["interval"]
    text = interval_text(estimate=None, low=low, high=high)
    percent = percent_text(offer["confidence"])
    return (
        f"known for nothing: between {text.low} and {text.high} with {percent} percent confidence"
    )


def show_problem(console: Console, problem: ServerProblemError) -> None:
    """A refusal's facts: where in a text, or what is known for nothing, per question if many."""
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


def number(text: str) -> float:
    """A finite number; ValueError otherwise."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value
