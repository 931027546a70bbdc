"""Joint bounds against closed forms, exact integrals, plain draws and brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import beta

from qserver.errors import RequirementError
from qserver.inference.arrays import FloatArray
from qserver.inference.law.joint import (
    Bet,
    JointErrors,
    Sample,
    Sampling,
    joint_confidence,
    least_factor,
)
from qserver.inference.law.laplace_sum import LaplaceSum
from tests.sweeps import examples

FALSE_ALARM = 1e-7
"""Chance that a comparison with plain draws fails though all is right."""
LIGHT_WORK = 60_000_000


def prefixes(n: int) -> FloatArray:
    return np.tril(np.ones((n, n)))


def errors(matrix: FloatArray, half_width: float) -> JointErrors:
    return JointErrors(matrix, np.ones(matrix.shape[1]), np.full(len(matrix), half_width))


def share_outside(matrix: FloatArray, half_width: float, *, seed: int, n_draws: int) -> int:
    noise = np.random.default_rng(seed).laplace(size=(n_draws, matrix.shape[1]))
    return int((np.abs(noise @ matrix.T).max(axis=1) > half_width).sum())


def test_one_error_has_its_exact_tail() -> None:
    found = joint_confidence(JointErrors([[2.0, -1.0]], [1.0, 3.0], [7.0]))
    assert found.method == "exact"
    np.testing.assert_allclose(found.outside, LaplaceSum([2.0, 3.0]).tail(7.0), rtol=1e-8)


def test_no_noise_holds_for_certain() -> None:
    found = joint_confidence(JointErrors([[1.0, 0.0], [3.0, 1.0]], [0.0, 1.0], [1.0, math.inf]))
    assert (found.outside, found.method, found.lower) == (0.0, "exact", 1.0)


def test_independent_errors_multiply_exactly() -> None:
    """P(all) = prod (1 - exp(-h_i / b_i)) where no error shares a source."""
    scales, widths = np.array([1.0, 2.0, 0.5]), np.array([6.0, 15.0, 4.0])
    exact = 1.0 - math.prod(1.0 - math.exp(-h / b) for h, b in zip(widths, scales, strict=True))
    found = JointErrors(np.eye(3), scales, widths).product_bound()
    np.testing.assert_allclose(found.outside, exact, rtol=1e-8)
    assert found.outside >= exact


@settings(max_examples=examples(15))
@given(seed=st.integers(0, 10**6), n=st.integers(2, 5), m=st.integers(1, 5))
def test_the_product_rule_lies_between_the_truth_and_the_union_bound(
    seed: int, n: int, m: int
) -> None:
    """Any coefficients, of either sign: Clopper and Pearson's lower limit of 20,000 draws."""
    generator = np.random.default_rng(seed)
    matrix = generator.normal(size=(n, m))
    half_width = 3.0 * math.sqrt(float(np.square(matrix).sum(axis=1).max()))
    problem = errors(matrix, half_width)
    found = problem.product_bound()
    n_draws = 20_000
    outside = share_outside(matrix, half_width, seed=seed + 1, n_draws=n_draws)
    least = beta.ppf(FALSE_ALARM, outside, n_draws - outside + 1) if outside else 0.0
    assert least <= found.outside <= min(1.0, float(problem.tails().sum()) * (1 + 1e-12))


def two_exact(h: float) -> float:
    """P(abs(X) > h or abs(X + Y) > h), X and Y Lap(1), by quadrature over X."""

    def inside(x: float) -> float:
        # P(-h - x <= Y <= h - x) for 0 <= x <= h.
        return 0.5 * math.exp(-x) * (1.0 - 0.5 * math.exp(-(h - x)) - 0.5 * math.exp(-(h + x)))

    return 1.0 - 2.0 * quad(inside, 0.0, h, epsabs=1e-15)[0]


@pytest.mark.parametrize("half_width", [2.0, 8.0, 16.0, 40.0])
def test_the_sampled_estimate_is_that_of_quadrature(half_width: float) -> None:
    """Two dependent errors from common to a chance of 1e-16: within 6 deviations."""
    exact = two_exact(half_width)
    if half_width > 30.0:  # 1 - inside cancels there: x e^-x terms by hand.
        exact = math.exp(-half_width) * (0.5 * half_width + 1.25 - 0.25 * math.exp(-2 * half_width))
    sampling = Sampling(errors(prefixes(2), half_width).ratios, reference=1.0, failure=1e-10)
    pilot = sampling.pilot(8 * 40_000)
    values = pilot.values(1.0)
    deviation = pilot.bound * float(values.std()) / math.sqrt(len(values))
    assert 0.0 < deviation < 0.02 * exact
    assert abs(pilot.estimate(1.0) - exact) < 6.0 * deviation


def test_the_closed_form_for_two_errors_is_that_of_quadrature() -> None:
    """The oracle of the deep tail, held to the integral where that has digits."""
    for h in (1.0, 3.0, 9.0):
        closed = math.exp(-h) * (0.5 * h + 1.25 - 0.25 * math.exp(-2 * h))
        np.testing.assert_allclose(closed, two_exact(h), rtol=1e-9)


