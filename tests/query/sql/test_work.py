"""Texts made to take long are cut short: each step is counted, not timed."""

from __future__ import annotations

import pytest

from qserver.errors import CapacityError, QServerError
from qserver.query.sql.shaping.ranks import Rank, RankKind, ranked
from qserver.query.sql.tables.catalogue import catalogue_statement
from tests.query.sql.people import DOMAIN, read


@pytest.mark.slow
def test_a_chain_of_withs_that_each_add_a_condition_is_bounded() -> None:
    steps = ", ".join(f"w{i + 1} AS (SELECT * FROM w{i} WHERE age <> {i})" for i in range(900))
    text = f"WITH w0 AS (SELECT * FROM people), {steps} SELECT COUNT(*) FROM w900"
    with pytest.raises(CapacityError):
        read(text)


@pytest.mark.parametrize(
    "group",
    [
        f"ROLLUP ({', '.join(f'age + {i}' for i in range(2000))})",
        f"GROUPING SETS (({', '.join(f'age + {i}' for i in range(2000))}))",
        f"CUBE ({', '.join(f'age + {i}' for i in range(40))})",
        ", ".join(["ROLLUP (age, region)"] * 8),
        ", ".join(f"ROLLUP (age + {i})" for i in range(33)),
    ],
)
def test_sets_of_groups_are_bounded(group: str) -> None:
    with pytest.raises(CapacityError):
        read(f"SELECT COUNT(*) FROM people GROUP BY {group}")


def test_ranks_are_bounded() -> None:
    ranks = ", ".join(["RANK() OVER (ORDER BY COUNT(*))"] * 33)
    with pytest.raises(CapacityError, match="32 parts"):
        read(f"SELECT {ranks} FROM people GROUP BY region")


def test_a_union_is_bounded() -> None:
    one = "SELECT age, COUNT(*) FROM people GROUP BY age"
    with pytest.raises(CapacityError, match="64 SELECTs"):
        read(" UNION ALL ".join([one] * 65))
    text = one.replace("age,", "age, region, income,").replace("BY age", "BY age, region, income")
    with pytest.raises(CapacityError, match="1,000 numbers"):
        read(" UNION ALL ".join([text] * 11))


def test_a_deep_condition_on_the_catalogue_is_refused() -> None:
    deep = " AND ".join(["table_name = 'people'"] * 700)
    for condition in (deep, "(" * 3000, "NOT " * 3000 + "table_name = 'people'"):
        text = f"SELECT table_name FROM information_schema.tables WHERE {condition}"
        try:
            found = catalogue_statement(text, DOMAIN, dataset="people")
        except QServerError:
            continue
        # A longer text is none of these, and is bounded as any other.
        assert found is None or len(found.rows) == 1


def test_equal_numbers_share_a_rank_but_not_a_row_number() -> None:
    estimates, ends = [3.0, 5.0, 3.0, 5.0, 9.0], [(0.0, 6.0)] * 4 + [(8.0, 9.0)]
    kinds: dict[RankKind, list[int]] = {"RANK": [4, 2, 4, 2, 1], "ROW_NUMBER": [4, 2, 5, 3, 1]}
    for kind, expected in kinds.items():
        rank = Rank("r", 0, descending=True, parties=(0,) * 5, kind=kind)
        assert [one.estimate for one in ranked(estimates, ends, rank)] == expected
