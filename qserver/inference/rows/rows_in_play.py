"""The measured rows combined by algebra; updated only when needed.

New rows are quickly added one by one. After some of them all rows are factored anew: a small
history at once, a large one in a thread while the old factors answer. Many new rows are factored at
once if a question may wait; else in a thread, while the earlier rows answer.
"""

from __future__ import annotations

import contextlib
import copy
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence, Set
from functools import cache, partial
from threading import Thread

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.corners.bias import Bias, Settled, settled
from qserver.inference.corners.vectors import CornerNames, CornerVector, IntArray, RowMatrix, Sums
from qserver.inference.disagreement.known_sums import KnownSums, ManyRows
from qserver.inference.rows.blue import NEW, Combinations
from qserver.inference.rows.factors import Play, Polished, Work
from qserver.inference.rows.refinement import Weights
from qserver.query.linear_query import LinearQuery
from qserver.records.history import Measurement
from qserver.records.state import State

_MOST_LATER = 64
_MOST_AT_A_TIME = 2 * _MOST_LATER
"""More new rows are not taken in one by one."""
_MOST_AT_ONCE, _MOST_WITHOUT_WAIT = 1000, 300
"""Most rows that are factored inside a question, where it may wait and where it may not."""
_MOST_ENTRIES = 1 << 23
_MOST_WORK, _MOST_HEAVY, _MOST_KEPT = 5 * 10**8, 500, 4
"""What finding all disagreements may take; of more rows those that weigh most; sets kept."""
_NOT_ESTIMABLE = 1e-12
_KEPT = 0.8
"""Part of the cap that is filled again after it was passed, so that this happens rarely."""


