"""Intervals of quotients by the joint law: against every number tried, and against chance."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qserver.inference.joint import quotient
from qserver.inference.joint.quotient import JointParts, QuotientPart
from qserver.inference.law.laplace_sum import LaplaceSum
from tests.sweeps import examples, n_of

CONFIDENCE = 0.8
DELTA = 1 - CONFIDENCE
N_TRIALS = n_of(300, share=100)
# Four standard errors.
ROOM = 4.0 * (CONFIDENCE * (1.0 - CONFIDENCE) / N_TRIALS) ** 0.5
N_GRID = 501
MOST_LOOKS = 5_000


def parts(
    over: float, under: float, first: dict[int, float], second: dict[int, float]
) -> JointParts:
    return JointParts(QuotientPart(over, first, 0.0), QuotientPart(under, second, 0.0))


def union_bound(joint: JointParts, confidence: float) -> tuple[float, float]:
    """The set by two intervals that miss half as often each; the denominator is clear of zero."""
    a, b = (
        LaplaceSum(np.abs(list(part.loads.values()))).half_width((1 + confidence) / 2)
        for part in (joint.over, joint.under)
    )
    n, d = joint.over.estimate, joint.under.estimate
    assert d > b
    ends = [(n + s * a) / (d + r * b) for s in (-1, 1) for r in (-1, 1)]
    return min(ends), max(ends)


def tried(
    joint: JointParts, low: float, high: float, confidence: float
) -> tuple[float, float] | None:
    """The ends of the set by trying numbers one by one, each with its own law."""
    ids = sorted({*joint.over.loads, *joint.under.loads})
    inside = []
    for t in np.linspace(low, high, N_GRID):
        loads = [abs(joint.over.loads.get(i, 0.0) - t * joint.under.loads.get(i, 0.0)) for i in ids]
        if abs(joint.over.estimate - t * joint.under.estimate) <= LaplaceSum(loads).half_width(
            confidence
        ):
            inside.append(float(t))
    return (inside[0], inside[-1]) if inside else None


@pytest.mark.parametrize(
    ("over", "under", "first", "second"),
    [
        (40.0, 100.0, {0: 5.0}, {1: 5.0}),
        (-40.0, 100.0, {0: 5.0}, {1: 9.0}),
        (0.5, 100.0, {0: 5.0}, {1: 8.0}),
        (300.0, 100.0, {0: 2.0, 1: 3.0}, {2: 4.0, 3: 1.0}),
        (70.0, 100.0, {0: 5.0, 1: 2.0}, {0: 5.0, 2: 2.0}),
        (-70.0, 100.0, {0: 5.0, 1: 2.0}, {0: 5.0, 2: 2.0}),
    ],
)
def test_the_ends_are_those_of_the_numbers_that_cannot_be_ruled_out(
    over: float, under: float, first: dict[int, float], second: dict[int, float]
) -> None:
    """Trying 501 numbers finds the same ends, within the search's part in 256."""
    joint = parts(over, under, first, second)
    low, high = union_bound(joint, CONFIDENCE)
    found = joint.bounds(low, high, confidence=CONFIDENCE)
    expected = tried(joint, low, high, CONFIDENCE)
    assert found is not None
    assert expected is not None
    room = (high - low) / 256 + (high - low) / (N_GRID - 1)
    assert low <= found[0] <= expected[0]
    assert expected[1] <= found[1] <= high
    assert expected[0] - found[0] <= room
    assert found[1] - expected[1] <= room
    assert found[1] - found[0] < high - low


@settings(max_examples=examples(25))
@given(
    st.floats(-300, 300),
    st.floats(60, 300),
    st.lists(st.floats(-4, 4), min_size=3, max_size=3),
    st.lists(st.floats(-4, 4), min_size=3, max_size=3),
)
def test_no_number_that_cannot_be_ruled_out_is_left_out(
    over: float, under: float, first: list[float], second: list[float]
) -> None:
    joint = parts(over, under, dict(enumerate(first, 1)), dict(enumerate(second)))
    low, high = union_bound(joint, CONFIDENCE)
    found = joint.bounds(low, high, confidence=CONFIDENCE)
    for t in np.linspace(low, high, 41).tolist():
        loads = [
            abs(joint.over.loads.get(i, 0.0) - t * joint.under.loads.get(i, 0.0)) for i in range(4)
        ]
        half_width = LaplaceSum(loads).half_width(CONFIDENCE)
        if abs(over - t * under) <= half_width * (1 - 1e-9) and high > low:
            assert found is not None
            assert found[0] <= t <= found[1]


