"""Chains of refinements among other rows: what the whole transcript costs, by enumeration."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from fractions import Fraction

import pytest

from tests.worker.noise.test_mechanism import branch_kernel, pmf_of

pytestmark = [
    pytest.mark.promise(
        "Privacy",
        "an answer and its refinements together cost what the last of them costs; two draws from "
        "one answer would cost more, and a plan that makes them is refused whole",
    ),
]

A1, A2, A3 = Fraction(4, 5), Fraction(2, 3), Fraction(1, 2)
B1, B2 = Fraction(3, 4), Fraction(1, 4)
Chain = Callable[[int, int, Fraction, Fraction], Fraction]


def independent(_x: int, y: int, _old: Fraction, new: Fraction) -> Fraction:
    """Negative control: noise that knows nothing of the old noise."""
    return pmf_of(y, new)


def final_rates(first: int, other: int) -> tuple[Fraction, Fraction]:
    """What an adaptive analyst makes of the first answers of the rows A and B."""
    return (A3 if other > first else A2), (B2 if first % 2 else B1)


def transcript(answers: tuple[int, ...], truths: tuple[int, int], kernel: Chain) -> Fraction:
    """Probability of: A at A1, B at B1, A at A2, B refined or not, A at A3 or not.

    Answers that are not asked for repeat the last one, with probability one.
    """
    (a1, b1, a2, b2, a3), (t, u) = answers, truths
    last_a, last_b = final_rates(a1, b1)
    found = pmf_of(a1 - t, A1) * pmf_of(b1 - u, B1) * kernel(a1 - t, a2 - t, A1, A2)
    found *= kernel(b1 - u, b2 - u, B1, B2) if last_b == B2 else Fraction(b1 == b2)
    return found * (kernel(a2 - t, a3 - t, A2, A3) if last_a == A3 else Fraction(a2 == a3))


def worst(shift: tuple[int, int], kernel: Chain) -> Iterable[tuple[Fraction, Fraction]]:
    """Likelihood ratio of neighbours and what the final rates pay for, over a box of answers."""
    for answers in itertools.product(range(-2, 4), repeat=5):
        here = transcript(answers, (0, 0), kernel)
        if here:
            last_a, last_b = final_rates(answers[0], answers[1])
            paid = last_a ** -abs(shift[0]) * last_b ** -abs(shift[1])
            yield here / transcript(answers, shift, kernel), paid


@pytest.mark.slow
def test_a_transcript_of_interleaved_adaptive_refinements_costs_what_was_charged() -> None:
    """One record moves A and B by (1, 1), (1, 0), (1, -1), (0, 1) steps."""
    for shift in ((1, 1), (1, 0), (1, -1), (0, 1)):
        found = list(worst(shift, branch_kernel))
        assert all(1 / paid <= ratio <= paid for ratio, paid in found)
        assert any(ratio == paid for ratio, paid in found)


def test_fresh_noise_for_the_price_of_the_difference_would_be_caught() -> None:
    """Control: independent noise at each step costs the sum, and the bound above fails."""
    assert any(ratio > paid for ratio, paid in worst((1, 0), independent))


def test_two_refinements_of_one_answer_would_cost_more_than_their_charges() -> None:
    """Why only the live answer may be refined: branches from one old answer are no chain."""

    def branches(x: int, y: int, z: int) -> Fraction:
        return pmf_of(x, A1) * branch_kernel(x, y, A1, A2) * branch_kernel(x, z, A1, A3)

    ratios = [
        branches(x, y, z) / branches(x - 1, y - 1, z - 1)
        for x, y, z in itertools.product(range(-4, 6), repeat=3)
    ]
    # Charged: A1, then A2 / A1 and A3 / A1 as differences.
    assert max(ratios) > 1 / (A2 * A3 / A1)
