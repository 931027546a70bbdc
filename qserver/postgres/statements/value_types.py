"""Types of values by their place: a cast, a comparison, a clause.

And times as tools write them, for data whose finest time is a day.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from qserver.postgres.wire.faults import SYNTAX, PostgresError
from qserver.postgres.wire.texts import Edit, Text, type_named
from qserver.postgres.wire.values import (
    ARRAY_OF,
    DATE,
    FLOAT8,
    INT4,
    INT8,
    TEXT,
    TIMESTAMP,
    Type,
    elements,
    is_number,
    quoted,
)
from qserver.query.domain import Domain
from qserver.query.sealed_periods import first_and_last, last_sealed
from qserver.query.sql.text import Piece

_COMPARES: Final = frozenset(["=", "<", ">", "!", "(", ",", "IN", "NOT", "ANY", "ALL", "SOME"])
_BETWEEN: Final = frozenset(["BETWEEN", "AND", "SYMMETRIC"])
_VALUES: Final = ("parameter", "number", "text")
_NUMBERS: Final = frozenset(["WITHIN", "CONFIDENCE", "LEAST", "MOST", "PERCENT"])
_COUNTS: Final = frozenset(["LIMIT", "OFFSET", "OF", "FIRST"])
_AGGREGATES: Final = frozenset(["COUNT", "COUNT_IF", "SUM", "AVG", "MEDIAN", "STDDEV", "VARIANCE"])
_WHOLE: Final = frozenset(["EXTRACT", "LENGTH", "FLOOR", "CEIL", "DATE_PART"])
_TIMES: Final = frozenset(["DATE_TRUNC", "DATE_BIN", "TO_TIMESTAMP"])
_ARITHMETIC: Final = frozenset(["+", "-", "*", "/", "%"])
_TEXTS: Final = frozenset(["LIKE", "ILIKE", "~", "||"])


def types_of(text: Text, columns: Mapping[str, Type]) -> tuple[Type, ...]:
    """A type for each parameter; TEXT if its place tells none.

    Args:
        columns: what can be compared, by its name in small letters.
    """
    found = [TEXT] * text.n_parameters
    for i, piece in enumerate(text.pieces):
        number = int(piece.text[1:]) if piece.kind == "parameter" else 0
        if 0 < number <= len(found) and found[number - 1] is TEXT:
            found[number - 1] = _type_at(text.pieces, i, columns) or TEXT
    return tuple(found)


def truncated(text: Text) -> Iterator[int]:
    """The numbers of parameters that are units of DATE_TRUNC."""
    parts = text.pieces
    for called, opens, piece in zip(parts, parts[1:], parts[2:], strict=False):
        if (called.upper, opens.text, piece.kind) == ("DATE_TRUNC", "(", "parameter"):
            yield int(piece.text[1:])


def array_edits(text: Text, *, as_numbers: bool) -> list[Edit]:
    """`ANY('{a,b}')` and `ALL`, with a cast or without, as ARRAY of texts or of numbers."""
    parts, found = text.pieces, list[Edit]()
    for i in range(2, len(parts)):
        of = [parts[i - 2].upper, parts[i - 1].text]
        value = parts[i].name
        if of not in (["ANY", "("], ["ALL", "("], ["SOME", "("]) or parts[i].kind != "text":
            continue
        if value.startswith("{") and value.endswith("}"):
            texts = [one for one in elements(value) if one is not None]
            shown = (one if as_numbers and is_number(one) else quoted(one) for one in texts)
            stop = next((p.start for p in parts[i + 1 :] if p.text == ")"), parts[i].stop)
            found.append(Edit(parts[i].start, stop, f"ARRAY[{', '.join(shown)}]"))
    return found


def _type_at(parts: Sequence[Piece], i: int, columns: Mapping[str, Type]) -> Type | None:
    words = [piece.upper for piece in parts]
    before = words[i - 1] if i else ""
    if (said := _said(parts, words, i)) is not None:
        return said
    if before in _NUMBERS or before in _COUNTS:
        return FLOAT8 if before in _NUMBERS else INT8
    if before in _TEXTS:
        return TEXT
    beside = before in _ARITHMETIC and i > 1 and _ending_at(parts, words, i - 2, columns)
    if beside:
        return INT4 if beside is DATE and before == "+" else beside
    of = _behind(parts, words, i, columns) or _ahead(parts, words, i, columns)
    is_listed = words[max(i - 2, 0) : i] in (["ANY", "("], ["ALL", "("], ["SOME", "("])
    return ARRAY_OF.get(of or TEXT) if is_listed else of


def _said(parts: Sequence[Piece], words: Sequence[str], i: int) -> Type | None:
    """The type of its cast."""
    if words[i + 1 : i + 3] == [":", ":"]:
        return type_named(parts, i + 3)[0]
    if words[max(i - 2, 0) : i] == ["CAST", "("] and words[i + 1 : i + 2] == ["AS"]:
        return type_named(parts, i + 2)[0]
    return None


def _ahead(
    parts: Sequence[Piece], words: Sequence[str], i: int, columns: Mapping[str, Type]
) -> Type | None:
    """The type of the operand to the left, with a comparison between."""
    j, ranges = i - 1, False
    skips = _COMPARES | _BETWEEN | _ARITHMETIC
    while j >= 0 and (words[j] in skips or parts[j].kind in _VALUES):
        if words[j] == "AND" and "BETWEEN" not in words[max(j - 3, 0) : j]:
            return None
        ranges |= words[j] == "BETWEEN"
        j -= 1
    has_sign = any(word in _COMPARES - {"(", ","} for word in words[j + 1 : i]) or ranges
    found = _ending_at(parts, words, j, columns) if has_sign and j >= 0 else None
    is_between = words[j + 1] == "-" and parts[j + 2].kind in ("parameter", "text")
    return INT4 if found is DATE and is_between else found


def _behind(
    parts: Sequence[Piece], words: Sequence[str], i: int, columns: Mapping[str, Type]
) -> Type | None:
    """The type of a column to the right, with a comparison between."""
    j = i + 1
    while j < len(parts) and words[j] in ("=", "<", ">", "!"):
        j += 1
    if j == i + 1 or j == len(parts) or parts[j].kind not in ("word", "name"):
        return None
    while j + 2 < len(parts) and words[j + 1] == ".":
        j += 2
    return columns.get(parts[j].name.lower())


def _ending_at(
    parts: Sequence[Piece], words: Sequence[str], j: int, columns: Mapping[str, Type]
) -> Type | None:
    """The type of a name or function that ends there."""
    if words[j] == ")":
        return _of_function(words, j)
    if words[max(j - 2, 0) : j] == [":", ":"]:
        return type_named(parts, j)[0]
    if parts[j].kind not in ("word", "name"):
        return None
    name, k = parts[j].name.lower(), j
    while (found := columns.get(name)) is None and k >= 2 and words[k - 1] == "-":
        k -= 2
        name = f"{parts[k].name.lower()}-{name}"
    return found if found is not None else _of_alias(parts, words, parts[j].name)


def _of_function(words: Sequence[str], j: int) -> Type | None:
    depth = 0
    for k in range(j, 0, -1):
        depth += {")": 1, "(": -1}.get(words[k], 0)
        if depth == 0:
            called = words[k - 1]
            kinds = ((_AGGREGATES, FLOAT8), (_WHOLE, INT4), (_TIMES, TIMESTAMP))
            return next((kind for names, kind in kinds if called in names), None)
    return None


def _of_alias(parts: Sequence[Piece], words: Sequence[str], name: str) -> Type | None:
    """The type of `COUNT(*) AS name`."""
    for k in range(2, len(parts)):
        if words[k - 1] == "AS" and parts[k].name == name and words[k - 2] == ")":
            return _of_function(words, k - 2)
    return None


_TIME: Final = re.compile(
    r"'(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?)"
    r"\s*(?:Z|[+-]\d\d(?::?\d\d)?|UTC|GMT|[A-Za-z]+/[A-Za-z_/]+)?'"
)
_LAST_SECOND: Final = "23:59:59"
_NOW: Final = ("CURRENT_DATE", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP", "NOW")
_FORMATTED: Final = ("TO_TIMESTAMP", "TO_DATE", "STRPTIME")
_ZONES: Final = (["WITH", "TIME", "ZONE"], ["WITHOUT", "TIME", "ZONE"])
_STAMPS: Final = ("TIMESTAMP", "TIMESTAMPTZ")


@dataclass(frozen=True)
class Days:
    """A text in which times are days; `notices`: remarks on it, a line each."""

    edits: tuple[Edit, ...] = ()
    notices: tuple[str, ...] = ()


def days_of(text: Text, domain: Domain) -> Days:
    """The edits that turn midnights into days, and now into the data's last day; PostgresError."""
    names = {a.name.lower(): a for a in domain.attributes if a.kind in ("date", "period")}
    if not names:
        return Days()
    sealed = [day for a in names.values() if (day := first_and_last(last_sealed(a)))]
    now = sealed[0][1].isoformat() if sealed else ""
    edits = [*_edits(text, [*names], now)]
    said = any(edit.text.startswith("DATE") for edit in edits)
    return Days(tuple(edits), (f"Today is {now}, the last sealed day of the data.",) * said)


