"""Laplace release and refinement on a lattice, exact: integers and fractions, no floats.

An answer is y = step * (truth / step + k) with k an integer drawn from the discrete Laplace law
P(k) = (1 - a) / (1 + a) * a^abs(k), a = exp(-step * alpha). A float sampler has gaps in its
low bits that reveal the truth. Here the law of k does not depend on the truth, and y is a lattice
point for every truth, so two neighbours' likelihoods differ by at most exp(alpha * abs(h)).

References:
    Canonne, Kamath and Steinke (2020), "The Discrete Gaussian for Differential Privacy",
    algorithms 1 and 2. Koufogiannis, Han and Pappas (2016), "Gradual Release of Sensitive Data
    under Differential Privacy", for the continuous refinement that `refine` makes discrete.
"""

from __future__ import annotations

from fractions import Fraction

from qserver.errors import MeasurementError, RequirementError
from qserver.records.charge import NANO
from worker.noise.randomness import Entropy

_HALF = Fraction(1, 2)


def release(
    truth: Fraction | int, *, step: Fraction | int, alpha_nano: int, entropy: Entropy
) -> int:
    """Lattice index of the noisy answer: the answer is `step` times it.

    Args:
        truth: exact answer of a primitive row, in records; a multiple of `step`.
        step: lattice step g, in records, > 0; divides every cell value of the row.
        alpha_nano: 1 / b in 1e-9 epsilon per record, an int > 0.
        entropy: source of the noise.

    Returns:
        truth / step + k, k discrete Laplace of rate step * alpha. The log-ratio of two truths
        that differ by d is at most alpha * abs(d).

    Raises:
        MeasurementError: a value is out of range or not exact, or `truth` lies off the lattice:
            the answer would reveal its residue. The error's cause names the condition and shows
            nothing of `truth`.
    """
    true_index = _true_index(truth, step)
    return true_index + discrete_laplace(_rate(step, alpha_nano, "alpha_nano"), entropy)


def release_refined(
    truth: Fraction | int,
    *,
    released_index: int,
    step: Fraction | int,
    old_alpha_nano: int,
    new_alpha_nano: int,
    entropy: Entropy,
) -> int:
    """Lattice index of an answer with less noise, correlated with the one already released.

    Together the two answers cost as much as the new one alone: the extra charge is
    `new_alpha_nano - old_alpha_nano` times abs(h). The same holds along a chain.

    Args:
        truth: exact answer of the same row on the same snapshot, in records.
        released_index: the result of `release` or of the last refinement.
        step: the lattice step of the first release, in records.
        old_alpha_nano: 1 / b of `released_index`, in 1e-9 epsilon per record.
        new_alpha_nano: the new 1 / b, greater than `old_alpha_nano`.
        entropy: source of the noise.

    Raises:
        MeasurementError: as for `release`, or the new alpha does not exceed the old one.
    """
    true_index = _true_index(truth, step)
    if type(released_index) is not int:
        raise MeasurementError from RequirementError("released_index", "be an int")
    refined = refine(
        released_index - true_index,
        old_alpha_nano=old_alpha_nano,
        new_alpha_nano=new_alpha_nano,
        step=step,
        entropy=entropy,
    )
    return true_index + refined


def refine(
    noise_index: int,
    *,
    old_alpha_nano: int,
    new_alpha_nano: int,
    step: Fraction | int,
    entropy: Entropy,
) -> int:
    """New noise, in lattice steps, drawn given the old one.

    With a1 > a2 the old and the new exp(-step * alpha), r = a2 / a1 and the old noise x >= 0
    (mirrored otherwise): with probability a2 (a1 - a2) / (1 - a2^2) it is
    -(1 + Geom(a1 a2)); else a G ~ Geom(r) is drawn and returned if G <= x; else with probability
    a1 (a1 - a2) / (1 - a1 a2) it is x + 1 + Geom(a1 a2), else x. If x is discrete Laplace of the
    old rate, the result is discrete Laplace of the new rate and x is a noisy function of it.

    Args:
        noise_index: the old noise, in steps. Private: neither it nor the result may leave.
        old_alpha_nano: 1 / b of the old noise, in 1e-9 epsilon per record.
        new_alpha_nano: 1 / b of the new noise, greater than `old_alpha_nano`.
        step: lattice step, in records.
        entropy: source of the randomness.

    Raises:
        MeasurementError: a value is out of range or no exact number.
    """
    old_rate = _rate(step, old_alpha_nano, "old_alpha_nano")
    new_rate = _rate(step, new_alpha_nano, "new_alpha_nano")
    if type(noise_index) is not int:
        raise MeasurementError from RequirementError("noise_index", "be an int")
    if new_rate <= old_rate:
        raise MeasurementError from RequirementError(
            "new_alpha_nano", "exceed `old_alpha_nano`", new_alpha_nano
        )
    if noise_index < 0:
        return -_refine_from(-noise_index, old_rate, new_rate, entropy)
    return _refine_from(noise_index, old_rate, new_rate, entropy)


