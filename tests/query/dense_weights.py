"""Weights written out value by value."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from qserver.query.weights import ScaledWeights, from_runs


def scaled_weights(dense: Sequence[Fraction | int]) -> ScaledWeights:
    """The rational vector `dense`, split into a factor and primitive integer weights."""
    return from_runs(range(1, len(dense) + 1), dense)
