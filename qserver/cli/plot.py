"""`qserver plot`: the posterior of a count, and a budget, as SVG files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from qserver.cli.conditions import WHERE_HELP
from qserver.cli.questions import add_question_options, question_of
from qserver.cli.remote_commands import add_ledger_options, add_server_options, driver_of, ledger_of
from qserver.cli.runtime import Commands, ExitCode, Runtime
from qserver.errors import ConfigError, NotEstimableError


def write_svg(path: Path, text: str) -> None:
    """Write an SVG document; replaces an existing file.

    Raises:
        ConfigError: the name does not end in .svg, or the file cannot be written.
    """
    check_svg_path(path)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise ConfigError("out", f"be a file that can be written ({exc.strerror})") from exc


def check_svg_path(path: Path) -> None:
    """Raise ConfigError unless the name ends in .svg; comes before any request."""
    if path.suffix.lower() != ".svg":
        raise ConfigError(
            "out",
            "end in .svg",
            path.name,
            hint="A browser prints it, or saves it as another kind.",
        )


_POINTS = 65
_POSTERIOR = """\
Draw how likely each value of a count is by the answers released before, with the interval at
--confidence shaded. Spends nothing. --length is that of the question, as for `explain`.
"""
_BUDGET = "Draw what is spent and what remains, or with --attribute the loss by its values."


def register(commands: Commands, runtime: Runtime) -> None:
    """Add `plot` to the command line."""
    plot = commands.add_parser("plot", help="draw a posterior or a budget as an SVG file")
    kinds = plot.add_subparsers(title="commands", metavar="COMMAND", required=True)
    shape = argparse.RawDescriptionHelpFormatter
    posterior = kinds.add_parser(
        "posterior",
        help="how likely each value of a count is",
        description=_POSTERIOR,
        epilog=WHERE_HELP,
        formatter_class=shape,
    )
    add_question_options(posterior)
    budget = kinds.add_parser(
        "budget",
        help="what is spent, in all or by attribute",
        description=_BUDGET,
        epilog=WHERE_HELP,
        formatter_class=shape,
    )
    add_ledger_options(budget)
    for parser, run in ((posterior, run_posterior), (budget, run_budget)):
        parser.add_argument("--out", type=Path, required=True, metavar="FILE.svg")
        add_server_options(parser, runtime, run)


def run_posterior(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Ask for the tail probabilities around the free interval, and draw them."""
    # numpy is loaded only when a plot is drawn.
    from qserver.answering.plots.chart import svg_of
    from qserver.answering.plots.figures import PosteriorCurve, posterior_chart, thresholds_about
    from qserver.client import requests

    check_svg_path(args.out)
    driver, query = driver_of(args, runtime), question_of(args)
    asked = requests.explain(args.dataset, query, length=args.length, confidence=args.confidence)
    with runtime.console.progress("Asking for the posterior"):
        free = driver.reply(asked).document["free"]
        if free is None or not free["interval"][0] < free["interval"][1]:
            raise NotEstimableError
        low, high = free["interval"]
        thresholds = thresholds_about(low, high, n=_POINTS)
        tails = [
            driver.result(requests.probability(args.dataset, query, at_least=threshold))
            for threshold in thresholds
        ]
    curve = PosteriorCurve(thresholds, tails, low, high, free["confidence"])
    title = _title(args.dataset, args.where)
    write_svg(args.out, svg_of(posterior_chart(curve, title=title)))
    _tell(args, runtime)
    return ExitCode.OK


def run_budget(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Ask for the ledger, and draw it."""
    from qserver.answering.plots.figures import BudgetFacts, budget_chart, svg_of_bars

    check_svg_path(args.out)
    ledger = driver_of(args, runtime).result(ledger_of(args))
    facts = BudgetFacts(
        args.dataset, ledger["limit"], ledger["spent"], ledger["remaining"], ledger.get("delta")
    )
    losses = ledger["by_value"] or {}
    chart = budget_chart(facts, losses, attribute=args.attribute or "")
    write_svg(args.out, svg_of_bars(chart))
    _tell(args, runtime)
    return ExitCode.OK


def _title(dataset: str, conditions: Sequence[str]) -> str:
    return f"{dataset}: records with {', '.join(conditions)}" if conditions else f"{dataset}: count"


def _tell(args: argparse.Namespace, runtime: Runtime) -> None:
    if args.json:
        runtime.console.json({"file": str(args.out)})
    else:
        runtime.console.line(f"Wrote {args.out}.")
