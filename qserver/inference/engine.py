"""The inference engine: from the released history to estimates and weights."""

from __future__ import annotations

import copy
import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from fractions import Fraction

import numpy as np

from qserver.errors import InputError
from qserver.inference.changes import Changes
from qserver.inference.corners.bias import Bias
from qserver.inference.disagreement.known_sums import Together
from qserver.inference.disagreement.law_by_cheapest_method import ENOUGH
from qserver.inference.estimate import RowEstimate, Sought, copied, trim
from qserver.inference.limits import MAX_ROWS
from qserver.inference.live_rows import LiveRows
from qserver.inference.posterior.disagreeing_rows import Stated, ToState
from qserver.inference.posterior.posteriors import Estimates, Posteriors, Rows
from qserver.inference.rows.blue import NEW, Combinations, noise_of, only_combination
from qserver.inference.rows.refinement import (
    Combined,
    CombinedProblem,
    Refined,
    RefinedRow,
    Weights,
    beside,
    least,
)
from qserver.inference.rows.rows_in_play import RowsInPlay
from qserver.inference.rows.shortest_interval import TailProblem, least_half_width
from qserver.inference.tables.measured_tables import MeasuredTables
from qserver.inference.tables.weights import WeightedRow
from qserver.query.primitive import Primitive
from qserver.query.requirement import check_confidence
from qserver.records.dataset import MOST_RECORDS
from qserver.records.history import AnyMeasurement, Estimator, Measurement, place_measurement
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw
from qserver.records.statement import OF_ESTIMATOR, OF_POSTERIOR

__all__ = ["InferenceEngine", "RowEstimate"]

_MOST_MISSED = 4_096