@pytest.mark.slow
@pytest.mark.parametrize("is_shared", [False, True])
def test_the_interval_holds_as_often_as_it_says_and_hardly_more(is_shared: bool) -> None:
    """300 draws: 0.8 within four standard errors, the resolution's surplus allowed above.

    An interval from half the noise holds far less often: the control that must fail.
    """
    rng = random.Random(5)
    true_over, true_under = 55.0, 100.0
    first = {0: 6.0, 1: 3.0}
    second = {0: 6.0, 2: 3.0} if is_shared else {2: 6.0, 3: 3.0}
    held = dict.fromkeys(("joint", "short"), 0)
    for _ in range(N_TRIALS):
        noise = [rng.expovariate(1.0) * rng.choice((-1, 1)) for _ in range(4)]
        over = true_over + sum(load * noise[i] for i, load in first.items())
        under = true_under + sum(load * noise[i] for i, load in second.items())
        joint = parts(over, under, first, second)
        start = union_bound(joint, CONFIDENCE)
        halved = parts(
            over, under, {i: v / 2 for i, v in first.items()}, {i: v / 2 for i, v in second.items()}
        )
        for name, found in (
            ("joint", joint.bounds(*start, confidence=CONFIDENCE)),
            ("short", halved.bounds(*start, confidence=CONFIDENCE)),
        ):
            held[name] += found is not None and found[0] <= true_over / true_under <= found[1]
    share = {name: n / N_TRIALS for name, n in held.items()}
    assert CONFIDENCE - ROOM <= share["joint"] <= CONFIDENCE + ROOM + 0.01
    assert share["short"] < CONFIDENCE - n_of(2, share=1) * ROOM


def test_bounds_that_are_always_true_may_be_started_from() -> None:
    """The denominator may be zero: nothing is ruled out but what the noises rule out."""
    joint = parts(30.0, 4.0, {0: 5.0}, {1: 5.0})
    found = joint.bounds(-10.0, 10.0, confidence=CONFIDENCE)
    expected = tried(joint, -10.0, 10.0, CONFIDENCE)
    assert found is not None
    assert expected is not None
    assert found[0] <= expected[0]
    assert found[1] == 10.0 == expected[1]
    assert expected[0] - found[0] <= 20 / 256 + 20 / (N_GRID - 1)


def test_bounds_that_the_estimates_rule_out_leave_nothing() -> None:
    joint = parts(500.0, 100.0, {0: 1.0}, {1: 1.0})
    assert joint.bounds(-1.0, 1.0, confidence=CONFIDENCE) is None


def test_allowances_lengthen_the_interval() -> None:
    exact = JointParts(QuotientPart(40.0, {0: 5.0}, 0.0), QuotientPart(100.0, {1: 5.0}, 0.0))
    rough = JointParts(QuotientPart(40.0, {0: 5.0}, 3.0), QuotientPart(100.0, {1: 5.0}, 2.0))
    low, high = union_bound(exact, CONFIDENCE)
    first = exact.bounds(low - 1, high + 1, confidence=CONFIDENCE)
    second = rough.bounds(low - 1, high + 1, confidence=CONFIDENCE)
    assert first is not None
    assert second is not None
    # At t = 0.4 +- 0.07 allowances add 3 + 2 t to the half-width, over a slope of 100.
    for a, b in zip(first, second, strict=True):
        assert math.isclose(abs(b - a), (3 + 2 * abs(b)) / 100, abs_tol=2.5 / 256 + 0.005)


@pytest.mark.parametrize(
    ("low", "high"),
    [(0.4 - 1e-15, 0.4 + 1e-15), (0.4 - 1e-16, 0.4 + 1e-16), (-1.7e308, 1.7e308)],
)
def test_a_search_ends_where_its_steps_are_lost_in_rounding(low: float, high: float) -> None:
    """Ends a few units in the last place apart, and ends further apart than floats reach."""
    looks, look = 0, quotient._Tightening._is_outside

    def counted(search: quotient._Tightening, a: float, b: float) -> bool:
        nonlocal looks
        looks += 1
        assert looks < MOST_LOOKS
        return look(search, a, b)

    exact = JointParts(QuotientPart(40.0, {0: 0.0}, 0.0), QuotientPart(100.0, {0: 0.0}, 0.0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quotient._Tightening, "_is_outside", counted)
        found = exact.bounds(low, high, confidence=CONFIDENCE)
    assert found is not None
    assert low <= found[0] <= 0.4 <= found[1] <= high
