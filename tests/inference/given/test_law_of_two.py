"""The law of two errors together, along its combinations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from qserver.inference.arrays import FloatArray
from qserver.inference.given.known_sums import KnownSums
from qserver.inference.given.law_given import law_given
from qserver.inference.given.law_of_two import LawOfTwo
from tests.inference.given.references import (
    Design,
    cdf_by_grid,
    errors_by_chain,
    ranges,
    repeated,
)

COMBINATIONS = (np.array([1.0, -0.4]), np.array([0.0, -1.0]), np.array([-1.0, 2.5]))


def _together(design: Design, other: FloatArray, errors: FloatArray) -> KnownSums:
    """Two errors of one design: of its query, and of another one."""
    beside = replace(design, query=other)
    one, two = design.known(errors), beside.known(errors)
    return KnownSums(np.stack([one.weights, two.weights]), one.sums, one.values)


def _along(design: Design, other: FloatArray, combination: FloatArray) -> Design:
    return replace(design, query=combination[0] * design.query + combination[1] * other)


@pytest.mark.parametrize("combination", COMBINATIONS)
@pytest.mark.parametrize("seed", range(3))
def test_each_combination_has_the_law_that_it_has_alone(combination: FloatArray, seed: int) -> None:
    design, other = ranges(12, 30, seed=2), np.arange(12.0) % 3 - 1.0
    errors = design.errors(np.random.default_rng(seed))
    known = _together(design, other, errors).reduced()
    law = LawOfTwo(known, np.array(COMBINATIONS), 1024)
    alone = _along(design, other, combination).known(errors).reduced()
    expected = law_given(alone, enough=1e-3)
    assert float(combination @ known.shift) == pytest.approx(float(alone.shift))
    # The places reach nine deviations to either side.
    deviation = float(np.ptp(expected.places)) / 18.0
    assert law.mean(combination) == pytest.approx(expected.mean, abs=0.02 * deviation)
    for place in expected.places[[40, 80, 100, 120, 160]]:
        found, truth = law.below(combination, float(place)), expected.cdf(float(place))
        # An error is twice what eight shifts differ by, so one in twenty is larger.
        room = 2.0 * found.error + expected.largest_error
        assert truth - room <= found.most <= truth + found.error + room


def test_errors_that_follow_from_one_are_exact() -> None:
    design, double = repeated(3), np.array([2.0])
    errors = design.errors(np.random.default_rng(4))
    known = _together(design, double, errors).reduced()
    assert known.is_on_a_line
    law, combination = LawOfTwo(known, np.eye(2), 256), np.array([1.0, -0.3])
    alone = _along(design, double, combination)
    shift = float(combination @ known.shift)
    for place in (-2.0, -0.5, 0.7):
        truth = float(cdf_by_grid(alone, errors, np.array([place + shift]))[0])
        found = law.below(combination, place)
        assert found.most == pytest.approx(truth, abs=found.error + 1e-3)


@pytest.mark.slow
def test_far_tails_are_bounded_and_not_by_the_numerical_error_alone() -> None:
    """80,000 draws of 2,000 chains say how small a probability is; the bound is no smaller."""
    design, other = ranges(12, 30, seed=5), np.ones(12)
    errors = design.errors(np.random.default_rng(5))
    known = _together(design, other, errors).reduced()
    combination = COMBINATIONS[0]
    law = LawOfTwo(known, combination[None, :], 256)
    drawn = errors_by_chain(
        _along(design, other, combination), errors, n_chains=2000, n_sweeps=40
    ) - float(combination @ known.shift)
    bounds = []
    for probability in (0.02, 1e-3, 1e-4):
        place = float(np.quantile(drawn, probability))
        bounds.append(law.below(combination, place).most)
        # The standard error of the frequency is a hundredth at .02, and a third at 1e-4.
        assert bounds[-1] >= 0.4 * probability
        assert bounds[-1] <= 4.0 * probability + 0.005
    assert bounds == sorted(bounds, reverse=True)
    place = float(drawn.mean() - 12.0 * drawn.std())
    found = law.below(combination, place)
    assert 0.0 < found.most < found.error / 10.0
