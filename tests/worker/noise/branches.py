"""Exact laws of samplers: each branch of what they draw is walked, or given words are drawn."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import mpmath
import numpy as np
from numpy.typing import NDArray

from worker.noise import randomness


class BranchEntropy:
    """Follows a given path of outcomes, then always the likeliest one, and notes the others."""

    def __init__(self, path: tuple[int, ...]) -> None:
        self._path = path
        self._taken: list[int] = []
        self.weight = 1.0
        self.untaken: list[tuple[float, tuple[int, ...]]] = []

    def branch(self, shares: Sequence[float]) -> int:
        """One of several outcomes of these probabilities (what they leave out is not walked)."""
        place = len(self._taken)
        if place < len(self._path):
            chosen = self._path[place]
        else:
            chosen = max(range(len(shares)), key=shares.__getitem__)
            for other, share in enumerate(shares):
                if other != chosen and share:
                    self.untaken.append((-self.weight * share, (*self._taken, other)))
        self._taken.append(chosen)
        self.weight *= shares[chosen]
        return chosen

    def words(self, n: int) -> NDArray[np.uint64]:
        """Words of as many bits as the module says at the moment."""
        size = 1 << randomness.WORD_BITS
        return np.array([self.branch([1 / size] * size) for _ in range(n)], dtype=np.uint64)


class Script:
    """Given words, in their order."""

    def __init__(self, words: Iterator[int]) -> None:
        self._words = words

    def words(self, n: int) -> NDArray[np.uint64]:
        return np.array([next(self._words) for _ in range(n)], dtype=np.uint64)


ROUNDING = 1e-12
"""More than the error of adding and multiplying the doubles that weigh the branches."""


def assert_law(
    sampler: Callable[[BranchEntropy], int], pmf: Callable[[int], mpmath.mpf], *, within: float
) -> None:
    """Walk the heaviest branches of `sampler` until less than `within` is left.

    Each probability then lies between what was found and that plus what is left.
    """
    found: defaultdict[int, float] = defaultdict(float)
    waiting: list[tuple[float, tuple[int, ...]]] = [(-1.0, ())]
    missing = 1.0
    while missing > within:
        _, path = heapq.heappop(waiting)
        entropy = BranchEntropy(path)
        found[sampler(entropy)] += entropy.weight
        missing -= entropy.weight
        for branch in entropy.untaken:
            heapq.heappush(waiting, branch)
    for outcome, weight in found.items():
        assert weight - ROUNDING <= pmf(outcome) <= weight + missing + ROUNDING


def real(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator
