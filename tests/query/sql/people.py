"""A few hundred made-up records, in DuckDB and as cell counts: the other route for SQL."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import duckdb

from qserver.query.domain import Attribute, Domain
from qserver.query.linear_query import LinearQuery
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.statement import Statement

AGES = range(20, 28)
MISSING = "other"
"""What the domain calls a missing region, which is NULL in DuckDB."""
REGIONS = ("North", "South", "East", MISSING)
SEXES = ("Female", "Male")
DOMAIN = Domain(
    (
        Attribute("age", "integer", edges=tuple(map(Fraction, range(20, 29))), outside="clamp"),
        Attribute("income", "integer", edges=tuple(map(Fraction, (0, 10, 25, 60)))),
        Attribute("height", "real", edges=tuple(map(Fraction, ("1.2", "1.5", "1.75", "2")))),
        Attribute("region", "labels", REGIONS[:3], outside="other", missing="other"),
        Attribute("sex-at-birth", "labels", SEXES),
    )
)


@dataclass(frozen=True)
class People:
    """The records, as rows of DuckDB's table `people` and as counts of cells."""

    connection: duckdb.DuckDBPyConnection
    counts: Counter[tuple[int, ...]]

    @classmethod
    def make(cls, n: int, *, seed: int) -> People:
        """`n` records drawn with `seed`."""
        rng = random.Random(seed)
        rows = [
            (
                rng.choice(AGES),
                rng.randrange(0, 60),
                Fraction(rng.randrange(120, 200), 100),
                rng.choice(REGIONS),
                rng.choice(SEXES),
            )
            for _ in range(n)
        ]
        connection = duckdb.connect()
        connection.execute(
            "CREATE TABLE people (age INT, income INT, height DECIMAL(9, 2), region TEXT, "
            '"sex-at-birth" TEXT)'
        )
        values = ", ".join(
            f"({a}, {i}, {float(h):.2f}, NULLIF('{r}', '{MISSING}'), '{s}')"
            for a, i, h, r, s in rows
        )
        connection.execute(f"INSERT INTO people VALUES {values}")
        return cls(connection, Counter(_cell(row) for row in rows))

    def value(self, query: LinearQuery) -> Fraction:
        """The query's true answer, cell by cell."""
        return sum((query.value_at(c) * n for c, n in self.counts.items()), Fraction(0))

    def duck(self, text: str) -> list[tuple[Any, ...]]:
        """What DuckDB says."""
        return self.connection.execute(text).fetchall()


def read(text: str) -> Statement:
    """The statement of a text about `people`."""
    return parse_statement(text, DOMAIN, dataset="people")


def _cell(row: Sequence[object]) -> tuple[int, ...]:
    age, income, height, region, sex = row
    return (
        AGES.index(age),  # type: ignore[arg-type]
        (income >= 10) + (income >= 25),
        (height >= Fraction("1.5")) + (height >= Fraction("1.75")),
        REGIONS.index(region),
        SEXES.index(sex),
    )
