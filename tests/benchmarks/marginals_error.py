"""Error of estimates from k random noisy 3-way marginals, by oracle: the paper's figure 2.

Eight attributes of four values, 10,000 records of a random tree, epsilon one in all, split evenly,
Laplace noise for replace-one neighbours (scale 2 k). The error is the L1 distance of proportions,
in-model over the k measured marginals and out-of-model over up to 20 others. Noise is simulated.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from qserver.models.marginals.estimate import Estimate, Oracle, estimate
from qserver.models.marginals.fit.measurement import NoisyMarginal
from qserver.models.marginals.graph.layout import FloatArray, Scope

from .local_consistency import locally_consistent
from .tables import Report, Value
from .wide_records import Records

SEED = 20_260_802
N_ATTRIBUTES, N_VALUES, N_RECORDS = 8, 4, 10_000
COUNTS = (1, 2, 4, 8, 16, 32, 56)
QUICK_COUNTS = (2, 8)
TRIALS = 5
MOST_OTHERS = 20
TEMPERATURE = 1.5
ORACLES: tuple[Oracle, ...] = ("exact", "saturated", "factor")


def run(*, quick: bool) -> Report:
    """Mean errors by number of marginals and oracle."""
    counts, trials = (QUICK_COUNTS, 1) if quick else (COUNTS, TRIALS)
    return Report(
        name="marginals_error",
        title="L1 error of marginals estimated from k noisy ones",
        parameters={
            "seed": SEED,
            "trials": trials,
            "records": N_RECORDS,
            "attributes": N_ATTRIBUTES,
            "values": N_VALUES,
            "temperature": TEMPERATURE,
            "neighbours": "replace-one",
        },
        rows=tuple(_row(k, trials) for k in counts),
    )


def tree_records(seed: int) -> Records:
    """Records of a random tree with normal log-potentials on its edges."""
    rng = np.random.default_rng(seed)
    codes = np.zeros((N_RECORDS, N_ATTRIBUTES), dtype=np.intp)
    codes[:, 0] = rng.integers(N_VALUES, size=N_RECORDS)
    for a in range(1, N_ATTRIBUTES):
        above = codes[:, rng.integers(a)]
        weights = np.exp(TEMPERATURE * rng.normal(size=(N_VALUES, N_VALUES)))
        steps = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
        codes[:, a] = (rng.random(N_RECORDS)[:, None] > steps[above, :-1]).sum(axis=1)
    return Records(codes, (N_VALUES,) * N_ATTRIBUTES)


@dataclass(frozen=True)
class Trial:
    """Records, marginals measured and not, and the measurements."""

    records: Records
    inside: Sequence[Scope]
    outside: Sequence[Scope]
    measurements: tuple[NoisyMarginal, ...]

    def error(self, tables: dict[Scope, FloatArray]) -> float:
        """Mean L1 distance of counts from the truth, as a proportion; zero for no tables."""
        found = [np.abs(t - self.records.counts(s)).sum() for s, t in tables.items()]
        return float(np.mean(found)) / self.records.n if found else 0.0


def trial_of(k: int, number: int) -> Trial:
    """Trial `number` with k measured triples."""
    records = tree_records(SEED + number)
    triples = list(combinations(range(N_ATTRIBUTES), 3))
    random.Random(SEED + 100 * number + k).shuffle(triples)
    inside, outside = triples[:k], triples[k:][:MOST_OTHERS]
    rng = np.random.default_rng(SEED + 1_000 * number + k)
    scale = 2.0 * k
    measurements = tuple(
        NoisyMarginal(
            s, records.counts(s) + rng.laplace(scale=scale, size=N_VALUES**3), np.array(scale)
        )
        for s in inside
    )
    return Trial(records, inside, outside, measurements)


def _row(k: int, trials: int) -> dict[str, Value]:
    found = [_errors(trial_of(k, number)) for number in range(trials)]
    row: dict[str, Value] = {"k": k}
    for column in found[0]:
        values = [f[column] for f in found]
        row[column] = (
            None if None in values else float(np.mean([v for v in values if v is not None]))
        )
    return row


def _errors(trial: Trial) -> dict[str, float | None]:
    noisy = {m.scope: m.answers for m in trial.measurements}
    local = locally_consistent(trial.records.sizes, trial.measurements, total=N_RECORDS)
    errors: dict[str, float | None] = {"noisy": trial.error(noisy)}
    estimates = {o: _estimate(trial, o) for o in ORACLES}
    for oracle, found in estimates.items():
        errors[f"in_{oracle}"] = trial.error(_tables(found, trial.inside))
    errors["in_local"] = trial.error(local)
    for oracle, found in estimates.items():
        outside = _tables(found, trial.outside)
        errors[f"out_{oracle}"] = trial.error(outside) if outside else None
    return errors


def _estimate(trial: Trial, oracle: Oracle) -> Estimate:
    # The total is public for replace-one neighbours.
    return estimate(
        trial.records.sizes,
        trial.measurements,
        oracle=oracle,
        total=float(N_RECORDS),
        max_cells=1 << 20,
    )


def _tables(found: Estimate, scopes: Sequence[Scope]) -> dict[Scope, FloatArray]:
    return {s: found.total * found.distribution.marginal(s).ravel() for s in scopes}
