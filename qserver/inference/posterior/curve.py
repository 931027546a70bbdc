"""A posterior as points to draw: its density, and the probability of at least each value."""

from __future__ import annotations

from dataclasses import dataclass

from qserver.errors import RequirementError
from qserver.inference.estimate import Posterior
from qserver.inference.posterior.disagreeing_rows import AnyPosterior, GivenPosterior
from qserver.inference.posterior.method_and_prior import CutPosterior

MAX_POINTS = 2001


@dataclass(frozen=True)
class DensityPoint:
    """One point of a posterior.

    Args:
        x: a value of the query, in the query's units.
        density: of the posterior there, per unit of the query.
        at_least: P(q >= x).
    """

    x: float
    density: float
    at_least: float


def posterior_curve(
    posterior: AnyPosterior | CutPosterior, *, confidence: float, n_points: int
) -> tuple[DensityPoint, ...]:
    """Points of a posterior, evenly spaced over its shortest interval at `confidence`.

    The points describe the continuous law of the error. The allowance for lattice and floats only
    lengthens intervals. Without disagreements the law is symmetric, and half of it is computed.

    Args:
        confidence: of the interval that the points span, in (0, 1).
        n_points: odd, from 3 to 2,001, so that one lies on the estimate of a symmetric law.

    Returns:
        The points, x rising; none for an exact posterior, which has no density.

    Raises:
        RequirementError: `n_points` or `confidence` is out of range.
    """
    if not 3 <= n_points <= MAX_POINTS or n_points % 2 == 0:
        raise RequirementError("n_points", f"be odd, from 3 to {MAX_POINTS:,}", n_points)
    if not isinstance(posterior, Posterior):
        return _by_probabilities(posterior, confidence=confidence, n_points=n_points)
    error = posterior.error
    if error.is_exact:
        return ()
    n_steps = n_points // 2
    step = error.half_width(confidence) / n_steps
    right = [
        DensityPoint(
            posterior.estimate + i * step, error.density(i * step), 0.5 * error.tail(i * step)
        )
        for i in range(n_steps + 1)
    ]
    left = [
        DensityPoint(2.0 * posterior.estimate - p.x, p.density, 1.0 - p.at_least)
        for p in reversed(right[1:])
    ]
    return (*left, *right)


def _by_probabilities(
    posterior: GivenPosterior | CutPosterior, *, confidence: float, n_points: int
) -> tuple[DensityPoint, ...]:
    """The curve of a law given by probabilities."""
    ends = posterior.interval(confidence)
    step = (ends.high - ends.low) / (n_points - 1)
    found = []
    for i in range(n_points):
        x = ends.low + i * step
        mass = posterior.probability_between(x - 0.5 * step, x + 0.5 * step)
        found.append(DensityPoint(x, mass / step, posterior.probability_at_least(x)))
    return tuple(found)