def day_of(literal: str) -> str:
    """The day of a literal at midnight; else the literal."""
    found = _TIME.fullmatch(literal)
    return literal if found is None or found[2].strip("0:.") else f"'{found[1]}'"


def _edits(text: Text, names: Sequence[str], now: str) -> Iterator[Edit]:
    parts, words = text.pieces, [piece.upper for piece in text.pieces]
    for i, piece in enumerate(parts):
        if piece.kind == "text" and words[max(i - 2, 0) : i - 1] not in ([w] for w in _FORMATTED):
            yield from _midnight(text, i, names)
        elif words[i] in _NOW and now and (words[i] != "NOW" or words[i + 1 : i + 2] == ["("]):
            called = words[i + 1 : i + 3] == ["(", ")"]
            yield Edit(piece.start, parts[i + 2 * called].stop, f"DATE '{now}'")
        elif words[i : i + 3] in _ZONES:
            yield Edit(piece.start, parts[i + 2].stop, "")
        elif words[i] in _STAMPS and words[i - 2 : i] == [":", ":"] and i > 2:
            if parts[i - 3].name.lower().split(".")[-1] in names:
                yield Edit(parts[i - 2].start, piece.stop, "")
        elif words[i] == "CAST" and (last := _cast_column(parts, words, i, names)):
            yield Edit(piece.start, piece.stop, "")
            yield Edit(parts[last - 1].start, parts[last].stop, "")


