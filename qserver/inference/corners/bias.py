"""Bound on an estimate's bias from floating-point weights.

Weights leave a rest of the query, exactly known corner by corner. A corner counts some of the
records, so at least 0 and at most all of them. Let N be the public cap on the number of records.
Then the estimate's mean is off by at most N times the sum of the rest's sizes. It is added to the
interval, so nothing depends on whether the query is a combination of the rows exactly.

Weights that are themselves rounded change the estimate by their changes times the answers, which
are public.

The remainder of a query is computed exactly and corrected until it is negligible.

Weights are split into parts of few bits, so that all products and sums of a part are whole
multiples of one power of two below 2^53, without rounding. If a row has values too large for that,
the remainder is computed in floats with a bound on the rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.corners.vectors import CornerVector, RowMatrix, Sums
from qserver.records.dataset import MOST_RECORDS

_HALF_ULP = 2.0**-53
_MOST_PARTS = 8
_MOST_CORRECTIONS = 3
_HOPELESS = 1e-2
_DROPPED = 1e-15


@dataclass(frozen=True, eq=False)
class Settled:
    """Weights that give a query but for a known remainder.

    Args:
        weights: as floats, shape (n,).
        rest: remainder of the query under weights that differ by at most `change`.
        rounding: bound on the sum of the errors of `rest`.
        change: shape (n,).
    """

    weights: FloatArray
    rest: Sums
    rounding: float
    change: FloatArray


def settled(
    rows: RowMatrix,
    query: CornerVector,
    weights: FloatArray,
    solve: Callable[[Sums], FloatArray],
    *,
    enough: float,
) -> Settled:
    """Correct weights until the sizes of the remainder's values sum to at most `enough`.

    Args:
        weights: first guess, shape (n,).
        solve: weights that about give a remainder.
        enough: sum of sizes at which correction stops.
    """
    is_large = ~rows.are_small
    is_exact = query.is_small and not weights[is_large].any()
    target = Sums.of(query)
    rest, total = _without(rows, target, weights) if is_exact else _float(rows, target, weights)
    for _ in range(_MOST_CORRECTIONS):
        size = rest.size
        if size <= enough or rest.largest > _HOPELESS * target.largest:
            break
        more = solve(rest)
        if is_exact:
            more[is_large] = 0.0
            left, more = _without(rows, rest, more)
        else:
            left, _ = _float(rows, target, total + more)
        if not left.size < 0.5 * size:
            break
        rest, total = left, total + more
    sizes = np.abs(total) * rows.largest
    kept = np.where(sizes > _DROPPED * sizes.max(initial=0.0), total, 0.0)
    change = np.abs(total - kept) + 2.0 * _HALF_ULP * np.abs(total)
    rounding = 0.0 if is_exact else _rounding(rows, query, total)
    return Settled(kept, rest, rounding, change)


def _without(rows: RowMatrix, query: Sums, weights: FloatArray) -> tuple[Sums, FloatArray]:
    """The exact remainder of the query, and the weights subtracted: nearly all."""
    rest, left = query, weights
    for _ in range(_MOST_PARTS):
        part = rows.part_of(left, rest)
        if not part.any():
            break
        rest, left = rest.minus(rows.combined(part)), left - part
    return rest, weights - left


def _float(rows: RowMatrix, query: Sums, weights: FloatArray) -> tuple[Sums, FloatArray]:
    return query.minus(rows.combined(weights)), weights


def _rounding(rows: RowMatrix, query: CornerVector, weights: FloatArray) -> float:
    """Bound on the rounding of rows, query, products and sums in a float remainder."""
    terms = np.count_nonzero(weights) + 4
    sizes = float(np.abs(query.values).sum() + np.abs(weights) @ rows.sizes)
    return 2.0 * terms * _HALF_ULP * sizes


_ROOM = 2.0**-60
_ENOUGH = 2.0**-66
_UPWARD = 1.0 + 1e-9


@dataclass(frozen=True)
class Bias:
    """Bounds for datasets with at most `most_records` records."""

    most_records: int = MOST_RECORDS

    @property
    def room(self) -> float:
        """Allowance for the bias in plans, per unit of weight on rows, in records."""
        return self.most_records * _ROOM

    def enough(self, query: CornerVector) -> float:
        """Size of a remainder that stays far within the room."""
        return query.unit * _ENOUGH

    def error(self, query: CornerVector, found: Settled) -> float:
        """Bound on the bias of weights, in records."""
        size = found.rest.size + found.rounding
        return self.most_records * size / query.unit * _UPWARD

    @staticmethod
    def shift(change: FloatArray, answers: FloatArray) -> float:
        """Bound on the effect of changed weights on the estimate, in records."""
        return float(change @ np.abs(answers)) * _UPWARD
