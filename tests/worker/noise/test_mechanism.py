"""Release and refinement: the exact law, found by walking every branch of the sampler."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from qserver.errors import MeasurementError
from tests.worker.noise.branches import BranchEntropy, Script, assert_law, real
from worker.noise import mechanism, randomness
from worker.noise.geometric import RATE_BITS
from worker.noise.mechanism import (
    _kept,
    discrete_gaussian,
    discrete_laplace,
    refine,
    release,
    release_refined,
)
from worker.noise.randomness import Entropy, SystemEntropy

pytestmark = [
    pytest.mark.promise(
        "Privacy",
        "the sampler has its exact law, and refining keeps it; 10 percent either way is caught",
    ),
]

NANO = 10**9

Ints = NDArray[np.int64]


@pytest.fixture
def ideal_geometric(monkeypatch: pytest.MonkeyPatch) -> None:
    """Geometric in one branch of 40 outcomes, and words of one bit: signs.

    The law of the real ones is tested by itself, in `test_geometric`.
    """

    def draw(rates: Sequence[Fraction], entropy: BranchEntropy) -> list[int]:
        return [entropy.branch(geometric_shares(rate)) for rate in rates]

    monkeypatch.setattr(mechanism, "geometrics", draw)
    monkeypatch.setattr(randomness, "WORD_BITS", 1)


@cache
def geometric_shares(gamma: Fraction) -> tuple[float, ...]:
    return tuple(-math.expm1(-gamma) * math.exp(-gamma * n) for n in range(40))


def laplace_pmf(rate: Fraction) -> Callable[[int], mpmath.mpf]:
    """P(k) = tanh(rate / 2) exp(-rate abs(k))."""
    return lambda k: mpmath.tanh(real(rate) / 2) * mpmath.exp(-real(rate) * abs(k))


@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(3, 2), Fraction(5), 2])
@pytest.mark.usefixtures("ideal_geometric")
def test_discrete_laplace_has_its_exact_law(rate: Fraction | int) -> None:
    assert_law(
        lambda entropy: discrete_laplace(rate, 1, entropy)[0],
        laplace_pmf(Fraction(rate)),
        within=1e-6,
    )


def gaussian_pmf(variance: Fraction) -> Callable[[int], mpmath.mpf]:
    """P(k) proportional to exp(-k^2 / (2 variance))."""
    weights = [mpmath.exp(-real(Fraction(k * k)) / (2 * real(variance))) for k in range(60)]
    total = weights[0] + 2 * sum(weights[1:])
    return lambda k: weights[abs(k)] / total if abs(k) < len(weights) else mpmath.mpf(0)


def kept_law(
    variance: Fraction | int, monkeypatch: pytest.MonkeyPatch
) -> Callable[[int], mpmath.mpf]:
    """The law of one draw, from what the sampler tries and how surely it keeps each try.

    A rate r keeps a try with probability exp(-r), and lies between its bounds. The tries are drawn
    independently until one is kept.
    """
    tries, asked, noted = list(range(-60, 61)), list[Fraction](), list[Fraction]()

    def tried(rate: Fraction, n: int, entropy: Entropy) -> list[int]:
        assert n == len(tries)
        noted.append(rate)
        return tries

    def outlasting(
        least: NDArray[np.int64],
        most: NDArray[np.int64],
        rate: Callable[[int], Fraction],
        _: Entropy,
    ) -> list[bool]:
        asked.extend(map(rate, range(len(least))))
        for low, high, exact in zip(least.tolist(), most.tolist(), asked, strict=True):
            assert low <= exact * 2**RATE_BITS <= high
        return [True] * len(least)

    monkeypatch.setattr(mechanism, "discrete_laplace", tried)
    monkeypatch.setattr(mechanism, "outlast", outlasting)
    # Half as many more are tried as are asked for.
    assert discrete_gaussian(variance, 81, SystemEntropy()) == tries[:81]
    (rate,) = noted
    proposed = laplace_pmf(rate)
    weights = {k: proposed(k) * mpmath.exp(-real(r)) for k, r in zip(tries, asked, strict=True)}
    total = sum(weights.values())
    return lambda k: weights[k] / total


@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(1), Fraction(9, 4), 2, 30])
def test_discrete_gaussian_has_its_exact_law(
    variance: Fraction | int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At variances 2 and 30 a try of one and of five steps is kept surely."""
    right, found = gaussian_pmf(Fraction(variance)), kept_law(variance, monkeypatch)
    wrong = gaussian_pmf(Fraction(variance) * Fraction(10**6 + 1, 10**6))
    assert all(abs(found(k) - right(k)) < 1e-14 for k in range(-50, 51))
    assert any(abs(found(k) - wrong(k)) > 1e-9 for k in range(-50, 51))


