"""Which rows and cells of a long history are taken for a question: few sets for all of them."""

from __future__ import annotations

import itertools
import random

import pytest

from qserver.inference.engine import InferenceEngine
from qserver.inference.posterior import cells_as_rows, posteriors
from qserver.inference.posterior.cells_as_rows import Blocks
from qserver.query.class_grid import product_partition
from qserver.query.linear_query import linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import interval
from qserver.records.charge import NANO
from qserver.records.history import AnyMeasurement, Measurement, TableMeasurement
from tests.inference.histories import STEP, measured

N, MOST = 300, 80


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch) -> list[Measurement]:
    """More rows than are taken."""
    monkeypatch.setattr(cells_as_rows, "MOST_CELLS", MOST)
    row = linear_query((5, 4), [(1, {0: interval(5, 0, 2)})])
    return [measured(i, row, scale=3, answer=i) for i in range(N)]


def test_what_is_used_is_taken_and_never_more_than_there_is_room_for(
    history: list[Measurement],
) -> None:
    generator = random.Random(5)
    for n in (0, 1, 5, 40, MOST):
        used = generator.sample(range(N), n)
        found = Blocks(history).chosen(used)
        assert found is not None
        assert set(used) <= set(found)
        assert len(found) <= MOST
        assert len(found) > MOST - MOST // 8
        assert list(found) == sorted(set(found))
    assert Blocks(history).chosen(range(MOST + 1)) is None
    assert Blocks(history[:MOST]).chosen([3]) == tuple(range(MOST))


def test_questions_of_the_same_times_share_a_set(history: list[Measurement]) -> None:
    """Each single row has a set; there are no more than blocks."""
    assert len({Blocks(history).chosen([i]) for i in range(N)}) <= N * 8 // MOST
    assert len({Blocks(history).chosen([i, N - 1]) for i in range(20)}) <= 3


def test_a_longer_history_mostly_goes_on_from_the_same_rows(history: list[Measurement]) -> None:
    """What was factored is extended: rows leave only when a block is full."""
    sets = [set(Blocks(history[:n]).chosen([n - 1]) or ()) for n in range(2 * MOST, N)]
    left = [not before <= after for before, after in itertools.pairwise(sets)]
    assert sum(left) <= len(left) * 8 // MOST + 1


@pytest.mark.parametrize(
    ("n_between", "n_cells", "n_tables"), [(100, 950, 1), (30, 148, 12), (20, 300, 10)]
)
def test_a_large_table_leaves_out_no_rows_that_came_near_it(
    n_between: int, n_cells: int, n_tables: int
) -> None:
    """Whichever row is used, nearly all others are taken, by few sets."""
    row = linear_query((5, 1000), [(1, {0: interval(5, 0, 2)})])
    partition = product_partition((5, 1000), {1: [min(v, n_cells - 1) for v in range(1000)]})
    live = list[AnyMeasurement]()
    for _ in range(n_tables + 1):
        live += [measured(len(live) + i, row, scale=3, answer=i) for i in range(n_between)]
        live.append(TableMeasurement(len(live), partition, NANO, STEP, (0,) * n_cells))
    rows = {one.id for one in live if isinstance(one, Measurement)}
    sets = {Blocks(live).chosen([i]) for i in rows}
    assert all(found is not None and len(found) <= 1_000 for found in sets)
    taken = [len(rows.intersection(found or ())) for found in sets]
    assert min(taken) >= min(len(rows), 140)
    assert len(sets) <= 3


def test_estimates_by_rows_of_a_long_history_share_what_was_factored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is merged for each of them, though rows and cells are more than are taken."""
    for module in (cells_as_rows, posteriors):
        monkeypatch.setattr(module, "MOST_CELLS", 400)
    monkeypatch.setattr(posteriors, "merged_rows", lambda *_, **__: pytest.fail("merged"))
    rows = [linear_query((250,), [(1, {0: interval(250, i, i + 20)})]) for i in range(210)]
    partition = product_partition((250,), {0: list(range(250))})
    engine = InferenceEngine((250,))
    engine.extend(measured(i, row, scale=3, answer=i % 7) for i, row in enumerate(rows))
    engine.extend([TableMeasurement(210, partition, NANO // 100, STEP, (0,) * 250)])
    for i in (3, 100, 209):
        row = primitive(rows[i])
        estimate = engine.estimate(row, confidence=0.95, enough=20.0)
        assert estimate is not None
        assert not estimate.tables
        assert engine.stated(row, estimate).statement.disagreements
