"""Limits that are figures of the mathematics: how often, and how wide."""

from __future__ import annotations

import json
import math
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qserver.inference.estimate import Posterior
from qserver.inference.law.laplace_sum import LaplaceSum
from qserver.inference.posterior.method_and_prior import CutPosterior
from qserver.query.linear_query import linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import indicator
from qserver.records.codec import plain
from qserver.records.plan import PlannedRow
from tests.worker.books.histories import JournalFile
from worker.books.accountant import NOT_VERIFIED, Accountant
from worker.journal.records import Attached

SCALE = 30 / math.log(20)
"""Of the noise of a count within 30 at 95 percent."""


def _cover(count: float) -> float:
    """How often the interval of a count that is held to be no less than 0 holds it, exactly."""

    def ends(noisy: float) -> tuple[float, float]:
        law = Posterior(noisy, np.array([SCALE]), 0.0)
        found = CutPosterior(law, 0.0, math.inf).interval(0.95)
        return found.low, found.high

    def first(is_past: Any) -> float:
        below, above = count - 200.0, count + 200.0
        while above - below > 0.02:
            middle = (below + above) / 2
            below, above = (below, middle) if is_past(middle) else (middle, above)
        return below

    noise = LaplaceSum([SCALE])
    least = first(lambda noisy: ends(noisy)[1] >= count)
    most = first(lambda noisy: ends(noisy)[0] > count)
    return float(noise.cdf(most - count) - noise.cdf(least - count))


@pytest.mark.limit("0.93 of runs at 0.95")
def test_under_a_prior_an_interval_holds_less_often_than_it_says() -> None:
    """A count of 40; without the prior it is as often as stated."""
    assert round(_cover(40), 2) == 0.93
    assert _cover(1000) == pytest.approx(0.95, abs=1e-3)


@pytest.mark.limit("not verified")
def test_on_a_wide_domain_the_books_may_give_up(tmp_path: Path) -> None:
    """Sums of random questions on 4^24 cells: the worst of them is not found, and they say so."""
    rng, sizes = random.Random(1), (4,) * 24
    file = JournalFile(tmp_path / "journal")
    facts: dict[str, str | int] = {"records_per_person": 1, "sizes": " ".join(map(str, sizes))}
    file.append(Attached("wide", "s", 10**9, "add-remove", "00", facts))
    rows = []
    for _ in range(60):
        chosen = {i: indicator(4, rng.sample(range(4), 2)) for i in rng.sample(range(24), 3)}
        row = primitive(linear_query(sizes, [(1, chosen)]))
        rows.append(PlannedRow(row.row, row.key, rng.randint(10**5, 10**6), Fraction(1, 1024)))
    plan = {
        "job": "j",
        "request": json.dumps({"snapshot": "s", "sizes": sizes}),
        "rows": [plain(row) for row in rows],
        "tables": [],
        "after": {"share_nano": sum(row.alpha_nano for row in rows) // 2, "spent_nano": 10**9},
    }
    said = Accountant(tmp_path / "journal").judge(json.dumps(plan))
    assert said == NOT_VERIFIED == "not verified"