def discrete_laplace(rate: Fraction | int, entropy: Entropy) -> int:
    """An integer k with probability proportional to exp(-rate * abs(k)), exactly.

    The expected work does not grow as `rate` falls.

    Args:
        rate: any exact rational > 0.
        entropy: source of the randomness.

    Raises:
        MeasurementError: `rate` is not an exact number > 0.

    References:
        Canonne, Kamath and Steinke (2020), algorithm 2.
    """
    while True:
        magnitude = geometric(rate, entropy)
        negative = entropy.bernoulli(_HALF)
        # Zero has one sign: keeping both would draw it twice too often.
        if magnitude or not negative:
            return -magnitude if negative else magnitude


def geometric(gamma: Fraction | int, entropy: Entropy) -> int:
    """An integer n >= 0 with probability (1 - exp(-gamma)) exp(-gamma n), exactly.

    With gamma = p / q: u on 0..q-1 with weight exp(-u / q), plus q times a count of exp(-1)
    successes, is geometric of 1 / q; dividing by p and rounding down makes it one of p / q.

    Args:
        gamma: any exact rational > 0.
        entropy: source of the randomness.

    Raises:
        MeasurementError: `gamma` is not an exact number > 0.
    """
    exact = _positive(gamma, "gamma")
    q = exact.denominator
    fine = entropy.uniform_below(q)
    while not _coin_below_one(fine, q, entropy):
        fine = entropy.uniform_below(q)
    coarse = 0
    while _coin_below_one(1, 1, entropy):
        coarse += 1
    return (fine + q * coarse) // exact.numerator


def _coin_below_one(p: int, q: int, entropy: Entropy) -> bool:
    """exp(-p / q) for 0 <= p <= q: the alternating series, read as the parity of a run of coins."""
    k = 1
    while entropy.bernoulli(Fraction(p, q * k)):
        k += 1
    return k % 2 == 1


def _refine_from(x: int, old_rate: Fraction, new_rate: Fraction, entropy: Entropy) -> int:
    """`refine` for x >= 0."""
    both, gap = old_rate + new_rate, new_rate - old_rate
    if _first_lasts_longer(both, gap, entropy):
        return -(1 + geometric(both, entropy))
    inside = geometric(gap, entropy)
    if inside <= x:
        return inside
    if _first_lasts_longer(2 * old_rate, gap, entropy):
        return x + 1 + geometric(both, entropy)
    return x


def _first_lasts_longer(first: Fraction, second: Fraction, entropy: Entropy) -> bool:
    """True with probability A (1 - B) / (1 - A B), A = exp(-first), B = exp(-second).

    Two geometric runs race. Tossing their coins in turn would give the same law in 1 / rate
    tosses, which a fine lattice makes billions; drawing both lengths is O(1).
    """
    return geometric(first, entropy) > geometric(second, entropy)


def _true_index(truth: Fraction | int, step: Fraction | int) -> int:
    exact_step = _positive(step, "step")
    index = _exact(truth, "truth") / exact_step
    if index.denominator != 1:
        raise MeasurementError from RequirementError("truth", "be a multiple of `step`")
    return index.numerator


def _rate(step: Fraction | int, alpha_nano: int, name: str) -> Fraction:
    if type(alpha_nano) is not int or alpha_nano <= 0:
        raise MeasurementError from RequirementError(name, "be an int > 0", alpha_nano)
    return _positive(step, "step") * alpha_nano / NANO


def _positive(value: Fraction | int, name: str) -> Fraction:
    exact = _exact(value, name)
    if exact.numerator <= 0:
        raise MeasurementError from RequirementError(name, "be > 0")
    return exact


def _exact(value: Fraction | int, name: str) -> Fraction:
    # Exact types only: a bool is a mistake, and a float has lost the digits that matter here.
    if type(value) is Fraction:
        return value
    if type(value) is int:
        return Fraction(value)
    raise MeasurementError from RequirementError(name, "be an int or a Fraction")
