"""The structural bound, the cap of an epsilon, and the gate on the two."""

from __future__ import annotations

from itertools import product
from math import exp, inf, isclose

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import InputError
from qserver.models.tracing.bound import (
    PrivacyCap,
    ReleaseGate,
    TracingBound,
    TracingLimit,
    area_under,
    max_power_at_fpr,
)

# Murakonda et al., tables 4 to 6, column "AUC (Theoretical)": complexity, pool, area.
PAPER = [
    (446, 3000, 0.6074),
    (789, 3000, 0.6416),
    (1222, 3000, 0.6741),
    (1905, 3000, 0.7134),
    (600, 3000, 0.6241),
    (1096, 3000, 0.6655),
    (1942, 3000, 0.7153),
    (3431, 3000, 0.7752),
    (1000, 1000, 0.7602),
    (1729, 1000, 0.8238),
    (2706, 1000, 0.8776),
    (4323, 1000, 0.9292),
]
RATES = np.array([0.0, 1e-4, 0.01, 0.05, 0.3, 0.5, 0.9, 1.0])
epsilons = st.floats(0, 12)
rates = st.floats(0, 1)


@pytest.mark.parametrize(("complexity", "n", "auc"), PAPER)
def test_the_area_is_the_one_of_the_paper_s_tables(complexity: int, n: int, auc: float) -> None:
    assert round(TracingBound(complexity, n).auc, 4) == auc


def test_power_and_error_are_normal_tails_one_separation_apart() -> None:
    """z_alpha + z_(1-beta) = sqrt(C/n), with quantiles from mpmath."""
    bound = TracingBound(446, 3000)
    for fpr in (1e-4, 0.05, 0.5, 0.9):
        power = float(bound.power(fpr))
        z_alpha = -mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(fpr) - 1)
        z_beta = mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(power) - 1)
        assert isclose(float(z_alpha + z_beta), (446 / 3000) ** 0.5, rel_tol=1e-9)


def test_the_area_is_what_lies_under_the_curve() -> None:
    for bound in (TracingBound(4323, 1000), TracingBound(509, 3000, 1000)):
        assert area_under(bound) == pytest.approx(bound.auc, abs=1e-9)


def test_as_many_reference_records_as_members_halve_the_squared_separation() -> None:
    whole, half = TracingBound(500, 1000), TracingBound(500, 1000, 1000)
    assert half.separation**2 == pytest.approx(whole.separation**2 / 2)
    assert TracingBound(500, 1000, inf) == whole


def test_the_ends_of_every_curve_are_certain() -> None:
    bound, cap = TracingBound(500, 1000), PrivacyCap(1.0)
    np.testing.assert_allclose(bound.power([0, 1]), [0, 1])
    np.testing.assert_allclose(cap.power([0, 1]), [0, 1])
    np.testing.assert_allclose(TracingLimit(bound, cap).power([0, 1]), [0, 1])


def test_without_epsilon_nobody_tells_members_from_others() -> None:
    np.testing.assert_allclose(PrivacyCap(0.0).power(RATES), RATES)
    assert PrivacyCap(0.0).auc == 0.5


@given(epsilons, rates)
def test_randomised_response_is_the_best_that_the_cap_allows(epsilon: float, fpr: float) -> None:
    """Of the pair (p, 1-p), (1-p, p) with p = e^x / (1 + e^x) the best test reaches the cap."""
    low, high = 1 / (1 + exp(epsilon)), exp(epsilon) / (1 + exp(epsilon))
    best = fpr / low * high if fpr <= low else high + (fpr - low) / high * low
    assert float(PrivacyCap(epsilon, "replace-one").power(fpr)) == pytest.approx(best, abs=1e-12)


@given(epsilons)
def test_the_area_of_the_cap_is_that_of_its_two_straight_sides(epsilon: float) -> None:
    cap = PrivacyCap(epsilon, "replace-one")
    corner = 1 / (1 + exp(epsilon))
    corners = np.array([0, corner, 1]), np.array([0, 1 - corner, 1])
    assert cap.auc == pytest.approx(float(np.trapezoid(corners[1], corners[0])), abs=1e-12)


def noisy_counts(a: int, b: int, epsilon: float, reach: int = 60) -> np.ndarray:
    """P of the outcomes of two counts with discrete Laplace noise, each epsilon add-remove."""
    ratio = exp(-epsilon)

    def one(count: int) -> np.ndarray:
        weights = ratio ** np.abs(np.arange(-reach, reach + 1) - count)
        return weights / weights.sum()

    return np.outer(one(a), one(b)).ravel()


def best_power(inside: np.ndarray, outside: np.ndarray, fpr: float) -> float:
    """The power of the Neyman-Pearson test, with a coin at its threshold."""
    order = np.argsort(-inside / outside, kind="stable")
    return float(np.interp(fpr, np.cumsum(outside[order]), np.cumsum(inside[order])))


