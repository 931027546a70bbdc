"""Posteriors where data arrive over time, and tables have more cells than are taken as rows."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from qserver.inference.engine import InferenceEngine
from qserver.inference.estimate import CredibleInterval
from qserver.inference.posterior.cells_as_rows import MOST_CELLS, SummedCells
from qserver.inference.posterior.disagreeing_rows import Stated
from qserver.query.class_grid import product_partition
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import interval
from qserver.records.history import AnyMeasurement, Measurement, TableMeasurement
from tests.inference.histories import measured

STEP = Fraction(1, 1024)
N_PERIODS, N_VALUES, N_PARTS = 5, 1_200, 12
SIZES = (N_PERIODS, N_VALUES)


def _rows(periods: tuple[int, int], values: tuple[int, int]) -> LinearQuery:
    axes = {0: interval(N_PERIODS, *periods), 1: interval(N_VALUES, *values)}
    return linear_query(SIZES, [(1, axes)])


def _piece(number: int, period: int, n_parts: int, *, alpha: int) -> TableMeasurement:
    """A table's cells of one period, with noise."""
    labels = [0 if t == period else -1 for t in range(N_PERIODS)]
    values = np.arange(N_VALUES) * n_parts // N_VALUES
    partition = product_partition(SIZES, {0: labels, 1: values})
    each, scale = N_VALUES // n_parts, 1e9 / alpha
    noise = np.random.default_rng(number).laplace(scale=scale, size=n_parts)
    indices = tuple(round((3 * each + e) / STEP) for e in noise.tolist())
    return TableMeasurement(number, partition, alpha, STEP, indices)


def _arrivals(n: int) -> list[AnyMeasurement]:
    """A table of all values and one of parts of them, period by period, and a row of the first."""
    found = list[AnyMeasurement]()
    for period in range(n):
        found.append(_piece(len(found), period, N_VALUES, alpha=10**8))
        found.append(_piece(len(found), period, N_PARTS, alpha=5 * 10**7))
        if not period:
            row = _rows((0, 1), (0, 30))
            found.append(measured(len(found), row, scale=Fraction(25), answer=Fraction(100)))
    return found


def _stated(engine: InferenceEngine, row: LinearQuery) -> Stated:
    asked = primitive(row)
    estimate = engine.estimate(asked, confidence=0.95)
    assert estimate is not None
    return engine.stated(asked, estimate)


def _engine(n_arrivals: int) -> InferenceEngine:
    engine = InferenceEngine(SIZES, apart=0)
    engine.extend(_arrivals(n_arrivals))
    return engine


@pytest.mark.parametrize("values", [(0, 10), (0, 30), (50, 350), (0, N_VALUES)])
def test_cells_that_are_too_many_are_merged(values: tuple[int, int]) -> None:
    """Nearly as far fewer cells give it: those of one period, merged by hand less far."""
    assert N_VALUES > MOST_CELLS
    found = _stated(_engine(1), _rows((0, 1), values))
    merged, row = _merged_by_hand(values)
    expected = _stated(merged, row)
    assert found.statement.law == expected.statement.law == "posterior"
    assert 1 <= found.statement.disagreements <= expected.statement.disagreements
    ends, others = (x.posterior.interval(0.95) for x in (found, expected))
    assert _width(ends) == pytest.approx(_width(others), rel=0.1)
    assert ends.low < expected.posterior.estimate < ends.high


def _width(ends: CredibleInterval) -> float:
    return ends.high - ends.low


def _merged_by_hand(values: tuple[int, int]) -> tuple[InferenceEngine, LinearQuery]:
    """A row for each sum of cells between two values that something tells apart."""
    fine, coarse, row = _arrivals(1)
    assert isinstance(fine, TableMeasurement)
    assert isinstance(coarse, TableMeasurement)
    assert isinstance(row, Measurement)
    size = N_VALUES // N_PARTS
    cuts = sorted({0, 30, *values, *range(0, N_VALUES + 1, size)})
    made = list[Measurement]()

    def query(low: int, high: int) -> LinearQuery:
        return linear_query((N_VALUES,), [(1, {0: interval(N_VALUES, low, high)})])

    for low, high in pairwise(cuts):
        index, count = sum(fine.indices[low:high]), high - low
        where = query(low, high)
        made.append(SummedCells(len(made), where, "", fine.alpha_nano, STEP, index, count))
    for part, index in enumerate(coarse.indices):
        where = query(part * size, (part + 1) * size)
        made.append(Measurement(len(made), where, "", coarse.alpha_nano, STEP, index))
    made.append(replace(row, id=len(made), row=query(0, 30)))
    engine = InferenceEngine((N_VALUES,))
    engine.extend(made)
    return engine, query(*values)


@pytest.mark.slow
def test_what_arrives_later_changes_no_posterior_to_the_last_bit() -> None:
    asked = [_rows((0, 1), (0, 10)), _rows((0, 2), (50, 350)), _rows((1, 2), (0, N_VALUES))]
    before = [_stated(_engine(2), row) for row in asked]
    for n in (3, N_PERIODS):
        after = [_stated(_engine(n), row) for row in asked]
        for one, other in zip(before, after, strict=True):
            assert one.statement == other.statement
            assert one.statement.law == "posterior"
            assert one.posterior.interval(0.95) == other.posterior.interval(0.95)


def test_what_a_row_links_to_counts_too() -> None:
    """A row of two periods ties the second period's answers to the first's."""
    row = _rows((0, 1), (0, 30))
    alone = _stated(_engine(2), row).statement
    engine = _engine(2)
    both = measured(5, _rows((0, 2), (0, 30)), scale=Fraction(20), answer=Fraction(230))
    engine.extend([both])
    found = _stated(engine, row).statement
    assert found.law == alone.law == "posterior"
    assert found.disagreements > alone.disagreements


@pytest.mark.parametrize("values", [(0, 30), (0, 100), (50, 350)])
def test_sums_over_all_periods_are_sums_of_the_cells_of_each(values: tuple[int, int]) -> None:
    """Where all are sealed, a question about all of them names none."""
    row = linear_query(SIZES, [(1, {1: interval(N_VALUES, *values)})])
    engine = InferenceEngine(SIZES, apart=0)
    tables = [m for m in _arrivals(N_PERIODS) if isinstance(m, TableMeasurement)]
    engine.extend([replace(table, id=i) for i, table in enumerate(tables)])
    found = _stated(engine, row)
    assert found.statement.law == "posterior"
    assert found.statement.disagreements >= 1
    truth, ends = 3 * (values[1] - values[0]) * N_PERIODS, found.posterior.interval(0.9999)
    assert ends.low <= truth <= ends.high
    deviation = 10 * (2 * N_PERIODS * (values[1] - values[0])) ** 0.5
    assert _width(ends) < 10 * deviation
