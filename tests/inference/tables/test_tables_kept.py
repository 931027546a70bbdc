"""What tables answered stays answered: earlier states, other lattices, and tables off them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from qserver.errors import InputError
from qserver.inference.tables.blocks.nested_partitions import regular_chain, single_values
from qserver.inference.tables.blocks.pattern import BlockKey, Lattice
from qserver.inference.tables.measured_tables import MeasuredTables
from qserver.query.class_grid import product_partition
from qserver.query.linear_query import linear_query
from qserver.query.weights import indicator, interval
from qserver.records.history import TableMeasurement
from tests.inference.histories import NANO, STEP
from tests.inference.tables.table_cases import BLOCKS, SIZES, asked, own_row, table, tables_of
from tests.sweeps import examples


def test_what_was_answered_stays_answered_where_least_variance_is_longer_now():
    """At low confidence two noises beat them mixed with a little of many; and 4e-4 is not luck."""
    tables = tables_of()
    query = asked(linear_query(SIZES, [(1, {1: interval(4, 1, 3)})]))
    tables.extend([table(tables, 0, ((1, 1),), 4 * NANO)])
    first = tables.estimate(query, confidence=0.2)
    assert first is not None
    assert first.needs_storing
    tables.extend([table(tables, 1, BLOCKS[-1], NANO)])
    assert tables.known(query).half_width(0.2) > first.half_width * 1.0004
    lost = tables.estimate(query, confidence=0.2, enough=first.half_width)
    assert lost is not None
    assert lost.half_width > first.half_width * 1.0004
    kept = first.estimator(query.key)
    assert kept.at is not None
    tables.keep(kept.key, kept.at)
    again = tables.estimate(query, confidence=0.2, enough=first.half_width)
    assert again is not None
    assert again.half_width == first.half_width
    assert again.tables == (0,)
    assert not again.needs_storing


def test_weights_that_a_fault_cut_short_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first choice is known, and the fault hides the second one."""
    tables, query = tables_of(), asked(STREAMED[0])
    tables.extend([table(tables, 0, ((1, 1),), 4 * NANO)])
    tables.extend([table(tables, 1, BLOCKS[-1], NANO)])
    tables.keep(query.key, 1)
    expected = tables.tried().estimate(query, confidence=0.2)
    whole = MeasuredTables._choices

    def cut(*args: object) -> Iterator[object]:
        yield next(whole(*args))  # type: ignore[arg-type]
        raise ArithmeticError

    with monkeypatch.context() as patch:
        patch.setattr(MeasuredTables, "_choices", cut)
        for _ in range(2):
            with pytest.raises(ArithmeticError):
                tables.estimate(query, confidence=0.2)
    found = tables.estimate(query, confidence=0.2)
    assert expected is not None
    assert found is not None
    assert (found.half_width, found.at) == (expected.half_width, expected.at)


STREAMED = [
    linear_query(SIZES, [(1, {1: interval(4, 1, 3)})]),
    linear_query(SIZES, [(1, {0: interval(13, 0, 1), 1: interval(4, 1, 2)})]),
    linear_query(SIZES, [(1, {0: indicator(13, [0, 1, 2, 3]), 1: interval(4, 1, 2)})]),
    linear_query(SIZES, [(2, {0: interval(13, 0, 7)}), (-1, {1: interval(4, 0, 1)})]),
]


@settings(max_examples=examples(20))
@given(
    seed=st.integers(0, 2**32),
    confidence=st.sampled_from([0.1, 0.4, 0.9, 0.999]),
    query=st.sampled_from(STREAMED),
)
def test_a_half_width_that_was_answered_is_always_met_again(seed, confidence, query):
    """Tables come and are raised, the own row is raised, steps differ: in any order."""
    generator = random.Random(seed)
    tables, asked_row = tables_of(), asked(query)
    live: dict[BlockKey, tuple[int, int, Fraction]] = {}
    own, best = None, float("inf")
    for number in range(7):
        if generator.random() < 0.3:
            old = 0 if own is None else own.alpha_nano
            own = own_row(99, query, old + generator.randrange(1, NANO))
            tables.extend([own])
        else:
            block = generator.choice(BLOCKS)
            step = STEP / 2 ** generator.randrange(3)
            known = live.get(block, (number, 0, step))
            live[block] = (known[0], known[1] + generator.randrange(1, 2 * NANO), known[2])
            event = table(tables, live[block][0], block, live[block][1], step=live[block][2])
            tables.extend([event])
        found = tables.estimate(asked_row, own, confidence=confidence, enough=best)
        if found is None:
            assert best == float("inf")
            continue
        assert found.half_width <= best
        present = tables.estimate(asked_row, own, confidence=confidence)
        assert present is not None
        # Weights are found once until history grows; a copy finds them anew.
        assert tables.estimate(asked_row, own, confidence=confidence) is present
        anew = tables.tried().estimate(asked_row, own, confidence=confidence)
        assert anew is not None
        assert anew.half_width == present.half_width
        assert anew.posterior.estimate == present.posterior.estimate
        for answered in (found, present):
            if answered.needs_storing:
                assert answered.at is not None
                tables.keep(asked_row.key, answered.at)
        best = min(best, present.half_width)


