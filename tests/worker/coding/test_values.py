"""Values that come again have the codes they had, and are not coded again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qserver.query.domain_file import domain_from_document
from tests.worker.private.reading import codes_in_order
from worker.coding import names as values
from worker.coding.names import ColumnCodes, NewValues
from worker.constants import WORKER
from worker.owner.domains.draft import infer_domain_document
from worker.sources.parquet import parquet_file

TEXTS: list[str | None] = ["b", None, "a", "b", "", "b", None, "c"]
TWICE = pa.array(["x", *"bbaacc", ""])
"""Every text twice, and one that no record has."""
COLUMNS: list[Callable[[list[Any]], pa.Array]] = [
    lambda cells: pa.array(cells, pa.string()),
    lambda cells: pa.array(cells, pa.string()).dictionary_encode(),
    lambda cells: pa.array(cells, pa.string()).dictionary_encode("encode"),
    lambda cells: pa.DictionaryArray.from_arrays(
        pa.array([None if c is None else TWICE.index(c).as_py() for c in cells], pa.int32()), TWICE
    ),
]


def by_length(seen: list[int]) -> values.Coded:
    """A code of each text by Python, and how many were coded at a time."""

    def coded(cells: pa.Array) -> list[np.ndarray[Any, np.dtype[np.int64]]]:
        seen.append(len(cells))
        return [np.array([code(c) for c in cells.to_pylist()], dtype=np.int64)]

    return coded


def code(text: str | None) -> int:
    return -1 if text is None else sum(map(ord, text))


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("most", [1 << 15, 4, 3, 1])
def test_records_have_the_codes_of_their_values_whatever_came_before(
    column: Callable[[list[Any]], pa.Array], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "WORKER", replace(WORKER, varied_values=most))
    codes = ColumnCodes(by_length([]))
    batches: list[list[str | None]] = [[], TEXTS, TEXTS[3:], ["c"], [None], [], TEXTS[::-1]]
    for cells in batches:
        (found,) = codes.of(column(cells))
        assert found.rows(found.values).tolist() == [code(c) for c in cells]
        assert found.n(found.values == code("b")) == cells.count("b")
        some = found.where(np.array([c == "b" for c in cells], dtype=bool))
        assert some.rows(some.values).tolist() == [code("b")] * cells.count("b")


def test_a_value_is_coded_once_however_often_it_comes() -> None:
    seen: list[int] = []
    codes = ColumnCodes(by_length(seen))
    for cells in (["a", "b"] * 500, ["b", "a", "c"] * 500, ["c", "a"] * 500):
        codes.of(pa.array(cells))
    assert seen == [2, 1]


def test_records_of_many_values_are_coded_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "WORKER", replace(WORKER, varied_values=3))
    seen: list[int] = []
    codes = ColumnCodes(by_length(seen))
    for cells in (["a", "b"], ["a", "b", "c", "d"], ["a"] * 5):
        codes.of(pa.array(cells))
    assert seen == [2, 4, 5]


def test_texts_are_read_by_a_files_own_numbers_where_they_are_few(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    few, many = (
        ["x", "y", None, "z"] * 2000,
        [f"{i * 0x9E3779B97F4A7C15 % 2**64}" for i in range(8000)],
    )
    table = pa.table({"few": few, "many": many, "plain": few})
    pq.write_table(table, path, use_dictionary=["few", "many"], row_group_size=7000)
    (batch, *_) = parquet_file(path).batches(["few", "many", "plain"], None)
    assert [pa.types.is_dictionary(kind) for kind in batch.schema.types] == [True, False, False]
    labels = {"kind": "labels", "labels": ["z", "y", "x"], "missing": "other", "outside": "other"}
    names = ("few", "many", "plain")
    domain = domain_from_document({"attributes": [{"name": name, **labels} for name in names]})
    found = codes_in_order(path, domain, folder=tmp_path)
    assert found == [[2, 1, 3, 0] * 2000, [3] * 8000, [2, 1, 3, 0] * 2000]


@pytest.mark.parametrize("column", COLUMNS)
def test_only_values_that_records_have_and_did_not_come_before_are_new(
    column: Callable[[list[Any]], pa.Array],
) -> None:
    new, found = NewValues(), list[Any]()
    for cells in (TEXTS, TEXTS[:3], ["c", "d", None], []):
        found += new.of(column(cells) if "d" not in cells else pa.array(cells)).to_pylist()
    assert {cell for cell in found if cell} == {"a", "b", "c", "d"}
    assert all(found.count(cell) == 1 for cell in ("a", "c", "d"))


def test_a_value_that_only_a_files_dictionary_has_becomes_no_label(tmp_path: Path) -> None:
    path = tmp_path / "records.parquet"
    pq.write_table(pa.table({"t": COLUMNS[-1](TEXTS)}), path)
    document = infer_domain_document(path, folder=tmp_path)
    assert document["attributes"] == [{"name": "t", "kind": "labels", "labels": ["a", "b", "c"]}]


def test_values_that_have_no_numbers_are_new_every_time() -> None:
    column, new = pa.array(["b", "a"], pa.string_view()), NewValues()
    assert [new.of(column).to_pylist() for _ in range(2)] == [["b", "a"]] * 2
