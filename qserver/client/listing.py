"""Results of many rows: shown in a terminal and in a notebook, and made into data frames."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from html import escape

from qserver.client.frames import Framed
from qserver.text import aligned

_NUMBER = re.compile(r"-|-?[0-9,]+(\.[0-9]+)?")
MOST_SHOWN = 20
"""How many rows a terminal or a notebook shows."""


class Listing(Framed):
    """Rows of texts below a header, and the same rows as records."""

    @abstractmethod
    def _header(self) -> Sequence[str]:
        """The names of the columns."""

    @abstractmethod
    def _lines(self) -> Iterable[list[str]]:
        """The texts of the rows that are shown."""

    @abstractmethod
    def _rest(self) -> list[str]:
        """The lines below the rows."""

    def __repr__(self) -> str:
        columns = zip(*([*self._header()], *self._lines()), strict=True)
        lines = ["  ".join(row) for row in zip(*map(_lined_up, columns), strict=True)]
        return "\n".join([*(line.rstrip() for line in lines), *self._rest()])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self._header())
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>"
            for row in self._lines()
        )
        return (
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            f"<p>{'<br>'.join(map(escape, self._rest()))}</p>"
        )


def _lined_up(column: Sequence[str]) -> list[str]:
    """The texts of a column, its name first, at one width: numbers by their decimal points."""
    name, *texts = column
    is_number = bool(texts) and all(map(_NUMBER.fullmatch, texts))
    shown = [name, *(aligned(texts) if is_number else texts)]
    width = max(map(len, shown))
    return [text.rjust(width) if is_number else text.ljust(width) for text in shown]
