"""Missing values are NULL in SQL: any statement counts what DuckDB counts on the same rows.

Statements are made anew for each commit, by a grammar that nests whatever has to do with NULL.
Their seed is that of the sweeps.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import duckdb
import numpy as np
import pytest

from qserver.errors import SqlError
from qserver.query.domain_file import domain_from_document
from qserver.query.linear_query import LinearQuery
from qserver.query.sql.functions.arithmetic import at_once
from qserver.query.sql.functions.function_of_sums import Combined, KnownPart
from qserver.query.sql.functions.quantile import MOST_THRESHOLDS
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.statement import Cell, Row, Statement, Sum
from tests.sweeps import n_of, settle_seed

AGES, REGIONS = (20, 21, 22, 23, 24, None), ("North", "South", "East", None)
SMOKER, HOURS = (False, True, None), (38, 40, None)
DAYS = ("2023-12-31", "2024-01-01", None)
MISSING = {"missing": "other", "other": "unknown"}
DOMAIN = domain_from_document(
    {
        "attributes": [
            {"name": "age", "kind": "integer", "range": [20, 24], **MISSING},
            {"name": "region", "labels": list(REGIONS[:3]), **MISSING},
            {"name": "smoker", "labels": ["no", "yes"], "codes": [False, True], **MISSING},
            {"name": "hours", "kind": "integer", "edges": [38, 39, 41], **MISSING},
            {
                "name": "day",
                "kind": "date",
                "every": "day",
                "first": DAYS[0],
                "count": 2,
                **MISSING,
            },
        ]
    }
)
YEAR = "EXTRACT(YEAR FROM day)"
EMPTY = "''"
N_STATEMENTS = n_of(600, share=30)
"""So many of each kind."""


@dataclass(frozen=True)
class Rows:
    """Each combination of values some times: in DuckDB, and as counts of cells."""

    connection: duckdb.DuckDBPyConnection
    counts: np.ndarray

    @classmethod
    def make(cls) -> Rows:
        """The same rows for all tests."""
        values = (AGES, REGIONS, SMOKER, HOURS, DAYS)
        rng = np.random.default_rng(37)
        counts = rng.choice([0, 0, 1, 3], size=tuple(map(len, values)))
        records = [
            [one[i] for one, i in zip(values, cell, strict=True)]
            for cell in product(*(range(len(one)) for one in values))
            for _ in range(counts[cell])
        ]
        connection = duckdb.connect()
        connection.execute(
            "CREATE TABLE t (age INT, region TEXT, smoker BOOLEAN, hours INT, day DATE)"
        )
        listed = ", ".join(str(tuple(one)).replace("None", "NULL") for one in records)
        connection.execute(f"INSERT INTO t VALUES {listed}")
        return cls(connection, counts)

    def value(self, query: LinearQuery) -> Fraction:
        """A query's true answer."""
        total = Fraction(0)
        for term in query.terms:
            left = self.counts
            for axis in reversed(range(left.ndim)):
                weights = term.by_axis.get(axis)
                dense = np.ones(left.shape[-1], int) if weights is None else weights.dense
                left = left @ np.asarray(dense, int)
            total += term.coefficient * int(left)
        return total

    def of_cell(self, cell: Cell) -> float | None:
        """A cell's true value; None without a record."""
        if isinstance(cell, Sum):
            return float(self.value(cell.query) + cell.offset)
        if isinstance(cell, Combined):
            one = at_once(cell.function, cell.queries, MOST_THRESHOLDS)
            exact = [float(self.value(query)) for query in one.queries]
            return one.function.value([KnownPart(x, x, x) for x in exact]).estimate
        under = self.value(cell.denominator)
        return float(self.value(cell.numerator) / under) if under else None

    def duck(self, text: str) -> list[tuple[Any, ...]]:
        """What DuckDB says."""
        return self.connection.execute(text).fetchall()


@pytest.fixture(scope="module")
def rows() -> Rows:
    return Rows.make()


def read(text: str) -> tuple[Row, ...]:
    """The rows of a statement about these records."""
    return parse_statement(f"{text} WITHIN 9", DOMAIN, dataset="t").rows


