"""The law of an error given the public disagreements, by the cheapest way that is exact enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from qserver.inference.given.known_sums import Reduced
from qserver.inference.given.line import law_on_a_line
from qserver.inference.given.mixture import N_PLACES, mixture
from qserver.inference.given.points import SIZES
from qserver.inference.given.sites import NormalLaw, normal_law
from qserver.inference.given.table_of_law import TableOfLaw
from qserver.inference.given.variances import LAPLACE_VARIANCE
from qserver.query.asking.reading import USUAL_ERROR

_FEW = 14
_FOURTH_CUMULANT = 12.0
_LEAST = 1e-14
_MOST = 30
_SKEWNESS, _KURTOSIS = 0.0665, 0.023
"""Most that a unit of skewness and of excess kurtosis adds to a probability (Edgeworth)."""
ENOUGH: Final = USUAL_ERROR
"""Error of probabilities at which no more points are taken."""


@dataclass(frozen=True)
class _Effort:
    """What is done for a law.

    Args:
        sizes: numbers of points that are tried, one after the other.
        left_out: errors are replaced by normal ones as long as that changes no probability by more.
        n_places: of the table.
    """

    sizes: tuple[int, ...]
    left_out: float
    n_places: int


_USUAL = _Effort(SIZES[:-1], 5e-4, N_PLACES)
# A start with fewer points would nearly always be in vain.
_FINE = _Effort(SIZES[-2:], 3e-4, 281)


@dataclass(frozen=True, eq=False)
class _Matter:
    """The errors that keep their Laplace factors, and the error made with the others."""

    numbers: npt.NDArray[np.intp]
    left_out: float


def law_given(known: Reduced, *, enough: float = ENOUGH) -> TableOfLaw:
    """The law of W less its shift, given known sums; some sum bears on it.

    Args:
        enough: error of probabilities that is small enough; more points are taken until it is
            reached, or until there are no more.
    """
    if known.mixing.shape[1] == 1 and not len(known.rest) and (known.counts == 1.0).all():
        return law_on_a_line(known)
    normal, effort = normal_law(known), _FINE if enough < ENOUGH else _USUAL
    matter = _matter(known, normal, effort.left_out)
    tried = list[TableOfLaw]()
    for size in effort.sizes:
        drawn = mixture(known, normal, matter.numbers, size=size)
        tried.append(drawn.table(left_out=matter.left_out, n_places=effort.n_places))
        if tried[-1].largest_error <= enough:
            break
    return min(tried, key=lambda law: law.largest_error)


def _matter(known: Reduced, normal: NormalLaw, left_out: float) -> _Matter:
    """All errors if they are few; else those that bear most on the shape of the law."""
    n = len(known.weights)
    covered = normal.covariance @ known.weights
    rest = np.square(known.rest)
    variance = float(known.weights @ covered) + LAPLACE_VARIANCE * float(rest.sum())
    rest_part = _KURTOSIS * _FOURTH_CUMULANT * float(np.square(rest).sum()) / variance**2
    if n <= _FEW:
        return _Matter(np.arange(n), rest_part)
    spread = np.sqrt(np.maximum(np.diag(normal.covariance), _LEAST) * variance)
    correlation = np.minimum(np.abs(covered) / spread, 1.0)
    skewness, kurtosis = normal.cavity.shapes()
    parts = _SKEWNESS * skewness * correlation**3 + _KURTOSIS * kurtosis * correlation**4
    order = np.argsort(-parts, kind="stable")
    left = np.append(np.cumsum(parts[order][::-1])[::-1], 0.0)
    n_used = min(_MOST, max(1, int(np.count_nonzero(left > left_out))))
    return _Matter(np.sort(order[:n_used]), float(left[n_used]) + rest_part)
