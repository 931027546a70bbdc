"""WITH, inner SELECTs, UNION ALL, totals and OVER give what DuckDB gives for the same text."""

from __future__ import annotations

import pytest

from qserver.errors import CapacityError
from qserver.query.asking.after_looking import Selection
from qserver.query.sql.functions.function_of_sums import Combined, KnownPart
from qserver.query.sql.statement import Ratio, Sum
from tests.query.sql.people import People, read

SAME = [
    "WITH w AS (SELECT * FROM people WHERE region = 'North') "
    "SELECT age, COUNT(*) AS n FROM w GROUP BY age ORDER BY n DESC, age LIMIT 3",
    "WITH a AS (SELECT * FROM people), b AS (SELECT age AS years, region FROM a WHERE age > 21) "
    "SELECT years, COUNT(*) FROM b WHERE b.region <> 'East' GROUP BY years ORDER BY years",
    "WITH w (a, r) AS (SELECT age, region FROM people) "
    "SELECT a, COUNT(*) FROM w WHERE r = 'South' GROUP BY a ORDER BY 1",
    "WITH people2 AS (SELECT * FROM people WHERE age < 24) "
    "SELECT COUNT(*), SUM(age) FROM people2 AS p WHERE p.income >= 10",
    "SELECT r, COUNT(*) FROM (SELECT region AS r, age AS a FROM people WHERE age > 22) AS t "
    "WHERE t.a < 25 OR r = 'East' GROUP BY r ORDER BY 2 DESC, r",
    "SELECT g, COUNT(*) AS n FROM (SELECT FLOOR(age / 4) * 4 AS g FROM people) AS t "
    "GROUP BY g ORDER BY g",
    "SELECT age, COUNT(*) FROM (SELECT region AS age FROM people) AS t GROUP BY age "
    "ORDER BY 2 DESC",
    "SELECT FLOOR(a / 3) AS age, COUNT(*) FROM (SELECT age AS a FROM people) AS t "
    "GROUP BY 1 ORDER BY age DESC",
    "SELECT * FROM (SELECT region, COUNT(*) AS n FROM people GROUP BY region) AS t "
    "WHERE n > 70 ORDER BY n DESC",
    "SELECT r, n + 1 AS m FROM (SELECT region AS r, COUNT(*) AS n FROM people GROUP BY 1) AS t "
    "WHERE r IS NOT NULL ORDER BY m LIMIT 2",
    "SELECT r FROM (SELECT region AS r, COUNT(*) AS n FROM people GROUP BY 1 "
    "HAVING COUNT(*) > 68) AS t WHERE r <> 'North' ORDER BY n",
    "SELECT * FROM (SELECT age, COUNT(*) FROM people GROUP BY age ORDER BY age DESC LIMIT 3) AS t",
    "SELECT region, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS share FROM people GROUP BY region "
    "ORDER BY share DESC",
    "SELECT region, age, SUM(age) / SUM(SUM(age)) OVER (PARTITION BY region) FROM people "
    "WHERE age < 22 GROUP BY region, age ORDER BY 3, 2",
    "SELECT age, SUM(COUNT(*)) OVER (ORDER BY age) AS c FROM people GROUP BY age ORDER BY age",
    "SELECT age, SUM(COUNT(*)) OVER (ORDER BY age DESC ROWS BETWEEN UNBOUNDED PRECEDING AND "
    "CURRENT ROW) - COUNT(*) AS c FROM people GROUP BY age ORDER BY age",
    'SELECT age, "sex-at-birth" AS s, SUM(COUNT(*)) OVER (PARTITION BY "sex-at-birth" '
    "ORDER BY age) FROM people GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2",
    "SELECT age, COUNT(*) - (SELECT COUNT(*) FROM people WHERE age = 20) AS more FROM people "
    "WHERE region = 'East' GROUP BY age ORDER BY age",
    "SELECT age, AVG(age) - 20 FROM people GROUP BY age ORDER BY age",
    "SELECT 1 - AVG(CASE WHEN age < 23 THEN 1 ELSE 0 END) FROM people",
    "SELECT COUNT(*) FILTER (WHERE age > 23) * 1.0 / COUNT(*) - "
    "COUNT(*) FILTER (WHERE age < 22) * 1.0 / COUNT(*) FROM people",
    "SELECT age, 3 - COUNT(*) * 2 AS m FROM people GROUP BY age HAVING 3 - COUNT(*) * 2 < -70 "
    "ORDER BY m",
    'SELECT region, "sex-at-birth", COUNT(*) FROM people GROUP BY ROLLUP (region, 2) ORDER BY 3, 2',
    'SELECT region, "sex-at-birth", COUNT(*) FROM people WHERE region IS NOT NULL '
    "GROUP BY CUBE (1, 2) ORDER BY COUNT(*) DESC, 1, 2 LIMIT 6",
    "SELECT age, region, COUNT(*) FROM people WHERE age < 22 "
    "GROUP BY GROUPING SETS ((age), (region), (age, region), ()) ORDER BY 3, 1",
    "SELECT COALESCE(region, 'Total') AS r, COUNT(*) FROM people GROUP BY ROLLUP (region) "
    "ORDER BY 2 DESC",
    "SELECT age, region, COUNT(*) FROM people GROUP BY age, ROLLUP (region) "
    "HAVING COUNT(*) > 12 ORDER BY 3 DESC, 1, 2",
    "SELECT 'a' AS who, COUNT(*) AS n FROM people WHERE age < 22 UNION ALL "
    "SELECT 'b', COUNT(*) FROM people WHERE age >= 22 UNION ALL "
    "SELECT NULL, COUNT(*) FROM people ORDER BY n DESC LIMIT 2",
    "WITH w AS (SELECT * FROM people WHERE age > 22) SELECT COUNT(*), 1 AS k FROM w UNION ALL "
    "(SELECT COUNT(*), 2 FROM w WHERE region = 'East') ORDER BY k DESC",
    "SELECT region, CAST(COUNT(*) AS DOUBLE) / NULLIF(SUM(COUNT(*)) OVER (), 0) AS share "
    "FROM people GROUP BY region HAVING region <> 'other' ORDER BY share",
    "SELECT SUM(n), SUM(s) FROM (SELECT region, age, COUNT(*) AS n, SUM(age) AS s FROM people "
    "WHERE age > 21 GROUP BY region, age) AS t WHERE region <> 'East'",
    "SELECT r, SUM(n) AS m FROM (SELECT region AS r, age, COUNT(*) AS n FROM people "
    "GROUP BY 1, 2) AS t GROUP BY r HAVING SUM(n) > 70 ORDER BY m DESC",
    "SELECT age, COUNT(*) AS n FROM people GROUP BY age "
    "QUALIFY ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC, age) <= 3 ORDER BY n DESC, age",
    "SELECT age, n FROM (SELECT age, COUNT(*) AS n, ROW_NUMBER() OVER (ORDER BY COUNT(*), age) "
    "AS place FROM people GROUP BY age) AS t WHERE place < 4 ORDER BY place",
    "SELECT region, n * 1.0 / SUM(n) OVER () AS share FROM (SELECT region, COUNT(*) AS n "
    "FROM people GROUP BY region) AS t ORDER BY share DESC",
    "SELECT age, SUM(COUNT(*)) OVER (ORDER BY age ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS c "
    "FROM people GROUP BY age ORDER BY age",
    "SELECT age, SUM(COUNT(*)) OVER (ORDER BY age DESC ROWS 1 PRECEDING) AS c "
    "FROM people GROUP BY age ORDER BY age",
    'SELECT age, "sex-at-birth", SUM(SUM(age)) OVER (PARTITION BY "sex-at-birth" ORDER BY age '
    "ROWS BETWEEN 1 PRECEDING AND 3 FOLLOWING) AS c FROM people GROUP BY 1, 2 ORDER BY 1, 2",
    "SELECT age, SUM(COUNT(*)) OVER (ORDER BY age ROWS BETWEEN CURRENT ROW AND UNBOUNDED "
    "FOLLOWING) AS c FROM people GROUP BY age ORDER BY age",
    "SELECT region, age, GROUPING(region) AS g, COUNT(*), GROUPING(age) AS h FROM people "
    "WHERE age < 22 GROUP BY ROLLUP (region, age) ORDER BY 4, 1, 2",
    "SELECT CASE WHEN GROUPING(region) = 1 THEN 'all' ELSE region END AS r, COUNT(*) FROM people "
    "GROUP BY ROLLUP (region) ORDER BY 2 DESC",
    "SELECT region, COUNT(*) AS n FROM people GROUP BY ALL ORDER BY n DESC",
    "SELECT region || '/' || \"sex-at-birth\" AS g, COUNT(*) AS n FROM people GROUP BY g "
    "ORDER BY n DESC, g",
    "SELECT UPPER(LEFT(region, 1)) AS g, COUNT(*) AS n FROM people GROUP BY UPPER(LEFT(region, 1)) "
    "HAVING COUNT(*) > 20 ORDER BY n DESC",
    "SELECT LENGTH(region) AS g, COUNT(*) AS n FROM people GROUP BY 1 ORDER BY g",
    "WITH a AS (SELECT age, COUNT(*) AS n FROM people GROUP BY age), b AS (SELECT age, COUNT(*) "
    "AS m FROM people WHERE region = 'North' GROUP BY age) SELECT a.age, m * 1.0 / n AS share "
    "FROM a JOIN b ON a.age = b.age WHERE a.age > 21 ORDER BY share DESC, 1",
    "WITH a AS (SELECT age, COUNT(*) AS n FROM people GROUP BY age) SELECT x.age, x.n - y.n AS d "
    "FROM a AS x LEFT JOIN a AS y ON x.age = y.age + 1 WHERE y.age IS NOT NULL ORDER BY d, 1",
    "WITH a AS (SELECT age, COUNT(*) AS n FROM people GROUP BY age) SELECT age, COALESCE(y.n, 0) "
    "+ x.n AS s FROM a AS x LEFT JOIN (SELECT age, n FROM a WHERE age < 22) AS y USING (age) "
    "ORDER BY age",
    "SELECT x.region, y.s, x.n FROM (SELECT region, COUNT(*) AS n FROM people GROUP BY region) AS "
    "x CROSS JOIN (SELECT SUM(age) AS s FROM people) AS y WHERE region < 'P' ORDER BY x.n",
    "SELECT age, COUNT(*) - COALESCE(LAG(COUNT(*)) OVER (ORDER BY age), 0) AS d FROM people "
    "GROUP BY age ORDER BY d DESC, age",
    "SELECT age, LEAD(SUM(age), 2, 0) OVER (ORDER BY age DESC) AS d FROM people GROUP BY age "
    "ORDER BY age",
    "SELECT age, COUNT(*) * 1.0 / FIRST_VALUE(COUNT(*)) OVER (ORDER BY age) AS q FROM people "
    "GROUP BY age ORDER BY age",
    "SELECT age, AVG(COUNT(*)) OVER (ORDER BY age ROWS 1 PRECEDING) AS m FROM people GROUP BY age "
    "ORDER BY age",
    "SELECT age, SUM(n) OVER (PARTITION BY age % 2 ORDER BY age) AS c FROM (SELECT age, COUNT(*) "
    "AS n FROM people GROUP BY age) AS t ORDER BY age",
    "SELECT age % 3 AS r, SUM(n) AS n, SUM(n) FILTER (WHERE age > 23) AS older FROM (SELECT age, "
    "COUNT(*) AS n FROM people GROUP BY age) AS t GROUP BY age % 3 ORDER BY r",
    "SELECT UPPER(region) AS u, CASE WHEN region = 'East' THEN n * 2 ELSE n END AS n FROM (SELECT "
    "region, COUNT(*) AS n FROM people WHERE region IS NOT NULL GROUP BY region) AS t ORDER BY n",
    "SELECT age, n FROM (SELECT age, COUNT(*) AS n FROM people GROUP BY age) AS t WHERE age IN "
    "(SELECT age FROM people WHERE age < 23 GROUP BY age) ORDER BY age",
    "WITH g AS (SELECT age, COUNT(*) AS n FROM people GROUP BY age) SELECT age, n * 1.0 / (SELECT "
    "SUM(n) FROM g) AS share, n * 2 AS twice FROM g ORDER BY age LIMIT 3",
    "SELECT (SELECT COUNT(*) FROM people WHERE age = 20) * 1.0 / (SELECT COUNT(*) FROM people)",
    'SELECT "sex-at-birth" AS s, age, COUNT(*) AS n FROM people GROUP BY 1, 2 QUALIFY ROW_NUMBER() '
    'OVER (PARTITION BY "sex-at-birth" ORDER BY COUNT(*) DESC, age) <= 2 ORDER BY 1, 3 DESC, 2',
    'SELECT s, age, n FROM (SELECT "sex-at-birth" AS s, age, COUNT(*) AS n, ROW_NUMBER() OVER '
    '(PARTITION BY "sex-at-birth" ORDER BY COUNT(*), age) AS k FROM people GROUP BY 1, 2) AS t '
    "WHERE k = 1 ORDER BY s",
    "SELECT STDDEV(age) / AVG(age) AS v, LN(COUNT(*)) AS l, COUNT(*) * AVG(age) AS p, "
    "SQRT(VAR_POP(age)) AS d, ABS(COUNT(*) - 400) AS a, 1000.0 / COUNT(*) AS i, "
    "POWER(COUNT(*), 2) / 1e4 AS w, GREATEST(COUNT(*), 7) AS g FROM people",
    "SELECT * FROM (SELECT age, COUNT(*) AS n FROM people GROUP BY age ORDER BY n DESC LIMIT 3) "
    "AS t ORDER BY age",
    "SELECT age, n FROM (SELECT age, COUNT(*) AS n FROM people GROUP BY age) AS t QUALIFY "
    "ROW_NUMBER() OVER (ORDER BY age DESC) <= 2 ORDER BY age",
    "SELECT region, SUM(COUNT(*)) OVER (ORDER BY region) AS c FROM people WHERE region IS NOT NULL "
    "GROUP BY region ORDER BY c",
    "SELECT region, AVG(age) - (SELECT AVG(age) FROM people) AS d FROM people GROUP BY region "
    "ORDER BY d",
    "SELECT age, ROW_NUMBER() OVER (ORDER BY age DESC) AS k, COUNT(*) AS n FROM people "
    "GROUP BY age ORDER BY n DESC, age",
    'SELECT people.age::int AS "age", COUNT(*)::bigint AS "count" FROM people '
    "WHERE people.region::text <> 'East' AND CAST(age AS DOUBLE) < 25 "
    'GROUP BY people.age ORDER BY "count" DESC LIMIT 3',
]