def test_tries_are_drawn_until_enough_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """At variance 2, of scale 2, tries of one step have rate 0; the others are not kept here."""
    rounds = iter([[-1, 0, 1, 2], [1, 1, 1]])
    monkeypatch.setattr(mechanism, "discrete_laplace", lambda *_: next(rounds))
    monkeypatch.setattr(
        mechanism, "outlast", lambda least, most, rate, _: [not rate(i) for i in range(len(least))]
    )
    assert discrete_gaussian(2, 4, SystemEntropy()) == [-1, 1, 1, 1]


@pytest.mark.parametrize(
    ("variance", "y"), [(Fraction(9, 4), 0), (Fraction(1, 3), 0), (2, 2), (10**30 + 7, 19 * 10**14)]
)
def test_a_try_is_kept_by_the_exact_rate_however_near_the_words_come(
    variance: Fraction | int, y: int
) -> None:
    """Numbers below and above the rate, by a last bit of two words and by units of its bounds.

    Each is less than 1, as the first number drawn after it is larger.
    """
    exact = Fraction(variance)
    scale = math.isqrt(int(exact)) + 1
    rate = (y - exact / scale) ** 2 / (2 * exact)
    edge = int(rate * 2**128)
    offsets = [side * d << b for side in (-1, 1) for d in (1, 2, 3, 5) for b in (0, 64, 101, 103)]
    numbers = [edge + offset for offset in [0, *offsets]]
    for number in numbers:
        words = [number >> 64, 2**64 - 1, number % 2**64, *[0] * 9]
        kept = _kept([y], scale, exact / scale**2, Script(iter(words)))
        assert kept == [number >= rate * 2**128], number - edge


@pytest.mark.usefixtures("ideal_geometric")
def test_release_is_the_truth_plus_discrete_laplace_of_rate_step_times_alpha() -> None:
    """Truth 7/2 on a lattice of step 1/2 at alpha 2 per record: index 7, rate 1."""
    pmf = laplace_pmf(Fraction(1))
    assert_law(
        lambda entropy: release(
            [Fraction(7, 2)], step=Fraction(1, 2), alpha_nano=2 * NANO, entropy=entropy
        )[0],
        lambda index: pmf(index - 7),
        within=1e-6,
    )


def kernel(x: int, y: int, a1: Fraction, a2: Fraction) -> Fraction:
    """P(new noise = y | old noise = x) when the old and new laws go as a1^abs(k), a2^abs(k).

    By Bayes from the identity DLap(a1) = DLap(a2) + Z, Z = 0 with probability
    w = (a2 / a1) ((1 - a1) / (1 - a2))^2 and else DLap(a1): another route than the sampler's.
    """
    w = a2 / a1 * ((1 - a1) / (1 - a2)) ** 2
    gap = (1 - w) * pmf_of(x - y, a1) + (w if x == y else 0)
    return pmf_of(y, a2) * gap / pmf_of(x, a1)


def pmf_of(k: int, a: Fraction) -> Fraction:
    return (1 - a) / (1 + a) * a ** abs(k)