@pytest.mark.parametrize(("n", "half_width"), [(12, 20.0), (40, 30.0)])
def test_the_sampled_bound_is_above_plain_draws_and_below_the_product(
    n: int, half_width: float
) -> None:
    matrix = prefixes(n)
    problem = errors(matrix, half_width)
    found = joint_confidence(problem, work=LIGHT_WORK)
    n_draws = 100_000
    outside = share_outside(matrix, half_width, seed=n, n_draws=n_draws)
    least = beta.ppf(FALSE_ALARM, outside, n_draws - outside + 1)
    most = beta.ppf(1.0 - FALSE_ALARM, outside + 1, n_draws - outside)
    assert found.method == "sampled"
    assert least <= found.outside <= 1.25 * most
    assert found.outside < 0.7 * problem.product_bound().outside


@pytest.mark.parametrize("log_tail", [-6.0, -12.0, -30.0])
def test_partial_sums_lie_between_the_last_and_levys_bound(log_tail: float) -> None:
    """P(abs(S_n) > h) <= P(max abs(S_k) > h) <= 2 P(abs(S_n) > h), Levy, however rare."""
    law = LaplaceSum(np.ones(30))
    half_width = law.half_width_of_tail(log_tail)
    problem = errors(prefixes(30), half_width)
    sampling = Sampling(problem.ratios, reference=1.0, failure=1e-12)
    pilot = sampling.pilot(8 * 20_000)
    assert math.exp(log_tail) * 1.05 < pilot.estimate(1.0) < 2.0 * math.exp(log_tail)
    # The certified bound is dearer, by draws alone.
    found = joint_confidence(problem, work=LIGHT_WORK)
    assert pilot.estimate(1.0) < found.outside < 1.35 * pilot.estimate(1.0)


def test_the_least_factor_is_certified_and_next_to_the_smallest() -> None:
    """Plain draws agree with the statement at the factor, and refute it 4 percent below."""
    matrix, confidence = prefixes(20), 0.95
    found = least_factor(errors(matrix, 10.0), confidence=confidence, work=LIGHT_WORK)
    n_draws = 200_000
    above = share_outside(matrix, 10.0 * found.factor, seed=7, n_draws=n_draws)
    below = share_outside(matrix, 10.0 * found.factor * 0.96, seed=8, n_draws=n_draws)
    assert found.method == "sampled"
    assert beta.ppf(FALSE_ALARM, above, n_draws - above + 1) <= 1.0 - confidence
    assert beta.ppf(FALSE_ALARM, below, n_draws - below + 1) > 1.0 - confidence


def test_the_least_factor_scales_with_the_half_widths() -> None:
    matrix = prefixes(15)
    one = least_factor(errors(matrix, 10.0), confidence=0.999, work=LIGHT_WORK)
    two = least_factor(errors(matrix, 40.0), confidence=0.999, work=LIGHT_WORK)
    np.testing.assert_allclose(one.factor, 4.0 * two.factor, rtol=0.01)


def test_equal_and_opposite_errors_count_once() -> None:
    """The same error, also with the other sign: its exact tail, not fifty times that."""
    copies = np.ones((50, 2)) * np.where(np.arange(50) % 2, -1.0, 1.0)[:, None]
    found = joint_confidence(errors(copies, 12.0))
    assert found.method == "exact"
    np.testing.assert_allclose(found.outside, LaplaceSum([1.0, 1.0]).tail(12.0), rtol=1e-8)


def test_all_but_equal_errors_are_charged_about_once() -> None:
    """Ten errors of one large source and a small one each: the tail of the large one nearly."""
    matrix = np.hstack([np.ones((10, 1)), 0.01 * np.eye(10)])
    problem = errors(matrix, 12.0)
    alone = LaplaceSum([1.0, 0.01]).tail(12.0)
    found = joint_confidence(problem, work=10 * LIGHT_WORK)
    assert alone <= found.outside < 1.2 * alone
    assert problem.product_bound().outside > 9.0 * alone


def test_independent_errors_keep_the_product_rule() -> None:
    found = joint_confidence(errors(np.eye(30), 9.0), work=LIGHT_WORK)
    assert found.method == "product"
    factor = least_factor(errors(np.eye(30), 9.0), confidence=0.999, work=LIGHT_WORK)
    exact = -math.log(-math.expm1(math.log(0.999) / 30)) / 9.0
    assert factor.method == "product"
    np.testing.assert_allclose(factor.factor, exact, rtol=1e-5)
    assert factor.factor >= exact


def test_nothing_is_drawn_where_the_product_rule_settles_it() -> None:
    problem = errors(prefixes(12), 20.0)
    product = problem.product_bound()
    assert joint_confidence(problem, wanted=product.lower - 1e-9) == product
    assert joint_confidence(problem, wanted=1.0 - 0.5 * float(problem.tails().max())) == product
    assert joint_confidence(problem, work=0) == product
    between = joint_confidence(problem, wanted=1.0 - 0.7 * product.outside, work=LIGHT_WORK)
    assert between.method == "sampled"


