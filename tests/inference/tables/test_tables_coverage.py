"""How often intervals hold on real lattice noise, cells that continue their rows among it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from qserver.inference.rows.shortest_interval import safe_half_width
from qserver.inference.tables.blocks.nested_partitions import regular_chain, single_values
from qserver.inference.tables.blocks.pattern import Lattice
from qserver.inference.tables.measured_tables import MeasuredTables
from qserver.query.linear_query import linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import interval
from qserver.records.history import Measurement, TableMeasurement
from tests.inference.histories import NANO

N_DRAWS = 60_000
CONFIDENCE = 0.8
N_SIGMAS = 4.5
COARSENESS = 0.004
"""What a lattice of 1/64 does to a coverage, at most: a quarter of a step times the density."""


def discrete_laplace(generator: np.random.Generator, ratio: float, *shape: int) -> np.ndarray:
    """P(k) proportional to ratio^abs(k)."""
    return generator.geometric(1 - ratio, shape) - generator.geometric(1 - ratio, shape)


def released_noise(generator: np.random.Generator, *, is_continued: bool) -> np.ndarray:
    """Noise of four cells at 1, their total at 2 and the first cell's own row at 3/2, per draw.

    The cell continues its row's noise, or has nothing to do with it. The identity behind it:
    coarse = fine + B coarse', P(B = 0) = r ((1 - a1) / (1 - a2))^2.
    """
    coarse, fine, finest = (float(np.exp(-alpha / 64)) for alpha in (1, 1.5, 2))
    cells = discrete_laplace(generator, coarse, N_DRAWS, 4)
    own = discrete_laplace(generator, fine, N_DRAWS)
    if is_continued:
        keep = (fine / coarse) * ((1 - coarse) / (1 - fine)) ** 2
        cells[:, 0] = own + (generator.random(N_DRAWS) >= keep) * cells[:, 0]
    total = discrete_laplace(generator, finest, N_DRAWS)
    return np.column_stack([cells, total, own]) / 64


@pytest.mark.parametrize("is_continued", [True, False])
def test_intervals_cover_as_often_as_they_say(is_continued):
    """The estimate is linear in the answers: its weights are read off by answers of one."""
    sizes, step = (4,), Fraction(1, 64)
    lattice = Lattice({0: regular_chain(single_values(0, 4), (1, 4))})
    query = primitive(linear_query(sizes, [(1, {0: interval(4, 0, 1)})]))
    weights = []
    for answers in 64 * np.eye(6, dtype=int):
        tables = MeasuredTables(sizes, lattice=lattice)
        parts = [tables.partition_of(b) for b in (((0, 1),), ())]
        cells, whole = tuple(map(int, answers[:4])), (int(answers[4]),)
        tables.extend([TableMeasurement(0, parts[0], NANO, step, cells)])
        tables.extend([TableMeasurement(1, parts[1], 2 * NANO, step, whole)])
        row = Measurement(2, query.row, query.key, 3 * NANO // 2, step, int(answers[5]))
        found = tables.estimate(query, row, confidence=CONFIDENCE)
        assert found is not None
        weights.append(found.posterior.estimate)
    assert weights[0] == 0.0
    noise = released_noise(np.random.default_rng(7), is_continued=is_continued)
    within = found.half_width - found.posterior.allowance
    covered = float(np.mean(np.abs(noise @ weights) <= within))
    allowed = N_SIGMAS * (CONFIDENCE * (1 - CONFIDENCE) / N_DRAWS) ** 0.5 + COARSENESS
    assert abs(covered - CONFIDENCE) <= allowed
    # Negative control: the cell beside its own row, as if they were independent.
    matrix = np.vstack([np.eye(4), np.ones(4), np.eye(4)[0]])
    alphas = np.array([1, 1, 1, 1, 2, 1.5])
    naive = np.linalg.solve(matrix.T @ np.diag(alphas**2) @ matrix, matrix.T * alphas**2)[0]
    assumed = safe_half_width(np.abs(naive) / alphas, CONFIDENCE)
    covered = float(np.mean(np.abs(noise @ naive) <= assumed))
    assert (abs(covered - CONFIDENCE) > 2 * allowed) is is_continued
