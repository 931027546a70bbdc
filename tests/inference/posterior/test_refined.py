"""Classes that tables of several partitions refine: least squares loses nothing on them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qserver.inference.arrays import FloatArray
from qserver.inference.engine import InferenceEngine
from qserver.inference.posterior.cells_as_rows import merged_rows
from qserver.inference.reach import Reach
from qserver.query.class_grid import product_partition
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import interval
from qserver.records.history import Measurement, TableMeasurement
from tests.inference.histories import measured
from tests.sweeps import examples, n_of

STEP = Fraction(1, 1024)
SIZE = 14
ALPHA = 10**8
labels = st.lists(st.integers(0, 3), min_size=SIZE, max_size=SIZE)


def table(number: int, parts: list[int], indices: tuple[int, ...] = ()) -> TableMeasurement:
    partition = product_partition((SIZE,), {0: parts})
    return TableMeasurement(number, partition, ALPHA, STEP, indices or (0,) * partition.n_cells)


def of_range(low: int, high: int) -> LinearQuery:
    return linear_query((SIZE,), [(1, {0: interval(SIZE, low, high)})])


def least_variance(rows: list[Measurement], query: LinearQuery) -> float:
    """Of the query by these rows, by an inverse that shares nothing with the code."""
    matrix = np.array([vector(r.row) for r in rows]) / np.array([r.scale for r in rows])[:, None]
    weights = vector(query) @ np.linalg.pinv(matrix)
    assert weights @ matrix == pytest.approx(vector(query), abs=1e-9)
    return float(2 * weights @ weights)


def vector(row: LinearQuery) -> FloatArray:
    return np.array([float(row.value_at((x,))) for x in range(SIZE)])


@given(
    partitions=st.lists(labels.filter(lambda x: len(set(x)) > 1), min_size=1, max_size=3),
    ends=st.tuples(st.integers(0, SIZE - 1), st.integers(1, SIZE)).filter(lambda e: e[0] < e[1]),
)
@settings(max_examples=examples(100))
def test_least_squares_loses_nothing(partitions: list[list[int]], ends: tuple[int, int]) -> None:
    """Of all cells and of the merged ones, whatever partitions the tables have."""
    fine = table(0, list(range(SIZE)))
    others = [table(1 + i, parts) for i, parts in enumerate(partitions)]
    query = of_range(*ends)
    merged = merged_rows([query], Reach([fine, *others]), {0}, refines=True)
    # Of a cell that is measured twice one is taken, merged or not.
    rows = {t.partition.row(i) for t in (fine, *others) for i in range(t.partition.n_cells)}
    cells = [measured(i, row, scale=10) for i, row in enumerate(rows)]
    assert least_variance(merged, query) <= least_variance(cells, query) * (1.0 + 1e-9)


def test_without_them_least_squares_may_lose() -> None:
    """The control: two parts of which one is half in the range."""
    fine, halves = table(0, list(range(SIZE))), table(1, [x // 7 for x in range(SIZE)])
    query = of_range(0, 3)
    plain, refined = (
        least_variance(merged_rows([query], Reach([fine, halves]), {0}, refines=r), query)
        for r in (False, True)
    )
    assert plain > 1.01 * refined


def test_what_the_question_does_not_meet_stays_merged() -> None:
    """Fourteen values and seven pairs: the cells in the range, its pair, and all other pairs."""
    fine, pairs = table(0, list(range(SIZE))), table(1, [x // 2 for x in range(SIZE)])
    merged = merged_rows([of_range(0, 1)], Reach([fine, pairs]), {0}, refines=True)
    assert sorted(row.n_summed for row in merged) == [1, 1, 1, 6, 12]


@pytest.mark.slow
def test_intervals_by_refined_classes_cover_as_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where cells are too many to be taken as they are."""
    for module in ("posteriors", "cells_as_rows"):
        monkeypatch.setattr(f"qserver.inference.posterior.{module}.MOST_CELLS", 10)
    rng, n, inside = np.random.default_rng(12), n_of(2_000, share=80), 0
    row = primitive(of_range(0, 3))
    for _ in range(n):
        engine = InferenceEngine((SIZE,))
        noise = [rng.laplace(scale=10.0, size=k).tolist() for k in (SIZE, 2)]
        engine.extend(
            [
                table(0, list(range(SIZE)), tuple(round(e / STEP) for e in noise[0])),
                table(1, [x // 7 for x in range(SIZE)], tuple(round(e / STEP) for e in noise[1])),
            ]
        )
        estimate = engine.estimate(row, confidence=0.8)
        assert estimate is not None
        found = engine.stated(row, estimate)
        assert (found.statement.law, found.statement.disagreements) == ("posterior", 1)
        ends = found.posterior.interval(0.8)
        inside += ends.low <= 0.0 <= ends.high
    assert abs(inside / n - 0.8) < 3.0 * (0.8 * 0.2 / n) ** 0.5
