"""Queries and tables in words, and the cells of the heat map."""

from __future__ import annotations

from typing import Any

import pytest

from qserver.portal.descriptions import describe_released, describe_terms
from qserver.portal.drawing import heat_cells, heat_map
from qserver.query.asking.structured_question import parse_query
from qserver.query.domain_file import domain_from_document
from qserver.records.history import HistoryRow, HistoryTable

DOMAIN = domain_from_document(
    {
        "attributes": [
            {"name": "age", "kind": "integer", "range": [0, 9], "outside": "other"},
            {"name": "sex", "labels": ["Female", "Male"], "outside": "other"},
            {"name": "income", "kind": "real", "edges": [0, "0.5", 10], "outside": "clamp"},
            {"name": "town", "labels": ["a", "b", "c", "d", "e", "f"]},
            {"name": "day", "kind": "period", "every": "day", "first": "2024-02-28", "count": 9},
        ]
    }
)


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ({}, "all records"),
        ({"age": {"between": [3, 5]}, "sex": "Female"}, "age 3 to 5, sex Female"),
        ({"age": 4}, "age 4"),
        ({"age": {"at_least": 8}}, "age 8 to 9"),
        ({"age": "other"}, "age other"),
        ({"income": {"below": "0.5"}}, "income from 0 to below 0.5"),
        ({"day": {"at_least": "2024-03-01"}}, "day 2024-03-01 to 2024-03-07"),
        ({"day": {"below": "2024-02-29"}}, "day 2024-02-28"),
        ({"town": ["a", "c"]}, "town a or c"),
        ({"town": {"not": "c"}}, "town not c"),
        ({"town": ["a", "b", "c", "d", "e"]}, "town a or b or c or 2 more"),
        ({"sex": {"weights": {"Female": 1, "Male": 2}}}, "sex weighted"),
    ],
)
def test_conditions_read_as_they_were_meant(where: dict[str, Any], text: str) -> None:
    query = parse_query({"where": where}, DOMAIN)
    assert describe_terms(query.to_document(), DOMAIN) == text


def test_a_page_of_its_own_names_every_condition() -> None:
    query = parse_query({"where": {"town": ["a", "b", "c", "d", "e"]}}, DOMAIN)
    said = describe_terms(query.to_document(), DOMAIN, whole=True)
    assert said == "town a or b or c or d or e"
    many = [{"coefficient": i + 2, "where": {"age": i}} for i in range(6)]
    query = parse_query({"terms": many}, DOMAIN)
    assert describe_terms(query.to_document(), DOMAIN, whole=True).count("×") == 6


def test_a_combination_names_its_coefficients_and_counts_what_it_hides() -> None:
    terms = [{"coefficient": 2, "where": {"sex": "Male"}}, {"coefficient": -1, "where": {}}]
    query = parse_query({"terms": terms}, DOMAIN)
    assert describe_terms(query.to_document(), DOMAIN) == "- all records + 2 × sex Male"
    many = [{"coefficient": i + 2, "where": {"age": i}} for i in range(6)]
    query = parse_query({"terms": many}, DOMAIN)
    assert describe_terms(query.to_document(), DOMAIN).endswith("and 3 more terms")
    assert describe_terms([], DOMAIN) == "nothing"


def test_what_was_released_is_named() -> None:
    row = HistoryRow(
        id=0,
        terms=[["1", [[1, [1, 3], [1, 0]]]]],
        key="k",
        value=1.0,
        scale=1.0,
        alpha_nano=1,
        step="1",
    )
    assert describe_released(row, DOMAIN) == "sex Female"
    table = HistoryTable(
        id=1,
        axes=[[0, [5, 11], [0, 1]], [1, [1, 3], [0, 1]]],
        n_cells=4,
        key="k",
        scale=1.0,
        alpha_nano=1,
        step="1",
        values=None,
    )
    assert describe_released(table, DOMAIN) == "every cell of age (2 parts) by sex (2 parts)"


def test_a_heat_map_joins_neighbours_by_their_maximum() -> None:
    names = [str(i) for i in range(150)]
    losses = [i % 7 for i in range(150)]
    cells = heat_cells(names, losses, low_nano=0, top_nano=6)
    assert len(cells) == 50
    assert cells[0].label == "0 – 2"
    assert [c.loss_nano for c in cells] == [max(losses[i : i + 3]) for i in range(0, 150, 3)]


def test_shades_tell_nothing_from_little_and_the_top_from_the_rest() -> None:
    cells = heat_cells(["a", "b", "c", "d"], [0, 1, 500, 1000], low_nano=0, top_nano=1000)
    assert [c.shade for c in cells] == [0, 1, 5, 9]
    assert heat_cells(["a"], [0], low_nano=0, top_nano=0)[0].shade == 0


def test_shades_tell_losses_apart_after_a_whole_table_was_bought() -> None:
    found = heat_map({"sex": {"F": 1000, "M": 1010}, "age": {"20": 1000, "21": 1005}})
    assert [[c.shade for c in row.cells] for row in found.rows] == [[1, 9], [1, 5]]
    assert (found.low_nano, found.top_nano, found.is_even) == (1000, 1010, False)
    even = heat_map({"sex": {"F": 7, "M": 7}})
    assert even.is_even
    assert [c.shade for c in even.rows[0].cells] == [9, 9]
