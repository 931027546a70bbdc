"""Draws of many errors together are of the law that exact ways and another chain give."""

from __future__ import annotations

import math

import numpy as np
import pytest

from qserver.inference.arrays import FloatArray
from qserver.inference.disagreement.gibbs_sampler import (
    N_CHAINS,
    _Products,
    drawn_errors,
    farthest_off,
)
from qserver.inference.disagreement.known_sums import KnownSums, Reduced
from qserver.inference.disagreement.law_by_cheapest_method import law_given
from qserver.inference.smooth.part_law import DRAWN_ERROR
from tests.inference.disagreement.references import (
    TWO_HALVES,
    Design,
    errors_by_chain,
    ranges,
    repeated,
)
from tests.sweeps import share

FOUR_STANDARD_ERRORS = 4.0
DESIGNS = {
    "two halves": TWO_HALVES,
    "one count five times": repeated(5),
    "ranges": ranges(12, 30, seed=1),
    "many ranges on few cells": ranges(8, 34, seed=2),
}


def together(*errors: KnownSums) -> KnownSums:
    """Errors by other weights on the same rows."""
    weights = np.stack([one.weights for one in errors])
    return KnownSums(weights, errors[0].sums, errors[0].values, errors[0].counts)


def twice(known: KnownSums) -> KnownSums:
    """An error, and the same error."""
    return together(known, known)


def share_within(known: KnownSums, middle: float, reach: float) -> FloatArray:
    """Of draws of the first W the part within `reach` of a middle, per chain."""
    drawn = farthest_off(twice(known).reduced(), np.full(2, middle), np.full(2, reach))
    assert drawn is not None
    return np.asarray((drawn <= 1.0).mean(axis=1))


def is_near(shares: FloatArray, expected: float) -> bool:
    error = max(float(shares.std(ddof=1)), 0.5 / math.sqrt(1_000)) / math.sqrt(N_CHAINS)
    return abs(float(shares.mean()) - expected) <= FOUR_STANDARD_ERRORS * error


@pytest.mark.slow
@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("seed", share(range(6), 1))
def test_each_error_has_its_own_posterior(name: str, seed: int) -> None:
    design = DESIGNS[name]
    known = design.known(design.errors(np.random.default_rng(seed)))
    law, shift = law_given(known.reduced()), float(known.reduced().shift)
    assert shift == pytest.approx(float(twice(known).reduced().shift[0]))
    for confidence in (0.5, 0.95):
        ends = law.shortest(confidence)
        middle, reach = (ends.low + ends.high) / 2, (ends.high - ends.low) / 2
        exact = law.cdf(ends.high) - law.cdf(ends.low)
        assert is_near(share_within(known, middle, reach), exact)


@pytest.mark.slow
def test_errors_together_are_those_of_another_chain() -> None:
    """Of two ranges that share rows: the part of draws in which both are within."""
    rng = np.random.default_rng(4)
    one = ranges(12, 30, seed=1)
    other = Design(one.rows, one.scales, one.rows[3])
    errors = one.errors(rng)
    known = together(one.known(errors), other.known(errors))
    reduced, reach = known.reduced(), np.array([2.0, 1.6])
    both = np.stack(
        [errors_by_chain(d, errors, n_chains=40, n_sweeps=100) for d in (one, other)], axis=-1
    )
    middles = both.mean(axis=0)
    inside = (np.abs(both - middles) <= reach).all(axis=-1)
    drawn = farthest_off(reduced, middles - reduced.shift, reach)
    assert drawn is not None
    share_there = (drawn <= 1.0).mean(axis=1)
    assert is_near(np.asarray(share_there), float(inside.mean()))
    # The control: one of them alone is within more often.
    alone = np.abs(both[:, 0] - middles[0]) <= reach[0]
    assert not is_near(np.asarray(share_there), float(alone.mean()))


def test_a_sum_of_cells_is_parted_into_them() -> None:
    """Cells that were merged, against the law of all of them one by one."""
    rng = np.random.default_rng(9)
    cells = rng.laplace(size=9)
    total = cells.sum() + 2.0 * rng.laplace()
    merged = KnownSums(
        np.array([1.0, 0.0]) * 3.0,
        np.array([[3.0, -2.0]]),
        np.array([cells.sum() - (total - cells.sum())]),
        np.array([9.0, 1.0]),
    )
    apart = KnownSums(np.append(np.ones(9), 0.0), np.append(np.ones(9), -2.0)[None], merged.values)
    law = law_given(apart.reduced())
    reach = 2.0
    exact = law.cdf(law.mean + reach) - law.cdf(law.mean - reach)
    shift = float(apart.reduced().shift) - float(merged.reduced().shift)
    assert is_near(share_within(merged, law.mean + shift, reach), exact)


