"""`qserver model`: learn models, ask them, draw synthetic records, export them; and the replies."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qserver.cli.conditions import WHERE_HELP
from qserver.cli.console import Console, cost_text
from qserver.cli.questions import (
    price_text,
    question_of,
    show_answer,
    show_cost,
    show_price,
    show_remaining,
)
from qserver.cli.remote_commands import (
    add_fields,
    add_server_options,
    add_where,
    given,
    reply_to,
    show_reply,
)
from qserver.cli.runtime import Commands, ExitCode, Runtime
from qserver.errors import ConfigError
from qserver.query import request_fields as fields
from qserver.text import at_delta

if TYPE_CHECKING:
    from qserver.client import LearntModel
    from qserver.client.flows import Exchange


_MOST_LINES = 200
_MOST_WANTED = 10


def show_learnt(console: Console, learnt: Mapping[str, Any]) -> None:
    """The id of a learnt model, and its cost."""
    console.line(f"model: {learnt['id']}")
    show_cost(console, learnt)


def show_models(console: Console, found: Mapping[str, Any]) -> None:
    """A table of models."""
    rows = [
        (m["id"], m["kind"], str(len(m["tables"])), cost_text(m["epsilon_charged"]))
        for m in found["models"]
    ]
    unit = at_delta(next((m.get("delta") for m in found["models"]), None))
    console.table(("model", "kind", "tables", f"cost{unit}"), rows)


def show_model_answer(console: Console, reply: Mapping[str, Any]) -> None:
    """A distribution, labels, or a count with the result of its check."""
    answer = reply["answer"]
    if answer is None:
        _show_count(console, reply)
    elif "probabilities" in answer:
        _show_probabilities(console, answer)
    else:
        console.table(("variable", "label"), list(answer["labels"].items()))
        console.line(f"probability: {answer['probability']:.6g}")


def show_learning_price(console: Console, explanation: Mapping[str, Any]) -> None:
    """The price of learning a model."""
    sample = explanation["sample"]
    parts = {"a sample": sample, "tables that the first decide": explanation.get("second")}
    of_it = [f"of that for {k}: {cost_text(v)} epsilon" for k, v in parts.items() if v is not None]
    show_price(console, explanation, *of_it)
    work = explanation["work"]
    if work is not None:
        mib = work["memory_bytes"] / (1 << 20)
        console.line(
            f"takes about {work['seconds']:,.0f} s and {mib:,.0f} MiB: "
            f"{work['n_tables']:,} tables of {work['n_cells']:,} cells"
        )
    if explanation["error"] is not None:
        _show_error(console, explanation["error"])
    rows = [
        (
            f"{table['n_cells']:,}",
            "new" if table["refines"] is None else f"raises {table['refines']}",
            cost_text(table["charge"]),
        )
        for table in explanation["plan"]
    ]
    if rows:
        console.line()
        rise = "charge" if sample is None else "rise of 1/b, at most"
        console.table(("cells", "table", rise), rows)
    _show_wanted(console, explanation["wanted"], explanation["plan"])


def _show_wanted(
    console: Console, wanted: Sequence[Mapping[str, Any]], plan: Sequence[Mapping[str, Any]]
) -> None:
    """The expected error of wanted marginals, the greatest first, beside that of buying these."""
    if not wanted:
        return
    ranked = sorted(wanted, key=lambda w: -w["deviation"])
    rows = [
        (
            ", ".join(w["attributes"]),
            str(len(w["tables"])),
            cost_text(sum(plan[k]["charge"] for k in w["tables"])),
            f"{w['deviation']:,.1f}",
            f"{w['as_wanted']:,.1f}",
        )
        for w in ranked[:_MOST_WANTED]
    ]
    console.line()
    console.line("standard deviation of a count, and were all wanted bought as they are:")
    console.table(("wanted", "tables", "their charge", "records", "as wanted"), rows)
    if len(ranked) > len(rows):
        console.line(f"and {len(ranked) - len(rows):,} more, each less; --json shows all")


def _show_error(console: Console, error: Mapping[str, Any]) -> None:
    """The errors by noise of a network on N records whose values are equally likely."""
    least, greatest = error["parameter_least"], error["parameter_greatest"]
    lower, upper = error["term_lower"], error["term_upper"]
    most = "" if upper is None else f", {upper:,.3g} / N at most"
    console.line("by noise alone, were all values equally likely among N records:")
    console.line(f"  deviation of a parameter: {least:,.3g} / N to {greatest:,.3g} / N")
    console.line(f"  error of a term of an answer: {lower:,.3g} / N at least{most}")


def show_proposal(console: Console, reply: Mapping[str, Any]) -> None:
    """Edges as `model learn --edge` takes them, and the result of their audit."""
    for parent, child in reply["network"]["edges"]:
        console.line(f"{parent}>{child}")
    show_complexity(console, reply)
    decision = reply["decision"]
    console.line(gate_text(passes=decision["passes"], reason=decision["reason"]))


def show_complexity(console: Console, audit: Mapping[str, Any]) -> None:
    """The number of independent numbers of a network and of its tables."""
    most = "" if audit["table_complexity_is_exact"] else "at most "
    console.line(
        f"independent numbers: {audit['complexity']:,} in the model, "
        f"{most}{audit['table_complexity']:,} in its tables"
    )


def gate_text(*, passes: bool, reason: str) -> str:
    """The gate's decision, in words."""
    return f"gate: {'pass' if passes else 'refused'}. {reason}"


