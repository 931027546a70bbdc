"""`qserver model`: learn models, ask them, draw synthetic records, export them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from qserver.cli.conditions import WHERE_HELP, question_document
from qserver.cli.console import epsilon_text
from qserver.cli.model_proposal import add_propose
from qserver.cli.model_replies import (
    show_learning_price,
    show_model_answer,
    show_question_price,
    show_reply,
)
from qserver.cli.questions import add_server_options, ask, number
from qserver.cli.runtime import ExitCode, Runtime
from qserver.client.http import Reply
from qserver.errors import ConfigError

_MAX_BYTES = 1 << 20
_LEARN = """\
Learn a Bayesian network of a given structure (--edge, --network), or what all tables tell together
(--marginals), from tables released before and those bought for --epsilon. The tables answer later
questions too.
"""
_ASK = """\
Ask a model, for nothing: the distribution of some variables (--marginal), their most probable
labels (--most-probable), or how many records it expects (--where, --json-query). A model's answer
has no guarantee; with --length a count is checked: history or a measurement gives an interval,
which confirms the model's answer or contradicts it.
"""

_Run = Callable[[argparse.Namespace, Runtime], ExitCode]


def register(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], runtime: Runtime
) -> None:
    """Add the commands of models to the command line."""
    parser = commands.add_parser("model", help="models made from released tables")
    below = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_learn(below, runtime)
    _add(below, runtime, "list", "list the models of a dataset", run_list)
    _add(below, runtime, "show", "show a model", run_show, has_model=True)
    _add_ask(below, runtime)
    add_propose(below, runtime)
    sample = _add(below, runtime, "sample", "draw synthetic records", run_sample, has_model=True)
    sample.add_argument("-n", type=int, default=1000, help="records (default: %(default)s)")
    sample.add_argument("--seed", type=int, metavar="S", help="the same seed, the same records")
    sample.add_argument("-o", "--output", metavar="FILE", help="CSV file; else standard output")
    export = _add(
        below,
        runtime,
        "export",
        "print a network as BIF, other models as JSON",
        run_export,
        has_model=True,
    )
    export.add_argument("-o", "--output", metavar="FILE", help="file; else standard output")


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    runtime: Runtime,
    name: str,
    summary: str,
    run: _Run,
    *,
    has_model: bool = False,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=summary)
    parser.add_argument("dataset", metavar="DATASET")
    if has_model:
        parser.add_argument("model", metavar="MODEL", help="its id")
    add_server_options(parser, runtime)
    parser.set_defaults(run=run)
    return parser


def _add_learn(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], runtime: Runtime
) -> None:
    parser = _add(commands, runtime, "learn", "learn a model", run_learn)
    parser.description = _LEARN
    structure = parser.add_mutually_exclusive_group(required=True)
    structure.add_argument("--network", metavar="FILE", help="BIF file; only its edges are used")
    structure.add_argument(
        "--edge", action="append", default=[], metavar="A>B", help="an edge from parent to child"
    )
    structure.add_argument(
        "--marginals",
        nargs="*",
        metavar="A,B",
        help="attributes of each marginal to buy; none to use history alone",
    )
    parser.add_argument(
        "--variable", action="append", default=[], metavar="NAME", help="default: all attributes"
    )
    parser.add_argument(
        "--epsilon",
        type=number,
        required=True,
        metavar="E",
        help="what tables may cost; 0: nothing",
    )
    parser.add_argument(
        "--allocation",
        default="best",
        help="of a network: best, rows, uniform, arxiv or icml (default: %(default)s)",
    )
    parser.add_argument(
        "--oracle",
        default="auto",
        help="of --marginals: exact, saturated, factor or auto (default: %(default)s)",
    )
    _add_explain(parser)


def _add_explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--explain", action="store_true", help="show what it would cost, and spend nothing"
    )


def _add_ask(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], runtime: Runtime
) -> None:
    parser = _add(commands, runtime, "ask", "ask a model", run_ask, has_model=True)
    parser.description, parser.epilog = _ASK, WHERE_HELP
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--marginal", action="append", default=[], metavar="NAME", help="variable")
    parser.add_argument(
        "--most-probable", action="append", default=[], metavar="NAME", help="variable"
    )
    parser.add_argument(
        "--given", action="append", default=[], metavar="NAME=LABEL", help="an observed label"
    )
    parser.add_argument(
        "--where", action="append", default=[], metavar="CONDITION", help="see below"
    )
    parser.add_argument("--json-query", metavar="FILE|JSON", help="the structured form of a count")
    parser.add_argument(
        "--length", type=number, metavar="L", help="check a count by an interval of this length"
    )
    parser.add_argument(
        "--fallback-length",
        type=number,
        metavar="L",
        help="measure to this length where the check contradicts the model",
    )
    _add_explain(parser)
    parser.add_argument(
        "--confidence", type=number, default=0.95, metavar="C", help="default: %(default)s"
    )


def run_learn(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Learn a model, wait for it, and tell its id and its price."""
    if args.explain:
        reply = _told(args, runtime, "models", "explain", document=_specification(args))
        return show_reply(runtime.console, reply, show_learning_price, as_json=args.json)
    reply = ask(args, runtime, "models", document=_specification(args))
    found = reply.document
    if args.json:
        runtime.console.line(reply.text.rstrip("\n"))
        return ExitCode.OK
    runtime.console.line(f"model: {found['id']}")
    runtime.console.line(f"cost: {epsilon_text(found['epsilon_charged'])} epsilon")
    runtime.console.line(f"remaining: {epsilon_text(found['epsilon_remaining'])} epsilon")
    return ExitCode.OK