@pytest.mark.slow
def test_an_error_in_no_sum_is_drawn_by_itself() -> None:
    known = TWO_HALVES.known(TWO_HALVES.errors(np.random.default_rng(3)))
    more = known.with_independent(np.array([0.7]), np.array([4.0]))
    law = law_given(more.reduced())
    exact = law.cdf(law.mean + 1.5) - law.cdf(law.mean - 1.5)
    assert is_near(share_within(more, law.mean, 1.5), exact)
    without = law_given(known.reduced())
    wrong = without.cdf(law.mean + 1.5) - without.cdf(law.mean - 1.5)
    assert not is_near(share_within(more, law.mean, 1.5), wrong)


@pytest.mark.parametrize("name", ["two halves", "ranges"])
def test_draws_of_errors_have_the_posterior_by_sums_and_by_the_basis(name: str) -> None:
    """Systems have an unknown per known sum, or per basis error: the fewer of them."""
    design = DESIGNS[name]
    known = design.known(design.errors(np.random.default_rng(5)))
    law = law_given(known.reduced())
    ends, drawn = law.shortest(0.95), drawn_errors(twice(known).reduced())[0]

    def share_in(low: float, high: float) -> float:
        return float(((low <= drawn) & (drawn <= high)).mean())

    exact = law.cdf(ends.high) - law.cdf(ends.low)
    assert share_in(ends.low, ends.high) == pytest.approx(exact, abs=2 * DRAWN_ERROR)
    # The control: the interval about 0, as it were without the known sums.
    off = (ends.high - ends.low) / 2
    assert share_in(-off, off) == pytest.approx(law.cdf(off) - law.cdf(-off), abs=2 * DRAWN_ERROR)
    assert law.cdf(off) - law.cdf(-off) < exact - 2 * DRAWN_ERROR


def test_errors_that_are_known_leave_the_others_as_they_are() -> None:
    """Every known sum has one error alone."""
    nothing = np.zeros((2, 0))
    weights = np.pad(np.eye(2), ((0, 0), (0, 1)))
    known = Reduced(np.zeros(2), weights, np.array([3.0]), np.zeros((1, 2)), nothing, np.ones(3))
    drawn = drawn_errors(known)
    assert np.quantile(np.abs(drawn), 0.5) == pytest.approx(math.log(2.0), abs=0.1)


def test_too_many_rows_take_no_draws() -> None:
    design = ranges(200, 420, seed=5)
    known = twice(design.known(design.errors(np.random.default_rng(1))))
    assert farthest_off(known.reduced(), np.zeros(2), np.ones(2)) is None


def test_blocks_that_no_chain_links_are_solved_as_the_whole() -> None:
    random = np.random.default_rng(7)
    matrix = np.zeros((9, 14))
    for rows, columns in (((0, 4), (1, 2, 5)), ((1, 8), (0, 13)), ((2, 3, 7), (3, 4, 6))):
        matrix[np.ix_(rows, columns)] = random.normal(size=(len(rows), len(columns)))
    matrix[5, [7, 8]] = 1.0
    values, own = random.exponential(size=(3, 14)), random.exponential(size=(3, 9))
    sides = random.normal(size=(3, 9))
    systems = matrix @ (values[:, :, None] * matrix.T) + own[:, :, None] * np.eye(9)
    products = _Products.of(matrix)
    assert [rows.shape for rows in products.rows] == [(2, 1), (2, 2), (1, 3)]
    expected = np.linalg.solve(systems, sides[..., None])[..., 0]
    assert products.solved(values, own, sides) == pytest.approx(expected)


@pytest.mark.parametrize("is_fit", [True, False])
def test_a_large_block_is_solved_as_any_other(is_fit: bool) -> None:
    """Also where floats leave it no longer positive definite: one variance of -1 stands for it."""
    random, (n, k) = np.random.default_rng(8), (3, 60)
    matrix, values = random.normal(size=(k, 2 * k)), random.exponential(size=(n, 2 * k))
    own, sides = random.exponential(size=(n, k)), random.normal(size=(n, k))
    if not is_fit:
        own[1, 7] = -1e4
    systems = matrix @ (values[:, :, None] * matrix.T) + own[:, :, None] * np.eye(k)
    assert (np.linalg.eigvalsh(systems).min(axis=1) > 0).all() == is_fit
    expected = np.linalg.solve(systems, sides[..., None])[..., 0]
    assert _Products.of(matrix).solved(values, own, sides) == pytest.approx(expected)
