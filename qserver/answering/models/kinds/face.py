"""How a kind of model presents itself: in requests, in forms, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qserver.errors import InputError

Document = Mapping[str, Any]
_SIGN = ">"


@dataclass(frozen=True)
class RequestField:
    """A member of the request for a model, beside `kind` and `epsilon`.

    Args:
        type: in Python.
        default: what stands for it where it is left out; None where the kind needs it.
        schema: JSON Schema, where the type does not say enough.
    """

    name: str
    type: Any
    default: Any
    description: str
    schema: Document | None = None


@dataclass(frozen=True)
class FormText:
    """The text that says in a form what is to be learnt.

    Args:
        name: of the input.
        hint: a sentence below it; may have HTML.
        example: with `{0}` and `{1}` for two attributes.
        read: the request's members that a text means; InputError where a line cannot be read.
    """

    name: str
    label: str
    hint: str
    example: str
    n_lines: int
    read: Callable[[str], dict[str, Any]]


@dataclass(frozen=True)
class KindFace:
    """What people see of a kind.

    Args:
        name: of one model of the kind.
        choice, offer: among the kinds of a form, and what it is good for.
        meaning: of the kind's name in a request.
        words: what a model is, from its specification or from the request; with the names of the
            dataset's attributes and the most parts that are to be named.
        file_ending, media_type: of an exported model.
    """

    name: str
    choice: str
    offer: str
    meaning: str
    fields: tuple[RequestField, ...]
    text: FormText
    words: Callable[[Document, Sequence[str], int], str]
    file_ending: str
    media_type: str


def shortened(names: Sequence[str], most: int) -> str:
    """The first few names, and how many more there are."""
    more = len(names) - most
    text = ", ".join(names[:most])
    return f"{text} and {more:,} more" if more > 0 else text


def _network_of(text: str) -> dict[str, Any]:
    if "{" in text:
        return {"network": text}
    lines = _lines(text)
    if not lines:
        raise InputError("structure", "have an edge `parent > child` on each line, or be BIF")
    edges, names = [], []
    for line in lines:
        parts = [part.strip() for part in line.replace("->", _SIGN).split(_SIGN)]
        if len(parts) > 2 or not all(parts):
            raise InputError("structure", "have an edge `parent > child` on each line", line[:80])
        if len(parts) == 2:
            edges.append(parts)
        names += parts
    return {"network": {"edges": edges, "variables": list(dict.fromkeys(names))}}


def _marginals_of(text: str) -> dict[str, Any]:
    found = []
    for line in _lines(text):
        names = [name.strip() for name in line.split(",")]
        if not all(names):
            raise InputError("marginals", "have names with commas between on each line", line[:80])
        found.append(names)
    return {"marginals": found}


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _network_words(document: Document, _names: Sequence[str], most: int) -> str:
    found = document.get("network", document)
    if isinstance(found, str):
        return "the network in BIF"
    edges = [f"{parent} → {child}" for parent, child in found["edges"]]
    joined = {name for edge in found["edges"] for name in edge}
    return shortened([*edges, *(n for n in found["variables"] if n not in joined)], most)


def _marginals_words(document: Document, names: Sequence[str], most: int) -> str:
    # Specifications of earlier versions have places in the domain, not names.
    scopes = [
        " × ".join(n if isinstance(n, str) else names[n] for n in scope)
        for scope in document.get("marginals", [])
    ]
    return f"{shortened(scopes, most)} beside all of history" if scopes else "all of history"


_PAIR = {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}
_EDGES = {
    "type": "object",
    "properties": {
        "edges": {"type": "array", "items": _PAIR},
        "variables": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["edges"],
    "additionalProperties": False,
}
NETWORK_FACE = KindFace(
    name="Bayesian network",
    choice="Bayesian network",
    offer="of a structure that you know; buys one table per family or a few wide ones",
    meaning="a Bayesian network whose structure is given",
    fields=(
        RequestField(
            "network",
            Any,
            None,
            "BIF text, or edges [parent, child]; parameters in it are not used",
            {"oneOf": [{"type": "string"}, _EDGES]},
        ),
        RequestField(
            "allocation",
            str,
            "best",
            "of a network: `best`, `rows`, `uniform`, `arxiv` or `icml`",
        ),
    ),
    text=FormText(
        name="structure",
        label="Structure of the network",
        hint="An edge <code>parent &gt; child</code> on each line; an attribute alone stands by "
        "itself. Or BIF, of which only the edges are used.",
        example="{0} > {1}",
        n_lines=5,
        read=_network_of,
    ),
    words=_network_words,
    file_ending="bif",
    media_type="text/plain; charset=utf-8",
)
MARGINALS_FACE = KindFace(
    name="Model of marginals",
    choice="Marginals",
    offer="all that released tables tell together, and those that you name beside them",
    meaning="whatever all tables of history tell together",
    fields=(
        RequestField(
            "marginals",
            list[list[str]],
            [],
            "of `marginals`: attributes of each marginal that is to be bought",
        ),
        RequestField(
            "selection",
            str,
            "best",
            "of `marginals`: `best` buys what serves the marginals best beside history, `listed` "
            "buys them evenly",
        ),
        RequestField(
            "oracle",
            str,
            "auto",
            "of `marginals`: `exact`, `saturated`, `factor`, or `auto` by size",
        ),
        RequestField(
            "likelihood",
            str,
            "squares",
            "of `marginals`: `squares` or `laplace`, what is minimised",
        ),
    ),
    text=FormText(
        name="marginals",
        label="Marginals to buy",
        hint="One on each line, attributes with commas between. None: history alone, with a price "
        "of 0.",
        example="{0}, {1}",
        n_lines=4,
        read=_marginals_of,
    ),
    words=_marginals_words,
    file_ending="json",
    media_type="application/json",
)
