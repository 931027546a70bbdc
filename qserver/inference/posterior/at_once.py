"""Intervals of several numbers that all hold at once, given what released answers disagree about.

All numbers have a posterior together, of which a chain makes draws. In each draw some number is the
farthest from its mean, in units of the half-width that was asked of it. All intervals are the asked
ones times the factor that this stays below, in as many draws as the confidence says and the error
of the draws adds.
"""

from __future__ import annotations

import contextlib
import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.given.chain import N_CHAINS, farthest_off
from qserver.inference.given.known_sums import Together
from qserver.inference.posterior.by_rows import FAULTS_OF_FLOATS
from qserver.inference.sought import trim

_STANDARD_ERRORS = 2.0
_LEAST_BEYOND = 20
"""Draws that must lie beyond the intervals: fewer do not say where the intervals end."""


@dataclass(frozen=True)
class HeldAtOnce:
    """Intervals that hold at once.

    Args:
        half_widths: of the numbers, in records.
        error: of the confidence, allowed for in the half-widths.
        attained: the confidence that the asked intervals hold at once, without its error.
        disagreements: how many bear on the numbers.
    """

    half_widths: tuple[float, ...]
    error: float
    attained: float
    disagreements: int


# Whoever asks again gets the same draws, and need not wait for them, as long as the history stays.
_known: WeakKeyDictionary[Together, OrderedDict[tuple[float, ...], HeldAtOnce | None]] = (
    WeakKeyDictionary()
)
_MOST_KNOWN = 16


def held_at_once(
    found: Together, means: Sequence[float], half_widths: Sequence[float], confidence: float
) -> HeldAtOnce | None:
    """The asked intervals, all times one factor, so that all hold at once with the confidence.

    Args:
        means: of the numbers' posteriors, in records.
        half_widths: as asked, in records.
        confidence: that all hold at once.

    Returns:
        None where nothing disagrees, where too many answers do for a chain, where too few draws
        tell of so high a confidence, or where floats fail.
    """
    known, asked = _known.setdefault(found, OrderedDict()), (*means, *half_widths, confidence)
    if asked not in known:
        held = None
        with contextlib.suppress(*FAULTS_OF_FLOATS):
            held = _held(found, np.array(means), np.array(half_widths), confidence)
        trim(known, _MOST_KNOWN)
        known[asked] = held
    return known[asked]


def _held(
    found: Together, means: FloatArray, half_widths: FloatArray, confidence: float
) -> HeldAtOnce | None:
    known = found.sums.reduced(most_free=np.iinfo(np.intp).max).of_several
    reaches = half_widths - found.allowances
    if not known.n_disagreements or not (reaches > 0.0).all():
        return None
    drawn = farthest_off(known, found.estimates - known.shift - means, reaches)
    if drawn is None:
        return None
    # The least factor that is not passed in as many draws as the confidence and its error say.
    ordered = np.sort(drawn, axis=None)
    _, error = _share_within(drawn, float(ordered[math.ceil(confidence * len(ordered)) - 1]))
    n_within = math.ceil((confidence + error) * len(ordered))
    if n_within > len(ordered) - _LEAST_BEYOND:
        return None
    within, error_within = _share_within(drawn, 1.0)
    return HeldAtOnce(
        tuple((float(ordered[n_within - 1]) * reaches + found.allowances).tolist()),
        error,
        max(0.0, within - error_within),
        known.n_disagreements,
    )


def _share_within(drawn: FloatArray, factor: float) -> tuple[float, float]:
    """The share of draws within a factor, and its error: at least that of chance."""
    shares = (drawn <= factor).mean(axis=1)
    share = float(shares.mean())
    by_chains = float(shares.std(ddof=1)) / math.sqrt(N_CHAINS)
    by_chance = math.sqrt(share * (1.0 - share) / drawn.size)
    return share, _STANDARD_ERRORS * max(by_chains, by_chance)
