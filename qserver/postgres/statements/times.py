"""Times as tools write them, for data whose finest time is a day."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from qserver.postgres.wire.faults import SYNTAX, PostgresError
from qserver.postgres.wire.texts import Edit, Piece, Text
from qserver.query.domain import Domain
from qserver.query.sealed import first_and_last, last_sealed

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
    """A text in which times are days.

    Args:
        notices: what to know of it, a line each.
    """

    edits: tuple[Edit, ...] = ()
    notices: tuple[str, ...] = ()


def days_of(text: Text, domain: Domain) -> Days:
    """The edits that make days of midnights, and of now the last day of the data; PostgresError."""
    names = {a.name.lower(): a for a in domain.attributes if a.kind in ("date", "period")}
    if not names:
        return Days()
    sealed = [day for a in names.values() if (day := first_and_last(last_sealed(a)))]
    now = sealed[0][1].isoformat() if sealed else ""
    edits = [*_edits(text, [*names], now)]
    said = any(edit.text.startswith("DATE") for edit in edits)
    return Days(tuple(edits), (f"Today is {now}, the last sealed day of the data.",) * said)


def day_of(literal: str) -> str:
    """The day of a literal that is a time at midnight; else the literal."""
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
