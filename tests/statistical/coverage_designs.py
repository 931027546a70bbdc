"""Simulated histories: how often the stated intervals hold the truth.

Fixed designs choose rows and questions before any noise is drawn; there the stated confidence
is a frequency. The adaptive design chooses what to ask next by what was answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from qserver.inference.engine import InferenceEngine, RowEstimate
from qserver.query.linear_query import LinearQuery, linear_query, total_query
from qserver.query.primitive import primitive
from qserver.query.weights import indicator, interval
from qserver.records.history import Measurement

NANO = 10**9
# So fine that continuous noise stands for the lattice's.
STEP = Fraction(1, 1 << 40)
N_CELLS = 16
ENGINE_SEED = 1


@dataclass(frozen=True)
class Design:
    """Rows with their scales, and questions about them, on one attribute of N_CELLS values."""

    name: str
    rows: tuple[tuple[LinearQuery, int], ...]
    questions: tuple[LinearQuery, ...]


@dataclass(frozen=True)
class Coverage:
    """How many of `n` intervals held the truth."""

    held: int
    n: int

    @property
    def rate(self) -> float:
        """The observed frequency."""
        return self.held / self.n

    @property
    def standard_error(self) -> float:
        """Of the rate, from the rate itself; never quite 0."""
        return float(np.sqrt(max(self.rate * (1 - self.rate), 1 / self.n) / self.n))


def ranged(low: int, high: int) -> LinearQuery:
    """Count of the values low <= v < high."""
    return linear_query((N_CELLS,), [(1, {0: interval(N_CELLS, low, high)})])


def chosen(*values: int) -> LinearQuery:
    """Count of some values."""
    return linear_query((N_CELLS,), [(1, {0: indicator(N_CELLS, values)})])


def fixed_designs() -> tuple[Design, ...]:
    """Designs without and with dependent rows."""
    total = total_query((N_CELLS,))
    leaves = tuple((ranged(i, i + 4), 10) for i in range(0, N_CELLS, 4))
    tree = ((total, 6), (ranged(0, 8), 10), (ranged(8, 16), 14), *leaves)
    weighted = ranged(0, 4).scaled(3) - ranged(8, 12).scaled(Fraction(1, 2))
    asked = (ranged(0, 12), ranged(4, 8), weighted)
    return (
        Design("independent rows", leaves, asked),
        Design("independent rows, very unequal", _unequal(leaves), asked),
        Design("repeated rows", (*leaves, *leaves, *leaves), asked),
        Design("tree", tree, (*asked, total)),
        Design("tree with an exact total", (*tree, (total, 0)), (*asked, ranged(0, 8))),
    )


def _unequal(rows: tuple[tuple[LinearQuery, int], ...]) -> tuple[tuple[LinearQuery, int], ...]:
    return tuple((q, scale) for (q, _), scale in zip(rows, (1, 10, 100, 1000), strict=True))


def fixed_coverage(
    design: Design,
    *,
    confidence: float,
    n: int,
    rng: np.random.Generator,
    shortened: float = 1.0,
) -> Coverage:
    """Coverage over n histories of the design, each with its own noise, and all its questions.

    Args:
        design: rows and questions.
        confidence: that of the intervals.
        n: histories.
        rng: source of data and noise.
        shortened: factor on every half-width; below 1 only as a negative control.
    """
    truth = rng.integers(0, 2000, N_CELLS)
    engine = _engine(design.rows)
    scales = np.array([float(s) for _, s in design.rows])
    answers = np.array([_exact(q, truth) for q, _ in design.rows])
    noisy = answers + rng.laplace(size=(n, len(scales))) * scales
    held = 0
    for question in design.questions:
        found = engine.estimate(primitive(question), confidence=confidence)
        if found is None:
            raise ValueError(f"{design.name} does not answer its questions")
        # Rows are primitive already but for their multiplier.
        weights = np.array([w for _, w in found.weights])
        estimates = noisy[:, found.ids] @ weights
        off = np.abs(estimates - _exact(question, truth))
        held += int((off <= shortened * found.half_width).sum())
    return Coverage(held, n * len(design.questions))


def _exact(query: LinearQuery, truth: npt.NDArray[np.int64]) -> float:
    """The true answer of the query's primitive row."""
    row = primitive(query).row
    return float(sum(row.value_at((c,)) * int(truth[c]) for c in range(N_CELLS)))


