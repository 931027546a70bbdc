"""A model to be learnt, and a question to a model, as a form's fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from werkzeug.datastructures import MultiDict

from qserver.errors import InputError
from qserver.portal.price_record import mark_of
from qserver.query.numbers import exact_number
from qserver.records.charge import NANO

KINDS = ("network", "marginals")
MAX_EPSILON = 1_000_000
_DEFAULT_EPSILON = "0.1"
_SIGN = ">"


@dataclass(frozen=True)
class LearnForm:
    """What a form asks to be learnt, as it was typed.

    Args:
        kind: `network` or `marginals`.
        structure: of a network: an edge `parent > child` or a single attribute per line, or BIF.
        marginals: a marginal per line, its attributes with commas between.
        epsilon: what tables may cost.
    """

    kind: str
    structure: str
    marginals: str
    epsilon: str

    @classmethod
    def of(cls, fields: MultiDict[str, str]) -> LearnForm:
        """The form's fields; a kind that there is not is a network."""
        kind = fields.get("kind", KINDS[0])
        return cls(
            kind=kind if kind in KINDS else KINDS[0],
            structure=_lines_of(fields, "structure"),
            marginals=_lines_of(fields, "marginals"),
            epsilon=fields.get("epsilon", _DEFAULT_EPSILON).strip(),
        )

    def encoded(self) -> str:
        """The fields as the query part of an address."""
        own = ("structure", self.structure) if self.kind == "network" else None
        pair = own or ("marginals", self.marginals)
        return urlencode([("kind", self.kind), pair, ("epsilon", self.epsilon)])

    @property
    def mark(self) -> str:
        """The same for forms that say the same."""
        return mark_of(self.encoded())

    def epsilon_nano(self) -> int:
        """The price in nano-epsilon, rounded down; InputError where it is out of range."""
        value = exact_number(self.epsilon.replace(",", ""), "epsilon", InputError)
        if not 0 <= value <= MAX_EPSILON:
            raise InputError("epsilon", f"be 0 to {MAX_EPSILON:,}", self.epsilon)
        return int(value * NANO)

    def document(self) -> dict[str, Any]:
        """What the kind of model reads; InputError where a line cannot be read."""
        if self.kind == "marginals":
            return {"marginals": [_names(line, "marginals") for line in _lines(self.marginals)]}
        if "{" in self.structure:
            return {"network": self.structure}
        lines = _lines(self.structure)
        if not lines:
            raise InputError("structure", "have an edge `parent > child` on each line, or be BIF")
        return {"network": _network(lines)}


def question_of(fields: MultiDict[str, str], variables: Sequence[str]) -> dict[str, Any] | None:
    """The distribution that a form asks of a model, or None where it asks for none.

    Fields are `show` (any number of variables) and `given:NAME` (a label, '' for none).
    """
    shown = [name for name in fields.getlist("show") if name in variables]
    given = {name: fields.get(f"given:{name}", "") for name in variables}
    if not shown:
        return None
    return {"marginal": shown, "given": {n: label for n, label in given.items() if label}}


def _lines_of(fields: MultiDict[str, str], name: str) -> str:
    # Browsers send a form's own lines with CR LF, and scripts without.
    return fields.get(name, "").replace("\r\n", "\n").strip()


def _network(lines: Sequence[str]) -> dict[str, Any]:
    edges, names = [], []
    for line in lines:
        parts = [part.strip() for part in line.replace("->", _SIGN).split(_SIGN)]
        if len(parts) > 2 or not all(parts):
            raise InputError("structure", "have an edge `parent > child` on each line", line[:80])
        if len(parts) == 2:
            edges.append(parts)
        names += parts
    return {"edges": edges, "variables": list(dict.fromkeys(names))}


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _names(line: str, field: str) -> list[str]:
    names = [name.strip() for name in line.split(",")]
    if not all(names):
        raise InputError(field, "have names with commas between on each line", line[:80])
    return names
