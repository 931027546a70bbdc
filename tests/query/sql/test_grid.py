"""What is evaluated on each point of a grid: its boxes, its limits, and what it is refused for."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import CapacityError, SqlError
from qserver.query.domain_file import domain_from_document
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.statement import Ratio, Sum
from qserver.query.sql.values.expression_values import regions_of
from qserver.query.sql.values.point_values import MOST_POINTS
from tests.query.sql.people import AGES, read


@given(st.data())
def test_boxes_of_each_value_are_disjoint_and_hold_its_points(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    points = list(product(*map(range, sizes)))
    keys = data.draw(st.lists(st.sampled_from("abc"), min_size=len(points), max_size=len(points)))
    axes = [7, 3, 5][: len(sizes)]
    found = regions_of(axes, sizes, keys)
    for point, key in zip(points, keys, strict=True):
        at = dict(zip(axes, point, strict=True))
        held = {
            one: sum(all(mask >> at[axis] & 1 for axis, mask in box.items()) for box in region)
            for one, region in found.items()
        }
        assert held == {one: int(one == key) for one in found}
    assert list(found) == list(dict.fromkeys(keys))


@pytest.mark.parametrize(
    ("condition", "regions"),
    [
        ("region ~ 'st$'", ["East"]),
        ("region ~ '^[ES]'", ["South", "East"]),
        ("region !~ 'o'", ["East"]),
        ("region ~* '^e'", ["East"]),
        ("region SIMILAR TO '(N|S)o%'", ["North", "South"]),
        ("region SIMILAR TO '_as_'", ["East"]),
        ("region NOT SIMILAR TO '%th'", ["East"]),
    ],
)
def test_regular_expressions_are_those_of_postgresql(condition: str, regions: list[str]) -> None:
    """There ~ finds a part, and SIMILAR TO has % and _; DuckDB has neither."""
    rows = read(f"SELECT region, COUNT(*) FROM people WHERE {condition} GROUP BY region").rows
    assert [row.group[0] for row in rows] == regions


def test_a_quotient_of_whole_numbers_drops_its_rest_where_it_says_so() -> None:
    one, other = (
        read(f"SELECT {by} AS g, COUNT(*) FROM people GROUP BY g").rows
        for by in ("age // 3", "TRUNC(age / 3)")
    )
    assert one == other
    with pytest.raises(SqlError, match="quotient of whole numbers is rounded"):
        read("SELECT CAST(age / 3 AS INTEGER) AS g, COUNT(*) FROM people GROUP BY g")
    assert [row.group for row in one] == [("6",), ("7",), ("8",), ("9",)]


@pytest.mark.parametrize(
    ("item", "of"),
    [
        ("SQRT(age)", math.sqrt),
        ("LN(age) * 2", lambda age: 2 * math.log(age)),
        ("ROUND(LN(age), 2)", lambda age: round(math.log(age), 2)),
        ("EXP(age / 9.0)", lambda age: math.exp(age / 9)),
    ],
)
def test_a_number_without_an_end_is_rounded_and_its_error_is_said(
    item: str, of: Callable[[int], float]
) -> None:
    [[cell]] = [row.cells for row in read(f"SELECT SUM({item}) FROM people").rows]
    assert isinstance(cell, Sum)
    error = Fraction(0) if cell.binning is None else cell.binning.error
    far = [abs(float(cell.query.value_at((i, 0, 0, 0, 0))) - of(age)) for i, age in enumerate(AGES)]
    assert max(far) <= float(error) + 1e-12
    assert error < Fraction(1, 4000)
    assert (error == 0) == item.startswith("ROUND")


def test_an_average_of_rounded_numbers_has_bounds_of_the_true_ones() -> None:
    [[cell]] = [row.cells for row in read("SELECT AVG(SQRT(age)) FROM people").rows]
    assert isinstance(cell, Ratio)
    assert cell.low is not None
    assert cell.high is not None
    assert cell.low**2 <= 20 < (cell.low + Fraction(1, 1000)) ** 2
    assert cell.high**2 >= 27 > (cell.high - Fraction(1, 1000)) ** 2


def test_a_value_that_is_no_number_meets_no_condition() -> None:
    """And so it meets the opposite, and has a name of its own among groups."""
    item = {"name": "n", "kind": "integer", "range": [0, 3], "outside": "other"}
    domain = domain_from_document({"attributes": [item, {"name": "s", "labels": ["a", "b"]}]})

    def kept(condition: str) -> list[str | None]:
        text = f"SELECT n, COUNT(*) FROM v WHERE {condition} GROUP BY n"
        return [row.group[0] for row in parse_statement(text, domain, dataset="v").rows]

    assert kept("n % 2 = LENGTH(s)") == ["1", "3"]
    assert kept("n % 2 <> LENGTH(s)") == ["0", "2", "other"]
    assert kept("NOT n % 2 = 1") == ["0", "2", "other"]
    assert kept("POWER(n, 2) > 3") == ["2", "3"]
    assert kept("n % 2 IS NULL") == []
    by = parse_statement("SELECT n % 2 AS k, COUNT(*) FROM v GROUP BY k", domain, dataset="v")
    assert [row.group[0] for row in by.rows] == ["0", "1", "other"]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("region ~ '('", r"be SQL that can be calculated: .*missing \)"),
        ("age % 0 = 1", "be SQL that can be calculated: .*Division by zero"),
        ("LN(20 - age) > 1", "be SQL that can be calculated|have a number wherever"),
        (
            "POWER(age, 2) / 3 > 4",
            r"quotient of whole numbers is rounded .*FLOOR\(POWER\(age, 2\) / 3\)",
        ),
        ("income % 2 = 1", "same on all of a bin of `income`"),
        ("height % 2 = 1", "same on all of a bin of `height`"),
        ("SQRT(region) = 1", "calculate with numbers: `region` has labels"),
        ("UPPER(age) = 'A'", "functions of texts with labels: `age` has none"),
        ("UPPER(regio) = 'A'", "Did you mean `region`"),
        ("region || \"sex-at-birth\" = 'NorthMael'", "Did you mean 'NorthMale'"),
        ("REPEAT(region, 99) = 'A'", "use SQL on the list, got Repeat"),
        ("CONTAINS(region, COUNT(*))", "no aggregate|compare one attribute"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(condition: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        read(f"SELECT COUNT(*) FROM people WHERE {condition}")


def test_a_grid_of_too_many_points_is_refused() -> None:
    n = int(MOST_POINTS**0.5) + 1
    items = [{"name": name, "kind": "integer", "range": [1, n]} for name in "ab"]
    domain = domain_from_document({"attributes": items})
    with pytest.raises(CapacityError, match="values of them together"):
        parse_statement("SELECT COUNT(*) FROM v WHERE a % 9 = b % 9", domain, dataset="v")
    assert parse_statement(
        "SELECT COUNT(*) FROM v WHERE a % 9 = 1 AND b % 9 = 1", domain, dataset="v"
    ).rows