def test_what_was_answered_before_a_finer_lattice_came_stays_answered():
    coarse = Lattice({0: regular_chain(single_values(0, 8), (1, 8))})
    fine = Lattice({0: regular_chain(single_values(0, 8), (1, 2, 8))})
    tables = MeasuredTables((8,), lattice=coarse)
    query = asked(linear_query((8,), [(1, {0: interval(8, 0, 4)})]))
    cells = tables.partition_of(((0, 1),))
    tables.extend([TableMeasurement(0, cells, NANO, STEP, (1 << 20,) * 8)])
    first = tables.estimate(query, confidence=0.9)
    assert first is not None
    assert first.at is not None
    tables.keep(query.key, first.at)
    tables.rebase(fine)
    assert tables.alpha_nano == {((0, 2),): NANO}
    assert tables.block_of(cells) == ((0, 2),)
    again = tables.estimate(query, confidence=0.9, enough=first.half_width)
    assert again is not None
    assert_allclose(again.posterior.estimate, 4.0)
    halves = tables.partition_of(((0, 1),))
    tables.extend([TableMeasurement(1, halves, 3 * NANO, STEP, (4 << 20, 4 << 20))])
    tables.extend([TableMeasurement(0, cells, 2 * NANO, STEP, (2 << 20,) * 8)])
    later = tables.estimate(query, confidence=0.9)
    assert later is not None
    assert later.half_width < again.half_width
    assert tables.estimate(query, confidence=0.9, enough=first.half_width) is not None


def test_a_table_off_the_lattice_says_nothing_until_a_lattice_has_it():
    start = Lattice({0: regular_chain(single_values(0, 8), (1, 8))})
    tables = MeasuredTables((8,), lattice=start)
    halves = product_partition((8,), {0: [0] * 4 + [1] * 4})
    tables.extend([TableMeasurement(0, halves, NANO, STEP, (3 << 20, 4 << 20))])
    query = asked(linear_query((8,), [(1, {0: interval(8, 0, 4)})]))
    assert tables.estimate(query, confidence=0.9) is None
    assert not tables.blocks.alphas
    tables.rebase(Lattice({0: regular_chain(single_values(0, 8), (1, 2, 8))}))
    found = tables.estimate(query, confidence=0.9)
    assert found is not None
    assert found.posterior.estimate == 3.0


def test_a_lattice_on_which_a_set_is_a_part_twice_is_refused():
    lattice = Lattice({0: regular_chain(single_values(0, 3), (1, 2, 4))})
    tables = MeasuredTables((3,), lattice=lattice)
    with pytest.raises(InputError, match="divide every part"):
        tables.partition_of(((0, 1),))


def test_a_large_attribute_costs_no_chain_until_a_table_needs_it():
    tables = MeasuredTables((4, 10**9))
    query = asked(linear_query((4, 10**9), [(1, {1: interval(10**9, 0, 5)})]))
    assert tables.estimate(query, confidence=0.9) is None
    cells = product_partition((4, 10**9), {0: range(4)})
    tables.extend([TableMeasurement(0, cells, NANO, STEP, (0, 0, 0, 0))])
    assert tables.estimate(query, confidence=0.9) is None


def test_a_query_of_too_many_components_is_not_seen_from_the_tables():
    sizes = (9,) * 13
    tables = MeasuredTables(sizes)
    query = linear_query(sizes, [(1, {a: interval(9, 0, 4) for a in range(13)})])
    assert tables.pattern(asked(query)) is None
