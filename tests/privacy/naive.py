"""A trusted side that takes its time from private data, to show what the slot hides.

`python -m tests.privacy.naive` is the worker's own loop with these parts in place of its own.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from qserver.config import Settings
from qserver.query.class_grid import ProductPartition
from qserver.query.linear_query import LinearQuery
from worker.main_loop import AttachedData
from worker.noise.randomness import Entropy, SystemEntropy
from worker.private.record_tables import Tables
from worker.private.registry import Registry
from worker.spending.loop import Loop

PER_RECORD_S = 5e-3
"""What a matching record costs; an observer of HTTP answers sees that much without a slot."""
PER_WORD_S = 500e-6
"""What a word of the noise costs. A new answer takes 3 to 30 of them, most often 3."""
Spend = Callable[[float], None]


class NaiveTables:
    """Counts by an index: only the records that match cost time."""

    def __init__(self, private: Tables, spend: Spend) -> None:
        self._private = private
        self._spend = spend

    def answer(self, query: LinearQuery) -> Fraction:
        truth = self._private.answer(query)
        self._spend(PER_RECORD_S * float(truth))
        return truth

    def counts(self, partition: ProductPartition) -> list[int]:
        truths = self._private.counts(partition)
        self._spend(PER_RECORD_S * sum(truths))
        return truths


class NaiveEntropy:
    """A slow source of words: the larger the noise, the more of them are read."""

    def __init__(self, source: Entropy, spend: Spend) -> None:
        self._source = source
        self._spend = spend

    def words(self, n: int) -> NDArray[np.uint64]:
        self._spend(n * PER_WORD_S)
        return self._source.words(n)


def busy(seconds: float) -> None:
    """Keep the processor for so long."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def main() -> None:
    """Work until stopped."""
    settings = Settings.from_environment()
    log = logging.getLogger("qserver.tests.naive")
    trusted = AttachedData(Registry(settings.state_dir), log=log).load().trusted
    tables: dict[str, Tables]
    tables = {snapshot: NaiveTables(t, busy) for snapshot, t in trusted.tables.items()}
    slow = replace(trusted, tables=tables, entropy=NaiveEntropy(SystemEntropy(), busy))
    Loop(settings=settings, trusted=slow, log=log).run()


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
