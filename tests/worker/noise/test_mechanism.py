"""Release and refinement: the exact law, found by walking every branch of the sampler."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

import mpmath
import pytest

from worker.noise import mechanism
from worker.noise.mechanism import discrete_laplace, geometric, refine, release, release_refined
from worker.noise.randomness import Entropy, SystemEntropy

pytestmark = [
    pytest.mark.promise(
        "Privacy",
        "the sampler has its exact law, and refining keeps it; 10 percent either way is caught",
    ),
]

NANO = 10**9


class BranchEntropy:
    """Follows a given path of outcomes, then always the likeliest one, and notes the others."""

    def __init__(self, path: tuple[int, ...]) -> None:
        self._path = path
        self._taken: list[int] = []
        self.weight = 1.0
        self.untaken: list[tuple[float, tuple[int, ...]]] = []

    def branch(self, shares: Sequence[float]) -> int:
        """One of several outcomes of these probabilities (what they leave out is not walked)."""
        place = len(self._taken)
        if place < len(self._path):
            chosen = self._path[place]
        else:
            chosen = max(range(len(shares)), key=shares.__getitem__)
            for other, share in enumerate(shares):
                if other != chosen and share:
                    self.untaken.append((-self.weight * share, (*self._taken, other)))
        self._taken.append(chosen)
        self.weight *= shares[chosen]
        return chosen

    def uniform_below(self, n: int) -> int:
        return self.branch([1 / n] * n)

    def bernoulli(self, p: Fraction) -> bool:
        return bool(self.branch([float(1 - p), float(p)]))


ROUNDING = 1e-12
"""More than the error of adding and multiplying the doubles that weigh the branches."""


def assert_law(
    sampler: Callable[[BranchEntropy], int], pmf: Callable[[int], mpmath.mpf], *, within: float
) -> None:
    """Walk the heaviest branches of `sampler` until less than `within` is left.

    Each probability then lies between what was found and that plus what is left.
    """
    found: defaultdict[int, float] = defaultdict(float)
    waiting: list[tuple[float, tuple[int, ...]]] = [(-1.0, ())]
    missing = 1.0
    while missing > within:
        _, path = heapq.heappop(waiting)
        entropy = BranchEntropy(path)
        found[sampler(entropy)] += entropy.weight
        missing -= entropy.weight
        for branch in entropy.untaken:
            heapq.heappush(waiting, branch)
    for outcome, weight in found.items():
        assert weight - ROUNDING <= pmf(outcome) <= weight + missing + ROUNDING


@pytest.fixture
def ideal_coin(monkeypatch: pytest.MonkeyPatch) -> None:
    """exp(-p / q) in one branch; that the real coin has this law is tested by itself."""

    def coin(p: int, q: int, entropy: BranchEntropy) -> bool:
        heads = math.exp(-p / q)
        return bool(entropy.branch([1 - heads, heads]))

    monkeypatch.setattr(mechanism, "_coin_below_one", coin)


@pytest.fixture
def ideal_geometric(monkeypatch: pytest.MonkeyPatch) -> None:
    """Geometric in one branch of 40 outcomes; the real one's law is tested by itself."""

    def draw(gamma: Fraction, entropy: BranchEntropy) -> int:
        return entropy.branch(geometric_shares(gamma))

    monkeypatch.setattr(mechanism, "geometric", draw)


@cache
def geometric_shares(gamma: Fraction) -> tuple[float, ...]:
    return tuple(-math.expm1(-gamma) * math.exp(-gamma * n) for n in range(40))


def real(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def laplace_pmf(rate: Fraction) -> Callable[[int], mpmath.mpf]:
    """P(k) = tanh(rate / 2) exp(-rate abs(k))."""
    return lambda k: mpmath.tanh(real(rate) / 2) * mpmath.exp(-real(rate) * abs(k))


@pytest.mark.parametrize(
    "gamma", [Fraction(0), Fraction(1, 7), Fraction(1, 3), Fraction(2, 3), Fraction(1)]
)
def test_the_coin_is_true_with_probability_exp_minus_gamma(gamma: Fraction) -> None:
    p = mpmath.exp(-real(gamma))
    assert_law(
        lambda entropy: int(mechanism._coin_below_one(gamma.numerator, gamma.denominator, entropy)),
        lambda outcome: p if outcome else 1 - p,
        within=1e-7,
    )


@pytest.mark.parametrize("gamma", [Fraction(1, 3), Fraction(3, 2), Fraction(7, 4), Fraction(6), 2])
@pytest.mark.usefixtures("ideal_coin")
def test_geometric_has_its_exact_law(gamma: Fraction | int) -> None:
    rate = real(Fraction(gamma))
    assert_law(
        lambda entropy: geometric(gamma, entropy),
        lambda n: -mpmath.expm1(-rate) * mpmath.exp(-rate * n),
        within=1e-3,
    )


@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(3, 2), Fraction(5), 2])
@pytest.mark.usefixtures("ideal_geometric")
def test_discrete_laplace_has_its_exact_law(rate: Fraction | int) -> None:
    assert_law(
        lambda entropy: discrete_laplace(rate, entropy), laplace_pmf(Fraction(rate)), within=1e-6
    )


