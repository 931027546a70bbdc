"""The chance that all errors of a workload stay within their half-widths at once.

The errors share sources: W_i = sum_k A_ik L_k with L_k = b_k Lap(1), independent. Two lower bounds
of P(abs(W_i) <= h_i for all i) hold for every A; the union bound is never better than the first.

Product rule. P(all) >= prod_i P(abs(W_i) <= h_i).

    Lap(b) = sqrt(V) G with V exponential of mean 2 b^2 and G standard normal. Given V_1..V_m the
    errors are centred and jointly normal, so by Sidak's inequality P(all | V) >= prod_i f_i(V),
    f_i(V) = P(abs(W_i) <= h_i | V) = erf(h_i / sqrt(2 sum_k A_ik^2 V_k)). Every f_i falls in every
    V_k and the V_k are independent, so E prod f_i >= prod E f_i (Harris), and E f_i is the
    marginal. It is sharp for independent errors, and no better than the union bound for equal ones.

Sampled bound, below. For strongly dependent errors.

Smaller scales than stated keep both bounds: Lap(b) is Lap(b') plus independent noise for b' < b,
and noise added to a symmetric log-concave vector only takes mass out of a symmetric convex set
(Anderson).

*The sampled bound* of the chance that some error is too large.

Let M_i(t) = E exp(t W_i), U the event that some abs(W_i) > h_i, and

    c_i = M_i(t_i) / cosh(t_i h_i),   B = sum_i c_i,   Y = [U] / sum_i cosh(t_i W_i) / cosh(t_i h_i)

for any t_i below the pole of M_i. Draw i with probability c_i / B, then the sources from their law
tilted by exp(+-t_i W_i), either sign as likely. That mixture has the density
sum_i (c_i / B) cosh(t_i W_i) / M_i(t_i) relative to the true law, so P(U) = B E Y exactly; on U one
term of the sum is at least 1, so 0 <= Y <= 1. (By Markov's inequality B itself bounds P(U).) The
same draws serve half-widths f h_i with f >= 1: replace [U] by [max_i abs(W_i) / h_i > f].

Of a draw only its direction is kept. Every L_k is +-b_k E or b_k (E - E'), E and E' exponential;
let s be the sum of the m such E. Under the true law it is Gamma(m) whatever the direction, and
every moment along it is closed. Put w_i = W_i / s. Then

    E(Y | direction) = Q(m, f / max_i abs(w_i) / h_i)
                       / sum_i ((1 - t_i w_i)^-m + (1 + t_i w_i)^-m) / (2 cosh(t_i h_i))

has the same mean, the same range and less variance. It takes the place of Y. Sources that all
errors weigh alike are drawn as one difference of gamma variables.

The draws only compute a number: they are no noise of a release. Their seed comes from the problem,
so every process finds the same bound.

References:
    Sidak (1967); Harris (1960); Anderson (1955).
    The estimator is the balance heuristic of Veach and Guibas (1995) over exponentially tilted
    laws; the test is the betting bound of Waudby-Smith and Ramdas (2024) with a constant bet.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import gammaincc

from qserver.errors import EvaluationError, RequirementError
from qserver.inference.arrays import FloatArray
from qserver.inference.law.evaluator import as_probability, as_upper_bound
from qserver.inference.law.laplace_sum import LaplaceSum

_PILOT_PART: Final = 8
_MAX_RATE: Final = 0.99
_CHUNK: Final = 1 << 20
_SEED_BITS: Final = 20
_COLUMN_BITS: Final = 40
WORK_OF_DRAW: Final = 64
"""Cost of drawing a source once, in multiplications."""
MOST_DRAWS: Final = 1 << 16
_MIN_DRAWS: Final = 1 << 10
_OUTWARD: Final = 1.0 + 1e-9
_TILT_STEPS: Final = 40
_OVERFLOW: Final = 600.0
_LEAST_SQUARE: Final = 1e-300
_FACTOR_TOLERANCE: Final = 1e-6


@dataclass(frozen=True, eq=False)
class Sample:
    """Directions drawn from the mixture.

    Args:
        reaches: max_i abs(w_i) / h_i, shape (d,), > 0.
        weights: E(Y | direction) without its Q, shape (d,).
        bound: B.
        n_exponentials: m.
    """

    reaches: FloatArray
    weights: FloatArray
    bound: float
    n_exponentials: int

    def values(self, factor: float) -> FloatArray:
        """E(Y | direction) of each draw at half-widths factor * h_i, shape (d,)."""
        return np.asarray(self.weights * gammaincc(self.n_exponentials, factor / self.reaches))

    def estimate(self, factor: float) -> float:
        """P(some abs(W_i) > factor h_i), unbiased."""
        return self.bound * float(self.values(factor).mean())

    def rate(self, factor: float, *, n_draws: int, failure: float) -> float:
        """The bet r with which `n_draws` draws reach 1 / eta soonest, by this sample's variance."""
        variance = max(float(self.values(factor).var()), 1.0 / len(self.weights) ** 2)
        return min(_MAX_RATE, math.sqrt(-2.0 * math.log(failure) / (n_draws * variance)))