def test_replacing_a_record_passes_an_add_remove_guarantee_twice() -> None:
    """A histogram at 0.5 per record lets a replaced record be told better than e^0.5 allows."""
    epsilon, fpr = 0.5, 0.2
    replaced = best_power(noisy_counts(3, 2, epsilon), noisy_counts(2, 3, epsilon), fpr)
    added = best_power(noisy_counts(3, 2, epsilon), noisy_counts(2, 2, epsilon), fpr)
    game = PrivacyCap(epsilon, "add-remove", "added")
    assert added <= float(game.power(fpr)) + 1e-6
    assert float(game.power(fpr)) + 0.05 < replaced
    assert replaced <= float(PrivacyCap(epsilon, "add-remove", "replaced").power(fpr)) + 1e-6


@given(st.floats(1, 1e6), st.floats(1, 1e6), epsilons, rates)
def test_the_limit_is_below_both(complexity: float, n: float, epsilon: float, fpr: float) -> None:
    bound, cap = TracingBound(complexity, n), PrivacyCap(epsilon)
    power = float(TracingLimit(bound, cap).power(fpr))
    assert power == min(float(bound.power(fpr)), float(cap.power(fpr)))
    assert fpr - 1e-12 <= power <= 1


def test_a_huge_separation_leaves_the_cap_and_a_huge_epsilon_the_bound() -> None:
    cap, bound = PrivacyCap(1.0), TracingBound(446, 3000)
    assert TracingLimit(TracingBound(1e9, 1), cap).auc == pytest.approx(cap.auc, abs=1e-6)
    assert TracingLimit(bound, PrivacyCap(1e4)).auc == pytest.approx(bound.auc, abs=1e-6)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: TracingBound(0, 1), "complexity"),
        (lambda: TracingBound(1, 0), "`records`"),
        (lambda: TracingBound(1, inf), "`records`"),
        (lambda: TracingBound(1, float("nan")), "`records`"),
        (lambda: TracingBound(1, 1, 0), "reference_records"),
        (lambda: TracingBound(1, 1).power(1.1), "fpr"),
        (lambda: PrivacyCap(-1), "epsilon"),
        (lambda: PrivacyCap(inf), "epsilon"),
        (lambda: PrivacyCap(1, "both"), "relation"),  # type: ignore[arg-type]
        (lambda: PrivacyCap(1, "add-remove", "neither"), "game"),  # type: ignore[arg-type]
        (lambda: PrivacyCap(1, "replace-one", "added"), "game"),
        (lambda: PrivacyCap(1).power(float("nan")), "fpr"),
        (lambda: ReleaseGate(0, 0.5), "fpr"),
        (lambda: ReleaseGate(0.1, 0.05), "max_power"),
        (lambda: ReleaseGate(0.1, 0.5, "attack"), "basis"),  # type: ignore[arg-type]
    ],
)
def test_values_out_of_range_are_refused(make: object, match: str) -> None:
    with pytest.raises(InputError, match=match):
        make()


@pytest.mark.parametrize(
    ("epsilon", "basis", "max_power", "passes", "by"),
    [
        # sqrt(446/3000) = 0.3856: power .1036 at 0.05; e^0.2 * 0.05 = .0611; e^4 * .05 > .5.
        (None, "least", 0.11, True, "bound"),
        (None, "least", 0.10, False, "bound"),
        (0.1, "least", 0.062, True, "cap"),
        (0.1, "least", 0.061, False, "cap"),
        (2.0, "least", 0.11, True, "bound"),
        (2.0, "cap", 0.11, False, "cap"),
        (None, "cap", 0.99, False, "nothing"),
        (None, "cap", 1.0, True, "nothing"),
    ],
)
def test_the_gate_decides_by_what_its_basis_says(
    epsilon: float | None, basis: str, max_power: float, passes: bool, by: str
) -> None:
    cap = None if epsilon is None else PrivacyCap(epsilon)
    limit = TracingLimit(TracingBound(446, 3000), cap)
    decision = max_power_at_fpr(limit, ReleaseGate(0.05, max_power, basis))  # type: ignore[arg-type]
    assert (decision.passes, decision.decided_by) == (passes, by)
    assert decision.reason


@given(st.floats(1, 1e5), st.floats(1, 1e5), st.floats(0.001, 0.9))
def test_a_gate_that_passes_a_structure_passes_every_simpler_one(
    complexity: float, more: float, fpr: float
) -> None:
    gate = ReleaseGate(fpr, (1 + fpr) / 2)
    simple, rich = (TracingBound(c, 1000) for c in (complexity, complexity + more))
    if max_power_at_fpr(TracingLimit(rich), gate).passes:
        assert max_power_at_fpr(TracingLimit(simple), gate).passes


def test_every_pair_of_basis_and_limit_gives_a_power_in_range() -> None:
    for epsilon, basis in product((None, 0.0, 50.0), ("least", "cap")):
        cap = None if epsilon is None else PrivacyCap(epsilon)
        gate = ReleaseGate(0.3, 0.3, basis)  # type: ignore[arg-type]
        decision = max_power_at_fpr(TracingLimit(TracingBound(9, 10), cap), gate)
        assert 0.3 - 1e-12 <= decision.power <= 1