def _engine(rows: tuple[tuple[LinearQuery, int], ...]) -> InferenceEngine:
    engine = InferenceEngine((N_CELLS,))
    engine.extend(_measurement(i, q, s) for i, (q, s) in enumerate(rows))
    return engine


def _measurement(number: int, query: LinearQuery, scale: int) -> Measurement:
    row = primitive(query)
    return Measurement(number, row.row, row.key, NANO // scale if scale else 0, STEP, 0)


# The adaptive analyst.

SCALE = 10
LOOSER = 1.35
"""How much longer an interval the second half of a pair may have: some come from history."""


@dataclass(frozen=True)
class AdaptiveCoverage:
    """Coverage of all answers, of those from history, and of the last one of each search."""

    all: Coverage
    from_history: Coverage
    last: Coverage


@dataclass(frozen=True)
class _Answered:
    estimate: float
    held: bool
    from_history: bool


class _Analyst:
    """Searches for the largest cell: asks both halves of a range, follows the larger answer."""

    def __init__(self, confidence: float, rng: np.random.Generator) -> None:
        self._confidence = confidence
        self._rng = rng
        # Close counts: then noise decides where the search goes.
        self._truth = 100 + rng.integers(0, 12, N_CELLS)
        self._rows: tuple[tuple[int, int], ...] = ()
        self._noisy: list[float] = []

    def search(self) -> Iterator[_Answered]:
        low, high = 0, N_CELLS
        yield self._ask(low, high, looser=1.0)
        while high - low > 1:
            middle = (low + high) // 2
            left = self._ask(low, middle, looser=1.0)
            yield left
            right = self._ask(middle, high, looser=LOOSER)
            yield right
            low, high = (low, middle) if left.estimate > right.estimate else (middle, high)
        yield self._ask(low, high, looser=LOOSER)

    def _ask(self, low: int, high: int, *, looser: float) -> _Answered:
        target = looser * fresh_half_width(self._confidence)
        found = estimate_of(self._rows, (low, high), self._confidence)
        from_history = found is not None and found.half_width <= target
        if not from_history:
            self._rows = (*self._rows, (low, high))
            truth = float(self._truth[low:high].sum())
            self._noisy.append(truth + float(self._rng.laplace()) * SCALE)
            found = estimate_of(self._rows, (low, high), self._confidence)
        if found is None:
            raise ValueError("a measured row has an estimate")
        estimate = sum(w * self._noisy[i] for i, w in found.weights)
        off = abs(estimate - float(self._truth[low:high].sum()))
        return _Answered(estimate, off <= found.half_width, from_history)


def fresh_half_width(confidence: float) -> float:
    """Half-width of one measurement."""
    return -SCALE * float(np.log1p(-confidence)) * (1 + 1e-6)


@lru_cache(maxsize=1 << 16)
def estimate_of(
    rows: tuple[tuple[int, int], ...], question: tuple[int, int], confidence: float
) -> RowEstimate | None:
    """What a history of these ranges says; no answer enters the choice of weights."""
    engine = _engine(tuple((ranged(*row), SCALE) for row in rows))
    return engine.estimate(primitive(ranged(*question)), confidence=confidence)


def adaptive_coverage(*, confidence: float, n: int, rng: np.random.Generator) -> AdaptiveCoverage:
    """Coverage over n searches."""
    everything: list[_Answered] = []
    last: list[_Answered] = []
    for _ in range(n):
        answers = list(_Analyst(confidence, rng).search())
        everything += answers
        last.append(answers[-1])
    return AdaptiveCoverage(
        _coverage(everything), _coverage([a for a in everything if a.from_history]), _coverage(last)
    )


def _coverage(answers: list[_Answered]) -> Coverage:
    return Coverage(sum(a.held for a in answers), len(answers))
