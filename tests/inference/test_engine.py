"""The one entry from history to answers."""

from __future__ import annotations

import random
from fractions import Fraction
from threading import Event

import numpy as np
import pytest
from numpy.testing import assert_allclose

from qserver.errors import InputError, RequirementError
from qserver.inference.engine import InferenceEngine
from qserver.inference.law.laplace_sum import LaplaceSum
from qserver.inference.rows import rows_in_play
from qserver.query.linear_query import linear_query, total_query
from qserver.query.primitive import primitive
from qserver.query.weights import indicator, interval
from qserver.records.history import Estimator, Measurement
from tests.inference.histories import STEP, engine, is_estimable, measured, random_range
from tests.records.grown import History, grown

SIZES = (10,)


def _box(*values: int):
    return linear_query(SIZES, [(1, {0: indicator(10, values)})])


def test_a_measured_row_is_answered_by_its_measurement():
    answer = Fraction(421, 8)
    found = engine(SIZES, [measured(0, _box(1), answer=answer)]).estimate(
        primitive(_box(1)), confidence=0.95
    )
    assert found is not None
    assert found.method == "direct"
    assert found.weights == ((0, 1.0),)
    assert found.posterior.estimate == float(answer)
    assert_allclose(found.half_width, 10 * np.log(20) + float(STEP), rtol=1e-8)
    assert found.half_width == found.posterior.half_width(0.95)


def test_a_multiple_of_a_measured_row_is_the_same_row():
    inference = engine(SIZES, [measured(0, _box(1).scaled(-7), answer=5)])
    found = inference.estimate(primitive(_box(1).scaled(Fraction(2, 3))), confidence=0.5)
    assert found is not None
    assert found.weights == ((0, 1.0),)


def test_a_sum_of_rows_has_their_estimates_and_errors_summed():
    rows = [measured(0, _box(1, 2), scale=10, answer=30), measured(1, _box(3), scale=4, answer=12)]
    found = engine(SIZES, rows).estimate(primitive(_box(1, 2, 3)), confidence=0.9)
    assert found is not None
    assert found.posterior.estimate == 42.0
    assert found.ids == (0, 1)
    assert_allclose(sorted(found.posterior.scales), [4.0, 10.0], rtol=1e-12)
    expected = LaplaceSum(np.array([10.0, 4.0])).half_width(0.9) + 2 * float(STEP)
    assert_allclose(found.half_width, expected, rtol=1e-8)


def test_what_history_cannot_give_is_none_and_not_estimable():
    inference = engine(SIZES, [measured(0, _box(1, 2))])
    assert inference.estimate(primitive(_box(1)), confidence=0.9) is None
    assert not is_estimable(inference, primitive(_box(1)))


def test_an_empty_history_gives_nothing_but_the_zero_query():
    inference = engine(SIZES, [])
    assert inference.estimate(primitive(total_query(SIZES)), confidence=0.9) is None
    zero = primitive(total_query(SIZES).scaled(0))
    found = inference.estimate(zero, confidence=0.9)
    assert found is not None
    assert found.half_width == 0.0
    assert found.posterior.estimate == 0.0
    assert is_estimable(inference, zero)


def test_a_stored_estimator_is_used_where_it_is_the_shortest():
    rows = [measured(0, _box(1), scale=10, answer=3), measured(1, _box(2), scale=10, answer=4)]
    query = primitive(_box(1, 2))
    inference = InferenceEngine(SIZES, max_rows=1)
    inference.extend(rows)
    assert not is_estimable(inference, query)
    inference.extend([Estimator(query.key, ((0, 1.0), (1, 1.0)))])
    found = inference.estimate(query, confidence=0.9)
    assert found is not None
    assert found.method == "stored"
    assert found.posterior.estimate == 7.0


def test_repeated_measurements_are_averaged_with_the_shortest_tail():
    rows = [measured(i, _box(1), answer=i) for i in range(4)]
    found = engine(SIZES, rows).estimate(primitive(_box(1)), confidence=0.95)
    assert found is not None
    assert_allclose([w for _, w in found.weights], [0.25] * 4, rtol=1e-4)
    assert_allclose(found.posterior.estimate, 1.5, rtol=1e-4)
    best = LaplaceSum(np.full(4, 2.5)).half_width(0.95) + float(STEP)
    assert_allclose(found.half_width, best, rtol=1e-7)


def test_a_public_total_turns_a_count_into_its_complement_for_nothing():
    rows = [measured(0, total_query(SIZES), scale=0, answer=100), measured(1, _box(1), answer=30)]
    found = engine(SIZES, rows).estimate(primitive(total_query(SIZES) - _box(1)), confidence=0.95)
    assert found is not None
    assert found.posterior.estimate == 70.0
    assert_allclose(found.half_width, 10 * np.log(20) + float(STEP), rtol=1e-8)


def test_the_version_counts_events_and_agrees_with_that_of_history():
    rows = [measured(0, _box(1)), measured(1, _box(2))]
    events: list[Measurement | Estimator]
    events = [rows[0], Estimator(primitive(_box(1)).key, ((0, 1.0),)), rows[1]]
    inference = engine(SIZES, events[:2])
    assert inference.version == 2
    inference.extend(events[2:])
    assert inference.version == grown(History("s", SIZES), events).version == 3


