"""Statements that may cost much: functions x joins x lengths x depths, over datasets and catalogue.

`python -m tests.postgres.costly SEED N` writes some of them, a line each.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")
MOST_CHARACTERS: Final = 1 << 16
_LENGTHS: Final = (1, 2, 5, 30, 300, 3000)
_AGGREGATES: Final = (
    *("COUNT(*)", "COUNT(age)", "SUM(age)", "AVG(age)", "MIN(d)", "MAX(age)", "STDDEV(age)"),
    *("COUNT(DISTINCT sex)", "MEDIAN(age)", "VAR_SAMP(age)", "CORR(age, age + 1)"),
    *("PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY age)", "COUNT(*) * 1.0 / SUM(COUNT(*)) OVER ()"),
    *("AVG(CASE WHEN {c} THEN 1.0 ELSE 0 END)", "SUM(age) FILTER (WHERE {c})", "MODE(sex)"),
    *("RANK() OVER (ORDER BY COUNT(*) DESC)", "SUM(COUNT(*)) OVER (ORDER BY MIN(age))"),
    *("COUNT(*) FILTER (WHERE {c}) - COUNT(*)", "ROUND(AVG(age) / NULLIF(COUNT(*), 0), 2)"),
)
_KEYS: Final = (
    *("d", "age", "sex", "age % 3", "DATE_TRUNC('week', d)", "EXTRACT(dow FROM d)", "UPPER(sex)"),
    *("CASE WHEN {c} THEN sex ELSE 'x' END", "age < 24", "WIDTH_BUCKET(age, 20, 30, 5)"),
    *("sex || age", "REPEAT(sex, {n})", "d + {n}", "d - DATE '2024-03-01'", "POWER(age, 2)"),
)
_TESTS: Final = (
    *("age = {n}", "age <> {n}", "age BETWEEN 21 AND {n}", "sex = 'Female'", "sex LIKE '%{l}%'"),
    *("d < DATE '2024-03-10'", "age + {n} > 3", "sex IN ({s})", "age IN ({i})", "NOT ({c})"),
    *("d BETWEEN '2024-03-01' AND '2024-03-09'", "age % 3 = 1", "UPPER(sex) = '{l}'"),
    *("sex IN (SELECT sex FROM people GROUP BY sex HAVING COUNT(*) > 5)", "(age - 20) * 2 < {n}"),
    *("EXTRACT(month FROM d) = 3", "(age = 21 AND sex = 'Male')", "REGEXP_LIKE(sex, '(a*)*{l}')"),
)
_SOURCES: Final = (
    *("pg_attribute a", "pg_attribute a, pg_type b", "pg_attribute a, pg_type b, pg_type c"),
    *("pg_attribute a, pg_attribute b, pg_attribute c", "generate_series(1, {m}) AS a(attname)"),
)
_FUNCTIONS: Final = (
    *("string_agg({x}::text, ',')", "array_agg({x})", "count(*)", "unnest(ARRAY[{x}, {x}])"),
    *("upper(replace({x}::text, 'a', '{l}'))", "concat({x}, {x}, {x})", "{x} || '{l}'"),
    *("lpad({x}::text, 4000, 'x')", "regexp_replace({x}::text, 'a', '{l}', 'g')"),
    *("row_number() OVER (ORDER BY {x})", "json_build_object('a', {x})"),
    *("array_to_string(ARRAY(SELECT a.attname FROM pg_attribute a, pg_type b), '{l}')",),
)


class Costly:
    """Makes statements, each at most as long as a text may be."""

    def __init__(self, seed: str) -> None:
        self._rng = random.Random(seed)

    def statement(self) -> str:
        """About a dataset, or the catalogue; as it is, explained, or copied out."""
        while True:
            kind = self._rng.choice(("dataset",) * 3 + ("catalogue",))
            text = self._dataset(self._rng.randrange(3)) if kind == "dataset" else self.catalogue()
            around = self._one(("{}", "{}", "{}", "EXPLAIN {}", "COPY ({}) TO STDOUT"))
            text = around.replace("{}", text)
            if len(text) <= MOST_CHARACTERS:
                return text

    def catalogue(self) -> str:
        """Over relations of the catalogue."""
        item = self._filled(self._one(_FUNCTIONS))
        value = self._one(("a.attname", f"'{self._letters()}'"))
        m = str(self._one((10, 10**4, 10**7, 10**9)))
        items = ", ".join([item.replace("{x}", value)] * self._one((1, 1, 1, 30, 300)))
        return f"SELECT {items} FROM {self._one(_SOURCES).replace('{m}', m)}"

    def _dataset(self, depth: int) -> str:
        if depth == 0:
            return self._select("people")
        parts = [self._dataset(depth - 1) for _ in range(self._one((1, 2, 2, 3, 8)))]
        kind = self._one(("joined", "united", "outer", "with", "crossed"))
        if kind == "united":
            return " UNION ALL ".join(parts)
        named = [f"({part}) AS t{i}" for i, part in enumerate(parts)]
        if kind == "with":
            ctes = ", ".join(f"t{i} AS ({part})" for i, part in enumerate(parts))
            return f"WITH {ctes} SELECT {self._outer_items()} FROM {', '.join(self._names(parts))}"
        if kind == "crossed":
            return f"SELECT {self._outer_items()} FROM {', '.join(named)}"
        if kind == "joined":
            on = [f"{one} ON t0.k0 = t{i}.k0" if i else one for i, one in enumerate(named)]
            how = self._one((" JOIN ", " LEFT JOIN ", " FULL JOIN "))
            return f"SELECT {self._outer_items()} FROM {how.join(on)}"
        return f"SELECT {self._outer_items()} FROM {named[0]} GROUP BY t0.k0"

    @staticmethod
    def _names(parts: Sequence[str]) -> list[str]:
        return [f"t{i}" for i in range(len(parts))]

    def _outer_items(self) -> str:
        items = ("*", "t0.k0, t0.n0", "SUM(t0.n0) AS n0", "t0.k0, t0.n0 / 2 AS n0", "COUNT(*)")
        return self._one((*items, "t0.k0, LAG(t0.n0) OVER (ORDER BY t0.k0) AS n0"))

    def _select(self, source: str) -> str:
        keys = [self._filled(self._one(_KEYS)) for _ in range(self._one((0, 1, 1, 2, 3, 5)))]
        numbers = [
            self._filled(self._one(_AGGREGATES)) for _ in range(self._one((1, 1, 2, 5, 30, 200)))
        ]
        items = [f"{key} AS k{i}" for i, key in enumerate(keys)]
        items += [f"{number} AS n{i}" for i, number in enumerate(numbers)]
        text = f"SELECT {', '.join(items)} FROM {source}"
        if self._rng.random() < 0.6:
            text += f" WHERE {self.condition(self._one(_LENGTHS))}"
        if keys:
            places = ", ".join(str(i + 1) for i in range(len(keys)))
            sets = "GROUPING SETS (({}), ())"
            grouped = self._one(("{}", "{}", "CUBE ({})", "ROLLUP ({})", sets))
            text += f" GROUP BY {grouped.replace('{}', places)}"
            having = f" HAVING COUNT(*) > {self._number()}"
            text += self._one(("", "", having, " ORDER BY n0 LIMIT 5"))
        return text

    def condition(self, n: int) -> str:
        """So many tests, one after another or one within another."""
        tests = [self._filled(self._one(_TESTS)) for _ in range(n)]
        how = self._one(("one after another", "nested"))
        if how == "nested" and n <= 300:
            found = tests[0]
            for test in tests[1:]:
                found = f"({found} {self._one(('AND', 'OR'))} {test})"
            return found
        return f" {self._one(('AND', 'OR'))} ".join(tests)

    def _filled(self, text: str) -> str:
        while "{c}" in text:
            text = text.replace("{c}", self._one(_TESTS[:4]), 1)
        if "{i}" in text:
            text = text.replace("{i}", ", ".join(str(i) for i in range(self._one(_LENGTHS))))
        if "{s}" in text:
            text = text.replace("{s}", ", ".join(f"'v{i}'" for i in range(self._one(_LENGTHS))))
        return text.replace("{n}", str(self._number())).replace("{l}", self._letters())

    def _number(self) -> int:
        return self._one((0, 1, 21, 29, 1000, 10**9))

    def _letters(self) -> str:
        return "z" * self._one((1, 100, 3000))

    def _one(self, of: Sequence[T]) -> T:
        return self._rng.choice(of)


if __name__ == "__main__":
    made = Costly(sys.argv[1])
    sys.stdout.writelines(made.statement() + "\n" for _ in range(int(sys.argv[2])))
