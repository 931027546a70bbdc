"""A model to be learnt, and a question to a model, as a form's fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from werkzeug.datastructures import MultiDict

from qserver.answering.models.kinds import registry
from qserver.errors import InputError
from qserver.portal.question import mark_of
from qserver.query.numbers import exact_number
from qserver.records.charge import NANO

MAX_EPSILON = 1_000_000
_DEFAULT_EPSILON = "0.1"


@dataclass(frozen=True)
class LearnForm:
    """The model that a form asks for, as it was typed.

    Args:
        kind: one of the registry's.
        texts: what is to be learnt, by kind.
        epsilon: what tables may cost.
    """

    kind: str
    texts: Mapping[str, str]
    epsilon: str

    @classmethod
    def of(cls, fields: MultiDict[str, str]) -> LearnForm:
        """The form's fields. An unknown kind counts as the first one."""
        kinds = registry.KINDS
        kind = fields.get("kind", "")
        return cls(
            kind=kind if kind in kinds else next(iter(kinds)),
            texts={k: _lines_of(fields, found.face.text.name) for k, found in kinds.items()},
            epsilon=fields.get("epsilon", _DEFAULT_EPSILON).strip(),
        )

    def encoded(self) -> str:
        """The fields as the query part of an address."""
        name = registry.KINDS[self.kind].face.text.name
        pair = (name, self.texts[self.kind])
        return urlencode([("kind", self.kind), pair, ("epsilon", self.epsilon)])

    @property
    def mark(self) -> str:
        """Equal for forms with equal contents."""
        return mark_of(self.encoded())

    def epsilon_nano(self) -> int:
        """The price in nano-epsilon, rounded down; InputError where it is out of range."""
        value = exact_number(self.epsilon.replace(",", ""), "epsilon", InputError)
        if not 0 <= value <= MAX_EPSILON:
            raise InputError("epsilon", f"be 0 to {MAX_EPSILON:,}", self.epsilon)
        return int(value * NANO)

    def document(self) -> dict[str, Any]:
        """What the kind of model reads; InputError where a line cannot be read."""
        return registry.KINDS[self.kind].face.text.read(self.texts[self.kind])


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