@pytest.mark.slow
def test_discrete_laplace_has_its_exact_law_down_to_the_last_coin() -> None:
    """The same with nothing idealised."""
    assert_law(lambda entropy: discrete_laplace(1, entropy), laplace_pmf(Fraction(1)), within=1e-3)


@pytest.mark.usefixtures("ideal_geometric")
def test_release_is_the_truth_plus_discrete_laplace_of_rate_step_times_alpha() -> None:
    """Truth 7/2 on a lattice of step 1/2 at alpha 2 per record: index 7, rate 1."""
    pmf = laplace_pmf(Fraction(1))
    assert_law(
        lambda entropy: release(
            Fraction(7, 2), step=Fraction(1, 2), alpha_nano=2 * NANO, entropy=entropy
        ),
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
    """The same probability, branch by branch as `refine`'s docstring tells it."""
    if x < 0:
        return branch_kernel(-x, -y, a1, a2)
    left = a2 * (a1 - a2) / (1 - a2**2)
    if y < 0:
        return left * (1 - a1 * a2) * (a1 * a2) ** (-y - 1)
    r = a2 / a1
    inside = (1 - r) * r**y if y <= x else Fraction(0)
    right = a1 * (a1 - a2) / (1 - a1 * a2)
    beyond = r ** (x + 1)
    if y > x:
        beyond *= right * (1 - a1 * a2) * (a1 * a2) ** (y - x - 1)
    elif y == x:
        beyond *= 1 - right
    else:
        beyond = Fraction(0)
    return (1 - left) * (inside + beyond)


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
            x, old_alpha_nano=old * NANO, new_alpha_nano=new * NANO, step=1, entropy=entropy
        ),
        lambda y: branch_kernel(x, y, a1, a2),
        within=1e-6,
    )


@pytest.mark.slow
@pytest.mark.usefixtures("ideal_geometric")
def test_release_then_refinement_walks_to_the_joint_law() -> None:
    """Old and new index of one truth, as a pair, against P(x) K(x, y)."""
    codes: dict[tuple[int, int], int] = {}
    pairs: list[tuple[int, int]] = []

    def both(entropy: Entropy) -> int:
        first = release(5, step=1, alpha_nano=2 * NANO, entropy=entropy)
        second = release_refined(
            5,
            released_index=first,
            step=1,
            old_alpha_nano=2 * NANO,
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
    """System entropy that counts the draws."""

    def __init__(self) -> None:
        self._inner = SystemEntropy()
        self.n_draws = 0

    def uniform_below(self, n: int) -> int:
        self.n_draws += 1
        return self._inner.uniform_below(n)

    def bernoulli(self, p: Fraction) -> bool:
        self.n_draws += 1
        return self._inner.bernoulli(p)


@pytest.mark.parametrize("step", [Fraction(1), Fraction(1, 2**20), Fraction(1, 3**60)])
def test_refinement_takes_few_draws_however_fine_the_lattice(step: Fraction) -> None:
    """About 50 draws on average; a loop that tossed one coin a step would take 1 / rate."""
    entropy = CountingEntropy()
    for _ in range(100):
        x = discrete_laplace(step / 1000, entropy)
        refine(x, old_alpha_nano=10**6, new_alpha_nano=2 * 10**6, step=step, entropy=entropy)
    assert entropy.n_draws < 100 * 500


@pytest.mark.parametrize("rate", [Fraction(1, 2**20 * 1000), Fraction(10**30, 7), 10**40])
def test_discrete_laplace_takes_few_draws_at_any_rate(rate: Fraction | int) -> None:
    entropy = CountingEntropy()
    for _ in range(200):
        discrete_laplace(rate, entropy)
    assert entropy.n_draws < 200 * 100
