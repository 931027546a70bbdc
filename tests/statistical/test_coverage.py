"""Stated confidence against observed frequency."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from tests.statistical.coverage_designs import (
    Design,
    adaptive_coverage,
    fixed_coverage,
    fixed_designs,
)

pytestmark = [
    pytest.mark.promise(
        "Privacy",
        "intervals cover as often as stated",
    ),
]

SEED = 20_240_511
N_HISTORIES = 4000
N_SEARCHES = 400
CONFIDENCES = (0.8, 0.95, 0.999)

FALSE_ALARM = 1e-5
"""Of one comparison; some thirty are made."""

CAUGHT = ((0.8, 0.8), (0.8, 1.25), (0.95, 0.8), (0.95, 1.25), (0.999, 0.8))
"""Confidences and factors on the half-width that must be caught. At 0.999 four misses are
expected: too few of them tell nothing."""

ADAPTIVE_SLACK = 0.05
"""What the choice by answers may cost the last answer of a search at confidence 0.8."""


def _p_value(design: Design, confidence: float, *, shortened: float = 1.0) -> float:
    """P-value of the coverage of the design's first question."""
    one = Design(design.name, design.rows, design.questions[:1])
    found = fixed_coverage(
        one,
        confidence=confidence,
        n=N_HISTORIES,
        rng=np.random.default_rng(SEED),
        shortened=shortened,
    )
    return float(binomtest(found.held, found.n, confidence).pvalue)


@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize("design", fixed_designs(), ids=lambda d: d.name)
def test_intervals_of_fixed_designs_hold_the_truth_as_often_as_stated(design, confidence):
    """Two-sided: neither too short nor longer than they need be."""
    assert _p_value(design, confidence) > FALSE_ALARM


@pytest.mark.parametrize(("confidence", "factor"), CAUGHT)
def test_half_widths_a_fifth_off_would_be_caught(confidence, factor):
    """Negative control on both sides."""
    assert _p_value(fixed_designs()[3], confidence, shortened=factor) < FALSE_ALARM


@pytest.mark.limit("under 0.75 of runs at 0.8")
@pytest.mark.slow
def test_a_search_that_follows_its_answers_still_holds_the_truth_nearly_as_often():
    """No frequency is promised here; the figure is watched."""
    found = adaptive_coverage(confidence=0.8, n=N_SEARCHES, rng=np.random.default_rng(SEED))
    assert found.from_history.n > N_SEARCHES / 2
    assert found.all.rate > 0.8 - ADAPTIVE_SLACK
    assert 0.8 - 2 * ADAPTIVE_SLACK < found.last.rate < 0.75
