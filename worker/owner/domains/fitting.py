"""`domain check`: every fault of a domain file, also against the columns of a source.

Columns are compared by name and type alone; no record is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from qserver.query.domain import Attribute
from qserver.query.files.faults import Checked, Fault, check_file
from worker.coding.names import number_names, whole_name
from worker.owner.domains.seen import kind_of_type
from worker.sources.address import Address
from worker.sources.opening import open_source
from worker.sources.source import Column, listed

_HOLDS = {"date": "dates", "boolean": "booleans", "integer": "whole numbers", "real": "numbers"}


@dataclass(frozen=True)
class Report:
    """What a check found.

    Args:
        checked: the file.
        faults: all of them, in the order of the file.
        notes: what is right, and may be unwanted.
        n_columns: how many columns were compared; None for none.
    """

    checked: Checked
    faults: tuple[Fault, ...]
    notes: tuple[str, ...] = ()
    n_columns: int | None = None


def check(path: Path, address: Address | None, *, folder: Path) -> Report:
    """Check a domain file and, if a source is named, its columns.

    Columns are compared once the file itself is right.

    Raises:
        DomainError: the file cannot be read.
        PrivateDataError: the source cannot be read.
    """
    checked = check_file(path)
    if address is None or checked.domain is None:
        return Report(checked, checked.faults)
    with open_source(address, folder=folder) as source:
        columns, advice = source.columns, source.advice
    found = {column.name: column for column in columns}
    faults, notes = list[Fault](), list[str]()
    for i, attribute in enumerate(checked.domain.attributes):
        place = f"attributes[{i}]"
        column = found.get(attribute.source)
        if column is None:
            key = "column" if attribute.column else "name"
            faults.append(checked.fault(f"{place}.{key}", _lacking(attribute, list(found))))
        elif column.is_twice:
            faults.append(checked.fault(place, _twice(attribute, advice)))
        elif text := _misfit(attribute, column):
            faults.append(checked.fault(f"{place}.kind", text))
        else:
            notes += _notes(attribute, column)
    named = {attribute.source for attribute in checked.domain.attributes}
    if unread := [column.name for column in columns if column.name not in named]:
        notes.append(f"not read: {listed(unread)}")
    return Report(checked, tuple(faults), tuple(notes), len(columns))


def _lacking(attribute: Attribute, names: Sequence[str]) -> str:
    by_fold = {name.lower(): name for name in names}
    close = get_close_matches(attribute.source.lower(), by_fold, n=1, cutoff=0.6)
    nearest = f"Did you mean {_quoted(by_fold[close[0]])}? " if close else ""
    mend = "" if attribute.column else "Say `column`, if it is called otherwise. "
    return (
        f"`{attribute.name}` must have a column {_quoted(attribute.source)} in the source. "
        f"{nearest}{mend}Columns: {listed(names)}."
    )


def _twice(attribute: Attribute, advice: str) -> str:
    return (
        f"`{attribute.name}` must have one column {_quoted(attribute.source)} in the source, got "
        f"more than one. {advice}"
    )


def _misfit(attribute: Attribute, column: Column) -> str:
    """Why no value of a column can be one of the attribute; '' if some can."""
    holds = kind_of_type(column)
    name = f"`{attribute.name}` is of kind `{attribute.kind}`, and its column holds"
    if attribute.is_numeric and holds in ("date", "boolean"):
        return f"{name} {_HOLDS[holds]} ({column.type}). Nearest: {_nearest(holds)}."
    if attribute.periods is not None and holds in ("boolean", "integer", "real"):
        return f"{name} {_HOLDS[holds]} ({column.type}). Nearest: {_nearest(holds)}."
    if attribute.kind == "labels" and holds in ("boolean", "integer"):
        texts = attribute.codes or attribute.labels
        if not any(_is_of(text, holds) for text in texts):
            given = "[false, true]" if holds == "boolean" else "[1, 2, ...]"
            return (
                f"`{attribute.name}` has labels that are no {_HOLDS[holds]}, as its column holds "
                f"({column.type}). Say what it holds for each label: codes = {given}."
            )
    if attribute.kind == "labels" and holds in ("integer", "real"):
        known = Counter(n for t in attribute.codes or attribute.labels for n in {*number_names(t)})
        if one := next((name for name, n in known.items() if n > 1), None):
            return (
                f"`{attribute.name}` has two labels that are the number {one}, and its column "
                f"holds {_HOLDS[holds]} ({column.type}). Keep one of them."
            )
    return ""


def _is_of(text: str, holds: str) -> bool:
    if holds == "boolean":
        return text in ("true", "false")
    return whole_name(text).lstrip("-").isdigit()


def _nearest(holds: str) -> str:
    return {
        "date": 'kind = "date" with `every`, `first` and `count`',
        "boolean": "labels = [false, true]",
    }.get(holds, f'kind = "{holds}" with `range` or `edges`')


def _notes(attribute: Attribute, column: Column) -> Iterator[str]:
    if kind_of_type(column) == "nested":
        yield f"{attribute.name}: its column holds no single values ({column.type}): most are lost"
    if attribute.is_numeric and kind_of_type(column) == "labels":
        yield (
            f"{attribute.name}: its column holds text ({column.type}); what is no number counts as "
            "missing"
        )


def _quoted(text: str) -> str:
    return f"'{text[:80]}'"
