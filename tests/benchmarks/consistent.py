"""Consistent answers of workloads of Adult: their error beside that of the unbiased ones.

Each workload's true answers get Laplace noise of one scale, 200 records, drawn with seeds. The
error of an estimate is in scales; `unbiased` and `consistent` are its root mean square, `worst` the
largest ratio of the two in a trial. Where `total` is public the table has it. `seconds` is the
processor time of one set of answers, `gap` the largest that was left.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from qserver.answering.consistency import ConsistentWorkload
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.weights import indicator, interval
from qserver.records.answer import Answer
from qserver.records.privacy.noise_law import LAPLACE

from .tables import Report, Value
from .wide_records import Records, adult_records

SEED = 20_261_122
SCALE = 200.0
TRIALS = 20
CONFIDENCE = 0.95
Axes = dict[int, tuple[int, ...]]


def run(*, quick: bool) -> Report:
    """Errors and times by workload, without and with a public total."""
    records = adult_records()
    trials = 2 if quick else TRIALS
    return Report(
        name="consistent",
        title="Error of workloads of Adult, unbiased and consistent",
        parameters={"seed": SEED, "scale": SCALE, "trials": trials},
        rows=tuple(
            _row(records, name, made(records), trials, is_public=is_public)
            for name, made in (_QUICK if quick else _WORKLOADS).items()
            for is_public in (False, True)
        ),
    )


def _histograms(records: Records) -> list[Axes]:
    """Every value of every attribute."""
    return [{a: (v,)} for a, n in enumerate(records.sizes) for v in range(n)]


def _marginal(records: Records) -> list[Axes]:
    """Every cell of a 3-way marginal of some 300 cells, with the marginals inside it."""
    scope = _scope(records, cells=300)
    found: list[Axes] = []
    for n_kept in range(4):
        for kept in _parts(scope, n_kept):
            found += [
                {a: (v,) for a, v in zip(kept, values, strict=True)}
                for values in product(*(range(records.sizes[a]) for a in kept))
            ]
    return found


def _ranges(records: Records) -> list[Axes]:
    """200 random ranges of two attributes."""
    generator = random.Random(SEED)
    scope = _scope(records, cells=300)[:2]
    return [{a: _range(generator, records.sizes[a]) for a in scope} for _ in range(200)]


def _conditions(records: Records) -> list[Axes]:
    """500 random questions about three of six attributes, a set of values of each."""
    generator = random.Random(SEED)
    few = sorted(range(len(records.sizes)), key=lambda a: records.sizes[a])[:6]
    return [
        {a: _range(generator, records.sizes[a]) for a in generator.sample(few, 3)}
        for _ in range(500)
    ]


_WORKLOADS: dict[str, Callable[[Records], list[Axes]]] = {
    "histograms of all attributes": _histograms,
    "a 3-way marginal and all inside it": _marginal,
    "200 ranges of two attributes": _ranges,
    "500 conditions on three of six": _conditions,
}
_QUICK = {name: _WORKLOADS[name] for name in list(_WORKLOADS)[::2]}


def _scope(records: Records, *, cells: int) -> tuple[int, ...]:
    """Three attributes with about so many cells together: the nearest, the first of equals."""
    sizes = records.sizes
    every = [s for s in product(range(len(sizes)), repeat=3) if s[0] < s[1] < s[2]]
    return min(every, key=lambda s: abs(sizes[s[0]] * sizes[s[1]] * sizes[s[2]] - cells))


def _parts(scope: tuple[int, ...], n: int) -> list[tuple[int, ...]]:
    every = product((False, True), repeat=len(scope))
    return [
        tuple(a for a, k in zip(scope, kept, strict=True) if k) for kept in every if sum(kept) == n
    ]


def _range(generator: random.Random, size: int) -> tuple[int, ...]:
    low = generator.randrange(size)
    return tuple(range(low, generator.randint(low + 1, size)))


def _row(
    records: Records, name: str, asked: Sequence[Axes], trials: int, *, is_public: bool
) -> dict[str, Value]:
    queries = [_query(records, axes) for axes in asked]
    truth = np.array([_count(records, axes) for axes in asked], dtype=np.float64)
    task = ConsistentWorkload(queries)
    before, after, seconds, gaps = [], [], [], []
    for trial in range(trials):
        noise = np.random.default_rng(SEED + trial).laplace(0.0, SCALE, len(truth))
        begun = time.process_time()
        total = records.n if is_public else None
        found = task.answers([_answer(v) for v in truth + noise], total=total, law=LAPLACE)
        seconds.append(time.process_time() - begun)
        before.append(float(np.square(noise / SCALE).mean()))
        after.append(float(np.square((np.array(found.estimates) - truth) / SCALE).mean()))
        gaps.append(found.gap)
    ratios = np.sqrt(np.array(after) / np.array(before))
    return {
        "workload": name,
        "questions": len(queries),
        "total": "public" if is_public else "not known",
        "unbiased": float(np.sqrt(np.mean(before))),
        "consistent": float(np.sqrt(np.mean(after))),
        "worst": float(ratios.max()),
        "seconds": float(np.mean(seconds)),
        "gap": max(gaps),
    }


def _query(records: Records, axes: Axes) -> LinearQuery:
    weights = {
        a: interval(records.sizes[a], v[0], v[-1] + 1)
        if len(v) > 1
        else indicator(records.sizes[a], v)
        for a, v in axes.items()
    }
    return linear_query(records.sizes, [(1, weights)])


def _count(records: Records, axes: Axes) -> int:
    inside = np.ones(records.n, dtype=np.bool_)
    for a, values in axes.items():
        inside &= np.isin(records.codes[:, a], values)
    return int(inside.sum())


def _answer(value: float) -> Answer:
    half_width = -SCALE * float(np.log1p(-CONFIDENCE))
    return Answer(
        estimate=float(value),
        low=float(value) - half_width,
        high=float(value) + half_width,
        confidence=CONFIDENCE,
        confidence_attained=CONFIDENCE,
        source="history",
        charged_nano=0,
        remaining_nano=0,
        evidence=(),
        weights="direct",
        version=0,
    )
