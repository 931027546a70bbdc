"""Statements as analysts and tools write them, on Adult: each is what DuckDB says of the rows."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from qserver.cli.local.demo import adult_csv, adult_domain
from qserver.query.domain import Attribute
from qserver.query.domain_loading import load_domain
from qserver.query.linear_query import LinearQuery
from qserver.query.sql.functions.function_of_sums import KnownPart
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.statement import Cell, Ratio, Statement, Sum

ADULT = load_domain(adult_domain())
NAMES = sorted((name for name in ADULT.names if "-" in name), key=len, reverse=True)
STATEMENTS = (Path(__file__).parent / "adult.sql").read_text(encoding="utf-8").splitlines()

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Records:
    """The records, in DuckDB and as counts of cells."""

    connection: duckdb.DuckDBPyConnection
    cells: np.ndarray
    counts: np.ndarray

    @classmethod
    def read(cls) -> Records:
        """Those of the package; `?` is a missing value."""
        connection = duckdb.connect()
        connection.execute(
            "CREATE TABLE adult AS SELECT * FROM read_csv(?, header = true, nullstr = '?')",
            [str(adult_csv())],
        )
        columns = [
            _coded(attribute, connection.execute(f'SELECT "{attribute.name}" FROM adult'))
            for attribute in ADULT.attributes
        ]
        cells, counts = np.unique(np.stack(columns, axis=1), axis=0, return_counts=True)
        return cls(connection, cells, counts)

    def value(self, query: LinearQuery) -> float:
        """A query's true answer."""
        total = 0.0
        for term in query.terms:
            weights = np.full(len(self.cells), float(term.coefficient))
            for axis, of in term.by_axis.items():
                weights = weights * np.asarray(of.dense, float)[self.cells[:, axis]]
            total += float(weights @ self.counts)
        return total

    def of_cell(self, cell: Cell) -> float | None:
        """A cell's true value; None without a record."""
        if isinstance(cell, Sum):
            value = self.value(cell.query)
            return None if cell.offset is None else value + float(cell.offset)
        if isinstance(cell, Ratio):
            under = self.value(cell.denominator)
            return self.value(cell.numerator) / under if under else None
        exact = [self.value(query) for query in cell.queries]
        return cell.function.value([KnownPart(x, x, x) for x in exact]).estimate


def _coded(attribute: Attribute, rows: duckdb.DuckDBPyConnection) -> np.ndarray:
    """Per record the index of its value."""
    edges = [int(edge) for edge in attribute.edges]
    known = {row[0] for row in rows.fetchall()}
    codes = {
        value: attribute.n_regular
        if value is None
        else attribute.index_of_name(str(value))
        if attribute.kind == "labels"
        else min(max(bisect_right(edges, value) - 1, 0), attribute.n_regular - 1)
        for value in known
    }
    rows.execute(f'SELECT "{attribute.name}" FROM adult')
    return np.array([codes[row[0]] for row in rows.fetchall()])


@pytest.fixture(scope="module")
def records() -> Records:
    return Records.read()


def read(text: str, records: Records) -> Statement:
    """The statement, with the groups that inner SELECTs give by the true numbers."""
    found = parse_statement(text, ADULT, dataset="adult")
    if not found.inner:
        return found
    chosen = [
        one.chosen([[_known(records.of_cell(c)) for c in row.cells] for row in one.statement.rows])
        for one in found.inner
    ]
    return parse_statement(text, ADULT, dataset="adult", chosen=chosen)


def _known(number: float | None) -> KnownPart:
    assert number is not None
    return KnownPart(number, number, number)


@pytest.mark.parametrize("text", STATEMENTS)
def test_a_statement_is_what_duckdb_says(text: str, records: Records) -> None:
    """But for groups of the domain without a record, which DuckDB does not show."""
    statement = read(text, records)
    numbers = [[records.of_cell(cell) for cell in row.cells] for row in statement.rows]
    n_groups, n_shown = len(statement.groups), len(statement.places)
    found = []
    for i in statement.shape.places(numbers):
        row = (*statement.rows[i].group, *numbers[i])
        if not n_groups or any(row[n_groups:]):
            found.append(tuple(_written(row[k]) for k in statement.order[:n_shown]))
    quoted = re.compile("|".join(map(re.escape, NAMES)))
    plain = quoted.sub(lambda name: f'"{name[0]}"', text)
    expected = [tuple(map(_written, row)) for row in records.connection.execute(plain).fetchall()]
    if "ORDER BY" not in text:
        found, expected = sorted(found, key=str), sorted(expected, key=str)
    assert found == expected


def _written(value: Any) -> str | None:
    """A group or a number as both call it."""
    if value is None or isinstance(value, bool):
        return None if value is None else str(value).lower()
    try:
        return f"{float(value):.6g}"
    except ValueError:
        return str(value)
