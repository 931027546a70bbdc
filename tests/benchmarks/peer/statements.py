"""The statements that all systems are asked, what they are told of the data, and the true numbers.

Epsilon for a stated accuracy: of a count as of Laplace noise; of an average by simulating the noise
of its sum and its count; of a median by the bound on the rank that report noisy max and the
exponential mechanism share. The last two need the data: the other systems are told for free how
many records a group has at least, what the average is about, and how dense ages are at the median.
"""

from __future__ import annotations

import csv
import gzip
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from qserver.cli.local.demo import adult_csv

CONFIDENCE, N_COUNTS, N_TIMES = 0.95, 30, 10
_SEED, _N_DRAWS = 20_261_127, 100_000
_BOUNDS: Mapping[str, tuple[int, int]] = {"age": (17, 90), "hours_per_week": (1, 99)}
_ABOUT: Mapping[str, float] = {"age": 38.6, "hours_per_week": 40.4}
_SYMBOLS: Mapping[str, tuple[str, ...]] = {
    "sex": ("Female", "Male"),
    "income": ("<=50K", ">50K"),
    "race": ("White", "Black", "Asian-Pac-Islander"),
}


@dataclass(frozen=True)
class Statement:
    """A statement.

    Args:
        kind: `count`, `mean` or `median`.
        half: half the length of its intervals.
        column: of the mean or median.
        by: the attribute that it groups by, or ''.
        where: conditions: ends of a range, or a label.
        least: records in a group at least, as everybody is told.
    """

    kind: str
    half: float
    column: str = ""
    by: str = ""
    where: Mapping[str, Any] = field(default_factory=dict)
    least: int = 0

    @property
    def conditions(self) -> str:
        """The conditions in SQL."""
        parts = [
            f"{name} BETWEEN {wanted[0]} AND {wanted[1]}"
            if isinstance(wanted, list)
            else f"{name} = '{wanted}'"
            for name, wanted in self.where.items()
        ]
        return " AND ".join(parts)

    @property
    def sql(self) -> str:
        """The statement without its accuracy."""
        number = {"count": "COUNT(*)", "mean": f"AVG({self.column})"}.get(
            self.kind, f"MEDIAN({self.column})"
        )
        where = f" WHERE {self.conditions}" if self.where else ""
        first, last = (f"{self.by}, ", f" GROUP BY {self.by}") if self.by else ("", "")
        return f"SELECT {first}{number} AS x FROM adult{where}{last}"

    @property
    def ours(self) -> str:
        """The statement as qserver is asked."""
        told = f" ASSUMING AT LEAST {self.least}" if self.least else ""
        text = self.sql.replace("hours_per_week", '"hours-per-week"')
        return f"{text} WITHIN {self.half:g}{told}"


def workloads(*, quick: bool) -> Mapping[str, Sequence[Statement]]:
    """All statements, in the order in which they are asked."""
    by_sex = Statement("mean", 1, "hours_per_week", "sex", least=10_000)
    board = (
        Statement("count", 100, by="education"),
        Statement("count", 100, by="race"),
        Statement("mean", 1, "age", "sex", least=10_000),
    )
    averages = (
        by_sex,
        Statement("mean", 1, "age", "income", least=7_500),
        Statement("mean", 0.5, "age", least=30_000),
    )
    medians = (Statement("median", 2, "age"), Statement("median", 2, "age", "sex"))
    return {
        f"{N_COUNTS} overlapping counts": _counts(3 if quick else N_COUNTS),
        "averages by group": averages[:1] if quick else averages,
        "medians": () if quick else medians,
        f"dashboard, {N_TIMES} times": board[:1] * 2 if quick else board * N_TIMES,
    }


def _counts(n: int) -> tuple[Statement, ...]:
    """Counts on a range of ages, one label, and half of them on a range of hours."""
    generator, found = random.Random(_SEED), []
    for i in range(n):
        name = generator.choice(sorted(_SYMBOLS))
        where: dict[str, Any] = {"age": sorted(generator.sample(range(17, 91), 2))}
        where[name] = generator.choice(_SYMBOLS[name])
        if i % 2:
            where["hours_per_week"] = sorted(generator.sample(range(1, 100), 2))
        found.append(Statement("count", 100, where=where))
    return tuple(found)


