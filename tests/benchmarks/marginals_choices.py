"""Estimates from choices alone: the paper's figure 3(c), after the method of FEM.

A mechanism chooses, round by round, a cell of a workload of 3-way marginals that records of its own
get badly wrong, with the exponential mechanism, and measures nothing. `records` answers by those
records, as such mechanisms do; `factor` and `saturated` by tables of the greatest likelihood of the
choices. Its records are found by ascent, over attributes and over whole cells that were
chosen, on what was chosen so far plus random bonuses.
The rounds grow with epsilon, so that each has the same part of it: with fewer the choices are surer
than there is use for, and few different cells are ever chosen; with more most of them are of noise.
Rounds, records and bonuses were tried on other seeds. Choices are simulated with seeds. Errors are
of proportions: the mean L1 distance per marginal, and the largest error of a cell. `chosen` is how
many different cells were, `uniform_l1` the error of tables that say nothing.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
import numpy.typing as npt

from qserver.models.marginals.graph.layout import FloatArray, Layout, Scope, layout_of
from tests.models.marginals.message_passing import BeliefPropagation, factor_graph, saturated
from tests.models.marginals.mirror_descent import LossAt, proximal_descent

from .tables import Report, Value
from .wide_records import Records, adult_records

SEED = 20_260_806
N_MARGINALS = 8
ROUNDS_PER_EPSILON = 240
N_DRAWN = 60
N_SWEEPS = 3
BONUS = 1.0
EPSILONS = (0.5, 1.0, 2.0)
TRIALS = 2
MAX_STEPS = 40


def run(*, quick: bool) -> Report:
    """Errors by epsilon: of the mechanism's own records, and of estimates from its choices."""
    epsilons, trials = (EPSILONS[1:2], 1) if quick else (EPSILONS, TRIALS)
    per_epsilon = 10 if quick else ROUNDS_PER_EPSILON
    return Report(
        name="marginals_choices",
        title="Error of a workload of 3-way marginals of Adult, from choices alone",
        parameters={
            "seed": SEED,
            "trials": trials,
            "marginals": N_MARGINALS,
            "rounds_per_epsilon": per_epsilon,
            "records_per_round": N_DRAWN,
            "bonus": BONUS,
            "steps": MAX_STEPS,
        },
        rows=tuple(_row(epsilon, round(per_epsilon * epsilon), trials) for epsilon in epsilons),
    )


def _row(epsilon: float, n_rounds: int, trials: int) -> dict[str, Value]:
    found = [_errors(epsilon, n_rounds, trial) for trial in range(trials)]
    row: dict[str, Value] = {"epsilon": epsilon, "rounds": n_rounds}
    return row | {c: float(np.mean([f[c] for f in found])) for c in found[0]}


@dataclass(frozen=True, eq=False)
class Workload:
    """Cells of some marginals, one after another, and the truth about them as proportions."""

    records: Records
    layout: Layout

    @cached_property
    def truth(self) -> FloatArray:
        """Proportions of all cells."""
        found = [self.records.counts(s) for s in self.layout.scopes]
        return np.concatenate(found) / self.records.n

    @cached_property
    def uniform(self) -> FloatArray:
        """Proportions where all cells of a table are alike."""
        sizes = np.diff(self.layout.offsets)
        return np.repeat(1.0 / sizes, sizes)

    def answers(self, codes: npt.NDArray[np.intp]) -> FloatArray:
        """Proportions among some records."""
        found = Records(codes, self.records.sizes)
        return np.concatenate([found.counts(s) for s in self.layout.scopes]) / len(codes)

    def errors(self, answers: FloatArray) -> dict[str, float]:
        """Mean L1 distance per marginal, and the largest error of a cell."""
        off = np.abs(answers - self.truth)
        return {"l1": float(off.sum()) / len(self.layout.scopes), "worst": float(off.max())}


@dataclass(frozen=True, eq=False)
class Chosen:
    """What was chosen, and what the records of each round answered.

    Args:
        cells: chosen cell per round; signs: 1 where the records had too little of it, else -1.
        answers: shape (rounds, cells of the workload).
        sharpness: factor of a score in the exponent of the exponential mechanism.
    """

    cells: npt.NDArray[np.intp]
    signs: FloatArray
    answers: FloatArray
    sharpness: float


def _errors(epsilon: float, n_rounds: int, trial: int) -> dict[str, float]:
    records = adult_records()
    triples = list(combinations(range(len(records.sizes)), 3))
    scopes = random.Random(SEED + trial).sample(triples, N_MARGINALS)
    work = Workload(records, layout_of(records.sizes, scopes))
    chosen = _choose(work, epsilon, n_rounds, np.random.default_rng(SEED + trial))
    errors = {f"{k}_records": v for k, v in work.errors(chosen.answers.mean(axis=0)).items()}
    for name, build in (("factor", factor_graph), ("saturated", saturated)):
        oracle = BeliefPropagation(build(records.sizes, scopes))
        tables = _most_likely(work, oracle, chosen)
        errors |= {f"{k}_{name}": v for k, v in work.errors(tables).items()}
    n_chosen = float(len(np.unique(chosen.cells)))
    shown = {"chosen": n_chosen, "uniform_l1": work.errors(work.uniform)["l1"]}
    return shown | {k: errors[k] for k in sorted(errors)}