class Grammar:
    """Conditions and statements, as a seed has them."""

    def __init__(self, seed: str) -> None:
        self._rng = random.Random(seed)

    def condition(self, depth: int) -> str:
        """A condition, nested at most so deep."""
        if depth == 0 or self._rng.random() < 0.15:
            return self._atom(depth)
        one, other = (self.condition(depth - 1) for _ in range(2))
        return self._one_of(
            f"NOT ({one})",
            f"(({one}) AND ({other}))",
            f"(({one}) OR ({other}))",
            f"(({one}) IS {self._maybe_not()}{self._one_of('TRUE', 'FALSE', 'NULL')})",
            f"(CASE WHEN {one} THEN {other} WHEN {other} THEN {one} END)",
            f"(CASE WHEN {one} THEN {other} ELSE {self._atom(0)} END)",
            f"COALESCE({one}, {other})",
        )

    def _atom(self, depth: int) -> str:
        return self._one_of(*(make(depth) for make in (self._of_age, self._of_region, self._other)))

    def _of_age(self, depth: int) -> str:
        number = self._number(depth)
        a, b = self._rng.sample(range(19, 26), 2)
        return self._one_of(
            f"{number} {self._sign()} {a}",
            f"{a} {self._sign()} {number}",
            f"{number} {self._maybe_not()}BETWEEN {a} AND {b}",
            f"{number} {self._maybe_not()}IN ({a}, {b})",
            f"{number} {self._maybe_not()}IN ({a}, NULL)",
            f"{number} {self._maybe_not()}BETWEEN {self._one_of(f'{a} AND NULL', f'NULL AND {a}')}",
            f"{number} {self._sign()} NULL",
            f"{number} IS {self._maybe_not()}NULL",
            f"age IS {self._maybe_not()}DISTINCT FROM {a}",
            f"age % 3 {self._one_of('=', '<>')} {a % 3}",
            f"2 * age - 1 {self._sign()} {a + b}",
            f"-age {self._maybe_not()}IN (-{a}, -{b})",
            f"FLOOR((age + 1) / 2) {self._maybe_not()}BETWEEN {a // 2} AND {b // 2}",
            f"age + 1 IS {self._maybe_not()}NULL",
            f"ABS(age - 22) {self._sign()} {a % 3}",
            f"ROUND(age / 2.0) {self._maybe_not()}IN ({a // 2}, {b // 2})",
            f"TRUNC(-age / 3.0) {self._sign()} -{a // 3}",
            f"{self._one_of('GREATEST', 'LEAST')}(age, {a}) {self._sign()} {b}",
            f"4 * age {self._sign()} hours + 46",
            f"hours - 4 * age {self._sign()} -46",
            f"4 * age {self._maybe_not()}BETWEEN hours + 46 AND {4 * a + 1}",
            f"CASE age WHEN {a} THEN 'x' WHEN {b} THEN NULL ELSE 'y' END = 'x'",
        )

    def _number(self, depth: int) -> str:
        if depth == 0 or self._rng.random() < 0.5:
            return "age"
        return self._one_of(
            f"COALESCE(age, {self._rng.randrange(20, 25)})",
            f"NULLIF(age, {self._rng.randrange(20, 25)})",
            f"CASE WHEN {self.condition(depth - 1)} THEN age END",
            f"CASE WHEN {self.condition(depth - 1)} THEN 21 ELSE age END",
        )

    def _of_region(self, _: int) -> str:
        text = self._one_of(
            "region",
            "region",
            "COALESCE(region, 'North')",
            "NULLIF(region, 'East')",
            "COALESCE(NULLIF(region, 'East'), 'South')",
        )
        a, b = self._rng.sample(("North", "South"), 2)
        return self._one_of(
            f"{text} {self._one_of('=', '<>')} '{a}'",
            f"{text} {self._maybe_not()}IN ('{a}', '{b}')",
            f"{text} {self._maybe_not()}LIKE '%{a[2:]}'",
            f"{text} {self._maybe_not()}ILIKE '{a.lower()}'",
            f"UPPER({text}) <> '{a.upper()}'",
            f"LENGTH({text}) {self._sign()} 5",
            f"{text} || '!' {self._one_of('=', '<>')} '{a}!'",
            f"{text} IS {self._maybe_not()}NULL",
            f"{text} <> {self._one_of('NULL', EMPTY)}",
            f"{text} = {self._one_of('NULL', EMPTY)}",
            f"{text} {self._maybe_not()}IN ('{a}', NULL)",
            f"'{a}' IS {self._maybe_not()}DISTINCT FROM region",
            f"LENGTH(region) % 2 IS {self._maybe_not()}DISTINCT FROM age % 2",
            f"REGEXP_MATCHES({text}, '{a[1:3]}')",
            f"LEFT({text}, 1) {self._one_of('=', '<>')} RIGHT({text}, 1)",
            f"CONCAT({text}, age % 2) {self._maybe_not()}LIKE '%{a[-1]}1'",
            f"LENGTH({text}) + age {self._sign()} 26",
            f"SQRT(age) + LENGTH({text}) {self._sign()} 9.5",
        )

    def _other(self, _: int) -> str:
        return self._one_of(
            "smoker",
            f"smoker IS {self._maybe_not()}{self._one_of('TRUE', 'FALSE', 'NULL')}",
            f"smoker {self._one_of('=', '<>')} TRUE",
            f"EXTRACT(YEAR FROM day) {self._sign()} 2024",
            f"MONTH(day) {self._sign()} {self._one_of('1', '12')}",
            f"DAY(day) {self._maybe_not()}IN (31, 12)",
            f"QUARTER(day) {self._maybe_not()}BETWEEN 1 AND 2",
            f"day {self._sign()} '2024-01-01'",
            f"day {self._maybe_not()}BETWEEN '2023-12-31' AND '2024-01-01'",
            f"day IS {self._maybe_not()}NULL",
            f"hours {self._one_of('<', '>=')} 39",
            "TRUE",
            "NULL",
        )

    def items(self) -> list[str]:
        """Numbers of records: counts, sums and what is calculated from sums."""
        where = f"FILTER (WHERE {self.condition(1)})"
        return [
            "COUNT(*)",
            f"COUNT({self._one_of('age', 'region', 'smoker', 'day', 'hours')}) {where}",
            f"COUNT(CASE WHEN {self.condition(1)} THEN region END)",
            f"COUNT({self._one_of('NULLIF(age, 22)', 'COALESCE(region, smoker::text)')})",
            f"SUM({self._one_of('age', 'COALESCE(age, 5)', 'NULLIF(age, 21)', 'age + 2')}) {where}",
            f"SUM(CASE WHEN {self.condition(1)} THEN 1 WHEN {self.condition(0)} THEN age END)",
            f"AVG({self._one_of('age', 'COALESCE(age, 0)', '2 * age', 'age % 3')}) {where}",
            f"SUM({self._one_of('LENGTH(region)', 'YEAR(day) - MONTH(day)', YEAR)}) {where}",
            f"SUM(CASE WHEN {self.condition(0)} THEN {YEAR} ELSE age * LENGTH(region) END)",
            f"{self._one_of('MIN(age)', 'MAX(age)', 'STDDEV(age)', 'VAR_POP(age)')} {where}",
            f"COUNT(DISTINCT {self._one_of('region', 'age % 2', 'NULLIF(age, 22)')})",
            f"SUM({self._one_of('ABS(age - 22)', 'ROUND(age / 2.0)', 'LEAST(age, 22)')}) {where}",
            f"{self._one_of('SUM', 'AVG')}(({self._plain()})::int) {where}",
            f"COUNT({self._plain()}) {where}",
            f"AVG(age) {where} {self._one_of('+', '-')} {self._one_of('AVG(age)', 'STDDEV(age)')}",
        ]

    def _plain(self) -> str:
        """A condition that is counted as 1 and 0."""
        one, other = self._of_age(0), self._of_region(0)
        return self._one_of(one, other, f"NOT ({one})", f"{one} AND ({other})", f"{one} OR {other}")

    def key(self) -> str:
        """What to group by."""
        return self._one_of(
            "region",
            "age",
            "UPPER(region)",
            "COALESCE(region, 'none')",
            "COALESCE(region, 'North')",
            "NULLIF(region, 'North')",
            "COALESCE(age, 20)",
            "age % 2",
            "FLOOR(age / 2)",
            "20 - age",
            "ABS(age - 22)",
            "ROUND(age / 2.0)",
            "TRUNC(age / 3)",
            "GREATEST(age, 22)",
            "GREATEST(age % 3, LENGTH(region))",
            "region || age % 2",
            "age // 2",
            "POWER(age - 22, 2)",
            "LEAST(23, age)",
            "hours + 46 < 4 * age",
            "age > 22",
            "EXTRACT(YEAR FROM day)",
            f"CASE WHEN {self.condition(1)} THEN region ELSE 'rest' END",
            f"CASE WHEN {self.condition(1)} THEN 'a' WHEN {self.condition(1)} THEN 'b' END",
            f"NOT ({self.condition(2)})",
        )

    def second_key(self) -> str:
        """What to group by beside it."""
        return self._one_of(
            "hours < 39",
            "smoker IS TRUE",
            "COALESCE(smoker, FALSE) = TRUE",
            "CASE WHEN smoker THEN 'yes' WHEN NOT smoker THEN 'no' END",
        )

    def _sign(self) -> str:
        return self._rng.choice(("=", "<>", "<", "<=", ">", ">="))

    def _maybe_not(self) -> str:
        return self._rng.choice(("", "NOT "))

    def _one_of(self, *texts: str) -> str:
        return self._rng.choice(texts)


