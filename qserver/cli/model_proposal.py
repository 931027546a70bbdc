"""`qserver model propose`: a structure for a network under a cap on what it could leak."""

from __future__ import annotations

import argparse
from typing import Any

from qserver.cli.model_replies import show_proposal
from qserver.cli.questions import add_server_options, number
from qserver.cli.runtime import ExitCode, Runtime

_DESCRIPTION = """\
Propose the edges of a network over the attributes of a model, as many as a cap on what it could
leak allows: at --fpr false positives no test may find more than --max-power of the members. It is
made from the model's own answers, so that nothing is spent and no record is read. The exit code is
3 where not even attributes without edges keep to the cap.
"""


def add_propose(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], runtime: Runtime
) -> None:
    """Add `model propose` to the command line."""
    parser = commands.add_parser(
        "propose", help="propose a structure under a cap on leaks", description=_DESCRIPTION
    )
    parser.add_argument("dataset", metavar="DATASET")
    parser.add_argument("model", metavar="MODEL", help="its id")
    parser.add_argument(
        "--records", type=number, required=True, metavar="N", help="records it is learnt from"
    )
    parser.add_argument(
        "--max-power", type=number, required=True, metavar="P", help="most members found"
    )
    parser.add_argument("--fpr", type=number, default=0.05, help="default: %(default)s")
    parser.add_argument("--epsilon", type=number, metavar="E", help="what learning it would cost")
    parser.add_argument("--basis", default="least", help="decide by bound and cap (least), or cap")
    parser.add_argument("--game", default="replaced", help="replaced or added: see audit-structure")
    parser.add_argument("--release", default="tables", help="tables or model: see audit-structure")
    parser.add_argument(
        "--max-parents", type=int, default=2, metavar="K", help="default: %(default)s"
    )
    parser.add_argument(
        "--min-gain",
        type=number,
        default=0.01,
        metavar="G",
        help="an edge must raise the sum of scores by more (default: %(default)s)",
    )
    parser.add_argument(
        "--variable", action="append", metavar="NAME", help="default: all attributes of the model"
    )
    add_server_options(parser, runtime)
    parser.set_defaults(run=run_propose)


def run_propose(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Print the edges; a code of its own where the gate refuses."""
    client = runtime.http_client(args.url, timeout_s=args.timeout)
    place = ("v1", "datasets", args.dataset, "models", args.model, "structure")
    reply = client.post(*place, document=_document(args))
    if args.json:
        runtime.console.line(reply.text.rstrip("\n"))
    else:
        show_proposal(runtime.console, reply.document)
    return ExitCode.OK if reply.document["decision"]["passes"] else ExitCode.REFUSED


def _document(args: argparse.Namespace) -> dict[str, Any]:
    document: dict[str, Any] = {
        "records": args.records,
        "gate": {"fpr": args.fpr, "max_power": args.max_power, "basis": args.basis},
        "game": args.game,
        "release": args.release,
        "max_parents": args.max_parents,
        "min_gain": args.min_gain,
    }
    if args.epsilon is not None:
        document["epsilon"] = args.epsilon
    if args.variable is not None:
        document["variables"] = args.variable
    return document