def table_of(people: People, text: str) -> list[tuple[object, ...]]:
    """The rows in the order of SELECT, where each released number is the true one."""
    statement = read(text)
    table = [[_value(people, cell) for cell in row.cells] for row in statement.rows]
    return [
        (*statement.rows[i].group, *table[i][: len(statement.columns)])
        for i in statement.shape.places(table)
    ]


def _value(people: People, cell: Sum | Ratio | Combined) -> float | None:
    if isinstance(cell, Combined):
        exact = [KnownPart(x, x, x) for x in (float(people.value(q)) for q in cell.queries)]
        return cell.function.value(exact).estimate
    if isinstance(cell, Sum):
        value = people.value(cell.query)
        return None if cell.offset is None else float(value + cell.offset)
    under = people.value(cell.denominator)
    return float(people.value(cell.numerator) / under) if under else None


def _sorted_kinds(row: tuple[object, ...]) -> list[object]:
    """A row as texts and numbers: which come first in SELECT does not matter."""
    return sorted((_plain(value) for value in row), key=str)


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool):
        return value
    try:
        return round(float(value), 9)  # type: ignore[arg-type]
    except ValueError:
        return value


@pytest.mark.parametrize("text", SAME)
def test_a_table_is_duckdbs(text: str, people: People) -> None:
    expected = [_sorted_kinds(row) for row in people.duck(text)]
    found = [_sorted_kinds(row) for row in table_of(people, text)]
    if any(word in text for word in ("ROLLUP", "SETS", "||")):
        # Labels come in the order of the domain, so rows with equal numbers may.
        expected, found = sorted(expected, key=str), sorted(found, key=str)
    if "SELECT r FROM" in text:
        # The number that it is ordered by becomes a column.
        assert [row[-1] for row in found] == [row[-1] for row in expected]
    else:
        assert found == expected


