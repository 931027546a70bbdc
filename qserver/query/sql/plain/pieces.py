"""A text of SQL cut into words, quoted texts and signs, as the server's tokenizer cuts it.

`tests/query/sql/test_pieces.py` holds both to one another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from qserver.query.sql.text import SqlText, TextPlace

Kind = Literal["text", "name", "word", "sign"]
_PIECE = re.compile(
    r"(?P<blank>\s+|--[^\n\r]*)"
    r"|(?P<text>'[^']*(?:''[^']*)*')"
    r'|(?P<name>"[^"]*(?:""[^"]*)*"|`[^`]*(?:``[^`]*)*`)'
    r"|(?P<word>\w[\w$]*)"
    r"|(?P<sign>.)",
    re.DOTALL,
)
_COMMENT = re.compile(r"(?P<comment>/\*.*?\*/|\{#.*?#\})", re.DOTALL)
_OPENS = re.compile(r"/\*|\{#")


@dataclass(frozen=True)
class Piece:
    """A part of a text, from `start` up to, not including, `stop`.

    Args:
        kind: `text` in single quotes, `name` in double quotes or backquotes, `word`, or `sign`.
        text: as it stands there, with its quotes.
    """

    kind: Kind
    text: str
    start: int
    stop: int

    @property
    def name(self) -> str:
        """The name in the quotes."""
        quote = self.text[0]
        return self.text[1:-1].replace(quote * 2, quote)


def pieces(source: SqlText, start: int = 0) -> Iterator[Piece]:
    """The parts of a text from `start` on, without blanks and comments.

    Raises:
        SqlError: a quoted text or a comment does not end, or a comment holds another.
    """
    text, at = source.text, start
    while at < len(text):
        found = _COMMENT.match(text, at) or _PIECE.match(text, at)
        if found is None:
            raise AssertionError("Any character is a sign.")
        kind, at = found.lastgroup, found.end()
        place = TextPlace(found.start(), found.start() + 1)
        if kind == "sign" and (found[0] in "'\"`" or _OPENS.match(text, found.start())):
            raise source.refuse("end each quoted text and comment that it opens", place)
        if kind == "comment" and _OPENS.search(found[0], 1):
            # Where such a comment ends, databases do not agree.
            raise source.refuse("have no comment within a comment", place)
        if kind not in ("blank", "comment"):
            yield Piece(kind, found[0], found.start(), at)  # type: ignore[arg-type]
