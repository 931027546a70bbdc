"""Tables and rows with Gaussian noise: the estimate is that of least squares on all cells."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest

from qserver.inference.arrays import FloatArray
from qserver.inference.engine import InferenceEngine
from qserver.query.class_grid import product_partition
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import Primitive, primitive
from qserver.records.charge import NANO
from qserver.records.history import (
    AnyMeasurement,
    Estimator,
    GaussianMeasurement,
    GaussianTable,
    Measurement,
)
from qserver.records.privacy.noise_law import GAUSSIAN
from tests.query.dense_weights import scaled_weights

SIZES, STEP = (6, 4, 2), Fraction(1, 2**40)
CELLS = list(product(*map(range, SIZES)))
TRUTH = np.array([(7 * a + 5 * b + 3 * c) % 50 for a, b, c in CELLS], dtype=float)


def some_query(rng: random.Random) -> LinearQuery:
    axes = {}
    for axis, size in enumerate(SIZES):
        if rng.random() < 0.5:
            axes[axis] = scaled_weights([Fraction(rng.randint(0, 1)) for _ in range(size)])
    return linear_query(SIZES, [(1, axes)])


def dense(row: LinearQuery) -> FloatArray:
    return np.array([float(row.value_at(cell)) for cell in CELLS])


class Drawn:
    """A history of rows and tables, and the same as one dense matrix of rows."""

    def __init__(self, seed: int, *, noise: int | None = None) -> None:
        self.random, self.numpy = random.Random(seed), np.random.default_rng(noise)
        self.found = list[AnyMeasurement]()
        self.matrix, self.answers, self.precisions = (list[FloatArray](), [], [])

    def index(self, row: LinearQuery, rho: int) -> int:
        scale = (2 * rho / NANO) ** -0.5
        answer = dense(row) @ TRUTH + self.numpy.normal(0.0, scale)
        self.matrix.append(dense(row))
        self.precisions.append(2 * rho / NANO)
        index = round(answer / STEP)
        self.answers.append(float(index * STEP))
        return index

    def add_row(self, query: LinearQuery, rho: int) -> None:
        row = primitive(query)
        index = self.index(row.row, rho)
        new = GaussianMeasurement(len(self.found), row.row, row.key, rho, STEP, index)
        self.found.append(new)

    def add_table(self, axes: tuple[int, ...], rho: int) -> None:
        cells = product_partition(SIZES, {a: list(range(SIZES[a])) for a in axes})
        indices = tuple(self.index(cells.row(i), rho) for i in range(cells.n_cells))
        self.found.append(GaussianTable(len(self.found), cells, rho, STEP, indices))

    def add_parts(self, axis: int, parts: list[int], rho: int) -> None:
        """A table of some parts of one attribute, which may nest in no other."""
        cells = product_partition(SIZES, {axis: parts})
        indices = tuple(self.index(cells.row(i), rho) for i in range(cells.n_cells))
        self.found.append(GaussianTable(len(self.found), cells, rho, STEP, indices))

    def grow(self, n: int) -> None:
        rng = self.random
        for i in range(n):
            rho = rng.randrange(10**5, 10**7)
            if i in (0, 2) or rng.random() < 0.3:
                axes = tuple(sorted(rng.sample(range(3), rng.randint(1, 2) if i else 2)))
                self.add_table(axes, rho)
            elif not (query := some_query(rng)).is_zero:
                self.add_row(query, rho)

    def engine(self) -> InferenceEngine:
        engine = InferenceEngine(SIZES, law=GAUSSIAN)
        engine.extend(self.found)
        return engine

    def least_squares(self, row: LinearQuery) -> tuple[float, float] | None:
        """The estimate and its variance; None where the rows do not give it."""
        matrix, weights = np.array(self.matrix), np.array(self.precisions)
        target = dense(row)
        inverse = np.linalg.pinv(matrix.T @ (matrix * weights[:, None]), rcond=1e-11)
        if np.abs(matrix.T @ (weights * (matrix @ (inverse @ target))) - target).max() > 1e-6:
            return None
        values = inverse @ (matrix.T @ (weights * np.array(self.answers)))
        return float(target @ values), float(target @ inverse @ target)


@pytest.mark.parametrize("seed", range(8))
def test_the_estimate_is_that_of_least_squares_on_all_cells_and_rows(seed: int) -> None:
    drawn, n_exact = Drawn(seed, noise=seed), 0
    if seed % 2:
        drawn.add_table((0, 1, 2), 10**5)
    drawn.grow(14)
    engine = drawn.engine()
    for _ in range(20):
        asked = primitive(some_query(drawn.random))
        best = drawn.least_squares(asked.row)
        found = None if asked.is_zero else engine.estimate(asked, confidence=0.95)
        if best is None or found is None:
            continue
        law = engine.stated(asked, found).statement.law
        exact = found.posterior.error.variance == pytest.approx(best[1], rel=1e-7)
        assert found.posterior.error.variance >= best[1] * (1 - 1e-7)
        if law == "posterior":
            n_exact += 1
            assert exact
            assert found.posterior.estimate == pytest.approx(best[0], abs=1e-6 * best[1] ** 0.5)
    assert n_exact >= 10 * (seed % 2)


@pytest.mark.parametrize("seed", range(4))
def test_several_estimates_have_the_covariance_of_least_squares(seed: int) -> None:
    drawn = Drawn(seed, noise=seed)
    drawn.add_table((0, 1, 2), 10**6)
    for _ in range(6):
        drawn.add_row(some_query(drawn.random), drawn.random.randrange(10**5, 10**7))
    drawn.add_table((0, 1), 10**6)
    engine = drawn.engine()
    asked = [primitive(some_query(drawn.random)) for _ in range(5)]
    found = [engine.estimate(one, confidence=0.95) for one in asked]
    given = [(a, f) for a, f in zip(asked, found, strict=True) if f and not a.is_zero]
    together = engine.together([a.row for a, _ in given], [f for _, f in given])
    assert together is not None
    loads = together.sums.weights * 2**0.5
    matrix, weights = np.array(drawn.matrix), np.array(drawn.precisions)
    inverse = np.linalg.inv(matrix.T @ (matrix * weights[:, None]))
    targets = np.array([dense(a.row) for a, _ in given])
    np.testing.assert_allclose(loads @ loads.T, targets @ inverse @ targets.T, rtol=1e-6)


def halves(*orders: str) -> tuple[Drawn, InferenceEngine]:
    """Tables of the first attribute's halves, of shifted halves, and of its single values."""
    parts = {"halves": [0, 0, 0, 1, 1, 1], "shifted": [0, 0, 1, 1, 1, 0], "all": list(range(6))}
    drawn = Drawn(1, noise=1)
    for order in orders:
        drawn.add_parts(0, parts[order], 10**6)
    return drawn, drawn.engine()


