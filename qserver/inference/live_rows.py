"""The live measured rows of a snapshot, and estimates by given weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from qserver.errors import InputError
from qserver.inference.arrays import FloatArray
from qserver.inference.disagreement.known_sums import KnownSums, Together
from qserver.inference.disagreement.normal_law_given_sums import LAPLACE_VARIANCE
from qserver.inference.estimate import Posterior, RowEstimate, weighted_sum
from qserver.inference.rows.blue import NEW, Combinations, noise_of, only_combination
from qserver.inference.rows.refinement import Refined, WaterFill, Weights
from qserver.inference.rows.shortest_interval import safe_half_width
from qserver.inference.tables.measured_tables import MeasuredTables
from qserver.inference.tables.shared_noise import SharedError, error_of_rows
from qserver.query.linear_query import LinearQuery
from qserver.query.primitive import Primitive, primitive
from qserver.records.history import AnyMeasurement, Estimator, Measurement
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw

_MOST_TOGETHER = 64
"""Most estimates by tables whose errors are told together: each pair takes a while."""
_SAME = 1e-6
"""By how much deviations of the same estimate differ at most."""


class LiveRows:
    """The live measurements of one snapshot by id, and the rows among them by key.

    Args:
        room: allowance for floats in plans, per unit of weight on several rows, in records.
        law: of the noise of all measurements.
    """

    def __init__(self, room: float, law: NoiseLaw = LAPLACE) -> None:
        self._room, self.law = room, law
        self.tables: MeasuredTables
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
    def noisy_rows(self) -> list[Measurement]:
        """The live rows that have noise, in the order of their ids."""
        rows = (m for m in self._measurements if isinstance(m, Measurement))
        return [m for m in rows if not m.is_public]

    @property
    def n_measurements(self) -> int:
        """Number of live measurements: the id of the next new one."""
        return len(self._measurements)

    def half_width_after(
        self, weights: Weights, alphas_nano: Mapping[int, int], *, confidence: float, step: Fraction
    ) -> float:
        """Half-width of given weights, in records, after some rows are refined.

        Args:
            weights: pairs of a measurement's id, or `NEW`, and its weight. Several new rows have
                separate ids, from `NEW` downwards.
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
        """Allowance for floats with these weights, in records."""
        return self._room * sum(abs(w) for _, w in weights) if len(weights) > 1 else 0.0

    def direct(self, primitive: Primitive) -> Weights:
        """Id and weight of the row's least noisy measurement; empty without one."""
        own = [m for m in map(self.measurement, self._direct.get(primitive.key, ())) if m.scale]
        least = min(own, key=lambda m: m.scale, default=None)
        return () if least is None else ((least.id, self._ratio(primitive, least.id)),)

    def direct_nano(self, primitive: Primitive) -> int:
        """The sum of the charges of the row's measurements."""
        ids = self._direct.get(primitive.key, ())
        return sum(self.measurement(i).alpha_nano for i in ids if self._ratio(primitive, i) == 1.0)

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

    def beside_rows(self, primitive: Primitive, *, confidence: float) -> RowEstimate | None:
        """The estimate of least variance by tables and rows, under Gaussian noise."""
        tables = self.tables
        if not (self.law.is_additive and tables.alpha_nano and tables.covers(primitive)):
            return None
        rows, at = self.noisy_rows, tables.n_events
        return tables.beside_rows.estimate(primitive, rows, confidence=confidence, at=at)

    def is_least(self, primitive: Primitive, estimate: RowEstimate) -> bool:
        """Whether an estimate under Gaussian noise certainly has least variance."""
        tables = self.tables
        if not tables.alpha_nano:
            return estimate.method == "blue"
        is_beside = estimate.method == "blocks" and tables.are_all_present
        return is_beside and tables.beside_rows.are_all(primitive, self.noisy_rows)

    def normal_together(
        self, queries: Sequence[LinearQuery], estimates: Sequence[RowEstimate]
    ) -> Together | None:
        """Estimates of rows under Gaussian noise, whose errors are jointly normal.

        Disagreements do not bear on errors of weights of least variance. Kept weights may be
        others: then it is the law of the errors alone. None beside tables of others.
        """
        by_tables = [i for i, one in enumerate(estimates) if one.method == "blocks"]
        if len(by_tables) > _MOST_TOGETHER or any(one.beside for one in estimates):
            return None
        ids = list(dict.fromkeys(i for one in estimates for i, _ in one.weights))
        scales = _array([self.measurement(i).scale for i in ids])
        weights = [dict(one.weights) for one in estimates]
        loads = np.array([[of.get(i, 0.0) for i in ids] for of in weights]) * scales
        if by_tables:
            shared = self.tables.beside_rows.covariances(
                [primitive(queries[i]) for i in by_tables],
                [self.measurement(i) for i in ids],
                [weights[i] for i in by_tables],
            )
            if shared is None:
                return None
            values, vectors = np.linalg.eigh(shared)
            parts = np.zeros((len(estimates), len(by_tables)))
            parts[by_tables] = vectors * np.sqrt(np.maximum(values, 0.0))
            loads = np.hstack([loads, parts])
        # An estimate of earlier tables has other weights, and so another deviation.
        own = _array([float(np.linalg.norm(one.posterior.scales)) for one in estimates])
        if not np.allclose(np.linalg.norm(loads, axis=1), own, rtol=_SAME, atol=0.0):
            return None
        loads *= LAPLACE_VARIANCE**-0.5
        # A normal error is the sum of infinitely many others.
        n = loads.shape[1]
        nothing, counts = np.zeros((0, n)), np.full(n, math.inf)
        sums = KnownSums(loads, nothing, np.zeros(0), counts)
        means = _array([one.posterior.estimate for one in estimates])
        allowances = _array([one.posterior.allowance for one in estimates])
        is_least = all(one.method in ("blue", "blocks") for one in estimates)
        return Together(means, allowances, sums, is_least)

    def error_of(self, planned: Estimator) -> SharedError:
        """The error of given weights on rows, by independent noises."""
        rows = {i: self.measurement(i) for i, _ in planned.weights}
        return error_of_rows(planned, rows)

    def alone(self, primitive: Primitive, number: int, *, confidence: float) -> RowEstimate:
        """The estimate by one measurement of exactly this row alone."""
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
        """The estimate by given weights on rows, with its unforeseen float error."""
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
