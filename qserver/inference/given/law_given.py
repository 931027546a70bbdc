"""The law of an error given the public disagreements, by the cheapest way that is exact enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from qserver.inference.given.known_sums import Reduced
from qserver.inference.given.line import law_on_a_line
from qserver.inference.given.matter import Parts
from qserver.inference.given.mixture import N_PLACES, mixture
from qserver.inference.given.points import SIZES
from qserver.inference.given.sites import normal_law
from qserver.inference.given.table_of_law import TableOfLaw
from qserver.query.asking.reading import USUAL_ERROR

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


def law_given(known: Reduced, *, enough: float = ENOUGH) -> TableOfLaw:
    """The law of W less its shift, given known sums; some sum bears on it.

    Args:
        enough: error of probabilities that is small enough; more points are taken until it is
            reached, or until there are no more.
    """
    if known.is_on_a_line:
        return law_on_a_line(known)
    normal, effort = normal_law(known), _FINE if enough < ENOUGH else _USUAL
    numbers, left_out = Parts.of(known, normal).that_matter(effort.left_out)
    tried = list[TableOfLaw]()
    for size in effort.sizes:
        drawn = mixture(known, normal, numbers, size=size).along(np.ones(1))
        tried.append(drawn.table(left_out=left_out, n_places=effort.n_places))
        if tried[-1].largest_error <= enough:
            break
    return min(tried, key=lambda law: law.largest_error)