def test_the_same_problem_has_the_same_bound_up_to_rounding() -> None:
    matrix = prefixes(12)
    first = joint_confidence(errors(matrix, 20.0), work=LIGHT_WORK)
    assert joint_confidence(errors(matrix, 20.0), work=LIGHT_WORK) == first
    nudged = joint_confidence(errors(matrix * (1.0 + 2e-16), 20.0), work=LIGHT_WORK)
    np.testing.assert_allclose(nudged.outside, first.outside, rtol=1e-12)


def test_the_bet_is_false_no_oftener_than_stated() -> None:
    """At eta = 0.05 over 4,000 samples of 400 fair coins: at most 0.05 + 5 deviations false."""
    generator, eta, n_runs = np.random.default_rng(3), 0.05, 4_000
    # Q(1, 0) = 1: the values are the weights themselves.
    false = sum(
        Bet(
            Sample(np.ones(400), generator.integers(0, 2, 400).astype(float), 1.0, 1), 0.2, eta
        ).outside(0.0)
        < 0.5 + eta
        for _ in range(n_runs)
    )
    assert 0.005 * n_runs < false < n_runs * eta + 5.0 * math.sqrt(n_runs * eta)


def test_a_bet_that_forgets_its_deviation_would_be_caught() -> None:
    """The plain mean as a bound is false in about half the runs."""
    generator = np.random.default_rng(4)
    false = sum(generator.integers(0, 2, 400).mean() < 0.5 for _ in range(1_000))
    assert false > 1_000 * 0.05 + 5.0 * math.sqrt(50.0)


def test_no_value_of_a_draw_passes_one() -> None:
    """The bet's premise 0 <= Y <= 1, on a problem with rows of very unlike half-widths."""
    generator = np.random.default_rng(5)
    matrix = generator.normal(size=(6, 9)) * np.geomspace(0.1, 1.0, 6)[:, None]
    sampling = Sampling(matrix / 8.0, reference=1.0, failure=1e-10)
    values = sampling.pilot(8 * 50_000).values(1.0)
    assert float(values.min()) >= 0.0
    assert float(values.max()) <= 1.0


@pytest.mark.parametrize(
    ("matrix", "scales", "widths", "message"),
    [
        ([[1.0]], [1.0, 1.0], [1.0], "`coefficients` must have shape"),
        ([[1.0]], [-1.0], [1.0], "`scales` must be finite and >= 0"),
        ([[math.nan]], [1.0], [1.0], "`scales` must be finite and >= 0"),
        ([[1.0]], [1.0], [0.0], "`half_widths` must be > 0"),
        ([[1.0]], [1.0], [math.nan], "`half_widths` must be > 0"),
    ],
)
def test_arrays_of_another_kind_are_refused(
    matrix: list[list[float]], scales: list[float], widths: list[float], message: str
) -> None:
    with pytest.raises(RequirementError, match=message):
        JointErrors(matrix, scales, widths)


@pytest.mark.parametrize("confidence", [0.0, 1.0, math.nan])
def test_a_confidence_outside_0_to_1_is_refused(confidence: float) -> None:
    with pytest.raises(RequirementError, match="`confidence` must lie in"):
        least_factor(errors(prefixes(2), 5.0), confidence=confidence)


def test_sources_weighed_alike_may_be_drawn_as_one() -> None:
    """Every fifth prefix of 60 bins: between plain draws, and below Levy's bound."""
    matrix = prefixes(60)[4::5]
    half_width = LaplaceSum(np.ones(60)).half_width(0.98)
    problem = errors(matrix, half_width)
    pilot = Sampling(problem.ratios, reference=1.0, failure=1e-10).pilot(8 * 40_000)
    outside = share_outside(matrix, half_width, seed=11, n_draws=100_000)
    least = beta.ppf(FALSE_ALARM, outside, 100_001 - outside)
    most = beta.ppf(1.0 - FALSE_ALARM, outside + 1, 100_000 - outside)
    assert pilot.n_exponentials == 2 * 60
    assert least < pilot.estimate(1.0) < min(most, 2.0 * 0.02)


@settings(max_examples=examples(25))
@given(seed=st.integers(0, 10**6))
def test_any_bound_lies_between_the_worst_error_and_the_union_bound(seed: int) -> None:
    """Scales over 12 decades, chances from near 1 to below the least double."""
    generator = np.random.default_rng(seed)
    n, m = generator.integers(2, 10, size=2)
    matrix = generator.normal(size=(n, m)) * 10.0 ** generator.uniform(-6.0, 6.0, (n, m))
    spread = np.sqrt(np.square(matrix).sum(axis=1))
    problem = JointErrors(matrix, np.ones(m), spread * 10.0 ** generator.uniform(-2.0, 3.0))
    tails = problem.tails()
    found = joint_confidence(problem, work=5_000_000)
    assert float(tails.max()) * (1.0 - 1e-6) <= found.outside
    assert found.outside <= min(1.0, float(tails.sum()) * (1.0 + 1e-6))
