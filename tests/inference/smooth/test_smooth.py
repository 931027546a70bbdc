"""Smooth numbers: their intervals from draws, and what is measured of their sums next."""

from __future__ import annotations

import math

import numpy as np
import pytest

from qserver.inference.arrays import FloatArray
from qserver.inference.smooth.number import Number, gradient, look
from qserver.inference.smooth.part_law import N_PAIRS, PartLaw
from qserver.inference.smooth.search import (
    next_widths,
    rough_widths,
    size_at_most,
    state_of,
    widths_at_most,
)
from qserver.records.privacy.noise_law import GAUSSIAN, LAPLACE, NoiseLaw

CONFIDENCE = 0.95
Z = 1.959963984540054
VALUES = np.arange(-10.0, 11.0)
"""Of records, about the middle of their public range."""


def _linear(parts: FloatArray) -> FloatArray:
    return np.asarray(2.0 * parts[0] - 3.0 * parts[1])


def _average(parts: FloatArray) -> FloatArray:
    with np.errstate(all="ignore"):
        return np.where(parts[1] > 0.0, parts[0] / parts[1], np.nan)


def number(
    half_width: float = 1.0,
    *,
    least: float = 1000.0,
    is_linear: bool = False,
    noise: NoiseLaw = LAPLACE,
) -> Number:
    def kinds() -> FloatArray:
        return np.array([VALUES, np.ones(len(VALUES))])

    values = _linear if is_linear else _average
    return Number(
        values,
        kinds,
        1,
        -10.0,
        10.0,
        half_width=half_width,
        confidence=CONFIDENCE,
        least=least,
        law=noise,
    )


def law(means: list[float], scales: list[float], noise: NoiseLaw = LAPLACE) -> PartLaw:
    """Of independent errors, with the half-widths that they have."""
    found = PartLaw.of_scales(np.array(means), np.array(scales), noise, seed=1)
    halves = np.array(scales) * (Z if noise is GAUSSIAN else -math.log(1.0 - CONFIDENCE))
    return PartLaw(found.means, halves, found.allowances, found.errors)


def exact_half_width(scales: tuple[float, float], missed: float) -> float:
    """h with P(abs(X) > h) = missed for a sum of two Laplace variables, by bisection."""
    a, b = max(scales), min(scales)
    low, high = 0.0, 100.0 * a
    for _ in range(60):
        h = (low + high) / 2
        tail = (a * a * math.exp(-h / a) - b * b * math.exp(-h / b)) / (a * a - b * b)
        low, high = (h, high) if tail > missed else (low, h)
    return high


def test_of_a_linear_function_it_is_the_interval_of_the_sum_of_both_errors() -> None:
    """Draws tell the ends within three percent, and they are read three percent further out."""
    found = look(number(is_linear=True), law([5.0, 7.0], [1.0, 2.0]))
    assert found.estimate == -11.0
    assert found.bend == pytest.approx(0.0, abs=1e-9)
    expected = exact_half_width((2.0, 6.0), 0.05)
    assert expected < found.half_width < 1.06 * expected


@pytest.mark.parametrize("missed", [1e-3, 1e-6])
def test_rare_misses_are_never_given_less_room_than_the_law_says(missed: float) -> None:
    known = law([5.0, 7.0], [1.0, 2.0])
    found = look(number(is_linear=True), known, missed=missed)
    expected = exact_half_width((2.0, 6.0), missed)
    assert expected < found.half_width < 1.4 * expected


def test_rare_misses_of_normal_errors_have_the_room_that_the_law_says() -> None:
    known = law([5.0, 7.0], [1.0, 2.0], GAUSSIAN)
    for missed, z in ((1e-3, 3.290526731), (1e-6, 4.891638475)):
        found = look(number(is_linear=True, noise=GAUSSIAN), known, missed=missed)
        expected = z * math.hypot(2.0, 6.0)
        assert expected < found.half_width < 1.06 * expected


def test_slopes_are_those_of_the_function() -> None:
    assert gradient(number(is_linear=True), law([5.0, 7.0], [1.0, 2.0])) == pytest.approx([2, -3])
    found = gradient(number(), law([2e4, 1e4], [10.0, 10.0]))
    assert found == pytest.approx([1e-4, -2e-4], rel=0.02)


