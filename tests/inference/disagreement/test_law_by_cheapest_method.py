"""The law of an error given the public disagreements."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from qserver.errors import EvaluationError
from qserver.inference.disagreement.known_sums import KnownSums, Reduced, normal_law
from qserver.inference.disagreement.law_by_cheapest_method import law_given, laws_given
from qserver.inference.disagreement.mixture import MOST_FEW, mixtures
from qserver.inference.disagreement.normal_law_given_sums import Cavity
from qserver.inference.disagreement.table_of_law import TableOfLaw
from qserver.inference.disagreement.which_errors_are_normal import Parts
from qserver.inference.law.laplace_sum import LaplaceSum
from tests.inference.disagreement.references import (
    TWO_HALVES,
    Design,
    cdf_by_grid,
    errors_by_chain,
    ranges,
    repeated,
)
from tests.sweeps import n_of, share

GRID = 5e-4
"""Error of the grid, of steps of .025."""


def _law(known: KnownSums, *, enough: float = 4e-3) -> tuple[float, TableOfLaw]:
    given = known.reduced()
    return float(given.shift), law_given(given, enough=enough)


@pytest.mark.slow
@pytest.mark.parametrize("design", [TWO_HALVES, repeated(2), repeated(7)])
@pytest.mark.parametrize("seed", share(range(4), 1))
@pytest.mark.parametrize("enough", [4e-3, 1e-3])
def test_small_histories_agree_with_a_grid(design: Design, seed: int, enough: float) -> None:
    errors = design.errors(np.random.default_rng(seed))
    shift, law = _law(design.known(errors), enough=enough)
    assert law.largest_error <= enough
    places = shift + np.linspace(-6.0, 6.0, 61)
    expected = cdf_by_grid(design, errors, places)
    found = np.array([law.cdf(x - shift) for x in places])
    assert np.abs(found - expected).max() < law.largest_error + GRID
    wide = shift + np.linspace(-30.0, 30.0, 2001)
    mean = wide[-1] - np.trapezoid(cdf_by_grid(design, errors, wide), wide)
    assert law.mean + shift == pytest.approx(mean, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "n_rows", "seed"), [(8, 14, 1), (12, 30, 2), (20, 30, 3)])
def test_larger_histories_agree_with_long_chains(n: int, n_rows: int, seed: int) -> None:
    """80,000 draws of 2,000 chains: their frequencies lie within .008."""
    design = ranges(n, n_rows, seed=seed)
    errors = design.errors(np.random.default_rng(seed))
    shift, law = _law(design.known(errors))
    drawn = np.sort(errors_by_chain(design, errors, n_chains=2000, n_sweeps=40))
    places = np.quantile(drawn, np.linspace(0.01, 0.99, 50))
    found = np.array([law.cdf(x - shift) for x in places])
    expected = np.searchsorted(drawn, places) / len(drawn)
    assert np.abs(found - expected).max() < law.largest_error + 0.008


def test_more_points_reach_a_smaller_error() -> None:
    design = ranges(12, 30, seed=2)
    given = design.known(design.errors(np.random.default_rng(2))).reduced()
    assert law_given(given, enough=1e-3).largest_error <= law_given(given).largest_error


@pytest.mark.slow
def test_intervals_cover_as_stated_given_what_disagrees() -> None:
    """Draws of three answers: misses are at most those stated, plus 4 standard errors.

    The interval of the estimate's law covers as often in the mean, but not where answers disagree
    much: of 4,000 draws, the tenth that disagree most misses nearly twice as many as stated.
    """
    n, confidences = n_of(300, share=100), np.array([0.5, 0.95, 0.999])
    rng = np.random.default_rng(8)
    missed, sizes = np.zeros((n, 3)), np.zeros(n)
    for i in range(n):
        errors = TWO_HALVES.errors(rng)
        known = TWO_HALVES.known(errors)
        shift, law = _law(known, enough=1.0)
        error = TWO_HALVES.weights @ errors - shift
        for j, confidence in enumerate(confidences):
            ends = law.shortest(confidence)
            missed[i, j] = not ends.low <= error <= ends.high
        sizes[i] = abs(known.values[0])
    tails = 1.0 - confidences
    for chosen in (sizes > np.quantile(sizes, 5 / 6), sizes <= np.quantile(sizes, 5 / 6)):
        assert (missed[chosen].mean(axis=0) <= tails + 4.0 * np.sqrt(tails / chosen.sum())).all()
    half = LaplaceSum(np.abs(TWO_HALVES.weights) * TWO_HALVES.scales).half_width(0.95)
    drawn = np.array([TWO_HALVES.errors(rng) for _ in range(4000)])
    sizes = np.abs([TWO_HALVES.known(errors).values[0] for errors in drawn])
    outside = np.abs(drawn @ TWO_HALVES.weights) > half
    assert outside[sizes > np.quantile(sizes, 0.9)].mean() > 1.7 * 0.05


@pytest.mark.parametrize("n_histories", [None, 2])
def test_answers_that_contradict_each_other_have_no_law(n_histories: int | None) -> None:
    """Sixteen such laws were off by .26 to 1 and stated 1e-4 to .06."""
    design = ranges(12, 30, seed=2)
    errors = design.errors(np.random.default_rng(2))
    given = design.known(errors).reduced()
    contradicting = replace(given, values=100.0 * given.values, normal=None)
    if n_histories is None:
        law_given(given)
        with pytest.raises(EvaluationError):
            law_given(contradicting)
    else:
        both = replace(given, values=np.array([given.values, contradicting.values]), normal=None)
        with pytest.raises(EvaluationError):
            laws_given(both)


def test_what_does_not_bear_on_the_query_changes_nothing() -> None:
    """Two pairs of counts: the law of the first is that of its own rows alone, to the last bit."""
    errors = np.array([0.3, -2.0, 5.0, 1.0])
    alone = KnownSums(np.array([0.5, 0.5]), np.array([[1.0, -1.0]]), np.array([2.3]))
    sums = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]])
    both = KnownSums(np.array([0.5, 0.5, 0.0, 0.0]), sums, sums @ errors)
    first, second = alone.reduced(), both.reduced()
    assert second.n_disagreements == 1
    assert law_given(first).shortest(0.9) == pytest.approx(law_given(second).shortest(0.9))


def test_a_law_is_the_same_each_time() -> None:
    design = ranges(12, 30, seed=2)
    known = design.known(design.errors(np.random.default_rng(2)))
    first, second = _law(known)[1], _law(known)[1]
    assert (first.below == second.below).all()


def test_dependent_sums_count_once() -> None:
    known = KnownSums(
        np.array([0.5, 0.5]), np.array([[1.0, -1.0], [2.0, -2.0]]), np.array([1, 2.0])
    )
    assert known.reduced().n_disagreements == 1


def test_many_independent_errors_become_one_normal_error_with_a_stated_bound() -> None:
    """A thousand small errors beside a disagreement: the law is that of all, within the bound."""
    known = TWO_HALVES.known(np.array([1.0, -1.0, 0.5]))
    many = known.with_independent(np.full(1000, 0.01))
    given = many.reduced()
    assert len(given.rest) == 900
    variance = 2.0 * 1000 * 0.01**2
    alone, together = law_given(known.reduced()), law_given(given)
    half = 0.5 * np.diff(alone.places[[0, -1]])[0]
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    for x in np.linspace(-0.3, 0.3, 7) * half:
        expected = (
            sum(
                w * alone.cdf(x - np.sqrt(variance) * t)
                for t, w in zip(nodes, weights, strict=True)
            )
            / weights.sum()
        )
        assert abs(together.cdf(x) - expected) < together.largest_error + alone.largest_error


@pytest.mark.parametrize("count", [2, 7, 60, 5_000])
@pytest.mark.parametrize("known_sum", [0.3, -4.0, 7.0])
def test_sums_of_laplace_errors_agree_with_a_grid(count: int, known_sum: float) -> None:
    """One Laplace error and a sum of several, of which the difference is known."""
    known = KnownSums(
        np.array([0.8, 0.2]),
        np.array([[1.0, -1.0]]),
        np.array([known_sum]),
        np.array([1.0, count]),
    )
    shift, law = _law(known, enough=1e-3)
    u = np.linspace(-40.0, 40.0, 1 << 16, endpoint=False)
    # The density of the sum, by its characteristic function on the same grid.
    frequencies = 2.0 * np.pi * np.fft.fftfreq(len(u), u[1] - u[0])
    characteristic = (1.0 + np.square(frequencies) / count) ** -float(count)
    density = np.fft.fftshift(np.fft.ifft(characteristic).real)
    joint = np.maximum(np.interp(u - known_sum, u, density), 0.0) * np.exp(-np.abs(u))
    error = 0.8 * u + 0.2 * (u - known_sum)
    masses = np.cumsum(joint) / joint.sum()
    for place in np.quantile(error, np.linspace(0.3, 0.7, 41)):
        expected = np.interp(place, error, masses)
        assert abs(law.cdf(float(place) - shift) - expected) < law.largest_error + GRID


@pytest.mark.parametrize("count", [1, 3, 400])
def test_an_error_without_known_sums_has_the_moments_of_its_count(count: int) -> None:
    errors = Cavity(np.zeros(1), np.array([1e4]), np.array([float(count)]))
    mean, variance = errors.with_factors()
    skewness, kurtosis = errors.shapes()
    assert mean == pytest.approx(0.0, abs=1e-6)
    assert variance == pytest.approx(2.0, rel=1e-3)
    assert skewness == pytest.approx(0.0, abs=1e-6)
    assert kurtosis == pytest.approx(3.0 / count, rel=0.02)


def by_all_errors(known: Reduced) -> TableOfLaw:
    """The law by points for the variances of all errors, however little they bear on W."""
    every = np.arange(len(known.counts))
    (found,) = mixtures(known, normal_law(known), every, (4096,))
    return found.table(left_out=0.0)


def a_cell(n: int, rng: np.random.Generator) -> KnownSums:
    """A cell, the rest of its row and its column, and the rest of a table, beside both margins.

    Args:
        n: cells of the rest of the row; there are as many of the column, and n^2 others.
    """
    counts = np.array([1.0, n, n, n * n, 1.0, n, 1.0, n])
    rows = np.array(
        [
            *np.eye(4),
            [1, 1, 0, 0],
            [0, 0, 1, 1],
            [1, 0, 1, 0],
            [0, 1, 0, 1],
        ]
    )
    scales = np.sqrt(counts) * np.array([1.0] * 4 + [1.2] * 2 + [2.0] * 2)
    return Design(rows, scales, rows[0]).known_with(counts, rng)


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 3, 12, 74])
def test_where_few_errors_matter_it_is_as_if_all_did(n: int) -> None:
    """Also where answers disagree twice as much as they do by chance."""
    rng = np.random.default_rng(n)
    for spread in (1.0, 1.0, 2.0):
        drawn = a_cell(n, rng)
        given = replace(drawn, values=spread * drawn.values).reduced()
        found, expected = law_given(given), by_all_errors(given)
        off = [abs(found.cdf(x) - p) for x, p in zip(expected.places, expected.below, strict=True)]
        assert max(off) < found.largest_error + expected.largest_error


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_where_many_errors_matter_little_few_are_as_good_as_all(seed: int) -> None:
    design = ranges(40, 60, seed=seed)
    given = design.known(design.errors(np.random.default_rng(seed))).reduced()
    normal = normal_law(given)
    (parts,) = Parts.of_several(given, normal)
    assert len(parts.in_order(1e-4)[0]) > MOST_FEW >= len(parts.in_order(5e-4)[0])
    found, order = law_given(given), np.sort(parts.in_order(1e-5)[0])
    (drawn,) = mixtures(given, normal, order, (4096,))
    expected = drawn.table(left_out=0.0)
    off = [abs(found.cdf(x) - p) for x, p in zip(expected.places, expected.below, strict=True)]
    assert max(off) < found.largest_error + expected.largest_error


@pytest.mark.parametrize("n", [2, 74])
def test_laws_of_histories_that_differ_in_answers_alone_are_those_of_each(n: int) -> None:
    rng = np.random.default_rng(n)
    each = [a_cell(n, rng).reduced() for _ in range(5)]
    found = laws_given(replace(each[0], values=np.array([one.values for one in each]), normal=None))
    for one, law in zip(each, found, strict=True):
        alone = law_given(one)
        off = [abs(law.cdf(x) - alone.cdf(x)) for x in np.linspace(-5.0, 5.0, 21)]
        assert max(off) < 1e-5