def test_names_are_those_that_the_outer_select_gives() -> None:
    statement = read("SELECT r, COUNT(*) FROM (SELECT region AS r FROM people) AS t GROUP BY r")
    assert (statement.groups, statement.columns) == (("r",), ("COUNT(*)",))


def test_a_choice_within_an_outer_select_lengthens_intervals() -> None:
    inner = "SELECT age, COUNT(*) AS n FROM people GROUP BY age"
    chosen = {
        "ORDER BY n DESC LIMIT 2": Selection(8, "largest", 2),
        "WHERE n > 30": Selection(8, "any"),
        "WHERE age > 22": None,
        "ORDER BY age LIMIT 2": None,
    }
    for tail, expected in chosen.items():
        statement = read(f"SELECT * FROM ({inner}) AS t {tail}")
        assert statement.clauses.looking.selected_from == expected


def test_a_union_may_be_ordered_by_numbers() -> None:
    text = "SELECT 'a', COUNT(*) AS n FROM people UNION ALL SELECT 'b', COUNT(*) FROM people"
    assert read(f"{text} ORDER BY n LIMIT 1").clauses.looking.selected_from == Selection(2, "least")
    assert read(f"{text} ORDER BY 1 DESC LIMIT 1").rows[0].group == ("b",)


def test_a_running_total_and_a_share_ask_linear_questions() -> None:
    [[first, *_], *_] = [
        row.cells for row in read("SELECT SUM(COUNT(*)) OVER () FROM people GROUP BY age").rows
    ]
    [[whole]] = [row.cells for row in read("SELECT COUNT(*) FROM people").rows]
    assert first == whole


def test_names_that_stand_for_more_and_more_are_cut_short() -> None:
    """Each WITH doubles the text that its name stands for."""
    steps = ", ".join(
        f"w{i + 1} AS (SELECT CASE WHEN a > 3 THEN a ELSE a END AS a FROM w{i})" for i in range(30)
    )
    text = f"WITH w0 AS (SELECT age AS a FROM people), {steps} SELECT SUM(a) FROM w30"
    with pytest.raises(CapacityError, match=r"too often|nested too deep"):
        read(text)


def test_totals_count_towards_the_bound_on_numbers() -> None:
    with pytest.raises(CapacityError, match="1,000 numbers"):
        read(
            "SELECT COUNT(*) FROM people "
            'GROUP BY CUBE (age, income, height), region, "sex-at-birth"'
        )
    with pytest.raises(CapacityError, match="64 sets"):
        read(
            "SELECT COUNT(*) FROM people GROUP BY CUBE (age, income, height, region), "
            "ROLLUP (age, income, height, region)"
        )
