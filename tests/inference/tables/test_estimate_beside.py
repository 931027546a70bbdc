"""Rows with weights and tables for what they leave: against dense algebra, and independence."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose

from qserver.inference.engine import InferenceEngine
from qserver.inference.tables.blocks.pattern import BlockKey
from qserver.inference.tables.measured_tables import MeasuredTables
from qserver.inference.tables.weights import WeightedRow
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import interval
from qserver.records.history import AnyMeasurement, Estimator, Measurement, TableMeasurement
from tests.inference.histories import NANO, STEP
from tests.inference.tables.blocks.test_blocks import dense
from tests.inference.tables.table_cases import (
    CELLS,
    SIZES,
    asked,
    own_row,
    random_counts,
    table,
    tables_of,
)

COARSE: list[BlockKey] = [((0, 1),), ((0, 1), (1, 1))]
QUERY = linear_query(SIZES, [(1, {0: interval(13, 2, 9)})])


def coarse_of(tables: MeasuredTables) -> LinearQuery:
    """Two parts of level 1, of which the query covers most."""
    chain = tables.lattice.chains[0]
    cuts = [i for i in range(13) if i == 0 or chain.part_of(1)[i] != chain.part_of(1)[i - 1]]
    return linear_query(SIZES, [(1, {0: interval(13, cuts[0], cuts[2])})])


def rest_row(number: int, tables: MeasuredTables, alpha_nano: int, value: int = 0) -> WeightedRow:
    rest = primitive(QUERY - coarse_of(tables))
    return WeightedRow(own_row(number, rest.row, alpha_nano, value=value), float(rest.multiplier))


def dense_answer(query: LinearQuery, measured: list[TableMeasurement]) -> tuple[float, float]:
    """Value and variance of least variance on the cells of tables, by dense least squares."""
    rows = np.array([dense(t.partition.row(i)) for t in measured for i in range(len(t.indices))])
    values = np.concatenate([t.values.ravel() for t in measured])
    weights = np.concatenate(
        [np.full(len(t.indices), (t.alpha_nano / NANO) ** 2 / 2.0) for t in measured]
    )
    inverse = np.linalg.pinv(rows.T @ (weights[:, None] * rows), rcond=1e-10)
    target = dense(query)
    return float(target @ inverse @ rows.T @ (weights * values)), float(target @ inverse @ target)


@pytest.mark.parametrize("seed", range(4))
def test_value_and_variance_are_those_of_dense_algebra(seed: int) -> None:
    counts, noise = random_counts(seed), random.Random(seed)
    tables = tables_of()
    measured = [
        table(tables, i, block, (i + 1) * NANO, counts=counts, noise=noise)
        for i, block in enumerate(COARSE)
    ]
    tables.extend(measured)
    row = rest_row(2, tables, 3 * NANO, value=17)
    tables.extend([row.row])
    found = tables.estimate_with_rows(asked(QUERY), [row], confidence=0.95)
    assert found is not None
    value, variance = dense_answer(coarse_of(tables), measured)
    assert_allclose(found.posterior.estimate, value + row.weight * 17, rtol=1e-9)
    assert_allclose(2.0 * np.sum(np.square(found.posterior.scales)), variance + 2.0 / 9, rtol=1e-9)
    assert found.weights == ((2, row.weight),)
    assert found.tables == (0, 1)
    assert found.needs_storing
    least = float(STEP) * (1.0 + abs(row.weight))
    assert found.posterior.allowance >= least


def test_a_stored_answer_stays_and_gets_shorter_as_its_row_and_tables_are_raised() -> None:
    engine = InferenceEngine(SIZES)
    first = [table(engine.tables, i, block, NANO) for i, block in enumerate(COARSE)]
    row = rest_row(2, engine.tables, NANO)
    engine.extend([*first, row.row])
    query, weights = asked(QUERY), ((2, row.weight),)
    assert engine.estimate(query, confidence=0.9) is None
    planned = engine.estimate_with(query, weights, confidence=0.9, tables_give_rest=True)
    assert planned is not None
    kept = planned.estimator(query.key)
    assert kept == Estimator(query.key, weights, planned.float_error, 3)
    engine.extend([kept])
    lengths = [planned.half_width]
    events: list[AnyMeasurement] = [
        table(engine.tables, 0, COARSE[0], 3 * NANO),
        rest_row(2, engine.tables, 2 * NANO).row,
        # Finer tables, that the answer has no part in.
        table(engine.tables, 3, ((0, 2),), NANO // 100),
    ]
    for event in events:
        engine.extend([event])
        found = engine.estimate(query, confidence=0.9, enough=lengths[-1])
        assert found is not None
        assert found.half_width <= lengths[-1]
        lengths.append(found.half_width)
    assert lengths[2] < lengths[1] < lengths[0]
    again = engine.estimate(query, confidence=0.9, enough=lengths[-1])
    assert again is not None
    assert not again.needs_storing


def test_a_row_that_is_a_cell_of_the_tables_is_not_taken_for_independent() -> None:
    """The coarse part less one single value, which is a row and, from then on, a cell."""
    tables = tables_of()
    tables.extend([table(tables, 0, COARSE[0], NANO)])
    high = int(np.flatnonzero(tables.lattice.chains[0].part_of(1) == 0).max()) + 1
    query = asked(linear_query(SIZES, [(1, {0: interval(13, 1, high)})]))
    single = own_row(1, linear_query(SIZES, [(1, {0: interval(13, 0, 1)})]), NANO)
    row = WeightedRow(single, -1.0)
    tables.extend([single])
    before = tables.estimate_with_rows(query, [row], confidence=0.9)
    assert before is not None
    assert before.at == 2
    tables.extend([table(tables, 2, ((0, 2),), 2 * NANO)])
    assert tables.estimate_with_rows(query, [row], confidence=0.9) is None
    after = tables.estimate_with_rows(query, [row], confidence=0.9, at=before.at)
    assert after is not None
    assert after.tables == (0,)
    assert_allclose(after.half_width, before.half_width, rtol=1e-12)


def test_what_rows_leave_must_be_a_row_that_the_tables_give() -> None:
    tables = tables_of()
    tables.extend([table(tables, 0, COARSE[0], NANO)])
    row = rest_row(1, tables, NANO)
    half = WeightedRow(row.row, 0.5 * row.weight)
    assert tables.estimate_with_rows(asked(QUERY), [half], confidence=0.9) is None
    assert tables.estimate_with_rows(asked(QUERY), [], confidence=0.9) is None
    whole = Measurement(2, QUERY, primitive(QUERY).key, NANO, Fraction(STEP), 0)
    assert (
        tables.estimate_with_rows(asked(QUERY), [WeightedRow(whole, 1.0)], confidence=0.9) is None
    )
    assert len(CELLS) == 52
