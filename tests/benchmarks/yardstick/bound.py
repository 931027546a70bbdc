"""A proven lower bound on the price of answering linear questions, after Li and Miklau.

Let W have a row per question, over the cells, and let question w need an error of variance at most
2 c_w. Whatever is measured, live measurements are rows A with Laplace noise of scale 1 (a row's
alpha is a factor of its weights), and the price is at least every column's sum of abs(A). Answers
are combinations W = R A, of variance 2 |R_w|^2. For any weights mu of the questions and y of the
cells, each of sum 1, let W' = diag(sqrt(mu / c)) W diag(sqrt(y)). Then

    |W'|_* = |diag(sqrt(mu / c)) R * A diag(sqrt(y))|_*
          <= |diag(sqrt(mu / c)) R|_F * |A diag(sqrt(y))|_F  <=  1 * price,

where |.|_* is the sum of singular values. The first step is Hölder's inequality for singular
values. The first factor's square is sum_w mu_w |R_w|^2 / c_w <= 1. The second's is the mean over y
of a column's sum of squares, and a sum of squares is at most the square of the sum of abs. So any
pair (mu, y) proves its bound, however it was found.

As a function of mu and y the bound is concave, and by duality its maximum is the price of the same
problem with Gaussian noise, in which columns are charged by the root of their sum of squares. What
separates it from the price is that step alone.

The proof is about variances. An interval of half-width h is taken to need a standard deviation of
at most h / z, with the z of a normal error. From 0.95 on no sum of Laplace variables that was tried
has a lesser ratio; that is not proven. At 0.9 some have.

References:
    Li, Miklau, "Optimal error of query sets under the differentially-private matrix mechanism",
    ICDT 2013, theorem 3 (the bound with equal weights).
"""

from __future__ import annotations

from math import sqrt

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

Floats = npt.NDArray[np.float64]
_STEPS = 400
_LEAST_CONFIDENCE = 0.95
_CLOSE = 1e-5


def least_ratio(confidence: float) -> float:
    """The least known ratio of half-width to standard deviation of a sum of Laplace variables."""
    if confidence < _LEAST_CONFIDENCE:
        raise ValueError(f"`confidence` must be at least {_LEAST_CONFIDENCE}, got {confidence}.")
    return float(ndtri(0.5 + confidence / 2))


def lower_bound(queries: Floats, deviations: Floats) -> float:
    """A price in epsilon that no linear measurements with Laplace noise can go below.

    Add-remove with one record per person.

    Args:
        queries: weights of each question on the cells, shape (questions, cells).
        deviations: greatest standard deviation that each answer may have, shape (questions,).
    """
    scaled = queries / (deviations / sqrt(2))[:, None]
    mu = np.full(len(scaled), 1 / len(scaled))
    y = np.full(scaled.shape[1], 1 / scaled.shape[1])
    best = 0.0
    for _ in range(_STEPS):
        weighted = np.sqrt(mu)[:, None] * scaled * np.sqrt(y)
        left, singular, right = np.linalg.svd(weighted, full_matrices=False)
        best = max(best, float(singular.sum()))
        # The slope by mu_w times mu_w, and likewise by y: both have the bound as their sum.
        slopes = (left @ right) * weighted
        mu_next, y_next = slopes.sum(axis=1) / singular.sum(), slopes.sum(axis=0) / singular.sum()
        gap = max(float((mu_next[mu > 0] / mu[mu > 0]).max()), float((y_next / y).max())) - 1.0
        mu, y = _share(mu_next), _share(y_next)
        if gap < _CLOSE:
            break
    return best


def _share(weights: Floats) -> Floats:
    weights = np.maximum(weights, 1e-12)
    return np.asarray(weights / weights.sum())
