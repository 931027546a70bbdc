"""Exact answers on codes, against a loop over the records."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import worker.private.record_tables
from qserver.errors import MeasurementError
from qserver.query.class_grid import ProductPartition, product_partition
from qserver.query.labels import code_dtype
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.weights import interval
from tests.query.dense_weights import scaled_weights
from tests.sweeps import examples
from worker.private.record_tables import RecordTable, table_from_columns

SIZES = (4, 3, 5)


def a_table(n: int, seed: int = 1) -> RecordTable:
    rng = np.random.default_rng(seed)
    return table_from_columns({i: rng.integers(0, s, n) for i, s in enumerate(SIZES)}, SIZES)


def by_loop(table: RecordTable, query: LinearQuery) -> Fraction:
    cells = zip(*(c.tolist() for c in table.codes), strict=True)
    return sum((query.value_at(cell) for cell in cells), Fraction(0))


weights = st.fractions(min_value=-3, max_value=3, max_denominator=4)
factors = st.dictionaries(st.integers(0, 2), st.lists(weights, min_size=5, max_size=5), max_size=3)


@st.composite
def queries(draw: st.DrawFn) -> LinearQuery:
    terms = draw(st.lists(st.tuples(weights, factors), min_size=1, max_size=3))
    return linear_query(
        SIZES,
        [(c, {a: scaled_weights(w[: SIZES[a]]) for a, w in axes.items()}) for c, axes in terms],
    )


@given(queries(), st.sampled_from([0, 1, 40]))
@settings(max_examples=examples(30))
def test_answers_equal_a_loop_over_the_records(query: LinearQuery, n: int) -> None:
    table = a_table(n)
    assert table.answer(query) == by_loop(table, query)


@given(queries())
@settings(max_examples=examples(30))
def test_both_routes_of_counting_agree(query: LinearQuery) -> None:
    table = a_table(50)
    by_records = sum((table._by_records(t) for t in query.terms), Fraction(0))
    assert table.answer(query) == by_records


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    query = linear_query(SIZES, [(1, {0: interval(4, 1, 3), 2: interval(5, 0, 2)})])
    whole = a_table(1000).answer(query)
    monkeypatch.setattr(worker.private.record_tables, "_CHUNK", 7)
    assert a_table(1000).answer(query) == whole


def test_weights_beyond_64_bits_are_exact() -> None:
    huge = scaled_weights([1 << 39, 1, 0, 0])
    other = scaled_weights([(1 << 39) - 1, 1, 3])
    third = scaled_weights([1 << 38, 1, 5, 7, 9])
    query = linear_query(SIZES, [(Fraction(1, 3), {0: huge, 1: other, 2: third})])
    table = a_table(200)
    assert table.answer(query) == by_loop(table, query)
    assert table._by_records(query.terms[0]) == by_loop(table, query)


def test_an_empty_table_counts_nothing() -> None:
    query = linear_query(SIZES, [(1, {})])
    assert a_table(0).answer(query) == 0


def test_a_code_outside_the_domain_is_refused_with_the_constant_error() -> None:
    with pytest.raises(MeasurementError):
        RecordTable((np.array([4], dtype=np.uint8),), (4,))


def test_a_table_shows_nothing_of_its_records() -> None:
    assert "array" not in repr(a_table(3))


@pytest.mark.parametrize(
    ("size", "dtype"), [(256, np.uint8), (257, np.uint16), (65536, np.uint16), (65537, np.uint32)]
)
def test_codes_take_the_smallest_type_that_holds_them(size: int, dtype: type) -> None:
    assert code_dtype(size) is dtype


@pytest.mark.parametrize("size", [2, 16, 17, 255, 256, 257, 70_000])
def test_every_size_of_grid_counts_the_same(size: int) -> None:
    """Each route of counting, told apart by the number of cells, against a loop."""
    codes = np.random.default_rng(size).integers(0, size, 3000)
    table = table_from_columns({0: codes}, (size,))
    chosen = scaled_weights([v * v + 1 for v in range(size)])
    query = linear_query((size,), [(1, {0: chosen})])
    assert table.answer(query) == sum(v * v + 1 for v in codes.tolist())


@st.composite
def partitions(draw: st.DrawFn) -> ProductPartition:
    axes = draw(st.sets(st.integers(0, 2)))
    return product_partition(
        SIZES,
        {a: draw(st.lists(st.integers(0, 3), min_size=SIZES[a], max_size=SIZES[a])) for a in axes},
    )


@given(partitions(), st.sampled_from([0, 1, 40]))
@settings(max_examples=examples(60))
def test_a_table_s_counts_equal_a_loop_over_the_records(
    partition: ProductPartition, n: int
) -> None:
    """Each cell by its own row; absent groups have none; together they are all records."""
    table = a_table(n)
    counts = table.counts(partition)
    assert counts == [by_loop(table, partition.row(c)) for c in range(partition.n_cells)]
    assert sum(counts) == n
    assert all(type(count) is int for count in counts)


def test_counts_of_many_cells_with_wide_codes_and_many_chunks_are_exact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(3)
    sizes = (300, 7, 70_000)
    table = table_from_columns({i: rng.integers(0, s, 5000) for i, s in enumerate(sizes)}, sizes)
    parts = {0: np.arange(300) // 2, 1: np.arange(7) % 3, 2: np.arange(70_000) % 5}
    expected = np.zeros((150, 3, 5), dtype=int)
    np.add.at(expected, tuple(parts[a][codes] for a, codes in enumerate(table.codes)), 1)
    for chunk in (1 << 16, 999):
        monkeypatch.setattr(worker.private.record_tables, "_CHUNK", chunk)
        assert table.counts(product_partition(sizes, parts)) == expected.ravel().tolist()


def test_a_partition_of_another_domain_is_refused_with_the_constant_error() -> None:
    with pytest.raises(MeasurementError):
        a_table(3).counts(product_partition((4, 3, 6), {0: [0, 1, 2, 3]}))
