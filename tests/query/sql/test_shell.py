"""Random joins, windows and groups of grouped SELECTs are what DuckDB says of the same records.

Numbers are the true ones, and every group has records: there both must agree in every row.
"""

from __future__ import annotations

import random

import pytest

from tests.query.sql.people import People
from tests.query.sql.test_rewriting import table_of
from tests.sweeps import n_of

KEYS = ("age", "region", '"sex-at-birth"', "age % 3", "age > 23", "UPPER(region)")
AGGREGATES = ("COUNT(*)", "SUM(age)", "AVG(age)", "COUNT(region)")
WHERES = ("", "WHERE age > 20 AND region IS NOT NULL", "WHERE region <> 'East'")
N_WHOLE, N_SHARE = 400, 30


class Statements:
    """Random statements of three kinds."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def groups(self) -> str:
        """A SELECT of groups k with numbers m, of every record, and n."""
        key, where = self._rng.choice(KEYS), self._rng.choice(WHERES)
        of = self._rng.choice(AGGREGATES)
        return f"SELECT {key} AS k, COUNT(*) AS n, {of} AS m FROM people {where} GROUP BY {key}"

    def window(self) -> str:
        """Functions of other rows, in the order of the groups."""
        of = self._rng.choice(
            (
                "SUM(n) OVER (ORDER BY k)",
                "SUM(n) OVER (ORDER BY k DESC ROWS 1 PRECEDING)",
                "n - COALESCE(LAG(n) OVER (ORDER BY k), 0)",
                "n - LAG(n) OVER (ORDER BY k)",
                "COALESCE(LEAD(m, 2) OVER (ORDER BY k), 5)",
                "n * 1.0 / SUM(n) OVER ()",
                "m - FIRST_VALUE(m) OVER (ORDER BY k)",
                "AVG(n) OVER (ORDER BY k ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
            )
        )
        return f"SELECT k, {of} AS w FROM ({self.groups()}) AS t WHERE k IS NOT NULL"

    def join(self) -> str:
        """Two tables of groups side by side, of one key."""
        one = self.groups()
        other = one.replace("FROM people ", f"FROM people {self._also(one)} ")
        how = self._rng.choice(("JOIN", "LEFT JOIN"))
        number = self._rng.choice(("x.n - y.n", "y.n * 1.0 / x.n", "x.m + 2 * y.n", "x.m * y.n"))
        return f"SELECT x.k, {number} AS d FROM ({one}) AS x {how} ({other}) AS y ON x.k = y.k"

    def _also(self, text: str) -> str:
        return "" if "WHERE" in text else self._rng.choice(("", "WHERE age > 19"))

    def again(self) -> str:
        """Groups of groups."""
        by = self._rng.choice(("k IS NULL", "LENGTH(k::text) > 4", "k::text < 'B'"))
        return (
            f"SELECT {by} AS b, SUM(n) AS s, SUM(n) + 1 AS m FROM ({self.groups()}) AS t GROUP BY 1"
        )


@pytest.mark.parametrize("kind", ["window", "join", "again"])
def test_random_statements_are_duckdbs(kind: str, people: People) -> None:
    rng = random.Random(f"shell {kind} {random.SystemRandom().random()}")
    statements = Statements(rng)
    for _ in range(n_of(N_WHOLE, share=N_SHARE) // 3):
        text = getattr(statements, kind)()
        found = sorted(map(_row, table_of(people, text)), key=str)
        assert found == sorted(map(_row, people.duck(text)), key=str), text


def _row(row: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(map(_plain, row))


def _plain(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    try:
        return None if value is None else round(float(str(value)), 9)
    except ValueError:
        return value
