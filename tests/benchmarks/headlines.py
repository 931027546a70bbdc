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
        return list(found.values())


def headline_text(name: str, rows: Sequence[Row]) -> str:
    """The headline table of a benchmark, made from the rows of its results."""
    return HEADLINES[name].text(rows)


_STREAMS = (
    "1-D ranges",
    "ranges on 50 cuts",
    "ranges on 50 cuts, declared",
    "boxes on 50 x 50",
    "covid, Zipf 0",
    "covid, Zipf 1",
    "citibike",
)
_STREAM = {"stream": "stream", "neighbours": "relation"}

HEADLINES: Mapping[str, Headline] = {
    "answer_times": Headline(
        {
            "datasets": "datasets",
            "slot": "slot",
            "told, percent": "told_percent",
            "standard error": "standard_error_percent",
            "by the whole time alone": "by_answer_percent",
            "by ten questions": "told_of_10_percent",
            "standard error of that": "standard_error_of_10_percent",
        }
    ),
    "apex": Headline(
        {
            "after the batch": "batch",
            "qserver": "spent",
            "by the union bound alone": "union_spent",
            "APEx": "apex_spent",
            "batches": "batches",
            "batches that missed": "violated_batches",
        }
    ),
    "blocks_spend": Headline(
        {
            **_STREAM,
            "spent": "end",
            "best blocks in hindsight": "hindsight",
            "ratio": "ratio",
            "worst ratio": "worst_ratio",
            "percent missed": "violated_percent",
        },
        {"stream": _STREAMS},
    ),
    "blue": Headline(
        {
            "history": "rows",
            "load, ms": "load_ms",
            "memory, MB": "memory_mb",
            "weights, ms": "query_ms",
            "refusal, ms": "not_estimable_ms",
            "append and weights, ms": "append_and_query_ms",
            "whole answer, ms": "answer_ms",
        },
        {},
    ),
    "consistent": Headline(
        {
            "workload": "workload",
            "questions": "questions",
            "unbiased": "unbiased",
            "consistent": "consistent",
            "worst trial": "worst",
        },
        {"total": ("not known",)},
    ),
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
    "refining": Headline(
        {
            "asked": "asked",
            "paid": "paid",
            "longer as drawn": "longer as drawn",
            "longer once refined": "longer once refined",
            "spent on it, percent": "spent on it, percent",
            "refined intervals": "refined intervals",
            "of them hold": "of them hold",
        }
    ),
    "daily": Headline(
        {"statement": "statement", "asked by": "face"},
        {"dataset": ("adult",), "face": ("body", "client", "SQL body", "page")},
        spread=("paid", "in_short"),
    ),
    "disagreements": Headline(
        {
            "design": "design",
            "length": "length",
            "longer": "longer",
            "holds": "cover",
            "holds where most disagree": "cover_disagreeing",
            "before": "plain_disagreeing",
            "error": "error",
            "ms": "ms",
        }
    ),
    "looking": Headline(
        {
            "reading": "reading",
            "share that holds": "share",
            "standard error": "standard_error",
            "mean length": "mean_length",
        }
    ),
    "many_attributes": Headline(
        {
            "stream": "stream",
            "questions": "questions",
            "exact cache": "cache",
            "paper's rule": "paper",
            "rows alone": "rows",
            "spent": "spent",
            "worst": "worst",
            "over rows": "over_rows",
        }
    ),
    "marginals": Headline(
        {
            "attributes": "attributes",
            "tables": "triples",
            "cells of a junction tree": "exact_cells",
            "a round of consensus, ms": "consensus_ms",
        },
        {"attributes": (100,)},
    ),
    "marginals_records": Headline(
        {
            "data": "data",
            "epsilon": "epsilon",
            "a fresh sample": "sample",
            "model": "model",
            "synthetic records": "records",
        }
    ),
    "networks": Headline(
        {
            "network": "network",
            "error": "error",
            "best": "best",
            "best at 0.5": "best_at_half",
            "rows": "rows",
            "uniform": "uniform",
            "arxiv": "arxiv",
            "icml": "icml",
        },
        {"epsilon": (1.0,), "error": ("parameter_l1", "query_l1")},
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
    "ratio": Headline(
        {
            **_STREAM,
            "worst": "worst",
            "aim": "aim",
            "seeds above it": "seeds_above_aim",
        },
        {"stream": _STREAMS[:-1]},
    ),
    "replayed": Headline(
        {
            **_STREAM,
            "second week": "week",
            "without demand": "anew",
            "with it": "known",
        },
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
    "tracing": Headline(
        {
            "release": "release",
            "records": "records",
            "epsilon": "epsilon",
            "area of the attack": "attack_auc",
            "bound": "finite_bound_auc",
            "cap": "cap_auc",
            "power at 5 percent": "attack_power",
            "bound of it": "bound_power",
        },
        {
            "release": ("250 fair bits", "alarm, exact", "alarm, best"),
            "records": (250, 691),
        },
    ),
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
