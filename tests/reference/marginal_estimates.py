"""Reference estimates by mbi, the library of the method's authors, to marginal_estimates.json.

Made with mbi 2.0.0 on jax 0.10.2 (650 MB installed), for which it is no part of the `test` extra.
Run `python marginal_estimates.py` with mbi installed to make them anew; times are of that run. The
library knows the exact oracle and the saturated graph.
"""

from __future__ import annotations

import json
import time
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Any

import jax

jax.config.update("jax_enable_x64", True)

import mbi  # noqa: E402
import numpy as np  # noqa: E402
from mbi.approximate_oracles import (  # noqa: E402
    ApproxMirrorDescent,
    convex_generalized_belief_propagation,
)
from mbi.estimation import MirrorDescent  # noqa: E402

SIZES = (2, 3, 2, 3)
SCOPES = ((0, 1, 2), (1, 2, 3), (0, 3), (2, 3))
SCALES = (8.0, 10.0, 4.0, 20.0)
TOTAL = 200.0
TIMED = (4, 8, 16)


def domain_of(sizes: tuple[int, ...]) -> mbi.Domain:
    """Attributes named a, b, c, ..."""
    return mbi.Domain([chr(97 + i) for i in range(len(sizes))], sizes)


def clique_of(scope: tuple[int, ...]) -> tuple[str, ...]:
    """The library's name of a scope."""
    return tuple(chr(97 + a) for a in scope)


def measurements_of(answers: list[list[float]]) -> list[mbi.LinearMeasurement]:
    """The small case's noisy marginals."""
    return [
        mbi.LinearMeasurement(np.array(y), clique_of(s), stddev=2**0.5 * b)
        for s, y, b in zip(SCOPES, answers, SCALES, strict=True)
    ]


def answers() -> list[list[float]]:
    """Noisy marginals of a skewed table, to three decimals."""
    rng = np.random.default_rng(11)
    cells = rng.multinomial(int(TOTAL), rng.dirichlet(np.full(36, 0.3))).reshape(SIZES)
    found = []
    for scope, scale in zip(SCOPES, SCALES, strict=True):
        truth = cells.sum(axis=tuple(a for a in range(4) if a not in scope)).ravel()
        found.append(np.round(truth + rng.laplace(scale=scale, size=len(truth)), 3).tolist())
    return found


def beliefs() -> dict[str, Any]:
    """Tables of convex belief propagation at random potentials, at convergence."""
    rng = np.random.default_rng(12)
    domain = domain_of(SIZES)
    potentials = [np.round(rng.normal(size=domain.project(clique_of(s)).shape), 3) for s in SCOPES]
    vector = mbi.CliqueVector(
        domain,
        [clique_of(s) for s in SCOPES],
        {
            clique_of(s): mbi.Factor(domain.project(clique_of(s)), jax.numpy.array(p))
            for s, p in zip(SCOPES, potentials, strict=True)
        },
    )
    found, state = convex_generalized_belief_propagation(vector, 1.0, iters=1)
    for _ in range(3_000):
        found, state = convex_generalized_belief_propagation(vector, 1.0, state=state, iters=1)
    return {
        "potentials": [p.ravel().tolist() for p in potentials],
        "tables": [np.asarray(found[clique_of(s)].values).ravel().tolist() for s in SCOPES],
    }


def estimates(given: list[list[float]]) -> dict[str, Any]:
    """Counts of the measured marginals by mirror descent with either oracle."""
    domain, measured = domain_of(SIZES), measurements_of(given)
    exact = MirrorDescent().estimate(domain, measured, known_total=TOTAL, iters=20_000)
    relaxed = ApproxMirrorDescent(stepsize=2 * min(SCALES) ** 2 / TOTAL, oracle_iters=10).estimate(
        domain, measured, known_total=TOTAL, iters=20_000
    )
    return {
        "exact": [np.asarray(exact.project(clique_of(s)).values).ravel().tolist() for s in SCOPES],
        "saturated": [
            np.asarray(relaxed.project(clique_of(s)).values).ravel().tolist() for s in SCOPES
        ],
    }


def seconds(n: int) -> dict[str, float]:
    """Time to the first iteration and per further one, n triples of 8 attributes of 4 values."""
    domain = domain_of((4,) * 8)
    scopes = list(combinations(range(8), 3))[:: 56 // n][:n]
    measured = [
        mbi.LinearMeasurement(np.ones(64), clique_of(s), stddev=1.0 + i)
        for i, s in enumerate(scopes)
    ]
    estimator = ApproxMirrorDescent(stepsize=1e-3)
    start = time.perf_counter()
    estimator.estimate(domain, measured, known_total=64.0, iters=1)
    middle = time.perf_counter()
    estimator.estimate(domain, measured, known_total=64.0, iters=101)
    return {"first_s": middle - start, "each_s": (time.perf_counter() - middle) / 102}


def main() -> None:
    """Write the file beside this one."""
    given = answers()
    document = {
        "versions": {name: version(name) for name in ("mbi", "jax", "numpy")},
        "sizes": SIZES,
        "scopes": SCOPES,
        "scales": SCALES,
        "total": TOTAL,
        "answers": given,
        "beliefs": beliefs(),
        "estimates": estimates(given),
        "seconds": {str(n): seconds(n) for n in TIMED},
    }
    path = Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
