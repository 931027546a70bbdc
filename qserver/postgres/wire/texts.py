"""Texts of SQL as clients of PostgreSQL write them: cut into statements, with their parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from string import whitespace

from qserver.postgres.wire.faults import NO_PARAMETER, PostgresError
from qserver.postgres.wire.values import (
    ARRAY_OF,
    BOOL,
    BY_NAME,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    NUMERIC,
    TIMESTAMPTZ,
    VARCHAR,
    Literal,
    Type,
)
from qserver.query.sql.text import Piece

_PIECE = re.compile(
    r"(?P<blank>\s+|--[^\n\r]*)"
    r"|(?P<text>[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\$(?P<tag>[A-Za-z_]\w*|)\$.*?\$(?P=tag)\$)"
    r'|(?P<name>"(?:[^"]|"")*")'
    r"|(?P<parameter>\$\d+)"
    r"|(?P<word>[^\W\d][\w$]*)"
    r"|(?P<number>\d[\w.]*)"
    r"|(?P<sign>.)",
    re.DOTALL,
)
_BEFORE_NUMBERS = frozenset(["WITHIN", "CONFIDENCE", "LEAST", "LIMIT", "OFFSET", "OF"])
_NUMBERS = frozenset({INT2, INT4, INT8, FLOAT4, FLOAT8, NUMERIC})
_ALIASES = {
    **dict.fromkeys(("int", "integer"), INT4),
    **dict.fromkeys(("double", "float"), FLOAT8),
    "bigint": INT8,
    "boolean": BOOL,
    "character": VARCHAR,
    "decimal": NUMERIC,
    "real": FLOAT4,
    "smallint": INT2,
}
_LONGER = (
    ("DOUBLE", "PRECISION"),
    ("CHARACTER", "VARYING"),
    ("WITH", "TIME", "ZONE"),
    ("WITHOUT", "TIME", "ZONE"),
)
_MOST_DIGITS = 10
PIECE_BYTES = 180
"""What a part takes beside its letters: its object, its text's, and its places."""
_COUNTED = re.compile(
    r"[eE]?'[^']*'|"
    r'"[^"]*"|\w+|\S',
)
"""As many as there are parts, or more."""
_COMMENT = re.compile(r"/\*|\*/")


def pieces(text: str) -> Iterator[Piece]:
    """The parts of a text, without blanks and comments; an unfinished part is a sign."""
    at = 0
    while at < len(text):
        if text.startswith("/*", at):
            at = _comment_end(text, at)
            continue
        match = _PIECE.match(text, at)
        if match is None:
            raise AssertionError("Any character is a sign.")
        kind = next(k for k in _KINDS if match[k] is not None)
        if kind != "blank":
            yield Piece(kind, match[0], at, match.end())
        at = match.end()


_KINDS = ("blank", "text", "name", "parameter", "word", "number", "sign")


def _comment_end(text: str, at: int) -> int:
    """The place after a comment, which may hold others."""
    depth = 0
    for match in _COMMENT.finditer(text, at):
        depth += 1 if match[0] == "/*" else -1
        if depth == 0:
            return match.end()
    return len(text)


def type_named(parts: Sequence[Piece], i: int) -> tuple[Type | None, int]:
    """The type named at a place, and its end in the text; None for an unknown type."""
    words = [piece.upper for piece in parts[i : i + 12]]
    if words[:2] == ["PG_CATALOG", "."]:
        return type_named(parts, i + 2)
    if not words:
        return None, 0
    name, n = parts[i].name.lower(), 1
    kind = _ALIASES.get(name) or BY_NAME.get(name)
    if kind is None:
        return None, 0
    for longer in _LONGER:
        start = n if longer[0].startswith("WITH") else 0
        if tuple(words[start : start + len(longer)]) == longer:
            n = start + len(longer)
            kind = TIMESTAMPTZ if longer[0] == "WITH" else kind
    if words[n : n + 1] == ["("] and words[n + 2 : n + 3] == [")"]:
        n += 3
    if words[n : n + 2] == ["[", "]"]:
        kind, n = ARRAY_OF.get(kind, kind), n + 2
    return kind, parts[i + n - 1].stop


@dataclass(frozen=True)
class Edit:
    """The replacement for the text from `start` up to `stop`."""

    start: int
    stop: int
    text: str


