"""How replies about models are shown on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from qserver.cli.console import Console, cost_text
from qserver.cli.questions import price_text, show_answer, show_cost, show_price, show_remaining

_MOST_LINES = 200


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
    console.table(("model", "kind", "tables", "cost"), rows)


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
    of_it = () if sample is None else (f"of that for a sample: {cost_text(sample)} epsilon",)
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
        rise = "rise of 1/b" if sample is None else "rise of 1/b, at most"
        console.table(("cells", "table", rise), rows)


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
    """How many independent numbers a network and its tables have."""
    most = "" if audit["table_complexity_is_exact"] else "at most "
    console.line(
        f"independent numbers: {audit['complexity']:,} in the model, "
        f"{most}{audit['table_complexity']:,} in its tables"
    )


def gate_text(*, passes: bool, reason: str) -> str:
    """The decision of a gate."""
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
