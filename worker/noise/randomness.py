"""The only entropy source of the project: the operating system, read for each draw.

Nothing is kept between two draws. A fork would copy a buffer, and two worker processes would then
draw the same noise. The difference of their answers would be the difference of the truths.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from qserver.errors import MeasurementError, RequirementError

WORD_BITS = 64


class Entropy(Protocol):
    """A source of random words; tests use seeded and enumerated sources."""

    def words(self, n: int) -> NDArray[np.uint64]:
        """`n` independent integers, each uniform on 0, 1, ..., 2^64 - 1."""
        ...


class SystemEntropy:
    """Words from the operating system's generator, unbuffered.

    Args:
        read: returns n random bytes; replaced only in tests.
    """

    def __init__(self, read: Callable[[int], bytes] = os.urandom) -> None:
        self._read = read

    def words(self, n: int) -> NDArray[np.uint64]:
        """`n` independent integers, each uniform on 0, 1, ..., 2^64 - 1: eight bytes each.

        Args:
            n: number of words, an int >= 0.

        Raises:
            MeasurementError: `n` is no such int; the condition is the error's cause.
        """
        if type(n) is not int or n < 0:
            raise MeasurementError from RequirementError("n", "be an int >= 0")
        return np.frombuffer(self._read(8 * n), dtype="<u8")