def _choose(work: Workload, epsilon: float, n_rounds: int, rng: np.random.Generator) -> Chosen:
    """Rounds of finding records and choosing a cell that they get wrong."""
    # One record more or less changes a proportion of n by 1 / n at most.
    sharpness = epsilon / n_rounds * work.records.n / 2.0
    cells, signs, answers = [], [], []
    for _ in range(n_rounds):
        drawn = _records(work, cells, signs, rng)
        said = work.answers(drawn)
        scores = sharpness * np.concatenate([work.truth - said, said - work.truth])
        place = int(np.argmax(scores + rng.gumbel(size=len(scores))))
        cells.append(place % len(said))
        signs.append(1.0 if place < len(said) else -1.0)
        answers.append(said)
    return Chosen(np.array(cells), np.array(signs), np.array(answers), sharpness)


def _records(
    work: Workload, cells: Sequence[int], signs: Sequence[float], rng: np.random.Generator
) -> npt.NDArray[np.intp]:
    """Records that nearly maximise the signs of the chosen cells they are in, plus bonuses."""
    sizes = work.records.sizes
    bonuses = [BONUS * rng.exponential(size=(N_DRAWN, n)) for n in sizes]
    wanted = _wanted(work.layout, cells, signs)
    codes = rng.integers(0, np.array(sizes), size=(N_DRAWN, len(sizes)))
    for _ in range(N_SWEEPS):
        for a in rng.permutation(len(sizes)):
            codes[:, a] = (bonuses[a] + wanted.gains(codes, a, sizes[a])).argmax(axis=1)
        # One attribute at a time seldom gets into a cell of three.
        best = _worth(codes, bonuses, wanted)
        for c in rng.permutation(np.flatnonzero(wanted.weights > 0)):
            moved = codes.copy()
            moved[:, wanted.axes[c]] = wanted.values[c]
            found = _worth(moved, bonuses, wanted)
            codes = np.where((found > best)[:, None], moved, codes)
            best = np.maximum(found, best)
    return codes


@dataclass(frozen=True, eq=False)
class Wanted:
    """Different cells that were chosen: `axes` and `values` of shape (cells, 3), summed signs."""

    axes: npt.NDArray[np.intp]
    values: npt.NDArray[np.intp]
    weights: FloatArray

    def inside(self, codes: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
        """Which records are in which cells, shape (records, cells)."""
        return np.asarray((codes[:, self.axes] == self.values).all(axis=2))

    def gains(self, codes: npt.NDArray[np.intp], axis: int, size: int) -> FloatArray:
        """What each value of an attribute would add, the others as they are."""
        own = np.flatnonzero((self.axes == axis).any(axis=1))
        axes, values = self.axes[own], self.values[own]
        others = ((codes[:, axes] == values) | (axes == axis)).all(axis=2)
        by_value = np.zeros((len(own), size))
        by_value[np.arange(len(own)), values[axes == axis]] = self.weights[own]
        return np.asarray(others @ by_value)


def _wanted(layout: Layout, cells: Sequence[int], signs: Sequence[float]) -> Wanted:
    different, which = np.unique(np.array(cells, dtype=np.intp), return_inverse=True)
    labels = [_labels(layout, int(c)) for c in different]
    axes = np.array([list(found) for found in labels], dtype=np.intp).reshape(-1, 3)
    values = np.array([list(found.values()) for found in labels], dtype=np.intp).reshape(-1, 3)
    weights = np.bincount(which, weights=np.array(signs, dtype=float), minlength=len(different))
    return Wanted(axes, values, weights)


def _worth(
    codes: npt.NDArray[np.intp], bonuses: Sequence[FloatArray], wanted: Wanted
) -> FloatArray:
    """What each record is worth."""
    rows = np.arange(len(codes))
    own = sum(bonus[rows, codes[:, a]] for a, bonus in enumerate(bonuses))
    return np.asarray(wanted.inside(codes) @ wanted.weights + own)


def _labels(layout: Layout, cell: int) -> dict[int, int]:
    """The values of a cell of the workload, by attribute."""
    i = int(np.searchsorted(layout.offsets, cell, side="right")) - 1
    places = np.unravel_index(cell - int(layout.offsets[i]), layout.shape(i))
    return {a: int(p) for a, p in zip(layout.scopes[i], places, strict=True)}


def _most_likely(work: Workload, oracle: BeliefPropagation, chosen: Chosen) -> FloatArray:
    """Tables under which the choices were most likely: a convex loss."""
    places = np.concatenate([_cells_of(oracle.layout, s) for s in work.layout.scopes])
    unit = 1.0 / (chosen.sharpness * len(chosen.cells))

    def loss(tables: FloatArray) -> LossAt:
        rest = chosen.sharpness * (tables[places] - chosen.answers)
        both = np.concatenate([rest, -rest], axis=1)
        highest = both.max(axis=1, keepdims=True)
        weights = np.exp(both - highest)
        totals = weights.sum(axis=1, keepdims=True)
        taken = chosen.signs * rest[np.arange(len(rest)), chosen.cells]
        value = float((np.log(totals) + highest).sum() - taken.sum())
        weights /= totals
        n = rest.shape[1]
        slope = chosen.sharpness * (weights[:, :n] - weights[:, n:]).sum(axis=0)
        np.subtract.at(slope, chosen.cells, chosen.sharpness * chosen.signs)
        gradient = np.zeros(len(tables))
        gradient[places] = unit * slope
        return LossAt(unit * value, gradient)

    start = np.zeros(oracle.layout.n_cells)
    return proximal_descent(oracle, loss, start, max_steps=MAX_STEPS).tables[places]


def _cells_of(layout: Layout, scope: Scope) -> npt.NDArray[np.intp]:
    i = layout.index[scope]
    return np.arange(layout.offsets[i], layout.offsets[i + 1])
