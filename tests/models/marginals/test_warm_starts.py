"""An estimate that starts from an earlier one is sooner there, and comes to the same."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from qserver.models.marginals.estimate import estimate
from qserver.models.marginals.fit.observations import NoisyMarginal
from tests.benchmarks.wide_records import adult_records
from tests.models.marginals.few_rounds import limit_rounds
from tests.models.marginals.released_marginals import SCOPES, SIZES, TOTAL, released


@pytest.mark.slow
def test_a_history_that_grew_is_nearer_after_as_many_rounds_from_the_earlier_estimate(monkeypatch):
    """30 triples of Adult; then one more, or less noise on one."""
    records = adult_records()
    rng = np.random.default_rng(11)
    triples = list(combinations(range(13), 3))
    chosen = [triples[i] for i in rng.choice(len(triples), 31, replace=False)]

    def noisy(scope, scale):
        counts = records.counts(scope)
        answers = counts + rng.laplace(scale=scale, size=len(counts))
        return NoisyMarginal(scope, answers, np.array(scale))

    def fitted(measurements, warm=None):
        total = float(records.n)
        return estimate(
            records.sizes, measurements, oracle="saturated", total=total, precision=1e-3, warm=warm
        )

    before = [noisy(s, 100.0) for s in chosen[:-1]]
    earlier = fitted(before)
    for after in ([*before, noisy(chosen[-1], 100.0)], [*before[:-1], noisy(chosen[-2], 70.0)]):
        warm = fitted(after, earlier.warm)
        assert warm.fit.gap <= 1e-3 * warm.fit.noise_loss
        with monkeypatch.context() as few:
            limit_rounds(few, 10)
            warm, cold = fitted(after, earlier.warm), fitted(after)
        assert warm.fit.gap < 0.3 * cold.fit.gap


def test_the_exact_oracle_begins_anew_whatever_it_is_given():
    """Going on from an earlier optimum saves next to nothing: the same calls, to the bit."""
    before = released(SCOPES)
    first = estimate(SIZES, before, oracle="exact", total=TOTAL)
    again = estimate(SIZES, before, oracle="exact", total=TOTAL, warm=first.warm)
    assert again.fit == first.fit
    assert_allclose(again.tables, first.tables, rtol=0)


def test_a_warm_start_goes_on_from_the_last_optimum(monkeypatch):
    """A round is enough for the same measurements, and not for a cold start; with one measurement
    more it leads where a cold start leads."""
    before = released(SCOPES)
    after = [*before, *released([(2, 3)], seed=9)]

    def run(measurements, warm=None):
        return estimate(
            SIZES, measurements, oracle="saturated", total=TOTAL, precision=1e-3, warm=warm
        )

    first, cold = run(before), run(after)
    warm, room = run(after, first.warm), 1e-3 * first.fit.noise_loss
    assert abs(warm.fit.loss - cold.fit.loss) <= 4e-3 * cold.fit.noise_loss
    limit_rounds(monkeypatch, 1)
    assert run(before, first.warm).fit.loss - first.fit.loss <= room
    assert run(before).fit.loss - first.fit.loss > 50.0 * room