def test_an_estimate_is_kept_until_history_moves_on():
    inference = engine(SIZES, [measured(0, _box(1)), measured(1, _box(2))])
    query = primitive(_box(1, 2))
    first = inference.estimate(query, confidence=0.9)
    assert inference.estimate(query, confidence=0.9) is first
    inference.extend([measured(2, _box(1, 2), scale=1)])
    after = inference.estimate(query, confidence=0.9)
    assert first is not None
    assert after is not None
    assert after.half_width < first.half_width


def test_a_measurement_out_of_order_is_refused():
    with pytest.raises(InputError, match=r"measurement\.id` must be 0, the next one, or less, got"):
        engine(SIZES, [measured(1, _box(1))])


@pytest.mark.parametrize("confidence", [0.0, 1.0, float("nan")])
def test_a_confidence_out_of_range_is_refused(confidence):
    with pytest.raises(RequirementError, match="confidence"):
        engine(SIZES, []).estimate(primitive(_box(1)), confidence=confidence)


def test_beyond_the_cap_the_rows_of_least_noise_stay_in_play():
    inference = InferenceEngine((40,), max_rows=10)
    boxes = [linear_query((40,), [(1, {0: interval(40, i, i + 1)})]) for i in range(30)]
    rows = [measured(i, q, scale=1 if i % 4 == 0 else 50) for i, q in enumerate(boxes)]
    for row in rows:
        inference.extend([row])
        is_estimable(inference, primitive(total_query((40,))))
    assert is_estimable(inference, primitive(boxes[0] + boxes[28]))
    assert not is_estimable(inference, primitive(boxes[1] + boxes[2]))
    # A row that is out of play still answers for itself.
    assert is_estimable(inference, primitive(boxes[1]))


def test_history_taken_in_piece_by_piece_answers_like_history_at_once():
    rng = random.Random(9)
    rows = [measured(i, random_range(rng, 60, 12), answer=i) for i in range(40)]
    whole, pieces = engine((60,), rows), engine((60,), [])
    for row in rows:
        pieces.extend([row])
        is_estimable(pieces, primitive(random_range(rng, 60, 12)))
    for _ in range(15):
        query = primitive(random_range(rng, 60, 12))
        a, b = (e.estimate(query, confidence=0.95) for e in (whole, pieces))
        assert (a is None) == (b is None)
        if a is not None and b is not None:
            assert_allclose(a.half_width, b.half_width, rtol=1e-7)


def test_rows_on_a_domain_of_a_million_million_cells_combine():
    sizes = (1000,) * 4
    rng = random.Random(4)
    boxes = []
    for _ in range(60):
        axes = {}
        for axis in rng.sample(range(4), 2):
            low, high = sorted(rng.sample(range(1001), 2))
            axes[axis] = interval(1000, low, high)
        boxes.append(linear_query(sizes, [(1, axes)]))
    inference = engine(sizes, [measured(i, q, answer=i) for i, q in enumerate(boxes)])
    query = boxes[3] + boxes[7].scaled(2) - boxes[40].scaled(Fraction(1, 2))
    row = primitive(query)
    found = inference.estimate(row, confidence=0.95)
    assert found is not None
    expected = {3: 1 / row.multiplier, 7: 2 / row.multiplier, 40: Fraction(-1, 2) / row.multiplier}
    weights = dict(found.weights)
    assert set(weights) == set(expected)
    for number, weight in expected.items():
        assert weights[number] == pytest.approx(float(weight), rel=1e-15)
    assert not is_estimable(
        inference, primitive(query + linear_query(sizes, [(1, {0: indicator(1000, [0])})]))
    )


def test_what_rows_give_that_were_factored_meanwhile_is_found_then(monkeypatch):
    """Rows themselves are answered at once; what follows from them once they are in play."""
    monkeypatch.setattr(rows_in_play, "_MOST_AT_A_TIME", 2)
    monkeypatch.setattr(rows_in_play, "_MOST_WITHOUT_WAIT", 2)
    go_on, make = Event(), rows_in_play._Making.run

    def run(making: rows_in_play._Making) -> None:
        go_on.wait()
        make(making)

    monkeypatch.setattr(rows_in_play._Making, "run", run)
    inference = InferenceEngine(SIZES, may_wait=False)
    inference.extend(measured(i, _box(i)) for i in range(3))
    assert inference.estimate(primitive(_box(0, 1, 2)), confidence=0.9) is not None
    inference.extend(measured(i, _box(i)) for i in range(3, 7))
    both = primitive(_box(3, 4))
    assert inference.estimate(both, confidence=0.9) is None
    assert inference.estimate(primitive(_box(3)), confidence=0.9) is not None
    assert inference.estimate(primitive(_box(0, 1)), confidence=0.9) is not None
    go_on.set()
    making = inference.in_play._making
    assert making is not None
    making.join()
    found = inference.estimate(both, confidence=0.9)
    assert found is not None
    assert found.ids == (3, 4)
