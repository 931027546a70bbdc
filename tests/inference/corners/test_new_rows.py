"""Histories that grow, against exact fractions: estimability, variance, and the bound on bias."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from threading import Event

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from qserver.inference.corners import base
from qserver.inference.corners.bias import Bias, settled
from qserver.inference.corners.vectors import CornerNames, RowMatrix
from qserver.inference.rows import rows_in_play
from qserver.inference.rows.blue import NEW, Combinations
from qserver.query.linear_query import LinearQuery, linear_query, total_query
from qserver.query.primitive import primitive
from qserver.query.weights import indicator, interval
from qserver.records.dataset import MOST_RECORDS
from qserver.records.history import Measurement
from tests.inference.corners.exact import least_variance
from tests.inference.corners.rows_on_trial import Trial, trial
from tests.inference.histories import combination, dense, measured, random_query, random_range
from tests.query.dense_weights import scaled_weights
from tests.sweeps import examples

SCALES = (Fraction(1), Fraction(10), Fraction(5, 2), Fraction(40), Fraction(1, 100))
VARIANCE = 1e-7
"""Rows taken in one by one, and refined, lose this much of the least variance at most."""


def _events(
    rng: random.Random, sizes: tuple[int, ...], *, public: bool
) -> Iterator[tuple[Measurement, list[Measurement]]]:
    """New rows, combinations of old ones and refinements; each with all live rows."""
    live: list[Measurement] = []
    for _ in range(rng.randint(4, 22)):
        noisy = [m for m in live if not m.is_public]
        if noisy and rng.random() < 0.3:
            old = rng.choice(noisy)
            new = replace(old, alpha_nano=old.alpha_nano * rng.randint(2, 30))
            live[old.id] = new
            yield new, list(live)
            continue
        simple = random_query(rng, sizes)
        query = combination(rng, [m.row for m in live]) if live and rng.random() < 0.4 else simple
        scale = Fraction(0) if public and rng.random() < 0.2 else rng.choice(SCALES)
        live.append(measured(len(live), query or simple, scale=scale))
        yield live[-1], list(live)


def _check(rows: list[Measurement], query: LinearQuery, found: Combinations | None) -> None:
    matrix = [dense(m.row) for m in rows]
    target = dense(query)
    least = least_variance(matrix, [Fraction(m.scale) for m in rows], target)
    assert found is None or least is not None
    assert (found is None) == (least is None)
    if found is None or least is None:
        return
    variance = 2 * float(np.square(found.least * found.noise.scales).sum())
    assert_allclose(variance, float(least), rtol=VARIANCE, atol=1e-12)
    weights = dict(zip(found.noise.ids.tolist(), found.least.tolist(), strict=True))
    for cell, wanted in enumerate(target):
        given = sum(Fraction(w) * matrix[i][cell] for i, w in weights.items())
        assert abs(given - wanted) <= 1e-9
    for direction in found.directions:
        pairs = list(zip(direction.tolist(), found.noise.ids.tolist(), strict=True))
        # Rounding is relative to the direction's own weights.
        room = 1e-8 * max(1.0, *map(abs, direction.tolist()))
        for cell in range(len(target)):
            assert abs(sum(w * float(matrix[i][cell]) for w, i in pairs)) <= room


@pytest.mark.slow
@pytest.mark.parametrize("most_later", [3, 64])
@pytest.mark.parametrize("public", [False, True])
@given(seed=st.integers(0, 10**9))
# A refinement was once taken for a direction of its own: rounding, made as large as a weight.
@example(seed=402)
@example(seed=1030)
@example(seed=14542)
@settings(max_examples=examples(30))
def test_a_growing_history_answers_like_exact_fractions_at_each_moment(seed, public, most_later):
    rng = random.Random(seed)
    sizes = rng.choice([(2, 3), (3, 3), (2, 2, 2), (8,)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_in_play, "_MOST_LATER", most_later)
        found = Trial()
        for event, live in _events(rng, sizes, public=public):
            found.extend([event])
            asked = rng.choice([combination(rng, [m.row for m in live]), random_query(rng, sizes)])
            if asked is not None and rng.random() < 0.5:
                query = primitive(asked).row
                _check(live, query, found.combinations(query))


@pytest.mark.parametrize("sparse", [0.0, 1.1])
@pytest.mark.parametrize("n_cuts", [12, 60])
def test_a_large_core_agrees_with_dense_least_squares(n_cuts, sparse, monkeypatch):
    """By the sparse factor and by the dense one, in one piece and row by row."""
    monkeypatch.setattr(base, "_SMALL", 0)
    monkeypatch.setattr(base, "_SPARSE", sparse)
    rng = random.Random(n_cuts)
    rows = [
        measured(i, random_range(rng, 240, n_cuts), scale=rng.choice(SCALES)) for i in range(90)
    ]
    whole, grown = trial(rows), trial(rows[:50])
    for row in rows[50:]:
        grown.extend([row])
    scaled = np.array([[float(v) for v in dense(m.row)] for m in rows])
    scaled /= np.array([m.scale for m in rows])[:, None]
    for _ in range(12):
        query = random_range(rng, 240, n_cuts)
        q = np.array([float(v) for v in dense(query)])
        y, *_ = np.linalg.lstsq(scaled.T, q, rcond=1e-10)
        is_estimable = bool(np.abs(scaled.T @ y - q).max() < 1e-9)
        for one in (whole, grown):
            found = one.combinations(query)
            assert (found is not None) == is_estimable
            if found is not None:
                variance = 2 * float(np.square(found.least * found.noise.scales).sum())
                assert_allclose(variance, 2 * float(y @ y), rtol=1e-9)


def test_a_large_history_is_factored_in_a_thread_while_the_old_factors_answer(monkeypatch):
    monkeypatch.setattr(rows_in_play, "_MOST_LATER", 5)
    monkeypatch.setattr(rows_in_play, "_MOST_AT_ONCE", 10)
    rng = random.Random(3)
    queries = [random_range(rng, 100, 15) for _ in range(60)]
    rows = [measured(i, q, scale=rng.choice(SCALES)) for i, q in enumerate(queries)]
    found, expected = trial(rows[:30]), trial(rows)
    for row in rows[30:]:
        found.extend([row])
        assert found.combinations(row.row) is not None
    for _ in range(2):
        for query in queries:
            one, other = found.combinations(query), expected.combinations(query)
            assert one is not None
            assert other is not None
            assert_allclose(
                np.linalg.norm(one.least * one.noise.scales),
                np.linalg.norm(other.least * other.noise.scales),
                rtol=1e-9,
            )
        found.rows.wait()


def test_a_copy_that_tries_rows_changes_nothing():
    rng = random.Random(5)
    queries = [random_range(rng, 60, 12) for _ in range(30)]
    rows = [measured(i, q, scale=rng.choice(SCALES)) for i, q in enumerate(queries)]
    kept = trial(rows[:20])
    before = [kept.combinations(q) for q in queries]
    tried = Trial()
    tried.rows = kept.rows.tried()
    tried.extend([replace(rows[3], alpha_nano=rows[3].alpha_nano * 50), *rows[20:]])
    assert all(tried.combinations(q) is not None for q in queries)
    for query, old in zip(queries, before, strict=True):
        new = kept.combinations(query)
        assert (new is None) == (old is None)
        if new is not None and old is not None:
            assert new.least.tolist() == old.least.tolist()
            assert new.noise.scales.tolist() == old.noise.scales.tolist()


@pytest.mark.parametrize("weigh", [lambda _: 1, lambda i: i + 1, lambda i: 2 * i - 13])
def test_rows_that_were_refined_are_weighed_as_if_measured_so_at_once(weigh):
    """Counts, and sums whose rows have fractions: their corners are in other units than records."""
    ends = ((0, 12), (8, 20), (0, 20), (8, 12), (0, 5))
    queries = [
        primitive(
            linear_query(
                (20,),
                [(1, {0: scaled_weights([0] * a + [*map(weigh, range(a, b))] + [0] * (20 - b))})],
            )
        ).row
        for a, b in ends
    ]
    first = [measured(i, q, scale=90 - 11 * i) for i, q in enumerate(queries)]
    last = [replace(m, alpha_nano=m.alpha_nano * (1 + 3 * (m.id % 3))) for m in first]
    grown, at_once = trial(first[:3]), trial(last)
    for row in (*first[3:], *last):
        if row not in first[:3]:
            grown.extend([row])
    for query in (*queries, queries[0] + queries[1], queries[2] - queries[0]):
        spread = []
        for one in (grown, at_once):
            found = one.combinations(query)
            assert found is not None
            spread.append(float(np.linalg.norm(found.least * found.noise.scales)))
        assert spread[0] == pytest.approx(spread[1], rel=VARIANCE)


def _forgery() -> tuple[LinearQuery, LinearQuery]:
    """A row, and a query that is a multiple of it modulo a prime of 26 bits only."""
    row = linear_query((3,), [(1, {0: scaled_weights([1, 67_108_859, 0])})])
    return row, linear_query((3,), [(1, {0: scaled_weights([1, 0, 0])})])


def test_a_query_next_to_the_row_space_is_refused_or_pays_for_its_distance():
    row, query = _forgery()
    assert trial([measured(0, row)]).combinations(primitive(query).row) is None
    total, cell = total_query((9,)), linear_query((9,), [(1, {0: indicator(9, [2])})])
    rows = trial([measured(0, total), measured(1, cell + total)])
    for share in (Fraction(1, 10**6), Fraction(1, 10**12), Fraction(1, 10**15)):
        part = linear_query((9,), [(share, {0: interval(9, 0, 5)})])
        found = rows.combinations(total + part)
        # Nobody has more records than the cap, so this part counts at most so many.
        assert found is None or found.error >= float(share) * MOST_RECORDS


@pytest.mark.slow
@pytest.mark.parametrize("most_records", [10**3, 10**10])
@given(seed=st.integers(0, 10**9))
# A weight that is next to nothing is left out here, which its answer pays for.
@example(seed=4977)
@settings(max_examples=examples(30))
def test_the_bound_holds_for_the_exact_bias_of_any_weights(seed, most_records):
    """The mean is off by what weights leave of each corner times the records in it: at most all."""
    rng, sizes = random.Random(seed), (3, 2)
    queries = [random_query(rng, sizes) for _ in range(8)]
    asked = combination(rng, queries)
    if asked is None:
        return
    query = primitive(asked).row
    for cell in itertools.product(*map(range, sizes)):
        # All records in one cell: the answers of rows are then these weights times their number.
        rows = [measured(i, q) for i, q in enumerate(queries)]
        rows = [measured(m.id, m.row, answer=m.row.value_at(cell) * most_records) for m in rows]
        found = Trial(most_records=most_records)
        found.extend(rows)
        known = found.combinations(query)
        assert known is not None
        weights = dict(zip(known.noise.ids.tolist(), known.least.tolist(), strict=True))
        assert _off(rows, weights, query, cell) * most_records <= known.error
        # Weights that are rounded coarsely are off by more, and the bound says so.
        pairs = tuple((i, round(w, 5)) for i, w in weights.items() if round(w, 5))
        polished = found.polished(query, (*pairs, (NEW, 0.0)))
        off = _off(rows, dict(polished.weights), query, cell) * most_records
        assert off <= polished.error
        assert _off(rows, dict(pairs), query, cell) * most_records <= polished.given_error


def test_weights_that_nobody_corrects_are_off_by_what_the_bound_says_and_not_by_nothing():
    """Two halves of a total, each weighed a millionth too much: the cap shows it."""
    halves = [linear_query((2,), [(1, {0: indicator(2, [i])})]) for i in range(2)]
    names, rows = CornerNames(), RowMatrix()
    for half in halves:
        rows.append(names.of_row(half))
    query = names.of_row(total_query((2,)))
    weights = np.array([1 + 1e-6, 1 + 1e-6])
    found = settled(rows, query, weights, lambda _: np.zeros(2), enough=0.0)
    error = Bias(10**6).error(query, found)
    assert_allclose(error, 1.0, rtol=1e-6)
    assert error >= (float(weights[0]) - 1) * 10**6


def _off(rows, weights, query, cell):
    """How far weights miss the query's value at a cell."""
    given = sum(Fraction(w) * rows[i].row.value_at(cell) for i, w in weights.items())
    return abs(given - query.value_at(cell))


