"""Errors on a page: what happened, what it means, what to do.

Errors name the fields of documents. Here each name is translated to the label in the form, with
the names of the inputs that hold it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from werkzeug.exceptions import HTTPException

from qserver.answering.models.kinds.registry import kind_of
from qserver.api.errors import INTERNAL, kind_of_problem
from qserver.api.headers import request_id
from qserver.errors import (
    AllowanceExhaustedError,
    BudgetExhaustedError,
    DisclosureGuardError,
    InputError,
    QServerError,
    SqlError,
)
from qserver.portal.question import FormQuestion, form_attributes
from qserver.query import request_fields as fields
from qserver.query.calendar import PeriodRetiredError
from qserver.query.domain import Domain
from qserver.query.request_fields import Field, told
from qserver.records.answer import Offer
from qserver.records.claim import ClaimGuardError

_ALL = re.compile(r"(?s).*")
_QUERY = re.compile(r"\Aquery\b\.?")
_MODEL = re.compile(r"\A((network|structure|marginals)\b[., ]*)+")
_PART = re.compile(r"[.\[][^.\[]*\Z")
# The hint of a condition that cuts through a bin.
_BETWEEN = re.compile(r'\{"between": \["?([^,"]+)"?, "?([^\]"]+)"?\]\}')


def _shown(label: str, *inputs: str) -> Field:
    """A field in its form: its label, and its inputs."""
    return Field("", "", label=label, inputs=inputs)


@dataclass(frozen=True)
class FormFields:
    """The fields of a form, by their names in errors.

    Args:
        named: by name; of a longer name the longest beginning counts.
        other: what any other name is about.
        wrapping: what such a name has around a place in what was typed; all of it by default.
        parts: places that are parts of every such field, in words.
        mentions: labels of the fields that messages speak of, by name.
    """

    named: Mapping[str, Field]
    other: Field
    wrapping: re.Pattern[str] = _ALL
    parts: Mapping[str, str] = field(default_factory=dict)
    mentions: Mapping[str, str] = field(default_factory=dict)

    def field_of(self, name: str) -> Field:
        """The field of a name."""
        while name and name not in self.named:
            cut = _PART.search(name)
            name = name[: cut.start()] if cut else ""
        return self.named.get(name, self.other)

    def told(self, error: InputError) -> str:
        """The error's message with the form's labels."""
        found = self.field_of(error.name)
        place = self.wrapping.sub("", error.name) if found is self.other else ""
        at = f", at `{place}`," if place else ""
        if place in self.parts:
            at = f": {self.parts[place]}"
        if error.is_sentence or isinstance(error, SqlError):
            return self._in_words(str(error).removeprefix(error.place.format(error.name)))
        rest = str(error).removeprefix(error.subject.format(error.name))
        return f"“{found.label}”{at}{self._in_words(rest)}"

    def _in_words(self, text: str) -> str:
        """A message with labels in place of names, and ranges as people write them."""

        names = {name: f"“{label}”" for name, label in self.mentions.items()}
        return told(_BETWEEN.sub(r"\1 to \2", text), names)


def question_fields(question: FormQuestion, domain: Domain) -> FormFields:
    """The fields of the query builder."""
    named = {field.name: field for field in _QUESTION if field.label}
    text = fields.QUERY
    if question.is_json:
        return FormFields(named, text, wrapping=_QUERY)
    if question.text:
        if _says("WITHIN", question):
            named["length"] = _shown("The length, twice WITHIN,", "text")
        if _says("CONFIDENCE", question):
            named["confidence"] = _shown("CONFIDENCE", "text")
        return FormFields(named, text)
    for attribute in form_attributes(domain):
        name, place = attribute.name, f"query.where.{attribute.name}"
        if attribute.kind == "labels":
            named[place] = _shown(name, f"is:{name}")
            continue
        named[place] = _shown(name, f"from:{name}", f"to:{name}")
        named[f"{place}.from"] = _shown(f"{name}, from", f"from:{name}")
        end = "to below" if attribute.kind == "real" else "to"
        named[f"{place}.to"] = _shown(f"{name}, {end}", f"to:{name}")
    return FormFields(named, text)


def learning_fields(kind: str) -> FormFields:
    """The fields of the form that learns a model of a kind."""
    text = kind_of(kind).face.text
    what, epsilon = _shown(text.label, text.name), fields.EPSILON
    mentions = {"epsilon": epsilon.label}
    parts = {"variables": "its variables", "edges": "its edges", "name": "the name of a variable"}
    return FormFields({"epsilon": epsilon}, what, wrapping=_MODEL, parts=parts, mentions=mentions)


def model_fields(names: tuple[str, ...], *, text: str = "") -> FormFields:
    """The fields of the forms that ask a model.

    Args:
        names: of the attributes that the model has.
        text: the count that was asked for, or ''.
    """
    if text:
        wrapping = _QUERY if text.startswith("{") else _ALL
        return FormFields({}, fields.COUNT, wrapping=wrapping)
    given = _shown(fields.GIVEN.label, *(f"given:{name}" for name in names))
    named = {name: _shown(f"{name}, given", f"given:{name}") for name in names}
    named |= {"given": given, "evidence": given}
    mentions = {field.name: field.label for field in (fields.MARGINAL, fields.GIVEN)}
    return FormFields(named, fields.MARGINAL, mentions=mentions)


_QUESTION = (*fields.QUESTION, *fields.LOOKING, fields.ASSUMING)
THRESHOLD_FIELDS = FormFields({"at_most": fields.BETWEEN}, fields.AT_LEAST)
RECORD_FIELDS = FormFields({"seed": fields.SEED}, fields.RECORDS)


def _says(clause: str, question: FormQuestion) -> bool:
    return re.search(rf"\b{clause}\b", question.text, re.IGNORECASE) is not None


_ADVICE = {
    "budget_exhausted": "Nothing was spent. Ask for a longer interval or less confidence, or take "
    "what is known at no cost.",
    "over_at_most": "Nothing was spent. Allow more, or ask for a longer interval or less "
    "confidence, or take what is known at no cost.",
    "allowance_exhausted": "Nothing was spent. Ask for a longer interval or less confidence; the "
    "owner of the data decides about allowances.",
    "pace_exceeded": "Nothing was spent. Wait, or ask for a longer interval or less confidence.",
    "disclosure_guard": "Nothing was spent. Ask for a longer interval or less confidence.",
    "claim_guard": "Nothing was spent. Ask for a longer interval, or for this question only.",
    "period_retired": "Nothing was spent. Ask about later periods, for a longer interval or less "
    "confidence, or take what is known at no cost.",
    "unconfirmed": "Nothing was spent. Say how long the interval may be, and ask again.",
    "not_estimable": "No released answer says anything about it. Ask the question: you see its "
    "price first.",
    "invalid_query": "Change the question and ask again.",
    "invalid_sql": "Change the question and ask again.",
    "invalid_requirement": "Change the interval or the confidence and ask again.",
    "no_worker": "You can still read what is known. Try again in a while.",
    "busy": "You can still read what is known. Try again in a while.",
    "rate_limited": "Wait a few seconds and try again.",
    "measurement_failed": "Ask again later; the operator's log has the cause.",
    "population_closed": "Nothing was spent. Tell the data's owner, who may have a later copy.",
    "books_differ": "Nothing was spent. Tell the data's owner: the worker's log has the cause.",
    "unanswerable": "Nothing was spent. Ask in another way; the operator's log has the cause.",
}


@dataclass(frozen=True)
class Fault:
    """The part of an error that a page shows.

    Args:
        title: the same for all of its kind.
        detail: what is wrong here.
        advice: what may help, or ''.
        price_nano, remaining_nano: where the question costs more than there is.
        free: the best interval that costs nothing, or None.
        is_known: whether something is known at no cost.
        inputs: names of the form's inputs that are wrong.
        excerpt: the line of a text that cannot be answered, with carets below the place; or ''.
    """

    code: str
    status: int
    title: str
    detail: str
    advice: str
    retry_after_s: int | None = None
    price_nano: int | None = None
    remaining_nano: int | None = None
    free: Any = None
    excerpt: str = ""
    is_known: bool = False
    inputs: tuple[str, ...] = ()

    @property
    def inputs_json(self) -> str:
        """The inputs, for the script that marks them."""
        return json.dumps(self.inputs)

    @property
    def is_internal(self) -> bool:
        """Whether the server itself failed; then no details are shown."""
        return self.code == INTERNAL.code


def fault_of(exc: Exception, fields: FormFields | None = None) -> Fault:
    """The part of an error that a page shows; of an unknown error, the request's id.

    Args:
        fields: of the form that was sent, in whose words the error is told.
    """
    kind = kind_of_problem(exc.code) if isinstance(exc, QServerError) else INTERNAL
    detail = kind.detail or str(exc)
    if kind is INTERNAL:
        detail += f" Request {request_id()}."
    facts: dict[str, Any] = {}
    if isinstance(exc, BudgetExhaustedError | AllowanceExhaustedError):
        facts = {"price_nano": exc.price_nano, "remaining_nano": exc.remaining_nano}
    if isinstance(
        exc, BudgetExhaustedError | DisclosureGuardError | ClaimGuardError | PeriodRetiredError
    ):
        # A table has one for each number; its page shows them.
        facts["free"] = exc.free if isinstance(exc.free, Offer) else None
        facts["is_known"] = bool(exc.free)
    if isinstance(exc, SqlError):
        facts["excerpt"] = exc.excerpt
    if isinstance(exc, InputError) and fields is not None:
        detail = fields.told(exc)
        facts["inputs"] = fields.field_of(exc.name).inputs
    return Fault(
        code=kind.code,
        status=kind.status,
        title=kind.title,
        detail=detail,
        advice=_ADVICE.get(kind.code, ""),
        retry_after_s=kind.retry_after_s,
        **facts,
    )


def fault_of_http(exc: HTTPException) -> Fault:
    """The fault of a malformed request."""
    status = exc.code or 500
    title = "The request cannot be read" if status < 500 else INTERNAL.title
    detail = exc.description or "" if status < 500 else INTERNAL.detail or ""
    return Fault("bad_request" if status < 500 else INTERNAL.code, status, title, detail, "")
