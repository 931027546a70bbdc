"""The secret sample of the records: who is in it, and how often."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from qserver.answering.models.kinds.kind import SAMPLING_RATE
from tests.statistical.test_noise import SeededEntropy
from worker.private.record_tables import table_from_columns

N_RECORDS = 200_000


def test_each_record_is_in_the_sample_with_a_tenth_by_itself() -> None:
    """All, one half, and how many of four, within 6.2 standard deviations: 1e-9 each to miss."""
    place = np.arange(N_RECORDS) % 50_000
    table = table_from_columns({0: place}, [50_000])
    sample = table.sample(SeededEntropy(1))
    found = np.bincount(sample.codes[0], minlength=50_000)
    assert found.max() <= 4
    expected, spread = N_RECORDS / 10, np.sqrt(N_RECORDS * 0.09)
    assert abs(found.sum() - expected) < 6.2 * spread
    half = found[:25_000].sum()
    assert abs(half - expected / 2) < 6.2 * np.sqrt(N_RECORDS / 2 * 0.09)
    # Four records share each value: how many of them are in is binomial.
    law = [0.6561, 0.2916, 0.0486, 0.0036, 0.0001]
    for n, share in enumerate(law):
        deviation = np.sqrt(50_000 * share * (1 - share))
        assert abs((found == n).sum() - 50_000 * share) < 6.2 * deviation


@given(st.integers(min_value=0, max_value=70_000), st.integers(min_value=0, max_value=2**32))
def test_a_sample_is_some_of_the_records_in_their_order(n: int, seed: int) -> None:
    values = np.arange(n) % 251
    sample = table_from_columns({0: values, 1: values % 7}, [251, 7]).sample(SeededEntropy(seed))
    assert (sample.codes[0] % 7 == sample.codes[1]).all()
    assert len(sample.codes[0]) <= n
    assert sample.sizes == (251, 7)


class _Coin:
    """A source that gives one fixed word."""

    def __init__(self, value: int) -> None:
        self.value = value

    def words(self, n: int) -> NDArray[np.uint64]:
        return np.full(n, self.value, dtype=np.uint64)


def test_a_coin_falls_on_a_tenth_at_most() -> None:
    """The probability is floor(2^64 / 10) / 2^64: the charge is computed for a tenth."""
    table = table_from_columns({0: np.zeros(1, dtype=int)}, [1])
    last = 2**64 // 10 - 1
    assert Fraction(last + 1, 2**64) <= SAMPLING_RATE
    assert len(table.sample(_Coin(last)).codes[0]) == 1
    assert len(table.sample(_Coin(last + 1)).codes[0]) == 0
