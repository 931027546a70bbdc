"""From the released history to answers: the one entry that service and planner use."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

import numpy as np

from qserver.charge import NANO
from qserver.history import Estimator, Measurement, place_measurement
from qserver.inference.blue import (
    MAX_ROWS,
    NEW,
    Combinations,
    RowSpace,
    noise_of,
    only_combination,
)
from qserver.inference.classes import FloatArray
from qserver.inference.combined import Combined, CombinedProblem, least
from qserver.inference.modular import Entropy
from qserver.inference.posterior import Posterior, weighted_sum
from qserver.inference.refined import Refined, RefinedRow, WaterFill, Weights
from qserver.inference.tail import TailProblem, safe_half_width
from qserver.primitive import Primitive
from qserver.requirement import check_confidence

_CACHE_SIZE = 4096
_KEPT = 0.8
"""Part of the cap that is kept when it is passed, so that this happens rarely."""

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class RowEstimate:
    """What history says about a primitive row at one confidence.

    Args:
        weights: pairs of a measurement's id and its weight, none of them zero.
        posterior: of the row's answer, in records.
        confidence: the confidence that the weights were chosen for.
        half_width: of the posterior at that confidence, allowances included.
        method: `direct` (one measurement of this very row), `stored` (weights of an earlier
            answer), `planned` (weights that a plan chose before it measured), `blue` (least
            variance; without dependent rows the only weights there are) or `tail` (shortest
            interval at this confidence).
        float_error: the part of the allowance that floats in the weights cause, in records.
        is_only: whether no other weights on the rows in play give the row.
    """

    weights: tuple[tuple[int, float], ...]
    posterior: Posterior
    confidence: float
    half_width: float
    method: str
    float_error: float = 0.0
    is_only: bool = False

    @property
    def ids(self) -> tuple[int, ...]:
        """The measurements used."""
        return tuple(i for i, _ in self.weights)


class InferenceEngine:
    """Answers from the history of one snapshot. Not safe for concurrent use.

    Args:
        sizes: number of values per attribute.
        entropy: source of secret randomness such as `random.SystemRandom()`; the test of
            estimability rests on its secrecy.
        max_rows: cap on the measurements that are combined by algebra. Direct answers and stored
            estimators are exempt.
    """

    def __init__(
        self, sizes: tuple[int, ...], entropy: Entropy, *, max_rows: int = MAX_ROWS
    ) -> None:
        self._sizes, self._entropy, self._max_rows = tuple(sizes), entropy, max_rows
        self._space = RowSpace(self._sizes, entropy, max_rows=max_rows)
        self._measurements: list[Measurement] = []
        self._pending: list[Measurement] = []
        self._direct: dict[str, list[int]] = {}
        self._stored: dict[str, list[Estimator]] = {}
        self._version = 0
        self._combinations: OrderedDict[str, Combinations | None] = OrderedDict()
        self._estimates: OrderedDict[tuple[str, float], RowEstimate | None] = OrderedDict()

    @property
    def version(self) -> int:
        """Number of events taken in."""
        return self._version

    def extend(self, events: Iterable[Measurement | Estimator]) -> None:
        """Take in the events that followed, in history order.

        A measurement with an earlier id refines that one and replaces it: every weight stays
        valid, and every interval gets shorter.

        Raises:
            InputError: a measurement's id is beyond the next one, or it cannot be a refinement.
        """
        for event in events:
            if isinstance(event, Estimator):
                self._stored.setdefault(event.key, []).append(event)
            else:
                self._add(event)
            self._version += 1
        self._combinations.clear()
        self._estimates.clear()

    def estimable(self, primitive: Primitive) -> bool:
        """Whether history gives an unbiased estimate of the row."""
        known = primitive.key in self._direct or primitive.key in self._stored
        return known or primitive.is_zero or self._combinations_of(primitive) is not None

    def estimate(
        self, primitive: Primitive, *, confidence: float, enough: float = 0.0
    ) -> RowEstimate | None:
        """The shortest interval that history gives the row at `confidence`; None without one.

        Args:
            primitive: the row.
            confidence: 1 - delta.
            enough: a half-width in records; the first estimate that meets it is returned, since
                the search for the shortest costs many times more.

        Raises:
            RequirementError: `confidence` is out of range.
        """
        check_confidence(confidence)
        key = (primitive.key, confidence)
        if key not in self._estimates:
            found: list[RowEstimate] = []
            for candidate in self._candidates(primitive, confidence):
                found.append(candidate)
                if candidate.half_width <= enough:
                    return candidate
            _trim(self._estimates)
            # Known weights come first, so ties go to them.
            self._estimates[key] = min(found, key=lambda c: c.half_width, default=None)
        return self._estimates[key]

    def combined(
        self, primitive: Primitive, *, half_width: float, confidence: float, step: Fraction
    ) -> Combined | None:
        """The least alpha of a new measurement of the row that meets the target with history.

        Args:
            primitive: the row.
            half_width: target in records, for the row (not the query it came from).
            confidence: 1 - delta.
            step: lattice step of the new measurement.

        Returns:
            Alpha (0 where history alone will do), with the weights that were verified to meet
            the target; None if history cannot give the row, or no alpha can meet the target.
        """
        known = self.estimate(primitive, confidence=confidence)
        if known is None:
            return None
        if known.half_width <= half_width:
            return Combined(0.0, known.weights, 0.0)
        found = self._combinations_of(primitive)
        options = [] if found is None else [found]
        if known.method in ("direct", "stored"):
            options.append(self._only(known))
        problems = [
            CombinedProblem(o, confidence=confidence, target=half_width, step=float(step))
            for o in options
        ]
        return least(problem.solve() for problem in problems)

    def combined_alpha(
        self, primitive: Primitive, *, half_width: float, confidence: float, step: Fraction
    ) -> float | None:
        """The alpha of `combined`."""
        found = self.combined(primitive, half_width=half_width, confidence=confidence, step=step)
        return None if found is None else found.alpha

    def measurement(self, number: int) -> Measurement:
        """The live measurement of this id."""
        return self._measurements[number]

    @property
    def n_measurements(self) -> int:
        """Number of live measurements: the id that the next new one gets."""
        return len(self._measurements)

    def estimate_with(
        self, primitive: Primitive, weights: Weights, *, confidence: float, enough: float = 0.0
    ) -> RowEstimate | None:
        """The shorter of `estimate` and of what given weights make of the row.

        Args:
            weights: pairs of a measurement's id and its weight that were planned for the row;
                left out where empty.
            enough: as for `estimate`.
        """
        own = self._direct.get(primitive.key, ())
        method = "direct" if len(weights) == 1 and weights[0][0] in own else "planned"
        planned = self._evaluate(weights, 0.0, confidence, method) if weights else None
        if planned is not None and planned.half_width <= enough:
            return planned
        found = self.estimate(primitive, confidence=confidence, enough=enough)
        if planned is None or found is None:
            return found or planned
        return planned if planned.half_width < found.half_width else found

    def half_width_after(
        self, weights: Weights, alphas_nano: Mapping[int, int], *, confidence: float, step: Fraction
    ) -> float:
        """Half-width that given weights will have, in records, once rows are raised.

        Args:
            weights: pairs of a measurement's id, or `NEW`, and its weight.
            alphas_nano: 1 / b in nano-epsilon of the rows that are raised, and of `NEW`.
            step: lattice step of the new row, in records.
        """
        scales = [
            NANO / alphas_nano[i] if i in alphas_nano else self._measurements[i].scale
            for i, _ in weights
        ]
        sizes = np.abs(np.array([w for _, w in weights]))
        noise = safe_half_width(sizes * _array(scales), confidence)
        return noise + self._allowance(weights, confidence, step)

    def _allowance(self, weights: Weights, confidence: float, step: Fraction) -> float:
        old = tuple(w for w in weights if w[0] != NEW)
        known = self._evaluate(old, 0.0, confidence, "stored").posterior.allowance
        return known + sum(abs(w) * float(step) for i, w in weights if i == NEW)

    def direct(self, primitive: Primitive) -> Weights:
        """The id and the weight of the row's own noisy measurement, of least noise; or nothing."""
        own = [m for m in map(self.measurement, self._direct.get(primitive.key, ())) if m.scale]
        least = min(own, key=lambda m: m.scale, default=None)
        return () if least is None else ((least.id, self._ratio(primitive, least.id)),)

    def refined_row(
        self, primitive: Primitive, *, half_width: float, confidence: float
    ) -> Refined | None:
        """The least alpha to which the row's own measurement must rise, history helping.

        Args:
            primitive: the row.
            half_width: target in records, which history alone does not meet.
            confidence: 1 - delta.

        Returns:
            None if the row was never measured, or the target is finer than its lattice.
        """
        direct = self.direct(primitive)
        if not direct:
            return None
        own, ratio = self._measurements[direct[0][0]], direct[0][1]
        found = self._combinations_of(primitive)
        ids = [] if found is None else [*found.basis.ids, *found.dependent.ids]
        if found is None or own.id not in ids:
            found = only_combination(noise_of([own]), np.array([ratio]))
        return RefinedRow(
            found, own.id, ratio=ratio, confidence=confidence, target=half_width
        ).solve()

    def refined_rows(
        self,
        weights: Weights,
        *,
        half_width: float,
        confidence: float,
        step: Fraction,
        price: Callable[[int], float],
    ) -> list[Refined]:
        """Ways to raise several rows, so that given weights meet a target.

        Args:
            weights: pairs of a measurement's id, or `NEW`, and its weight.
            half_width: target in records.
            step: lattice step of the new row, in records.
            price: of a unit of alpha of a row by id, > 0.
        """
        weights = tuple((i, w) for i, w in weights if w)
        scales = [math.inf if i == NEW else self._measurements[i].scale for i, _ in weights]
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

    def _only(self, known: RowEstimate) -> Combinations:
        rows = [self._measurements[i] for i in known.ids]
        return only_combination(noise_of(rows), np.array([w for _, w in known.weights]))

    def catch_up(self) -> None:
        """Bring new measurements into play; where that passes the cap, the most useful rows."""
        if not self._pending:
            return
        if self._space.n_rows + len(self._pending) > self._max_rows:
            self._space = RowSpace(self._sizes, self._entropy, max_rows=self._max_rows)
            self._pending = _most_useful(self._measurements, int(_KEPT * self._max_rows))
        self._space.extend(self._pending)
        self._pending = []

    def _add(self, measurement: Measurement) -> None:
        if place_measurement(self._measurements, measurement) is None:
            self._pending.append(measurement)
            self._direct.setdefault(measurement.key, []).append(measurement.id)
            return
        waiting = [i for i, m in enumerate(self._pending) if m.id == measurement.id]
        if waiting:
            self._pending[waiting[0]] = measurement
        else:
            self._space.refine(measurement)

    def _candidates(self, primitive: Primitive, confidence: float) -> Iterator[RowEstimate]:
        """Estimates of the row, the cheapest to find first, the shortest of all last."""
        if primitive.is_zero:
            yield self._evaluate((), 0.0, confidence, "direct")
            return
        for i in self._direct.get(primitive.key, ()):
            weights = ((i, self._ratio(primitive, i)),)
            yield self._evaluate(weights, 0.0, confidence, "direct")
        for e in self._stored.get(primitive.key, ()):
            yield self._evaluate(e.weights, e.float_error, confidence, "stored")
        combinations = self._combinations_of(primitive)
        if combinations is None:
            return
        yield self._combine(combinations, combinations.start, confidence, "blue")
        if len(combinations.start):
            tail = TailProblem(combinations, confidence).best()
            yield self._combine(combinations, tail.a, confidence, "tail")

    def _combine(
        self, combinations: Combinations, a: FloatArray, confidence: float, method: str
    ) -> RowEstimate:
        weights = combinations.weights(a)
        ids = np.concatenate([combinations.basis.ids, combinations.dependent.ids])
        used = np.flatnonzero(weights)
        pairs = tuple(zip(ids[used].tolist(), weights[used].tolist(), strict=True))
        found = self._evaluate(pairs, combinations.float_error(a), confidence, method)
        return replace(found, is_only=not len(a))

    def _evaluate(
        self, weights: Weights, float_error: float, confidence: float, method: str
    ) -> RowEstimate:
        rows = [self._measurements[i] for i, _ in weights]
        values = np.array([w for _, w in weights])
        total = weighted_sum(values, [m.value_float for m in rows])
        scales = np.abs(values) * _array([m.scale for m in rows])
        lattice = float(np.abs(values) @ _array([m.lattice_allowance for m in rows]))
        posterior = Posterior(total.value, scales, lattice + total.error + float_error)
        half_width = posterior.half_width(confidence)
        return RowEstimate(weights, posterior, confidence, half_width, method, float_error)

    def _ratio(self, primitive: Primitive, measurement_id: int) -> float:
        """The row as a multiple of a measured one of the same key: 1 unless S is a mere bound."""
        measured = self._measurements[measurement_id].row
        if primitive.exact or primitive.row == measured:
            return 1.0
        return float(primitive.row.terms[0].coefficient / measured.terms[0].coefficient)

    def _combinations_of(self, primitive: Primitive) -> Combinations | None:
        self.catch_up()
        key = primitive.key
        if key not in self._combinations:
            _trim(self._combinations)
            self._combinations[key] = self._space.combinations(primitive.row)
        return self._combinations[key]


def _most_useful(measurements: list[Measurement], n: int) -> list[Measurement]:
    """The n rows of least noise, public ones first, newer before older; in history order."""
    chosen = sorted(measurements, key=lambda m: (m.scale, -m.id))[:n]
    return sorted(chosen, key=lambda m: m.id)


def _trim(cache: OrderedDict[K, V]) -> None:
    while len(cache) >= _CACHE_SIZE:
        cache.popitem(last=False)


def _array(values: list[float]) -> FloatArray:
    return np.array(values, dtype=np.float64)
