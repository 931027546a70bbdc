"""COPY (SELECT ...) TO STDOUT: rows as lines of text or CSV, or in PostgreSQL's binary form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from qserver.postgres.results import Asked, Copied, Plan, Result, nothing
from qserver.postgres.wire.faults import NOT_SUPPORTED, READ_ONLY, SYNTAX, PostgresError
from qserver.postgres.wire.texts import Piece, Text
from qserver.postgres.wire.values import values_of

_BEFORE: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_AFTER: Final = b"\xff\xff"
_ESCAPED: Final = str.maketrans(
    {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\b": "\\b", "\f": "\\f", "\v": "\\v"}
)
_FORCED: Final = ["FORCE", "QUOTE"]
_FALSE: Final = ("FALSE", "OFF", "0")


@dataclass(frozen=True)
class _Form:
    """How rows are written.

    Args:
        quotes: columns whose values are always quoted; `*` for all.
    """

    kind: str
    header: bool
    delimiter: str
    null: str
    quote: str
    quotes: frozenset[str]


def copying(text: Text, plan_of: Callable[[Text], Plan]) -> Plan:
    """What a COPY would do: the rows of its SELECT, copied out; PostgresError."""
    i = _to(text.pieces)
    inner = _inner(text, i)
    words = [piece for piece in text.pieces[i + 2 :] if piece.text not in ("(", ")", ",", "=")]
    form = _form(_joined(words))
    of = plan_of(inner)

    def run(asked: Asked) -> Result:
        is_binary = form.kind == "binary"
        found = of.run(Asked(asked.literals, (1,) if is_binary else ()))
        columns = found.columns or ()
        quotes = [bool(form.quotes & {c.name, "*"}) for c in columns]
        rows = [row if is_binary else _line(values_of(row), form, quotes) for row in found.rows]
        if is_binary:  # what is before the first row comes with it
            first, *others = (*rows, _AFTER)
            rows = [_BEFORE + first, *others]
        elif form.header:
            names = [c.name.encode() for c in columns]
            rows = [_line(names, form, [False] * len(names)), *rows]
        tag, copied = f"COPY {len(found.rows)}", Copied(is_binary, len(columns))
        return Result(tag, None, rows, found.notices, found.warnings, copied=copied)

    return Plan(nothing, run, types=of.types)


def _to(parts: Sequence[Piece]) -> int:
    """Where `TO STDOUT` stands; PostgresError."""
    words, depth = [piece.upper for piece in parts], 0
    for i, word in enumerate(words):
        depth += {"(": 1, ")": -1}.get(word, 0)
        if depth == 0 and word == "FROM":
            raise PostgresError(
                READ_ONLY, "COPY FROM is not possible: nothing can be written here."
            )
        if depth == 0 and words[i : i + 2] == ["TO", "STDOUT"]:
            return i
    raise PostgresError(SYNTAX, "COPY must say TO STDOUT.", hint="COPY (SELECT ...) TO STDOUT.")


def _inner(text: Text, to: int) -> Text:
    """The SELECT in parentheses, or that of all columns of a table."""
    parts = text.pieces[1:to]
    if parts and parts[0].text == "(" and parts[-1].text == ")":
        return text.part(parts[0].stop, parts[-1].start)
    name = text.text[parts[0].start : parts[-1].stop] if parts else ""
    return Text(f"TABLE {name}", text.start)


def _joined(words: Sequence[Piece]) -> list[Piece]:
    """The words, `FORCE QUOTE` as the one that it is in parentheses."""
    joins = [i for i in range(1, len(words)) if [w.upper for w in words[i - 1 : i + 1]] == _FORCED]
    found = [replace(w, text="FORCE_QUOTE") if i in joins else w for i, w in enumerate(words)]
    return [word for i, word in enumerate(found) if i + 1 not in joins]


def _form(words: Sequence[Piece]) -> _Form:
    said, i, quotes = dict[str, str](), 0, frozenset[str]()
    known = {"FORCE_QUOTE", "FORMAT", "HEADER", "DELIMITER", "NULL", "QUOTE", "ENCODING", "ESCAPE"}
    while i < len(words):
        word, after = words[i].upper, words[i + 1] if i + 1 < len(words) else None
        if word == "FORCE_QUOTE":
            after_all = (k for k in range(i + 1, len(words)) if words[k].upper in known)
            stop = next(after_all, len(words))
            quotes, i = frozenset(piece.name for piece in words[i + 1 : stop]), stop - 1
        elif word in ("CSV", "BINARY", "TEXT"):
            said["FORMAT"] = word
        elif word in known and after is not None and after.upper not in known:
            said[word] = after.name
            i += 1
        elif word == "HEADER":
            said[word] = "TRUE"
        elif word not in ("WITH", "AS"):
            raise PostgresError(NOT_SUPPORTED, f"COPY has no option {words[i].text[:40]} here.")
        i += 1
    kind = said.get("FORMAT", "text").lower()
    if kind not in ("text", "csv", "binary"):
        raise PostgresError(NOT_SUPPORTED, "The format of COPY must be text, csv or binary.")
    is_csv = kind == "csv"
    form = _Form(
        kind,
        said.get("HEADER", "FALSE").upper() not in _FALSE,
        said.get("DELIMITER", "," if is_csv else "\t"),
        said.get("NULL", "" if is_csv else "\\N"),
        said.get("QUOTE", '"'),
        quotes,
    )
    if quotes and not is_csv:
        raise PostgresError(NOT_SUPPORTED, "FORCE_QUOTE is of the format csv alone.")
    if len(form.delimiter) != 1 or len(form.quote) != 1 or (form.header and kind == "binary"):
        raise PostgresError(SYNTAX, "A delimiter and a quote of COPY must be one character.")
    return form


def _line(values: Sequence[bytes | None], form: _Form, quotes: Sequence[bool]) -> bytes:
    texts = [None if value is None else value.decode("utf-8", "replace") for value in values]
    if form.kind == "text":
        shown = (form.null if one is None else one.translate(_ESCAPED) for one in texts)
        return (form.delimiter.join(shown) + "\n").encode()
    cells = (_cell(one, form, is_quoted=by) for one, by in zip(texts, quotes, strict=True))
    return form.delimiter.join(cells).encode() + b"\n"


def _cell(text: str | None, form: _Form, *, is_quoted: bool) -> str:
    """A value as CSV has it: what could be read as another is quoted."""
    if text is None:
        return form.null
    special = (form.delimiter, form.quote, "\n", "\r")
    if not is_quoted and text != form.null and not any(sign in text for sign in special):
        return text
    return form.quote + text.replace(form.quote, form.quote * 2) + form.quote
