"""How cells are compared: white space at their ends, capitals, and the sign of a fraction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qserver.errors import DomainError
from qserver.query.domain_file import domain_from_document, domain_to_document
from qserver.query.domain_loading import BLANKS, domain_of_new
from tests.worker.private.reading import codes_in_order
from worker.coding.names import name_sql

CELLS = ["yes", " yes ", "\tyes", "yes\u00a0", "YES", "Étage", "étage", "no "]


def coded(folder: Path, cells: pa.Array, **item: Any) -> list[int]:
    pq.write_table(pa.table({"a": cells}), folder / "rows.parquet")
    document = {"attributes": [{"name": "a", "outside": "other", "other": "unknown", **item}]}
    domain = domain_of_new(document)
    assert domain_from_document(domain_to_document(domain)) == domain
    return codes_in_order(folder / "rows.parquet", domain, folder=folder)[0]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, [0, 0, 3, 0, 3, 1, 3, 2]),
        ({"trim": True}, [0, 0, 0, 0, 3, 1, 3, 2]),
        ({"trim": False}, [0, 3, 3, 3, 3, 1, 3, 3]),
        ({"fold": True}, [0, 0, 3, 0, 0, 1, 1, 2]),
        ({"trim": True, "fold": True}, [0, 0, 0, 0, 0, 1, 1, 2]),
    ],
    ids=str,
)
def test_cells_are_compared_as_the_keys_say(
    tmp_path: Path, keys: dict[str, bool], expected: list[int]
) -> None:
    assert coded(tmp_path, pa.array(CELLS), labels=["yes", "Étage", "no"], **keys) == expected


def test_the_ends_of_cells_are_those_that_a_domain_file_is_checked_by() -> None:
    every = pa.table({"c": [chr(i) for i in range(1, 0x3100)]})
    for trim, taken in (
        (None, set(BLANKS)),
        (True, {c for c in every["c"].to_pylist() if c.isspace()}),
    ):
        name = name_sql("c || 'x' || c", pa.string(), trim=trim)
        with duckdb.connect(":memory:") as connection:
            connection.register("every", every)
            found = connection.sql(f"SELECT c FROM every WHERE {name} = 'x'").fetchall()
        assert {row[0] for row in found} == taken


def test_nothing_is_taken_off_a_label_with_blanks_where_trim_says_so(tmp_path: Path) -> None:
    assert coded(tmp_path, pa.array(["x ", "x"]), labels=["x ", "y"], trim=False) == [0, 2]
    with pytest.raises(DomainError, match="have no blank at its ends"):
        coded(tmp_path, pa.array(["x"]), labels=["\tx"], trim=True)


def test_two_labels_that_become_one_without_capitals_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DomainError, match="differ by more than capitals"):
        coded(tmp_path, pa.array(["x"]), labels=["Yes", "yes"], fold=True)


def test_a_fraction_may_come_after_a_comma(tmp_path: Path) -> None:
    """With it a point is no part of a number: 1.234 could be two of them."""
    number = {"kind": "real", "range": [0, 10], "decimal": ",", "missing_markers": ["9", "8,5"]}
    cells = ["3,5", "3", "-0,5", "1.234", "9,0", "8,5", "x", "1e0"]
    assert coded(tmp_path, pa.array(cells), **number) == [3, 3, 10, 10, 10, 10, 10, 1]
    # A column of numbers has no sign of its own.
    assert coded(tmp_path, pa.array([3.5, 9.0]), **number) == [3, 10]
