"""The engine on rows and tables."""

from __future__ import annotations

import pytest
from numpy.testing import assert_allclose

from qserver.errors import InputError
from qserver.inference.engine import InferenceEngine
from qserver.query.linear_query import linear_query, total_query
from qserver.query.primitive import primitive
from qserver.query.weights import interval
from qserver.records.history import Estimator
from tests.inference.histories import NANO, STEP, is_estimable, measured
from tests.inference.tables.blocks.test_blocks import dense
from tests.inference.tables.table_cases import BLOCKS, SIZES, asked, random_counts, table, tables_of


def engine_of(*events) -> InferenceEngine:
    engine = InferenceEngine(SIZES)
    engine.extend(events)
    return engine


def test_the_engine_takes_the_shorter_of_rows_and_tables():
    tables, query = tables_of(), linear_query(SIZES, [(1, {1: interval(4, 1, 3)})])
    parts = [linear_query(SIZES, [(1, {1: interval(4, i, i + 1)})]) for i in (1, 2)]
    counts = random_counts(4)
    rows = [measured(i, q, scale=2, answer=10) for i, q in enumerate(parts)]
    loose = table(tables, 2, ((1, 1),), NANO // 10, counts=counts)
    engine = engine_of(*rows, loose)
    by_rows = engine.estimate(asked(query), confidence=0.9)
    assert by_rows is not None
    assert by_rows.ids == (0, 1)
    engine.extend([table(tables, 2, ((1, 1),), NANO, counts=counts)])
    by_tables = engine.estimate(asked(query), confidence=0.9)
    assert by_tables is not None
    assert (by_tables.method, by_tables.tables, by_tables.weights) == ("blocks", (2,), ())
    assert by_tables.posterior.estimate == dense(query) @ counts
    rows_alone = engine.estimate_by_rows(asked(query), confidence=0.9)
    assert rows_alone is not None
    assert rows_alone.half_width == by_rows.half_width
    assert is_estimable(engine, asked(query))
    assert engine.combined(asked(query), half_width=1e3, confidence=0.9, step=STEP) is not None


def test_the_engine_joins_tables_with_the_query_s_own_row_alone():
    tables, query = tables_of(), linear_query(SIZES, [(1, {1: interval(4, 1, 3)})])
    other = linear_query(SIZES, [(1, {1: interval(4, 1, 2)})])
    event = table(tables, 0, ((1, 1),), NANO)
    engine = engine_of(event, measured(1, query, scale=1), measured(2, other, scale=1))
    found = engine.estimate(asked(query), confidence=0.99)
    assert found is not None
    assert found.method == "blocks"
    # Variances 2 x 2 and 2: the row has two thirds.
    assert found.weights == ()
    assert found.beside == ((1, pytest.approx(2 / 3)),)
    assert_allclose(sorted(found.posterior.scales), [1 / 3, 1 / 3, 2 / 3])


def test_the_engine_searches_anew_where_a_looser_half_width_will_do():
    tables, query = tables_of(), asked(linear_query(SIZES, [(1, {1: interval(4, 1, 3)})]))
    engine = engine_of(table(tables, 0, ((1, 1),), 4 * NANO))
    first = engine.estimate(query, confidence=0.2)
    assert first is not None
    engine.extend([first.estimator(query.key), table(tables, 1, BLOCKS[-1], NANO)])
    assert engine.estimate(query, confidence=0.2, enough=first.half_width / 2) is not None
    again = engine.estimate(query, confidence=0.2, enough=first.half_width)
    assert again is not None
    assert again.half_width == first.half_width


def test_an_estimator_without_weights_is_refused():
    """Else what tables answered, stored by mistake, would be an exact zero ever after."""
    with pytest.raises(InputError, match="have weights, on rows or on tables"):
        engine_of(Estimator(primitive(total_query(SIZES)).key, ()))
