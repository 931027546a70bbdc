"""A text of SQL without parsing: places for errors, its words, its dataset and its beginning.

A client needs no more, and so none of the server's parsing packages. Words, quoted texts and signs
are cut as by the server's tokenizer, which `tests/query/sql/test_pieces.py` checks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qserver.errors import CapacityError, SqlError
from qserver.text import printable

if TYPE_CHECKING:
    # A client that sends texts and never parses them has no sqlglot.
    from sqlglot import Token, exp

# Characters of a long line that an excerpt shows on each side of its carets; most carets.
_MARGIN = 60
_MAX_CARETS = 40


@dataclass(frozen=True)
class TextPlace:
    """Part of a text: characters from `start` up to, not including, `stop`."""

    start: int
    stop: int


@dataclass(frozen=True)
class SqlText:
    """The text as received; makes the errors that point into it.

    Args:
        name: the field that holds it, for messages.
    """

    text: str
    name: str = "sql"

    def refuse(
        self,
        condition: str,
        at: TextPlace | Token | exp.Expr,
        *,
        hint: str = "",
        at_place: bool = True,
    ) -> SqlError:
        """The error that the text does not meet `condition` at a place.

        Args:
            condition: a verb phrase or a sentence, as of every InputError.
            at: the place, a token, or a parsed expression.
            hint: the nearest answerable question, as a sentence.
            at_place: whether the message gives the place.
        """
        place = self._place(at)
        line_start = self.text.rfind("\n", 0, place.start) + 1
        return SqlError(
            condition,
            line=self.text.count("\n", 0, place.start) + 1,
            column=place.start - line_start + 1,
            excerpt=self._excerpt(place, line_start),
            hint=hint,
            name=self.name,
            at_place=at_place,
        )

    def source(self, at: TextPlace | Token | exp.Expr) -> str:
        """The text at a place, at most 60 characters on one line."""
        place = self._place(at)
        words = printable(" ".join(self.text[place.start : place.stop].split()))
        return words if len(words) <= _MARGIN else words[: _MARGIN - 3] + "..."

    @property
    def end(self) -> TextPlace:
        """The place after the last character that is not a space."""
        stop = len(self.text.rstrip())
        return TextPlace(stop, stop)

    def _place(self, at: Any) -> TextPlace:
        if isinstance(at, TextPlace):
            return at
        if not hasattr(at, "walk"):  # a token
            return TextPlace(at.start, at.end + 1)
        places = [node.meta for node in at.walk() if "start" in node.meta]
        if not places:
            return self.end
        return TextPlace(min(p["start"] for p in places), max(p["end"] for p in places) + 1)

    def _excerpt(self, place: TextPlace, line_start: int) -> str:
        line_stop = self.text.find("\n", place.start)
        line_stop = len(self.text) if line_stop < 0 else line_stop
        start = max(line_start, place.start - _MARGIN)
        stop = min(line_stop, max(place.stop, place.start) + _MARGIN)
        shown = "".join(c if c.isprintable() else " " for c in self.text[start:stop])
        n_carets = min(max(1, min(place.stop, line_stop) - place.start), _MAX_CARETS)
        return f"{shown.rstrip()}\n{' ' * (place.start - start)}{'^' * n_carets}"


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


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text, from `start` up to, not including, `stop`.

    Args:
        kind: `text` in single quotes, `name` in double quotes or backquotes, `word`, or `sign`;
            PostgreSQL has more.
        text: as it stands there, with its quotes.
    """

    kind: str
    text: str
    start: int
    stop: int

    @property
    def upper(self) -> str:
        """The word in capital letters; a quoted name unchanged."""
        return self.text.upper() if self.kind == "word" else self.text

    @property
    def name(self) -> str:
        """The content of quotes, for a text or a name; else the text itself."""
        quote = self.text[0]
        if self.kind in ("text", "name") and quote in "'\"`":
            return self.text[1:-1].replace(quote * 2, quote)
        return self.text


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
            yield Piece(str(kind), found[0], found.start(), at)


