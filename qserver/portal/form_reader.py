"""Read a form: a linear query with its requirement, a statement that gives a table, or a model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any
from urllib.parse import urlencode

from werkzeug.datastructures import MultiDict

from qserver.answering.models.kinds import registry
from qserver.api.json_reader import JsonFaultError, parse_json
from qserver.errors import InputError, QueryError
from qserver.portal.question import FormQuestion, mark_of, statement_of
from qserver.query.asking.after_looking import NOTHING_SEEN
from qserver.query.asking.method_and_prior import AS_EVER
from qserver.query.exact_numbers import exact_number
from qserver.query.linear_query import LinearQuery
from qserver.query.question import Question
from qserver.query.request_fields import MAX_EPSILON
from qserver.query.requirement import Requirement
from qserver.query.sql.exactness import Clauses, Exactness
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.statement import Statement, Sum
from qserver.query.sql.tables.unconfirmed import with_default
from qserver.records.charge import NANO
from qserver.service.service import Service
from qserver.service.statements import Statements
from qserver.service.without_spending import WithoutSpending

_EXPLAIN = re.compile(r"\s*EXPLAIN(?=\s)", re.IGNORECASE)


@dataclass(frozen=True)
class OneQuestion:
    """One question; `has_length`: whether its text states a length."""

    question: Question
    has_length: bool = False


@dataclass(frozen=True)
class TableQuestion:
    """A statement of a table, its clauses filled in; `has_length` as above."""

    statement: Statement
    has_length: bool


def read_question(
    service: Service, dataset: str, question: FormQuestion, *, at: str = ""
) -> OneQuestion | TableQuestion:
    """The question or the statement in a form.

    A text of SQL that asks for one number, without CONSISTENT, is one question. Any other text is
    a statement. If it has no WITHIN or CONFIDENCE, the form's length and confidence are used, and
    what was looked at, and the reading, are those of the form if the text does not say them.

    Args:
        at: the last period to count, as for `Service.domain`.

    Raises:
        InputError, CapacityError: it cannot be answered; names the field, or the place.
    """
    if not question.text and not question.is_table:
        document = {"where": question.where(service.domain(dataset))}
        return _one(service.parse(dataset, document, at=at), question)
    if question.is_json:
        return _one(service.parse(dataset, _document(question.text), at=at), question)
    # The price is always shown first. Blanks keep the places of errors.
    text = _EXPLAIN.sub(lambda found: " " * len(found[0]), question.text, count=1)
    domain = service.domain(dataset, at=at)
    text = statement_of(question, domain, dataset) if question.is_table else text
    statement = parse_statement(text, domain, dataset=dataset)
    statement = statement.measuring(question.chosen)
    if not statement.columns:
        raise statement.source.refuse(
            "ask for a number on this page: names alone are on the page of the dataset",
            statement.source.end,
        )
    if statement.bounds:
        raise statement.source.refuse(
            "ask for the number itself on this page",
            statement.source.end,
            hint="The page of an answer says how likely any count is.",
        )
    if statement.inner:
        raise statement.source.refuse(
            "ask an inner SELECT first on this page, and write its groups: IN ('a', 'b')",
            statement.source.end,
            hint="Over HTTP, PostgreSQL and on the command line it is one statement.",
        )
    clauses = statement.clauses
    if clauses.looking == NOTHING_SEEN:
        clauses = replace(clauses, looking=question.looking())
    if clauses.reading == AS_EVER:
        clauses = replace(clauses, reading=question.reading())
    statement = replace(statement, clauses=clauses)
    has_length = statement.has_lengths
    requirement = _requirement(clauses, question)
    cells = statement.rows[0].cells if len(statement.rows) == 1 else ()
    is_plain = not clauses.consistent and not statement.is_processed
    is_plain = is_plain and not statement.is_column_wise
    is_one = not statement.groups and len(cells) == 1 and is_plain
    if is_one and isinstance(cells[0], Sum):
        one = Question(
            cells[0].query, requirement, clauses.measure, clauses.looking, clauses.reading
        )
        return OneQuestion(one, has_length)
    default = Exactness(Fraction(requirement.length) / 2, Fraction(str(requirement.confidence)))
    filled = with_default(statement, default)
    if not filled.has_lengths:
        raise WithoutSpending(Statements(service), service, dataset).priced(filled)
    return TableQuestion(filled, has_length)


def _one(query: LinearQuery, question: FormQuestion) -> OneQuestion:
    """A question with all but its query from the form's fields."""
    requirement, looking = question.requirement(), question.looking()
    return OneQuestion(Question(query, requirement, question.chosen, looking, question.reading()))


def _requirement(clauses: Clauses, question: FormQuestion) -> Requirement:
    """The requirement in the text, else the form's."""
    half_width, confidence = clauses.half_width, clauses.confidence
    if half_width is not None and confidence is not None:
        return Requirement(float(2 * half_width), float(confidence))
    asked = question.requirement()
    length = asked.length if half_width is None else float(2 * half_width)
    return Requirement(length, asked.confidence if confidence is None else float(confidence))


def _document(text: str) -> object:
    try:
        return parse_json(text)
    except JsonFaultError as exc:
        raise QueryError("query", f"be a JSON object as for HTTP: {exc}") from exc


_DEFAULT_EPSILON = "0.1"


@dataclass(frozen=True)
class LearnForm:
    """The model that a form asks for, as typed.

    Args:
        kind: one of the registry's.
        texts: what is to be learnt, by kind.
        epsilon: what tables may cost.
        merges: whether rare values are to be merged, of marginals.
    """

    kind: str
    texts: Mapping[str, str]
    epsilon: str
    merges: bool = False

    @classmethod
    def of(cls, fields: MultiDict[str, str]) -> LearnForm:
        """The form's fields; an unknown kind counts as the first one."""
        kinds = registry.KINDS
        kind = fields.get("kind", "")
        return cls(
            kind=kind if kind in kinds else next(iter(kinds)),
            texts={k: _lines_of(fields, found.face.text.name) for k, found in kinds.items()},
            epsilon=fields.get("epsilon", _DEFAULT_EPSILON).strip(),
            merges=kind == "marginals" and fields.get("selection") == "merged",
        )

    def encoded(self) -> str:
        """The fields as the query part of an address."""
        name = registry.KINDS[self.kind].face.text.name
        pair = (name, self.texts[self.kind])
        more = [("selection", "merged")] if self.merges else []
        return urlencode([("kind", self.kind), pair, ("epsilon", self.epsilon), *more])

    @property
    def mark(self) -> str:
        """Equal for forms with equal contents."""
        return mark_of(self.encoded())

    def epsilon_nano(self) -> int:
        """The price in nano-epsilon, rounded down; InputError where it is out of range."""
        value = exact_number(self.epsilon.replace(",", ""), "epsilon", InputError)
        if not 0 <= value <= MAX_EPSILON:
            raise InputError("epsilon", f"be 0 to {MAX_EPSILON:,.0f}", self.epsilon)
        return int(value * NANO)

    def document(self) -> dict[str, Any]:
        """The kind's own document; InputError for an unreadable line."""
        found = registry.KINDS[self.kind].face.text.read(self.texts[self.kind])
        return {**found, "selection": "merged"} if self.merges else found


def question_of(fields: MultiDict[str, str], variables: Sequence[str]) -> dict[str, Any] | None:
    """The distribution that a form asks of a model; None without one.

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
