"""How exact the parts of a quotient must be: steps end, cost no more than quoted, and hold."""

from __future__ import annotations

import math
import random
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qserver.inference.law.laplace_sum import LaplaceSum
from qserver.query.sql.parts import ErrorLaw, Halves, KnownQuotient, KnownRange, QuotientTarget
from tests.query.sql.stepwise import Case, refined
from tests.sweeps import examples

N_TRIALS = 1000
CONFIDENCE = 0.8
# Four standard errors of 1000 trials at 0.8.
ROOM = 0.0506
# Women's ages of Adult about the middle of 17 to 90, their number, and half of that.
AGES = Case(10_771.0, -16.6, 36.5, 1.0, 5000.0, CONFIDENCE)
INCOMES = Case(32_561.0, -0.259, 0.5, 0.02, 20_000.0, CONFIDENCE)
sizes = st.floats(0.01, 100.0)


def case(kind: Case, **changed: float) -> Case:
    return Case(**{**vars(kind), **changed})


@given(sizes, sizes, st.floats(-3.0, 3.0), st.sampled_from([0.5, 0.9, 0.999]))
def test_the_joint_law_is_that_of_a_sum_of_two_laplace_variables(
    over: float, under: float, t: float, confidence: float
) -> None:
    part_confidence = (1.0 + confidence) / 2.0
    unit = -math.log1p(-part_confidence)
    law = ErrorLaw(confidence, part_confidence, is_joint=True)
    found = law.half_width(Halves(over, under), t)
    scales = [over / unit, abs(t) * under / unit]
    assert found == pytest.approx(LaplaceSum(scales).half_width(confidence), rel=1e-4)
    union = ErrorLaw(confidence, part_confidence, is_joint=False)
    assert found <= union.half_width(Halves(over, under), t) == over + abs(t) * under


@given(sizes, st.floats(0.05, 1.0), sizes, st.booleans())
def test_the_halves_of_a_room_fill_it_and_cost_about_the_least(
    room: float, share: float, radius: float, is_joint: bool
) -> None:
    """Among 400 other ways to share the room none costs a twentieth less."""
    law, t = ErrorLaw(0.95, 0.975, is_joint), share * radius
    found = law.halves(room, t=t, radius=radius)
    assert law.half_width(found, t) == pytest.approx(room, rel=1e-9)
    cost = radius / found.over + 1.0 / found.under
    for k in range(-200, 200):
        ratio = math.exp(k / 40.0)
        other = Halves(1.0, ratio / t)
        size = room / law.half_width(other, t)
        assert radius / (size * other.over) + 1.0 / (size * other.under) > 0.95 * cost


@given(sizes, st.floats(0.05, 1.0), st.floats(0.1, 0.9), st.booleans(), st.booleans())
def test_what_is_known_of_one_part_gives_the_other_more_room(
    room: float, share: float, better: float, is_joint: bool, of_denominator: bool
) -> None:
    law = ErrorLaw(0.95, 0.975, is_joint)
    wanted = law.halves(room, t=share, radius=1.0)
    known = Halves(
        math.inf if of_denominator else better * wanted.over,
        better * wanted.under if of_denominator else math.inf,
    )
    found = law.with_room(wanted, known, room=room, t=share)
    assert (found.under == known.under) if of_denominator else (found.over == known.over)
    assert (found.over > wanted.over) if of_denominator else (found.under > wanted.under)
    assert law.half_width(found, share) == pytest.approx(room, rel=1e-6)


def test_finer_noise_given_the_coarser_has_the_law_of_the_finer() -> None:
    """The simulation's own step: the share of noises within 1 and 3 scales, both by chance."""
    rng, n = random.Random(2), 20_000
    drawn = [rng.expovariate(0.25) * rng.choice((-1, 1)) for _ in range(n)]
    fine = [refined(rng, u, 4.0, 1.0) for u in drawn]
    for h in (0.2, 1.0, 3.0):
        share = sum(abs(v) <= h for v in fine) / n
        p = -math.expm1(-h)
        assert abs(share - p) <= 4.5 * math.sqrt(p * (1 - p) / n)
    # Coarser noise is the finer plus noise of its own: their product has the finer's square.
    products = [u * v for u, v in zip(drawn, fine, strict=True)]
    assert sum(products) / n == pytest.approx(2.0, abs=0.35)


