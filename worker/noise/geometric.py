"""Geometric numbers from exponential ones, exact: random words are compared, never rounded.

*The draw.* Draw U uniform on [0, 1), then V_1, V_2, ... likewise for as long as each is less than
the one before, U the first. If an even number of them fell, E = N + U, where N counts the earlier
tries; else try again. *Proof.* At least k fall with probability u^k / k! given U = u, so an even
number does with sum (-u)^k / k! = exp(-u). So a try fails with probability 1 / e, and
P(N = n, U <= x) = exp(-n) (1 - exp(-x)): E has the law P(E > t) = exp(-t).

*Digits.* A uniform number is an endless row of random words, of which the leading ones are read.
Two numbers are compared by the words read, and where these are equal a further word of each is
read. A word that was not read is independent of all that was decided. So every decision, and every
word read later, has the law that it had if all words were there from the beginning.

References:
    von Neumann (1951), "Various techniques used in connection with random digits"; Karney (2016),
    "Sampling exactly from the normal distribution", for the digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.noise import randomness
from worker.noise.randomness import Entropy

_Numbers = NDArray[Any]
"""Leading digits of numbers in [0, 1): words, or longer ints where a word did not tell them."""
_Ints = NDArray[np.int64]

RATE_BITS = 26
"""Bounds of rates are in units of 2^-26: one in millions does not tell."""

_MANY = 16
"""For fewer numbers a fraction each is quicker."""
_EXPONENTIAL_BITS = 58
_FAILED = 32
_HALF = (1 << 32) - 1


def geometrics(rates: Sequence[Fraction], entropy: Entropy) -> list[int]:
    """One integer n >= 0 for each rate, with probability (1 - exp(-rate)) exp(-rate n), exactly.

    It is the integer part of E / rate, which is n or more where E >= n rate.

    *Proof for the first words.* Let e 2^-58 <= E < (e + 1) 2^-58 and m 2^-k <= 1 / rate <
    (m + 1) 2^-k, with e and m below 2^64. Then 2^(k - 6) E / rate is e m / 2^64 or more, by less
    than 2; of e m / 2^64 three of the four products of its halves give all but less than 3. Where
    5 more make no other integer part, it is told. Elsewhere it is found with fractions.

    Args:
        rates: any rationals > 0; quickly, where many are the same object.
        entropy: source of the words, some 4.3 for each number.
    """
    drawn, n = _Exponentials.drawn(len(rates), entropy), len(rates)
    told, found = drawn.by_words(rates) if n >= _MANY else (np.zeros(n, np.bool_), [0] * n)
    for place in np.flatnonzero(~told).tolist():
        found[place] = drawn.quotient(place, rates[place])
    return found


def _reciprocal(rate: Fraction) -> tuple[int, int]:
    """The m of `geometrics`, and k - 6; both are 0, which tells nothing, for a tiny rate."""
    # A number of few failed tries is less than 64, so a larger rate has the quotient 0 as 64 has.
    p, q = min(rate, Fraction(64)).as_integer_ratio()
    k = 63 + p.bit_length() - q.bit_length()
    return ((q << k) // p, k - 6) if k >= 6 else (0, 0)


def outlast(
    least: _Ints, most: _Ints, rate: Callable[[int], Fraction], entropy: Entropy
) -> list[bool]:
    """Of each rate whether E is as large or larger: true with probability exp(-rate), exactly.

    Args:
        least: lower bounds of the rates, in units of 2^-26.
        most: upper bounds.
        rate: gives the rational rate >= 0 of a place, where its bounds do not tell.
        entropy: source of the words, as for `geometrics`.
    """
    drawn = _Exponentials.drawn(len(least), entropy)
    e = drawn.units(RATE_BITS).astype(np.int64)
    found = e >= most
    for place in np.flatnonzero(~found & (e + 1 > least)).tolist():
        exact = rate(place)
        found[place] = not exact or drawn.quotient(place, exact) > 0
    kept: list[bool] = found.tolist()
    return kept


@dataclass(frozen=True, repr=False)
class _Exponentials:
    """Numbers E, by the words read of the uniform number in each and by its failed tries."""

    entropy: Entropy
    digits: _Numbers
    n_bits: _Ints
    n_failed: _Ints

    @classmethod
    def drawn(cls, n: int, entropy: Entropy) -> _Exponentials:
        tries, digits = _Tries.begun(n, entropy), np.zeros(n, np.uint64)
        n_bits, n_failed = np.zeros(n, np.int64), np.zeros(n, np.int64)
        while tries.places.size:
            tries.fall()
            if tries.has_ended.any():
                digits = digits if tries.n_words == 1 else digits.astype(object)
                places, read, failed = tries.ended()
                digits[places], n_failed[places] = read, failed
                n_bits[places] = tries.n_words * randomness.WORD_BITS
        return cls(entropy, digits, n_bits, n_failed)

    def units(self, n_bits: int) -> NDArray[np.uint64]:
        """E in units of 2^-n_bits, rounded down, where it is less than 2^(64 - n_bits)."""
        words = self.digits >> (self.n_bits - randomness.WORD_BITS).astype(self.digits.dtype)
        digits = words.astype(np.uint64) >> randomness.WORD_BITS - n_bits
        found: NDArray[np.uint64] = (self.n_failed.astype(np.uint64) << n_bits) + digits
        return found

    def by_words(self, rates: Sequence[Fraction]) -> tuple[NDArray[np.bool_], list[int]]:
        """Whether the first words tell the integer part of each E / rate, and this part."""
        distinct = {id(rate): rate for rate in rates}
        number = {key: i for i, key in enumerate(distinct)}
        which = np.fromiter(map(number.__getitem__, map(id, rates)), np.int64, len(rates))
        m, shifts = np.array([_reciprocal(r) for r in distinct.values()], np.uint64).T[:, which]
        e = self.units(_EXPONENTIAL_BITS)
        high, low, m_high, m_low = e >> 32, e & _HALF, m >> 32, m & _HALF
        least = high * m_high + (high * m_low >> 32) + (low * m_high >> 32)
        found: list[int] = (least >> shifts).tolist()
        return (least >> shifts == least + 5 >> shifts) & (self.n_failed < _FAILED), found

    def quotient(self, place: int, rate: Fraction) -> int:
        """The integer part of E / rate."""
        n_bits = int(self.n_bits[place])
        digits = int(self.n_failed[place]) << n_bits | int(self.digits[place])
        return _quotient(digits, n_bits, rate, self.entropy)


def _quotient(digits: int, n_bits: int, rate: Fraction, entropy: Entropy) -> int:
    """The integer part of E / rate, where 2^n_bits E lies between `digits` and the next integer."""
    p, q = rate.numerator << n_bits, rate.denominator
    while True:
        least, rest = divmod(digits * q, p)
        # E is less than its next digits, so its quotient is less than theirs.
        if rest + q <= p:
            return least
        digits = digits << randomness.WORD_BITS | int(entropy.words(1)[0])
        p <<= randomness.WORD_BITS


@dataclass(repr=False)
class _Tries:
    """The tries under way, each with its first number, the last that fell, and its place.

    Args:
        fell: how many fell after the first, each less than the one before.
        has_ended: of each try, whether the last number drawn did not fall.
        n_words: words read of each number.
    """

    entropy: Entropy
    places: NDArray[np.int64]
    first: _Numbers
    last: _Numbers
    fell: NDArray[np.int64]
    n_failed: NDArray[np.int64]
    has_ended: NDArray[np.bool_]
    n_words: int = 1

    @classmethod
    def begun(cls, n: int, entropy: Entropy) -> _Tries:
        first, zeros = entropy.words(n), np.zeros(n, np.int64)
        return cls(entropy, np.arange(n), first, first, zeros, zeros, np.zeros(n, np.bool_))

    def fall(self) -> None:
        """Draw one more number for each try, and restart failed ones."""
        drawn = self._read(self.places.size)
        while (drawn == self.last).any():
            drawn = self._longer(drawn)
            first, last = self._longer(self.first), self._longer(self.last)
            # Where none fell yet, the last number is the first.
            self.first, self.last = first, np.where(self.fell == 0, first, last)
            self.n_words += 1
        falls = (drawn < self.last).astype(np.bool_)
        failed = ~falls & (self.fell % 2 == 1)
        self.has_ended = ~(falls | failed)
        again = self._read(int(np.count_nonzero(failed)))
        self.first, self.last = self.first.copy(), np.where(falls, drawn, self.last)
        self.first[failed], self.last[failed] = again, again
        self.fell = np.where(failed, 0, self.fell + falls)
        self.n_failed = self.n_failed + failed

    def ended(self) -> tuple[_Ints, _Numbers, _Ints]:
        """Places, digits and failed tries of the successes; these are taken out."""
        here, left = self.has_ended, ~self.has_ended
        found = self.places[here], self.first[here], self.n_failed[here]
        self.places, self.first, self.last = self.places[left], self.first[left], self.last[left]
        self.fell, self.n_failed = self.fell[left], self.n_failed[left]
        return found

    def _read(self, n: int) -> _Numbers:
        """`n` new numbers of as many words as the others."""
        found: _Numbers = self.entropy.words(n)
        for _ in range(1, self.n_words):
            found = self._longer(found)
        return found

    def _longer(self, numbers: _Numbers) -> _Numbers:
        """The numbers with a further word each."""
        words = self.entropy.words(numbers.size).astype(object)
        longer: _Numbers = (numbers.astype(object) << randomness.WORD_BITS) | words
        return longer
