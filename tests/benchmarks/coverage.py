"""How often intervals hold the truth: fixed designs, and a search that follows its answers.

The fixed designs' coverage is promised to be the confidence. That of the adaptive search is not;
it is reported as measured.

The standard error counts histories, since the answers of one share its noise.
"""

from __future__ import annotations

import numpy as np

from tests.statistical.coverage_designs import (
    Coverage,
    adaptive_coverage,
    fixed_coverage,
    fixed_designs,
)

from .tables import Report, Value

SEED = 20_240_512
N_HISTORIES = 10_000
N_QUICK = 200
CONFIDENCES = (0.8, 0.95, 0.999)


def run(*, quick: bool) -> Report:
    """Coverage with standard errors, by design and confidence."""
    n = N_QUICK if quick else N_HISTORIES
    rng = np.random.default_rng(SEED)
    rows: list[dict[str, Value]] = []
    for confidence in CONFIDENCES:
        for design in fixed_designs():
            found = fixed_coverage(design, confidence=confidence, n=n, rng=rng)
            # The questions of one history share its noise: count histories, not answers.
            rows.append(_row(design.name, confidence, found, n))
        adaptive = adaptive_coverage(confidence=confidence, n=n, rng=rng)
        rows.append(_row("adaptive search: all answers", confidence, adaptive.all, n))
        rows.append(_row("adaptive search: from history", confidence, adaptive.from_history, n))
        rows.append(_row("adaptive search: last answer", confidence, adaptive.last, n))
    return Report(
        name="coverage",
        title="Share of intervals that hold the truth",
        parameters={"histories": n, "seed": SEED, "confidences": list(CONFIDENCES)},
        rows=tuple(rows),
    )


def _row(design: str, confidence: float, found: Coverage, n_histories: int) -> dict[str, Value]:
    # Not less than as if all answers of one history agreed.
    error = float(np.sqrt(confidence * (1 - confidence) / min(n_histories, found.n)))
    return {
        "design": design,
        "confidence": confidence,
        "intervals": found.n,
        "coverage": f"{found.rate:.5f}",
        "standard_error": f"{error:.5f}",
        "difference_in_standard_errors": round((found.rate - confidence) / error, 2),
    }
