"""Given weights, and the rows on which they are corrected until they are as good as unbiased."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.corners.row_matrix import RowMatrix, Sums
from qserver.inference.corners.vectors import CornerVector
from qserver.inference.rows.blue import NEW
from qserver.inference.rows.refinement import Weights


@dataclass(frozen=True)
class Polished:
    """Corrected weights.

    Args:
        weights: pairs of a measurement's id, or `NEW`, and its weight, none zero.
        error: bound on the float error of an estimate by them, in records.
        given_error: the same bound for the given weights.
    """

    weights: Weights
    error: float
    given_error: float


@dataclass(frozen=True, eq=False)
class Work:
    """Rows, and a way to correct weights on them.

    Args:
        ids: measurement id per row, or `NEW`.
        answers: released answer per row, shape (n,).
        solve: weights that about give a remainder, shape (n,).
    """

    rows: RowMatrix
    ids: Sequence[int]
    answers: FloatArray
    solve: Callable[[Sums], FloatArray]

    def with_new(self, vector: CornerVector) -> Work:
        """The same with the query itself as a row, which corrections do not use."""
        rows = self.rows.tried()
        rows.append(vector)
        answers, ids = np.append(self.answers, 0.0), [*self.ids, NEW]
        return Work(rows, ids, answers, lambda rest: np.append(self.solve(rest), 0.0))

    def on_rows(self, weights: Weights) -> FloatArray:
        """Weights by id as an array, shape (n,)."""
        wanted, found = dict(weights), np.zeros(len(self.ids))
        for place, number in enumerate(self.ids):
            if number in wanted:
                found[place] = wanted[number]
        return found
