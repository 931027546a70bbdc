"""Columns of any name, codes, dates and levels: what a file's cells become."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from qserver.query.domain import Domain
from qserver.query.domain_file import domain_from_document
from tests.worker.private.reading import codes_in_order

NUMBER = {"name": "n", "kind": "integer", "range": [0, 99]}


def domain(**item: object) -> Domain:
    return domain_from_document({"attributes": [NUMBER, {"name": "a", **item}]})


def codes(folder: Path, texts: list[str], of: Domain, *, column: str = "a") -> dict[str, int]:
    """The code of each text whose record is kept."""
    path = folder / "rows.csv"
    name = column.replace('"', '""')
    lines = [f'{i},"{text}"' for i, text in enumerate(texts)]
    path.write_text(f'n,"{name}"\n' + "\n".join(lines) + "\n", encoding="utf-8")
    numbers, found = codes_in_order(path, of, folder=folder)
    return {texts[i]: code for i, code in zip(numbers, found, strict=True)}


@pytest.mark.parametrize(
    "column", ["Blood pressure / mmHg", "Größe 身高", "2nd visit", 'the "a"', "a,b;c", "select"]
)
def test_a_column_of_any_name_is_read(tmp_path: Path, column: str) -> None:
    found = codes(tmp_path, ["y", "x"], domain(column=column, labels=["x", "y"]), column=column)
    assert found == {"y": 1, "x": 0}


def test_two_attributes_may_read_one_column(tmp_path: Path) -> None:
    shared = {"column": "t", "kind": "date"}
    days = {"name": "day", **shared, "every": "day", "first": "2024-02-28", "count": 3}
    months = {"name": "month", **shared, "every": "month", "first": "2024-01", "count": 12}
    path = tmp_path / "rows.csv"
    path.write_text("t\n2024-02-29\n2024-03-01 10:30\n2024-03-02\n")
    found = codes_in_order(
        path, domain_from_document({"attributes": [days, months]}), folder=tmp_path
    )
    assert found == [[1, 2], [1, 2]]


def test_a_whole_number_is_read_in_the_notations_of_programs(tmp_path: Path) -> None:
    of = domain(labels=["never", "former"], codes=[0, -1])
    texts = ["0", "0.0", " 0 ", "-1", "-1.0", "00", "1", "never", ""]
    assert codes(tmp_path, texts, of) == {"0": 0, "0.0": 0, " 0 ": 0, "-1": 1, "-1.0": 1}


def test_a_boolean_is_read_in_the_notations_of_programs(tmp_path: Path) -> None:
    of = domain(labels=["non-smoker", "smoker"], codes=[False, True], outside="other")
    yes = ["true", "True", "TRUE", "t", "T", "yes", "Y", "1"]
    no = ["false", "False", "FALSE", "f", "F", "no", "N", "0"]
    found = codes(tmp_path, [*yes, *no, "smoker", "2"], of)
    assert found == dict.fromkeys(yes, 1) | dict.fromkeys(no, 0) | {"smoker": 2, "2": 2}


def test_what_is_itself_a_code_stands_for_that_code(tmp_path: Path) -> None:
    found = codes(tmp_path, ["1", "true", "T"], domain(labels=[True, 1]))
    assert found == {"1": 1, "true": 0, "T": 0}


def test_labels_that_are_texts_are_read_as_they_are(tmp_path: Path) -> None:
    """As earlier versions did: other notations would change sealed data."""
    assert codes(tmp_path, ["1", "1.0", "True"], domain(labels=["1", "true"])) == {"1": 0}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({}, {"2024-02-01": 0, "2024-03-31T23:59Z": 1, "2024-02": 0}),
        (
            {"outside": "other"},
            {"2024-02-01": 0, "2024-03-31T23:59Z": 1, "2024-02": 0}
            | {"2024-01-31": 2, "2024-04-01": 2, "2024-02-30": 2, "soon": 2, "": 2},
        ),
        (
            {"outside": "clamp"},
            {"2024-02-01": 0, "2024-03-31T23:59Z": 1, "2024-02": 0, "2024-01-31": 0}
            | {"2024-04-01": 1},
        ),
        (
            {"outside": "clamp", "missing": "other"},
            {"2024-02-01": 0, "2024-03-31T23:59Z": 1, "2024-02": 0, "2024-01-31": 0}
            | {"2024-04-01": 1, "2024-02-30": 2, "soon": 2, "": 2},
        ),
    ],
)
def test_a_date_has_its_bin_or_what_the_rules_say(
    tmp_path: Path, rules: dict[str, str], expected: dict[str, int]
) -> None:
    """Under `clamp` with `missing` nothing is dropped, as `is_total` promises."""
    of = domain(kind="date", every="month", first="2024-02", count=2, **rules)
    texts = ["2024-02-01", "2024-03-31T23:59Z", "2024-02", "2024-01-31", "2024-04-01"]
    found = codes(tmp_path, [*texts, "2024-02-30", "soon", ""], of)
    assert found == expected
    assert of.attributes[1].is_total == (len(found) == 8)


def test_a_date_may_have_slashes(tmp_path: Path) -> None:
    of = domain(kind="date", every="month", first="2024-02", count=2)
    texts = ["2024/02/29", "2024/03/01 10:30", "2024/02/30", "2024/3/1", "02/03/2024"]
    assert codes(tmp_path, texts, of) == {"2024/02/29": 0, "2024/03/01 10:30": 1}


def test_typed_columns_of_parquet_are_read_by_their_codes(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    rows = "VALUES (true, 3, DATE '2024-02-29'), (false, 1, DATE '2024-03-01')"
    duckdb.sql(f"SELECT * FROM ({rows}) AS t(b, c, d)").write_parquet(str(path))
    items = [
        {"name": "b", "labels": [False, True]},
        {"name": "c", "labels": ["one", "three"], "codes": [1, 3]},
        {"name": "d", "kind": "timestamp", "every": "month", "first": "2024-02", "count": 2},
    ]
    found = codes_in_order(path, domain_from_document({"attributes": items}), folder=tmp_path)
    assert found == [[1, 0], [1, 0], [0, 1]]
