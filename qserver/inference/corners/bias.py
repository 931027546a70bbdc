"""How far an estimate may be off because weights are floats.

Weights leave a rest of the query, exactly known corner by corner. A corner counts some of the
records, so at least 0 and at most all of them. Let N be the public cap on the number of records.
Then the estimate's mean is off by at most N times the sum of the rest's sizes. It is added to the
interval, so nothing depends on whether the query is a combination of the rows exactly.

Weights that are themselves rounded change the estimate by their changes times the answers, which
are public.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.corners.settle import Settled
from qserver.inference.corners.vectors import CornerVector
from qserver.records.dataset import MOST_RECORDS

_ROOM = 2.0**-60
_ENOUGH = 2.0**-66
_UPWARD = 1.0 + 1e-9


@dataclass(frozen=True)
class Bias:
    """Bounds for datasets with at most `most_records` records."""

    most_records: int = MOST_RECORDS

    @property
    def room(self) -> float:
        """What plans allow for it, per unit of weight on rows, in records; seldom too little."""
        return self.most_records * _ROOM

    def enough(self, query: CornerVector) -> float:
        """A size of the rest of a query that stays far within the room."""
        return query.unit * _ENOUGH

    def error(self, query: CornerVector, found: Settled) -> float:
        """Bound on the bias of weights, in records."""
        size = found.rest.size + found.rounding
        return self.most_records * size / query.unit * _UPWARD

    @staticmethod
    def shift(change: FloatArray, answers: FloatArray) -> float:
        """Bound on what changes of weights do to the estimate, in records."""
        return float(change @ np.abs(answers)) * _UPWARD
