"""Posteriors where a question tells more cells of a table apart than are taken as rows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from qserver.inference.disagreement.finest_table import Beside, by_finest
from qserver.inference.disagreement.law_by_cheapest_method import law_given
from qserver.inference.engine import InferenceEngine
from qserver.inference.posterior.cells_as_rows import MOST_CELLS, finest_and_others
from qserver.inference.posterior.disagreeing_rows import Stated
from qserver.inference.posterior.row_posterior import CellsAndRows
from qserver.inference.reach import Reach
from qserver.query.class_grid import product_partition
from qserver.query.linear_query import LinearQuery, linear_query
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
    monkeypatch.setattr(CellsAndRows, "together", lambda *_: None)


def margins(seed: int) -> list[AnyMeasurement]:
    """The table, its margin of every value, and one of spans of two."""
    return [
        table(0, SIZES, {0: 24, 1: 3}, scale=5.0, seed=seed),
        table(1, SIZES, {0: 24}, scale=8.0, seed=seed + 1),
        table(2, SIZES, {0: 12}, scale=9.0, seed=seed + 2),
    ]


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


@pytest.mark.slow
@pytest.mark.parametrize("most_beside", [100, 5])
@pytest.mark.parametrize("seed", [4, 5])
def test_so_it_is_beside_tables_with_many_cells(
    seed: int, most_beside: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nearly so where one sum of their cells is taken, which is all in least squares."""
    row, events = sum_of(SIZES), margins(10 * seed)
    expected = stated(SIZES, events, row)
    request.getfixturevalue("without_rows")
    monkeypatch.setattr("qserver.inference.posterior.cells_as_rows._MOST_BESIDE", most_beside)
    found = stated(SIZES, events, row)
    assert (found.statement.law, expected.statement.law) == ("posterior", "posterior")
    if most_beside == 5:
        assert 2 <= found.statement.disagreements < expected.statement.disagreements
    one, other = (s.posterior.interval(0.95) for s in (found, expected))
    length = other.high - other.low
    if most_beside == 100:
        assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=0.02 * length)
    # Less is known of the shape: the interval is right given a little less.
    assert 0.8 * length < one.high - one.low < 1.25 * length
    assert one.low < expected.posterior.estimate < one.high


def test_an_average_over_thousands_of_values_has_both_parts_together() -> None:
    sizes = (1_500, 3)
    engine = InferenceEngine(sizes)
    spans = table(3, sizes, {0: 300}, scale=7.0, seed=9)
    engine.extend([*history(sizes, 3)[:3], spans])
    rows = [sum_of(sizes), linear_query(sizes, [(1, {1: interval(3, 1, 3)})])]
    estimates = [engine.estimate(primitive(row), confidence=0.95) for row in rows]
    primitives = [primitive(row).row for row in rows]
    found = engine.together(primitives, [one for one in estimates if one is not None])
    assert found is not None
    known = found.sums.reduced()
    assert known.n_disagreements >= 4
    alone = [engine.stated(primitive(r), e) for r, e in zip(rows, estimates, strict=True) if e]
    for i, one in enumerate(alone):
        along = known.along(np.eye(2)[i])
        mean = found.estimates[i] - along.shift - law_given(along).mean
        spread = one.posterior.interval(0.95)
        assert abs(mean - one.posterior.estimate) < 0.03 * (spread.high - spread.low)


def test_no_table_is_merged_of_which_a_row_is_a_cell() -> None:
    """They may be one noise. Parts of 3 and of 4 have all and halves in common."""
    fine = table(0, (12, 3), {0: 4, 1: 3}, scale=5.0, seed=1)
    other = table(1, (12, 3), {0: 3}, scale=5.0, seed=2)
    row = measured(2, other.partition.row(0), scale=9)
    apart = measured(2, linear_query((12, 3), [(1, {0: interval(12, 0, 6)})]), scale=9)
    for one, n_summed in ((row, [1]), (apart, [1, 3])):
        found, beside = finest_and_others([fine.partition.inside], Reach([fine, other, one]), {0})
        assert found == fine
        assert sorted(r.n_summed for r in beside.rows) == n_summed


@pytest.mark.slow
def test_a_sum_over_thousands_of_values_is_a_posterior() -> None:
    """With its margins, in parts, in spans and by another attribute; and it covers."""
    sizes, n, inside = (1_500, 3), n_of(200, share=20), 0
    row = sum_of(sizes)
    assert sizes[0] > MOST_CELLS
    for seed in range(n):
        spans = table(3, sizes, {0: 300}, scale=15.0, seed=3_000 + seed)
        found = stated(sizes, [*history(sizes, 100 + 7 * seed)[:3], spans], row)
        assert (found.statement.law, found.statement.disagreements) == ("posterior", 12)
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


def test_a_question_that_tells_values_of_a_cell_apart_is_not_told() -> None:
    sizes = (12, 3)
    coarse = table(1, sizes, {0: 3}, scale=5.0, seed=2)
    for stop, is_told in ((4, True), (3, False)):
        row = linear_query(sizes, [(1, {0: interval(12, 0, stop)})])
        assert (by_finest([row], coarse, Beside([])) is not None) == is_told