@dataclass(frozen=True)
class Truth:
    """The records as every system reads them, and what is true of them."""

    path: Path
    connection: duckdb.DuckDBPyConnection

    @classmethod
    def written(cls, folder: Path) -> Truth:
        """The records as CSV, with names that every system takes."""
        path = folder / "adult.csv"
        with gzip.open(adult_csv(), "rt", encoding="utf-8", newline="") as lines:
            head, *records = csv.reader(lines)
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([[n.replace("-", "_") for n in head], *records])
        connection = duckdb.connect(":memory:")
        connection.execute(f"CREATE TABLE adult AS SELECT * FROM read_csv('{path}')")
        return cls(path, connection)

    def numbers(self, statement: Statement) -> dict[str, float]:
        """The true numbers by group."""
        rows = self.connection.execute(statement.sql).fetchall()
        return {str(row[0]) if statement.by else "": float(row[-1]) for row in rows}

    def document(self, statement: Statement) -> dict[str, Any]:
        """The statement for the programs of other systems, with each one's epsilon."""
        half, low_high = statement.half, _BOUNDS.get(statement.column, (0, 0))
        budgets = self._budgets(statement)
        return {
            "kind": statement.kind,
            "sql": statement.sql,
            "conditions": statement.conditions,
            "where": statement.where,
            "column": statement.column,
            "by": statement.by,
            "keys": sorted(self.numbers(statement)) if statement.by else [],
            "bounds": low_high,
            "half": half,
            **budgets,
        }

    def _budgets(self, statement: Statement) -> dict[str, float]:
        if statement.kind == "count":
            epsilon = math.log(1 / (1 - CONFIDENCE)) / statement.half
            return {"epsilon": epsilon, "epsilon_each": epsilon}
        if statement.kind == "median":
            low, high = _BOUNDS[statement.column]
            n_candidates = high - low + 1
            return {"epsilon": math.log(n_candidates / (1 - CONFIDENCE)) / self._ranks(statement)}
        return _mean_budgets(statement)

    def _ranks(self, statement: Statement) -> float:
        """How many ranks lie between a median and the first value that misses it."""
        found = []
        for key, median in self.numbers(statement).items():
            only = f"AND {statement.by} = '{key}'" if key else ""
            name, half = statement.column, statement.half
            (ranks,) = self.connection.execute(
                f"SELECT least(count(*) / 2 - count(*) FILTER ({name} < {median - half}),"
                f" count(*) FILTER ({name} <= {median + half}) - count(*) / 2)"
                f" FROM adult WHERE true {only}"
            ).fetchall()[0]
            found.append(float(ranks))
        return min(found)


def _mean_budgets(statement: Statement) -> dict[str, float]:
    """Epsilon of sums and counts.

    OpenDP takes the sum of distances from the middle of the bounds and divides epsilon in the best
    way. Tumult does the same with half of epsilon each. SmartNoise takes the sum as it is, and the
    same epsilon for both.
    """
    low, high = _BOUNDS[statement.column]
    middle, spread, about = (low + high) // 2, (high - low + 1) // 2, _ABOUT[statement.column]
    off = abs(about - middle)
    share = math.sqrt(spread) / (math.sqrt(spread) + math.sqrt(off))
    best = _mean_epsilon(statement, spread=spread, mean=off, share=share)
    even = _mean_epsilon(statement, spread=spread, mean=off, share=0.5)
    plain = _mean_epsilon(statement, spread=high, mean=about, share=0.5)
    return {
        "epsilon_sum": share * best,
        "epsilon_count": (1 - share) * best,
        "epsilon": even,
        "epsilon_each": plain / 2,
    }


def _mean_epsilon(statement: Statement, *, spread: float, mean: float, share: float) -> float:
    """The least epsilon at which a share of .95 of simulated averages errs by at most `half`."""
    generator, n = np.random.default_rng(_SEED), statement.least
    noise = generator.laplace(size=(2, _N_DRAWS))

    def error(epsilon: float) -> float:
        totals = mean * n + noise[0] * spread / (share * epsilon)
        counts = n + noise[1] / ((1 - share) * epsilon)
        return float(np.quantile(abs(totals / counts - mean), CONFIDENCE))

    low, high = 1e-4, 10.0
    for _ in range(40):
        epsilon = math.sqrt(low * high)
        low, high = (epsilon, high) if error(epsilon) > statement.half else (low, epsilon)
    return high
