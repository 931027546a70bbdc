"""Named columns of a whole statement, n_low and n_high included: how clients choose among them.

`SELECT "sex", "n_low" FROM (SELECT ...) AS t LIMIT 10` is read here, since the ends of intervals
are columns of a result and of no SELECT: DuckDB's scanner reads every query so.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Final

from qserver.postgres.results import Asked, Plan, Result
from qserver.postgres.wire.faults import NOT_SUPPORTED, PostgresError
from qserver.postgres.wire.texts import Text
from qserver.postgres.wire.values import Column, values_of
from qserver.query.sql.text import Piece

_INNER: Final = re.compile(r"\bFROM\s*[(/-]", re.IGNORECASE)


def chosen(text: Text, plan_of: Callable[[Text], Plan], *, is_copied: bool = False) -> Plan | None:
    """The plan of such a text; None for another.

    Args:
        is_copied: whether columns are read by their places, so that no end stands behind those
            that are named.
    """
    if text.words[0] != "SELECT" or not _INNER.search(text.text):
        return None
    parts = text.pieces
    words = [piece.upper for piece in parts]
    i = next((i for i, word in enumerate(words) if word == "FROM"), 0)
    names = _names(parts[1:i])
    if names is None or words[i + 1 : i + 3] != ["(", "SELECT"]:
        return None
    if not is_copied and not any(name.endswith(("_low", "_high")) for name in names):
        return None
    close = _closing(words, i + 1)
    rest = [p for p in parts[close + 1 :] if p.upper != "AS"] if close else list(parts)
    limit = [p.text for p in rest[1:]]
    if not rest or (limit and (rest[1].upper != "LIMIT" or not limit[-1].isdecimal())):
        return None
    of = plan_of(text.part(parts[i + 1].stop, parts[close].start))
    return picked(of, lambda told: _places(told, names), int(limit[1]) if limit else None)


Picks = Callable[[Sequence[Column]], Sequence[tuple[int, str]]]


@dataclass(frozen=True)
class Sort:
    """An order of rows by a column of numbers, by its place."""

    place: int
    is_down: bool
    nulls_first: bool

    def rows(self, rows: Sequence[bytes], *, is_binary: bool) -> list[bytes]:
        """The rows in this order."""
        read = (lambda v: struct.unpack("!d", v)[0]) if is_binary else float
        values = [(values_of(row)[self.place], row) for row in rows]
        some = [(read(value), row) for value, row in values if value is not None]
        found = [row for _, row in sorted(some, key=itemgetter(0), reverse=self.is_down)]
        none = [row for value, row in values if value is None]
        return none + found if self.nulls_first else found + none


def picked(
    of: Plan,
    picks: Picks,
    most: int | None = None,
    sorts: Callable[[Sequence[Column]], Sort] | None = None,
) -> Plan:
    """The plan of some columns of another plan, by their places, under new names."""

    def named(told: Sequence[Column]) -> tuple[Column, ...]:
        return tuple(replace(told[k], name=name) for k, name in picks(told))

    def run(asked: Asked) -> Result:
        if len(set(asked.formats)) > 1:
            raise PostgresError(NOT_SUPPORTED, "Here all columns have one format: text or binary.")
        found = of.run(replace(asked, formats=tuple(asked.formats[:1])))
        told = found.columns or ()
        places, rows = [k for k, _ in picks(told)], found.rows
        if sorts is not None:
            rows = sorts(told).rows(rows, is_binary=1 in asked.formats)
        rows = [_row(values_of(row), places) for row in rows[:most]]
        return replace(found, columns=named(told), rows=rows)

    return Plan(lambda: named(of.columns() or ()), run, types=of.types)


def _names(parts: Sequence[Piece]) -> list[str] | None:
    """The names between commas; None for anything else."""
    named, commas = parts[::2], parts[1::2]
    is_list = bool(parts) and len(named) == len(commas) + 1
    is_list &= all(p.kind in ("word", "name") for p in named) and all(p.text == "," for p in commas)
    return [p.name for p in named] if is_list else None


def _closing(words: Sequence[str], i: int) -> int:
    depth = 0
    for k in range(i, len(words)):
        depth += {"(": 1, ")": -1}.get(words[k], 0)
        if depth == 0:
            return k
    return 0


def _places(told: Sequence[Column], names: Sequence[str]) -> list[tuple[int, str]]:
    """The places of the named columns; PostgresError."""
    of = {column.name: k for k, column in enumerate(told)}
    if missing := [name for name in names if name not in of]:
        raise PostgresError("42703", f"There is no column `{missing[0][:60]}` in the result.")
    return [(of[name], name) for name in names]


def _row(values: Sequence[bytes | None], places: Sequence[int]) -> bytes:
    found = len(places).to_bytes(2)
    for k in places:
        value = values[k]
        found += b"\xff\xff\xff\xff" if value is None else len(value).to_bytes(4) + value
    return found
