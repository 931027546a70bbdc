"""`qserver dataset`, `budget` and `history`: public facts of a server's datasets."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from qserver.cli.conditions import WHERE_HELP
from qserver.cli.console import Console, cost_text, epsilon_text
from qserver.cli.remote_commands import (
    Rows,
    add_ledger_options,
    add_server_options,
    ledger_of,
    reply_to,
    show_reply,
)
from qserver.cli.runtime import Commands, ExitCode, Runtime
from qserver.text import at_delta, left_text

_MOST_LABELS = 6
_DEFAULTS = {
    "auto": "also what later questions use (--only-this: just the question)",
    "only_this": "just the question (--no-only-this: also what later ones use)",
}


def register(commands: Commands, runtime: Runtime) -> None:
    """Add `dataset`, `budget` and `history` to the command line."""
    dataset = commands.add_parser("dataset", help="list datasets, or show one")
    kinds = dataset.add_subparsers(title="commands", metavar="COMMAND", required=True)
    listing = kinds.add_parser("list", help="names and budgets")
    show = kinds.add_parser("show", help="attributes, guarantee and budget of one")
    show.add_argument("dataset", metavar="NAME")
    budget = commands.add_parser(
        "budget",
        help="show where a dataset's budget went",
        description="Show the limit, what is spent, and the largest loss of the asked records.",
        epilog=WHERE_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_ledger_options(budget)
    history = commands.add_parser(
        "history",
        help="show what was released of a dataset",
        description="Show the noisy answers and tables that were released. Spends nothing.",
    )
    history.add_argument("dataset", metavar="DATASET")
    history.add_argument(
        "--after", type=int, default=-1, metavar="ID", help="only items after this one"
    )
    history.add_argument("--snapshot", metavar="S", help="show an earlier snapshot")
    add_server_options(history, runtime, run_history, has_rows=True)
    for parser, run in ((listing, run_list), (show, run_show), (budget, run_budget)):
        add_server_options(parser, runtime, run, has_rows=run is not run_show)


def run_list(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Show all datasets."""
    from qserver.client import requests

    found = reply_to(requests.datasets(), args, runtime).document
    if args.json:
        runtime.console.json(found)
        return ExitCode.OK
    if args.csv:
        names = ("name", "limit", "spent", "remaining")
        runtime.console.csv(names, ([d[name] for name in names] for d in found["datasets"]))
        return ExitCode.OK
    rows = [
        (d["name"], _limit_text(d), cost_text(d["spent"]), left_text(d["remaining"]))
        for d in found["datasets"]
    ]
    runtime.console.table(("dataset", "limit", "spent", "remaining"), rows)
    return ExitCode.OK


def _limit_text(dataset: Mapping[str, Any]) -> str:
    zcdp = dataset.get("zcdp") or {}
    return epsilon_text(dataset["limit"]) + at_delta(zcdp.get("delta"))