def test_errors_whose_dependence_is_not_known_move_the_number_one_way() -> None:
    """At worst the half-widths add up."""
    scales = np.array([1.0, 2.0])
    draws = np.sort(np.abs(np.random.default_rng(1).laplace(size=2 * N_PAIRS)))
    halves = scales * -math.log(1.0 - CONFIDENCE)
    known = PartLaw(
        np.array([5.0, 7.0]), halves, np.zeros(2), np.outer(scales, draws), is_joint=False
    )
    found = look(number(is_linear=True), known)
    assert found.half_width == pytest.approx(2.0 * halves[0] + 3.0 * halves[1], rel=0.1)


def test_without_records_there_is_no_interval_and_a_small_group_is_told() -> None:
    asked = number()
    nobody = law([3.0, -40.0], [1000.0, 100.0])
    found = look(asked, nobody)
    assert (found.estimate, found.half_width) == (None, math.inf)
    most = size_at_most(asked, nobody)
    # One in two hundred is above.
    assert most == pytest.approx(-40.0 + 100.0 * math.log(100.0), rel=0.1)
    assert state_of(asked, found, size=-40.0, size_at_most=most) == "few"
    rough = law([3.0, -900.0], [4000.0, 400.0])
    far = size_at_most(asked, rough)
    # That little is known of the number of records does not make it small.
    assert state_of(asked, look(asked, rough), size=-900.0, size_at_most=far) == "open"


def test_an_exact_number_has_no_length() -> None:
    found = look(number(), law([50.0, 10.0], [0.0, 0.0]))
    assert (found.estimate, found.half_width) == (5.0, 0.0)


@pytest.mark.parametrize("noise", [LAPLACE, GAUSSIAN])
@pytest.mark.parametrize("t", [-9.0, -4.0, 4.0])
def test_what_is_measured_next_makes_the_number_as_exact_as_asked_and_not_much_more(
    t: float, noise: NoiseLaw
) -> None:
    """From a rougher look; the cost is near the least of all shares."""
    asked, n = number(0.5, noise=noise), 20_000.0
    # One step may go as far as this.
    known = law([t * n, n], [10_000.0 / noise.power, 1_000.0 / noise.power], noise)
    widths = next_widths(asked, known)
    after = law([t * n, n], (widths / asked.unit).tolist(), noise)
    assert 0.8 * asked.half_width < look(asked, after).half_width <= 1.05 * asked.half_width
    cheapest = min(
        loss(asked, size * shape)
        for shape in (np.array([1.0, 10.0 ** (k / 10)]) for k in range(-30, 31))
        for size in [_least_size(asked, [t * n, n], shape)]
    )
    assert loss(asked, widths) < 1.15**noise.power * cheapest


def _least_size(asked: Number, means: list[float], shape: FloatArray) -> float:
    """Half-widths so many times `shape` are as long as may be, by the law of two variables."""
    if asked.law is GAUSSIAN:
        both = np.array([1.0, means[0] / means[1]]) / means[1] * shape
        return asked.half_width / float(np.linalg.norm(both))
    scales = shape / asked.unit
    slopes = np.array([1.0, means[0] / means[1]]) / means[1]
    own = np.maximum(np.abs(slopes) * scales, 1e-12 * np.array([1.0, 2.0]))
    return asked.half_width / exact_half_width((float(own[0]), float(own[1])), 0.05)


def loss(asked: Number, widths: FloatArray) -> float:
    """What a record of value 10 loses, the most of all: 1 / b, or 1 / (2 s^2), by each sum."""
    if asked.law is GAUSSIAN:
        return float(((np.array([10.0, 1.0]) * Z / widths) ** 2).sum() / 2.0)
    return float((np.array([10.0, 1.0]) * -math.log(1.0 - CONFIDENCE) / widths).sum())


@pytest.mark.parametrize("noise", [LAPLACE, GAUSSIAN])
def test_no_step_raises_the_price_more_than_six_times(noise: NoiseLaw) -> None:
    asked = number(0.001, noise=noise)
    known = law([5e4, 1e4], [1_000.0, 100.0], noise)
    before, after = loss(asked, known.half_widths), loss(asked, next_widths(asked, known))
    assert 5.5 * before < after < 6.5 * before


def test_the_count_comes_first_where_it_is_not_known() -> None:
    asked = number()
    known = law([900.0, 300.0], [50_000.0, 5_000.0])
    widths = next_widths(asked, known)
    assert widths[0] == known.half_widths[0]
    assert widths[1] == pytest.approx(known.half_widths[1] / 4.0)


@pytest.mark.parametrize("noise", [LAPLACE, GAUSSIAN])
@pytest.mark.parametrize("least", [100.0, 1000.0])
def test_what_is_asked_at_most_suffices_for_so_many_records(least: float, noise: NoiseLaw) -> None:
    """Of all values alike, and of the half of them at either end."""
    asked = number(1.0, least=least, noise=noise)
    scales = (widths_at_most(asked, least) / asked.unit).tolist()
    for values in (VALUES, VALUES[VALUES < 0], VALUES[VALUES > 0]):
        means = [float(values.mean()) * least, least]
        assert look(asked, law(means, scales, noise)).half_width <= 1.05 * asked.half_width


def test_half_widths_asked_at_most_are_the_cheapest_that_add_up_to_what_is_asked() -> None:
    """Under Gaussian noise, by a search over all shares: errors are at their worst."""
    asked, least = number(0.01, noise=GAUSSIAN), 1000.0
    widths = widths_at_most(asked, least)
    half = VALUES[VALUES < 0]
    slopes = np.array([1.0, -float(half.mean())]) / least
    assert slopes @ widths == pytest.approx(asked.half_width, rel=1e-3)
    shapes = [np.array([1.0, 10.0 ** (k / 40)]) for k in range(-120, 121)]
    cheapest = min(loss(asked, one * asked.half_width / (slopes @ one)) for one in shapes)
    assert loss(asked, widths) < 1.01 * cheapest


def test_a_first_look_costs_what_the_number_of_records_says_and_not_the_length() -> None:
    for half_width in (0.01, 5.0):
        asked = number(half_width)
        for records, rate in ((2_000.0, 6e-3), (1e10, 12.0 / 64_000.0)):
            found = asked.unit / rough_widths(asked, records)
            assert found == pytest.approx([rate / 10.0, rate])


def _greatest(n: int, *, has_pieces: bool = True) -> Number:
    """The greatest of so many counts of different records."""

    def values(parts: FloatArray) -> FloatArray:
        return np.asarray(parts.max(axis=0))

    def ends(lows: FloatArray, highs: FloatArray) -> tuple[float, float]:
        return float(lows.max()), float(highs.max())

    return Number(
        values,
        lambda: np.eye(n),
        pieces=(lambda parts: parts) if has_pieces else None,
        ends=ends if has_pieces else None,
        half_width=10.0,
        confidence=CONFIDENCE,
        least=0.0,
    )


@pytest.mark.parametrize("n", [1, 64])
def test_the_greatest_of_equal_numbers_is_held_where_its_own_draws_would_miss_it(n: int) -> None:
    """They are all 0; their errors are independent, of scale 1."""
    rng, n_runs = np.random.default_rng(5), 12
    errors = PartLaw.of_scales(np.zeros(n), np.ones(n), LAPLACE, seed=1).errors
    held = dict.fromkeys((True, False), 0)
    for _ in range(n_runs):
        means = rng.laplace(size=n)
        known = PartLaw(means, np.full(n, 3.0), np.zeros(n), errors)
        for has_pieces in held:
            found = look(_greatest(n, has_pieces=has_pieces), known)
            held[has_pieces] += abs(found.estimate or 0.0) <= found.half_width
    assert held[True] >= 0.9 * n_runs
    assert n == 1 or held[False] < 0.7 * n_runs


def test_numbers_that_hold_at_once_need_their_parts_where_dependence_is_not_known() -> None:
    """The half-width of 16 Laplace variables of scale 1, each at a sixteenth of .05."""
    n = 16
    drawn = PartLaw.of_scales(np.zeros(n), np.ones(n), LAPLACE, seed=1)
    sizes = np.sort(np.abs(drawn.errors), axis=1)
    apart = PartLaw(drawn.means, drawn.half_widths, drawn.allowances, sizes, is_joint=False)
    found = look(_greatest(n), apart)
    assert 0.99 * math.log(n / 0.05) < found.half_width < 1.25 * math.log(n / 0.05)
    assert look(_greatest(n), drawn).half_width < 1.02 * found.half_width


def test_the_greatest_of_many_is_asked_at_once_as_exactly_as_it_needs() -> None:
    """16 independent errors of scale b all stay within 5.76 b with probability .95."""
    asked = _greatest(16)
    widths = widths_at_most(asked, 1.0)
    scales = widths / -math.log(0.05)
    needed = 10.0 / -math.log(1.0 - 0.95 ** (1 / 16))
    assert np.allclose(widths, widths[0])
    assert 0.85 * needed < scales[0] < needed
    known = law([0.0] * 16, scales.tolist())
    assert look(asked, known).half_width <= 10.0
    assert state_of(asked, look(asked, known), size=0.0, size_at_most=3.0) == "met"
