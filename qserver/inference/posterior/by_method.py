"""The law of an estimate's error by the two algorithms of the source paper, with their errors.

Both compute P(abs(W) > h), and W is symmetric, so that a tail has half of it and half its error.
Draws are seeded by the scales alone, which are public: the same law is the same table for ever.

References:
    Xiao and Xiong (2012), algorithms 1 (Monte Carlo) and 2 (probability calculation). The narrowest
    interval is their algorithm 3, which `TableOfLaw` carries out on a symmetric law.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.given.table_of_law import TableOfLaw
from qserver.inference.law.convolution import LatticeMasses, lattice_error
from qserver.inference.law.monte_carlo import MonteCarlo
from qserver.query.asking.reading import LEAST_DRAWS, MOST_DRAWS, Reading

FAILURE: Final = 1e-9
"""Probability, over the draws, that the stated error of Monte Carlo does not hold."""
_ROUGHEST = 0.02
"""Largest error of a lattice, whatever step was asked for."""
_PART = 0.125
"""Part of the wanted error that a lattice may have: finer ones cost little."""
_PART_OF_DRAWS = 0.92
"""Part of the wanted error that draws may have: places are some draws apart."""
_MOST_POINTS: Final = 1 << 21
_FINEST, _COARSEST = 4096.0, 64.0
_NEGLIGIBLE = 1e-13
_LENGTHS = 40.0
_MOST_WORK: Final = 20_000_000
_MOST_KNOWN = 16
_REACH, _CLUSTERING = 12.0, 3.0
_N_PLACES = 240
_N_SHARES, _LEAST_SHARE = 4000, 50


@dataclass(frozen=True, eq=False)
class Computed:
    """A law with what it was computed from.

    Args:
        law: of W.
        error: bound on the numerical error of a probability.
        step, draws: those that were used; None for the other method.
    """

    law: TableOfLaw
    error: float
    step: float | None = None
    draws: int | None = None


def computed(scales: FloatArray, reading: Reading) -> Computed:
    """The law of a sum of Laplace variables by the reading's method, which is not `auto`.

    A step or a number of draws that would take too long, or leave too large an error, is changed to
    the nearest that does not: the answer says which was used.

    Args:
        scales: shape (n,), in the query's units; one is above 0.
    """
    positive = np.sort(np.asarray(scales, dtype=float)[scales > 0.0])[::-1]
    # A thousandth of a ulp of the widest bears on no probability.
    key = positive[positive > 1e-19 * positive[0]].tobytes()
    if reading.method == "convolution":
        return _by_convolution(key, reading.step, reading.error)
    return _by_draws(key, reading.draws, reading.error)


@lru_cache(maxsize=_MOST_KNOWN)
def _by_convolution(key: bytes, step: float | None, error: float) -> Computed:
    scales = np.frombuffer(key)
    deviation = math.sqrt(2.0 * float(np.square(scales).sum()))
    places = _places(deviation)
    used = _step(scales, deviation, step, error)
    if len(scales) == 1:
        return _computed(places, np.exp(-places / scales[0]), np.zeros(len(places)), step=used)
    masses = LatticeMasses.of(scales[1:], step=used, negligible=_NEGLIGIBLE)
    tails = np.array([masses.tail(h, float(scales[0])) for h in places.tolist()])
    off = lattice_error(scales, used) + masses.loss + masses.rounding
    return _computed(places, tails, np.full(len(places), off), step=used)


def _step(scales: FloatArray, deviation: float, asked: float | None, error: float) -> float:
    """The asked step, or one that is fine enough for the error, within what a lattice may hold."""
    least = max(deviation / _FINEST, _LENGTHS * float(scales.sum()) / _MOST_POINTS)
    wanted = _PART * error if asked is None else _ROUGHEST
    used = max(deviation / _COARSEST if asked is None else asked, least)
    while len(scales) > 1 and used > least and lattice_error(scales, used) > wanted:
        used = max(0.5 * used, least)
    return used


@lru_cache(maxsize=_MOST_KNOWN)
def _by_draws(key: bytes, draws: int | None, error: float) -> Computed:
    scales = np.frombuffer(key)
    wanted = math.log(2.0 / FAILURE) / (2.0 * (_PART_OF_DRAWS * error) ** 2)
    used = math.ceil(wanted) if draws is None else draws
    used = max(LEAST_DRAWS, min(used, MOST_DRAWS, _MOST_WORK // len(scales)))
    generator = np.random.default_rng(list(hashlib.sha256(key).digest()))
    law = MonteCarlo(generator, n_draws=used, confidence=1.0 - FAILURE).prepare(scales)
    drawn = law.magnitudes
    ranks = np.arange(1, used, max(_LEAST_SHARE, used // _N_SHARES))
    places = np.append(0.0, drawn[ranks])
    tails = 1.0 - np.searchsorted(drawn, places, side="right") / used
    # Between places a tail is at most that of the place before.
    off = law.error + np.append(0.0, -np.diff(tails))
    return _computed(places, tails, off, draws=used)


def _places(deviation: float) -> FloatArray:
    steps = np.sinh(np.linspace(0.0, _CLUSTERING, _N_PLACES)) / math.sinh(_CLUSTERING)
    return np.asarray(_REACH * deviation * steps)


def _computed(
    places: FloatArray,
    tails: FloatArray,
    errors: FloatArray,
    *,
    step: float | None = None,
    draws: int | None = None,
) -> Computed:
    """The symmetric law with these P(abs(W) > place), places from 0 on, and their errors."""
    half = 0.5 * np.minimum(tails, 1.0)
    above = np.append(1.0 - half[:0:-1], half)
    law = TableOfLaw(
        np.append(-places[:0:-1], places),
        above[::-1],
        above,
        0.5 * np.append(errors[:0:-1], errors),
        is_exact_in_tails=False,
        is_symmetric=True,
    )
    return Computed(law, 2.0 * law.largest_error, step, draws)
