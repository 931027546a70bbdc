"""Refinements as the worker draws them: their spread, their link to the old, their coverage."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from qserver.inference.engine import InferenceEngine
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import interval
from qserver.records.history import Measurement
from qserver.records.plan import PlannedRow
from tests.statistical.test_noise import SeededEntropy
from worker.spending.answers_in_force import Origin
from worker.spending.measure import draw_answers

pytestmark = [
    pytest.mark.promise(
        "Privacy",
        "the sampler has its exact law, and refining keeps it; 10 percent either way is caught",
    ),
]

N_DRAWS = 6000
N_HISTORIES = 2500
FALSE_ALARM = 1e-6
STEP = Fraction(1, 1 << 20)
ALPHA = 10**8
Draw = Callable[[Fraction, PlannedRow, Measurement | None, SeededEntropy], int]


def as_the_worker(
    truth: Fraction, row: PlannedRow, old: Measurement | None, entropy: SeededEntropy
) -> int:
    origin = None if old is None else Origin(old.index, old.alpha_nano)
    (index,) = draw_answers([truth], row, {} if origin is None else {0: origin}, entropy=entropy)
    return index


def as_if_new(
    truth: Fraction, row: PlannedRow, old: Measurement | None, entropy: SeededEntropy
) -> int:
    """Negative control: fresh noise, though only the difference is charged."""
    del old
    fresh = PlannedRow(row.row, row.key, row.alpha_nano, row.step)
    (index,) = draw_answers([truth], fresh, {}, entropy=entropy)
    return index


def part(low: int, high: int) -> LinearQuery:
    return linear_query((8,), [(1, {0: interval(8, low, high)})])


def released(
    number: int,
    query: LinearQuery,
    truth: Fraction,
    alphas: list[int],
    draw_one: Draw,
    entropy: SeededEntropy,
) -> list[Measurement]:
    """The row at each alpha in turn, every one refined from the one before."""
    row = primitive(query)
    found: list[Measurement] = []
    for alpha in alphas:
        planned = (
            PlannedRow.refining(found[-1], alpha_nano=alpha)
            if found
            else PlannedRow(row.row, row.key, alpha, STEP)
        )
        index = draw_one(truth, planned, found[-1] if found else None, entropy)
        found.append(Measurement(number, row.row, row.key, alpha, STEP, index))
    return found


def noise(draw_one: Draw) -> npt.NDArray[np.float64]:
    """Noise at alpha, 2 alpha and 4 alpha, in units of 1 / (4 alpha), shape (N_DRAWS, 3)."""
    entropy = SeededEntropy()
    alphas = [ALPHA, 2 * ALPHA, 4 * ALPHA]
    draws = [
        [
            float(m.value - 100) * 0.4
            for m in released(0, part(0, 3), Fraction(100), alphas, draw_one, entropy)
        ]
        for _ in range(N_DRAWS)
    ]
    return np.array(draws)


def variance_is(values: npt.NDArray[np.float64], expected: float, fourth: float) -> bool:
    """Whether the mean square is `expected`, given the fourth moment under that hypothesis."""
    error = ((fourth - expected**2) / len(values)) ** 0.5
    z = (float(np.square(values).mean()) - expected) / error
    return bool(2 * stats.norm.sf(abs(z)) > FALSE_ALARM)


@pytest.mark.slow
def test_the_last_of_a_chain_has_the_law_of_its_alpha_alone() -> None:
    assert stats.kstest(noise(as_the_worker)[:, 2], "laplace").pvalue > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), [(0, 1), (1, 2)])
def test_old_noise_is_the_new_and_an_independent_rest(old: int, new: int) -> None:
    """Var(old - new) = Var(old) - Var(new): all that the old answer adds is noise.

    The rest is 0 with probability (e1/e2)^2 and else Lap(1/e1), so its fourth moment is known.
    """
    ratio = 2.0 ** (old - new)
    scale = 2.0 ** (2 - old)
    share = 1 - ratio**2
    expected, fourth = share * 2 * scale**2, share * 24 * scale**4
    found = noise(as_the_worker)
    assert variance_is(found[:, old] - found[:, new], expected, fourth)
    control = noise(as_if_new)
    assert not variance_is(control[:, old] - control[:, new], expected, fourth)


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [0.8, 0.95])
@pytest.mark.parametrize("shortened", [1.0, 0.85])
def test_intervals_on_refined_rows_hold_the_truth_as_often_as_stated(
    confidence: float, shortened: float
) -> None:
    """A row refined twice, one once, one never, and their whole; 0.85 must be caught."""
    rng, entropy = random.Random(7), SeededEntropy()
    rows = [(part(0, 3), [ALPHA, 2 * ALPHA, 3 * ALPHA]), (part(3, 8), [ALPHA, 4 * ALPHA])]
    rows.append((part(0, 8), [2 * ALPHA]))
    asked = primitive(part(0, 8))
    held, half_width, weights = 0, None, np.zeros(3)
    for _ in range(N_HISTORIES):
        cells = [rng.randrange(50) for _ in range(2)]
        truths = [cells[0], cells[1], sum(cells)]
        chains = [
            released(i, q, Fraction(t), alphas, as_the_worker, entropy)
            for i, ((q, alphas), t) in enumerate(zip(rows, truths, strict=True))
        ]
        if half_width is None:
            engine = InferenceEngine((8,))
            engine.extend([chain[0] for chain in chains])
            engine.extend([m for chain in chains for m in chain[1:]])
            estimate = engine.estimate(asked, confidence=confidence)
            assert estimate is not None
            half_width = estimate.half_width
            weights[list(estimate.ids)] = [w for _, w in estimate.weights]
        answers = np.array([float(chain[-1].value) for chain in chains])
        held += abs(float(weights @ answers) - truths[2]) <= shortened * half_width
    fits = stats.binomtest(held, N_HISTORIES, confidence).pvalue > FALSE_ALARM
    assert fits == (shortened == 1.0)
