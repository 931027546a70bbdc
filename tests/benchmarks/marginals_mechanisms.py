"""Estimates under mechanisms that choose what to measure: the paper's figure 3 and table C.4.

`fixed` measures the marginals of least expected error for a workload of k random 3-way marginals
(the method of HDMM restricted to marginals); `adaptive` measures, round by round, a 2-way marginal
that the estimate gets badly wrong (the method of MWEM); `all pairs` measures 32 random 2-way
marginals. Noise and choices are simulated with seeds. The error is the mean L1 distance of the
workload's marginals as proportions; `unbiased` is agreement by least squares without regard to
signs, `local` the baseline after it. A dash where the exact tables would be too large.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from qserver.errors import CapacityError
from qserver.models.marginals.estimate import Oracle, estimate
from qserver.models.marginals.fit.consistency import Consistency
from qserver.models.marginals.fit.measurement import NoisyMarginal
from qserver.models.marginals.graph.layout import FloatArray, Scope, layout_of
from qserver.models.marginals.graph.triangulation import clique_tree
from qserver.models.marginals.selection import best_choice

from .adaptive_rounds import adaptive_rounds
from .local_consistency import locally_consistent
from .tables import Report, Value
from .wide_records import Records, adult_records, alarm_records

SEED = 20_260_803
EPSILON = 1.0
WORKLOADS = (8, 32, 128)
N_ROUNDS = 40
REPORTED_ROUNDS = (5, 10, 20, 30, 40)
EPSILON_PER_ROUND = 0.1
PAIR_EPSILONS = (0.01, 0.1, 1.0, 10.0)
N_PAIRS = 32
TRIALS = 2
LARGEST_EXACT = 1 << 14


def run(*, quick: bool) -> Report:
    """Errors by data, mechanism and its setting."""
    data = (
        {"adult": adult_records()}
        if quick
        else {"adult": adult_records(), "alarm": alarm_records()}
    )
    trials = 1 if quick else TRIALS
    rows: list[dict[str, Value]] = []
    for name, records in data.items():
        rows += [
            _mean(name, "fixed", f"k={k}", [_fixed(records, k, t) for t in range(trials)])
            for k in (WORKLOADS[:1] if quick else WORKLOADS)
        ]
        rows += _adaptive_rows(name, records, n=3 if quick else N_ROUNDS, trials=trials)
        for epsilon in PAIR_EPSILONS[1:2] if quick else PAIR_EPSILONS:
            found = [_pairs(records, epsilon, t) for t in range(trials)]
            rows.append(_mean(name, "all pairs", f"epsilon={epsilon:g}", found))
    return Report(
        name="marginals_mechanisms",
        title="L1 error of a workload of marginals, by mechanism and estimate",
        parameters={
            "seed": SEED,
            "trials": trials,
            "epsilon": EPSILON,
            "epsilon_per_round": EPSILON_PER_ROUND,
            "largest_exact": LARGEST_EXACT,
            "neighbours": "add-remove",
        },
        rows=tuple(rows),
    )


_COLUMNS = ("noisy", "unbiased", "local", "factor", "saturated", "exact")


def _mean(
    data: str, mechanism: str, setting: str, found: Sequence[Mapping[str, float | None]]
) -> dict[str, Value]:
    row: dict[str, Value] = {"data": data, "mechanism": mechanism, "setting": setting}
    for column in _COLUMNS:
        values = [f.get(column) for f in found]
        known = [v for v in values if v is not None]
        row[column] = float(np.mean(known)) if len(known) == len(values) else None
    return row


def _fixed(records: Records, k: int, trial: int) -> dict[str, float | None]:
    generator = random.Random(SEED + 10 * trial + k)
    triples = list(combinations(range(len(records.sizes)), 3))
    workload = sorted(generator.sample(triples, k))
    choice = best_choice(records.sizes, workload)
    rng = np.random.default_rng(SEED + trial)
    measured = [
        noisy(records, s, EPSILON * float(a), rng)
        for s, a in zip(choice.scopes, choice.shares, strict=True)
    ]
    return _errors(records, workload, measured)


def _pairs(records: Records, epsilon: float, trial: int) -> dict[str, float | None]:
    pairs = list(combinations(range(len(records.sizes)), 2))
    chosen = sorted(random.Random(SEED + trial).sample(pairs, N_PAIRS))
    rng = np.random.default_rng(SEED + trial)
    measured = [noisy(records, s, epsilon / N_PAIRS, rng) for s in chosen]
    return _errors(records, chosen, measured)


def noisy(records: Records, scope: Scope, alpha: float, rng: np.random.Generator) -> NoisyMarginal:
    """A marginal with simulated Laplace noise of scale 1 / alpha."""
    truth = records.counts(scope)
    return NoisyMarginal(
        scope, truth + rng.laplace(scale=1 / alpha, size=len(truth)), np.array(1 / alpha)
    )


def _errors(
    records: Records, workload: Sequence[Scope], measured: Sequence[NoisyMarginal]
) -> dict[str, float | None]:
    whole = [m for m in measured if m.scope]
    scopes = {m.scope for m in whole}
    errors: dict[str, float | None] = {}
    if set(workload) <= scopes:
        said = {m.scope: m.answers for m in whole}
        errors["noisy"] = l1_error(records, {s: said[s] for s in workload})
        local = locally_consistent(records.sizes, whole, total=float(records.n))
        errors["local"] = l1_error(records, {s: local[s] for s in workload})
    errors["unbiased"] = l1_error(records, _unbiased(records, workload, whole))
    for oracle in ("factor", "saturated", "exact"):
        if oracle == "exact" and clique_tree(records.sizes, scopes).n_cells > LARGEST_EXACT:
            continue
        found = _estimated(records, whole, oracle)
        errors[oracle] = l1_error(records, {s: found(s) for s in workload})
    return errors


def _unbiased(
    records: Records, workload: Sequence[Scope], measured: Sequence[NoisyMarginal]
) -> dict[Scope, FloatArray]:
    """Weighted least squares on agreement alone."""
    said = {m.scope: m for m in measured}
    layout = layout_of(records.sizes, said)
    precision = np.array([1.0 / float(said[s].scales[0]) ** 2 for s in layout.scopes])
    tables = np.concatenate([said[s].answers for s in layout.scopes]) / records.n
    agreed = Consistency(layout, weights=precision / precision.max()).project(tables)
    return {s: records.n * layout.table(agreed, layout.index[s]).ravel() for s in workload}


def _estimated(
    records: Records, measured: Sequence[NoisyMarginal], oracle: Oracle
) -> Callable[[Scope], FloatArray]:
    found = estimate(
        records.sizes, measured, oracle=oracle, total=float(records.n), max_cells=LARGEST_EXACT
    )
    return lambda scope: records.n * found.distribution.marginal(scope).ravel()


def l1_error(records: Records, tables: Mapping[Scope, FloatArray]) -> float:
    """Mean L1 distance of counts from the truth, as a proportion."""
    found = [float(np.abs(t - records.counts(s)).sum()) for s, t in tables.items()]
    return float(np.mean(found)) / records.n


class SimulatedSource:
    """Adaptive choices and measurements with seeded noise; never for real data."""

    def __init__(self, records: Records, seed: int) -> None:
        self._records, self._rng = records, np.random.default_rng(seed)

    def choose(self, estimates: Mapping[Scope, FloatArray], *, alpha: float) -> Scope:
        """Exponential mechanism on L1 errors less what a measurement would leave of them."""
        scopes = list(estimates)
        scores = np.array(
            [
                np.abs(estimates[s] - self._records.counts(s)).sum() - len(estimates[s]) / alpha
                for s in scopes
            ]
        )
        # One record more or less moves a score by at most one.
        return scopes[int(np.argmax(alpha * scores / 2 + self._rng.gumbel(size=len(scopes))))]

    def measure(self, scope: Scope, *, alpha: float) -> NoisyMarginal:
        """The marginal with Laplace noise of scale 1 / alpha."""
        return noisy(self._records, scope, alpha, self._rng)


def _adaptive_rows(name: str, records: Records, *, n: int, trials: int) -> list[dict[str, Value]]:
    """Errors over all pairs after some rounds, by oracle."""
    pairs = list(combinations(range(len(records.sizes)), 2))
    found: dict[int, list[dict[str, float | None]]] = {}
    for trial in range(trials):
        for oracle in ("exact", "saturated"):
            for r, error in _adaptive(records, pairs, oracle, n, SEED + trial):
                kept = found.setdefault(r, [{} for _ in range(trials)])
                kept[trial][oracle] = error
    return [_mean(name, "adaptive", f"round {r}", found[r]) for r in sorted(found)]


def _adaptive(
    records: Records, pairs: Sequence[Scope], oracle: Oracle, n: int, seed: int
) -> Iterator[tuple[int, float]]:
    source = SimulatedSource(records, seed)
    rounds = adaptive_rounds(
        records.sizes,
        pairs,
        source,
        n=n,
        alpha=EPSILON_PER_ROUND,
        oracle=oracle,
        total=float(records.n),
        max_cells=LARGEST_EXACT,
    )
    number = 0
    while True:
        try:
            found = next(rounds).estimate
        except (CapacityError, StopIteration):
            return
        number += 1
        if number in REPORTED_ROUNDS or number == n:
            tables = {s: records.n * found.distribution.marginal(s).ravel() for s in pairs}
            yield number, l1_error(records, tables)
