"""Whole streams of planned answers under redrawn noise: how often their intervals hold.

Plans do not look at answers, so one plan of a stream serves for any number of draws. The misses
of one stream depend on one another; the streams do not, and their shares are compared as such.
"""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from qserver.inference.rows.refinement import Weights
from qserver.records.plan import PlannedRow
from tests.planning.test_refined_plans import Town, random_part
from tests.statistical.test_noise import SeededEntropy
from tests.sweeps import n_of
from worker.noise.mechanism import discrete_laplace, refine

N_STREAMS = n_of(600, share=300)
N_QUESTIONS = 24
CONFIDENCE = 0.8
FALSE_ALARM = 1e-6
Answer = tuple[Weights, float]


def planned_stream(seed: int) -> list[tuple[tuple[PlannedRow, ...], Answer]]:
    """What each question of a stream releases, and then the weights and half-width it is given."""
    rng, town = random.Random(seed), Town()
    found = []
    for _ in range(N_QUESTIONS):
        query = random_part(rng, 6)
        plan = town.ask(query, rng.choice((60.0, 40.0, 25.0)), CONFIDENCE)
        estimate = town.engine.estimate_with(query, plan.weights, confidence=CONFIDENCE)
        assert estimate is not None
        found.append((plan.rows, (estimate.weights, estimate.half_width)))
    return found


def share_held(
    stream: list[tuple[tuple[PlannedRow, ...], Answer]], entropy: SeededEntropy, shortened: float
) -> float:
    """The share of the stream's intervals that hold the truth, for one draw of all noise."""
    noise: dict[int, int] = {}
    steps: dict[int, Fraction] = {}
    held = 0
    for rows, (weights, half_width) in stream:
        for row in rows:
            if row.refines is None:
                rate = row.step * row.alpha_nano / 10**9
                steps[len(noise)] = row.step
                noise[len(noise)] = discrete_laplace(rate, 1, entropy)[0]
            else:
                (noise[row.refines],) = refine(
                    [noise[row.refines]],
                    old_alphas_nano=[row.old_alpha_nano],
                    new_alpha_nano=row.alpha_nano,
                    step=row.step,
                    entropy=entropy,
                )
        error = sum(w * float(noise[i] * steps[i]) for i, w in weights)
        held += abs(error) <= shortened * half_width
    return held / len(stream)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_intervals_of_a_planned_stream_hold_at_least_as_often_as_stated(seed: int) -> None:
    """Free answers may have room to spare, so one side alone; a fifth shorter must be caught."""
    stream = planned_stream(seed)
    assert any(row.refines is not None for rows, _ in stream for row in rows)
    verdicts = []
    for shortened in (1.0, 0.8):
        entropy = SeededEntropy(seed)
        shares = [share_held(stream, entropy, shortened) for _ in range(N_STREAMS)]
        found = stats.ttest_1samp(shares, CONFIDENCE, alternative="less")
        verdicts.append(bool(found.pvalue > FALSE_ALARM))
    assert verdicts == [True, False]
    assert np.mean(shares) < CONFIDENCE
