"""What a page is about: the statement as it was written, or its conditions in words."""

from __future__ import annotations

from dataclasses import dataclass

_MOST_IN_TITLE = 300


@dataclass(frozen=True)
class Heading:
    """What was asked.

    Args:
        statement: as it was written, or '' where none was, or none is known.
        words: the same in words; '' where the statement alone says it.
    """

    statement: str
    words: str

    @property
    def text(self) -> str:
        """The statement, or else the words."""
        return self.statement or self.words

    @property
    def title(self) -> str:
        """On one line, for the title of a document."""
        line = " ".join(self.text.split())
        return line if len(line) <= _MOST_IN_TITLE else f"{line[:_MOST_IN_TITLE]} …"
