"""A text of SQL and the places in it that errors point at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qserver.errors import SqlError
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
            hint: the nearest question that can be answered, as a sentence.
            at_place: whether the message says the place.
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
