"""The least alpha of a new measurement beside history."""

from __future__ import annotations

import numpy as np
import pytest

from qserver.inference.rows.blue import Combinations, Noise
from qserver.inference.rows.refinement import CombinedProblem
from qserver.inference.rows.shortest_interval import TailProblem


@pytest.mark.slow
def test_a_history_that_all_but_meets_the_target_needs_next_to_nothing() -> None:
    """The search for the largest scale of the new row then runs up to any scale, and ends."""
    noise = Noise(np.array([1, 2]), np.array([0.78, 1.13]), np.array([1e-9, 1e-9]))
    history = Combinations(noise, np.ones(2), np.zeros((0, 2)), np.zeros((0, 0)))
    half_width = TailProblem(history, 0.95).best(np.zeros(0)).half_width
    for part in (1e-14, 1e-12, 1e-10, 1e-8):
        problem = CombinedProblem(
            history, confidence=0.95, target=half_width * (1.0 + part), step=1e-9
        )
        found = problem.solve()
        assert found is not None
        assert 0.0 <= found.alpha < 1e-5
