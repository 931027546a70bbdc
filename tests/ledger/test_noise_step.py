"""The lattice step: divides the unit, is fine enough and no finer, and reveals no residue."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import RequirementError
from qserver.ledger.noise_step import lattice_step

pytestmark = [
    pytest.mark.promise(
        "Privacy",
        "a step coarser than the unit leaks; ours does not",
    ),
]

units = st.fractions(min_value=Fraction(1, 10**9), max_value=1, max_denominator=10**9)
limits = st.integers(min_value=1, max_value=10**15)
owned = st.integers(min_value=1, max_value=10**6)


def bound(limit_nano: int, records_per_person: int) -> Fraction:
    """2^-20 k / limit, with the limit in epsilon."""
    return Fraction(records_per_person, 2**20) / Fraction(limit_nano, 10**9)


@given(units, limits, owned)
def test_step_is_the_first_halving_of_the_unit_under_the_bound(
    unit: Fraction, limit_nano: int, records_per_person: int
) -> None:
    """Found again by halving in a loop."""
    expected = unit
    while expected > bound(limit_nano, records_per_person):
        expected /= 2
    step = lattice_step(unit, limit_nano=limit_nano, records_per_person=records_per_person)
    assert step == expected


@given(units, limits, owned)
def test_unit_is_a_power_of_two_steps(
    unit: Fraction, limit_nano: int, records_per_person: int
) -> None:
    step = lattice_step(unit, limit_nano=limit_nano, records_per_person=records_per_person)
    ratio = unit / step
    assert ratio.denominator == 1
    assert ratio.numerator.bit_count() == 1


@given(units, limits, limits, owned, owned)
def test_step_never_grows_with_the_limit_nor_falls_with_the_records_owned(
    unit: Fraction, one: int, other: int, few: int, many: int
) -> None:
    few, many = sorted((few, many))
    low, high = sorted((one, other))
    finest = lattice_step(unit, limit_nano=high, records_per_person=few)
    assert finest <= lattice_step(unit, limit_nano=low, records_per_person=few)
    assert finest <= lattice_step(unit, limit_nano=high, records_per_person=many)


@pytest.mark.parametrize(
    ("unit", "limit_nano", "records_per_person", "expected"),
    [
        (Fraction(1), 10**9, 1, Fraction(1, 2**20)),  # exactly on the bound
        (Fraction(1), 10**9 + 1, 1, Fraction(1, 2**21)),  # just past it
        (Fraction(1), 10**9, 2**20, Fraction(1)),  # the unit itself will do
        (Fraction(1), 1, 1, Fraction(1)),
        (Fraction(1, 3), 10**9, 1, Fraction(1, 3 * 2**19)),
    ],
)
def test_step_at_the_edges_of_the_bound(
    unit: Fraction, limit_nano: int, records_per_person: int, expected: Fraction
) -> None:
    step = lattice_step(unit, limit_nano=limit_nano, records_per_person=records_per_person)
    assert step == expected


@pytest.mark.parametrize("unit", [Fraction(0), Fraction(-1), 1.0, 1, True, float("nan"), None])
def test_a_unit_that_is_no_positive_fraction_is_refused(unit: object) -> None:
    with pytest.raises(RequirementError, match="`unit` must be a Fraction > 0"):
        lattice_step(unit, limit_nano=1, records_per_person=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("limit_nano", [0, -1, 1.0, True, float("inf"), None])
def test_a_limit_that_is_no_positive_int_is_refused(limit_nano: object) -> None:
    with pytest.raises(RequirementError, match="`limit_nano` must be an int > 0"):
        lattice_step(Fraction(1), limit_nano=limit_nano, records_per_person=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("records_per_person", [0, -1, 1.0, True, None])
def test_a_person_owns_one_record_or_more(records_per_person: object) -> None:
    with pytest.raises(RequirementError, match="`records_per_person` must be an int >= 1"):
        lattice_step(Fraction(1), limit_nano=1, records_per_person=records_per_person)  # type: ignore[arg-type]


def reachable(truth: Fraction, step: Fraction, n_steps: int) -> set[Fraction]:
    """Every answer truth + step * k with abs(k) at most `n_steps`."""
    return {truth + step * k for k in range(-n_steps, n_steps + 1)}


@pytest.mark.parametrize(
    ("unit", "step"),
    [(Fraction(1), Fraction(2)), (Fraction(1, 3), Fraction(1, 2)), (Fraction(1), Fraction(2, 3))],
)
def test_a_step_that_does_not_divide_the_unit_would_tell_neighbours_apart(
    unit: Fraction, step: Fraction
) -> None:
    """Two neighbours then share no answer at all: any answer proves which one it was."""
    truth = 7 * step
    assert not reachable(truth, step, 200) & reachable(truth + unit, step, 200)


@given(
    units.filter(lambda unit: unit >= Fraction(1, 1000)),
    st.integers(min_value=10**6, max_value=10**11),
    st.integers(min_value=-1000, max_value=1000),
    st.integers(min_value=-(10**6), max_value=10**6),
    st.integers(min_value=1, max_value=10**12),
)
def test_no_answer_tells_neighbours_apart_by_more_than_the_charge(
    unit: Fraction, limit_nano: int, in_units: int, true_units: int, alpha_nano: int
) -> None:
    """log P(y | truth) - log P(y | neighbour) is at most abs(h) alpha, in exact fractions.

    P(k) goes as exp(-step alpha abs(k)), so a log-ratio is a difference of exponents. It is
    piecewise linear in y with corners at the two truths, so those, points outside and one
    between show its whole range; the bound is met exactly outside.
    """
    step = lattice_step(unit, limit_nano=limit_nano, records_per_person=1)
    alpha = Fraction(alpha_nano, 10**9)
    h = in_units * unit
    truth = true_units * unit
    neighbour = truth + h
    corners = [truth, neighbour]
    answers = [
        *corners,
        min(corners) - 5 * step,
        max(corners) + 5 * step,
        truth + h // step // 2 * step,
    ]
    ratios = [alpha * (abs(y - neighbour) - abs(y - truth)) for y in answers]
    assert all(((y - t) / step).denominator == 1 for y in answers for t in corners)
    assert max(abs(ratio) for ratio in ratios) == abs(h) * alpha
