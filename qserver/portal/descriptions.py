"""The subject of a page: a statement, or rows, tables and models described in words.

What was released is also written as the question that it answers: JSON of a row, SQL of a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from qserver.answering.models.kinds.registry import kind_of
from qserver.query.domain import Attribute, Domain, decimal_text
from qserver.query.sql.tokens import written_name
from qserver.records.history import HistoryRow, HistoryTable

_MOST_IN_TITLE = 300


@dataclass(frozen=True)
class Heading:
    """The question that a page answers.

    Args:
        statement: as it was written, or '' where none was, or none is known.
        words: the same in words; '' where the statement alone says it.
    """

    statement: str
    words: str

    @property
    def text(self) -> str:
        """The statement, or else the words."""
        return self.statement or self.words

    @property
    def title(self) -> str:
        """One line, for the title of a document."""
        line = " ".join(self.text.split())
        return line if len(line) <= _MOST_IN_TITLE else f"{line[:_MOST_IN_TITLE]} …"


MAX_NAMES = 4
MAX_TERMS = 3
# A page of its own has room for conditions as they are, within reason.
_WHOLE_NAMES = 200
_WHOLE_TERMS = 50
_MOST_EDGES = 4

TermsDocument = Sequence[Sequence[Any]]


def describe_released(found: HistoryRow | HistoryTable, domain: Domain) -> str:
    """A released row or table in words."""
    if isinstance(found, HistoryTable):
        return describe_axes(found.axes, domain)
    return describe_terms(found.terms, domain, whole=True)


def describe_terms(terms: TermsDocument, domain: Domain, *, whole: bool = False) -> str:
    """A query in words: `age 30 to 39, sex Female`.

    Args:
        terms: as `LinearQuery.to_document` writes them.
        whole: whether all conditions are named, and not the first few of many.
    """
    if not terms:
        return "nothing"
    n_terms, n_names = (_WHOLE_TERMS, _WHOLE_NAMES) if whole else (MAX_TERMS, MAX_NAMES)
    shown = [_term(Fraction(str(c)), factors, domain, n_names) for c, factors in terms[:n_terms]]
    text = shown[0].removeprefix("+ ") + "".join(f" {more}" for more in shown[1:])
    hidden = len(terms) - len(shown)
    return text + (f" and {hidden:,} more terms" if hidden else "")


def describe_axes(axes: TermsDocument, domain: Domain) -> str:
    """A table in words: `every cell of age (74 parts) by sex (2 parts)`."""
    parts = [f"{domain.attributes[axis].name} ({max(of) + 1:,} parts)" for axis, _, of in axes]
    return "every cell of " + " by ".join(parts) if parts else "all records"


def model_words(
    kind: str, document: dict[str, Any], names: Sequence[str], *, whole: bool = False
) -> str:
    """A model in words, from its specification or from the analyst's document.

    Args:
        names: of the dataset's attributes.
        whole: whether all edges or marginals are named, and not the first few of many.
    """
    most = _WHOLE_NAMES if whole else _MOST_EDGES
    return kind_of(kind).face.words(document, names, most)


def _term(
    coefficient: Fraction, factors: Sequence[Sequence[Any]], domain: Domain, n_names: int
) -> str:
    conditions = [
        _factor(domain.attributes[axis], stops, values, n_names) for axis, stops, values in factors
    ]
    sign = "-" if coefficient < 0 else "+"
    size = abs(coefficient)
    times = "" if size == 1 else f"{decimal_text(size)} × "
    return f"{sign} {times}{', '.join(conditions) or 'all records'}"


def _factor(attribute: Attribute, stops: Sequence[int], values: Sequence[int], n_names: int) -> str:
    if not set(values) <= {0, 1}:
        return f"{attribute.name} weighted"
    starts = (0, *stops)
    runs = [range(a, b) for (a, b), v in zip(pairwise(starts), values, strict=True) if v]
    size = sum(map(len, runs))
    if size > attribute.size / 2 and len(runs) > 1:
        out = [range(a, b) for (a, b), v in zip(pairwise(starts), values, strict=True) if not v]
        return f"{attribute.name} not {_listed(attribute, out, n_names)}"
    return f"{attribute.name} {_listed(attribute, runs, n_names)}"


def _listed(attribute: Attribute, runs: Sequence[range], most: int) -> str:
    names = list(_names(attribute, runs))
    if len(names) <= most:
        return " or ".join(names)
    return " or ".join(names[: most - 1]) + f" or {len(names) - most + 1} more"


def _names(attribute: Attribute, runs: Sequence[range]) -> Iterator[str]:
    """The values: labels singly, bins and periods as ranges."""
    for run in runs:
        bins = range(run.start, min(run.stop, attribute.n_regular))
        if attribute.kind == "labels":
            yield from (attribute.value_names[i] for i in run)
            continue
        if bins:
            yield _bins(attribute, bins)
        if run.stop > attribute.n_regular:
            yield attribute.other


def _bins(attribute: Attribute, bins: range) -> str:
    if attribute.is_timed:
        names = attribute.value_names[bins.start], attribute.value_names[bins.stop - 1]
        return names[0] if len(bins) == 1 else " to ".join(names)
    low, high = attribute.edges[bins.start], attribute.edges[bins.stop]
    if attribute.kind == "real":
        return f"from {decimal_text(low)} to below {decimal_text(high)}"
    return str(low) if high == low + 1 else f"{low} to {high - 1}"


_MOST_CELLS = 1000


def question_of_row(found: HistoryRow, domain: Domain) -> dict[str, Any] | None:
    """The structured question of a released row; None where it counts nothing."""
    terms = [
        {"coefficient": str(coefficient), "where": _where(factors, domain)}  # type: ignore[arg-type]
        for coefficient, factors in found.terms
    ]
    if len(terms) == 1 and terms[0]["coefficient"] == "1":
        return {"where": terms[0]["where"]}
    return {"terms": terms} if terms else None


def question_of_table(found: HistoryTable, domain: Domain, dataset: str) -> str:
    """The statement of a released table that distinguishes single values; '' for other tables."""
    names = []
    for axis, _, parts in found.axes:
        attribute = domain.attributes[axis]
        if max(parts) + 1 != attribute.size:
            return ""
        names.append(written_name(attribute.name))
    if not names or found.n_cells > _MOST_CELLS:
        return ""
    listed = ", ".join(names)
    return f"SELECT {listed}, COUNT(*) AS n FROM {written_name(dataset)} GROUP BY {listed}"  # noqa: S608 - the question of a page, which is parsed as any


def _where(factors: Sequence[Sequence[Any]], domain: Domain) -> dict[str, Any]:
    where = {}
    for axis, stops, values in factors:
        attribute = domain.attributes[axis]
        of = _condition if set(values) <= {0, 1} else _weights
        where[attribute.name] = of(attribute, stops, values)
    return where


def _weights(attribute: Attribute, stops: Sequence[int], values: Sequence[int]) -> Any:
    """The weight of each value that counts."""
    runs = zip(pairwise((0, *stops)), values, strict=True)
    names = attribute.value_names
    return {"weights": {names[i]: w for (a, b), w in runs if w for i in range(a, b)}}


def _condition(attribute: Attribute, stops: Sequence[int], values: Sequence[int]) -> Any:
    """A range where the values are neighbouring bins or periods, else a list of them."""
    starts = (0, *stops)
    runs = [range(a, b) for (a, b), v in zip(pairwise(starts), values, strict=True) if v]
    first, last = runs[0].start, runs[-1].stop
    if len(runs) == 1 and attribute.kind != "labels" and last <= attribute.n_regular:
        return _range(attribute, first, last)
    return [attribute.value_names[i] for run in runs for i in run]


def _range(attribute: Attribute, first: int, last: int) -> Any:
    if attribute.is_timed:
        return {"between": [attribute.value_names[first], attribute.value_names[last - 1]]}
    low, high = attribute.edges[first], attribute.edges[last]
    end = high - 1 if attribute.kind == "integer" else high
    return {"between": [decimal_text(low), decimal_text(end)]}
