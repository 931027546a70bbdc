"""The least alpha of a fresh row: sufficient, minimal, and about the noise on the lattice."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import CapacityError, RequirementError
from qserver.ledger.one_person import rise
from qserver.planning.fresh_row import alpha_nano_up, fresh_alpha_nano
from qserver.query.requirement import Requirement
from qserver.records.charge import Relation

lengths = st.floats(1e-3, 1e9)
confidences = st.floats(0.01, 1 - 1e-9)
multipliers = st.fractions(Fraction(-50), Fraction(50), max_denominator=20).filter(bool)


def exact(fraction: Fraction) -> mp.mpf:
    return mp.mpf(fraction.numerator) / fraction.denominator


def least_alpha(requirement: Requirement, multiplier: Fraction, step: Fraction) -> mp.mpf:
    """alpha in nano-epsilon at which abs(m) (b ln(1/delta) + g) = L/2, to 50 digits."""
    log = -mp.log(1 - mp.mpf(requirement.confidence))
    scale = (mp.mpf(requirement.length) / 2 / exact(abs(multiplier)) - exact(step)) / log
    return mp.mpf(10) ** 9 / scale


@given(length=lengths, confidence=confidences, multiplier=multipliers)
def test_alpha_is_the_least_that_meets_the_requirement(
    length: float, confidence: float, multiplier: Fraction
) -> None:
    """To the nano, but for the room of 2^-40 of the length that float evaluation has."""
    requirement = Requirement(length, confidence)
    step = abs(Fraction(length) / multiplier) / 2**22
    with mp.workdps(50):
        alpha = fresh_alpha_nano(requirement, multiplier=multiplier, step=step)
        least = least_alpha(requirement, multiplier, step)
        assert mp.ceil(least) <= alpha <= mp.ceil(least * (1 + mp.mpf(2) ** -39))


@pytest.mark.parametrize("length", [0.5, 3.0, 100.0, 12345.678, 1e9])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_one_nano_less_does_not_meet_the_requirement(length: float, confidence: float) -> None:
    requirement, step = Requirement(length, confidence), Fraction(1, 2**22)
    with mp.workdps(50):
        alpha = fresh_alpha_nano(requirement, multiplier=Fraction(3), step=step)
        log = -mp.log(1 - mp.mpf(confidence))
        widths = [3 * (mp.mpf(10) ** 9 / a * log + exact(step)) for a in (alpha, alpha - 1) if a]
        assert widths[0] <= mp.mpf(length) / 2
        assert all(width > mp.mpf(length) / 2 for width in widths[1:])


def test_alpha_is_the_papers_rule_when_the_lattice_is_fine() -> None:
    """b = L / (2 ln(1/delta)): length 100 at 0.95 gives 0.059914645..., from mpmath."""
    alpha = fresh_alpha_nano(
        Requirement(100.0, 0.95), multiplier=Fraction(1), step=Fraction(1, 2**40)
    )
    assert alpha == 59_914_646


def test_a_multiple_of_a_query_costs_the_multiple() -> None:
    for_one = fresh_alpha_nano(
        Requirement(64.0, 0.9), multiplier=Fraction(1), step=Fraction(1, 2**60)
    )
    for_eight = fresh_alpha_nano(
        Requirement(512.0, 0.9), multiplier=Fraction(-8), step=Fraction(1, 2**60)
    )
    assert for_one == for_eight


def test_a_coarser_lattice_costs_more_until_it_is_too_coarse() -> None:
    """No multiple of the step can be certified within less than a step of the truth."""
    requirement = Requirement(10.0, 0.95)
    steps = [Fraction(1, 2**20), Fraction(1, 4), Fraction(2), Fraction(4)]
    alphas = [fresh_alpha_nano(requirement, multiplier=Fraction(1), step=g) for g in steps]
    assert alphas == sorted(set(alphas))
    for step in (Fraction(5), Fraction(6)):
        with pytest.raises(CapacityError, match=f"`length` must exceed {2 * step}, .*got 10.0"):
            fresh_alpha_nano(requirement, multiplier=Fraction(1), step=step)


def test_room_for_rounding_is_taken_from_the_length() -> None:
    plain = fresh_alpha_nano(Requirement(8.0, 0.95), multiplier=Fraction(2), step=Fraction(1, 64))
    roomy = fresh_alpha_nano(
        Requirement(10.0, 0.95), multiplier=Fraction(2), step=Fraction(1, 64), rounding=Fraction(1)
    )
    assert abs(plain - roomy) <= 1


@pytest.mark.parametrize("rate", ["0.001", "0.1", "0.7", "3"])
@pytest.mark.parametrize("n_steps", ["1.0", "1.5", "2", "2.999", "7", "10.25"])
def test_the_lattice_noise_is_within_a_step_of_the_continuous_law(rate: str, n_steps: str) -> None:
    """P(abs(g K) <= h) >= P(abs(Lap) <= h - g): masses of the lattice summed up one by one."""
    with mp.workdps(60):
        ratio, h = mp.exp(-mp.mpf(rate)), mp.mpf(n_steps)
        mass = [(1 - ratio) / (1 + ratio) * ratio ** abs(k) for k in range(-200, 201)]
        discrete = mp.fsum(m for k, m in zip(range(-200, 201), mass, strict=True) if abs(k) <= h)
        continuous = 1 - mp.exp(-mp.mpf(rate) * (h - 1))
        assert discrete >= continuous
        # A whole step of room is needed in general: with none the claim is false.
        if h != int(h):
            assert discrete < 1 - mp.exp(-mp.mpf(rate) * (int(h) + 1))


@given(rate=st.floats(1e-3, 5), i=st.integers(0, 50))
def test_the_coupling_puts_each_draw_beside_the_continuous_one(rate: float, i: int) -> None:
    """P(K > j) <= P(X > j g) <= P(K >= j), the two inequalities of the proof."""
    with mp.workdps(40):
        a = mp.exp(-mp.mpf(rate))
        at_least = [a**j / (1 + a) for j in (i, i + 1)]
        continuous = a**i / 2
        assert at_least[1] <= continuous <= at_least[0]


@pytest.mark.parametrize(
    "wrong", [{"multiplier": Fraction(0)}, {"step": Fraction(0)}, {"rounding": Fraction(-1)}]
)
def test_values_out_of_range_are_refused(wrong: dict[str, Fraction]) -> None:
    good = {"multiplier": Fraction(1), "step": Fraction(1, 8), "rounding": Fraction(0)}
    with pytest.raises(RequirementError, match="must"):
        fresh_alpha_nano(Requirement(10.0, 0.9), **{**good, **wrong})


@given(alpha=st.floats(1e-12, 1e9))
def test_alpha_is_rounded_up_to_whole_nanos(alpha: float) -> None:
    nano = alpha_nano_up(alpha)
    assert nano - 1 < Fraction(alpha) * 10**9 <= nano


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("inf"), float("nan")])
def test_no_alpha_but_a_positive_number_is_taken(alpha: float) -> None:
    with pytest.raises(RequirementError, match="`alpha` must be a finite number > 0"):
        alpha_nano_up(alpha)


@given(values=st.lists(st.fractions(-1, 1, max_denominator=9), min_size=1, max_size=6))
def test_the_rise_of_a_row_is_the_most_that_one_record_changes_it(
    values: list[Fraction],
) -> None:
    def risen(relation: Relation, *, null_cell: bool) -> Fraction:
        return rise(min(values), max(values), relation=relation, null_cell=null_cell)

    with_null = [*values, Fraction(0)]
    assert risen("add-remove", null_cell=False) == max(abs(v) for v in values)
    assert risen("replace-one", null_cell=False) == max(a - b for a in values for b in values)
    assert risen("replace-one", null_cell=True) == max(a - b for a in with_null for b in with_null)