class RowsInPlay:
    """The rows in play, following a history with delay. Not safe for concurrent use.

    Args:
        max_rows: most rows in play.
        most_records: public cap on the number of records.
        may_wait: whether a question may wait while many rows are factored.
    """

    def __init__(self, *, max_rows: int, most_records: int, may_wait: bool = True) -> None:
        self._max_rows, self._bias = max_rows, Bias(most_records)
        self._at_once = _MOST_AT_ONCE if may_wait else _MOST_WITHOUT_WAIT
        self._may_wait = may_wait
        self._names = CornerNames()
        self._vectors: dict[int, CornerVector] = {}
        self._live: dict[int, Measurement] = {}
        self._play = _no_rows()
        self._noted: dict[int, Measurement] = {}
        self._making: _Making | None = None
        self._is_borrowed = False
        self._is_behind = False
        self._many: OrderedDict[tuple[int, ...], ManyRows] = OrderedDict()

    def state(self) -> State:
        """State that `restore` reads: names, and the rows as last factored."""
        others = [i for i in self._live if not self._play.holds(i)]
        own = State({}, {"others": np.array(others, dtype=np.int64)})
        parts = {"names": self._names.state(), "play": self._play.state(), "own": own}
        return State.of_parts(parts)

    def restore(self, state: State, sizes: Sequence[int]) -> None:
        """Continue from a saved state, once the same history and perhaps more was noted.

        Newer rows and refinements are still to be added.
        """
        self._names = CornerNames.from_state(state.part("names"), sizes)
        play = self._play = Play.from_state(state.part("play"))
        for number, alpha in zip(play.first_ids.tolist(), play.first_alphas.tolist(), strict=True):
            self._live[number] = self._noted[number]
            if self._noted[number].alpha_nano == alpha:
                del self._noted[number]
        for number in state.part("own").arrays["others"].tolist():
            self._name(self._noted.pop(number))

    @property
    def room(self) -> float:
        """Allowance for floats in intervals per unit of weight, in records."""
        return self._bias.room

    @property
    def most_records(self) -> int:
        """The public cap on the number of records."""
        return self._bias.most_records

    def answers(self, ids: Iterable[int]) -> list[float]:
        """The released answers of live rows."""
        return [self._live[i].value_float for i in ids]

    def note(self, measurement: Measurement) -> None:
        """Note a new row, or a row's refinement."""
        self._noted[measurement.id] = measurement
        if self._making is not None:
            self._making.since[measurement.id] = measurement

    def arrived(self) -> bool:
        """Put rows factored meanwhile in play; return whether there were any."""
        if self._making is None or self._making.is_alive():
            return False
        self._swap(self._making)
        return True

    def catch_up(self) -> None:
        """Add all noted rows; past the cap, keep the most useful ones."""
        self.arrived()
        if not self._noted:
            return
        new, self._noted = self._noted, {}
        self._many.clear()
        for m in new.values():
            self._name(m)
        are_many = len(new) > _MOST_AT_A_TIME
        if not len(self._play) or (are_many and (self._may_wait or self._is_small)):
            self._enter(self._factored())
            self._making = None
            return
        if self._is_borrowed:
            self._play, self._is_borrowed = self._play.tried(), False
        if are_many:
            self._is_behind = True
        else:
            self._take_in(new.values())
        if self._is_due:
            self._factor()

    def wait(self) -> None:
        """Wait for a factoring in progress."""
        if self._making is not None:
            self._making.join()
            self._swap(self._making)

    def _take_in(self, measurements: Iterable[Measurement]) -> None:
        for m in measurements:
            if not m.row.is_zero:
                self._play.take_in(m, self._vector_of(m.id))
                if self._play.holds(m.id):
                    self._vectors.pop(m.id, None)

    @property
    def _is_due(self) -> bool:
        play = self._play
        late = play.grown.n_later > _MOST_LATER or bool(play.left_out)
        return late or self._is_behind or len(play) > self._max_rows

    @property
    def _is_small(self) -> bool:
        return len(self._live) <= self._at_once

    def _factor(self) -> None:
        """Factor all rows anew: now, or in a thread if that takes long."""
        if self._is_small:
            self._enter(self._factored())
        elif self._making is None:
            chosen, n, still = self._chosen(), len(self._names), self.tried()
            self._making = _Making(lambda: Play.of(chosen, still._vector_of, n))
            self._making.start()

    def _swap(self, making: _Making) -> None:
        self._making = None
        if making.made is None:
            # What is in play still answers, and the next new row tries again.
            return
        self._enter(making.made)
        since = [m for m in making.since.values() if m.id not in self._noted]
        if len(since) > _MOST_AT_A_TIME and not self._may_wait:
            self._is_behind = True
            self._factor()
        else:
            self._take_in(since)

    def _factored(self) -> Play:
        return Play.of(self._chosen(), self._vector_of, len(self._names))

    def _enter(self, play: Play) -> None:
        """Put these rows in play; removed rows keep their vectors here."""
        self._vectors = {i: self._vector_of(i) for i in self._live if not play.holds(i)}
        self._play, self._is_borrowed, self._is_behind = play, False, False

    def _vector_of(self, number: int) -> CornerVector:
        """A live row by corner; the rows in play keep their own vectors."""
        found = self._vectors.get(number)
        return self._play.vector(number) if found is None else found

    def _name(self, measurement: Measurement) -> None:
        if measurement.row.is_zero:
            return
        self._live[measurement.id] = measurement
        if measurement.id not in self._vectors and not self._play.holds(measurement.id):
            self._vectors[measurement.id] = self._names.of_row(measurement.row)

    def _chosen(self) -> list[Measurement]:
        """The rows to factor: all, or those of least noise if they are too many."""
        known = [self._live[i] for i in sorted(self._live)]
        sizes = {m.id: len(self._vector_of(m.id).ids) for m in known}
        if len(known) <= self._max_rows and sum(sizes.values()) <= _MOST_ENTRIES:
            return known
        most = max(1, int(_KEPT * self._max_rows))
        useful = sorted(known, key=lambda m: (m.scale, -m.id))[:most]
        ends = np.cumsum([sizes[m.id] for m in useful])
        within = int(np.searchsorted(ends, _KEPT * _MOST_ENTRIES, side="right"))
        return sorted(useful[: max(1, within)], key=lambda m: m.id)

    def combinations(self, query: LinearQuery, *, least: bool = False) -> Combinations | None:
        """All unbiased weights of `query` on the rows in play, or None if it is not estimable.

        Args:
            least: whether only those of least variance, which are found sooner.
        """
        vector = self._names.of_query(query)
        if not len(vector.ids) or vector.ids.min() < 0 or not len(self._play):
            return None
        grown, enough = self._play.grown, self._bias.enough(vector)
        first = grown.weights(Sums.of(vector))
        found = settled(grown.rows, vector, first, grown.weights, enough=enough)
        if found.rest.largest > _NOT_ESTIMABLE * vector.largest:
            return None
        directions = None if least else self._play.directions(found.weights)
        return self._around(vector, found, directions)

    def _around(
        self, vector: CornerVector, found: Settled, directions: FloatArray | None
    ) -> Combinations:
        """The weights of least variance with the directions that sum to zero."""
        grown, noise = self._play.grown, self._play.noise
        if directions is None:
            directions = np.zeros((0, len(self._play)))
        is_used = (found.weights != 0.0) | (found.change != 0.0)
        used = np.flatnonzero(is_used | directions.any(axis=0))
        units, answers = grown.rows.units[used], noise.answers[used]
        shift = self._bias.shift(found.change[used] * units / vector.unit, answers)
        directions = directions[:, used]
        return Combinations(
            noise=noise.part(used, room=self.room),
            least=found.weights[used] * units / vector.unit,
            directions=directions,
            whitening=np.eye(len(directions)),
            error=self._bias.error(vector, found) + shift,
        )

    def reach(self, ids: Iterable[int]) -> set[int] | None:
        """The rows that depend on some of these, these included.

        None if unknown: a row is not in play, or is public.
        """
        asked = set(ids)
        in_play = all(self._play.holds(i) and not self._live[i].is_public for i in asked)
        return asked.union(self._play.in_reach(asked)) if in_play else None

    def known_sums(self, *weights: Weights) -> KnownSums:
        """An error by weights on rows, or several, and the known sums that bear on it.

        If too many rows are in reach, the sums are among the rows that weigh most. The law given
        fewer sums is also right, only wider.
        """
        inside = {i for pairs in weights for i, _ in pairs if self._play.holds(i)}
        found = self._play.known_sums(*_only(weights, inside), counts=self._counts)
        if found is None:
            many = self._many_rows(inside, weights)
            find = partial(many.along, [dict(pairs) for pairs in weights])
            loads, counts = self._independent(weights, set(many.ids.tolist()))
            return KnownSums(loads, np.zeros((0, len(counts))), np.zeros(0), counts, find)
        loads, counts = self._independent(weights, inside)
        return found.with_independent(loads, counts)

    def known_sums_of(self, weights: Weights, answers: FloatArray) -> KnownSums | None:
        """As `known_sums`, under several histories that differ only in answers.

        Args:
            weights: on rows in play.
            answers: by id, shape (b, any).

        Returns:
            None if too many rows are in reach.
        """
        return self._play.known_sums(weights, counts=self._counts, answers=answers)

    def _counts(self, ids: IntArray) -> FloatArray:
        """Number of Laplace variables in each row's error."""
        return np.array([self._live[i].n_summed for i in ids.tolist()], dtype=np.float64)

    def _independent(
        self, weights: Sequence[Weights], inside: Set[int]
    ) -> tuple[FloatArray, FloatArray]:
        """Errors' weights on rows outside, in records, and their counts."""
        live = self._live
        rest = list(dict.fromkeys(i for pairs in weights for i, _ in pairs if i not in inside))
        loads = np.array([[of.get(i, 0.0) for i in rest] for of in map(dict, weights)])
        loads *= np.array([live[i].scale for i in rest])
        return loads if len(weights) > 1 else loads[0], self._counts(np.array(rest, dtype=np.int64))

    def _many_rows(self, inside: Set[int], weights: Sequence[Weights]) -> ManyRows:
        """The rows in reach of these; those that weigh most, if they are too many."""
        found = self._kept(self._play.in_reach(inside))
        if found.work <= _MOST_WORK:
            return found
        sizes = dict.fromkeys(inside, 0.0)
        for i, w in (pair for pairs in _only(weights, inside) for pair in pairs):
            sizes[i] = max(sizes[i], abs(w) * self._live[i].scale)
        return self._kept(sorted(sizes, key=lambda i: (-sizes[i], i))[:_MOST_HEAVY])

    def _kept(self, ids: Sequence[int]) -> ManyRows:
        """These rows, cached for a history."""
        key = tuple(ids)
        if key not in self._many:
            while len(self._many) >= _MOST_KEPT:
                self._many.popitem(last=False)
            self._many[key] = self._play.noisy(key, self._counts)
        return self._many[key]

    def polished(self, query: LinearQuery, weights: Weights) -> Polished:
        """Correct given weights until they give the query as exactly as floats allow.

        Args:
            weights: pairs of a measurement's id, or `NEW`, and its weight; about unbiased.
        """
        vector = self._names.of_query(query)
        work = self._work(vector, [i for i, _ in weights])
        first, units = work.on_rows(weights), work.rows.units / vector.unit
        enough = self._bias.enough(vector)
        found = settled(work.rows, vector, first / units, work.solve, enough=enough)
        error = self._bias.error(vector, found)
        new, change = found.weights * units, found.change * units
        used = np.flatnonzero(new)
        ids = [work.ids[i] for i in used.tolist()]
        return Polished(
            tuple(zip(ids, new[used].tolist(), strict=True)),
            error + self._bias.shift(change, work.answers),
            error + self._bias.shift(change + np.abs(new - first), work.answers),
        )

    def _work(self, vector: CornerVector, ids: Sequence[int]) -> Work:
        """Rows to polish weights on: all in play, or only these if some are not in play."""
        play, old = self._play, [i for i in dict.fromkeys(ids) if i != NEW]
        if all(play.holds(i) for i in old):
            work = Work(play.rows, play.noise.ids.tolist(), play.noise.answers, play.grown.weights)
        else:
            rows = RowMatrix()
            for i in old:
                rows.append(self._vector_of(i))
            answers = np.array([self._live[i].value_float for i in old])
            work = Work(rows, old, answers, lambda _: np.zeros(len(old)))
        return work.with_new(vector) if NEW in ids else work

    def tried(self) -> RowsInPlay:
        """A copy to try more rows on; this object does not change.

        The copy shares the rows in play until it gets a row, and is valid until this object gets
        one.
        """
        found = copy.copy(self)
        found._noted, found._vectors = dict(self._noted), dict(self._vectors)
        found._live = dict(self._live)
        found._is_borrowed, found._making = True, None
        found._many = OrderedDict()
        return found


@cache
def _no_rows() -> Play:
    """An empty set of rows in play, never extended: the first rows are factored."""
    return Play.of([], dict[int, CornerVector]().__getitem__, 1)


class _Making(Thread):
    """Rows being factored in a thread, and newer ones."""

    def __init__(self, make: Callable[[], Play]) -> None:
        super().__init__(name="factor-rows", daemon=True)
        self._make = make
        self.made: Play | None = None
        self.since: dict[int, Measurement] = {}

    def run(self) -> None:
        """Factor the rows; `made` stays None on failure."""
        with contextlib.suppress(np.linalg.LinAlgError, RuntimeError, MemoryError):
            self.made = self._make()


def _only(weights: Sequence[Weights], ids: Set[int]) -> list[list[tuple[int, float]]]:
    """The pairs of these ids."""
    return [[(i, w) for i, w in pairs if i in ids] for pairs in weights]