def _midnight(text: Text, i: int, names: Sequence[str]) -> Iterator[Edit]:
    piece = text.pieces[i]
    found = _TIME.fullmatch(piece.text)
    if found is None:
        return
    ends_day = found[2].startswith(_LAST_SECOND) and _is_upper(text, i)
    day = f"'{found[1]}'" if ends_day else day_of(piece.text)
    if day == piece.text:
        raise PostgresError(
            SYNTAX,
            f"A day is the finest time of `{names[0]}`, got {piece.text}.",
            hint="Nearest: midnight, or the day alone.",
            position=text.start + piece.start + 1,
        )
    yield Edit(piece.start, piece.stop, day)


def _is_upper(text: Text, i: int) -> bool:
    """Whether the last instant of a day means all of it there: after `<=`, or as an upper end."""
    words = [piece.upper for piece in text.pieces[max(i - 4, 0) : i]]
    return words[-2:] == ["<", "="] or (words[-1:] == ["AND"] and "BETWEEN" in words)


def _cast_column(parts: Sequence[Piece], words: Sequence[str], i: int, names: Sequence[str]) -> int:
    """Where `CAST(day AS TIMESTAMP` ends; 0 where something else is cast."""
    last = next((k for k in range(i, min(i + 8, len(words))) if words[k] in _STAMPS), 0)
    is_column = last > i + 3 and words[last - 1] == "AS" and words[i + 1] == "("
    return last if is_column and parts[last - 2].name.lower() in names else 0
