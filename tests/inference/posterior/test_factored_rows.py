"""What was factored is grown by purchases, and says what factoring all anew says."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from qserver.inference.disagreement.law_by_cheapest_method import ENOUGH
from qserver.inference.engine import InferenceEngine
from qserver.inference.estimate import Posterior
from qserver.inference.posterior.cells_as_rows import NearPeriods
from qserver.inference.posterior.posteriors import AsTheyAre
from qserver.inference.posterior.row_posterior import Wanted, _Least, stated
from qserver.query.class_grid import product_partition
from qserver.query.linear_query import LinearQuery, linear_query, total_query
from qserver.query.primitive import primitive
from qserver.query.weights import interval
from qserver.records.dataset import MOST_RECORDS
from qserver.records.history import AnyMeasurement, Measurement, TableMeasurement
from tests.inference.histories import STEP, measured, random_query
from tests.inference.posterior.test_posteriors import factored_rows

SIZES = (5, 4)
_PLAIN = Posterior(0.0, np.full(4, 1e9), 0.0)


def _row(rng: random.Random, number: int, query: LinearQuery) -> Measurement:
    answer = Fraction(rng.randint(-9_000, 9_000), 600)
    return measured(number, query, scale=Fraction(rng.randint(20, 90), 10), answer=answer)


def _table(rng: random.Random, number: int, axes: Sequence[int]) -> TableMeasurement:
    labels = {axis: np.arange(SIZES[axis]) // rng.choice((1, 2)) for axis in axes}
    partition = product_partition(SIZES, labels)
    answers = tuple(round(rng.uniform(-50, 50) / float(STEP)) for _ in range(partition.n_cells))
    return TableMeasurement(number, partition, rng.randint(10**7, 10**8), STEP, answers)


def _refined(rng: random.Random, old: AnyMeasurement) -> AnyMeasurement:
    alpha = round(old.alpha_nano * rng.uniform(1.01, 3.0))
    moved = lambda index: index + round(rng.uniform(-5, 5) / float(STEP))  # noqa: E731
    if isinstance(old, Measurement):
        return replace(old, alpha_nano=alpha, index=moved(old.index))
    return replace(old, alpha_nano=alpha, indices=tuple(map(moved, old.indices)))


def next_measurement(rng: random.Random, live: Sequence[AnyMeasurement]) -> AnyMeasurement:
    """A new row or table, one that was measured before, its refinement, or a cell as a row."""
    number, kind = len(live), rng.random()
    noisy = [one for one in live if one.alpha_nano]
    if noisy and kind < 0.25:
        return _refined(rng, rng.choice(noisy))
    rows = [one for one in noisy if isinstance(one, Measurement)]
    tables = [one for one in noisy if isinstance(one, TableMeasurement)]
    if rows and kind < 0.4:
        return _row(rng, number, rng.choice(rows).row)
    if tables and kind < 0.5:
        table = rng.choice(tables)
        return _row(rng, number, table.partition.row(rng.randrange(table.partition.n_cells)))
    if kind < 0.65:
        return _table(rng, number, rng.choice(((0,), (1,), (0, 1))))
    return _row(rng, number, random_query(rng, SIZES))


def _assert_same(grown: AsTheyAre, anew: AsTheyAre, asked: Sequence[LinearQuery]) -> int:
    """Compare all that is said of questions; how many of them something disagrees about."""
    n_disagreeing = 0
    for query in asked:
        wanted = Wanted(primitive(query).row, _PLAIN, ENOUGH)
        found, expected = grown.together((wanted,)), anew.together((wanted,))
        assert (found is None) == (expected is None)
        if found is None or expected is None:
            continue
        assert found.estimates == pytest.approx(expected.estimates, rel=1e-9, abs=1e-9)
        assert found.allowances == pytest.approx(expected.allowances, rel=1e-3)
        one, other = (_Least.of(rows._in_play(), wanted.row) for rows in (grown, anew))
        assert one is not None
        assert other is not None
        weights, others = dict(one.pairs), dict(other.pairs)
        for i in {*weights, *others}:
            assert weights.get(i, 0.0) == pytest.approx(others.get(i, 0.0), abs=1e-9)
        told, expected_told = stated(found, wanted), stated(expected, wanted)
        assert told.statement.disagreements == expected_told.statement.disagreements
        n_disagreeing += told.statement.disagreements > 0
        for confidence in (0.5, 0.95):
            ends, others_ends = (s.posterior.interval(confidence) for s in (told, expected_told))
            assert [ends.low, ends.high] == pytest.approx(
                [others_ends.low, others_ends.high], rel=1e-9, abs=1e-9
            )
    return n_disagreeing


@pytest.mark.slow
@pytest.mark.parametrize("is_total", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_growing_says_what_factoring_anew_says(seed: int, is_total: bool) -> None:
    rng, live, n_disagreeing = random.Random(seed), list[AnyMeasurement](), 0
    if is_total:
        live.append(measured(0, total_query(SIZES), scale=0, answer=30))
    grown: AsTheyAre | None = None
    for _ in range(12):
        for _ in range(rng.choice((1, 1, 3))):
            new = next_measurement(rng, live)
            live[new.id : new.id + 1] = [new]
        assert grown is None or grown.becomes(live)
        grown = AsTheyAre(live, MOST_RECORDS, before=grown)
        asked = [random_query(rng, SIZES), rng.choice([*_rows_of(live), total_query(SIZES)])]
        n_disagreeing += _assert_same(grown, AsTheyAre(live, MOST_RECORDS), asked)
    assert n_disagreeing


def _rows_of(live: Sequence[AnyMeasurement]) -> list[LinearQuery]:
    return [one.row for one in live if isinstance(one, Measurement)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_so_it_is_for_the_rows_and_cells_of_some_periods(seed: int) -> None:
    """Whatever is bought for other periods."""
    rng, live, near = random.Random(seed), list[AnyMeasurement](), NearPeriods(frozenset({0, 1}), 0)
    grown: AsTheyAre | None = None
    for _ in range(10):
        new = next_measurement(rng, live)
        live[new.id : new.id + 1] = [new]
        grown = AsTheyAre(live, MOST_RECORDS, keeps=near.holds, before=grown)
        anew = AsTheyAre(live, MOST_RECORDS, keeps=near.holds)
        _assert_same(grown, anew, [random_query(rng, SIZES)])


def test_an_earlier_version_says_what_it_said_and_grows_only_once() -> None:
    rng, live = random.Random(7), list[AnyMeasurement]()
    for _ in range(6):
        live.append(_row(rng, len(live), random_query(rng, SIZES)))
    first, asked = AsTheyAre(live, MOST_RECORDS), live[0].row
    wanted = Wanted(asked, _PLAIN, ENOUGH)
    before = first.stated(wanted)
    both = [[*live, _row(rng, 6, random_query(rng, SIZES)), _row(rng, 7, asked)] for _ in range(2)]
    for some in both:
        made = AsTheyAre(some, MOST_RECORDS, before=first)
        _assert_same(made, AsTheyAre(some, MOST_RECORDS), [asked])
    assert before is not None
    after = first.stated(wanted)
    assert after is not None
    assert after.posterior.interval(0.9) == before.posterior.interval(0.9)


def test_the_engine_factors_once_for_all_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty purchases of rows beside a table: its cells are factored for the first of them."""
    made, rng = factored_rows(monkeypatch), random.Random(3)
    sizes = (30, 6)
    count = partial(random_query, rng, sizes, n_terms=1)
    whole = product_partition(sizes, {0: np.arange(30)})
    engine = InferenceEngine(sizes)
    engine.extend([TableMeasurement(0, whole, 10**8, STEP, tuple(range(30)))])
    row = primitive(linear_query(sizes, [(1, {0: interval(30, 0, 7)})]))
    for number in range(1, 31):
        engine.extend([_row(rng, number, count())])
        estimate = engine.estimate(row, confidence=0.95, is_searched=False)
        assert estimate is not None
        assert engine.together((row.row,), (estimate,)) is not None
    assert len([n for n in made if n >= 30]) <= 2
