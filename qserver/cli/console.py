"""Output for people: lines, tables, numbers, and progress on a terminal's standard error."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO

from qserver.text import IntervalText, aligned, cost_text, epsilon_text, interval_text, percent_text

__all__ = [
    "Console",
    "IntervalText",
    "cost_text",
    "epsilon_text",
    "interval_text",
    "percent_text",
    "wants_colour",
]

_CLEAR_LINE = "\r\x1b[K"
_BOLD, _RED, _PLAIN = "\x1b[1m", "\x1b[31m", "\x1b[0m"


@dataclass(frozen=True)
class Console:
    """Writes results to `out`, everything else to `err`.

    Args:
        out: standard output.
        err: standard error; progress is shown only if it is a terminal.
        may_colour: whether terminals may get colours; files and pipes never do.
        quiet: leave out progress, notes and asides; results and errors stay.
    """

    out: TextIO
    err: TextIO
    may_colour: bool = False
    quiet: bool = False

    def line(self, text: str = "") -> None:
        """Write one line of the result, flushed, so that a pipe gets it at once."""
        self.out.write(text + "\n")
        self.out.flush()

    def aside(self, text: str = "") -> None:
        """Write one line beside the result."""
        if not self.quiet:
            self.line(text)

    def note(self, text: str) -> None:
        """Write one line to standard error."""
        if not self.quiet:
            self._complain(text)

    def warn(self, code: str, text: str) -> None:
        """Write an error: its code, then its text."""
        self._complain(f"{self._styled(code, _RED, self.err)}: {text}")

    def point(self, excerpt: str) -> None:
        """Write part of a text, with carets below the place of an error."""
        lines, _, carets = excerpt.rpartition("\n")
        self._complain(f"{lines}\n{self._styled(carets, _RED, self.err)}")

    def _complain(self, text: str) -> None:
        self.err.write(text + "\n")
        self.err.flush()

    def _styled(self, text: str, style: str, to: TextIO) -> str:
        return f"{style}{text}{_PLAIN}" if self.may_colour and to.isatty() else text

    def json(self, document: Any) -> None:
        """Write a document as indented JSON."""
        self.line(json.dumps(document, indent=2, ensure_ascii=False))

    def csv(self, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Write rows as CSV, numbers in full."""
        writer = csv.writer(self.out, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
        self.out.flush()

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write columns, the first aligned left, the others right, and numbers at their points."""
        columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in header]
        shown = [columns[0], *map(aligned, columns[1:])]
        cells = [list(header), *(list(row) for row in zip(*shown, strict=True))]
        widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
        for i, row in enumerate(cells):
            first = row[0].ljust(widths[0])
            rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
            line = "  ".join([first, *rest]).rstrip()
            self.line(line if i else self._styled(line, _BOLD, self.out))

    @contextmanager
    def progress(self, text: str) -> Iterator[None]:
        """Show `text` on a terminal's standard error while the block runs.

        No share, count or time is shown: these could reveal private data.
        """
        if self.quiet or not self.err.isatty():
            yield
            return
        self.err.write(f"{_CLEAR_LINE}{text} ...")
        self.err.flush()
        try:
            yield
        finally:
            self.err.write(_CLEAR_LINE)
            self.err.flush()


def wants_colour(environ: Mapping[str, str]) -> bool:
    """Whether the user allows colours: NO_COLOR and TERM=dumb forbid them."""
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
