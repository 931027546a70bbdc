"""Best linear unbiased weights of a query on the history.

Basis rows B and dependent rows T B, with noise variances R = 2 b^2. The weights that give
q = lambda B are A = (lambda - T'a, a) for any a; the least variance has
a = (R_T + T R_B T')^-1 T R_B lambda. Every a is unbiased, so floats in C = R_T + T R_B T' cost
accuracy of the optimum only. A public row has R = 0. In the basis it has no noise; as a dependent
row it acts as a constraint. One that says nothing new is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from qserver.inference.arrays import GrowingArray, grown_matrix
from qserver.inference.rows.axis_vectors import FloatArray
from qserver.inference.rows.basis import BATCH, Basis, Coefficients
from qserver.inference.rows.inverse_factor import GrowingFactor
from qserver.inference.rows.modular import SecretRandom
from qserver.query.linear import LinearQuery
from qserver.records.history import Measurement

BoolArray: TypeAlias = npt.NDArray[np.bool_]

MAX_ROWS = 5000
NEW = -1
"""Id of a row that is still to be measured."""

_REDUNDANT = 1e-10
_ROUNDING = 2.0**-52


@dataclass(frozen=True)
class Noise:
    """Noise and answers of some rows, arrays of shape (n,).

    Args:
        ids: measurement ids.
        scales: Laplace scales b.
        steps: error of the lattice per unit of weight.
        answers: the released answers, as floats.
    """

    ids: npt.NDArray[np.int64]
    scales: FloatArray
    steps: FloatArray
    answers: FloatArray

    def joined(self, other: Noise) -> Noise:
        """These rows, followed by the others."""
        return Noise(
            np.concatenate([self.ids, other.ids]),
            np.concatenate([self.scales, other.scales]),
            np.concatenate([self.steps, other.steps]),
            np.concatenate([self.answers, other.answers]),
        )

    def part(self, chosen: BoolArray) -> Noise:
        """The chosen rows."""
        return Noise(
            self.ids[chosen], self.scales[chosen], self.steps[chosen], self.answers[chosen]
        )


@dataclass(frozen=True)
class Combinations:
    """All unbiased weights of one query: (lambda - T'a on the basis, a on dependent rows).

    Args:
        basis: noise of the basis rows, r of them.
        dependent: noise of the k dependent rows that can matter.
        coefficients: lambda, shape (r,).
        directions: T, shape (k, r).
        start: the a of least variance, shape (k,).
        error: bound on the float error of an estimate with a = 0, in records.
        direction_errors: the float error per unit of each a, shape (k,).
        whitening: K with K'K the inverse of D^-1 (R_T + T R_B T') D^-1 for R = b^2, shape (k, k).
        deviations: the diagonal of D, shape (k,). In z with a = D^-1 K'z the variance is round.
    """

    basis: Noise
    dependent: Noise
    coefficients: FloatArray
    directions: FloatArray
    start: FloatArray
    error: float
    direction_errors: FloatArray
    whitening: FloatArray
    deviations: FloatArray

    def weights(self, a: FloatArray) -> FloatArray:
        """Weights of all r + k rows, basis first."""
        return np.concatenate([self.coefficients - a @ self.directions, a])

    def with_new_row(self, *, scale: float, step: float) -> Combinations:
        """The combinations with a new measurement of the query: a dependent row, T = lambda.

        Args:
            scale: Laplace scale of the new row.
            step: its lattice step.
        """
        new = Noise(np.array([NEW]), np.array([scale]), np.array([step]), np.zeros(1))
        spread = self.coefficients * np.square(self.basis.scales)
        deviation = float(np.sqrt(scale**2 + self.coefficients @ spread))
        half = self.whitening @ (self.directions @ spread / self.deviations) / deviation
        # At least the part from the new row's noise: 1 - half^2 could round to 0.
        pivot = max(1.0 - float(half @ half), (scale / deviation) ** 2) ** 0.5
        row = np.append(-half @ self.whitening, 1.0) / pivot
        return Combinations(
            basis=self.basis,
            dependent=self.dependent.joined(new),
            coefficients=self.coefficients,
            directions=np.vstack([self.directions, self.coefficients]),
            start=np.append(self.start, 0.0),
            error=self.error,
            direction_errors=np.append(self.direction_errors, self.error),
            whitening=np.vstack([np.pad(self.whitening, ((0, 0), (0, 1))), row]),
            deviations=np.append(self.deviations, deviation),
        )

    def float_error(self, a: FloatArray) -> float:
        """Bound on the error of the estimate from float coefficients and rounding, in records."""
        sizes = np.abs(self.coefficients) + np.abs(a) @ np.abs(self.directions)
        rounding = _ROUNDING * (np.count_nonzero(a) + 2) * float(sizes @ np.abs(self.basis.answers))
        return self.error + float(np.abs(a) @ self.direction_errors) + rounding


def only_combination(noise: Noise, weights: FloatArray) -> Combinations:
    """Fixed weights on some rows, as the only combination."""
    n = len(weights)
    return Combinations(
        basis=noise,
        dependent=noise.part(np.zeros(n, dtype=bool)),
        coefficients=weights,
        directions=np.zeros((0, n)),
        start=np.zeros(0),
        error=0.0,
        direction_errors=np.zeros(0),
        whitening=np.zeros((0, 0)),
        deviations=np.zeros(0),
    )


class RowSpace:
    """The rows in play, and the unbiased weights of queries on them.

    Args:
        sizes: number of values per attribute.
        entropy: source of the secret primes.
        max_rows: most rows in play.
    """

    def __init__(
        self, sizes: tuple[int, ...], entropy: SecretRandom, *, max_rows: int = MAX_ROWS
    ) -> None:
        self._basis = Basis(sizes, entropy)
        self._max_rows = max_rows
        self._basis_noise = _NoiseList()
        self._dependent_noise = _NoiseList()
        self._dependence: FloatArray = np.zeros((0, 0))
        self._touches: BoolArray = np.zeros((0, 0), dtype=bool)
        self._errors = GrowingArray(np.float64)
        self._covariance = GrowingFactor()
        self._covariance_scales = GrowingArray(np.float64)
        self._dependents: dict[int, _Dependent] = {}
        self._is_stale = False

    @property
    def n_rows(self) -> int:
        """Rows in play."""
        return len(self._basis_noise) + len(self._dependent_noise)

    def extend(self, measurements: Sequence[Measurement]) -> None:
        """Add measurements, in order, up to the cap."""
        taken = [m for m in measurements if not m.row.is_zero][: self._max_rows - self.n_rows]
        for start in range(0, len(taken), BATCH):
            self._extend_batch(taken[start : start + BATCH])

    def refine(self, refined: Measurement) -> None:
        """Give a row the noise and the answer of its refinement; the row space stays the same.

        Everything that depends on them is updated when it is next needed. A row that is not in
        play is ignored.
        """
        place = self._basis_noise.place(refined.id)
        if place is not None:
            self._basis_noise.replace(place, refined)
            touched = self._touches[:, place : place + 1].any()
            self._is_stale |= bool(touched) or bool(self._errors.view.any())
        elif refined.id in self._dependents:
            known = self._dependents[refined.id]
            self._dependents[refined.id] = replace(known, measurement=refined)
            self._is_stale = True

    def _bring_up_to_date(self) -> None:
        """Rebuild everything that depends on the noise, from the dependent rows' coefficients."""
        if not self._is_stale:
            return
        self._is_stale = False
        known, self._dependents = list(self._dependents.values()), {}
        self._covariance, self._dependent_noise = GrowingFactor(), _NoiseList()
        self._covariance_scales, self._errors = GrowingArray(np.float64), GrowingArray(np.float64)
        self._touches[:] = False
        for start in range(0, len(known), BATCH):
            self._extend_dependent([self._measured_anew(d) for d in known[start : start + BATCH]])

    def _measured_anew(self, known: _Dependent) -> _Dependent:
        """The same row, with its error under the present measure of classes."""
        if known.found.measure == self._basis.measure:
            return known
        found = self._basis.coefficients(known.measurement.row)
        return known if found is None else replace(known, found=found)

    def _extend_batch(self, batch: Sequence[Measurement]) -> None:
        admissions = self._basis.admit([m.row for m in batch])
        joined = [(a.position, m) for a, m in zip(admissions, batch, strict=True) if a.is_basis]
        for _, measurement in sorted(joined, key=lambda pair: pair[0]):
            self._basis_noise.append(measurement)
        self._bring_up_to_date()
        dependent = []
        for measurement, admission in zip(batch, admissions, strict=True):
            found = admission.coefficients
            if found is not None and found.measure != self._basis.measure:
                found = self._basis.coefficients(measurement.row)
            if found is not None:
                dependent.append(_Dependent(measurement, found))
        if dependent:
            self._extend_dependent(dependent)

    def is_estimable(self, query: LinearQuery) -> bool:
        """Whether the rows in play give an unbiased estimate of `query`."""
        return self._basis.coefficients(query) is not None

    def combinations(self, query: LinearQuery) -> Combinations | None:
        """All unbiased weights of `query`, or None if it is not estimable."""
        found = self._basis.coefficients(query)
        if found is None:
            return None
        self._bring_up_to_date()
        basis, k, n = self._basis_noise.noise, self._covariance.n, len(self._basis)
        self._dependence = grown_matrix(self._dependence, k, n)
        self._touches = grown_matrix(self._touches, k, n)
        start = self._least_variance(found.values)
        reach = self._reachable(found.values != 0.0)
        used = _most_or_all(self._used(found.values != 0.0, reach))
        return Combinations(
            basis=basis.part(used),
            dependent=self._dependent_noise.noise.part(reach),
            coefficients=found.values[used],
            directions=_part(self._dependence[: len(reach), :n], reach, used),
            start=start[reach],
            error=found.error and found.error * self._basis.dual_norm(basis.answers),
            direction_errors=self._errors.view[reach],
            whitening=_part(self._covariance.inverse_factor, reach, reach),
            deviations=self._covariance_scales.view[reach],
        )

    def _extend_dependent(self, new: Sequence[_Dependent]) -> None:
        k, n = self._covariance.n, len(self._basis)
        self._dependents |= {d.measurement.id: d for d in new}
        rows = np.stack([_padded(d.found.values, n) for d in new])
        spread = rows * np.square(self._basis_noise.noise.scales)
        scales = np.array([d.measurement.scale for d in new])
        square = spread @ rows.T + np.diag(np.square(scales))
        deviations = np.sqrt(np.diag(square))
        # A public row that repeats public rows has no variance and says nothing new.
        known = np.flatnonzero(deviations > 0.0)
        rows, spread, deviations = rows[known], spread[known], deviations[known]
        square = square[np.ix_(known, known)] / np.outer(deviations, deviations)
        self._dependence = grown_matrix(self._dependence, k + len(rows), n)
        self._touches = grown_matrix(self._touches, k + len(rows), n)
        cross = self._dependence[:k, :n] @ spread.T
        cross /= np.outer(self._covariance_scales.view, deviations)
        newcomers = self._covariance.newcomers(cross, square)
        chosen = newcomers.independent(_REDUNDANT)
        self._covariance.append(newcomers.only(chosen))
        self._covariance_scales.extend(deviations[chosen])
        end = k + len(chosen)
        self._dependence[k:end, :n], self._touches[k:end, :n] = rows[chosen], rows[chosen] != 0.0
        answers = self._basis.dual_norm(self._basis_noise.noise.answers)
        for i in known[chosen]:
            self._errors.extend([new[i].found.error and new[i].found.error * answers])
            self._dependent_noise.append(new[i].measurement)

    def _least_variance(self, values: FloatArray) -> FloatArray:
        k, n = self._covariance.n, len(self._basis)
        if not k:
            return np.zeros(0)
        spread = values * np.square(self._basis_noise.noise.scales)
        scales = self._covariance_scales.view
        right = (self._dependence[:k, :n] @ spread) / scales
        return np.asarray(self._covariance.solve(right).x / scales)

    def _reachable(self, used: BoolArray) -> BoolArray:
        """Dependent rows that share basis rows with the query, directly or through others."""
        reached: BoolArray = np.zeros(self._covariance.n, dtype=bool)
        while not reached.all():
            touches = self._touches[: len(reached), : len(used)]
            more: BoolArray = np.asarray(touches[:, used].any(axis=1))
            if (more == reached).all():
                break
            reached, used = more, self._used(used, more)
        return _most_or_all(reached)

    def _used(self, used: BoolArray, reached: BoolArray) -> BoolArray:
        """Basis rows that the query or one of the dependent rows needs."""
        return used | self._touches[: len(reached), : len(used)][reached].any(axis=0)


