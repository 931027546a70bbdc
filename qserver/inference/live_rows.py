"""The live measured rows of a snapshot, and estimates by given weights on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from qserver.errors import InputError
from qserver.inference.arrays import FloatArray
from qserver.inference.estimate import Posterior, RowEstimate, weighted_sum
from qserver.inference.given.known_sums import KnownSums, Together
from qserver.inference.given.normal import LAPLACE_VARIANCE
from qserver.inference.rows.blue import NEW, Combinations, noise_of, only_combination
from qserver.inference.rows.refinement import Refined, WaterFill, Weights
from qserver.inference.rows.tail import safe_half_width
from qserver.inference.tables.shared_noise import SharedError, error_of_rows
from qserver.query.primitive import Primitive
from qserver.records.history import AnyMeasurement, Estimator, Measurement
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw


class LiveRows:
    """The live measurements of one snapshot by id, and the rows among them by key.

    Args:
        room: what plans allow for floats, per unit of weight on several rows, in records.
        law: of the noise of all measurements.
    """

    def __init__(self, room: float, law: NoiseLaw = LAPLACE) -> None:
        self._room, self.law = room, law
        self._measurements: list[AnyMeasurement] = []
        self._direct: dict[str, list[int]] = {}

    def measurement(self, number: int) -> Measurement:
        """The live row of this id."""
        found = self._measurements[number]
        if not isinstance(found, Measurement):
            raise InputError("number", "be the id of a row, not of a table", number)
        return found

    def live(self, number: int) -> AnyMeasurement:
        """The live measurement of this id: a row or a table."""
        return self._measurements[number]

    @property
    def n_measurements(self) -> int:
        """Number of live measurements: the id that the next new one gets."""
        return len(self._measurements)

    def half_width_after(
        self, weights: Weights, alphas_nano: Mapping[int, int], *, confidence: float, step: Fraction
    ) -> float:
        """Half-width of given weights, in records, after some rows are refined.

        Args:
            weights: pairs of a measurement's id, or `NEW`, and its weight. Of several new rows each
                has an id of its own, from `NEW` on downwards.
            alphas_nano: 1 / b in nano-epsilon of the refined rows and of the new ones, by id.
            step: lattice step of the new rows, in records.
        """
        scales = [
            self.law.scale(alphas_nano[i]) if i in alphas_nano else self.measurement(i).scale
            for i, _ in weights
        ]
        sizes = np.abs(np.array([w for _, w in weights]))
        noise = safe_half_width(sizes * _array(scales), confidence, self.law)
        return noise + self._allowance(weights, confidence, step)

    def _allowance(self, weights: Weights, confidence: float, step: Fraction) -> float:
        old = tuple(w for w in weights if w[0] > NEW)
        known = self._evaluate(old, 0.0, confidence, "stored").posterior.allowance
        new = sum(abs(w) * float(step) for i, w in weights if i <= NEW)
        return known + new + self._room_of(weights)

    def _room_of(self, weights: Weights) -> float:
        """What plans allow for floats in these weights, in records."""
        return self._room * sum(abs(w) for _, w in weights) if len(weights) > 1 else 0.0

    def direct(self, primitive: Primitive) -> Weights:
        """Id and weight of the row's measurement with the least noise; empty without one."""
        own = [m for m in map(self.measurement, self._direct.get(primitive.key, ())) if m.scale]
        least = min(own, key=lambda m: m.scale, default=None)
        return () if least is None else ((least.id, self._ratio(primitive, least.id)),)

    def refined_rows(
        self,
        weights: Weights,
        *,
        half_width: float,
        confidence: float,
        step: Fraction,
        price: Callable[[int], float],
    ) -> list[Refined]:
        """Ways to refine several rows so that given weights meet a target.

        Args:
            weights: pairs of a measurement's id, or `NEW`, and its weight.
            half_width: target in records.
            step: lattice step of the new row, in records.
            price: cost of a unit of alpha of a row, by its id, > 0.
        """
        weights = tuple((i, w) for i, w in weights if w)
        if not weights or self.law.is_additive:
            return []
        scales = [math.inf if i == NEW else self.measurement(i).scale for i, _ in weights]
        fill = WaterFill(
            np.array([i for i, _ in weights]),
            np.array([w for _, w in weights]),
            np.array(scales),
            self._allowance(weights, confidence, step),
        )
        prices = np.array([price(i) for i, _ in weights])
        found = [
            fill.solve(shape, confidence=confidence, target=half_width)
            for shape in fill.shapes(prices)
        ]
        return [f for f in found if f is not None]

    def normal_together(self, estimates: Sequence[RowEstimate]) -> Together | None:
        """Estimates of rows with Gaussian noise, whose errors are normal together.

        They are by weights of least variance, which what answers disagree about tells nothing of;
        None for others.
        """
        if any(one.method != "blue" for one in estimates):
            return None
        ids = list(dict.fromkeys(i for one in estimates for i, _ in one.weights))
        scales = _array([self.measurement(i).scale for i in ids]) * LAPLACE_VARIANCE**-0.5
        weights = [dict(one.weights) for one in estimates]
        loads = np.array([[of.get(i, 0.0) for i in ids] for of in weights]) * scales
        # A normal error is the sum of infinitely many others.
        nothing, counts = np.zeros((0, len(ids))), np.full(len(ids), math.inf)
        sums = KnownSums(loads, nothing, np.zeros(0), counts)
        means = _array([one.posterior.estimate for one in estimates])
        return Together(means, _array([one.posterior.allowance for one in estimates]), sums)

    def error_of(self, planned: Estimator) -> SharedError:
        """The error of given weights on rows, as weights on independent noises."""
        rows = {i: self.measurement(i) for i, _ in planned.weights}
        return error_of_rows(planned, rows)

    def alone(self, primitive: Primitive, number: int, *, confidence: float) -> RowEstimate:
        """The estimate by one measurement of exactly this row, combined with nothing."""
        weights = ((number, self._ratio(primitive, number)),)
        return self._evaluate(weights, 0.0, confidence, "independent")

    def _only(self, known: RowEstimate) -> Combinations:
        rows = [self.measurement(i) for i in known.ids]
        weights = np.array([w for _, w in known.weights])
        return only_combination(noise_of(rows, room=self._room), weights)

    def _own_rows(self, primitive: Primitive) -> list[Measurement] | list[None]:
        """The noisy measurements of exactly this row, or [None]."""
        rows = map(self.measurement, self._direct.get(primitive.key, ()))
        own = [m for m in rows if not m.is_public and self._ratio(primitive, m.id) == 1.0]
        return own or [None]

    def _evaluate(
        self, weights: Weights, float_error: float, confidence: float, method: str
    ) -> RowEstimate:
        rows = [self.measurement(i) for i, _ in weights]
        values = np.array([w for _, w in weights])
        total = weighted_sum(values, [m.value_float for m in rows])
        scales = np.abs(values) * _array([m.scale for m in rows])
        lattice = float(np.abs(values) @ _array([m.lattice_allowance for m in rows]))
        allowance = lattice + total.error + float_error
        posterior = Posterior(total.value, scales, allowance, law=self.law)
        half_width = posterior.half_width(confidence)
        return RowEstimate(weights, posterior, confidence, half_width, method, float_error)

    def _foreseen(self, planned: Estimator, confidence: float) -> RowEstimate:
        """The estimate by given weights on rows, with the float error that nobody foresaw."""
        found = self._evaluate(planned.weights, planned.float_error, confidence, "planned")
        foreseen = self.error_of(planned).allowance
        return replace(found, unforeseen=max(0.0, found.posterior.allowance - foreseen))

    def _ratio(self, primitive: Primitive, measurement_id: int) -> float:
        """The row over a measured one of the same key: 1 unless its sensitivity is only a bound."""
        measured = self.measurement(measurement_id).row
        if primitive.exact or primitive.row == measured:
            return 1.0
        return float(primitive.row.terms[0].coefficient / measured.terms[0].coefficient)


def _array(values: list[float]) -> FloatArray:
    return np.array(values, dtype=np.float64)
