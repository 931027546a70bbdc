"""No value of the data makes a measurement fail: neither by itself nor by the memory that it takes.

What is held to public bounds here: the memory of a scan and the words of a new draw. That the
machine has the memory is assumed of its owner (docs/guarantee.md, 9).
"""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from qserver.query.class_grid import product_partition
from qserver.query.linear_query import linear_query
from qserver.query.weights import interval
from tests.query.dense_weights import scaled_weights
from worker.constants import WORKER
from worker.noise.mechanism import release
from worker.private.record_tables import RecordTable, table_from_columns

pytestmark = [
    pytest.mark.promise(
        "Time",
        "no value and no number of records makes a count fail or take more memory; a new draw "
        "asks for the same words whatever the count",
    ),
]

SIZES = (12, 300, 5)
CHUNK = WORKER.scan_chunk
PER_NUMBER = 32
"""Bytes of a Python int beyond the cached small ones: a count may be either."""
SLACK = 4096
"""Bytes by which two runs of one scan may differ: fractions, iterators, names."""
N_CELLS = 12 * 5

Data = Callable[[int], RecordTable]


def one_cell(n: int) -> RecordTable:
    return table_from_columns({i: np.full(n, s - 1) for i, s in enumerate(SIZES)}, SIZES)


def first_cell(n: int) -> RecordTable:
    return table_from_columns({i: np.zeros(n, dtype=int) for i in range(3)}, SIZES)


def spread(n: int) -> RecordTable:
    rng = np.random.default_rng(n)
    return table_from_columns({i: rng.integers(0, s, n) for i, s in enumerate(SIZES)}, SIZES)


def peak(table: RecordTable, scan: Callable[[RecordTable], object]) -> int:
    """The most bytes that a scan has at once: the middle of three, as other threads have some."""
    scan(table)  # so that caches of public things are filled
    return sorted(_peak_once(table, scan) for _ in range(3))[1]


def _peak_once(table: RecordTable, scan: Callable[[RecordTable], object]) -> int:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        scan(table)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


GRID = linear_query(SIZES, [(1, {0: interval(12, 1, 7), 1: interval(300, 40, 90)})])
LONG = linear_query(
    SIZES,
    [
        (
            Fraction(1, 3),
            {0: scaled_weights(list(range(12))), 1: scaled_weights(list(range(-150, 150)))},
        )
    ],
)
"""Weights of its own for every value: its class grid is the domain."""
TABLE = product_partition(SIZES, {0: list(range(12)), 2: list(range(5))})
SCANS: dict[str, Callable[[RecordTable], object]] = {
    "grid": lambda table: table.answer(GRID),
    "long": lambda table: table.answer(LONG),
    "records": lambda table: [table._by_records(term) for term in LONG.terms],
    "table": lambda table: table.counts(TABLE),
}


@pytest.mark.parametrize("scan", SCANS)
def test_a_scan_takes_as_much_memory_whatever_the_values_and_however_many_records(
    scan: str,
) -> None:
    """The most bytes at once are those of a chunk and of the plan's cells, two public numbers."""
    n_bytes = [
        peak(data(n_chunks * CHUNK), SCANS[scan])
        for data in (one_cell, first_cell, spread)
        for n_chunks in (1, 4)
    ]
    assert max(n_bytes) - min(n_bytes) <= PER_NUMBER * N_CELLS + SLACK
    assert min(n_bytes) > CHUNK  # so a second chunk in memory would show


@pytest.mark.parametrize("data", [one_cell, first_cell, spread])
@pytest.mark.parametrize("n", [0, 1, CHUNK + 1])
def test_no_values_and_no_number_of_records_make_a_count_fail(data: Data, n: int) -> None:
    table = data(n)
    assert sum(table.counts(TABLE)) == n
    assert table.answer(LONG) == sum(map(table._by_records, LONG.terms))


class CountingEntropy:
    """Seeded, and counts the words that are asked for."""

    def __init__(self, seed: int) -> None:
        self._random, self.n_asked = random.Random(seed), 0

    def words(self, n: int) -> NDArray[np.uint64]:
        self.n_asked += n
        return np.frombuffer(self._random.randbytes(8 * n), dtype="<u8")


@pytest.mark.parametrize("alpha_nano", [1000, 10**8])
def test_a_new_draw_asks_for_the_same_words_whatever_the_count(alpha_nano: int) -> None:
    """So neither its work nor its end depends on the truth."""
    for seed in range(50):
        asked, noises = set(), set()
        for truth in (0, 1, 10**6, -7, 2**80):
            entropy = CountingEntropy(seed)
            (index,) = release([truth], step=1, alpha_nano=alpha_nano, entropy=entropy)
            asked.add(entropy.n_asked)
            noises.add(index - truth)
        assert (len(asked), len(noises)) == (1, 1)