def show_question_price(console: Console, price: Mapping[str, Any]) -> None:
    """The price of a question to a model, and its likely outcome."""
    if price["estimate"] is not None:
        console.line(f"the model expects {price['estimate']:,.1f}")
    check, fallback = price["check"], price["fallback"]
    if check is None:
        console.line("price: 0 epsilon, without a guarantee")
        return
    told = {
        "confirm": "history confirms it at no cost",
        "contradict": "history contradicts it at no cost",
        "check": f"check: {price_text(check)}",
    }
    console.line(told[price["would"]])
    if fallback is not None and price["would"] != "confirm":
        when = "" if price["would"] == "contradict" else ", where the check contradicts"
        console.line(f"measuring instead{when}: {price_text(fallback)}")
    show_remaining(console, check)


def _show_count(console: Console, reply: Mapping[str, Any]) -> None:
    expects = f"the model expects {reply['estimate']:,.1f}"
    if reply["guarantee"] is None:
        console.line(f"{expects}, without a guarantee")
        return
    verb = "confirms" if reply["verdict"] == "confirmed" else "contradicts"
    console.line(f"{expects}; the check {verb} it")
    show_answer(console, reply["guarantee"])
    if reply["fallback"] is not None:
        console.line()
        console.line("measured instead")
        show_answer(console, reply["fallback"])


def _show_probabilities(console: Console, answer: Mapping[str, Any]) -> None:
    rows = []
    for places in product(*(range(len(labels)) for labels in answer["labels"])):
        value = answer["probabilities"]
        for place in places:
            value = value[place]
        names = [labels[p] for labels, p in zip(answer["labels"], places, strict=True)]
        rows.append((*names, f"{value:.6f}"))
    console.table((*answer["variables"], "probability"), rows[:_MOST_LINES])
    if len(rows) > _MOST_LINES:
        console.line(f"and {len(rows) - _MOST_LINES:,} more; --json shows all")
    for name, lists in (answer.get("merged") or {}).items():
        for labels in lists:
            more = f" and {len(labels) - _MOST_MERGED:,} more" if len(labels) > _MOST_MERGED else ""
            console.line(f"not told apart, {name}: {', '.join(labels[:_MOST_MERGED])}{more}")


_MOST_MERGED = 8
_MAX_BYTES = 1 << 20
_OPTIONS_OF_THEIR_OWN = ("dataset", "kind", "epsilon")
_LEARN = """\
Learn a Bayesian network of a given structure (--edge, --network), what all tables tell together
(--marginals), or any other kind that the server knows (--kind, --field). It is learnt from tables
released before and those bought for --epsilon. The tables answer later questions too.
"""
_ASK = """\
Ask a model, at no cost: the distribution of some variables (--marginal), their most probable
labels (--most-probable), or how many records it expects (--where, --json-query). A model's answer
has no guarantee; with --length a count is checked: history or a measurement gives an interval,
which confirms the model's answer or contradicts it.
"""
_PROPOSE = """\
Propose the edges of a network over the attributes of a model, as many as a cap on what it could
leak allows: at --fpr false positives no test may find more than --max-power of the members. It is
made from the model's own answers, so that nothing is spent and no record is read. The exit code is
3 where not even attributes without edges keep to the cap.
"""

_Run = Callable[[argparse.Namespace, Runtime], ExitCode]


def register(commands: Commands, runtime: Runtime) -> None:
    """Add the commands of models to the command line."""
    parser = commands.add_parser("model", help="models made from released tables")
    below = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_learn(below, runtime)
    _add(below, runtime, "list", "list the models of a dataset", run_list)
    _add(below, runtime, "show", "show a model", run_show, has_model=True)
    _add_ask(below, runtime)
    _add_propose(below, runtime)
    sample = _add(below, runtime, "sample", "draw synthetic records", run_sample, has_model=True)
    add_fields(sample, fields.RECORDS, fields.SEED)
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
    commands: Commands,
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
    add_server_options(parser, runtime, run)
    return parser


def _add_learn(commands: Commands, runtime: Runtime) -> None:
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
    structure.add_argument("--kind", metavar="NAME", help="any kind that the server knows")
    parser.add_argument(
        "--field",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a field of the request of --kind, as JSON or text",
    )
    add_fields(
        parser,
        fields.VARIABLES,
        fields.EPSILON,
        fields.ALLOCATION,
        fields.SELECTION,
        fields.ORACLE,
        fields.EXPLAIN,
    )


def _add_ask(commands: Commands, runtime: Runtime) -> None:
    parser = _add(commands, runtime, "ask", "ask a model", run_ask, has_model=True)
    parser.description, parser.epilog = _ASK, WHERE_HELP
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_fields(parser, fields.MARGINAL, fields.MOST_PROBABLE, fields.GIVEN)
    add_where(parser)
    add_fields(parser, fields.COUNT, fields.CHECKED, fields.FALLBACK, may_lack=True)
    add_fields(parser, fields.SURELY, fields.EXPLAIN)


