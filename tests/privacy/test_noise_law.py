"""The noise of the whole server: what was released, less the true counts, against its exact law.

From the question to what the store shows: queue, plan, charge, count, draw, journal, publication.
A table is measured and then refined, so that 4,096 samples of either law come out of two spends.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from qserver.ledger.noise_step import lattice_step
from qserver.query.class_grid import product_partition
from qserver.query.domain import Attribute, Domain
from qserver.query.linear_query import total_query
from qserver.query.primitive import primitive
from qserver.records.charge import NANO
from qserver.records.history import TableMeasurement
from qserver.records.plan import PlannedTable
from tests.privacy.audit import noise_of_scale
from tests.privacy.neighbours import Site
from tests.statistical.test_noise import SeededEntropy
from worker.private.record_tables import table_from_columns

pytestmark = [
    pytest.mark.promise(
        "Privacy",
        "released answers, first and refined, follow the exact discrete Laplace law from question"
        " to publication; a scale off by 20 percent is caught",
    ),
]

SIDE = 64
LIMIT_NANO = 10 * NANO
FIRST, SECOND = 2 * NANO, 5 * NANO
FALSE_ALARM = 1e-6
"""Chance that one test of fit rejects the right noise, over the seed."""
SMALLEST_ERROR = Fraction(1, 5)
"""Relative error of the scale that the controls show to be caught, on either side."""
N_BINS = 40
DOMAIN = Domain(
    tuple(Attribute(name, "labels", tuple(map(str, range(SIDE)))) for name in ("x", "y"))
)
CELLS = product_partition(DOMAIN.sizes, {0: range(SIDE), 1: range(SIDE)})
ROWS = [(i * i % SIDE, i % 37) for i in range(3000)]
STEP = lattice_step(primitive(CELLS.row(0)).unit, limit_nano=LIMIT_NANO, records_per_person=1)


def released_noise(folder: Path, store_url: str) -> tuple[list[int], list[int]]:
    """Steps of the lattice from the true counts, of the first answers and the refined ones."""
    columns = {axis: np.array([row[axis] for row in ROWS]) for axis in range(2)}
    town = Site.open(folder, store_url).town(
        table_from_columns(columns, DOMAIN.sizes),
        limit_nano=LIMIT_NANO,
        relation="add-remove",
        entropy=SeededEntropy(),
        domain=DOMAIN,
    )
    about = total_query(DOMAIN.sizes)
    town.carry_out(about, tables=[PlannedTable(CELLS, FIRST, STEP)])
    town.carry_out(about, tables=[PlannedTable(CELLS, SECOND, STEP, 0, FIRST)])
    counted = Counter(ROWS)
    truths = [counted[x, y] for x in range(SIDE) for y in range(SIDE)]
    found = []
    for event in town.changes().measurements:
        assert isinstance(event, TableMeasurement)
        indices = zip(event.indices, truths, strict=True)
        found.append([index - int(truth / event.step) for index, truth in indices])
    first, refined = found
    return first, refined


def fit(noise: list[int], alpha_nano: int) -> float:
    """p-value of chi-square against P(K = k) = (1 - a) / (1 + a) a^abs(k), a = exp(-step alpha).

    Bins of nearly equal probability, which is exact for each: with the discrete law's own sums.
    """
    rate = float(STEP) * alpha_nano / NANO

    def up_to(k: int) -> float:
        """P(K <= k)."""
        if k < 0:
            return math.exp(rate * k) / (1 + math.exp(-rate))
        return 1 - math.exp(-rate * (k + 1)) / (1 + math.exp(-rate))

    quantiles = stats.laplace.ppf(np.arange(1, N_BINS) / N_BINS) / rate
    edges = [round(float(q)) for q in quantiles]
    sums = [0.0, *map(up_to, edges), 1.0]
    observed = np.bincount(np.searchsorted(edges, noise, side="left"), minlength=N_BINS)
    return float(stats.chisquare(observed, len(noise) * np.diff(sums)).pvalue)


@pytest.mark.slow
@pytest.mark.parametrize(
    "times", [1 - SMALLEST_ERROR, Fraction(1), 1 + SMALLEST_ERROR], ids=["less", "right", "more"]
)
def test_released_answers_lie_about_the_truth_by_the_exact_law(
    tmp_path: Path, store_url: str, times: Fraction
) -> None:
    """First answers and refined ones; with a fifth too little or too much noise neither fits."""
    with noise_of_scale(times):
        first, refined = released_noise(tmp_path, store_url)
    fits = [fit(first, FIRST) > FALSE_ALARM, fit(refined, SECOND) > FALSE_ALARM]
    assert fits == [times == 1] * 2


def test_refined_answers_would_not_fit_the_first_law_nor_the_first_the_second(
    tmp_path: Path, store_url: str
) -> None:
    first, refined = released_noise(tmp_path, store_url)
    assert fit(first, SECOND) < FALSE_ALARM
    assert fit(refined, FIRST) < FALSE_ALARM
    assert first != refined
