"""Geometric numbers by words: every step of the code itself on all short words, and given ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from tests.statistical.test_noise import FALSE_ALARM, SeededEntropy
from tests.worker.noise.branches import Script
from worker.noise.geometric import _Exponentials, _Tries, geometrics, outlast
from worker.noise.randomness import SystemEntropy

pytestmark = pytest.mark.promise(
    "Privacy",
    "the sampler has its exact law, and refining keeps it; 10 percent either way is caught",
)

TOP = 2**64 - 1
N_WORDS = 256


def all_steps() -> tuple[_Tries, NDArray[np.uint64]]:
    """Every step of a try on words below `N_WORDS` that is no tie: the tries, and what they draw.

    Tries of which none, one or two numbers fell; what counts of more is whether they are even.
    """
    every = np.arange(N_WORDS, dtype=np.uint64)
    fell, last, drawn = (a.ravel() for a in np.meshgrid(np.arange(3), every, every, indexing="ij"))
    kept = last != drawn
    fell, last, drawn = fell[kept], last[kept], drawn[kept]
    first = np.where(fell == 0, last, np.uint64(N_WORDS))
    zeros, n = np.zeros(len(fell), np.int64), len(fell)
    script = Script(iter([*drawn.tolist(), *range(1000, 1000 + n)]))
    tries = _Tries(script, np.arange(n), first, last, fell, zeros, np.zeros(n, np.bool_))
    return tries, drawn


def test_a_try_succeeds_with_probability_exp_minus_its_number() -> None:
    """The code's own verdict on every step, summed up over all ways that a try can go.

    What is left out are ties: the true probability lies between the sum and the sum with them.
    """
    tries, drawn = all_steps()
    fell, last = tries.fell, tries.last
    tries.fall()
    shape = 3, N_WORDS
    succeeds, ties = np.zeros(shape), np.zeros(shape)
    goes_on = ~tries.has_ended & (tries.n_failed == 0)
    for word in range(N_WORDS):
        for kind in range(3):
            here = (fell == kind) & (last == word)
            then = goes_on & here
            next_kind = 2 - tries.fell[then] % 2
            at = next_kind, drawn[then].astype(int)
            assert (tries.fell[then] == kind + 1).all()
            assert (tries.last[then] == drawn[then]).all()
            succeeds[kind, word] = (tries.has_ended[here].sum() + succeeds[at].sum()) / N_WORDS
            ties[kind, word] = (1 + ties[at].sum()) / N_WORDS
    ends = np.exp(-np.arange(N_WORDS + 1) / N_WORDS)
    right = (ends[:-1] - ends[1:]) * N_WORDS  # the mean of exp(-u) over the numbers with that word
    assert (succeeds[0] <= right + 1e-12).all()
    assert (right <= succeeds[0] + ties[0] + 1e-12).all()
    assert ties[0].max() < 0.011


def test_a_failed_try_begins_anew_with_a_fresh_number() -> None:
    tries, drawn = all_steps()
    fell, last = tries.fell, tries.last
    tries.fall()
    failed = tries.n_failed == 1
    assert (failed == ((fell % 2 == 1) & (drawn > last))).all()
    assert (tries.has_ended == ((fell % 2 == 0) & (drawn > last))).all()
    assert (tries.fell[failed] == 0).all()
    assert tries.first[failed].tolist() == [1000 + i for i in range(int(failed.sum()))]
    assert (tries.last[failed] == tries.first[failed]).all()


def first_digits(*words: int, after: int = 0) -> int:
    """E in units of 2^-64, rounded down, from these words and then `after` for ever."""

    def endless() -> Iterator[int]:
        yield from words
        while True:
            yield after

    (found,) = geometrics([Fraction(1, 2**64)], Script(endless()))
    return found


def test_words_that_differ_in_their_last_bit_are_told_apart() -> None:
    """2^63 + 1 is above 2^63, which no float tells: one fell, then none, so the try failed."""
    high = 2**63
    assert first_digits(high, high + 1) == high
    assert first_digits(high + 1, high, high + 1, 5, 6) == 2**64 + 5


def test_a_tie_is_decided_by_the_words_that_follow() -> None:
    """U = V to 40 words; then U's is 9, and V's 10: none fell, and E is U."""
    words = [7, 7, *[3] * 39 * 3, 10, 9, 0]
    # Of each word of a tie that of the number drawn comes first, then U's, then the spare one.
    assert first_digits(*words) == 7
    # V's word is 8: it fell, and the next number, of 41 words, does not: the try failed.
    fell = [7, 7, *[3] * 39 * 3, 8, 9, 0, *[TOP] * 41]
    assert first_digits(*fell, *[5] * 41, *[6] * 41) == 2**64 + 5


def test_a_thousand_failed_tries_are_counted() -> None:
    """It happens once in e^1000: each failed try adds 1 to E."""
    assert first_digits(*[5, 3, 4] * 1000, 8, 9) == 1000 * 2**64 + 8


def test_a_run_of_two_thousand_falls_ends() -> None:
    down = range(4_000, 2_000, -1)
    assert first_digits(*down, TOP, 8, 9) == 2**64 + 8
    assert first_digits(4_001, *down, TOP) == 4_001


def test_a_quotient_that_the_words_do_not_tell_reads_further_ones() -> None:
    """E / rate with a rate of 2^-192 has three words of digits; the second and third are read."""
    script = Script(iter([5, 9, 21, 22]))
    assert geometrics([Fraction(1, 2**192)], script) == [5 << 128 | 21 << 64 | 22]


def test_a_tie_of_one_number_makes_all_longer_and_changes_no_other() -> None:
    """The first two tie to one word; the other two of them, and all further words, are as given."""
    script = Script(iter([7, 5, 7, 9, 8, 20, 6, 21, 0, 0]))
    # Words of U, of V, then further ones of V, of U and of the last number, which is U's here.
    assert geometrics([Fraction(1, 2**128)] * 2, script) == [7 << 64 | 6, 5 << 64 | 21]


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(7, 5), Fraction(10**9, 3**60), 2])
def test_a_quotient_is_that_of_the_endless_digits(rate: Fraction | int) -> None:
    """By the fraction of as many words as could ever be needed; here E is below 1."""
    exact = Fraction(rate)
    for seed in range(200):
        words = [random.Random(seed).getrandbits(64) for _ in range(8)]
        (found,) = geometrics([exact], Script(iter([words[0], TOP, *words[1:]])))
        number = sum(Fraction(word, 2 ** (64 * (i + 1))) for i, word in enumerate(words))
        assert found == number // exact


@pytest.mark.parametrize("n_words", [0, 2, 3])
def test_a_quotient_next_to_a_whole_number_reads_on_until_it_is_told(n_words: int) -> None:
    """E is 1/2 but for its last word, and 1/2 over 1/6 is 3: just below it is 2."""
    below = [2**63 - 1, TOP, *[TOP] * n_words, 5]
    (found,) = geometrics([Fraction(1, 6)], Script(iter([below[0], TOP, *below[1:]])))
    assert found == 2
    above = [2**63, TOP]
    assert geometrics([Fraction(1, 6)], Script(iter(above))) == [3]


def given(words: list[int], n_failed: list[int]) -> _Exponentials:
    n_bits = np.full(len(words), 64)
    digits, failed = np.array(words, np.uint64), np.array(n_failed)
    return _Exponentials(SystemEntropy(), digits, n_bits, failed)


@pytest.mark.parametrize(
    "rate",
    [
        *(Fraction(1, 3), Fraction(7, 5), Fraction(63, 2), Fraction(1, 2**57)),
        *(Fraction(1, 999_983), Fraction(10**6, 2_718_281), Fraction(31, 2**40 + 7)),
    ],
)
def test_what_the_first_words_tell_is_true_however_they_go_on(rate: Fraction) -> None:
    """Words at each side of a multiple of the rate, after few and after many failed tries."""
    draw, words, failed = random.Random(1), list[int](), list[int]()
    for n_failed in (0, 1, 31, 32, 63, 64, 5000):
        for _ in range(40):
            multiple = (n_failed + Fraction(draw.getrandbits(64), 2**64)) // rate * rate
            edge = int((multiple - n_failed) * 2**64)
            off = [side * d << b for side in (-1, 1) for d in (0, 1, 3) for b in (0, 5, 7)]
            words += [edge + d for d in off if 0 <= edge + d <= TOP]
            failed += [n_failed] * (len(words) - len(failed))
    told, found = given(words, failed).by_words([rate] * len(words))
    sure = 0
    for word, n_failed, is_told, n in zip(words, failed, told.tolist(), found, strict=True):
        least = (n_failed + Fraction(word, 2**64)) // rate
        beyond = -(-(n_failed + Fraction(word + 1, 2**64)) // rate)
        sure += is_told
        assert not is_told or least == n == beyond - 1
    assert sure < len(words)


def test_what_three_products_lose_is_allowed_for() -> None:
    """Rounded down, the products of this word give one less than its integer part."""
    rate, word = Fraction(1, 17_441_859_952_462_649), 5_193_720_087_759_377_279
    told, found = given([word], [0]).by_words([rate])
    assert found == [Fraction(word, 2**64) // rate - 1]
    assert not told.any()


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(7, 5), Fraction(1, 10**6), Fraction(99)])
def test_the_first_words_tell_nearly_all(rate: Fraction) -> None:
    """At random words, after as many failed tries as are met."""
    draw = random.Random(2)
    words = [draw.getrandbits(64) for _ in range(2000)]
    told, _ = given(words, [draw.randrange(20) for _ in words]).by_words([rate] * len(words))
    assert told.all()


@pytest.mark.parametrize("is_tied", [False, True])
def test_many_are_found_as_few_are(is_tied: bool) -> None:
    """The same words; the last rate is so small that it takes further ones, as does a tie."""
    rates = [*[Fraction(1, 3 * 10**9), Fraction(7, 5)] * 10, Fraction(1, 2**70)]
    draw, n = random.Random(3), len(rates)
    words = [draw.getrandbits(63) for _ in rates]
    ended = [*[TOP] * n, 5]
    if is_tied:
        ended = [*[TOP] * (n - 1), words[-1], *[TOP] * n, *[5] * n, *[0] * n]
    together = geometrics(rates, Script(iter([*words, *ended])))
    pairs = zip(rates, words, strict=True)
    assert together == [geometrics([r], Script(iter([word, TOP, 5])))[0] for r, word in pairs]


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(1, 2**64), Fraction(2, 2**64)])
def test_a_rate_that_its_bounds_do_not_tell_is_compared_exactly(rate: Fraction) -> None:
    """E is a little more than 2^-64."""
    script, below = Script(iter([1, TOP, 5])), Fraction(2, 2**64)
    assert outlast(np.array([0]), np.array([1]), lambda _: rate, script) == [rate < below]


def test_bounds_that_tell_need_no_rate() -> None:
    """E is 1/2, in units of 2^-26."""
    half, nothing = 1 << 25, dict[int, Fraction]()
    least, most = np.array([0, half + 1]), np.array([half, half + 2])
    script = Script(iter([2**63] * 2 + [TOP] * 2))
    assert outlast(least, most, nothing.__getitem__, script) == [True, False]


def test_numbers_that_are_drawn_together_are_independent() -> None:
    """Rank correlation of each with the next one; the control has each depend on the last."""
    found = geometrics([Fraction(1, 10**6)] * 20_000, SeededEntropy())
    assert stats.spearmanr(found[1:], found[:-1]).pvalue > FALSE_ALARM
    smooth = [a + b for a, b in zip(found[1:], found[:-1], strict=True)]
    assert stats.spearmanr(smooth[1:], smooth[:-1]).pvalue < FALSE_ALARM


def test_no_numbers_need_no_words() -> None:
    assert geometrics([], Script(iter([]))) == []


def test_numbers_are_ints_and_of_any_size() -> None:
    found = geometrics([Fraction(1, 10**40), Fraction(10**40), Fraction(1)], SystemEntropy())
    assert [type(n) for n in found] == [int] * 3
    assert found[0] > 10**30
    assert found[1] == 0
