"""Marginal-based estimation at scale: time per iteration and memory against numbers of marginals.

Random triples of attributes with ten values each; noisy uniform tables are the targets, since time
does not depend on the data. An iteration of messages is a gradient step, one pass and the next
beliefs; one of consensus a fit of every table and a projection. The plain baseline does the
iteration of messages with a loop over tables, in the same run and to the same beliefs.

`prototype_ratio` is against an earlier prototype on two cores of another machine.
"""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from qserver.models.marginals.fit.consensus import agree
from qserver.models.marginals.fit.measurement import NoisyMarginal
from qserver.models.marginals.fit.observations import Observations
from qserver.models.marginals.graph.layout import Scope, layout_of
from qserver.models.marginals.graph.triangulation import clique_tree
from tests.models.marginals.message_passing import BeliefPropagation, RegionGraph, saturated

from .machine import times_of
from .plain_propagation import PlainPropagation
from .tables import Report, Value

FloatArray: TypeAlias = npt.NDArray[np.float64]
Tables: TypeAlias = Mapping[Scope, FloatArray]

SEED = 20_260_801
N_VALUES = 10
CASES = ((25, 100), (50, 100), (100, 100), (100, 1_000), (100, 10_000))
QUICK_CASES = ((12, 20), (12, 60))
REPETITIONS = 3
# At most so many triples are done more than once, and compared value by value.
MOST_REPEATED = 1_000
ROUNDS = 5
# What the numpy prototype that set the goal took per iteration, on two cores.
PROTOTYPE_S = {100: 0.14, 1_000: 2.5, 10_000: 15.9}


def run(*, quick: bool) -> Report:
    """Times per iteration and memory by number of attributes and of triples."""
    cases = QUICK_CASES if quick else CASES
    return Report(
        name="marginals",
        title="Time of one iteration and memory, by number of marginals",
        parameters={
            "seed": SEED,
            "values_per_attribute": N_VALUES,
            "repetitions": REPETITIONS,
            "rounds": ROUNDS,
            "most_repeated": MOST_REPEATED,
            "prototype_s": {str(k): s for k, s in PROTOTYPE_S.items()},
        },
        rows=tuple(_row(*case) for case in cases),
    )


def triples(n_attributes: int, n: int, seed: int) -> list[Scope]:
    """Different random triples, in order."""
    generator = random.Random(seed)
    found: set[Scope] = set()
    while len(found) < n:
        a, b, c = sorted(generator.sample(range(n_attributes), 3))
        found.add((a, b, c))
    return sorted(found)


def _row(n_attributes: int, n: int) -> dict[str, Value]:
    sizes = (N_VALUES,) * n_attributes
    scopes = triples(n_attributes, n, SEED)
    graph = saturated(sizes, scopes)
    noise = np.random.default_rng(SEED)
    tables = {s: 1e-3 + 1e-3 * noise.normal(size=(N_VALUES,) * 3) for s in scopes}
    messages = _messages(graph, tables)
    seen = Observations(layout_of(sizes, scopes), _released(tables), total=1.0)
    consensus = times_of([partial(agree, seen, gap=0.0, max_rounds=ROUNDS)])
    set_up = times_of([partial(agree, seen, gap=0.0, max_rounds=1)])
    per_round = (consensus.median_ms - set_up.median_ms) / (ROUNDS - 1)
    cells = n * N_VALUES**3
    return {
        "attributes": n_attributes,
        "triples": n,
        "regions": len(graph.layout.scopes),
        "exact_cells": float(clique_tree(sizes, scopes).n_cells),
        "messages_ms": messages.batched_ms,
        "consensus_ms": per_round,
        "plain_ms": messages.plain_ms,
        "plain_ratio": messages.plain_ms / messages.batched_ms,
        "prototype_ratio": _against_prototype(n_attributes, n, messages.batched_ms),
        "difference": messages.difference,
        "bytes_per_cell": _peak_bytes(graph) / cells,
    }


def _against_prototype(n_attributes: int, n: int, ms: float) -> float | None:
    return 1000.0 * PROTOTYPE_S[n] / ms if n_attributes == 100 and n in PROTOTYPE_S else None


def _released(tables: Tables) -> list[NoisyMarginal]:
    return [NoisyMarginal(s, t.ravel(), np.array(1e-3)) for s, t in tables.items()]


@dataclass(frozen=True)
class _Messages:
    """Median times of one iteration, and the largest difference between their beliefs."""

    batched_ms: float
    plain_ms: float
    difference: float | None


def _messages(graph: RegionGraph, tables: Tables) -> _Messages:
    repetitions = REPETITIONS if len(tables) <= MOST_REPEATED else 1
    propagation = BeliefPropagation(graph)
    theta = np.zeros(graph.layout.n_cells)
    targets = np.concatenate([tables[s].ravel() for s in graph.layout.scopes[: len(tables)]])
    step = partial(_gradient_step, theta.copy(), np.full_like(theta, 1e-3), targets)
    beliefs = partial(propagation.run, theta, tolerance=0.0, max_passes=0)
    passes = partial(propagation.run, theta, tolerance=0.0, max_passes=ROUNDS)
    steps, alone, rounds = (times_of([f] * repetitions).median_ms for f in (step, beliefs, passes))
    plain = PlainPropagation(graph, part=propagation.part)
    potentials = {s: np.zeros(graph.layout.shape(i)) for i, s in enumerate(graph.layout.scopes)}
    plain_ms = times_of([partial(plain.step, potentials, tables)] * repetitions).median_ms
    difference = _difference(graph) if len(tables) <= MOST_REPEATED else None
    return _Messages(steps + (rounds - alone) / ROUNDS, plain_ms, difference)


def _gradient_step(theta: FloatArray, beliefs: FloatArray, targets: FloatArray) -> None:
    """A step on the distance from the targets of the triples, which come first."""
    n = len(targets)
    theta[:n] -= beliefs[:n] - targets


def _difference(graph: RegionGraph) -> float:
    """Beliefs of the two after some passes at the same random potentials."""
    noise = np.random.default_rng(SEED + 1)
    theta = noise.normal(size=graph.layout.n_cells)
    propagation = BeliefPropagation(graph)
    found = propagation.run(theta, tolerance=0.0, max_passes=2).tables
    plain = PlainPropagation(graph, part=propagation.part)
    potentials = {s: graph.layout.table(theta, i) for i, s in enumerate(graph.layout.scopes)}
    for _ in range(3):
        beliefs = plain.step(potentials, {})
    return max(
        float(np.abs(graph.layout.table(found, i) - beliefs[s]).max())
        for i, s in enumerate(graph.layout.scopes)
    )


def _peak_bytes(graph: RegionGraph) -> int:
    """Most memory held while messages are set up and two passes are made."""
    theta = np.zeros(graph.layout.n_cells)
    tracemalloc.start()
    BeliefPropagation(graph).run(theta, tolerance=0.0, max_passes=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak
