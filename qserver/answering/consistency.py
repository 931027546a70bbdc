"""Consistent answers of the non-negative table nearest to a workload's unbiased answers.

It only post-processes released answers: questions, estimates and intervals of a reply, and the
total if that is public. So it costs nothing, and anyone could do it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from qserver.answering.answer import NOISELESS
from qserver.errors import CapacityError
from qserver.models.marginals.fit.nearest_table import CheapestCells, nearest_table
from qserver.models.marginals.graph.layout import FloatArray, IndexArray, Layout, Scope
from qserver.query.asking.after_looking import Ends
from qserver.query.class_grid import ClassGrid, class_grid
from qserver.query.linear_query import LinearQuery, Term
from qserver.records.answer import Answer, Offer
from qserver.records.privacy.noise_law import NoiseLaw

MAX_CELLS = 1 << 16
"""Most cells of the tables on which the cells of a workload are searched."""
MAX_WEIGHTS = 1 << 22
"""Most weights of all terms written out on the classes of their attributes."""
MAX_STEPS = 2_500
"""Most cells that enter the table before the search ends."""
MAX_KEPT = 16
"""Most workloads whose last consistent answers a process keeps: pages show the same ones again."""
# An answer whose interval is no longer than rounding makes it is exact.


@dataclass(frozen=True)
class ConsistentAnswers:
    """The answers of one non-negative table, per question.

    Args:
        estimates: estimates, in the order of the questions.
        total: number of records in the table, if public; else None.
        distance: half the sum of the squared moves of the estimates, each divided by the scale of
            its interval.
        gap: part of `distance` that is not proven necessary.
    """

    estimates: tuple[float, ...]
    total: int | None
    distance: float
    gap: float


@dataclass(frozen=True)
class _Asked:
    """All inputs of consistent answers."""

    queries: tuple[LinearQuery, ...]
    estimates: tuple[float, ...]
    scales: tuple[float, ...]
    total: int | None


class _Kept:
    """The last consistent answers found or asked for, for all threads of a process."""

    def __init__(self) -> None:
        self._found: OrderedDict[_Asked, ConsistentAnswers] = OrderedDict()
        self._lock = Lock()

    def get(self, asked: _Asked) -> ConsistentAnswers | None:
        with self._lock:
            found = self._found.get(asked)
            if found is not None:
                self._found.move_to_end(asked)
            return found

    def put(self, asked: _Asked, found: ConsistentAnswers) -> None:
        with self._lock:
            self._found[asked] = found
            while len(self._found) > MAX_KEPT:
                self._found.popitem(last=False)


_kept = _Kept()


class ConsistentWorkload:
    """A workload with consistent answers, made before anything is asked.

    Args:
        queries: on one domain, at least one.

    Raises:
        CapacityError: the questions join too many values of too many attributes.
    """

    def __init__(self, queries: Sequence[LinearQuery]) -> None:
        grid = class_grid(*queries)
        self._queries = tuple(queries)
        self._place = {classes.axis: i for i, classes in enumerate(grid.axes)}
        # One attribute more, the same for all records, for terms without a condition.
        sizes = (*grid.shape, 1)
        everyone = (len(grid.axes),)
        scopes = {self._scope(term) for query in queries for term in query.terms}
        try:
            self._cheapest = CheapestCells(sizes, {everyone, *scopes}, max_cells=MAX_CELLS)
        except CapacityError as exc:
            raise _too_large("tables over the attributes that it joins", MAX_CELLS) from exc
        self._weights = self._written_out(queries, grid)

    def answers(
        self,
        given: Sequence[Answer | Offer],
        *,
        total: int | None,
        law: NoiseLaw,
        ends: Sequence[Ends] = (),
    ) -> ConsistentAnswers:
        """The nearest answers of one non-negative table.

        Args:
            given: per question its answer or its free interval. Distances count in scales: those of
                one noise whose interval at this confidence is as long.
            total: number of records where that is public.
            law: of the noise.
            ends: of a workload's answers; they take the place of the intervals, which may allow
                for a choice.
        """
        estimates = np.array([a.estimate for a in given], dtype=np.float64)
        intervals = zip(given, ends or given, strict=True)
        scales = np.array([_scale(a, found, law) for a, found in intervals], dtype=np.float64)
        noisy = scales > NOISELESS * np.maximum(1.0, np.abs(estimates))
        if not noisy.any():
            return ConsistentAnswers(tuple(estimates.tolist()), total, 0.0, 0.0)
        asked = _Asked(self._queries, tuple(estimates.tolist()), tuple(scales.tolist()), total)
        found = _kept.get(asked)
        if found is None:
            found = self._nearest(estimates, scales, noisy, total)
            _kept.put(asked, found)
        return found

    def _nearest(
        self, estimates: FloatArray, scales: FloatArray, noisy: NDArray[np.bool_], total: int | None
    ) -> ConsistentAnswers:
        found = nearest_table(
            self._cheapest,
            self._weights[:, np.flatnonzero(noisy)],
            estimates[noisy],
            scales[noisy],
            total=total,
            max_steps=MAX_STEPS,
        )
        # Exact answers count the total, which the table has, or nothing.
        moved = estimates.copy()
        moved[noisy] = found.answers
        return ConsistentAnswers(tuple(moved.tolist()), total, found.distance, found.gap)

    def _scope(self, term: Term) -> Scope:
        return tuple(sorted(self._place[a] for a in term.by_axis)) or (len(self._place),)

    def _written_out(self, queries: Sequence[LinearQuery], grid: ClassGrid) -> sparse.csr_array:
        """The weight of a record in each question, shape (cells of the layout, questions)."""
        layout: Layout = self._cheapest.layout
        cells, questions, weights = [], [], []
        n_weights = 0
        for i, query in enumerate(queries):
            for term in query.terms:
                found = _on_classes(term, grid)
                n_weights += len(found.cells)
                if n_weights > MAX_WEIGHTS:
                    raise _too_large("the weights of all conditions written out", MAX_WEIGHTS)
                cells.append(found.cells + layout.offsets[layout.index[self._scope(term)]])
                questions.append(np.full(len(found.cells), i))
                weights.append(found.weights)
        where = _joined(cells, np.intp), _joined(questions, np.intp)
        shape = (layout.n_cells, len(queries))
        return sparse.csr_array((_joined(weights, np.float64), where), shape=shape)


@dataclass(frozen=True)
class _OnClasses:
    """Cells, row-major, of a term's attributes on their classes, and its weights there."""

    cells: IndexArray
    weights: FloatArray


def _on_classes(term: Term, grid: ClassGrid) -> _OnClasses:
    """The term on its classes, where it is not zero."""
    cells, weights = np.zeros(1, dtype=np.intp), np.array([float(term.coefficient)])
    for classes in grid.axes:
        own = term.by_axis.get(classes.axis)
        if own is not None:
            dense = classes.on_classes(own)
            at = np.flatnonzero(dense)
            cells = np.add.outer(cells * classes.n, at).ravel()
            weights = np.multiply.outer(weights, dense[at].astype(np.float64)).ravel()
    return _OnClasses(cells, weights)


def _scale(answer: Answer | Offer, interval: Answer | Offer | Ends, law: NoiseLaw) -> float:
    return 0.5 * (interval.high - interval.low) / law.half_width_at(answer.confidence)


def _joined(parts: Sequence[np.ndarray], kind: type) -> np.ndarray:
    return np.concatenate([np.zeros(0, kind), *parts])


def _too_large(what: str, most: int) -> CapacityError:
    return CapacityError(
        f"`consistent` needs {what}, which would hold more than {most:,} numbers. Leave it out, or "
        "ask of fewer attributes, or of coarser conditions, at once."
    )