def branch_kernel(x: int, y: int, a1: Fraction, a2: Fraction) -> Fraction:
    """The same probability, branch by branch as `refine`'s docstring tells it.

    D = G - H of geometric G, H has P(D = d) = (1-r)(1-s)/(1-rs) times r^d for d >= 0 and else s^-d.
    """
    if x < 0:
        return branch_kernel(-x, -y, a1, a2)
    r, s = a2 / a1, a1 * a2
    peak = (1 - r) * (1 - s) / (1 - r * s)
    within = peak * (r**y if y >= 0 else s**-y) if y <= x else Fraction(0)
    beyond = peak * r ** (x + 1) / (1 - r)
    right = a1 * (a1 - a2) / (1 - s)
    if y > x:
        return beyond * right * (1 - s) * s ** (y - x - 1)
    return within + (beyond * (1 - right) if y == x else 0)


RATIONAL_PAIRS = [
    (Fraction(1, 2), Fraction(1, 3)),
    (Fraction(99, 100), Fraction(49, 50)),
    (Fraction(9, 10), Fraction(1, 100)),
]


@pytest.mark.parametrize(("a1", "a2"), RATIONAL_PAIRS)
def test_the_documented_branches_are_bayes_of_the_identity_behind_them(
    a1: Fraction, a2: Fraction
) -> None:
    for x, y in itertools.product(range(-8, 9), repeat=2):
        assert branch_kernel(x, y, a1, a2) == kernel(x, y, a1, a2)


@pytest.mark.parametrize(("a1", "a2"), RATIONAL_PAIRS)
def test_refined_noise_is_exactly_discrete_laplace_of_the_new_rate(
    a1: Fraction, a2: Fraction
) -> None:
    """The sum over every old noise: outside abs(y) the kernel no longer depends on it."""
    for y in range(-6, 7):
        edge = abs(y) + 1
        near = sum(pmf_of(x, a1) * branch_kernel(x, y, a1, a2) for x in range(1 - edge, edge))
        tail = a1**edge / (1 + a1)  # P(x >= edge)
        far = sum(branch_kernel(side * edge, y, a1, a2) for side in (-1, 1)) * tail
        assert branch_kernel(edge, y, a1, a2) == branch_kernel(edge + 9, y, a1, a2)
        assert near + far == pmf_of(y, a2)


@pytest.mark.parametrize(("a1", "a2"), RATIONAL_PAIRS)
def test_both_answers_together_cost_what_the_refined_one_costs(a1: Fraction, a2: Fraction) -> None:
    """Truths `shift` steps apart: the joint likelihood ratio is at most a2^-shift, and reaches it.

    Not a1^-shift a2^-shift, which is what two independent answers would cost.
    """
    for shift in (1, 3):
        ratios = [
            pmf_of(x, a1)
            * branch_kernel(x, y, a1, a2)
            / (pmf_of(x - shift, a1) * branch_kernel(x - shift, y - shift, a1, a2))
            for x, y in itertools.product(range(-7, 10), repeat=2)
        ]
        assert max(ratios) == a2**-shift
        assert min(ratios) == a2**shift


def test_a_chain_of_three_costs_what_its_last_answer_costs() -> None:
    """Exact fractions over a box of (first, second, third) answers, truths one and two apart."""
    a1, a2, a3 = Fraction(4, 5), Fraction(3, 4), Fraction(1, 3)

    def joint(x: int, y: int, z: int) -> Fraction:
        return pmf_of(x, a1) * branch_kernel(x, y, a1, a2) * branch_kernel(y, z, a2, a3)

    for shift in (1, 2):
        ratios = [
            joint(x, y, z) / joint(x - shift, y - shift, z - shift)
            for x, y, z in itertools.product(range(-4, 7), repeat=3)
        ]
        assert max(ratios) == a3**-shift
        assert min(ratios) == a3**shift


@pytest.mark.parametrize("x", [-2, 0, 1, 3])
@pytest.mark.parametrize(("old", "new"), [(1, 4), (3, 4)])
@pytest.mark.usefixtures("ideal_geometric")
def test_refine_walks_to_the_documented_law(x: int, old: int, new: int) -> None:
    """Every branch of the code itself, against the kernel at a = exp(-rate)."""
    a1, a2 = mpmath.exp(-old), mpmath.exp(-new)
    assert_law(
        lambda entropy: refine(
            [x], old_alphas_nano=[old * NANO], new_alpha_nano=new * NANO, step=1, entropy=entropy
        )[0],
        lambda y: branch_kernel(x, y, a1, a2),
        within=1e-3,
    )


