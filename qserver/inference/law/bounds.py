"""Quick bounds that settle clear cases before any integral is computed."""

from __future__ import annotations

import enum
import math
from typing import Final

import numpy as np

from qserver.inference.law.moments import FloatArray

_MARGIN: Final = 1e-12


class Verdict(enum.Enum):
    """Whether P(abs(W) <= h) reaches a confidence, by a bound; may be unknown."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


def quick_verdict(scales: FloatArray, *, half_width: float, confidence: float) -> Verdict:
    """Verdict from the variance above and the largest scale below; O(n), never wrong.

    Args:
        scales: c_i >= 0, shape (n,).
        half_width: h >= 0.
        confidence: 1 - delta, in (0, 1).

    References:
        Vysochanskij and Petunin (1980): P(abs(W) > h) <= 4 Var / (9 h^2) for unimodal W with
        h^2 >= 8 Var / 3; Anderson (1955): independent symmetric unimodal noise only spreads a
        symmetric unimodal variable, so P(abs(W) > h) >= exp(-h / max c).
    """
    largest = float(scales.max(initial=0.0))
    if largest == 0.0:
        return Verdict.YES
    delta = 1.0 - confidence
    h = half_width / largest
    if math.exp(-h) > delta * (1.0 + _MARGIN):
        return Verdict.NO
    variance = 2.0 * float(np.square(scales / largest).sum())
    if h * h < 8.0 / 3.0 * variance:
        return Verdict.UNKNOWN
    upper = 0.0 if math.isinf(h) else 4.0 * variance / (9.0 * h * h)
    return Verdict.YES if upper < delta * (1.0 - _MARGIN) else Verdict.UNKNOWN
