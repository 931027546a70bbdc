"""A question as a form's fields, and back.

Fields are named by attribute: `from:age`, `to:age` (numbers and periods), `is:sex` (any number of
labels) and `not:sex` (the labels are those left out). A level of labels has fields as an attribute.
`text` holds a query that was written by hand, on the page of SQL.
`within` is half the length of the interval, as in SQL; addresses of before have its `length`.
Names of attributes have no colon, so none of them can be taken for another.

The mark of a question is that of the one that a price was shown for, so that no other question is
paid at that price. A form contains the mark of the priced question. If the form was changed before
it is sent, the new price is shown first. Pages with scripts prevent this case.

The builder's tables: a number for each value of one to three attributes, as SQL.

The statement is shown with its price and its answer, so that the next step from the builder to SQL
is to change a text that works.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from itertools import pairwise
from typing import Any, cast
from urllib.parse import urlencode

from werkzeug.datastructures import MultiDict

from qserver.errors import InputError, QueryError, RequirementError
from qserver.query.asking.after_looking import Looking, Rule, Selection
from qserver.query.asking.method_and_prior import Method, Reading, prior_of
from qserver.query.asking.structured_question import attribute_of
from qserver.query.domain import Attribute, Domain, decimal_text
from qserver.query.exact_numbers import exact_number
from qserver.query.request_fields import METHOD, PRIOR
from qserver.query.requirement import (
    MAX_LENGTH,
    MIN_DELTA,
    MIN_LENGTH,
    Measure,
    Requirement,
    measure_of,
)
from qserver.query.sql.tokens import written_name

MARK_FIELD = "priced"
WITHIN_FIELD = "priced_within"
_DIGITS = 32


def mark_of(fields: str) -> str:
    """A short digest of a form's fields."""
    return sha256(fields.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def is_as_priced(form: MultiDict[str, str], mark: str, *, within: str = "") -> bool:
    """Whether a form still asks the priced question; a form without a price may be sent.

    Args:
        mark: of what the form says; `within` where a price is for one length.
    """
    if MARK_FIELD not in form:
        return True
    return form[MARK_FIELD] == mark and form.get(WITHIN_FIELD, "") == within


DEFAULT_WITHIN = "50"
DEFAULT_CONFIDENCE = "95"
MOST_GROUPS = 3
_TYPED = ("measure", "rule", "among", "first", *METHOD.inputs, *PRIOR.inputs)
_MOST_PERCENT = 100 - 100 * Fraction(str(MIN_DELTA))


def form_attributes(domain: Domain) -> list[Attribute]:
    """The attributes of the form's conditions, each after its levels."""
    return [
        found
        for attribute in domain.attributes
        for found in (*(attribute_of(level, attribute) for level in attribute.levels), attribute)
    ]


@dataclass(frozen=True)
class Range:
    """The ends of a condition on numbers or periods, as typed; '' for none."""

    low: str
    high: str


@dataclass(frozen=True)
class Choice:
    """The ticked labels, and whether the condition leaves them out."""

    labels: tuple[str, ...]
    is_not: bool


@dataclass(frozen=True)
class FormQuestion:
    """The question in a form.

    Args:
        ranges, choices: conditions by attribute; only those that say something.
        text: a query written by hand, in place of conditions; '' for none.
        within: half the length of the interval, as typed; as WITHIN of SQL says it.
        confidence: in percent, as typed.
        measure: what may be measured, as chosen; '' for the owner's choice.
        among, rule, first: the choice that the question came of, as typed; none where `among` is
            empty.
        independent: whether to measure anew, with fresh noise.
        method, prior: how the posterior is read, as chosen; '' as ever.
        prior_low, prior_high: ends of the prior `between`, as typed.
        by: attributes that the number is broken down by, three at most.
        average: the attribute whose average is asked; '' for a count.
        assuming: how many records each average is of at least, as typed.
    """

    ranges: Mapping[str, Range]
    choices: Mapping[str, Choice]
    text: str
    within: str
    confidence: str
    measure: str = ""
    among: str = ""
    rule: str = ""
    first: str = ""
    independent: bool = False
    method: str = ""
    prior: str = ""
    prior_low: str = ""
    prior_high: str = ""
    by: tuple[str, ...] = ()
    average: str = ""
    assuming: str = ""

    @classmethod
    def of(cls, fields: MultiDict[str, str], domain: Domain) -> FormQuestion:
        """The question in a form's fields; fields of unknown attributes are ignored."""
        ranges, choices = {}, {}
        for attribute in form_attributes(domain):
            name = attribute.name
            if attribute.kind == "labels":
                labels = tuple(dict.fromkeys(fields.getlist(f"is:{name}")))
                if labels:
                    choices[name] = Choice(labels, bool(fields.get(f"not:{name}")))
                continue
            typed = Range(
                fields.get(f"from:{name}", "").strip(), fields.get(f"to:{name}", "").strip()
            )
            if typed.low or typed.high:
                ranges[name] = typed
        said = {name: fields.get(name, "").strip() for name in _TYPED}
        if not said["among"]:
            said |= {"rule": "", "first": ""}
        if said["method"] == METHOD.default:
            said["method"] = ""
        if said["prior"] != "between":
            said |= {"prior_low": "", "prior_high": ""}
        return cls(
            ranges=ranges,
            choices=choices,
            # Line and column tell places in the text, so leading blanks stay.
            text=fields.get("text", "").replace("\r\n", "\n").rstrip(),
            within=_within_of(fields, domain),
            confidence=fields.get("confidence", DEFAULT_CONFIDENCE).strip(),
            independent=bool(fields.get("independent")),
            **said,
            by=tuple(dict.fromkeys(filter(None, fields.getlist("by"))))[:MOST_GROUPS],
            average=(average := fields.get("average", "")),
            assuming=fields.get("assuming", "").strip() if average else "",
        )

    def as_text(self, domain: Domain, dataset: str) -> FormQuestion:
        """The builder's question as a statement; raises as `statement_of` does."""
        text = statement_of(self, domain, dataset)
        plain = replace(self, ranges={}, choices={}, by=(), average="", assuming="")
        return replace(plain, text=text)

    @staticmethod
    def fields_of(pairs: Sequence[tuple[str, str]]) -> str:
        """Fields as the query part of an address."""
        return urlencode(pairs, safe=":")

    @property
    def is_table(self) -> bool:
        """Whether the builder itself asks for a table or an average."""
        return not self.text and bool(self.by or self.average)

    def least(self) -> int | None:
        """The least number of records of each average; InputError for no number."""
        return _whole(self.assuming, "assuming") if self.assuming else None

    @property
    def is_json(self) -> bool:
        """Whether the text is a query in JSON instead of SQL."""
        return self.text.lstrip().startswith("{")

    @property
    def mark(self) -> str:
        """Equal for questions that differ only in their length."""
        return mark_of(replace(self, within="").encoded())

    @property
    def chosen(self) -> Measure | None:
        """What may be measured; None for the owner's choice; InputError for an unknown one."""
        return measure_of(self.measure) if self.measure else None

    def looking(self) -> Looking:
        """The choice after looking; InputError if it means nothing."""
        chosen = None
        if self.among:
            try:
                chosen = Selection(
                    _whole(self.among, "m"),
                    cast("Rule", self.rule or "largest"),
                    _whole(self.first or "1", "first"),
                )
            except InputError as exc:
                raise exc.under("selected_from") from exc
        return Looking(chosen, independent=self.independent)

    def reading(self) -> Reading:
        """The reading of the posterior; InputError if it means nothing."""
        prior: object = self.prior
        if self.prior == "between":
            ends = (self.prior_low, self.prior_high)
            prior = {"between": [float(_number(end, "prior")) for end in ends]}
        known = prior_of(prior) if self.prior else None
        return Reading(cast("Method", self.method or "auto"), prior=known)

    def requirement(self) -> Requirement:
        """Length and confidence; RequirementError if one cannot be read or is out of range."""
        half = _number(self.within, "length")
        if not MIN_LENGTH <= 2 * half <= MAX_LENGTH:
            least, most = MIN_LENGTH / 2, MAX_LENGTH / 2
            raise RequirementError("length", f"be from {least:g} to {most:g}", self.within)
        confidence = _number(self.confidence, "confidence")
        if not 0 < confidence <= _MOST_PERCENT:
            raise RequirementError(
                "confidence",
                f"be above 0 and at most {decimal_text(_MOST_PERCENT)}",
                self.confidence,
            )
        return Requirement(length=float(2 * half), confidence=float(confidence / 100))

    def where(self, domain: Domain) -> dict[str, Any]:
        """The conditions as a `where` document; QueryError for an unreadable number."""
        document: dict[str, Any] = {}
        for attribute in form_attributes(domain):
            if attribute.name in self.ranges:
                document[attribute.name] = _between(attribute, self.ranges[attribute.name])
            elif attribute.name in self.choices:
                choice = self.choices[attribute.name]
                labels = list(choice.labels)
                document[attribute.name] = {"not": labels} if choice.is_not else labels
        return document

    def pairs(self) -> list[tuple[str, str]]:
        """The non-empty fields."""
        found = [("text", self.text)] if self.text else []
        for name, typed in self.ranges.items():
            found += [(f"from:{name}", typed.low)] if typed.low else []
            found += [(f"to:{name}", typed.high)] if typed.high else []
        for name, choice in self.choices.items():
            found += [(f"is:{name}", label) for label in choice.labels]
            found += [(f"not:{name}", "1")] if choice.is_not else []
        found += [(name, getattr(self, name)) for name in _TYPED if getattr(self, name)]
        found += [("independent", "1")] if self.independent else []
        if self.is_table:
            found += [("by", name) for name in self.by]
            found += [("average", self.average)] if self.average else []
            found += [("assuming", self.assuming)] if self.assuming else []
        return [*found, ("within", self.within), ("confidence", self.confidence)]

    def encoded(self) -> str:
        """The fields as the query part of an address."""
        return self.fields_of(self.pairs())


def _within_of(fields: MultiDict[str, str], domain: Domain) -> str:
    """The typed length, half the `length` of an earlier address, the owner's, or the default."""
    if "within" in fields or "length" not in fields:
        owners = DEFAULT_WITHIN if domain.within is None else decimal_text(domain.within)
        return fields.get("within", owners).strip()
    typed = fields["length"].strip()
    try:
        return decimal_text(_number(typed, "length") / 2)
    except RequirementError:
        return typed


def _between(attribute: Attribute, typed: Range) -> dict[str, Any]:
    """A range with both ends included on whole numbers and periods, [low, high) on real ones."""
    if attribute.is_timed:
        return _between_periods(attribute, typed)
    place = f"query.where.{attribute.name}"
    low = exact_number(typed.low, f"{place}.from") if typed.low else None
    high = exact_number(typed.high, f"{place}.to") if typed.high else None
    if low is not None and high is not None:
        return {"between": [low, high]}
    if low is not None:
        return {"at_least": low}
    if high is None:
        raise QueryError(place, "have an end")
    return {"below": high + 1 if attribute.kind == "integer" else high}


def _between_periods(attribute: Attribute, typed: Range) -> dict[str, Any]:
    if typed.high:
        return {"between": [typed.low or attribute.value_names[0], typed.high]}
    return {"at_least": typed.low}


def _number(text: str, name: str) -> Fraction:
    # People set thousands apart; a document may not.
    return exact_number(text.replace(",", ""), name, RequirementError)


def _whole(text: str, name: str) -> int:
    """A whole number as people write it."""
    digits = text.replace(",", "")
    if not digits.isascii() or not digits.isdigit():
        raise InputError(name, "be a whole number", text)
    return int(digits)


def bin_hint(attribute: Attribute) -> str:
    """The range and the steps of an attribute: `17 to 90`, `0 to 100 in steps of 10`.

    Of periods the first and the last: `2024-W10 to 2034-W07`.
    """
    if attribute.is_timed:
        names = attribute.value_names[: attribute.n_regular]
        return f"{names[0]} to {names[-1]}"
    edges = attribute.edges
    low, high = edges[0], edges[-1] - (1 if attribute.kind == "integer" else 0)
    widths = {b - a for a, b in pairwise(edges)}
    span = f"{decimal_text(low)} to {decimal_text(high)}"
    if len(widths) == 1:
        width = next(iter(widths))
        return (
            span
            if width == 1 and attribute.kind == "integer"
            else f"{span} in steps of {decimal_text(width)}"
        )
    cuts = ", ".join(decimal_text(e) for e in edges[:8])
    return f"{span}; cuts at {cuts}" + (", …" if len(edges) > 8 else "")


def statement_of(question: FormQuestion, domain: Domain, dataset: str) -> str:
    """The statement of a form that breaks down or asks for an average.

    Raises:
        QueryError: an end of a condition cannot be read.
        InputError: the number of records is none.
    """
    groups = [written_name(name) for name in question.by]
    number = f"AVG({written_name(question.average)})" if question.average else "COUNT(*)"
    called = "average" if question.average else "n"
    parts = [
        f"SELECT {', '.join([*groups, f'{number} AS {called}'])}",
        f"FROM {written_name(dataset)}",
    ]
    where = question.where(domain)
    conditions = [
        _condition(attribute, where[attribute.name])
        for attribute in form_attributes(domain)
        if attribute.name in where
    ]
    parts += [f"WHERE {' AND '.join(conditions)}"] if conditions else []
    parts += [f"GROUP BY {', '.join(groups)}"] if groups else []
    least = question.least()
    parts += [f"ASSUMING AT LEAST {least}"] if least else []
    return " ".join(parts)


def examples(domain: Domain) -> list[tuple[str, str]]:
    """Questions to begin with, in words and as the query part of an address."""
    few = sorted(_few_labels(domain), key=lambda attribute: attribute.size)
    time = [a for a in domain.attributes if a.is_timed and 2 <= a.n_sealed <= _MOST_PERIODS]
    found: list[tuple[str, list[tuple[str, str]]]] = [("How many records are there?", [])]
    found += [(f"How many by {a.name}?", [("by", a.name)]) for a in [*time[:1], *few[:1]]]
    pair = [*time, *few][:2]
    if len(pair) == 2:
        names = [a.name for a in pair]
        found.append((f"By {names[0]} and {names[1]}?", [("by", name) for name in names]))
    return [(text, FormQuestion.fields_of(pairs)) for text, pairs in found]


def _few_labels(domain: Domain) -> Iterator[Attribute]:
    """Each attribute of labels, or a level of it: whichever has fewest values, of those with
    few."""
    for attribute in domain.attributes:
        if attribute.kind == "labels":
            levels = (attribute_of(level, attribute) for level in attribute.levels)
            few = [a for a in (*levels, attribute) if 2 <= a.size <= _FEW]
            yield from sorted(few, key=lambda a: a.size)[:1]


_FEW = 12
_MOST_PERIODS = 100


def _condition(attribute: Attribute, condition: Any) -> str:
    name = written_name(attribute.name)
    if isinstance(condition, list):
        return f"{name} IN ({_texts(condition)})"
    ((operator, operand),) = condition.items()
    if operator == "not":
        others = f"{name} NOT IN ({_texts(operand)})"
        # A form keeps missing values, except for these; in SQL they are NULL.
        keeps_missing = attribute.null and attribute.other not in operand
        return f"({others} OR {name} IS NULL)" if keeps_missing else others
    if attribute.is_timed:
        if operator == "at_least":
            return f"{name} >= {_text(operand)}"
        return f"{name} BETWEEN {_text(operand[0])} AND {_text(operand[1])}"
    if operator == "at_least":
        return f"{name} >= {operand}"
    if operator == "below":
        return f"{name} < {operand}"
    low, high = operand
    if attribute.kind == "integer":
        return f"{name} BETWEEN {low} AND {high}"
    return f"{name} >= {low} AND {name} < {high}"


def _texts(values: Sequence[str]) -> str:
    return ", ".join(map(_text, values))


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
