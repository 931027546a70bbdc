"""What was released, as the question that it answers: JSON of a row, SQL of a table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from qserver.query.domain import Attribute, Domain, decimal_text
from qserver.query.sql.tokens import written_name
from qserver.records.history import HistoryRow, HistoryTable

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
    """The statement of a released table that tells single values apart; '' for any other."""
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
