"""Results as data frames and as streams of Arrow, by each library that makes them."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow
import pytest

from qserver.client import Answer, Distribution, Interval, SyntheticRecords, Table
from qserver.client.frames import Framed
from qserver.client.results import Cost
from qserver.client.tables import Cell
from qserver.errors import ConfigError

COST = Cost(0.0, 1.5)
OPEN = Interval(-math.inf, math.inf)


def table(n_rows: int = 2) -> Table:
    """A row per sex, the last with a number that does not exist."""
    cells = [(Cell(5.0, Interval(4.0, 6.0), "history", consistent=4.5),)] * (n_rows - 1)
    cells += [(Cell(math.nan, OPEN, "history"),)] * min(n_rows, 1)
    keys = [("Female",), (None,)][:n_rows]
    return Table(("sex",), ("n",), tuple(keys), tuple(cells), 0.95, None, COST, 3)


def answer() -> Answer:
    return Answer(7.0, Interval(5.0, 9.0), 0.95, 0.96, "history", COST, (0,), 3)


def distribution() -> Distribution:
    labels = (("Female", "Male"), ("no", "yes"))
    return Distribution(("sex", "smokes"), labels, (0.1, 0.2, 0.3, 0.4), None, None, 3)


RESULTS = (
    (
        table(),
        {
            "sex": ["Female", None],
            "n": [5.0, None],
            "n_low": [4.0, -math.inf],
            "n_high": [6.0, math.inf],
            "n_consistent": [4.5, None],
        },
    ),
    (table(0), {"sex": [], "n": [], "n_low": [], "n_high": []}),
    (answer(), {"answer": [7.0], "answer_low": [5.0], "answer_high": [9.0]}),
    (
        distribution(),
        {
            "sex": ["Female", "Female", "Male", "Male"],
            "smokes": ["no", "yes", "no", "yes"],
            "probability": [0.1, 0.2, 0.3, 0.4],
        },
    ),
    (SyntheticRecords("a,b\n1,x\n2,y\n"), {"a": ["1", "2"], "b": ["x", "y"]}),
    (SyntheticRecords("a,b\n"), {"a": [], "b": []}),
)


@pytest.fixture(params=["pyarrow", "nanoarrow"])
def arrow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The library that makes the columns: the first where it is installed, else the second."""
    if request.param == "nanoarrow":
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    return str(request.param)


@pytest.mark.parametrize(("result", "columns"), RESULTS)
@pytest.mark.usefixtures("arrow")
def test_a_stream_has_every_column_with_its_name_type_and_values(
    result: Framed, columns: dict[str, list[Any]]
) -> None:
    found = pyarrow.table(result)
    assert found.to_pydict() == columns
    numbers = {n for n in columns if n.startswith(("n", "answer", "probability"))}
    for name in columns:
        wanted = pyarrow.float64() if name in numbers else pyarrow.string()
        assert found.schema.field(name).type == wanted


@pytest.mark.usefixtures("arrow")
def test_duckdb_reads_a_result_by_the_name_of_its_variable() -> None:
    counts = table()
    found = duckdb.sql("SELECT sex, n_high - n_low FROM counts WHERE n IS NOT NULL").fetchall()
    assert len(counts) == 2
    assert found == [("Female", 2.0)]


@pytest.mark.parametrize(("result", "columns"), RESULTS)
def test_tables_of_pyarrow_have_the_same_columns(
    result: Framed, columns: dict[str, list[Any]]
) -> None:
    assert result.to_arrow().to_pydict() == columns


def test_an_answer_is_a_record_as_in_a_workload() -> None:
    assert answer().records() == [{"answer": 7.0, "answer_low": 5.0, "answer_high": 9.0}]


@pytest.mark.parametrize(("result", "columns"), RESULTS)
def test_frames_of_pandas_are_made_of_the_records(
    result: Framed, columns: dict[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = SimpleNamespace(from_records=lambda records, *, columns: (records, columns))
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=made))
    records, names = result.to_pandas()
    assert repr(records) == repr(result.records())
    assert names == list(columns)


def test_frames_of_polars_are_made_of_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    made = SimpleNamespace(DataFrame=lambda result: pyarrow.table(result).num_rows)
    monkeypatch.setitem(sys.modules, "polars", made)
    assert table().to_polars() == 2


@pytest.mark.parametrize(
    ("method", "missing"),
    [
        ("to_pandas", "pandas"),
        ("to_polars", "polars"),
        ("to_arrow", "pyarrow"),
        ("__arrow_c_stream__", "nanoarrow"),
    ],
)
def test_what_is_not_installed_is_named(
    method: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigError, match=f"`pip install {missing}`"):
        getattr(table(), method)()
