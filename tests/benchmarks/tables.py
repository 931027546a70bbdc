"""What a benchmark reports: one table, printed, kept as JSON and shown in the documentation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

Value = str | int | float | None


@dataclass(frozen=True)
class Report:
    """The outcome of one benchmark.

    Args:
        name: the benchmark's name, that of its module.
        title: what the table shows, in one line.
        parameters: what was fixed for all rows: seeds, sizes, lengths, repetitions.
        rows: measured values by column; all rows have the same columns. A column's name holds
            its unit; None where there is nothing to measure.
    """

    name: str
    title: str
    parameters: Mapping[str, object]
    rows: tuple[Mapping[str, Value], ...]

    def __post_init__(self) -> None:
        if not self.rows or any(list(row) != list(self.rows[0]) for row in self.rows):
            raise ValueError("`rows` must be at least one row, all with the same columns.")

    def document(self, *, machine: Mapping[str, object], is_quick: bool) -> dict[str, object]:
        """The report as plain JSON values."""
        return {
            "benchmark": self.name,
            "title": self.title,
            "quick": is_quick,
            "machine": dict(machine),
            "parameters": dict(self.parameters),
            "rows": [dict(row) for row in self.rows],
        }


def table_text(rows: object, *, is_padded: bool = True) -> str:
    """Rows of a report's document as a table in Markdown, numbers to three digits."""
    if not isinstance(rows, list | tuple) or not rows:
        raise ValueError("`rows` must be a list of at least one row.")
    names = list(rows[0])
    cells = [names] + [[value_text(row[name]) for name in names] for row in rows]
    widths = [max(len(line[i]) for line in cells) * is_padded for i in range(len(names))]
    lines = ["| " + " | ".join(_padded(line, widths)) + " |" for line in cells]
    return "\n".join(
        [lines[0], "|" + "|".join("-" * max(w + 2, 3) for w in widths) + "|", *lines[1:]]
    )


def value_text(value: Value) -> str:
    """One value of a table: three significant digits, a dash for nothing."""
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    if value == 0.0 or 1e-3 <= abs(value) < 1e5:
        digits = f"{value:.3g}"
        return digits if "e" not in digits else f"{value:.0f}"
    return f"{value:.1e}"


def write_json(path: Path, document: Mapping[str, object]) -> None:
    """Write a report's document, one value a line, so that a change of figures can be read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def with_table(text: str, name: str, table: str) -> str:
    """A document's text with the table between the marks of benchmark `name` replaced."""
    opening, closing = f"<!-- table: {name} -->\n", f"<!-- end: {name} -->"
    before, found, rest = text.partition(opening)
    _, ended, after = rest.partition(closing)
    if not found or not ended:
        raise ValueError(f"`text` must have a place for the table of {name}.")
    return before + opening + table + "\n" + closing + after


def _padded(line: list[str], widths: list[int]) -> list[str]:
    return [text.ljust(width) for text, width in zip(line, widths, strict=True)]