@dataclass(frozen=True)
class Text:
    """One statement.

    It is cut when its parts are asked for: a long one takes 3 microseconds a part.

    Args:
        text: as it was sent, without the semicolon.
        start: where it begins in what was sent, from 0.
    """

    text: str
    start: int = 0

    def __reduce__(self) -> tuple[type[Text], tuple[str, int]]:
        """The text without its parts, which take longer to read than to cut."""
        return Text, (self.text, self.start)

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """Its parts, with their places within it."""
        return tuple(pieces(self.text))

    def part(self, start: int, stop: int) -> Text:
        """The text between two of its places."""
        while start < stop and self.text[start].isspace():
            start += 1
        return Text(self.text[start:stop], self.start + start)

    @cached_property
    def n_bytes(self) -> int:
        """The bytes of the text, at most."""
        return len(self.text.encode()) + PIECE_BYTES * _COUNTED.subn("", self.text)[1]

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The first words, in capital letters."""
        return tuple(piece.upper for piece in islice(pieces(self.text), 4))

    @cached_property
    def n_parameters(self) -> int:
        """The largest number of a parameter; 0 without one."""
        if "$" not in self.text:
            return 0
        numbers = [int(p.text[1:_MOST_DIGITS]) for p in self.pieces if p.kind == "parameter"]
        return max(numbers, default=0)

    def bound(
        self,
        literals: Sequence[Literal],
        *,
        as_numbers: bool = False,
        strips: bool = False,
        edits: Sequence[Edit] = (),
    ) -> tuple[str, Callable[[int], int]]:
        """The text with literals for its parameters, and the sent place of each character.

        The places count from 1; 0 stays 0.

        Args:
            as_numbers: what may be a number is one. Behind a word such as WITHIN it always is.
            strips: a cast behind a parameter goes, as the literal has its type already.
            edits: what else is written in another way.

        Raises:
            PostgresError: there is no value for a parameter.
        """
        made = [*edits]
        for i, piece in enumerate(self.pieces if "$" in self.text else ()):
            if piece.kind == "parameter":
                literal = self._literal(piece, literals)
                kind, stop = self._cast(i + 1)
                is_number = as_numbers or kind in _NUMBERS
                is_number |= i > 0 and self.pieces[i - 1].upper in _BEFORE_NUMBERS
                number = literal.number if is_number and (kind or INT4) in _NUMBERS else ""
                last = stop if strips and stop else piece.stop
                made.append(Edit(piece.start, last, f" {number or literal.text} "))
        return self._edited(sorted(made, key=lambda one: one.start))

    def _edited(self, edits: Sequence[Edit]) -> tuple[str, Callable[[int], int]]:
        found, last, moved = "", 0, list[tuple[int, int]]()
        for one in edits:
            found += self.text[last : one.start] + one.text
            last = one.stop
            moved.append((len(found), last))
        found += self.text[last:]

        def place(position: int) -> int:
            if position <= 0:
                return 0
            at = position - 1
            for new, old in reversed(moved):
                if at >= new:
                    return self.start + min(old + at - new, len(self.text)) + 1
            first = moved[0][1] if moved else len(self.text)
            return self.start + min(at, first, len(self.text)) + 1

        return found, place

    def _literal(self, piece: Piece, literals: Sequence[Literal]) -> Literal:
        number = int(piece.text[1:]) if len(piece.text) < _MOST_DIGITS else 0
        if not 1 <= number <= len(literals):
            raise PostgresError(
                NO_PARAMETER,
                f"There is no value for {piece.text[:_MOST_DIGITS]}.",
                position=self.start + piece.start + 1,
            )
        return literals[number - 1]

    def _cast(self, i: int) -> tuple[Type | None, int]:
        """The type of the cast behind this place, and its end; None without one."""
        if [piece.text for piece in self.pieces[i : i + 2]] != [":", ":"]:
            return None, 0
        return type_named(self.pieces, i + 2)


def statements(text: str) -> list[Text]:
    """The statements of a text, in turn; empty ones are left out."""
    bare = text.strip(";" + whitespace)
    if not any(sign in bare for sign in (";", "--", "/*")):
        return [Text(bare, text.index(bare))] if bare else []
    found, first, last = list[Text](), -1, 0
    for piece in (*pieces(text), Piece("sign", ";", len(text), len(text))):
        if piece.text != ";" or piece.kind != "sign":
            first, last = piece.start if first < 0 else first, piece.stop
        elif first >= 0:
            found.append(Text(text[first:last], first))
            first = -1
    return found
