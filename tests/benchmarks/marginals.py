"""Models of marginals at scale: the time of one round of consensus against numbers of marginals.

Random triples of attributes with ten values each; noisy uniform tables are the targets, since time
does not depend on the data. A round is a fit of every table and a projection.
"""

from __future__ import annotations

import random
from functools import partial

import numpy as np

from qserver.models.marginals.fit.consensus import agree
from qserver.models.marginals.fit.observations import NoisyMarginal, Observations
from qserver.models.marginals.graph.junction_tree import clique_tree
from qserver.models.marginals.graph.layout import Scope, layout_of

from .machine import times_of
from .tables import Report, Value

SEED = 20_260_801
N_VALUES = 10
CASES = ((25, 100), (50, 100), (100, 100), (100, 1_000), (100, 10_000))
QUICK_CASES = ((12, 20), (12, 60))
ROUNDS = 5


def run(*, quick: bool) -> Report:
    """The time of a round by number of attributes and of triples."""
    cases = QUICK_CASES if quick else CASES
    return Report(
        name="marginals",
        title="Time of one round of consensus, by number of marginals",
        parameters={"seed": SEED, "values_per_attribute": N_VALUES, "rounds": ROUNDS},
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
    noise = np.random.default_rng(SEED)
    released = [
        NoisyMarginal(s, 1e-3 + 1e-3 * noise.normal(size=N_VALUES**3), np.array(1e-3))
        for s in scopes
    ]
    seen = Observations(layout_of(sizes, scopes), released, total=1.0)
    consensus = times_of([partial(agree, seen, gap=0.0, max_rounds=ROUNDS)])
    set_up = times_of([partial(agree, seen, gap=0.0, max_rounds=1)])
    return {
        "attributes": n_attributes,
        "triples": n,
        "exact_cells": float(clique_tree(sizes, scopes).n_cells),
        "consensus_ms": (consensus.median_ms - set_up.median_ms) / (ROUNDS - 1),
    }