@pytest.mark.slow
@pytest.mark.usefixtures("ideal_geometric")
def test_release_then_refinement_walks_to_the_joint_law() -> None:
    """Old and new index of one truth, as a pair, against P(x) K(x, y)."""
    codes: dict[tuple[int, int], int] = {}
    pairs: list[tuple[int, int]] = []

    def both(entropy: Entropy) -> int:
        (first,) = release([5], step=1, alpha_nano=2 * NANO, entropy=entropy)
        (second,) = release_refined(
            [5],
            released=[first],
            step=1,
            old_alphas_nano=[2 * NANO],
            new_alpha_nano=3 * NANO,
            entropy=entropy,
        )
        pair = (first - 5, second - 5)
        if pair not in codes:
            codes[pair] = len(pairs)
            pairs.append(pair)
        return codes[pair]

    pmf = laplace_pmf(Fraction(2))
    a1, a2 = mpmath.exp(-2), mpmath.exp(-3)
    assert_law(
        both,
        lambda code: pmf(pairs[code][0]) * branch_kernel(*pairs[code], a1, a2),
        within=1e-4,
    )


class CountingEntropy:
    """System entropy that counts the words."""

    def __init__(self) -> None:
        self._inner = SystemEntropy()
        self.n_words = 0

    def words(self, n: int) -> NDArray[np.uint64]:
        self.n_words += n
        return self._inner.words(n)


@pytest.mark.parametrize("step", [Fraction(1), Fraction(1, 2**20), Fraction(1, 3**60)])
def test_refinement_takes_few_words_however_fine_the_lattice(step: Fraction) -> None:
    """About 27 words on average; a loop that tossed one coin a step would take 1 / rate."""
    entropy = CountingEntropy()
    old = discrete_laplace(step / 1000, 100, entropy)
    refine(
        old,
        old_alphas_nano=[10**6] * 100,
        new_alpha_nano=2 * 10**6,
        step=step,
        entropy=entropy,
    )
    assert entropy.n_words < 100 * 100


@pytest.mark.parametrize("rate", [Fraction(1, 2**20 * 1000), Fraction(10**30, 7), 10**40])
def test_discrete_laplace_takes_few_words_at_any_rate(rate: Fraction | int) -> None:
    """Where the rate is large nearly all are 0, of which half are drawn again."""
    entropy = CountingEntropy()
    discrete_laplace(rate, 200, entropy)
    assert entropy.n_words < 200 * 40


@pytest.mark.parametrize("variance", [Fraction(1, 2**40), Fraction(5), 10**40])
def test_discrete_gaussian_takes_few_words_at_any_variance(variance: Fraction | int) -> None:
    entropy = CountingEntropy()
    discrete_gaussian(variance, 200, entropy)
    assert entropy.n_words < 200 * 60


@pytest.mark.parametrize("n", [0, 1, 40])
def test_as_many_are_drawn_as_are_asked_for(n: int) -> None:
    for size in (Fraction(1, 1000), 1, 40):
        assert len(discrete_laplace(size, n, SystemEntropy())) == n
        assert len(discrete_gaussian(size, n, SystemEntropy())) == n


@pytest.mark.parametrize("variance", [0, -1, 0.5, True])
def test_a_variance_that_is_no_exact_number_above_0_is_refused(variance: Fraction) -> None:
    with pytest.raises(MeasurementError):
        discrete_gaussian(variance, 1, SystemEntropy())


def test_each_of_many_is_refined_from_its_own_noise_and_alpha() -> None:
    """Alphas that hardly rise leave nearly all noise as it is; one that rises far leaves little."""
    old = [10**12, -(10**12), 3 * 10**12, -5]
    found = refine(
        old,
        old_alphas_nano=[10**15 - 1, 10**15 - 1, 10**15 - 1, 1],
        new_alpha_nano=10**15,
        step=Fraction(1, 10**18),
        entropy=SystemEntropy(),
    )
    assert found[:3] == old[:3]
