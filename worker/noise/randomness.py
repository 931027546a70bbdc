"""The only entropy source of the project: the operating system, read for each draw.

Nothing is kept between two draws. A fork would copy a buffer, and two worker processes would then
draw the same noise. The difference of their answers would be the difference of the truths.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction
from typing import Protocol

from qserver.errors import MeasurementError, RequirementError


class Entropy(Protocol):
    """A source of exact random numbers; tests use seeded and enumerated sources."""

    def uniform_below(self, n: int) -> int:
        """An integer uniform on 0, 1, ..., n - 1; `n` is at least 1."""
        ...

    def bernoulli(self, p: Fraction) -> bool:
        """True with probability exactly `p`, a rational in [0, 1]."""
        ...


class SystemEntropy:
    """Exact uniform draws from the operating system's generator, unbuffered.

    Args:
        read: returns n random bytes; replaced only in tests of this class.
    """

    def __init__(self, read: Callable[[int], bytes] = os.urandom) -> None:
        self._read = read

    def uniform_below(self, n: int) -> int:
        """An integer uniform on 0, 1, ..., n - 1, by rejection, so without any bias.

        Args:
            n: number of values, an int >= 1 of any size.

        Raises:
            MeasurementError: `n` is no such int; the condition is the error's cause.
        """
        if type(n) is not int or n < 1:
            raise MeasurementError from RequirementError("n", "be an int >= 1")
        n_bits = (n - 1).bit_length()
        n_bytes = (n_bits + 7) // 8
        surplus = 8 * n_bytes - n_bits
        while True:
            drawn = int.from_bytes(self._read(n_bytes), "big") >> surplus
            if drawn < n:
                return drawn

    def bernoulli(self, p: Fraction) -> bool:
        """True with probability exactly `p`.

        Args:
            p: a Fraction in [0, 1].

        Raises:
            MeasurementError: `p` is no such Fraction; the condition is the error's cause.
        """
        if not isinstance(p, Fraction) or not 0 <= p.numerator <= p.denominator:
            raise MeasurementError from RequirementError("p", "be a Fraction in [0, 1]")
        return self.uniform_below(p.denominator) < p.numerator