@dataclass(frozen=True, eq=False)
class Bet:
    """Draws with a bet fixed in advance; each statement is false with chance at most `failure`.

    Args:
        sample: the draws.
        rate: r, in (0, 1).
        failure: eta.
    """

    sample: Sample
    rate: float
    failure: float

    def outside(self, factor: float) -> float:
        """Upper bound of P(some abs(W_i) > factor h_i), including `failure`; may exceed 1."""
        values = self.sample.values(factor)
        mean = 1.0
        if self._gain(values, 1.0) > 0.0:
            from scipy.optimize import brentq  # loads long, and not at a start

            mean = float(brentq(lambda u: self._gain(values, u), 0.0, 1.0, xtol=1e-15))
        return self.sample.bound * mean * _OUTWARD + self.failure

    def least_factor(self, delta: float, *, low: float, high: float) -> float:
        """The least factor from `low` to `high` with `outside` <= delta, or infinity."""
        u = (delta - self.failure) / (self.sample.bound * _OUTWARD)

        def gain(factor: float) -> float:
            return self._gain(self.sample.values(factor), u)

        if u <= 0.0 or gain(high) < 0.0:
            return math.inf
        if gain(low) >= 0.0:
            return low
        tolerance = _FACTOR_TOLERANCE * low
        from scipy.optimize import brentq  # loads long, and not at a start

        return min(high, float(brentq(gain, low, high, xtol=tolerance)) + 2.0 * tolerance)

    def _gain(self, values: FloatArray, u: float) -> float:
        """Logarithm of the product less log(1 / eta)."""
        return float(np.log1p(self.rate * (u - values)).sum()) + math.log(self.failure)


