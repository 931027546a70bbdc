"""Rows in play at one moment: their numbers, their noise, and the factors that combine them."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from qserver.inference.arrays import FloatArray, GrowingArray
from qserver.inference.corners.base import Base, Quotient
from qserver.inference.corners.new_rows import GrownRows, InReach
from qserver.inference.corners.vectors import CornerVector, IntArray, RowMatrix, Sums
from qserver.inference.disagreement.known_sums import KnownSums, ManyRows, SolvedSums
from qserver.inference.rows.blue import NEW, Noise, float_room, orthonormal
from qserver.inference.rows.refinement import Weights
from qserver.records.history import Measurement
from qserver.records.state import State


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

    @classmethod
    def of(cls, measurements: Sequence[Measurement]) -> RowNoise:
        """The noise of these rows."""
        return cls(
            np.array([m.id for m in measurements], dtype=np.int64),
            np.array([m.scale for m in measurements], dtype=np.float64),
            np.array([m.lattice_allowance for m in measurements], dtype=np.float64),
            np.array([m.value_float for m in measurements], dtype=np.float64),
        )

    def part(self, chosen: IntArray, *, room: float) -> Noise:
        """The noise of some rows, with room for floats in records per unit of weight."""
        steps = self.steps[chosen] + float_room(self.answers[chosen], room)
        return Noise(self.ids[chosen], self.scales[chosen], steps)


_MOST_KEPT = 8
"""Sets of rows whose known sums are kept."""

Counts = Callable[[IntArray], FloatArray]
"""Of the rows of these ids how many Laplace variables the error of each is the sum of."""


@dataclass(frozen=True, eq=False)
class _SumsOfRows:
    """Known sums of the errors of rows.

    Args:
        places: of the rows in play that are in some sum, shape (l,).
        directions: weights of the sums on these rows as measured, shape (k, l).
        noisy: places of those with noise, shape (n,).
        solved: the sums of the noisy rows' errors.
    """

    places: IntArray
    directions: FloatArray
    noisy: IntArray
    solved: SolvedSums

    def values(self, answers: FloatArray) -> FloatArray:
        """The known sums by answers of all rows in play, shape (n,) or (b, n)."""
        return np.asarray(answers[..., self.places] @ self.directions.T)

    @classmethod
    def of(cls, directions: FloatArray, noise: RowNoise, counts: Counts) -> _SumsOfRows:
        """The sums by weights on all rows in play."""
        places = np.flatnonzero(directions.any(axis=0))
        on_rows, is_noisy = directions[:, places], noise.scales[places] > 0.0
        noisy = places[is_noisy]
        sums = on_rows[:, is_noisy] * noise.scales[noisy]
        # These weights give nothing of the truth, so they give the sum of the errors.
        values = noise.answers[places] @ on_rows.T
        return cls(places, on_rows, noisy, SolvedSums(sums, values, counts(noise.ids[noisy])))


class Play:
    """Rows in play. Not safe for concurrent use.

    Args:
        first: noise and answers of the factored rows, at that time.
        alphas: 1 / b of these rows in nano-epsilon per record, shape (n,).
        rows: the same rows by corner.
        base: the same rows, factored.
    """

    def __init__(self, first: RowNoise, alphas: IntArray, rows: RowMatrix, base: Base) -> None:
        self._first, self.first_alphas, self._base = first, alphas, base
        ids = first.ids.tolist()
        self._place = {number: i for i, number in enumerate(ids)}
        self._alphas = dict(zip(ids, alphas.tolist(), strict=True))
        self.left_out: set[int] = set()
        self._sums = OrderedDict[InReach, _SumsOfRows | None]()
        self.grown = GrownRows(rows, base, first.scales * rows.units)
        self._ids = GrowingArray.of(first.ids)
        # Refinements write into these.
        self._scales, self._steps = (GrowingArray.of(a.copy()) for a in (first.scales, first.steps))
        self._answers = GrowingArray.of(first.answers.copy())

    @classmethod
    def of(
        cls,
        measurements: Sequence[Measurement],
        vectors: Callable[[int], CornerVector],
        n_corners: int,
    ) -> Play:
        """These rows in play.

        Args:
            vectors: the corner vector of a measurement's id.
            n_corners: more than the number of any corner.
        """
        rows, groups = RowMatrix(), dict[tuple[int, ...], int]()
        for m in measurements:
            rows.append(vectors(m.id))
        group = [groups.setdefault(m.row.scope, len(groups)) for m in measurements]
        first = RowNoise.of(measurements)
        alphas = np.array([m.alpha_nano for m in measurements], dtype=np.int64)
        matrix, scales = rows.matrix(n_corners), first.scales * rows.units
        return cls(first, alphas, rows, Base(matrix, scales, np.array(group, dtype=np.int64)))

    def state(self) -> State:
        """State that `from_state` reads: the factored rows, without newer ones."""
        first, base = self._first, self._base
        arrays = {
            "ids": first.ids,
            "alphas": self.first_alphas,
            "scales": first.scales,
            "steps": first.steps,
            "answers": first.answers,
        }
        own = State({"n_corners": base.n_corners}, arrays)
        parts = {"own": own, "rows": self.rows.state(base.n_rows), "base": base.state()}
        return State.of_parts(parts)

    @classmethod
    def from_state(cls, state: State) -> Play:
        """Restore the rows as they were factored."""
        own, rows = state.part("own"), RowMatrix.from_state(state.part("rows"))
        first = RowNoise(*(own.arrays[name] for name in ("ids", "scales", "steps", "answers")))
        matrix, nothing = rows.matrix(own.head["n_corners"]), np.zeros(0, dtype=np.int64)
        base = Base(matrix, first.scales * rows.units, nothing, state.part("base"))
        return cls(first, own.arrays["alphas"], rows, base)

    @property
    def first_ids(self) -> IntArray:
        """Ids of the rows that were factored."""
        return self._first.ids

    def vector(self, number: int) -> CornerVector:
        """A row in play by corner."""
        return self.rows.vector(self._place[number])

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
        found._sums = self._sums.copy()
        found.grown = self.grown.tried()
        # Refinements write into these, so the copies share nothing.
        found._scales, found._steps = self._scales.copy(), self._steps.copy()
        found._answers = self._answers.copy()
        return found

    def take_in(self, measurement: Measurement, vector: CornerVector) -> None:
        """Add a row, or lower its noise; noted in `left_out` if floats cannot."""
        self._sums.clear()
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
        self._steps.view[place] = measurement.lattice_allowance
        self._answers.view[place] = measurement.value_float
        old = self._alphas[number]
        if not old or measurement.alpha_nano == old:
            return
        if not measurement.is_public:
            lowered = measurement.scale * measurement.alpha_nano / old
            unit = vector.unit
            if self.grown.refine(place, old=lowered * unit, new=measurement.scale * unit):
                self._alphas[number] = measurement.alpha_nano
                return
        self.left_out.add(number)

    def directions(self, weights: FloatArray) -> FloatArray | None:
        """Weights on rows as measured that sum to zero in the truth; None if many.

        The difference of a row and its refinement is excluded: it is only rounding, and as a sum of
        errors would claim a known error.

        Args:
            weights: of the rows that set the reach, shape (n,).

        Returns:
            shape (k, n), orthonormal in sum of weight^2 b^2.
        """
        return self._directions(self.grown.reach(np.flatnonzero(weights)))

    def _directions(self, reach: InReach) -> FloatArray | None:
        found = self.grown.directions(reach)
        if found is None:
            return None
        found = found * self.rows.units
        if not self.grown.is_folded:
            return found
        used = found.any(axis=0)
        kept = orthonormal(found[:, used], self.noise.scales[used])
        directions = np.zeros((len(kept), len(self)))
        directions[:, used] = kept
        return directions

    def known_sums(
        self,
        *weights: Sequence[tuple[int, float]],
        counts: Counts,
        answers: FloatArray | None = None,
    ) -> KnownSums | None:
        """An error by weights on rows in play, and all known sums that bear on it.

        Args:
            weights: of one error, or of several.
            answers: of several histories that differ only in them, by id, shape (b, any).

        Returns:
            None if too many rows are in reach of these.
        """
        full = np.zeros((len(weights), len(self)))
        for row, pairs in zip(full, weights, strict=True):
            row[[self._place[i] for i, _ in pairs]] = [w for _, w in pairs]
        reached = np.asarray(full.any(axis=0))
        known = self._known_sums(self.grown.reach(np.flatnonzero(reached)), counts)
        if known is None:
            return None
        noise, solved = self.noise, known.solved
        reached[known.noisy] = True
        used = np.flatnonzero(reached & (noise.scales > 0.0))
        sums = np.zeros((len(solved.sums), len(used)))
        sums[:, np.searchsorted(used, known.noisy)] = solved.sums
        loads = (full if len(weights) > 1 else full[0])[..., used] * noise.scales[used]
        of_errors = counts(noise.ids[used])
        if answers is None:
            return KnownSums(loads, sums, solved.values, of_errors, solved=solved)
        return KnownSums(loads, sums, known.values(answers[:, noise.ids]), of_errors)

    def _known_sums(self, reach: InReach, counts: Counts) -> _SumsOfRows | None:
        """The known sums of the errors of rows in reach, the same for all questions there."""
        if reach not in self._sums:
            while len(self._sums) >= _MOST_KEPT:
                self._sums.popitem(last=False)
            directions = self._directions(reach)
            found = None
            if directions is not None:
                found = _SumsOfRows.of(directions, self.noise, counts)
            self._sums[reach] = found
        return self._sums[reach]

    def in_reach(self, ids: Iterable[int]) -> list[int]:
        """Ids of the rows in play that depend on some of these."""
        places = np.array([self._place[i] for i in ids], dtype=np.intp)
        return [int(i) for i in self._ids.view[self.grown.in_reach(places)]]

    def noisy(self, ids: Iterable[int], counts: Counts) -> ManyRows:
        """The noisy ones of these rows in play, modulo public rows."""
        noise, matrix, units = self.noise, self.rows.whole, self.rows.units
        places = np.array([self._place[i] for i in ids], dtype=np.intp)
        places = places[noise.scales[places] > 0.0]
        public = np.flatnonzero(noise.scales == 0.0)
        quotient, rows = Quotient.of(matrix[public]), matrix[places]
        answers = noise.answers * units
        known = rows[:, quotient.pivots] @ (quotient.mix @ answers[public])
        return ManyRows(
            noise.ids[places],
            quotient.without(rows),
            answers[places] - known,
            noise.scales[places],
            units[places],
            counts(noise.ids[places]),
        )

    def holds(self, number: int) -> bool:
        """Whether the measurement of this id is in play."""
        return number in self._place


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
        """This work with the query itself as a row, which corrections do not use."""
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
