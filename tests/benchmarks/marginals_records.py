"""Synthetic records by pairs: how far from the truth, beside their model and a fresh sample.

All pairs of the attributes are measured, each for an equal share of epsilon (Laplace noise,
add/remove-one neighbours), and a relaxed model is made of them. `sample` is what as many true
records, drawn anew, err by; `drawn` what records of the tree alone do, `records` those that are
moved afterwards. Errors are mean L1 distances of proportions over all pairs. Noise is simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations

import numpy as np

from qserver.models.marginals.estimate import RecordSource, estimate, record_source
from qserver.models.marginals.fit.observations import NoisyMarginal
from qserver.models.marginals.graph.layout import FloatArray, IndexArray, Scope

from .machine import times_of
from .tables import Report, Value
from .wide_records import Records, adult_records, alarm_records

SEED = 20_261_122
EPSILONS = (1.0, 10.0)
ALARM_ATTRIBUTES = 18
QUICK_ATTRIBUTES = 8
"""Of alarm, so many of the first attributes."""


def run(*, quick: bool) -> Report:
    """Errors by data and epsilon."""
    data = {"alarm": _first(alarm_records(), QUICK_ATTRIBUTES if quick else ALARM_ATTRIBUTES)}
    if not quick:
        data = {"adult": adult_records(), **data}
    return Report(
        name="marginals_records",
        title="L1 error of synthetic records, mean over all pairs",
        parameters={"seed": SEED, "neighbours": "add-remove"},
        rows=tuple(_row(name, data[name], e) for name in data for e in EPSILONS),
    )


def _first(records: Records, n: int) -> Records:
    return Records(records.codes[:, :n], records.sizes[:n])


def _row(name: str, records: Records, epsilon: float) -> dict[str, Value]:
    pairs = list(combinations(range(len(records.sizes)), 2))
    rng = np.random.default_rng(SEED)
    scale = len(pairs) / epsilon
    said = [NoisyMarginal(s, _noisy(records.counts(s), scale, rng), np.array(scale)) for s in pairs]
    model = estimate(records.sizes, said, oracle="saturated", total=float(records.n))
    found: list[RecordSource] = []
    fit = times_of([lambda: found.append(record_source(model))])
    (source,) = found
    sample = records.codes[rng.integers(records.n, size=records.n)]
    drawn = source.drawn_from.draw(records.n, np.random.default_rng(SEED))
    draws: list[IndexArray] = []
    draw = times_of([lambda: draws.append(source.draw(records.n, np.random.default_rng(SEED)))])
    (moved,) = draws
    of_model = _error(records, lambda s: model.distribution.marginal(s).ravel(), pairs)
    of_moved = _of_records(records, moved, pairs)
    return {
        "data": name,
        "pairs": len(pairs),
        "epsilon": epsilon,
        "sample": _of_records(records, sample, pairs),
        "model": of_model,
        "drawn": _of_records(records, drawn, pairs),
        "records": of_moved,
        "ratio": of_moved / of_model,
        "fit_s": fit.median_ms / 1000,
        "draw_s": draw.median_ms / 1000,
    }


def _noisy(counts: FloatArray, scale: float, rng: np.random.Generator) -> FloatArray:
    return counts + rng.laplace(scale=scale, size=len(counts))


def _of_records(truth: Records, codes: IndexArray, scopes: Iterable[Scope]) -> float:
    found = Records(codes, truth.sizes)
    return _error(truth, lambda s: found.counts(s) / found.n, scopes)


def _error(truth: Records, told: Callable[[Scope], FloatArray], scopes: Iterable[Scope]) -> float:
    return float(np.mean([np.abs(told(s) - truth.counts(s) / truth.n).sum() for s in scopes]))