def _add_propose(commands: Commands, runtime: Runtime) -> None:
    summary = "propose a structure under a cap on leaks"
    parser = _add(commands, runtime, "propose", summary, run_propose, has_model=True)
    parser.description = _PROPOSE
    add_fields(parser, *fields.LEAK, *fields.GATE, *fields.STRUCTURE)


def run_learn(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Learn a model, wait for it, and show its id and its price."""
    asked = _model_wanted(args)
    if args.explain:
        reply = reply_to(asked.explained(dict), args, runtime)
        return show_reply(reply, show_learning_price, args, runtime)
    return show_reply(reply_to(asked, args, runtime), show_learnt, args, runtime)


def run_list(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """List the models of a dataset."""
    from qserver.client import model_requests

    reply = reply_to(model_requests.all_models(args.dataset), args, runtime)
    return show_reply(reply, show_models, args, runtime)


def run_show(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Show a model's facts, as JSON."""
    from qserver.client import model_requests

    reply = reply_to(model_requests.get(args.dataset, args.model), args, runtime)
    runtime.console.line(reply.text.rstrip("\n"))
    return ExitCode.OK


def run_ask(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Ask a model, and show its answer."""
    asked = _question(args)
    if args.explain:
        reply = reply_to(asked.explained(dict), args, runtime)
        return show_reply(reply, show_question_price, args, runtime)
    return show_reply(reply_to(asked, args, runtime), show_model_answer, args, runtime)


def run_propose(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Print the edges of a structure; the exit code says if the gate refuses."""
    from qserver.client import model_requests

    asked = model_requests.propose(
        args.dataset,
        args.model,
        gate=model_requests.Gate(**given(args, *fields.GATE)),
        **given(args, *fields.LEAK, *fields.STRUCTURE),
    )
    reply = reply_to(asked, args, runtime)
    show_reply(reply, show_proposal, args, runtime)
    return ExitCode.OK if reply.document["decision"]["passes"] else ExitCode.REFUSED


def run_sample(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Draw synthetic records, as CSV."""
    from qserver.client import model_requests

    asked = model_requests.sample(args.dataset, args.model, args.n, seed=args.seed)
    return _write(reply_to(asked, args, runtime).text, args.output, runtime)


def run_export(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Print a model in the format of its field."""
    from qserver.client import model_requests

    asked = model_requests.export(args.dataset, args.model)
    return _write(reply_to(asked, args, runtime).text, args.output, runtime)


def _write(text: str, path: str | None, runtime: Runtime) -> ExitCode:
    if path is None:
        runtime.console.line(text.rstrip("\n"))
        return ExitCode.OK
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as exc:
        raise ConfigError("--output", "be a file that can be written", path) from exc
    return ExitCode.OK


def _model_wanted(args: argparse.Namespace) -> Exchange[LearntModel]:
    from qserver.client import model_requests

    if args.kind is not None:
        fields = dict(map(_field, args.field))
        return model_requests.learn(args.dataset, args.kind, epsilon=args.epsilon, **fields)
    if args.field:
        raise ConfigError("--field", "come with --kind")
    if args.marginals is not None:
        marginals = [text.split(",") for text in args.marginals]
        return model_requests.learn_marginals(
            args.dataset,
            marginals,
            epsilon=args.epsilon,
            selection=args.selection,
            oracle=args.oracle,
        )
    return model_requests.learn_network(
        args.dataset, _structure(args), epsilon=args.epsilon, allocation=args.allocation
    )


def _field(text: str) -> tuple[str, Any]:
    name, mark, value = text.partition("=")
    if not name or not mark or name in _OPTIONS_OF_THEIR_OWN:
        raise ConfigError("--field", "have the form NAME=VALUE", text)
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


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
    return {"edges": edges} | ({"variables": args.variables} if args.variables else {})


def _question(args: argparse.Namespace) -> Exchange[Any]:
    from qserver.client import model_requests

    forms = [bool(args.marginal), bool(args.most_probable), bool(args.where or args.count)]
    if sum(forms) != 1:
        raise ConfigError("--marginal", "be given, or --most-probable, or a count: just one")
    model = (args.dataset, args.model)
    if args.marginal:
        return model_requests.marginal(*model, args.marginal, given=_given(args.given))
    if args.most_probable:
        return model_requests.most_probable(*model, args.most_probable, given=_given(args.given))
    query = question_of(args, args.count)
    if args.length is None:
        if args.fallback_length is not None:
            raise ConfigError("--fallback-length", "come with --length")
        return model_requests.count(*model, query)
    return model_requests.check(
        *model, query, **given(args, fields.CHECKED, fields.SURELY, fields.FALLBACK)
    )


def _given(texts: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    if not all(name and mark for name, mark, _ in pairs):
        raise ConfigError("--given", "have the form NAME=LABEL")
    return {name: label for name, _, label in pairs}