def noise_of(measurements: Sequence[Measurement]) -> Noise:
    """Noise and answers of these measurements."""
    return Noise(
        np.array([m.id for m in measurements], dtype=np.int64),
        np.array([m.scale for m in measurements], dtype=np.float64),
        np.array([m.lattice_allowance for m in measurements], dtype=np.float64),
        np.array([float(m.value) for m in measurements], dtype=np.float64),
    )


@dataclass(frozen=True)
class _Dependent:
    """A dependent row with its coefficients on the basis."""

    measurement: Measurement
    found: Coefficients


class _NoiseList:
    def __init__(self) -> None:
        self._ids = GrowingArray(np.int64)
        self._scales = GrowingArray(np.float64)
        self._steps = GrowingArray(np.float64)
        self._answers = GrowingArray(np.float64)

    def __len__(self) -> int:
        return len(self._ids)

    def append(self, measurement: Measurement) -> None:
        self._ids.extend([measurement.id])
        self._scales.extend([measurement.scale])
        self._steps.extend([measurement.lattice_allowance])
        self._answers.extend([float(measurement.value)])

    def place(self, number: int) -> int | None:
        """The place of the measurement with this id, or None."""
        found = np.flatnonzero(self._ids.view == number)
        return int(found[0]) if len(found) else None

    def replace(self, place: int, measurement: Measurement) -> None:
        self._scales.view[place] = measurement.scale
        self._answers.view[place] = float(measurement.value)

    @property
    def noise(self) -> Noise:
        return Noise(self._ids.view, self._scales.view, self._steps.view, self._answers.view)


def _part(matrix: FloatArray, rows: BoolArray, columns: BoolArray) -> FloatArray:
    """The chosen rows and columns; no copy if all are chosen."""
    if rows.all() and columns.all():
        return matrix
    return np.asarray(matrix[np.ix_(rows, columns)])


def _most_or_all(chosen: BoolArray) -> BoolArray:
    """`chosen`, or all if most are chosen: an extra row costs less than a copy of matrices."""
    return np.ones_like(chosen) if 2 * np.count_nonzero(chosen) > len(chosen) else chosen


def _padded(values: FloatArray, n: int) -> FloatArray:
    return np.concatenate([values, np.zeros(n - len(values))])