def grammar(what: str, i: int) -> Grammar:
    """That of one test of this run."""
    return Grammar(f"{settle_seed()} {what} {i}")


@pytest.mark.parametrize("i", range(N_STATEMENTS // 3))
def test_any_condition_is_true_false_or_unknown_as_in_duckdb(i: int, rows: Rows) -> None:
    """Of each three conditions: where it holds, where NOT of it does, and where it is unknown."""
    made = grammar("conditions", i)
    for condition in map(made.condition, (2, 2, 3)):
        tests = (condition, f"NOT ({condition})", f"({condition}) IS NULL")
        items = ", ".join(f"COUNT(*) FILTER (WHERE {test})" for test in tests)
        text = f"SELECT {items} FROM t"
        [row] = read(text)
        assert [rows.of_cell(cell) for cell in row.cells] == list(rows.duck(text)[0]), text


@pytest.mark.parametrize("i", range(N_STATEMENTS // 3))
def test_any_numbers_are_those_of_duckdb(i: int, rows: Rows) -> None:
    made = grammar("numbers", i)
    for _ in range(2):
        where = f"({made.condition(2)}) OR age = 20 AND region = 'East'"
        text = f"SELECT {', '.join(made.items())} FROM t WHERE {where}"
        [row] = read(text)
        for cell, expected in zip(row.cells, rows.duck(text)[0], strict=True):
            if expected is not None:
                assert rows.of_cell(cell) == pytest.approx(float(expected), rel=1e-9), text
            elif not isinstance(cell, Combined):  # of no record a sum is 0 here
                assert not rows.of_cell(cell), text


@pytest.mark.parametrize("i", range(N_STATEMENTS // 3))
def test_any_groups_are_those_of_duckdb_with_null_for_missing_values(i: int, rows: Rows) -> None:
    """Those of the product without a record are not in DuckDB."""
    made = grammar("groups", i)
    for _ in range(3):
        keys = (made.key(), made.second_key())
        names = ", ".join(f"k{k}" for k in range(len(keys)))
        items = ", ".join(f"{key} AS k{k}" for k, key in enumerate(keys))
        text = f"SELECT {items}, COUNT(*), SUM(age) FROM t WHERE {made.condition(1)}"
        text = f"{text} GROUP BY {names}"
        found = {row.group: [rows.of_cell(cell) for cell in row.cells] for row in read(text)}
        duck = {
            tuple(map(name_of, row[: len(keys)])): [float(n or 0) for n in row[len(keys) :]]
            for row in rows.duck(text)
        }
        assert {group: n for group, n in found.items() if n[0]} == duck, text


def name_of(value: object) -> str | None:
    """A group of DuckDB as it is called here."""
    if value is None or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"


@pytest.mark.parametrize(
    ("condition", "written_out"),
    [
        ("region = 'unknown'", "region IS NULL"),
        ("region <> 'unknown'", "region IS NOT NULL"),
        ("region IN ('North', 'unknown')", "region = 'North' OR region IS NULL"),
        ("region NOT IN ('North', 'unknown')", "region <> 'North' AND region IS NOT NULL"),
        ("age = 'unknown'", "age IS NULL"),
        ("EXTRACT(YEAR FROM day) = 'unknown'", "day IS NULL"),
        ("MONTH(day) = 12", "day = '2023-12-31'"),
        ("12 <> MONTH(day)", "day <> '2023-12-31'"),
        ("(age > 22) IS UNKNOWN", "age IS NULL"),
        ("(age > 22) IS NOT UNKNOWN", "age IS NOT NULL"),
        ("region IS NOT DISTINCT FROM NULL", "region IS NULL"),
        # DuckDB compares tuples with NULL as one more value; PostgreSQL and the standard do not.
        (
            "(age, region) NOT IN ((21, 'North'), (22, 'East'))",
            "NOT (age = 21 AND region = 'North' OR age = 22 AND region = 'East')",
        ),
        ("region ISNULL", "region IS NULL"),
        ("region NOTNULL", "region IS NOT NULL"),
        ("region = '' OR region IS NULL", "region IS NULL"),
        ("COALESCE(region, 'none') = 'none'", "region IS NULL"),
        ("CONCAT(region, '!') = '!'", "region IS NULL"),
        ("COALESCE(LENGTH(region), 0) < 5", "region IS NULL OR region = 'East'"),
        (
            "'North' = CASE WHEN age > 22 THEN region END",
            "CASE WHEN age > 22 THEN region = 'North' END",
        ),
        ("CASE WHEN smoker THEN 'a' ELSE 'b' END LIKE 'b%'", "smoker IS NOT TRUE"),
        (
            "CASE WHEN smoker THEN 3 ELSE age END BETWEEN 3 AND 20",
            "CASE WHEN smoker THEN TRUE ELSE age = 20 END",
        ),
    ],
)
def test_a_condition_means_what_is_written_out(
    condition: str, written_out: str, rows: Rows
) -> None:
    tests = (f"WHERE {condition}", f"WHERE NOT ({condition})")
    expected = [rows.duck(f"SELECT COUNT(*) FROM t WHERE {written_out}")[0][0]]
    expected += [rows.duck(f"SELECT COUNT(*) FROM t WHERE NOT ({written_out})")[0][0]]
    found = [rows.of_cell(read(f"SELECT COUNT(*) FROM t {test}")[0].cells[0]) for test in tests]
    assert found == expected


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("COALESCE(region, 'none') = 'Noth'", "Did you mean 'North'"),
        ("UPPER(region) = 'UNKNOWN'", "compare `region` with a value of it"),
        ("region LIKE 'unk%'", "fit a label of `region`"),
    ],
)
def test_what_is_no_value_is_refused(condition: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        read(f"SELECT COUNT(*) FROM t WHERE {condition}")


def test_a_tuple_with_null_is_unknown_where_the_rest_of_it_fits(rows: Rows) -> None:
    """DuckDB has NULL equal to NULL within tuples; the standard has not."""
    text, said = "SELECT COUNT(*) FROM t WHERE", "(age, region) IN ((20, NULL))"
    for test, same in (
        (said, "age = 20 AND region = NULL"),
        (f"NOT ({said})", "NOT (age = 20 AND region = NULL)"),
    ):
        [cell] = read(f"{text} {test}")[0].cells
        assert rows.of_cell(cell) == rows.duck(f"{text} {same}")[0][0]


def test_an_attribute_without_missing_values_is_never_null() -> None:
    domain = domain_from_document({"attributes": [{"name": "s", "labels": ["a", "b"]}]})

    def asked(where: str) -> Statement:
        return parse_statement(f"SELECT COUNT(*) FROM v{where}", domain, dataset="v")

    assert asked(" WHERE s IS NOT NULL").only_query == asked("").only_query
    assert (
        asked(" WHERE COALESCE(s, 'none') <> 'b'").only_query == asked(" WHERE s = 'a'").only_query
    )
    assert asked(" WHERE s IS NOT NULL").remarks == ()
    assert asked(" WHERE s IS NULL").only_query.is_zero
    assert asked(" WHERE s IS NULL").remarks == (
        "No record that counts lacks a value of `s`: those were dropped.",
    )


@pytest.mark.parametrize(
    ("condition", "is_said"),
    [("region = NULL", True), ("region NOT IN ('North', NULL)", True), ("region IS NULL", False)],
)
def test_a_comparison_with_null_is_said_to_be_true_of_no_record(
    condition: str, is_said: bool
) -> None:
    found = parse_statement(f"SELECT COUNT(*) FROM t WHERE {condition}", DOMAIN, dataset="t")
    said = "A comparison with NULL is true of no record: IS NULL finds missing values."
    assert (said in found.remarks) == is_said


@pytest.mark.parametrize("shape", ["ORDER BY n DESC, r LIMIT 2", "ORDER BY n, r LIMIT 1 OFFSET 1"])
def test_a_choice_is_among_the_groups_with_a_name(shape: str, rows: Rows) -> None:
    text = "SELECT {} AS r, COUNT(*) AS n FROM t {} GROUP BY 1 {}"

    def chosen(item: str) -> list[tuple[str | None, float | None]]:
        statement = parse_statement(text.format(item, "", shape), DOMAIN, dataset="t")
        table = [[rows.of_cell(cell) for cell in row.cells] for row in statement.rows]
        return [(statement.rows[i].group[0], table[i][0]) for i in statement.shape.places(table)]

    where = "WHERE region IS NOT NULL"
    assert chosen("region") == rows.duck(text.format("region", where, shape))
    named = "COALESCE(region, 'none')"
    assert chosen(named) == rows.duck(text.format(named, "", shape))


@pytest.mark.parametrize("start", ["2024-01-31", "2024-02-29", "2023-12-01", "2024-03-30"])
@pytest.mark.parametrize("interval", ["1 month", "2 months", "1 quarter", "1 year", "13 months"])
@pytest.mark.parametrize("sign", ["+", "-"])
def test_months_and_years_are_those_of_duckdbs_calendar(
    start: str, interval: str, sign: str, rows: Rows
) -> None:
    days = {"name": "d", "kind": "date", "every": "day", "first": "2022-01-01", "count": 1500}
    domain = domain_from_document({"attributes": [days]})
    moved = f"DATE '{start}' {sign} INTERVAL '{interval}'"
    [[expected]] = rows.duck(f"SELECT CAST({moved} AS DATE)")
    one, other = (
        parse_statement(f"SELECT COUNT(*) FROM v WHERE d < {end}", domain, dataset="v").only_query
        for end in (moved, f"'{expected}'")
    )
    assert one == other


@pytest.mark.parametrize("sign", ["=", "<>", "<", "<=", ">", ">="])
@pytest.mark.parametrize("of", ["x - y", "2 * x - y - 1", "y - x", "1 - x - y"])
def test_ends_that_are_never_reached_tell_two_attributes_apart(sign: str, of: str) -> None:
    """Of bins [0, 1), [1, 2), [2, 4) every pair of ends and middles agrees, or it is refused."""
    edges = [0, 1, 2, 4]
    reals = [{"name": n, "kind": "real", "edges": edges} for n in "xy"]
    domain = domain_from_document({"attributes": reals})
    condition = f"{of} {sign} 0"
    values = [[low, (low + high) / 2, high - 1e-9] for low, high in pairwise(edges)]
    told = {
        (i, j): {
            eval(condition.replace("<>", "!=").replace(" = ", " == "), {"x": x, "y": y})
            for x in values[i]
            for y in values[j]
        }
        for i in range(3)
        for j in range(3)
    }
    text = f"SELECT COUNT(*) FROM t WHERE {condition}"
    if any(len(found) > 1 for found in told.values()):
        with pytest.raises(SqlError, match=r"not cut through bins of `[xy]` and `[xy]`"):
            parse_statement(text, domain, dataset="t")
        return
    [row] = parse_statement(text, domain, dataset="t").rows
    for cell, found in told.items():
        assert {bool(row.cells[0].query.value_at(cell))} == found


def test_between_symmetric_takes_its_ends_in_any_order() -> None:
    either = [
        read(f"SELECT COUNT(*) FROM t WHERE age BETWEEN SYMMETRIC {ends}")
        for ends in ("21 AND 23", "23 AND 21")
    ]
    assert either[0] == either[1] == read("SELECT COUNT(*) FROM t WHERE age BETWEEN 21 AND 23")
