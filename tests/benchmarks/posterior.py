"""P(abs(W) <= h), half-widths and certificates of Laplace sums, beside two other methods.

Every call builds its law anew, as a new question does. The errors are against the references of
tests/reference/laplace_sums.json where it has the case; elsewhere against the certified value.

Scales are equal, geometric (1 to 0.001) and lognormal (sigma 1). `error` is the largest difference
over the half-widths tried, `certificate` the largest bound reported. Convolution has 200 points per
interval, a dash where it would need more than 2^23; Monte Carlo has 200,000 draws.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from qserver.errors import CapacityError
from qserver.inference.law.evaluator import Evaluator
from qserver.inference.law.laplace_sum import LaplaceSum
from qserver.inference.law.paper_methods import MonteCarlo
from tests.reference.convolution import Convolution

from .machine import times_of
from .tables import Report, Value

SIZES = (1, 2, 10, 30, 100, 300, 1000, 5000)
QUICK_SIZES = (1, 10, 30)
CONFIDENCES = (0.5, 0.9, 0.95, 0.99, 0.9999)
SEED = 20_240_501
REPEATS = 20
REFERENCES = Path(__file__).parents[1] / "reference" / "laplace_sums.json"
# How the file names a case of this kind and size.
REFERENCE_NAMES = {"equal": "equal_{}", "geometric": "geom_1e-3_{}", "lognormal": "lognormal1_{}"}

Scales = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """Scales with the half-widths to evaluate, and P(abs(W) <= h) there.

    Args:
        is_reference: whether the probabilities come from the reference file.
    """

    kind: str
    scales: Scales
    half_widths: tuple[float, ...]
    probabilities: tuple[float, ...]
    is_reference: bool


def run(*, quick: bool) -> Report:
    """Time and error of each method on equal, geometric and lognormal scales."""
    sizes = QUICK_SIZES if quick else SIZES
    n_draws = 20_000 if quick else 200_000
    repeats = 2 if quick else REPEATS
    cases = [_case(kind, n) for n in sizes for kind in REFERENCE_NAMES]
    return Report(
        name="posterior",
        title="Law of a sum of Laplace variables: median time of one evaluation, largest error",
        parameters={
            "confidences": list(CONFIDENCES),
            "repeats": repeats,
            "monte_carlo_draws": n_draws,
            "seed": SEED,
        },
        rows=tuple(_row(case, n_draws=n_draws, repeats=repeats) for case in cases),
    )


def _row(case: Case, *, n_draws: int, repeats: int) -> dict[str, Value]:
    scales, widths = case.scales, case.half_widths
    within_ms = _median_ms(lambda h: LaplaceSum(scales).within(h), widths, repeats)
    certify_ms = _median_ms(lambda h: LaplaceSum(scales).certify(h), widths, repeats)
    half_width_ms = _median_ms(lambda c: LaplaceSum(scales).half_width(c), CONFIDENCES, repeats)
    certified = [LaplaceSum(scales).certify(h) for h in widths]
    plain = _errors(LaplaceSum(scales), case)
    convolution = _other(case, Convolution())
    sampled = _other(case, MonteCarlo(np.random.default_rng(SEED), n_draws=n_draws))
    return {
        "scales": f"{len(scales)} {case.kind}",
        "probability_ms": within_ms,
        "half_width_ms": half_width_ms,
        "certified_ms": certify_ms,
        "error": plain,
        "against": "reference" if case.is_reference else "certified",
        "certificate": max(c.error for c in certified),
        "convolution_ms": convolution.ms,
        "convolution_error": convolution.error,
        "convolution_ratio": _ratio(convolution.ms, within_ms),
        "monte_carlo_ms": sampled.ms,
        "monte_carlo_error": sampled.error,
        "monte_carlo_ratio": _ratio(sampled.ms, within_ms),
    }


@dataclass(frozen=True)
class _Other:
    """Median time and largest error of another method; None where it gave up."""

    ms: float | None
    error: float | None


def _other(case: Case, evaluator: Evaluator) -> _Other:
    def ask(half_width: float) -> float:
        return LaplaceSum(case.scales, evaluator=evaluator).within(half_width)

    try:
        # The slow ones need no repetition, and at 5,000 scales do not bear it.
        error = _errors(LaplaceSum(case.scales, evaluator=evaluator), case)
        return _Other(_median_ms(ask, case.half_widths[:3], 1), error)
    except CapacityError:
        return _Other(None, None)


def _errors(law: LaplaceSum, case: Case) -> float:
    pairs = zip(case.half_widths, case.probabilities, strict=True)
    return max(abs(law.within(h) - p) for h, p in pairs)


def _median_ms(call: Callable[[float], object], arguments: tuple[float, ...], n: int) -> float:
    return times_of(partial(call, a) for _ in range(n) for a in arguments).median_ms


def _ratio(ms: float | None, base_ms: float) -> float | None:
    return None if ms is None else ms / base_ms


def _case(kind: str, n: int) -> Case:
    name = "single" if n == 1 else REFERENCE_NAMES[kind].format(n)
    found = _references().get(name)
    if found is not None:
        scales = np.array(found["scales"], dtype=np.float64)
        half_widths, texts = zip(*found["prob"], strict=True)
        return Case(kind, scales, half_widths, tuple(map(float, texts)), is_reference=True)
    scales = _made(kind, n)
    law = LaplaceSum(scales)
    widths = tuple(law.half_width(c) for c in CONFIDENCES)
    certified = tuple(law.certify(h).probability for h in widths)
    return Case(kind, scales, widths, certified, is_reference=False)


def _references() -> dict[str, dict[str, list[list[float]]]]:
    cases = json.loads(REFERENCES.read_text(encoding="utf-8"))["cases"]
    return {case["name"]: case for case in cases}


def _made(kind: str, n: int) -> Scales:
    if kind == "equal":
        return np.ones(n)
    if kind == "geometric":
        return np.exp(np.linspace(0.0, math.log(1e-3), n))
    return np.random.default_rng(SEED + n).lognormal(0.0, 1.0, n)
