"""Cells that a question does not tell apart, taken together."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from qserver.inference.engine import InferenceEngine
from qserver.inference.limits import MOST_MERGED
from qserver.inference.posterior import posteriors
from qserver.inference.posterior.cells_as_rows import Merging, merged_rows
from qserver.inference.reach import Reach
from qserver.query.class_grid import ProductPartition, product_partition
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import interval
from qserver.records.history import AnyMeasurement, TableMeasurement
from tests.inference.histories import dense, measured
from tests.sweeps import n_of

STEP = Fraction(1, 1 << 10)
SIZES = (12, 5, 3)


def _table(number: int, partition: ProductPartition, rng: np.random.Generator) -> TableMeasurement:
    noise = rng.laplace(0.0, 10.0, partition.n_cells)
    indices = tuple(round(float(v) / float(STEP)) for v in noise)
    return TableMeasurement(number, partition, 10**8, STEP, indices)


def _query(**ends: tuple[int, int]) -> LinearQuery:
    axes = {"a": 0, "b": 1, "c": 2}
    weights = {axes[k]: interval(SIZES[axes[k]], *v) for k, v in ends.items()}
    return linear_query(SIZES, [(1, weights)])


def _history(rng: np.random.Generator) -> list[AnyMeasurement]:
    every = {axis: np.arange(size) for axis, size in enumerate(SIZES)}
    tables = [
        product_partition(SIZES, {0: every[0], 1: every[1]}),
        product_partition(SIZES, {1: every[1], 2: every[2]}),
        product_partition(SIZES, {0: every[0] // 4}),
    ]
    found: list[AnyMeasurement] = [_table(i, p, rng) for i, p in enumerate(tables)]
    row = measured(3, _query(b=(1, 3)), scale=7, answer=Fraction(float(rng.laplace(0, 7))))
    return [*found, row]


def test_merged_cells_are_sums_of_the_cells_within() -> None:
    """Two classes of a, two of b by the row; groups of four values meet one class of a, or both."""
    history = _history(np.random.default_rng(1))
    merging = Merging.of([_query(a=(2, 3))], history, MOST_MERGED)
    assert merging is not None
    rows = merging.rows()
    first, second, third = (np.array(m.indices, dtype=object) for m in history[:3])
    first, second = first.reshape(12, 5), second.reshape(5, 3)
    others = [0, 3, 4]
    expected = [
        (_query(b=(1, 3)), history[3].index, 1),
        (_query(a=(2, 3), b=(1, 3)), first[2, 1:3].sum(), 2),
        (_query(a=(2, 3)) - _query(a=(2, 3), b=(1, 3)), first[2, others].sum(), 3),
        (_query(b=(1, 3)) - _query(a=(2, 3), b=(1, 3)), np.delete(first, 2, 0)[:, 1:3].sum(), 22),
        (None, np.delete(first, 2, 0)[:, others].sum(), 33),
        (_query(b=(1, 3)), second[1:3].sum(), 6),
        (_query() - _query(b=(1, 3)), second[others].sum(), 9),
        (_query(a=(0, 4)), third[0], 1),
        (_query(a=(4, 12)), third[1:].sum(), 2),
    ]
    assert sorted((m.index, m.n_summed) for m in rows) == sorted((i, n) for _, i, n in expected)
    by_index = {m.index: m for m in rows}
    for query, index, n in expected:
        assert query is None or dense(by_index[index].row) == dense(query)
        assert by_index[index].scale == pytest.approx(
            7.0 if index == history[3].index else 10 * n**0.5
        )


@pytest.mark.parametrize(
    "asked", [{"a": (2, 3)}, {"a": (2, 3), "b": (0, 1)}, {"b": (1, 3)}, {"c": (0, 2)}, {}]
)
def test_merged_cells_give_an_estimate_as_good_as_all_cells(
    asked: dict[str, tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(2)
    engine = InferenceEngine(SIZES)
    engine.extend(_history(rng))
    row = primitive(_query(**asked))
    estimate = engine.estimate(row, confidence=0.95)
    assert estimate is not None
    whole = engine.stated(row, estimate)
    monkeypatch.setattr(posteriors, "MOST_CELLS", 0)
    again = InferenceEngine(SIZES)
    again.extend(_history(np.random.default_rng(2)))
    merged = again.stated(row, estimate)
    assert merged.statement.law == whole.statement.law == "posterior"
    assert 1 <= merged.statement.disagreements <= whole.statement.disagreements
    # The mean of a posterior given less differs by no more than what the rest could tell.
    length = whole.posterior.interval(0.95).high - whole.posterior.interval(0.95).low
    assert abs(merged.posterior.estimate - whole.posterior.estimate) < 0.25 * length


@pytest.mark.slow
def test_given_merged_cells_intervals_cover_as_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of 240 cells, a row of 40 and the total; every truth alike."""
    monkeypatch.setattr(posteriors, "MOST_CELLS", 239)
    rng, size, inside = np.random.default_rng(1805), 240, 0
    n = n_of(100, share=40)
    partition = product_partition((size,), {0: np.arange(size)})
    part, total = (linear_query((size,), [(1, {0: interval(size, 0, n)})]) for n in (40, size))
    row = primitive(part)
    for _ in range(n):
        noise = rng.laplace(0.0, 10.0, size)
        indices = tuple(round(float(v) / float(STEP)) for v in noise)
        engine = InferenceEngine((size,))
        engine.extend(
            [
                TableMeasurement(0, partition, 10**8, STEP, indices),
                measured(1, part, scale=50, answer=Fraction(float(rng.laplace(0, 50)))),
                measured(2, total, scale=60, answer=Fraction(float(rng.laplace(0, 60)))),
            ]
        )
        estimate = engine.estimate(row, confidence=0.8)
        assert estimate is not None
        found = engine.stated(row, estimate)
        assert (found.statement.law, found.statement.disagreements) == ("posterior", 2)
        ends = found.posterior.interval(0.8)
        inside += ends.low <= 0.0 <= ends.high
    assert abs(inside / n - 0.8) < 3.0 * (0.8 * 0.2 / n) ** 0.5


def test_where_rows_are_too_many_those_of_least_noise_are_taken() -> None:
    """The used ones come first, however noisy."""
    size = 1000
    rows = [
        measured(i, linear_query((size,), [(1, {0: interval(size, i, i + 2)})]), scale=10 + i)
        for i in range(2 * MOST_MERGED)
    ]
    table = TableMeasurement(
        len(rows), product_partition((size,), {0: np.arange(size)}), 10**6, STEP, (0,) * size
    )
    history: list[AnyMeasurement] = [*rows, table]
    found = merged_rows([rows[-1].row], Reach(history), {len(rows) - 1, len(rows)})
    assert len(found) <= MOST_MERGED
    scales = sorted(round(r.scale) for r in found if r.n_summed == 1 and r.scale < 999)
    assert scales[:-1] == [*range(10, 9 + len(scales))]
    assert scales[-1] == round(rows[-1].scale)
    # One row more would make two rows, or cells, too many.
    assert len(found) > MOST_MERGED - 3


def test_too_many_rows_are_not_merged() -> None:
    rows = [
        measured(i, linear_query((1000,), [(1, {0: interval(1000, 0, i + 1)})]))
        for i in range(MOST_MERGED + 1)
    ]
    assert Merging.of([rows[0].row], rows, MOST_MERGED) is None
    assert Merging.of([rows[0].row], rows[:-1], MOST_MERGED) is not None