@pytest.mark.parametrize(
    "kind",
    [
        AGES,
        case(AGES, width=0.5),
        case(AGES, denominator=5100.0),
        case(AGES, denominator=3000.0),
        case(AGES, denominator=60_000.0),
        case(AGES, t=30.0, width=6.0),
        case(AGES, t=30.0, width=6.0, base=10_500.0),
        INCOMES,
        case(INCOMES, denominator=20_400.0),
    ],
)
def test_intervals_that_steps_end_in_hold_as_often_as_they_say(kind: Case) -> None:
    """Near the assumed least, far above it and below it; none costs more than was quoted."""
    rng = random.Random(7)
    found = [kind.answered(rng) for _ in range(N_TRIALS)]
    assert abs(sum(o.held for o in found) / N_TRIALS - CONFIDENCE) <= ROOM
    assert all(o.loss <= o.quoted * (1 + 1e-9) for o in found)
    if kind.denominator >= kind.base:
        short = sum(o.half_width <= kind.width * (1 + 1e-9) for o in found)
        assert short >= 0.97 * N_TRIALS


@pytest.mark.parametrize(
    "kind",
    [
        case(AGES, confidence=0.95),
        case(AGES, width=0.5, confidence=0.95),
        case(AGES, width=0.3, confidence=0.95),
        case(INCOMES, confidence=0.95),
    ],
)
def test_the_examples_of_the_docs_get_the_width_that_they_ask_for(kind: Case) -> None:
    """Half the width or less before: the median is within a factor of 1.2 of what is asked."""
    rng = random.Random(3)
    found = [kind.answered(rng) for _ in range(201)]
    assert kind.width / 1.2 <= median(o.half_width for o in found) <= kind.width
    assert median(o.loss for o in found) <= 0.35 * found[0].quoted


@given(
    st.floats(1.0, 1e6),
    st.floats(-1.0, 1.0),
    st.floats(0.001, 0.9),
    st.floats(1.0, 1e5),
    st.floats(0.5, 0.999),
    st.integers(0, 1000),
)
@settings(max_examples=examples(60))
def test_steps_end_soon_whatever_the_data_are(
    denominator: float, t: float, width: float, base: float, confidence: float, seed: int
) -> None:
    kind = Case(denominator, t, 1.0, width, base, confidence)
    found = kind.answered(random.Random(seed))
    assert found.n_steps <= 60
    assert found.loss <= found.quoted * (1 + 1e-9)


def asking(width: float = 1.0, known: KnownQuotient | None = None) -> QuotientTarget:
    return QuotientTarget.of(
        known or KnownQuotient(),
        width=width,
        base=5000.0,
        radius=36.5,
        confidence=0.95,
        part_confidence=0.975,
    )


def test_a_short_enough_interval_asks_for_nothing_and_public_bounds_are_one() -> None:
    known = KnownQuotient(Halves(9e9, 9e9), KnownRange(1e4, 1.1e4), KnownRange(-1.0, 1.0), 0.9)
    assert asking().is_met(known)
    assert not asking().is_enough(known)
    assert not asking(0.8).is_met(known)
    assert not asking(0.8).is_met(KnownQuotient())


def test_a_refuted_assumption_is_priced_as_it_was_made() -> None:
    """Of 51 records, where 5000 were assumed, not a hundred times as much is asked."""
    small = KnownQuotient(
        Halves(4e4, 1e3), KnownRange(-900.0, 1100.0), KnownRange(-36.5, 36.5), 36.5
    )
    assert asking().most.suffices(asking().next_step(small))
    assert asking().is_enough(
        KnownQuotient(asking().most, KnownRange(0.0, 1e2), KnownRange(-36.5, 36.5), 36.5)
    )


def test_what_is_known_at_first_lowers_the_most() -> None:
    known = KnownQuotient(
        Halves(1e4, 300.0), KnownRange(1e4, 1.06e4), KnownRange(-18.0, -15.0), 1.5
    )
    first, then = asking().most, asking(known=known).most
    assert first.suffices(then)
    assert then.over > 2.0 * first.over
    # At t known to be 18 at most of 36.5 the union bound fills the room at 10,000 records.
    assert then.over + 18.0 * then.under == pytest.approx(1e4)
