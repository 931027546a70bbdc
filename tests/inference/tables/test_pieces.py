"""Tables whose cells arrive in pieces, against least squares over all cells and exact truths."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from qserver.inference.engine import InferenceEngine
from qserver.inference.tables.measured_tables import MeasuredTables
from qserver.query.class_grid import ProductPartition, product_partition
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import Primitive, primitive
from qserver.query.weights import indicator, interval
from qserver.records.history import TableMeasurement
from tests.query.small_queries import cells

SIZES = (7, 4, 3)
STEP = Fraction(1, 1024)
OTHERS: list[dict[int, list[int]]] = [{}, {1: [0, 0, 1, 1]}, {1: [0, 1, 2, 3]}, {2: [0, 1, 2]}]
PIECES = [range(3), range(3, 4), range(4, 6)]
"""The last period has no data yet."""
ALPHAS = [30_000_000, 20_000_000, 50_000_000, 10_000_000]
CELLS = list(cells(SIZES))


def partition(periods: range, others: dict[int, list[int]]) -> ProductPartition:
    labels = [t if t in periods else -1 for t in range(SIZES[0])]
    return product_partition(SIZES, {0: labels, **others})


def vector(row: LinearQuery) -> np.ndarray:
    return np.array([float(row.value_at(cell)) for cell in CELLS])


def pieces(counts: np.ndarray | None = None) -> list[TableMeasurement]:
    """Every table in its pieces, arrival by arrival, with true answers where counts are given."""
    found = list[TableMeasurement]()
    for periods in PIECES:
        for others, alpha in zip(OTHERS, ALPHAS, strict=True):
            here = partition(periods, others)
            truths = [
                0 if counts is None else int(vector(here.row(i)) @ counts)
                for i in range(here.n_cells)
            ]
            indices = tuple(int(t / STEP) for t in truths)
            found.append(TableMeasurement(len(found), here, alpha, STEP, indices))
    return found


def random_query(rng: random.Random) -> Primitive:
    first = rng.randrange(6)
    axes = {0: interval(7, first, rng.randrange(first, 6) + 1)}
    if rng.random() < 0.7:
        axes[1] = indicator(4, rng.sample(range(4), rng.randint(1, 3)))
    if rng.random() < 0.4 and 1 not in axes:
        axes[2] = indicator(3, rng.sample(range(3), rng.randint(1, 2)))
    return primitive(linear_query(SIZES, [(1, axes)]))


@pytest.mark.parametrize("seed", range(25))
def test_sums_over_pieces_have_the_truth_and_the_least_variance(seed: int) -> None:
    """By least squares over every cell of every piece as a row of its own."""
    rng = random.Random(seed)
    counts = np.array([rng.randrange(50) for _ in CELLS])
    engine = InferenceEngine(SIZES, apart=0)
    released = pieces(counts)
    engine.extend(released)
    query = random_query(rng)
    found = engine.estimate(query, confidence=0.95)
    assert found is not None
    assert found.posterior.estimate == pytest.approx(vector(query.row) @ counts, abs=1e-6)
    rows = [vector(t.partition.row(i)) for t in released for i in range(t.partition.n_cells)]
    precision = [(t.alpha_nano / 1e9) ** 2 / 2 for t in released for _ in t.indices]
    matrix = np.array(rows) * np.sqrt(precision)[:, None]
    least = vector(query.row) @ np.linalg.pinv(matrix.T @ matrix) @ vector(query.row)
    blocks = engine.tables.blocks
    pattern = engine.tables.pattern(query)
    assert pattern is not None
    assert blocks.variance(pattern) == pytest.approx(least, rel=1e-9)
    # The interval is that of these weights or of a shorter law, with noise on measured cells alone.
    scales = blocks.scales(pattern).expanded
    assert 2 * float(scales @ scales) == pytest.approx(least, rel=1e-9)
    asked = {t for t in range(7) if query.row.terms[0].by_axis[0].dense[t]}
    touched = {
        t.id for t in released if asked & {p for p in range(7) if t.partition.axes[0].dense[p] >= 0}
    }
    assert set(found.tables) <= touched


def test_a_question_of_a_period_without_cells_is_not_answered() -> None:
    engine = InferenceEngine(SIZES, apart=0)
    released = pieces()
    engine.extend(released[: len(OTHERS)])
    some = {2: indicator(3, [0, 2])}
    three = primitive(linear_query(SIZES, [(1, {0: interval(7, 0, 3), **some})]))
    four = primitive(linear_query(SIZES, [(1, {0: interval(7, 0, 4), **some})]))
    assert engine.estimate(three, confidence=0.95) is not None
    assert engine.estimate(four, confidence=0.95) is None
    # It is, once each table has the cells.
    engine.extend(released[len(OTHERS) : 2 * len(OTHERS) - 1])
    assert engine.estimate(four, confidence=0.95) is None
    engine.extend(released[2 * len(OTHERS) - 1 : 2 * len(OTHERS)])
    assert engine.estimate(four, confidence=0.95) is not None


@pytest.mark.slow
def test_new_pieces_change_no_answer_of_old_periods() -> None:
    rng = random.Random(5)
    engine, released = InferenceEngine(SIZES, apart=0), pieces(np.arange(len(CELLS)))
    asked = [q for q in (random_query(rng) for _ in range(120)) if _stop(q) <= 3]
    engine.extend(released[: len(OTHERS)])
    before = [_told(engine, q) for q in asked]
    for event in released[len(OTHERS) :]:
        engine.extend([event])
        assert [_told(engine, q) for q in asked] == before
    assert len(asked) > 10


def test_a_table_counts_as_raised_once_all_its_pieces_are() -> None:
    tables = MeasuredTables(SIZES, apart=0)
    first = TableMeasurement(0, partition(range(3), {}), 10, STEP, (0,) * 3)
    second = TableMeasurement(1, partition(range(3, 5), {}), 10, STEP, (0,) * 2)
    tables.extend([first, second])
    ((block, alpha),) = tables.alpha_nano.items()
    assert alpha == 10
    tables.extend([TableMeasurement(0, first.partition, 40, STEP, (1,) * 3)])
    assert tables.alpha_nano == {block: 10}
    tables.extend([TableMeasurement(1, second.partition, 40, STEP, (1,) * 2)])
    assert tables.alpha_nano == {block: 40}
    (table,) = tables.measured
    assert [p.id for p in table.pieces] == [0, 1]
    assert table.periods == frozenset(range(5))


def _stop(query: Primitive) -> int:
    return int(np.flatnonzero(query.row.terms[0].by_axis[0].dense)[-1]) + 1


def _told(engine: InferenceEngine, query: Primitive) -> tuple[float, float, float]:
    found = engine.estimate(query, confidence=0.95)
    assert found is not None
    stated = engine.stated(query, found).posterior
    interval = stated.interval(0.95)
    return found.posterior.estimate, interval.low, interval.high
