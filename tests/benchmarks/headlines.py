"""The headline table of each benchmark: the rows and columns that docs/benchmarks.md shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .tables import Value, table_text

Row = Mapping[str, Value]


@dataclass(frozen=True)
class Headline:
    """A part of a benchmark's full table.

    Args:
        columns: the columns that are shown, heading -> column of the results.
        where: only the rows whose value of a column is one of these.
        spread: (column, value): one heading for each value of the first, holding the second;
            the rows that agree in `columns` become one.
    """

    columns: Mapping[str, str]
    where: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    spread: tuple[str, str] | None = None

    def text(self, rows: Sequence[Row]) -> str:
        """The table in Markdown.

        Raises:
            ValueError: no row is left, or a value of `where` is in none.
        """
        for column, values in self.where.items():
            missing = set(values) - {row[column] for row in rows}
            if missing:
                raise ValueError(f"`rows` must have {column} = {missing}.")
        kept = [row for row in rows if all(row[c] in v for c, v in self.where.items())]
        shown = self._spread(kept) if self.spread else [*map(self._shown, kept)]
        return table_text(shown, is_padded=False)

    def _shown(self, row: Row) -> Row:
        return {heading: row[column] for heading, column in self.columns.items()}

    def _spread(self, rows: Sequence[Row]) -> list[Row]:
        assert self.spread is not None
        by, value = self.spread
        found = dict[tuple[Value, ...], dict[str, Value]]()
        for row in rows:
            shown = self._shown(row)
            line = found.setdefault(tuple(shown.values()), dict(shown))
            line[str(row[by])] = row[value]
        # A row may lack some values, as what pays for a history has no place in a synthesised one.
        headings = dict.fromkeys(heading for line in found.values() for heading in line)
        return [{heading: line.get(heading) for heading in headings} for line in found.values()]


def headline_text(name: str, rows: Sequence[Row]) -> str:
    """The headline table of a benchmark, made from the rows of its results."""
    return HEADLINES[name].text(rows)


HEADLINES: Mapping[str, Headline] = {
    "coverage": Headline(
        {
            "design": "design",
            "question": "question",
            "stated": "stated",
            "measured": "share",
            "standard error": "standard_error",
            "runs": "runs",
        }
    ),
    "lifetime": Headline(
        {
            "method": "method",
            "of 100": "at_100",
            "of 1,000": "at_1000",
            "least": "least",
            "most": "most",
        }
    ),
    "functions": Headline(
        {
            "number": "number",
            "± asked": "within",
            "± given": "half_width",
            "`EXPLAIN`, at most": "at_most",
            "cost, median": "median_cost",
            "cost, most": "most_cost",
            "prototype": "prototype",
            "ratio": "ratio",
            "numbers": "numbers",
            "as asked": "met",
            "held": "held",
        }
    ),
    "daily": Headline(
        {"statement": "statement", "asked by": "face"},
        {"dataset": ("adult",), "face": ("body", "client", "SQL body", "page")},
        spread=("paid", "in_short"),
    ),
    "peers": Headline(
        {
            "workload": "workload",
            "system": "system",
            "epsilon": "epsilon",
            "numbers": "numbers",
            "missed": "missed",
            "CPU a statement, ms": "cpu_ms",
        }
    ),
    "posterior": Headline(
        {
            "scales": "scales",
            "probability, ms": "probability_ms",
            "half-width, ms": "half_width_ms",
            "error": "error",
            "convolution, ms": "convolution_ms",
            "its error": "convolution_error",
            "Monte Carlo, ms": "monte_carlo_ms",
            "error of that": "monte_carlo_error",
        },
        {"scales": ("10 geometric", "1000 equal", "5000 lognormal")},
    ),
    "ranges": Headline(
        {"questions": "queries"},
        {"method": ("naive", "exact cache", "rows alone", "server", "best blocks in hindsight")},
        spread=("method", "end"),
    ),
    "serve": Headline(
        {
            "rows of history": "rows",
            "repeated, per s": "repeated_per_s",
            "bare echo, per s": "echo_per_s",
            "repeated, ms": "repeated_p50_ms",
            "new, ms": "new_p50_ms",
            "new at p99, ms": "new_p99_ms",
        }
    ),
    "spend": Headline(
        {
            "slot, ms": "slot_ms",
            "connections": "connections",
            "p50, ms": "p50_ms",
            "p99, ms": "p99_ms",
            "per s": "per_s",
        },
        {"slot_ms": (5.0, 0.0)},
    ),
    "storm": Headline({"storm": "storm"}, spread=("free_answer", "told")),
    "weeks": Headline(
        {
            "stream": "stream",
            "rotate": "rotate",
            "static": "static",
            "append": "append",
            "append over static": "append_over_static",
        },
        {"arrivals": (52,)},
    ),
}
