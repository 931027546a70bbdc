"""The builder's tables: a number for each value of one or two attributes, as SQL.

The statement is shown with its price and its answer, so that the next step from the builder to SQL
is to change a text that works.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from qserver.portal.question import FormQuestion, form_attributes
from qserver.query.domain import Attribute, Domain
from qserver.query.labels.spread import attribute_of
from qserver.query.sql.tokens import written_name


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
    """Of each attribute of labels itself or a level of it, whichever has fewest of a few values."""
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
        # A form keeps what is missing, unless it is one of these; in SQL it is NULL.
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
