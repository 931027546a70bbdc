"""Posteriors where a question tells more cells of a table apart than are taken as rows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from qserver.inference.engine import InferenceEngine
from qserver.inference.given.finest import by_finest
from qserver.inference.posterior.cells_as_rows import MOST_CELLS
from qserver.inference.posterior.posteriors import Posteriors
from qserver.inference.posterior.stated import Stated
from qserver.query.linear import LinearQuery, linear_query
from qserver.query.partition import product_partition
from qserver.query.primitive import primitive
from qserver.query.weights import Weights, interval
from qserver.records.history import AnyMeasurement, TableMeasurement
from tests.inference.histories import measured
from tests.sweeps import n_of

STEP = Fraction(1, 1024)
SIZES = (24, 3)


def table(
    number: int, sizes: tuple[int, ...], parts: dict[int, int], *, scale: float, seed: int
) -> TableMeasurement:
    """A table of parts of equal width, of no records, with noise."""
    labels = {axis: np.arange(sizes[axis]) * k // sizes[axis] for axis, k in parts.items()}
    partition = product_partition(sizes, labels)
    noise = np.random.default_rng(seed).laplace(scale=scale, size=partition.n_cells)
    indices = tuple(round(e / STEP) for e in noise.tolist())
    return TableMeasurement(number, partition, round(1e9 / scale), STEP, indices)


def sum_of(sizes: tuple[int, ...], *, some: bool = False) -> LinearQuery:
    """The sum of the first attribute, of all records or of some."""
    counted = tuple(range(1, sizes[0] + 1))
    axes = {0: Weights(counted, counted)}
    return linear_query(sizes, [(1, {**axes, **({1: interval(3, 1, 3)} if some else {})})])


def history(sizes: tuple[int, ...], seed: int) -> list[AnyMeasurement]:
    row = linear_query(sizes, [(1, {0: interval(sizes[0], 0, sizes[0] // 2)})])
    return [
        table(0, sizes, {0: sizes[0], 1: 3}, scale=5.0, seed=seed),
        table(1, sizes, {0: 4}, scale=4.0, seed=seed + 1),
        table(2, sizes, {1: 3}, scale=6.0, seed=seed + 2),
        measured(3, row, scale=Fraction(9), answer=Fraction(4)),
    ]


def stated(sizes: tuple[int, ...], events: list[AnyMeasurement], row: LinearQuery) -> Stated:
    engine = InferenceEngine(sizes)
    engine.extend(events)
    estimate = engine.estimate(primitive(row), confidence=0.95)
    assert estimate is not None
    return engine.stated(primitive(row), estimate)


@pytest.fixture
def without_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """No cell may be taken as a row of the algebra."""
    monkeypatch.setattr(Posteriors, "_cells_and_rows", lambda *_: [])


@pytest.mark.parametrize("some", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_it_is_the_posterior_of_all_cells_as_rows(
    seed: int, some: bool, request: pytest.FixtureRequest
) -> None:
    row, events = sum_of(SIZES, some=some), history(SIZES, 10 * seed)
    expected = stated(SIZES, events, row)
    assert expected.statement.law == "posterior"
    request.getfixturevalue("without_rows")
    found = stated(SIZES, events, row)
    assert found.statement.law == "posterior"
    assert found.statement.disagreements == expected.statement.disagreements > 1
    room = found.statement.error + expected.statement.error
    ends = expected.posterior.interval(0.99)
    for place in np.linspace(ends.low, ends.high, 9):
        one, other = (s.posterior.probability_at_least(place) for s in (found, expected))
        assert abs(one - other) <= room


def test_a_sum_over_thousands_of_values_is_a_posterior() -> None:
    """With its margins, in parts and by another attribute; and it covers."""
    sizes, n, inside = (1_500, 3), n_of(200, share=20), 0
    row = sum_of(sizes)
    assert sizes[0] > MOST_CELLS
    for seed in range(n):
        found = stated(sizes, history(sizes, 100 + 7 * seed)[:3], row)
        assert (found.statement.law, found.statement.disagreements) == ("posterior", 7)
        ends = found.posterior.interval(0.8)
        inside += ends.low <= 0.0 <= ends.high
    assert abs(inside / n - 0.8) < 3.0 * (0.8 * 0.2 / n) ** 0.5


def test_what_tells_more_than_the_table_is_merged_to_sums_of_its_cells(
    without_rows: None,
) -> None:
    """Parts of 5 and of 3 values have nothing in common but all of them."""
    found = stated(
        (15, 3),
        [
            table(0, (15, 3), {0: 15}, scale=5.0, seed=1),
            table(1, (15, 3), {1: 3}, scale=1.0, seed=2),
        ],
        sum_of((15, 3)),
    )
    assert (found.statement.law, found.statement.disagreements) == ("posterior", 1)


def test_a_question_that_tells_values_of_a_cell_apart_has_none(without_rows: None) -> None:
    sizes = (12, 3)
    engine = InferenceEngine(sizes)
    engine.extend([table(0, sizes, {0: 12}, scale=5.0, seed=1)])
    row = linear_query(sizes, [(1, {0: interval(12, 0, 4)})])
    estimate = engine.estimate(primitive(row), confidence=0.95)
    assert estimate is not None
    coarse = table(1, sizes, {0: 3}, scale=5.0, seed=2)
    assert by_finest(row, coarse, []) is not None
    finer = linear_query(sizes, [(1, {0: interval(12, 0, 3)})])
    assert by_finest(finer, coarse, []) is None
    assert engine.stated(primitive(row), estimate).statement.disagreements == 0
