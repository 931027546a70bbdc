"""Measured tables of a small domain with phantoms, for tests."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product

import numpy as np

from qserver.inference.tables.blocks.pattern import BlockKey, Lattice
from qserver.inference.tables.measured_tables import MeasuredTables
from qserver.query.linear_query import LinearQuery
from qserver.query.primitive import Primitive, primitive
from qserver.records.history import Measurement, TableMeasurement
from tests.inference.histories import STEP
from tests.inference.tables.blocks.test_blocks import dense

SIZES = (13, 4)
CELLS = list(product(*map(range, SIZES)))
# 13 values stand on levels of 1, 4 and 16 parts, three of them phantoms.
BLOCKS: list[BlockKey] = [
    tuple((a, i) for a, i in enumerate(p) if i) for p in product(range(3), range(2))
]


def tables_of(*, lattice: Lattice | None = None) -> MeasuredTables:
    return MeasuredTables(SIZES, lattice=lattice)


def table(
    tables: MeasuredTables,
    number: int,
    block: BlockKey,
    alpha_nano: int,
    *,
    counts: np.ndarray | None = None,
    step: Fraction = STEP,
    noise: random.Random | None = None,
) -> TableMeasurement:
    """A table of a block: true counts of the cells, and noise of some steps where asked for."""
    partition = tables.partition_of(block)
    indices = []
    for i in range(partition.n_cells):
        true = 0 if counts is None else int(dense(partition.row(i)) @ counts)
        off = noise.randrange(-(1 << 24), 1 << 24) if noise else 0
        indices.append(int(true / step) + off)
    return TableMeasurement(number, partition, alpha_nano, step, tuple(indices))


def own_row(number: int, query: LinearQuery, alpha_nano: int, *, value: int = 0) -> Measurement:
    row = primitive(query)
    return Measurement(number, row.row, row.key, alpha_nano, STEP, int(value / STEP))


def random_counts(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1000, len(CELLS)).astype(float)


def asked(query: LinearQuery) -> Primitive:
    return primitive(query)