class Sampling:
    """The mixture of tilted laws at half-widths reference * h_i.

    Args:
        ratios: A_ik b_k / h_i, shape (n, m), no column of zeros.
        reference: the least factor of interest on the half-widths, > 0.
        failure: eta of every bet.
    """

    def __init__(self, ratios: FloatArray, *, reference: float, failure: float) -> None:
        self.failure = failure
        self._generator = _generator(ratios, reference)
        columns = _grouped(ratios)
        self._ratios, self._counts = columns.ratios, columns.counts
        self._tilts = _tilts(np.square(self._ratios), self._counts, reference)
        self._levels = self._tilts * reference
        moments = -np.log1p(-np.square(self._ratios * self._tilts[:, None])) @ self._counts
        shares = np.exp(moments - _log_cosh(self._levels))
        self.bound = float(shares.sum())
        self._shares = shares / self.bound

    def n_draws(self, work: int) -> int:
        """Number of draws for `work` multiplications; 0 if they would be too few to help."""
        n, m = self._ratios.shape
        allowed = min(MOST_DRAWS, work // (m * (n + WORK_OF_DRAW)))
        return allowed if allowed >= _MIN_DRAWS else 0

    def pilot(self, n_draws: int) -> Sample:
        """A small sample to choose a bet by, of fewer than `n_draws` draws."""
        return self._sample(n_draws // _PILOT_PART)

    def bet(self, pilot: Sample, n_draws: int, *, factor: float) -> Bet:
        """Fresh draws with the bet that is best at `factor`."""
        rate = pilot.rate(factor, n_draws=n_draws, failure=self.failure)
        return Bet(self._sample(n_draws), rate, self.failure)

    def _sample(self, n_draws: int) -> Sample:
        counts = self._generator.multinomial(n_draws, self._shares)
        chosen = np.repeat(np.arange(len(counts)), counts)
        n_chunks = -(-n_draws * max(self._ratios.shape) // _CHUNK)
        sizes = np.concatenate([self._directions(c) for c in np.array_split(chosen, n_chunks)])
        if not np.isfinite(sizes).all():
            raise EvaluationError
        return Sample(sizes[:, 0], sizes[:, 1], self.bound, self._n_exponentials)

    @property
    def _n_exponentials(self) -> int:
        return int(np.where(self._counts > 1, 2 * self._counts, 1).sum())

    def _directions(self, chosen: npt.NDArray[np.intp]) -> FloatArray:
        """Reach and weight per draw, shape (d, 2)."""
        tilts = (self._ratios * self._tilts[:, None])[chosen]
        # exp(-abs(x) + t x) is the law of a difference of exponentials of rates 1 -+ t. By
        # symmetry one sign of the tilt is enough.
        up = self._generator.standard_gamma(self._counts, tilts.shape) / (1.0 - tilts)
        down = self._generator.standard_gamma(self._counts, tilts.shape) / (1.0 + tilts)
        sources = up - down
        lengths = np.where(self._counts > 1, up + down, np.abs(sources)).sum(axis=1)
        sizes = np.abs(sources @ self._ratios.T) / lengths[:, None]
        with_it, against = np.log1p(-sizes * self._tilts), np.log1p(sizes * self._tilts)
        n = self._n_exponentials
        logs = np.log1p(np.exp(n * (with_it - against))) - n * with_it - math.log(2.0)
        logs -= _log_cosh(self._levels)
        # A cut-off from above only makes a weight larger.
        weights = 1.0 / np.exp(np.minimum(logs, _OVERFLOW)).sum(axis=1)
        return np.stack([sizes.max(axis=1), weights], axis=1)


def _generator(ratios: FloatArray, reference: float) -> np.random.Generator:
    """A generator whose seed depends on the problem alone, up to rounding."""
    unit = float(np.abs(ratios).max())
    numbers = np.append(ratios / unit, math.log2(unit / reference))
    coarse = np.round(np.ldexp(numbers, _SEED_BITS)).astype("<i8")
    digest = hashlib.sha256(np.array(ratios.shape, dtype="<i8").tobytes() + coarse.tobytes())
    return np.random.default_rng(int.from_bytes(digest.digest(), "little"))


@dataclass(frozen=True, eq=False)
class _RatioColumns:
    """Distinct columns of ratios, shape (n, g), and the number of sources of each, shape (g,)."""

    ratios: FloatArray
    counts: npt.NDArray[np.int64]


def _grouped(ratios: FloatArray) -> _RatioColumns:
    """The distinct columns, up to sign and rounding, and how often each occurs."""
    leading = np.take_along_axis(ratios, (ratios != 0.0).argmax(axis=0)[None], axis=0)
    columns = ratios * np.sign(leading)
    keys = np.round(np.ldexp(columns / np.abs(columns).max(), _COLUMN_BITS))
    _, first, counts = np.unique(keys, axis=1, return_index=True, return_counts=True)
    return _RatioColumns(columns[:, first], counts.astype(np.int64))


def _tilts(squares: FloatArray, counts: npt.NDArray[np.int64], reference: float) -> FloatArray:
    """Tilts near the saddle point of each error, d/dt log M_i(t) = reference. Any is valid."""
    # An error whose squares underflow is never too large: its tilt may be any.
    largest = np.maximum(squares.max(axis=1), _LEAST_SQUARE)
    low, high = np.zeros(len(squares)), 1.0 / np.sqrt(largest)
    for _ in range(_TILT_STEPS):
        middle = 0.5 * (low + high)
        gaps = 1.0 - squares * np.square(middle)[:, None]
        below = 2.0 * middle * ((squares / gaps) @ counts) < reference
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(low)


def _log_cosh(x: FloatArray) -> FloatArray:
    return np.asarray(x + np.log1p(np.exp(-2.0 * x)) - math.log(2.0))


Method = Literal["exact", "product", "sampled"]

FAILURE: Final = 1e-10
"""Largest eta: chance, over the draws, that a sampled bound is false. It is part of the bound."""
_FAILURE_PART: Final = 1e-4
DEFAULT_WORK: Final = 2_000_000_000
"""Most multiplications for one set of draws: about a second on one core."""
_BELOW_GUESS: Final = 0.98
_WORTH: Final = 0.97
_NEGLIGIBLE: Final = 1e-200


@dataclass(frozen=True, slots=True)
class JointBound:
    """A certified bound on the chance that any error of a workload is too large.

    Attributes:
        outside: upper bound of P(some abs(W_i) > h_i), in [0, 1].
        method: `exact` for at most one error, else the name of the bound used.
        failure: chance, over the draws, that the bound is false; `outside` includes it.
    """

    outside: float
    method: Method
    failure: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.failure <= self.outside <= 1.0:
            raise RequirementError("outside", "lie in [failure, 1]", self.outside)

    @property
    def lower(self) -> float:
        """Lower bound of P(abs(W_i) <= h_i for all i)."""
        return 1.0 - self.outside


@dataclass(frozen=True, slots=True)
class LeastFactor:
    """A common factor on the half-widths, or on every 1 / b, with which a joint statement holds.

    Attributes:
        factor: f with P(abs(W_i) <= f h_i for all i) >= the confidence asked.
        method: see `JointBound`.
    """

    factor: float
    method: Method


@dataclass(frozen=True, eq=False, init=False)
class JointErrors:
    """Errors W_i = sum_k coefficients[i, k] scales[k] Lap(1) and their allowed half-widths.

    Args:
        coefficients: A, shape (n, m), finite.
        scales: b_k of the sources, shape (m,), finite, >= 0.
        half_widths: h_i, shape (n,), > 0, in the same unit, less the allowances for lattice and
            floats. An infinite one always holds.

    Attributes:
        ratios: A_ik b_k / h_i, shape (n', m'), without zero columns, zero rows, and rows that
            repeat another row or its negative.

    Raises:
        RequirementError: the arrays are not of this kind.
    """

    ratios: FloatArray
    _laws: tuple[LaplaceSum, ...]

    def __init__(
        self, coefficients: npt.ArrayLike, scales: npt.ArrayLike, half_widths: npt.ArrayLike
    ) -> None:
        matrix = np.asarray(coefficients, dtype=np.float64)
        sizes = np.asarray(scales, dtype=np.float64)
        widths = np.asarray(half_widths, dtype=np.float64)
        if matrix.shape != widths.shape + sizes.shape or matrix.ndim != 2:
            raise RequirementError("coefficients", "have shape (n, m)", matrix.shape)
        if not (np.isfinite(matrix).all() and np.isfinite(sizes).all() and (sizes >= 0.0).all()):
            raise RequirementError("scales", "be finite and >= 0, as the coefficients be finite")
        if not (widths > 0.0).all():
            raise RequirementError("half_widths", "be > 0")
        # An overflow is refused later, as no law has such a scale.
        with np.errstate(over="ignore"):
            ratios = _distinct(matrix * sizes / widths[:, None])
        ratios.flags.writeable = False
        object.__setattr__(self, "ratios", ratios)
        object.__setattr__(self, "_laws", tuple(LaplaceSum(row) for row in np.abs(ratios)))

    def tails(self, factor: float = 1.0) -> FloatArray:
        """P(abs(W_i) > factor h_i) of each error that has noise, shape (n',), rounded upwards."""
        found = np.exp([law.log_tail(factor) for law in self._laws]) * _OUTWARD
        return np.asarray(np.minimum(found, 1.0))

    def least_alone(self, confidence: float) -> float:
        """The factor that the worst error needs alone; no joint statement holds below it."""
        return max((law.half_width(confidence) for law in self._laws), default=0.0)

    def product_bound(self, factor: float = 1.0) -> JointBound:
        """The product rule, at half-widths factor * h_i."""
        tails = self.tails(factor)
        outside = 1.0 if (tails >= 1.0).any() else -math.expm1(float(np.log1p(-tails).sum()))
        return JointBound(as_probability(outside), "exact" if len(tails) < 2 else "product")


def _distinct(ratios: FloatArray) -> FloatArray:
    """The rows in lexical order, without zero rows and repeated rows."""
    used = ratios != 0.0
    ratios = ratios[used.any(axis=1)][:, used.any(axis=0)]
    if not len(ratios):
        return ratios
    leading = np.take_along_axis(ratios, (ratios != 0.0).argmax(axis=1)[:, None], axis=1)
    return np.unique(ratios * np.sign(leading), axis=0)


def most_work(n_errors: int, n_sources: int, work: int) -> int:
    """Most multiplications that a bound takes for so many errors, if `work` are allowed."""
    return min(work, MOST_DRAWS * n_sources * (n_errors + WORK_OF_DRAW))


def joint_confidence(
    errors: JointErrors, *, wanted: float | None = None, work: int = DEFAULT_WORK
) -> JointBound:
    """The best certified bound of P(abs(W_i) <= h_i for all i) within the work.

    Args:
        wanted: the confidence of interest, in (0, 1). Nothing is drawn if the product rule reaches
            it or a single error rules it out. Drawing stops early if it is out of reach.
        work: most multiplications for draws; 0 for the product rule alone.
    """
    product = errors.product_bound()
    if product.method == "exact" or not _NEGLIGIBLE < product.outside < 1.0:
        return product
    largest = float(errors.tails().max())
    if wanted is not None:
        _check_confidence(wanted)
        delta = 1.0 - wanted
        if product.outside <= delta or largest > delta * _OUTWARD**2:
            return product
    failure = min(FAILURE, _FAILURE_PART * largest)
    sampling = Sampling(errors.ratios, reference=1.0, failure=failure)
    n_draws = sampling.n_draws(work)
    if not n_draws:
        return product
    pilot = sampling.pilot(n_draws)
    hopeless = product.outside if wanted is None else 1.0 - wanted
    if pilot.estimate(1.0) >= _WORTH * hopeless:
        return product
    outside = sampling.bet(pilot, n_draws, factor=1.0).outside(1.0)
    sampled = JointBound(as_upper_bound(outside), "sampled", sampling.failure)
    return min(sampled, product, key=lambda b: b.outside)


def least_factor(
    errors: JointErrors, *, confidence: float, work: int = DEFAULT_WORK
) -> LeastFactor:
    """The least certified f with P(abs(W_i) <= f h_i for all i) >= confidence, within the work.

    Multiplying every 1 / b by f has the same effect as multiplying the half-widths by f. So a
    purchase whose weights stay the same meets the joint statement when scaled by f.

    Args:
        confidence: 1 - delta, in (0, 1).
        work: as for `joint_confidence`.
    """
    _check_confidence(confidence)
    delta = 1.0 - confidence
    alone = errors.least_alone(confidence) * _OUTWARD
    if len(errors.ratios) < 2:
        return LeastFactor(alone, "exact")
    product = _product_factor(errors, delta, alone)
    failure = min(FAILURE, _FAILURE_PART * delta)
    sampling = Sampling(errors.ratios, reference=alone, failure=failure)
    n_draws = sampling.n_draws(work)
    if not n_draws:
        return LeastFactor(product, "product")
    first = sampling.pilot(n_draws)
    if first.estimate(product) >= _WORTH * delta:
        return LeastFactor(product, "product")
    guess = _root(lambda factor: first.estimate(factor) - delta, alone, product)
    # The tilts are best near the factor that is sought.
    low = max(alone, guess * _BELOW_GUESS)
    sampling = Sampling(errors.ratios, reference=low, failure=failure)
    bet = sampling.bet(sampling.pilot(n_draws), n_draws, factor=guess)
    sampled = bet.least_factor(delta, low=low, high=product)
    if sampled < product:
        return LeastFactor(sampled, "sampled")
    return LeastFactor(product, "product")


def _product_factor(errors: JointErrors, delta: float, alone: float) -> float:
    """The least factor by the product rule, approached from above."""
    high = errors.least_alone(1.0 - delta / len(errors.ratios)) * _OUTWARD
    return _root(lambda factor: errors.product_bound(factor).outside - delta, alone, high)


def _root(falling: Callable[[float], float], low: float, high: float) -> float:
    """A root of a function that falls from `low` to `high`, approached from above."""
    if falling(low) <= 0.0:
        return low
    if falling(high) >= 0.0:
        return high
    tolerance = _FACTOR_TOLERANCE * low
    from scipy.optimize import brentq  # loads long, and not at a start

    return min(high, float(brentq(falling, low, high, xtol=tolerance)) + 2.0 * tolerance)


def _check_confidence(value: float) -> None:
    if not 0.0 < value < 1.0:
        raise RequirementError("confidence", "lie in (0, 1)", value)
