"""Release and refinement on a lattice, exact: integers and fractions, no floats.

An answer is y = step * (truth / step + k) with k an integer drawn from the discrete Laplace law
P(k) = (1 - a) / (1 + a) * a^abs(k), a = exp(-step * alpha). A float sampler has gaps in its
low bits that reveal the truth. Here the law of k does not depend on the truth, and y is a lattice
point for every truth, so two neighbours' likelihoods differ by at most exp(alpha * abs(h)).

All answers of a table are drawn together.

References:
    Canonne, Kamath and Steinke (2020), "The Discrete Gaussian for Differential Privacy", for the
    law. Koufogiannis, Han and Pappas (2016), "Gradual Release of Sensitive Data under Differential
    Privacy", for the continuous refinement that `refine` makes discrete.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import compress
from math import isqrt

import numpy as np

from qserver.errors import MeasurementError, RequirementError
from qserver.records.charge import NANO
from worker.noise import randomness
from worker.noise.geometric import RATE_BITS, geometrics, outlast
from worker.noise.randomness import Entropy

_W_BITS = 27
_FAR = 1 << 31
_NO_BOUND = 1 << 62


def release(
    truths: Sequence[Fraction | int],
    *,
    step: Fraction | int,
    alpha_nano: int,
    entropy: Entropy,
) -> list[int]:
    """Lattice indices of the noisy answers: each answer is `step` times its index.

    Args:
        truths: exact answers of primitive rows, in records; multiples of `step`.
        step: lattice step g, in records, > 0; divides every cell value of the rows.
        alpha_nano: 1 / b in 1e-9 epsilon per record, an int > 0.
        entropy: source of the noise.

    Returns:
        truth / step + k for each, k independent and discrete Laplace of rate step * alpha. The
        log-ratio of two truths that differ by d is at most alpha * abs(d).

    Raises:
        MeasurementError: a value is out of range or not exact, or a truth lies off the lattice:
            the answer would reveal its residue. The error's cause names the condition and shows
            nothing of the truths.
    """
    true_indices = _true_indices(truths, step)
    rate = _rate(step, alpha_nano, "alpha_nano")
    noise = discrete_laplace(rate, len(true_indices), entropy)
    return [index + k for index, k in zip(true_indices, noise, strict=True)]


def release_gaussian(
    truths: Sequence[Fraction | int],
    *,
    step: Fraction | int,
    rho_nano: int,
    entropy: Entropy,
) -> list[int]:
    """As `release`, with discrete Gaussian noise.

    Args:
        rho_nano: of zero-concentrated privacy in 1e-9 per squared record, an int > 0.

    Returns:
        truth / step + k for each, k independent and of weights exp(-(step k)^2 rho). Two truths
        that differ by d are told apart by rho d^2.

    Raises:
        MeasurementError: as for `release`.
    """
    true_indices = _true_indices(truths, step)
    rate = _positive(step, "step") * _rate(step, rho_nano, "rho_nano")
    noise = discrete_gaussian(1 / (2 * rate), len(true_indices), entropy)
    return [index + k for index, k in zip(true_indices, noise, strict=True)]


def release_refined(
    truths: Sequence[Fraction | int],
    *,
    released: Sequence[int],
    step: Fraction | int,
    old_alphas_nano: Sequence[int],
    new_alpha_nano: int,
    entropy: Entropy,
) -> list[int]:
    """Lattice indices of answers with less noise, correlated with those already released.

    Together the two answers of a row cost as much as the new one alone: the extra charge is
    the rise of alpha times abs(h). The same holds along a chain.

    Args:
        truths: exact answers of the same rows on the same snapshot, in records.
        released: per row the result of `release` or of the last refinement.
        step: the lattice step of the first release, in records.
        old_alphas_nano: per row 1 / b of what was released, in 1e-9 epsilon per record.
        new_alpha_nano: the new 1 / b, greater than each old one.
        entropy: source of the noise.

    Raises:
        MeasurementError: as for `release`, or the new alpha does not exceed an old one.
    """
    true_indices = _true_indices(truths, step)
    if not all(type(index) is int for index in released):
        raise MeasurementError from RequirementError("released", "be ints")
    noise = [index - true for index, true in zip(released, true_indices, strict=True)]
    refined = refine(
        noise,
        old_alphas_nano=old_alphas_nano,
        new_alpha_nano=new_alpha_nano,
        step=step,
        entropy=entropy,
    )
    return [index + k for index, k in zip(true_indices, refined, strict=True)]


def refine(
    noise: Sequence[int],
    *,
    old_alphas_nano: Sequence[int],
    new_alpha_nano: int,
    step: Fraction | int,
    entropy: Entropy,
) -> list[int]:
    """New noise, in lattice steps, each drawn given the old one and independent of all others.

    Let a1 > a2 be the old and the new exp(-step * alpha), and x >= 0 the old noise (mirrored
    otherwise). The new noise is D = Geom(a2 / a1) - Geom(a1 a2) where D <= x; else with probability
    a1 (a1 - a2) / (1 - a1 a2) it is x + 1 + Geom(a1 a2), else x. If x is discrete Laplace of the
    old rate, the result is discrete Laplace of the new rate and x is a noisy function of it.

    Args:
        noise: the old noise, in steps. Private: neither it nor the result may leave.
        old_alphas_nano: 1 / b of each, in 1e-9 epsilon per record.
        new_alpha_nano: 1 / b of the new noise, greater than each old one.
        step: lattice step, in records.
        entropy: source of the randomness.

    Raises:
        MeasurementError: a value is out of range or no exact number.
    """
    new_rate = _rate(step, new_alpha_nano, "new_alpha_nano")
    rates = {alpha: _rate(step, alpha, "old_alphas_nano") for alpha in set(old_alphas_nano)}
    if not all(type(x) is int for x in noise):
        raise MeasurementError from RequirementError("noise", "be ints")
    if any(old_rate >= new_rate for old_rate in rates.values()):
        raise MeasurementError from RequirementError(
            "new_alpha_nano", "exceed all `old_alphas_nano`", new_alpha_nano
        )
    laws = {old: (new_rate - rate, new_rate + rate, 2 * rate) for old, rate in rates.items()}
    gaps, sums, twice = ([laws[old][i] for old in old_alphas_nano] for i in range(3))
    # All five are drawn whatever the old noise is, so the time tells nothing of it.
    found, n = geometrics([*gaps, *sums, *twice, *gaps, *sums], entropy), len(noise)
    parts = [found[i * n : (i + 1) * n] for i in range(5)]
    return [_refined(*each) for each in zip(noise, *parts, strict=True)]


def _refined(x: int, near: int, across: int, first: int, second: int, further: int) -> int:
    """The new noise from the old one and five geometric numbers.

    Of two of A and B, `first` is greater than `second` with probability A (1 - B) / (1 - A B).
    """
    side = -1 if x < 0 else 1
    within = near - across
    if within <= abs(x):
        return side * within
    return x + side * (1 + further) if first > second else x


def discrete_laplace(rate: Fraction | int, n: int, entropy: Entropy) -> list[int]:
    """`n` independent integers k with probability proportional to exp(-rate * abs(k)), exactly.

    The expected work does not grow as `rate` falls.

    Args:
        rate: any exact rational > 0.
        entropy: source of the randomness.

    Raises:
        MeasurementError: `rate` is not an exact number > 0.
    """
    exact, found = _positive(rate, "rate"), list[int]()
    while len(found) < n:
        # About as many more as will be zeros of the second sign.
        n_tried = n - len(found) + int((n - len(found)) * exact / (1 + exact))
        magnitudes = geometrics([exact] * n_tried, entropy)
        signs = (entropy.words(len(magnitudes)) >> (randomness.WORD_BITS - 1)).tolist()
        # Zero has one sign: keeping both would draw it twice too often.
        found += [-m if s else m for m, s in zip(magnitudes, signs, strict=True) if m or not s]
    return found[:n]


def discrete_gaussian(variance: Fraction | int, n: int, entropy: Entropy) -> list[int]:
    """`n` independent integers k, of weights exp(-k^2 / (2 variance)) exactly.

    A discrete Laplace Y of scale t = floor(sqrt(variance)) + 1 is kept with probability exp(-r),
    r = (abs(Y) - variance / t)^2 / (2 variance). Proof: abs(Y) / t + r = Y^2 / (2 variance) +
    variance / (2 t^2), whose last part is a constant. The expected work does not grow with
    the variance: of the tries more than two in five are kept.

    Where it is the noise of a row on a lattice of step g, with variance = 1 / (2 g^2 rho), two
    truths that differ by d are told apart by rho d^2 of zero-concentrated privacy (theorem 4 of the
    reference).

    Args:
        variance: any exact rational > 0, in squared steps; a little more than the law's own
            variance.
        entropy: source of the randomness.

    Raises:
        MeasurementError: `variance` is not an exact number > 0.

    References:
        Canonne, Kamath and Steinke (2020), algorithm 3.
    """
    exact, found = _positive(variance, "variance"), list[int]()
    scale = isqrt(exact.numerator // exact.denominator) + 1
    while len(found) < n:
        missing = n - len(found)
        # Half as many more, as some are not kept; the first `n` that are have the law.
        tried = discrete_laplace(Fraction(1, scale), missing + missing // 2, entropy)
        found += compress(tried, _kept(tried, scale, exact / scale**2, entropy))
    return found[:n]


def _kept(tried: Sequence[int], scale: int, c: Fraction, entropy: Entropy) -> list[bool]:
    """Of each Y whether it is kept: r = (w - c)^2 / (2 c), w = abs(Y) / t and c = variance / t^2.

    Rounded down to units of 2^-27, w and c are each less than one too small. So their difference is
    off by less than one, and its bounds give those of r. Where a square is too long for 64 bits,
    and where c is tiny, r has no bound above.
    """
    units = np.array([(abs(y) << _W_BITS) // scale for y in tried], np.int64)
    far = abs(units - int(c * (1 << _W_BITS)))
    twice = 2 * c * (1 << 2 * _W_BITS - RATE_BITS)
    below = np.minimum(np.maximum(far - 1, 0), _FAR)
    least = below**2 // (int(twice) + 1)
    most = np.where(
        (far < _FAR) & (twice >= 1), (far + 1) ** 2 // max(int(twice), 1) + 1, _NO_BOUND
    )

    def rate(place: int) -> Fraction:
        return (Fraction(abs(tried[place]), scale) - c) ** 2 / (2 * c)

    return outlast(least, most, rate, entropy)


def _true_indices(truths: Sequence[Fraction | int], step: Fraction | int) -> list[int]:
    exact_step = _positive(step, "step")
    p, q = exact_step.numerator, exact_step.denominator
    if not all(type(truth) is int or type(truth) is Fraction for truth in truths):
        raise MeasurementError from RequirementError("truths", "be ints or Fractions")
    found = [divmod(truth.numerator * q, truth.denominator * p) for truth in truths]
    if any(rest for _, rest in found):
        raise MeasurementError from RequirementError("truths", "be multiples of `step`")
    return [index for index, _ in found]


def _rate(step: Fraction | int, alpha_nano: int, name: str) -> Fraction:
    if type(alpha_nano) is not int or alpha_nano <= 0:
        raise MeasurementError from RequirementError(name, "be an int > 0", alpha_nano)
    return _positive(step, "step") * alpha_nano / NANO


def _positive(value: Fraction | int, name: str) -> Fraction:
    # Exact types only: a bool is a mistake, and a float has lost the digits that matter here.
    if type(value) is not Fraction and type(value) is not int:
        raise MeasurementError from RequirementError(name, "be an int or a Fraction")
    if value.numerator <= 0:
        raise MeasurementError from RequirementError(name, "be > 0")
    return Fraction(value)
