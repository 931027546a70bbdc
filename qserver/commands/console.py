"""What people see: lines, tables, numbers, and progress on a terminal's standard error."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Any, TextIO

_CLEAR_LINE = "\r\x1b[K"


@dataclass(frozen=True)
class Console:
    """Results go to `out`, everything else to `err`.

    Args:
        out: standard output.
        err: standard error; progress is shown only when it is a terminal.
    """

    out: TextIO
    err: TextIO

    def line(self, text: str = "") -> None:
        """One line of the result, flushed, so that a pipe gets it at once."""
        self.out.write(text + "\n")
        self.out.flush()

    def note(self, text: str) -> None:
        """One line to standard error."""
        self.err.write(text + "\n")
        self.err.flush()

    def json(self, document: Any) -> None:
        """A document as indented JSON."""
        self.line(json.dumps(document, indent=2, ensure_ascii=False))

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Columns, the first to the left and the others to the right."""
        cells = [list(header), *(list(row) for row in rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
        for row in cells:
            first = row[0].ljust(widths[0])
            rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
            self.line("  ".join([first, *rest]).rstrip())

    @contextmanager
    def progress(self, text: str) -> Iterator[None]:
        """Show `text` on a terminal's standard error for as long as the block runs.

        The text is all that is shown: neither shares nor counts nor times, which could tell of
        private data.
        """
        if not self.err.isatty():
            yield
            return
        self.err.write(f"{_CLEAR_LINE}{text} ...")
        self.err.flush()
        try:
            yield
        finally:
            self.err.write(_CLEAR_LINE)
            self.err.flush()


def epsilon_text(value: Any) -> str:
    """An amount of epsilon as a plain decimal, to 1e-9 as the ledger counts."""
    text = f"{Decimal(str(value)):.9f}".rstrip("0").rstrip(".")
    return "0" if text in ("", "-0") else text


@dataclass(frozen=True)
class IntervalText:
    """An estimate and its ends as texts of equal precision, the ends rounded outward."""

    estimate: str
    low: str
    high: str


def interval_text(*, estimate: float | None, low: float, high: float) -> IntervalText:
    """Numbers fit to read: the precision is a thousandth of the interval's length or finer."""
    unit = Decimal(1).scaleb(-_n_decimals(high - low))
    shown = "" if estimate is None else _rounded(estimate, unit, ROUND_HALF_EVEN)
    return IntervalText(
        estimate=shown,
        low=_rounded(low, unit, ROUND_FLOOR),
        high=_rounded(high, unit, ROUND_CEILING),
    )


def percent_text(probability: float) -> str:
    """A confidence as a percentage, without trailing zeros."""
    return f"{(Decimal(str(probability)) * 100).normalize():f}"


def _n_decimals(length: float) -> int:
    if not 0 < length < math.inf:
        return 0 if length != 0 else 6
    return min(12, max(0, 3 - math.floor(math.log10(length))))


def _rounded(value: float, unit: Decimal, rounding: str) -> str:
    if math.isinf(value):
        return "-infinity" if value < 0 else "infinity"
    text = f"{Decimal(value).quantize(unit, rounding=rounding):,}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text
