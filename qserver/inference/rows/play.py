"""Rows in play at one moment: their numbers, their noise, and the factors that combine them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qserver.inference.arrays import FloatArray, GrowingArray
from qserver.inference.corners.base import Base
from qserver.inference.corners.grown import GrownRows
from qserver.inference.corners.row_matrix import RowMatrix
from qserver.inference.corners.vectors import CornerVector, IntArray
from qserver.inference.rows.blue import Noise, float_room
from qserver.records.history import Measurement


@dataclass(frozen=True, eq=False)
class RowNoise:
    """Live noise and answers of rows in play, arrays of shape (n,).

    Args:
        ids: measurement ids.
        scales: Laplace scales b.
        steps: error of the lattice per unit of weight.
        answers: the released answers.
    """

    ids: IntArray
    scales: FloatArray
    steps: FloatArray
    answers: FloatArray

    def part(self, chosen: IntArray, *, room: float) -> Noise:
        """The noise of some rows, with room for floats in records per unit of weight."""
        steps = self.steps[chosen] + float_room(self.answers[chosen], room)
        return Noise(self.ids[chosen], self.scales[chosen], steps)


class Play:
    """Rows in play. Not safe for concurrent use.

    Args:
        measurements: the rows to factor.
        vectors: their corner vectors by measurement id.
        n_corners: more than the number of any corner.
    """

    def __init__(
        self,
        measurements: Sequence[Measurement],
        vectors: Mapping[int, CornerVector],
        n_corners: int,
    ) -> None:
        self._place = {m.id: i for i, m in enumerate(measurements)}
        self._alphas = {m.id: m.alpha_nano for m in measurements}
        self.left_out: set[int] = set()
        rows, groups = RowMatrix(), dict[tuple[int, ...], int]()
        for m in measurements:
            rows.append(vectors[m.id])
        group = [groups.setdefault(m.row.scope, len(groups)) for m in measurements]
        scales = np.array([m.scale for m in measurements]) * rows.units
        base = Base(rows.matrix(n_corners), scales, np.array(group, dtype=np.int64))
        self.grown = GrownRows(rows, base, scales)
        self._ids = GrowingArray(np.int64)
        self._scales, self._steps = GrowingArray(np.float64), GrowingArray(np.float64)
        self._answers = GrowingArray(np.float64)
        for m in measurements:
            self._extend(m)

    @property
    def rows(self) -> RowMatrix:
        """The rows by corner."""
        return self.grown.rows

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def noise(self) -> RowNoise:
        """The live noise and answers of the rows; valid until the next row."""
        return RowNoise(self._ids.view, self._scales.view, self._steps.view, self._answers.view)

    def _extend(self, measurement: Measurement) -> None:
        self._ids.extend([measurement.id])
        self._scales.extend([measurement.scale])
        self._steps.extend([measurement.lattice_allowance])
        self._answers.extend([measurement.value_float])

    def tried(self) -> Play:
        """A copy to add rows to; valid until this object gets a row."""
        found = copy.copy(self)
        found._place, found._alphas = dict(self._place), dict(self._alphas)
        found.left_out, found._ids = set(self.left_out), copy.copy(self._ids)
        found.grown = self.grown.tried()
        # Refinements write into these, so the copies share nothing.
        found._scales, found._steps = self._scales.copy(), self._steps.copy()
        found._answers = self._answers.copy()
        return found

    def take_in(self, measurement: Measurement, vector: CornerVector) -> None:
        """Add a row, or lower its noise; it is noted in `left_out` where floats do not know how."""
        number, place = measurement.id, self._place.get(measurement.id)
        if place is None:
            if self.grown.add(vector, measurement.scale * vector.unit):
                self._place[number] = len(self)
                self._extend(measurement)
                self._alphas[number] = measurement.alpha_nano
            else:
                self.left_out.add(number)
            return
        self._scales.view[place] = measurement.scale
        self._answers.view[place] = measurement.value_float
        old = self._alphas[number]
        if old and measurement.alpha_nano > old:
            lowered = measurement.scale * measurement.alpha_nano / old
            unit = vector.unit
            if self.grown.refine(place, old=lowered * unit, new=measurement.scale * unit):
                self._alphas[number] = measurement.alpha_nano
            else:
                self.left_out.add(number)

    def holds(self, number: int) -> bool:
        """Whether the measurement of this id is in play."""
        return number in self._place
