"""The posterior given what answers disagree about, against the law of the estimate's error.

Each draw is a history: rows with fresh noise. `length` is the mean length of the posterior's .95
interval over that of the estimate's error, `longer` the share of draws in which it is longer, and
`longest_tenth` the length that a tenth of the draws exceed. `cover` is the share of posterior
intervals that hold the truth, and `cover_disagreeing` that of the tenth of the draws that disagree
most, for both laws. `error` is the stated numerical error in the mean, `ms` the processor time.
"""

from __future__ import annotations

import time

import numpy as np

from qserver.inference.disagreement.law_by_cheapest_method import law_given
from qserver.inference.law.laplace_sum import LaplaceSum
from tests.inference.disagreement.references import TWO_HALVES, Design, ranges, repeated, tree

from .tables import Report, Value

SEED = 20_261_118
CONFIDENCE = 0.95
N_DRAWS, N_QUICK = 400, 5


def run(*, quick: bool) -> Report:
    """Lengths and coverage by design."""
    n = N_QUICK if quick else N_DRAWS
    designs = {
        "one count, 2 times": repeated(2),
        "one count, 5 times": repeated(5),
        "two halves and the whole": TWO_HALVES,
        "tree of 4 x 4 x 4, a group": tree(group=True),
        "tree of 4 x 4 x 4, a leaf": tree(group=False),
        "60 ranges on 30": ranges(30, 60, seed=SEED),
        "150 ranges on 80": ranges(80, 150, seed=SEED),
    }
    return Report(
        name="disagreements",
        title="Intervals given what released answers disagree about",
        parameters={"draws": n, "confidence": CONFIDENCE, "seed": SEED},
        rows=tuple(_row(name, design, n) for name, design in designs.items()),
    )


def _row(name: str, design: Design, n: int) -> dict[str, Value]:
    rng = np.random.default_rng(SEED)
    weights = design.weights
    half = LaplaceSum(np.abs(weights) * design.scales).half_width(CONFIDENCE)
    lengths, covers, plain, errors, sizes = (np.zeros(n) for _ in range(5))
    start = time.process_time()
    for i in range(n):
        drawn = design.errors(rng)
        known = design.known(drawn)
        given = known.reduced()
        law = law_given(given)
        ends, error = law.shortest(CONFIDENCE), float(weights @ drawn)
        lengths[i] = (ends.high - ends.low) / (2.0 * half)
        covers[i] = ends.low <= error - given.shift <= ends.high
        plain[i], errors[i] = abs(error) <= half, law.largest_error
        # How unlikely the disagreements are, by the sizes that normal noise would give them.
        sizes[i] = known.values @ np.linalg.solve(known.sums @ known.sums.T, known.values)
    taken = time.process_time() - start
    most = sizes >= np.quantile(sizes, 0.9)
    return {
        "design": name,
        "rows": len(design.scales),
        "disagreements": given.n_disagreements,
        "length": round(float(lengths.mean()), 3),
        "longer": round(float((lengths > 1.0).mean()), 2),
        "longest_tenth": round(float(np.quantile(lengths, 0.9)), 2),
        "cover": f"{covers.mean():.3f}",
        "cover_disagreeing": f"{covers[most].mean():.2f}",
        "plain_disagreeing": f"{plain[most].mean():.2f}",
        "error": f"{errors.mean():.4f}",
        "ms": round(1e3 * taken / n, 1),
    }