class InferenceEngine(LiveRows):
    """Answers from the history of one snapshot. Not safe for concurrent use.

    Args:
        sizes: number of values per attribute.
        max_rows: most measurements combined by algebra. Direct answers and stored estimators do not
            count.
        most_records: public cap on the number of records; it bounds the bias of float weights.
        apart: the attribute of periods of data that arrive over time; None without such data.
        may_wait: whether a question may wait while many new rows are factored.
        law: of the noise of all measurements.

    Attributes:
        in_play: the rows that are combined by algebra.
        tables: the measured tables. A query combines tables only with its own measurement: no other
            row is known to be independent of their cells.
    """

    def __init__(
        self,
        sizes: tuple[int, ...],
        *,
        max_rows: int = MAX_ROWS,
        most_records: int = MOST_RECORDS,
        apart: int | None = None,
        may_wait: bool = True,
        law: NoiseLaw = LAPLACE,
    ) -> None:
        super().__init__(Bias(most_records).room, law)
        self._sizes = tuple(sizes)
        self.tables = MeasuredTables(self._sizes, apart=apart, law=law)
        self.in_play = RowsInPlay(max_rows=max_rows, most_records=most_records, may_wait=may_wait)
        self._posteriors: Posteriors | None = Posteriors(self.in_play, self._measurements, apart)
        self._stored: dict[str, list[Estimator]] = {}
        self._stored_beside: dict[str, list[Estimator]] = {}
        self._version = 0
        self._changes = Changes()
        self._changed, self._changed_keys = set[int](), set[str]()
        self._combinations: OrderedDict[str, Combinations | None] = OrderedDict()
        self._estimates: OrderedDict[tuple[str, float, bool, float | None], Sought] = OrderedDict()
        self._missed = set[tuple[str, float, float]]()

    @property
    def version(self) -> int:
        """Number of events taken in."""
        return self._version

    def extend(self, events: Iterable[AnyMeasurement | Estimator]) -> None:
        """Add the next events, in history order.

        A measurement with an earlier id is a refinement and replaces it. Weights stay valid.

        Raises:
            InputError: a measurement's id is above the next one, or it cannot be a refinement.
        """
        for event in events:
            if isinstance(event, Estimator):
                self._keep(event)
            else:
                self._add(event)
                self._changed.add(event.id)
            self._changed_keys.add(event.key)
            self._version += 1
        self._combinations.clear()

    def _settle(self) -> None:
        """Forget earlier results that may have changed."""
        have_arrived = self.in_play.arrived()
        if not (have_arrived or self._changed_keys):
            return
        self._missed.clear()
        changed, keys = self._changed, self._changed_keys
        self._changed, self._changed_keys = set(), set()
        touched: set[int] | None = None if have_arrived else set()
        if changed or have_arrived:
            self._combinations.clear()
            touched = None
            if self._posteriors is not None:
                self.catch_up()
                touched = self._posteriors.follow(changed, is_known=not have_arrived)
        if keys:
            self._changes.note(touched, keys)
        else:
            self._changes.note_arrival()
        if touched is None:
            self._estimates.clear()
            return
        for search, known in list(self._estimates.items()):
            found = known.found
            if search[0] in keys or found is None or not touched.isdisjoint(found.evidence):
                del self._estimates[search]

    @property
    def n_changes(self) -> int:
        """Number of times that results were forgotten; a version for caches."""
        self._settle()
        return self._changes.n

    def is_unchanged(
        self, since: int, ids: Iterable[int], keys: Iterable[str], *, by_all: bool = False
    ) -> bool:
        """Whether numbers are the same as after a number of changes.

        Args:
            since: `n_changes` before they were found.
            ids: of the measurements that they were found from, as `RowEstimate.evidence`.
            keys: of the numbers' rows.
            by_all: whether they were found with all rows in play.
        """
        self._settle()
        return self._changes.none_since(since, ids, keys, by_all=by_all)

    def tried(self) -> InferenceEngine:
        """A copy of the history to try releases on; this engine does not change.

        The copy is valid until this engine takes in an event. Tried releases have made-up answers,
        so the copy states laws of estimates in place of the slower posteriors.
        """
        found = copy.copy(self)
        found._measurements = list(self._measurements)
        found._direct = copied(self._direct)
        found._stored, found._stored_beside = copied(self._stored), copied(self._stored_beside)
        found.tables, found.in_play = self.tables.tried(), self.in_play.tried()
        found._combinations, found._estimates = OrderedDict(), OrderedDict()
        found._missed = set()
        found._changes, found._changed, found._changed_keys = Changes(), set(), set()
        found._posteriors = None
        return found

    def keep(self, estimator: Estimator) -> None:
        """Use these weights whenever their row is asked, even before history has them."""
        self._keep(estimator)
        self._changed_keys.add(estimator.key)

    def has_kept(self, estimator: Estimator) -> bool:
        """Whether these weights are used whenever their row is asked."""
        if not estimator.weights:
            return estimator.at in self.tables.kept_at(estimator.key)
        stores = self._stored if estimator.at is None else self._stored_beside
        return estimator in stores.get(estimator.key, ())

    def estimate(
        self,
        primitive: Primitive,
        *,
        confidence: float,
        enough: float = 0.0,
        is_searched: bool = True,
    ) -> RowEstimate | None:
        """The estimate of the row with the shortest interval at `confidence`, or None.

        Args:
            confidence: 1 - delta.
            enough: a half-width in records. The first estimate that meets it is returned: a search
                for the shortest interval takes many times longer.
            is_searched: whether all weights are searched; else least variance by rows suffices.

        Raises:
            RequirementError: `confidence` is out of range.
        """
        if not is_searched:
            check_confidence(confidence)
            self._settle()
            known = self.tables
            found = self._unsearched(primitive, confidence, enough, known, is_searched=False)
            return min(found, key=lambda c: c.half_width, default=None)
        return self._shortest(primitive, confidence, enough, self.tables)

    def meeting(
        self, primitive: Primitive, *, confidence: float, enough: float
    ) -> RowEstimate | None:
        """The `estimate` if it meets `enough`, else None, without a hopeless search."""
        check_confidence(confidence)
        self._settle()
        search = primitive.key, confidence, enough
        if search in self._missed:
            return None
        found = self._shortest(primitive, confidence, enough, self.tables, in_vain=False)
        if found is not None and found.half_width <= enough:
            return found
        if len(self._missed) >= _MOST_MISSED:
            self._missed.clear()
        self._missed.add(search)
        return None

    def estimate_by_rows(
        self, primitive: Primitive, *, confidence: float, enough: float = 0.0
    ) -> RowEstimate | None:
        """`estimate` from measured rows alone, without tables; its weights are the whole answer."""
        return self._shortest(primitive, confidence, enough, None)

    def _shortest(
        self,
        primitive: Primitive,
        confidence: float,
        enough: float,
        tables: MeasuredTables | None,
        *,
        in_vain: bool = True,
    ) -> RowEstimate | None:
        """As `estimate`.

        Args:
            in_vain: whether to search for the shortest if none can meet `enough`.
        """
        check_confidence(confidence)
        self._settle()
        search = (primitive.key, confidence, tables is None)
        # Which estimate is the first to meet `enough` depends on it.
        for key in ((*search, None), (*search, enough)):
            known = self._estimates.get(key)
            if known is not None and known.settles(enough):
                return known.found
        found: list[RowEstimate] = []
        trim(self._estimates)
        least = enough if not in_vain else math.inf
        for candidate in self._candidates(primitive, confidence, enough, tables, least):
            found.append(candidate)
            if candidate.half_width <= enough:
                self._estimates[*search, enough] = Sought(candidate, enough)
                return candidate
        # Stored weights come first, so they win ties.
        best = min(found, key=lambda c: c.half_width, default=None)
        if in_vain:
            self._estimates[*search, None] = Sought(best, enough)
        return best

    def to_state(
        self, primitive: Primitive, estimate: RowEstimate, *, error: float = ENOUGH
    ) -> ToState:
        """The posterior of a row from its estimate, computed later without the history.

        Args:
            error: sufficient numerical error of probabilities.
        """
        if self._posteriors is None:
            return ToState(Stated(estimate.posterior, OF_ESTIMATOR))
        if self.law.is_additive and not estimate.posterior.is_exact:
            # By weights of least variance what answers disagree about tells nothing of the error.
            law = OF_POSTERIOR if self.is_least(primitive, estimate) else OF_ESTIMATOR
            return ToState(Stated(estimate.posterior, law))
        self._settle()
        return self._posteriors.of(primitive.row, estimate, enough=error)

    def ahead(self, rows: Rows, estimates: Estimates) -> None:
        """Note estimates whose posteriors will be needed: similar ones are computed at once."""
        if self._posteriors is not None and not self.law.is_additive:
            self._settle()
            self._posteriors.ahead(rows, estimates)

    def together(self, rows: Rows, estimates: Estimates) -> Together | None:
        """Estimates with the disagreements that bear on them; None if unknown."""
        if self._posteriors is None:
            return None
        self._settle()
        find = self.normal_together if self.law.is_additive else self._posteriors.together
        return find(rows, estimates)

    def stated(
        self, primitive: Primitive, estimate: RowEstimate, *, error: float = ENOUGH
    ) -> Stated:
        """As `to_state`, computed at once."""
        return self.to_state(primitive, estimate, error=error).stated()

    def combined(
        self, primitive: Primitive, *, half_width: float, confidence: float, step: Fraction
    ) -> Combined | None:
        """The least alpha at which a new measurement of the row, with history, meets the target.

        Args:
            half_width: target in records, for the row (not the query it came from).
            confidence: 1 - delta.
            step: lattice step of the new measurement.

        Returns:
            Alpha (0 if history alone meets the target) and weights checked to meet it. None if
            history does not give the row, or if no alpha meets the target.
        """
        known = self.estimate_by_rows(primitive, confidence=confidence)
        if known is None:
            return None
        if known.half_width <= half_width:
            return Combined(0.0, known.weights, 0.0)
        if self.law.is_additive:
            scales, size = known.posterior.scales, 1.0 + sum(abs(w) for _, w in known.weights)
            room = self._room * size + max(known.posterior.allowance, float(step))
            return beside(
                known.weights, scales=scales, room=room, confidence=confidence, target=half_width
            )
        found = self._combinations_of(primitive)
        options = [] if found is None else [found]
        if known.method in ("direct", "stored"):
            options.append(self._only(known))
        room = self._room + float(step)
        problems = [
            CombinedProblem(o, confidence=confidence, target=half_width, step=room) for o in options
        ]
        best = least(problem.solve() for problem in problems)
        if best is None:
            return None
        exact = dict(self._polished(primitive, (*best.weights, (NEW, best.new_weight))))
        new_weight = exact.pop(NEW, 0.0)
        return Combined(best.alpha, tuple(exact.items()), new_weight)

    def _polished(self, primitive: Primitive, weights: Weights) -> Weights:
        return self.in_play.polished(primitive.row, weights).weights

    def estimate_with(
        self,
        primitive: Primitive,
        weights: Weights,
        *,
        confidence: float,
        enough: float = 0.0,
        tables_give_rest: bool = False,
    ) -> RowEstimate | None:
        """The shorter of `estimate` and the estimate by given weights.

        Args:
            weights: pairs of a measurement's id and its weight, planned for the row; may be empty.
            enough: as for `estimate`.
            tables_give_rest: whether the weights leave a part of the row to the tables.
        """
        planned = self._planned(primitive, weights, confidence, tables_give_rest=tables_give_rest)
        is_enough = planned is not None and planned.half_width <= enough
        if is_enough and not self.law.is_additive:
            return planned
        found = self.estimate(primitive, confidence=confidence, enough=enough)
        if is_enough and found is not None and found.half_width <= enough:
            return found  # of least variance, so its law is the posterior
        if planned is None or found is None:
            return found or planned
        return planned if planned.half_width < found.half_width else found

    def _planned(
        self, primitive: Primitive, weights: Weights, confidence: float, *, tables_give_rest: bool
    ) -> RowEstimate | None:
        if tables_give_rest:
            rows = self._weighted(weights)
            return self.tables.estimate_with_rows(primitive, rows, confidence=confidence)
        if not weights:
            return None
        if len(weights) == 1 and weights[0][0] in self._direct.get(primitive.key, ()):
            return self._evaluate(weights, 0.0, confidence, "direct")
        self.catch_up()
        error = self.in_play.polished(primitive.row, weights).given_error
        return self._evaluate(weights, error, confidence, "planned")

    def _weighted(self, weights: Weights) -> list[WeightedRow]:
        return [WeightedRow(self.measurement(i), w) for i, w in weights]

    def estimate_after(
        self, primitive: Primitive, planned: Estimator, *, confidence: float
    ) -> RowEstimate | None:
        """The estimate by planned weights: on rows, or the shortest after `planned.at` events.

        None if the tables did not contribute to the row at that time.
        """
        if planned.at is None:
            return self._foreseen(planned, confidence)
        if planned.weights:
            rows, at = self._weighted(planned.weights), planned.at
            return self.tables.estimate_with_rows(primitive, rows, confidence=confidence, at=at)
        own = self.own_after(primitive, planned.at)
        return self.tables.estimate_after(primitive, own, at=planned.at, confidence=confidence)

    def own_after(self, primitive: Primitive, at: int) -> Measurement | None:
        """The measurement of exactly this row with the least noise after `at` events, or None."""
        own = [m for m in self._own_rows(primitive) if m is not None]
        alphas = {m.id: self.tables.alpha_nano_at(m, at) for m in own}
        best = max(alphas, key=lambda i: (alphas[i], -i), default=None)
        return None if best is None or not alphas[best] else self.measurement(best)

    def refined_row(
        self, primitive: Primitive, *, half_width: float, confidence: float
    ) -> Refined | None:
        """The least alpha to which a measurement of the row must rise, with history.

        Args:
            half_width: target in records; history alone does not meet it.
            confidence: 1 - delta.

        Returns:
            None if the row was never measured, or if the target is finer than its lattice.
        """
        direct = self.direct(primitive)
        if not direct or self.law.is_additive:
            return None
        own, ratio = self.measurement(direct[0][0]), direct[0][1]
        found = self._combinations_of(primitive)
        if found is None or own.id not in found.noise.ids:
            found = only_combination(noise_of([own], room=self._room), np.array([ratio]))
        refined = RefinedRow(
            found, own.id, ratio=ratio, confidence=confidence, target=half_width
        ).solve()
        if refined is None or len(refined.weights) == 1:
            return refined
        return Refined(refined.alphas, self._polished(primitive, refined.weights))

    def catch_up(self) -> None:
        """Add new measurements to the algebra; past the cap, keep the most useful rows."""
        self.in_play.catch_up()

    def _add(self, measurement: AnyMeasurement) -> None:
        old = place_measurement(self._measurements, measurement)
        self.tables.extend([measurement])
        if not isinstance(measurement, Measurement):
            return
        self.in_play.note(measurement)
        if old is None:
            self._direct.setdefault(measurement.key, []).append(measurement.id)

    def _keep(self, estimator: Estimator) -> None:
        if self.has_kept(estimator):
            return
        if estimator.weights:
            stores = self._stored if estimator.at is None else self._stored_beside
            stores.setdefault(estimator.key, []).append(estimator)
        elif estimator.at is not None:
            self.tables.keep(estimator.key, estimator.at)
        else:
            raise InputError("estimator", "have weights, on rows or on tables", estimator.key)

    def _candidates(
        self,
        primitive: Primitive,
        confidence: float,
        enough: float,
        tables: MeasuredTables | None,
        least: float,
    ) -> Iterator[RowEstimate]:
        """Estimates of the row: the cheapest to compute first, the shortest last.

        Under Gaussian noise least variance is the shortest up to rounding, and comes first.

        Args:
            least: estimates that cannot be as short as this are not searched.
        """
        if self.law.is_additive and not primitive.is_zero:
            combinations = self._combinations_of(primitive)
            if combinations is not None:
                yield self._least(combinations, confidence)
                if not enough and (tables is None or not tables.alpha_nano):
                    return
        yield from self._unsearched(primitive, confidence, enough, tables)
        if self.law.is_additive or primitive.is_zero:
            return
        combinations = self._combinations_of(primitive)
        if combinations is None or not combinations.n_directions:
            return
        if least_half_width(combinations.deviation, confidence) <= least:
            tail = TailProblem(combinations, confidence).best()
            yield self._by(primitive, combinations.pairs(tail.a), confidence)

    def _unsearched(
        self,
        primitive: Primitive,
        confidence: float,
        enough: float,
        tables: MeasuredTables | None,
        *,
        is_searched: bool = True,
    ) -> Iterator[RowEstimate]:
        """Estimates of the row without a search for weights, the cheapest to compute first.

        Args:
            is_searched: whether a search follows.
        """
        if primitive.is_zero:
            yield self._evaluate((), 0.0, confidence, "direct")
            return
        for i in self._direct.get(primitive.key, ()):
            weights = ((i, self._ratio(primitive, i)),)
            yield self._evaluate(weights, 0.0, confidence, "direct")
        for e in self._stored.get(primitive.key, ()):
            yield self._evaluate(e.weights, e.float_error, confidence, "stored")
        if tables is not None:
            yield from self._by_tables(primitive, confidence, enough, tables)
        if is_searched and self.law.is_additive:
            return  # That of least variance was the first.
        combinations = self._combinations_of(primitive, least=not is_searched)
        if combinations is not None:
            yield self._least(combinations, confidence)

    def _by_tables(
        self, primitive: Primitive, confidence: float, enough: float, tables: MeasuredTables
    ) -> Iterator[RowEstimate]:
        """Estimates from tables, joined with a measurement of the row or with stored weights.

        Under Gaussian noise they are joined with all rows that they determine.
        """
        joint = self.beside_rows(primitive, confidence=confidence)
        yield from () if joint is None else (joint,)
        for own in self._own_rows(primitive):
            found = tables.estimate(primitive, own, confidence=confidence, enough=enough)
            if found is not None:
                yield found
        for e in self._stored_beside.get(primitive.key, ()):
            rows = self._weighted(e.weights)
            found = tables.estimate_with_rows(primitive, rows, confidence=confidence, at=e.at)
            if found is not None:
                yield found

    def _least(self, combinations: Combinations, confidence: float) -> RowEstimate:
        """The estimate of least variance."""
        pairs = combinations.pairs(np.zeros(combinations.n_directions))
        return self._evaluate(pairs, combinations.error, confidence, "blue")

    def _by(self, primitive: Primitive, weights: Weights, confidence: float) -> RowEstimate:
        """The estimate by weights of the shortest interval."""
        polished = self.in_play.polished(primitive.row, weights)
        return self._evaluate(polished.weights, polished.error, confidence, "tail")

    def _combinations_of(self, primitive: Primitive, *, least: bool = False) -> Combinations | None:
        """Cached `RowsInPlay.combinations`, if all were found."""
        self.catch_up()
        key = primitive.key
        if key not in self._combinations and least:
            return self.in_play.combinations(primitive.row, least=True)
        if key not in self._combinations:
            trim(self._combinations)
            self._combinations[key] = self.in_play.combinations(primitive.row)
        return self._combinations[key]