@pytest.mark.parametrize(
    "orders", [("halves", "shifted"), ("shifted", "halves"), ("halves", "shifted", "all")]
)
def test_of_tables_that_do_not_nest_no_law_is_said_that_is_not_of_least_variance(
    orders: tuple[str, ...],
) -> None:
    drawn, engine = halves(*orders)
    n_longer = 0
    for parts in ([1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 1], [1, 1, 0, 0, 0, 0], [1] * 6):
        asked = primitive(linear_query(SIZES, [(1, {0: scaled_weights(parts)})]))
        best, found = drawn.least_squares(asked.row), engine.estimate(asked, confidence=0.95)
        if best is None or found is None:
            continue
        is_least = found.posterior.error.variance == pytest.approx(best[1], rel=1e-7)
        n_longer += not is_least
        assert is_least or engine.stated(asked, found).statement.law != "posterior"
    assert n_longer


def test_an_estimate_of_earlier_tables_is_not_told_together_with_present_ones() -> None:
    """Its errors are others than those of the same question by the present tables."""
    drawn, engine = Drawn(2, noise=2), InferenceEngine(SIZES, law=GAUSSIAN)
    drawn.add_table((0,), 10**6)
    engine.extend(drawn.found)
    weights = [[1, 1, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0]]
    queries = [linear_query(SIZES, [(1, {0: scaled_weights(w)})]) for w in weights]
    asked = [primitive(query) for query in queries]
    before = [engine.estimate(one, confidence=0.95) for one in asked]
    drawn.add_table((0, 1), 10**6)
    engine.extend(drawn.found[1:])
    now = [engine.estimate(one, confidence=0.95) for one in asked]
    assert all(one is not None and one.method == "blocks" for one in (*before, *now))
    rows = [one.row for one in asked]
    assert engine.together(rows, [one for one in now if one]) is not None
    mixed = [one for one in (before[0], now[1]) if one]
    assert engine.together(rows, mixed) is None


def test_stored_weights_stay_as_short_after_whatever_is_measured_later() -> None:
    drawn = Drawn(3, noise=3)
    drawn.grow(10)
    engine = drawn.engine()
    asked, kept = list[tuple[Primitive, float]](), list[Estimator]()
    for _ in range(30):
        one = primitive(some_query(drawn.random))
        found = None if one.is_zero else engine.estimate(one, confidence=0.95)
        if found is not None and found.method == "blocks" and found.weights:
            kept.append(found.estimator(one.key))
            asked.append((one, found.half_width))
    assert len(kept) >= 5
    drawn.grow(12)
    later = drawn.engine()
    for (one, half_width), estimator in zip(asked, kept, strict=True):
        again = later.estimate_after(one, estimator, confidence=0.95)
        assert again is not None
        assert again.half_width <= half_width * (1 + 1e-9)


@pytest.mark.slow
def test_intervals_by_tables_and_rows_hold_as_often_as_they_say() -> None:
    """Of 500 histories at 0.8; four deviations of a binomial number."""
    held = n = 0
    for noise in range(500):
        drawn = Drawn(noise % 5, noise=noise)
        drawn.grow(8)
        engine, rng = drawn.engine(), random.Random(noise)
        for _ in range(4):
            asked = primitive(some_query(rng))
            found = None if asked.is_zero else engine.estimate(asked, confidence=0.8)
            if found is not None and found.method == "blocks":
                ends = found.posterior.interval(0.8)
                held += ends.low <= dense(asked.row) @ TRUTH <= ends.high
                n += 1
    assert n >= 1000
    # Of one history the intervals have noise in common, so each counts as a third of one.
    assert abs(held - 0.8 * n) <= 4 * (3 * 0.8 * 0.2 * n) ** 0.5


def test_half_of_the_variance_is_found_out() -> None:
    """Negative control: the same comparison with the precision of Laplace noise."""
    drawn = Drawn(1, noise=1)
    drawn.add_table((0, 1, 2), 10**6)
    engine, row = drawn.engine(), primitive(some_query(drawn.random))
    found, best = engine.estimate(row, confidence=0.95), drawn.least_squares(row.row)
    assert found is not None
    assert best is not None
    n = prod(SIZES)
    assert best[1] == pytest.approx(float((dense(row.row) ** 2).sum()) / (2 * 10**6 / NANO))
    assert found.posterior.error.variance == pytest.approx(best[1], rel=1e-9)
    assert n > 0
    assert isinstance(drawn.found[0], GaussianTable)
    assert not isinstance(drawn.found[0], Measurement)