def _several(monkeypatch) -> list[Measurement]:
    """Ranges of a history where 10 at a time are many, and 10 in all are not few."""
    monkeypatch.setattr(rows_in_play, "_MOST_AT_A_TIME", 10)
    monkeypatch.setattr(rows_in_play, "_MOST_WITHOUT_WAIT", 10)
    rng = random.Random(4)
    queries = {primitive(random_range(rng, 100, 15)).row for _ in range(300)}
    return [
        measured(i, q, scale=rng.choice(SCALES)) for i, q in enumerate(sorted(queries, key=str))
    ]


def _length(found: Combinations) -> float:
    return float(np.linalg.norm(found.least * found.noise.scales))


def _as_precise(found: Trial, expected: Trial, rows: list[Measurement]) -> bool:
    """Whether every row follows as precisely."""
    pairs = [(found.combinations(m.row), expected.combinations(m.row)) for m in rows]
    return all(
        one is not None and other is not None and np.isclose(_length(one), _length(other))
        for one, other in pairs
    )


class _Held:
    """A way to make rows ready that waits until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gone = Event()
        make = rows_in_play._Making.run

        def run(making: rows_in_play._Making) -> None:
            self.gone.wait()
            make(making)

        monkeypatch.setattr(rows_in_play._Making, "run", run)


def test_where_nobody_may_wait_many_rows_are_factored_in_a_thread(monkeypatch):
    """The rows before them answer meanwhile; also rows that come while others are factored."""
    rows, held = _several(monkeypatch), _Held(monkeypatch)
    found = Trial(may_wait=False)
    found.extend(rows[:20])
    found.extend(rows[20:40])
    found.extend(rows[40:])
    assert not found.rows.arrived()
    assert _as_precise(found, trial(rows[:20]), rows[:20])
    held.gone.set()
    found.rows.wait()
    assert not _as_precise(found, trial(rows), rows)
    found.rows.wait()
    assert _as_precise(found, trial(rows), rows)
    assert not found.rows.arrived()


def test_where_somebody_may_wait_many_rows_are_in_play_at_once(monkeypatch):
    rows, _held = _several(monkeypatch), _Held(monkeypatch)
    found = trial(rows[:20])
    found.extend(rows[20:])
    assert _as_precise(found, trial(rows), rows)
