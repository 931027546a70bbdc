"""Every form of SQL gives what DuckDB gives for the same text on the same rows."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qserver.query.sql.statement import Ratio, Sum
from tests.query.sql.people import DOMAIN, People, read
from tests.sweeps import examples

LINEAR = [
    "COUNT(*)",
    "COUNT(1)",
    "COUNT(age)",
    "COUNT(region)",
    "-COUNT(*)",
    "2 * COUNT(*) - 3 * COUNT(*) FILTER (WHERE age > 23)",
    "COUNT(*) FILTER (WHERE age > 23) / 4 + COUNT(*) * 0.5 * 3",
    "(COUNT(*) - COUNT(*) FILTER (WHERE income < 25)) * (1 + 1)",
    "COUNT_IF(age = 22)",
    "COUNT_IF(age = 22 OR region = 'East') FILTER (WHERE income >= 10)",
    "COUNT(CASE WHEN age < 22 THEN 1 END)",
    "COUNT(CASE WHEN age < 22 THEN 'young' WHEN age < 24 THEN NULL ELSE 'old' END)",
    "SUM(1)",
    "SUM(age)",
    "SUM(-age)",
    "SUM(2 * age + 1)",
    "SUM(age - 20) FILTER (WHERE region <> 'North')",
    "SUM(age * age)",
    "SUM(age / 4)",
    "SUM(CASE WHEN age < 22 THEN 1 ELSE 0 END)",
    "SUM(CASE WHEN age < 22 THEN 0.25 WHEN age < 24 THEN 3 ELSE -1 END)",
    "SUM(CASE WHEN age < 22 THEN age WHEN region = 'South' THEN 2 END)",
    "SUM(CASE region WHEN 'North' THEN 1 WHEN 'South' THEN 2 ELSE 0 END)",
    "SUM((CASE WHEN region = 'East' THEN age ELSE 1 END) * age)",
    "SUM(age) - 20 * COUNT(*)",
    "SUM(age % 3)",
    "SUM(POWER(age, 2))",
    "SUM(LENGTH(region) * (age // 3))",
    "SUM(GREATEST(age % 3, LENGTH(region)))",
    "SUM(LENGTH(region) * 8.0 / (age % 2 + 1))",
    'SUM(GREATEST(age % 4, LENGTH(region), LENGTH("sex-at-birth")))',
    "SUM(SIGN(age - 23) + ROUND(LN(age), 2))",
    "COUNT(NULLIF(region || age, 'East22'))",
    "SUM(REGEXP_MATCHES(region, 'o')::int)",
    "COUNT(SPLIT_PART(region, 'o', 2)) FILTER (WHERE CONTAINS(region, 'o'))",
]
RATIOS = [
    "AVG(age)",
    "AVG(2 * age - 3)",
    "AVG(age) * 3",
    "-AVG(age) / 2",
    "AVG(age) FILTER (WHERE region = 'East')",
    "AVG(CASE WHEN age < 23 THEN 1 ELSE 0 END)",
    "AVG(CASE WHEN age < 23 THEN age END)",
    "SUM(age) / COUNT(*)",
    "100.0 * COUNT(*) FILTER (WHERE age < 23) / COUNT(*)",
    "COUNT(*) FILTER (WHERE age < 23) / COUNT(*) FILTER (WHERE age >= 23)",
]
CONDITIONS = [
    "TRUE",
    "FALSE",
    "1 = 1",
    "2 < 1",
    "age = 22",
    "22 = age",
    "age <> 22",
    "age != 22",
    "age < 22",
    "22 > age",
    "age <= 22",
    "age > 22.5",
    "age >= 22",
    "age < 2 * 11",
    "age = 22.5",
    "age BETWEEN 21 AND 23",
    "age NOT BETWEEN 21 AND 23",
    "age BETWEEN 25 AND 21",
    "age BETWEEN -3 AND 900",
    "age > 900",
    "age IN (21, 25)",
    "age NOT IN (21, 25)",
    "NOT age IN (21, 25)",
    "income < 25",
    "income <= 24",
    "income >= 10 AND income < 60",
    "income BETWEEN 10 AND 24",
    "NOT (income BETWEEN 10 AND 59)",
    "height < 1.5",
    "height >= 1.5 AND height < 1.75",
    "NOT height >= 1.75",
    "height > 1.1",
    "height <= 2.5",
    "region = 'North'",
    "region IS NULL",
    "region <> 'North'",
    "region IN ('North', 'South')",
    "region NOT IN ('North', 'South') AND region IS NOT NULL",
    "\"sex-at-birth\" = 'Female'",
    "age < 22 AND region = 'North' AND income < 10",
    "age < 22 OR region = 'North' OR income < 10",
    "(age < 22 OR age > 25) AND (region = 'North' OR income < 10)",
    "NOT (age < 22 AND region = 'North')",
    "NOT (age < 22 OR region = 'North')",
    "NOT NOT age < 22",
    "age = 21 AND (region = 'East' OR (income >= 25 AND NOT height < 1.75))",
    "age < 22 AND age > 25",
    "people.age < 22",
    "AGE < 22 and Region = 'North'",
    "region LIKE '%o%th'",
    "region LIKE '_o%'",
    "UPPER(region) = 'EAST'",
    "LOWER(region) LIKE '%o%t%'",
    "LOWER(region) IN ('north', 'east')",
    "LOWER(region) LIKE LOWER('%O' || 'RTH%')",
    "LENGTH(region) > 4",
    "LENGTH(region) BETWEEN 4 AND 4",
    "LEFT(region, 1) <> 'N'",
    "LEFT(region, -1) = 'Eas'",
    "RIGHT(region, 2) = 'th'",
    "RIGHT(region, -3) = 'th'",
    "SUBSTRING(region, 2, 3) = 'out'",
    "SUBSTR(region, 3) = 'st'",
    "region || '!' = 'East!'",
    "CONCAT('to ', region) LIKE 'to S%'",
    "REPLACE(region, 'th', 'd') = 'Nord'",
    "TRIM(' ' || region || ' ') = 'East'",
    "STRPOS(region, 'th') = 4",
    "STARTS_WITH(region, 'So')",
    "NOT STARTS_WITH(region, 'N') AND age > 22",
    "region = ANY (ARRAY['East', 'South'])",
    "UPPER(LEFT(region, 2)) || '-' = 'NO-'",
    "region NOT LIKE 'N%'",
    "region ILIKE 'nORTH'",
    "region LIKE '_' || REVERSE('tro') || 'h' ESCAPE '!'",
    "REGEXP_MATCHES(region, '^[NS]o')",
    "NOT REGEXP_MATCHES(region, 'st$')",
    "CONTAINS(region, 'th') OR age = 23",
    "SPLIT_PART(region, 'o', 2) = 'uth'",
    "REVERSE(region) = 'tsaE'",
    "LPAD(region, 6, '*') = '*North'",
    "CONCAT_WS('/', region, \"sex-at-birth\") = 'East/Female'",
    "region || \"sex-at-birth\" LIKE '%hF%'",
    'LENGTH(region) = LENGTH("sex-at-birth") + 1',
    'LEFT(region, 1) < LEFT("sex-at-birth", 1)',
    "LENGTH(region) + 18 = age",
    "LENGTH(region) > 4 + income // 60",
    "CONCAT(income // 60, '-', age % 2) LIKE '0-1'",
    "ABS(income - 17) < 8",
    "income + 1 < 26",
    "age + income // 60 > 22",
    "LEFT(region, 1) IN (LEFT(\"sex-at-birth\", 1), 'E')",
    "age % 3 = 1 AND MOD(age, 2) <> 0",
    "age % 2 BETWEEN 1 AND 4 * (age - 21)",
    "(age - 23) * (age - 25) < 0",
    "POWER(age, 2) > 529",
    "SQRT(age) > 4.8",
    "LN(age) BETWEEN 3.05 AND 3.2",
    "SIGN(age - 23) >= 0",
    "GREATEST(age, 22, 24) = 24",
    "LEAST(age % 3, age % 4) = 1",
    "age // 4 = 5",
    "COALESCE(LENGTH(region), age - 20) = 5",
    "ASCII(region) % 2 = 0",
    "CASE WHEN UPPER(region) LIKE 'E%' THEN age % 2 ELSE LENGTH(region) END = 1",
]


@pytest.mark.parametrize("item", LINEAR)
def test_a_linear_item_is_what_duckdb_says(item: str, people: People) -> None:
    text = f"SELECT {item} FROM people"
    [[expected]] = people.duck(text)
    [[cell]] = [row.cells for row in read(text).rows]
    assert isinstance(cell, Sum)
    assert cell.binning is None
    assert float(people.value(cell.query)) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("item", RATIOS)
def test_a_quotient_is_what_duckdb_says(item: str, people: People) -> None:
    text = f"SELECT {item} FROM people WHERE income >= 10"
    [[expected]] = people.duck(text)
    [[cell]] = [row.cells for row in read(text).rows]
    assert isinstance(cell, Ratio)
    found = people.value(cell.numerator) / people.value(cell.denominator)
    assert float(found) == pytest.approx(float(expected), rel=1e-12)
    if cell.low is not None and cell.high is not None:
        assert cell.low <= found <= cell.high


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_keeps_what_duckdb_keeps(condition: str, people: People) -> None:
    text = f"SELECT COUNT(*), COUNT(*) FILTER (WHERE NOT ({condition})) FROM people"
    [expected] = people.duck(f"{text} WHERE {condition}")
    [[_, rest]] = people.duck(text)
    [row] = read(f"{text} WHERE {condition}").rows
    [other] = read(text).rows
    found = [people.value(c.query) for c in row.cells if isinstance(c, Sum)]
    assert found == list(expected)
    assert isinstance(other.cells[1], Sum)
    assert people.value(other.cells[1].query) == rest


@pytest.mark.parametrize(
    ("group", "where"),
    [
        ("region", "TRUE"),
        ("age", "age BETWEEN 22 AND 24"),
        ("region, age", "income < 25"),
        ('age, "sex-at-birth", region', "NOT (age < 26 AND region = 'North')"),
    ],
)
def test_groups_are_duckdbs_and_the_empty_ones_are_zero(
    group: str, where: str, people: People
) -> None:
    text = f"SELECT {group}, COUNT(*), SUM(age) FROM people WHERE {where} GROUP BY {group}"
    n_keys = group.count(",") + 1
    expected = {
        tuple(None if key is None else str(key) for key in row[:n_keys]): tuple(
            map(int, row[n_keys:])
        )
        for row in people.duck(text)
    }
    found = {
        row.group: tuple(int(people.value(c.query)) for c in row.cells if isinstance(c, Sum))
        for row in read(text).rows
    }
    assert set(expected) <= set(found)
    assert {key: value for key, value in found.items() if any(value)} == expected


@pytest.mark.parametrize(
    "item", ["SUM(income)", "SUM(2 * income - age)", "SUM(income * height)", "SUM(height)"]
)
def test_the_stated_error_of_bins_bounds_the_difference(item: str, people: People) -> None:
    text = f"SELECT {item}, COUNT(*) FROM people WHERE region = 'East'"
    [[expected, n]] = people.duck(text)
    cell = read(text).rows[0].cells[0]
    assert isinstance(cell, Sum)
    assert cell.binning is not None
    difference = abs(float(people.value(cell.query)) - float(expected))
    assert 0 < difference <= float(cell.binning.error) * int(n)


def test_the_stated_error_of_an_average_bounds_the_difference(people: People) -> None:
    text = "SELECT AVG(income) FROM people"
    [[expected]] = people.duck(text)
    cell = read(text).rows[0].cells[0]
    assert isinstance(cell, Ratio)
    assert cell.binning is not None
    assert (cell.binning.of, cell.binning.error) == ("average", Fraction(17))
    found = people.value(cell.numerator) / people.value(cell.denominator)
    assert 0 < abs(float(found) - float(expected)) <= 17


_atoms = st.one_of(
    st.builds(
        "age {} {}".format, st.sampled_from(["<", "<=", ">", ">=", "=", "<>"]), st.integers(18, 30)
    ),
    st.builds("age BETWEEN {} AND {}".format, st.integers(18, 30), st.integers(18, 30)),
    st.builds("income {} {}".format, st.sampled_from(["<", ">="]), st.sampled_from([0, 10, 25])),
    st.builds("height {} {}".format, st.sampled_from(["<", ">="]), st.sampled_from([1.5, 1.75])),
    st.lists(st.sampled_from(["North", "South", "East"]), min_size=1).map(
        lambda names: "region IN (" + ", ".join(f"'{n}'" for n in names) + ")"
    ),
)
_conditions = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {} OR {})".format, inner, inner, inner),
        st.builds("(NOT {})".format, inner),
    ),
    max_leaves=12,
)


@settings(max_examples=examples(25))
@given(st.lists(_conditions, min_size=6, max_size=6))
def test_any_conditions_keep_what_duckdb_keeps(people: People, conditions: list[str]) -> None:
    items = [
        f"SUM(CASE WHEN {one} THEN 2 WHEN {other} THEN age END) FILTER (WHERE {third})"
        for one, other, third in zip(conditions, conditions[1:], conditions[2:], strict=False)
    ]
    text = f"SELECT {', '.join(items)} FROM people WHERE {conditions[0]}"
    [expected] = people.duck(text)
    [row] = read(text).rows
    found = [people.value(c.query) for c in row.cells if isinstance(c, Sum)]
    assert found == [value or 0 for value in expected]


def test_the_domain_has_every_kind_of_attribute() -> None:
    assert {a.kind for a in DOMAIN.attributes} == {"labels", "integer", "real"}
    assert any(a.has_other for a in DOMAIN.attributes)