def _told(
    args: argparse.Namespace, runtime: Runtime, *route: str, document: Mapping[str, Any]
) -> Reply:
    """What the server says to a request that spends nothing."""
    client = runtime.http_client(args.url, timeout_s=args.timeout)
    return client.post("v1", "datasets", args.dataset, *route, document=document)


def run_list(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """List the models of a dataset."""
    client = runtime.http_client(args.url, timeout_s=args.timeout)
    reply = client.get("v1", "datasets", args.dataset, "models")
    if args.json:
        runtime.console.line(reply.text.rstrip("\n"))
        return ExitCode.OK
    rows = [
        (m["id"], m["kind"], str(len(m["tables"])), epsilon_text(m["epsilon_charged"]))
        for m in reply.document["models"]
    ]
    runtime.console.table(("model", "kind", "tables", "cost"), rows)
    return ExitCode.OK


def run_show(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Show a model's facts, as JSON."""
    client = runtime.http_client(args.url, timeout_s=args.timeout)
    reply = client.get("v1", "datasets", args.dataset, "models", args.model)
    runtime.console.line(reply.text.rstrip("\n"))
    return ExitCode.OK


def run_ask(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Ask a model and show what it says."""
    route, document = ("models", args.model), _question(args)
    if args.explain:
        reply = _told(args, runtime, *route, "explain", document=document)
        return show_reply(runtime.console, reply, show_question_price, as_json=args.json)
    # A job answers the check alone: what follows from it comes with the next reply.
    reply = ask(args, runtime, *route, "query", document=document, again="check" in document)
    return show_reply(runtime.console, reply, show_model_answer, as_json=args.json)


def run_sample(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Draw synthetic records, as CSV."""
    query = {"n": str(args.n)} | ({} if args.seed is None else {"seed": str(args.seed)})
    client = runtime.http_client(args.url, timeout_s=args.timeout)
    text = client.get_text(
        "v1", "datasets", args.dataset, "models", args.model, "sample", query=query
    )
    return _write(text, args.output, runtime)


def run_export(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Print a model in the format of its field."""
    client = runtime.http_client(args.url, timeout_s=args.timeout)
    text = client.get_text("v1", "datasets", args.dataset, "models", args.model, "export")
    return _write(text, args.output, runtime)


def _write(text: str, path: str | None, runtime: Runtime) -> ExitCode:
    if path is None:
        runtime.console.line(text.rstrip("\n"))
        return ExitCode.OK
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as exc:
        raise ConfigError("--output", "be a file that can be written", path) from exc
    return ExitCode.OK


def _specification(args: argparse.Namespace) -> dict[str, Any]:
    if args.marginals is not None:
        wanted = [text.split(",") for text in args.marginals]
        own = {"kind": "marginals", "marginals": wanted, "oracle": args.oracle}
    else:
        own = {"kind": "network", "network": _structure(args), "allocation": args.allocation}
    return own | {"epsilon": args.epsilon}


def _structure(args: argparse.Namespace) -> Any:
    if args.network is not None:
        try:
            with Path(args.network).open(encoding="utf-8") as file:
                return file.read(_MAX_BYTES)
        except (OSError, UnicodeDecodeError) as exc:
            raise ConfigError("--network", "be a file that can be read", args.network) from exc
    edges = [text.split(">") for text in args.edge]
    if any(len(edge) != 2 for edge in edges):
        raise ConfigError("--edge", "have the form PARENT>CHILD")
    return {"edges": edges} | ({"variables": args.variable} if args.variable else {})


def _question(args: argparse.Namespace) -> dict[str, Any]:
    forms = [bool(args.marginal), bool(args.most_probable), bool(args.where or args.json_query)]
    if sum(forms) != 1:
        raise ConfigError("--marginal", "be given, or --most-probable, or a count: just one")
    if args.marginal or args.most_probable:
        name = "marginal" if args.marginal else "most_probable"
        return {name: args.marginal or args.most_probable, "given": _given(args.given)}
    count = question_document(conditions=args.where, json_query=args.json_query, stdin=sys.stdin)
    if args.length is None:
        if args.fallback_length is not None:
            raise ConfigError("--fallback-length", "come with --length")
        return {"count": count}
    check = {"length": args.length, "confidence": args.confidence}
    if args.fallback_length is not None:
        check["fallback_length"] = args.fallback_length
    return {"count": count, "check": check}


def _given(texts: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    if not all(name and mark for name, mark, _ in pairs):
        raise ConfigError("--given", "have the form NAME=LABEL")
    return {name: label for name, _, label in pairs}
