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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.noise import randomness
from worker.noise.randomness import Entropy

_Numbers = NDArray[Any]
"""Leading digits of numbers in [0, 1): words, or longer ints where a word did not tell them."""


def geometrics(rates: Sequence[Fraction], entropy: Entropy) -> list[int]:
    """One integer n >= 0 for each rate, with probability (1 - exp(-rate)) exp(-rate n), exactly.

    It is the integer part of E / rate, which is n or more where E >= n rate.

    Args:
        rates: any rationals > 0.
        entropy: source of the words, some 4.3 for each number.
    """
    tries, found = _Tries.begun(len(rates), entropy), [0] * len(rates)
    while tries.places.size:
        tries.fall()
        n_bits = tries.n_words * randomness.WORD_BITS
        for place, digits, n_failed in tries.ended():
            found[place] = _quotient(n_failed << n_bits | digits, n_bits, rates[place], entropy)
    return found


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

    def ended(self) -> Iterator[tuple[int, int, int]]:
        """Place, digits and number of failed tries of each success; these are taken out."""
        here, left = self.has_ended, ~self.has_ended
        found = [a[here].tolist() for a in (self.places, self.first, self.n_failed)]
        self.places, self.first, self.last = self.places[left], self.first[left], self.last[left]
        self.fell, self.n_failed = self.fell[left], self.n_failed[left]
        return zip(*found, strict=True)

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
