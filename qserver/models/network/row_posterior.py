"""Posterior means of non-negative counts under noise, with known sums as soft constraints.

A table of counts, rows by values, is observed with white noise of standard deviation sd. The prior
density of a cell's count is proportional to c^(a - 1), c > 0. With a = kappa * p this is, given a
row's total, the Dirichlet law with mean p and concentration kappa. Further knowledge of row totals
and column totals enters as a tilt exp(t c), with one t per row and one per column. The tilts are
chosen so that posterior totals meet the known totals as far as their precision requires. For counts
far above the noise the result is least squares, far below it the prior's share of the row's total.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qserver.models.network.network import Table

_NEAR = np.linspace(-5.0, 5.0, 27)
_SMALL = np.concatenate([[0.0], np.geomspace(1e-3, 4.0, 14)])
# Below this many standard deviations the Gamma law of the tail is accurate enough.
_FAR = -25.0
_MOST_STEPS = 40
_TOLERANCE = 3e-3


@dataclass(frozen=True, eq=False)
class KnownTotals:
    """Totals of rows or of columns, from the table and from other knowledge.

    Args:
        totals: the estimates, one per row (or column).
        variances: their variances, one per row (or column), or one for all.
    """

    totals: Table
    variances: Table | float


@dataclass(frozen=True, eq=False)
class _Moments:
    means: Table
    variances: Table


def posterior_counts(
    counts: Table, deviation: float, shapes: Table, rows: KnownTotals, columns: KnownTotals | None
) -> Table:
    """Posterior means of the counts, of shape (rows, values), all > 0.

    Args:
        counts: noisy counts, of shape (rows, values).
        deviation: standard deviation of the noise of each count, in records, > 0.
        shapes: exponents a of the prior, > 0, with the shape of `counts`.
        rows: totals of rows; their variances are at most those of the table's row sums.
        columns: totals of columns, or None to leave them free.
    """
    scaled = counts / deviation
    by_row, by_column = np.zeros(len(counts)), np.zeros(counts.shape[1])
    row_pull = _Pull(rows, scaled, deviation, axis=1)
    column_pull = None if columns is None else _Pull(columns, scaled, deviation, axis=0)
    moved = 0.0
    for step in range(_MOST_STEPS):
        found = _moments(shapes, scaled + by_row[:, None] + by_column[None, :])
        if step % 2 == 0 or column_pull is None:
            change = row_pull.step(by_row, found)
            by_row -= change
        else:
            change = column_pull.step(by_column, found)
            by_column -= change
        last, moved = moved, float(np.abs(change).max())
        if max(last, moved) < _TOLERANCE and step > 0:
            break
    found = _moments(shapes, scaled + by_row[:, None] + by_column[None, :])
    return found.means * deviation


class _Pull:
    """The condition that ties a tilt to the known totals, in units of the noise."""

    def __init__(self, known: KnownTotals, scaled: Table, deviation: float, *, axis: int) -> None:
        self._axis = axis
        self._seen = scaled.sum(axis=axis)
        own = 1 / scaled.shape[axis]
        self._known = known.totals / deviation
        # The table alone gives a total with precision `own`; the known total is never less exact.
        self._precision = np.maximum(deviation**2 / np.asarray(known.variances), own)
        self._own = own

    def step(self, tilt: Table, found: _Moments) -> Table:
        """A bounded Newton step of tilt = pull of the known totals less pull of the table."""
        total = found.means.sum(axis=self._axis)
        pull = (self._known - total) * self._precision - (self._seen - total) * self._own
        spread = found.variances.sum(axis=self._axis)
        slope = 1 + spread * (self._precision - self._own)
        return np.asarray(np.clip((tilt - pull) / slope, -2.0, 2.0))


def _moments(shapes: Table, centres: Table) -> _Moments:
    """Mean and variance of the densities c^(a-1) exp(-(c - u)^2 / 2), c > 0, cell by cell."""
    far = centres < _FAR
    u = np.maximum(centres, _FAR)[..., None]
    edges = np.concatenate(
        [np.broadcast_to(_SMALL, (*centres.shape, _SMALL.size)), np.maximum(u + _NEAR, 0.0)],
        axis=-1,
    )
    edges.sort(axis=-1)
    # The power is integrated exactly between edges; the Gaussian is evaluated at the middle.
    masses = np.diff(edges ** shapes[..., None], axis=-1)
    middles = (edges[..., 1:] + edges[..., :-1]) / 2
    exponents = -((middles - u) ** 2) / 2 + np.minimum(u, 0.0) ** 2 / 2
    weights = masses * np.exp(exponents)
    norm = weights.sum(axis=-1)
    means = (weights * middles).sum(axis=-1) / norm
    squares = (weights * middles**2).sum(axis=-1) / norm
    steep = np.maximum(-centres, 1.0)
    return _Moments(
        means=np.where(far, shapes / steep, means),
        variances=np.where(far, shapes / steep**2, np.maximum(squares - means**2, 1e-12)),
    )