MAX_CHARACTERS = 1 << 16
EXPLAIN = re.compile(r"\s*EXPLAIN(?=\s)", re.IGNORECASE)
DESCRIBED = re.compile(
    r"\s*(?:DESCRIBE|DESC|SHOW\s+COLUMNS\s+FROM)\s+(?:TABLE\s+)?"
    r'(?:"?public"?\.)?(?:"([^"]*)"|([A-Za-z0-9_.-]+))',
    re.IGNORECASE,
)
_CATALOGUED = re.compile(
    r"FROM\s+\"?information_schema\"?\s*\..*\btable_name\"?\s*=\s*'([^']*)'",
    re.IGNORECASE | re.DOTALL,
)
_TABLE = re.compile(r"\s*TABLE\s+(\S+?)\s*(?:;|LIMIT\b|$)", re.IGNORECASE)
_ANALYZED = re.compile(
    r"\s*EXPLAIN(?:\s+(?P<word>ANALYZE|VERBOSE|PLAN|FORMAT)\b|\s*\()", re.IGNORECASE
)
JOINED = (
    "What other tables say of a record is joined by the data's owner, in the SELECT of `attach "
    "--query` (docs/sources.md, Joined tables): then it is an attribute here."
)
NO_SELECT = "compare records with constants: the result of a SELECT is not public"
ASK_FIRST = "Ask the inner SELECT first, and write the number that it gives in its place."
NO_TEST = (
    "choose groups by a count in the SELECT behind IN: whether a group has any record is not public"
)
CHOOSES = "Nearest: IN (SELECT a FROM ... GROUP BY a HAVING COUNT(*) >= 50)."
_LISTS = "`qserver dataset list`, `Client.datasets()` and GET /v1/datasets list the datasets."
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


def explains(text: str) -> bool:
    """Whether a text begins with EXPLAIN."""
    return EXPLAIN.match(text) is not None


def bounded(text: str, field: str) -> SqlText:
    """The text, if it is not too long; CapacityError."""
    if len(text) > MAX_CHARACTERS:
        raise CapacityError(f"A text of SQL has at most {MAX_CHARACTERS:,} characters.")
    return SqlText(text, field)


def check_beginning(source: SqlText) -> None:
    """Raise SqlError if a text begins with another database's command, not SELECT."""
    if (found := _TABLE.match(source.text)) is not None:
        name = found[1][:60]
        raise source.refuse(
            "count records, not list them",
            TextPlace(found.start(1), found.end(1)),
            hint=f"Nearest: DESCRIBE {name} for its attributes, or COUNT(*) of its records.",
        )
    if (found := _ANALYZED.match(source.text)) is not None:
        word = found["word"] or "options"
        raise source.refuse(
            f"have EXPLAIN without {word.upper() if found['word'] else word}",
            TextPlace(found.start(), found.end()),
            hint="EXPLAIN SELECT ... tells the price and measures nothing; the SELECT alone "
            "measures.",
        )


def dataset_of(text: str) -> str:
    """The name after a text's FROM; looks at nothing else.

    Raises:
        SqlError: there is none.
        CapacityError: the text is too long.
    """
    source = bounded(text, "sql")
    check_beginning(source)
    if (named := DESCRIBED.match(text)) is not None:
        return named[1] or named[2]
    if (named := _CATALOGUED.search(text)) is not None:
        return named[1]
    found, start = list[Piece](), -1
    for piece in pieces(source):
        found.append(piece)
        # A FROM before a parenthesis reads a SELECT that has one of its own.
        if start < 0 and len(found) > 1 and _reads_a_name(found, len(found) - 2):
            start = len(found) - 2
        if 0 <= start < len(found) - 3:
            break  # the rest may be long
    if start < 0:
        hint = _LISTS if text.lstrip()[:4].upper() == "SHOW" else "Nearest: FROM and a dataset."
        raise source.refuse("say what it reads", source.end, hint=hint)
    first = found[start + 1]
    after = found[start + 2 : start + 4]
    # A schema before it: its name alone may not be that of a dataset with a dot inside.
    plain = first.name if first.kind == "name" else first.text
    if plain.lower() == "public" and len(after) > 1 and after[0].text == ".":
        first = after[1]
    if first.kind == "name":
        return first.name
    # A name may hold `-` and `.`, which are signs of their own: read to the next space or sign.
    named = _NAME.match(text, first.start)
    if named is None:
        raise source.refuse("name a dataset after FROM", TextPlace(first.start, first.stop))
    return named[0]


def _reads_a_name(found: Sequence[Piece], i: int) -> bool:
    """Whether FROM stands here, and no parenthesis after it.

    It may not be that of EXTRACT(part FROM, or of IS DISTINCT FROM.
    """
    after = found[i + 1].text if i + 1 < len(found) else None
    extracts = i >= 3 and found[i - 3].text.upper() == "EXTRACT"
    compares = i >= 1 and found[i - 1].text.upper() == "DISTINCT"
    is_from = found[i].text.upper() == "FROM" and after != "(" and not compares
    return is_from and not (extracts and found[i - 2].text == "(")