def run_show(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Show one dataset."""
    from qserver.client import requests

    reply = reply_to(requests.dataset(args.dataset), args, runtime)
    return show_reply(reply, _show_dataset, args, runtime)


def run_budget(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Show the ledger of a dataset's population."""
    reply = reply_to(ledger_of(args), args, runtime)
    return show_reply(reply, _show_ledger, args, runtime, rows=_loss_rows)


def run_history(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Show the released answers and tables."""
    from qserver.client import requests
    from qserver.client.lookups import History

    asked = requests.history(args.dataset, after=args.after, snapshot=args.snapshot)
    document = reply_to(asked, args, runtime).document
    if args.json:
        runtime.console.json(document)
        return ExitCode.OK
    found = History.of(document)
    if args.csv:
        names = ("id", "n_cells", "value", "scale", "alpha")
        runtime.console.csv(names, ([r[name] for name in names] for r in found.records()))
    else:
        runtime.console.line(repr(found))
    return ExitCode.OK


def _loss_rows(ledger: Mapping[str, Any]) -> Rows:
    """The loss by value; without an attribute, the spent budget."""
    if ledger["by_value"]:
        return ("value", "loss"), ledger["by_value"].items()
    names = ("limit", "spent", "remaining", "n_charges", "loss")
    return names, [[ledger[name] for name in names]]


def _show_plans(console: Console, dataset: Mapping[str, Any]) -> None:
    """Show the owner's choices about measuring; an older server does not send them."""
    if zcdp := dataset.get("zcdp"):
        spent, limit = epsilon_text(zcdp["spent_rho"]), epsilon_text(zcdp["limit_rho"])
        console.line(f"privacy: zcdp, epsilon{at_delta(zcdp['delta'])}; rho {spent} of {limit}")
    default = _DEFAULTS.get(dataset.get("measure", "auto"), "")
    console.line(f"measured by default: {default}")
    if expected := dataset.get("expected"):
        console.line(f"expected: about {expected:,} questions until the limit")


def _show_dataset(console: Console, dataset: Mapping[str, Any]) -> None:
    console.line(f"dataset: {dataset['name']} (population {dataset['population']})")
    k = dataset["records_per_person"]
    declared = "" if dataset["records_verified"] else ", as declared"
    console.line(f"guarantee: {dataset['relation']}, at most {k} record(s) a person{declared}")
    if dataset.get("unit") is not None:  # an older server does not send it
        console.line(f"protected: {dataset['unit']['text']}")
    _show_budget(console, dataset)
    _show_plans(console, dataset)
    for text in ("description", "licence"):
        if said := dataset["domain"].get(text):
            console.line(f"{text}: {said}")
    if within := dataset["domain"].get("within"):
        console.line(f"SQL without WITHIN: counts within {within}")
    worker = "alive" if dataset["worker_alive"] else "not alive; only history is answered"
    console.line(f"worker: {worker}")
    console.line(f"cells: {int(dataset['n_cells']):,}")
    if dataset.get("capacity") is not None:  # likewise
        console.line(f"capacity: {dataset['capacity']:,} records")
    if periods := dataset.get("periods"):  # likewise
        console.line(_periods_text(periods))
    if attribute := dataset.get("time"):  # likewise
        console.line(f"time: {attribute}; every table tells its values apart")
    for claim in dataset.get("claims", ()):  # likewise
        console.line(_claim_text(claim))
    console.line()
    attributes = dataset["domain"]["attributes"]
    rows = [_attribute_row(attribute) for attribute in attributes]
    rows += [row for attribute in attributes for row in _level_rows(attribute)]
    for name, kind, n_values, values in rows:
        console.line(f"{name:<{_longest(rows)}}  {kind:<7}  {n_values:>5}  {values}")


def _periods_text(periods: Mapping[str, Any]) -> str:
    last = f"up to {periods['last']}" if periods["last"] else "none yet"
    first = periods.get("first_kept")  # missing in the reply of an earlier version
    erased = f"; records before {first} are erased" if first else ""
    return (
        f"data arrive over time, by {periods['attribute']}: {last} ({periods['sealed']:,} of "
        f"{periods['declared']:,} sealed, at most {periods['capacity']:,} records each){erased}"
    )


def _claim_text(claim: Mapping[str, Any]) -> str:
    known, cap = claim["known"], claim["p"]
    return (
        f"claim {claim['name']}: within {claim['width']:g} known with probability {known:.4g} at "
        f"most, {cap:g} allowed"
    )


def _longest(rows: Sequence[tuple[str, ...]]) -> int:
    return max(len(row[0]) for row in rows)


def _attribute_row(attribute: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Name, kind, number of values, and the first values or the ends of the range."""
    if "labels" in attribute:
        values = [str(label) for label in attribute["labels"]]
        more = ", ..." if len(values) > _MOST_LABELS else ""
        text, n_values = ", ".join(values[:_MOST_LABELS]) + more, len(values)
    elif "every" in attribute:
        n_values = int(attribute["count"])
        text = f"every {attribute['every']} from {attribute['first']}"
    else:
        edges = attribute["edges"]
        text, n_values = f"from {edges[0]} to below {edges[-1]}", len(edges) - 1
    if "other" in attribute:
        text, n_values = f"{text}, or {attribute['other']}", n_values + 1
    return attribute["name"], attribute["kind"], f"{n_values:,}", text


def _level_rows(attribute: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """The levels above an attribute's labels, in the same columns."""
    rows = []
    for name, groups in attribute.get("levels", {}).items():
        more = ", ..." if len(groups) > _MOST_LABELS else ""
        text = f"{', '.join(list(groups)[:_MOST_LABELS])}{more}, by {attribute['name']}"
        n_values = len(groups) + ("other" in attribute)
        rows.append((name, "level", f"{n_values:,}", text))
    return rows


def _show_budget(
    console: Console,
    budget: Mapping[str, Any],
    *,
    spent_text: Callable[[Any], str] = cost_text,
    remaining_text: Callable[[Any], str] = left_text,
) -> None:
    spent, remaining = spent_text(budget["spent"]), remaining_text(budget["remaining"])
    limit = epsilon_text(budget["limit"])
    unit = f"epsilon{at_delta(budget.get('delta'))}"
    console.line(f"budget: {spent} of {limit} {unit} spent, {remaining} remain")


def _show_ledger(console: Console, ledger: Mapping[str, Any]) -> None:
    # The ledger is read to the last digit.
    _show_budget(console, ledger, spent_text=epsilon_text, remaining_text=epsilon_text)
    console.line(f"charges: {int(ledger['n_charges']):,} ({ledger['relation']})")
    console.line(f"largest loss of the asked records: {epsilon_text(ledger['loss'])} epsilon")
    if ledger["by_value"]:
        console.line()
        losses = sorted(ledger["by_value"].items(), key=lambda item: -item[1])
        console.table(("value", "loss"), [(name, epsilon_text(loss)) for name, loss in losses])
