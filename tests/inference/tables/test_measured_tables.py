"""Answers from measured tables: value, law, and the query's own row or cell beside them."""

from __future__ import annotations

import random

import numpy as np
import pytest
from numpy.testing import assert_allclose

from qserver.inference.rows.shortest_interval import safe_half_width
from qserver.inference.tables.blocks.nested_partitions import regular_chain, single_values
from qserver.inference.tables.blocks.own_row import FLOAT_ROOM
from qserver.inference.tables.blocks.pattern import Lattice
from qserver.inference.tables.measured_tables import MeasuredTables
from qserver.query.class_grid import product_partition
from qserver.query.linear_query import linear_query, total_query
from qserver.query.primitive import primitive
from qserver.query.weights import interval
from qserver.records.history import Measurement, TableMeasurement
from tests.inference.histories import NANO, STEP
from tests.inference.tables.blocks.test_blocks import dense, dense_rows, random_query
from tests.inference.tables.table_cases import (
    BLOCKS,
    SIZES,
    asked,
    own_row,
    random_counts,
    table,
    tables_of,
)


@pytest.mark.parametrize("seed", range(6))
def test_the_estimate_is_that_of_dense_least_squares(seed):
    """y = (H' R^-1 H)^+ H' R^-1 y on noisy answers; unequal cells, so least variance by blocks
    that count phantoms is not quite it: on levels without phantoms."""
    generator = random.Random(seed)
    lattice = Lattice(
        {
            0: regular_chain(single_values(0, 12), (1, 3, 12)),
            1: regular_chain(single_values(1, 4), (1, 4)),
        }
    )
    tables = MeasuredTables((12, 4), lattice=lattice)
    chosen = [*generator.sample(BLOCKS[:-1], 3), BLOCKS[-1]]
    events = [
        table(tables, i, b, generator.randrange(1, 5) * NANO, noise=generator)
        for i, b in enumerate(chosen)
    ]
    tables.extend(events)
    matrix = np.vstack([dense_rows(lattice, b) for b in chosen])
    answers = []
    for event, block in zip(events, chosen, strict=True):
        rows = np.array([dense(event.partition.row(i)) for i in range(event.partition.n_cells)])
        order = [
            int(np.flatnonzero((rows == r).all(axis=1))[0]) for r in dense_rows(lattice, block)
        ]
        answers.append(event.values.ravel()[order])
    y = np.concatenate(answers)
    alphas = np.repeat([e.alpha_nano / NANO for e in events], [len(a) for a in answers])
    precision = alphas**2 / 2
    x = (
        np.linalg.pinv(matrix.T @ (precision[:, None] * matrix), rcond=1e-10)
        @ matrix.T
        @ (precision * y)
    )
    query = asked(random_query(generator, (12, 4), 2))
    found = tables.estimate(query, confidence=0.9)
    assert found is not None
    assert found.method == "blocks"
    assert found.needs_storing
    assert found.tables == (0, 1, 2, 3)
    assert_allclose(found.posterior.estimate, dense(query.row) @ x, atol=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_without_noise_in_the_answers_the_estimate_is_the_truth(seed):
    """Phantoms and permuted parts included; within the stated float error."""
    generator = random.Random(seed)
    tables, counts = tables_of(), random_counts(seed)
    chosen = [*generator.sample(BLOCKS[:-1], 3), BLOCKS[-1]]
    for i, block in enumerate(chosen):
        tables.extend([table(tables, i, block, generator.randrange(1, 9) * NANO, counts=counts)])
    for _ in range(5):
        query = asked(random_query(generator, SIZES, 2))
        found = tables.estimate(query, confidence=0.9)
        assert found is not None
        assert abs(found.posterior.estimate - dense(query.row) @ counts) <= found.float_error
        assert found.float_error < 1e-8


@pytest.mark.parametrize("seed", range(4))
def test_the_half_width_is_what_was_known_before_the_answers_were(seed):
    generator = random.Random(seed)
    tables = tables_of()
    tables.extend([table(tables, 0, BLOCKS[1], NANO, counts=random_counts(1))])
    query = asked(random_query(generator, SIZES, 1))
    alphas = {BLOCKS[-1]: 2 * NANO, BLOCKS[1]: 3 * NANO}
    step = STEP / 16
    foreseen = tables.known(query, alphas_nano=alphas, step=step).half_width(0.95)
    for number, block in enumerate((BLOCKS[1], BLOCKS[-1])):
        new = step if number else STEP
        counts = random_counts(seed)
        event = table(tables, number, block, alphas[block], counts=counts, step=new)
        tables.extend([event])
    found = tables.estimate(query, confidence=0.95, enough=foreseen)
    assert found is not None
    assert found.half_width == foreseen
    assert tables.known(query).half_width(0.95) == foreseen


def test_the_allowance_is_the_weighted_steps_with_room_for_floats():
    tables = tables_of()
    tables.extend([table(tables, 0, ((1, 1),), NANO)])
    query = asked(linear_query(SIZES, [(1, {1: interval(4, 0, 3)})]))
    found = tables.estimate(query, confidence=0.9)
    assert found is not None
    # Three cells of weight 1.
    assert_allclose(found.posterior.allowance, 3 * float(STEP) * FLOAT_ROOM, rtol=1e-12)
    assert_allclose(found.half_width, safe_half_width(np.ones(3), 0.9) + 6 * float(STEP))


def test_what_no_table_reaches_is_none_and_not_estimable():
    tables = tables_of()
    tables.extend([table(tables, 0, ((0, 1),), NANO)])
    fine = asked(linear_query(SIZES, [(1, {0: interval(13, 0, 1)})]))
    other = asked(linear_query(SIZES, [(1, {1: interval(4, 0, 1)})]))
    for query in (fine, other):
        assert tables.estimate(query, confidence=0.9) is None
        assert not tables.is_estimable(query)
        assert tables.known(query).half_width(0.9) == float("inf")


def test_a_cell_is_answered_by_itself_or_with_the_rest_never_twice():
    """One block: the cell alone; its half-width is that of one Laplace variable."""
    tables, counts = tables_of(), random_counts(2)
    block = BLOCKS[-1]
    tables.extend([table(tables, 0, block, 2 * NANO, counts=counts)])
    query = asked(linear_query(SIZES, [(1, {0: interval(13, 4, 5), 1: interval(4, 2, 3)})]))
    found = tables.estimate(query, confidence=0.9)
    assert found is not None
    assert found.tables == (0,)
    assert_allclose(found.posterior.scales, [0.5])
    assert found.posterior.estimate == dense(query.row) @ counts


def test_a_cell_in_two_terms_is_known_for_the_cell():
    """Else its own row, which continues the cell's noise, would count beside the cell."""
    tables = tables_of()
    tables.extend([table(tables, 0, ((1, 1),), NANO)])
    terms = [(1, {0: interval(13, 0, 5), 1: interval(4, 2, 3)})]
    terms += [(1, {0: interval(13, 5, 13), 1: interval(4, 2, 3)})]
    query = asked(linear_query(SIZES, terms))
    assert len(query.row.terms) == 2
    row = own_row(1, linear_query(SIZES, [(1, {1: interval(4, 2, 3)})]), 2 * NANO)
    assert row.key == query.key
    found = tables.estimate(query, row, confidence=0.9)
    assert found is not None
    assert_allclose(found.posterior.scales, [1.0])
    assert_allclose(tables.known(query, row).half_width(0.9), 0.5 * np.log(10), rtol=1e-5)


def test_an_own_row_finer_than_its_cell_takes_the_cell_s_place():
    """Dense least squares on the row and all cells but its own."""
    lattice = Lattice({0: regular_chain(single_values(0, 4), (1, 4))})
    tables = MeasuredTables((4,), lattice=lattice)
    cells = tables.partition_of(((0, 1),))
    whole = tables.partition_of(())
    tables.extend(
        [TableMeasurement(0, cells, NANO, STEP, tuple(int(v / STEP) for v in (5, 3, 2, 1)))]
    )
    tables.extend([TableMeasurement(1, whole, 2 * NANO, STEP, (int(12 / STEP),))])
    query = linear_query((4,), [(1, {0: interval(4, 0, 1)})])
    row = own_row(2, query, 3 * NANO // 2, value=6)
    found = tables.estimate(asked(query), row, confidence=0.999)
    assert found is not None
    # The rest: 12 - 3 - 2 - 1 with scales 1/2, 1, 1, 1; the row: 6 with scale 2/3.
    rest, own = 2 * (0.25 + 3), 2 * 4 / 9
    weight = rest / (rest + own)
    assert found.beside == ((2, pytest.approx(weight, rel=1e-9)),)
    assert_allclose(found.posterior.estimate, 6.0, rtol=1e-9)
    scales = np.array([0.5, 1, 1, 1]) * (1 - weight)
    assert_allclose(sorted(found.posterior.scales), sorted([*scales, weight * 2 / 3]), rtol=1e-9)


def test_a_public_total_helps_without_noise_or_lattice():
    tables = tables_of()
    total = Measurement(0, total_query(SIZES), primitive(total_query(SIZES)).key, 0, STEP, 52 << 20)
    part = product_partition(SIZES, {1: [0, 1, 1, 1]})
    lattice = Lattice({0: tables.lattice.chains[0], 1: regular_chain(single_values(1, 4), (1, 4))})
    tables = tables_of(lattice=lattice)
    tables.extend([total, table(tables, 1, ((1, 1),), NANO, counts=np.ones(52))])
    assert tables.block_of(part) is None
    assert tables.public_blocks == {()}
    assert list(tables.alpha_nano) == [((1, 1),)]
    query = asked(linear_query(SIZES, [(1, {1: interval(4, 0, 3)})]))
    found = tables.estimate(query, confidence=0.9)
    assert found is not None
    # Three cells of weight 1/4 and, with the total, 3/4 less one cell's.
    assert_allclose(sorted(found.posterior.scales), [0.25, 0.25, 0.25, 0.75])
    assert_allclose(found.posterior.estimate, 39.0)
    assert found.beside == ((0, pytest.approx(0.75)),)
    assert found.tables == (1,)
    assert tables.known(asked(total_query(SIZES))).half_width(0.9) == 0.0
