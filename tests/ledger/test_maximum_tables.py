"""Tables, partitions, elimination and shifting against dense arrays over every cell."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qserver.ledger import loss_tables
from qserver.ledger.branch_and_bound import ShiftedSum
from qserver.ledger.constants import LedgerLimits
from qserver.ledger.loss import cell_shapes, pair_shapes
from qserver.ledger.loss_tables import (
    LossTable,
    Partition,
    SumTable,
    common,
    from_classes,
    meeting,
    parents,
    together,
    total,
    zero_table,
)
from qserver.ledger.maximum import eliminate, is_narrow
from qserver.query.class_grid import axis_classes
from tests.ledger.losses_by_definition import random_row
from tests.query.dense_weights import scaled_weights
from tests.sweeps import examples

SIZES = (4, 3, 5, 4)
N_SEEDS = 20

labels = st.lists(st.integers(0, 3), min_size=7, max_size=7)


def partition(classes: Sequence[int]) -> Partition:
    return from_classes(axis_classes(0, [scaled_weights([1 + c for c in classes]).weights]))


def dense(table: SumTable | LossTable, sizes: Sequence[int]) -> np.ndarray:
    """The table over every cell."""
    values = np.asarray(table.values)
    for i, p in enumerate(table.layout.partitions):
        values = values.take(p.of_values, axis=i)
    shape = [sizes[a] if a in table.layout.axes else 1 for a in range(len(sizes))]
    return np.broadcast_to(values.reshape(shape), sizes)


def random_losses(seed: int, n: int, *, pairs: bool = False) -> list[LossTable]:
    rng = random.Random(seed)
    shapes = pair_shapes if pairs else cell_shapes
    sizes = SIZES[:2] if pairs else SIZES
    rows = [random_row(rng, sizes) for _ in range(n)]
    return [s.loss(rng.randint(1, 10**6)) for row in rows for s in shapes(row)]


@given(one=labels, other=labels)
def test_the_common_partition_tells_apart_what_either_does(
    one: list[int], other: list[int]
) -> None:
    left, right = partition(one), partition(other)
    found = common(left, right)
    codes = list(zip(one, other, strict=True))
    ids = found.of_values.tolist()
    assert found.n == len(set(codes))
    assert all((ids[i] == ids[j]) == (codes[i] == codes[j]) for i in range(7) for j in range(7))
    assert found.class_of(np.arange(7)).tolist() == ids
    assert parents(left, found)[found.of_values].tolist() == left.of_values.tolist()


@given(one=labels, other=labels)
def test_classes_meet_where_they_share_a_value(one: list[int], other: list[int]) -> None:
    left, right = partition(one), partition(other)
    found = meeting(left, right)
    shared = set(zip(left.of_values.tolist(), right.of_values.tolist(), strict=True))
    assert set(zip(found.left.tolist(), found.right.tolist(), strict=True)) == shared
    for i, (lefts, runs) in enumerate(zip(found.lefts, found.runs, strict=True)):
        assert set(lefts.tolist()) == {a for a, b in shared if b == i}
        assert [a for run in runs for a in range(run.start, run.stop)] == sorted(lefts.tolist())
        assert all(one.stop < other.start for one, other in pairwise(runs))


def test_a_partition_that_refines_the_other_is_kept() -> None:
    """Identity tells the tables that nothing need be split."""
    fine, coarse = partition([0, 1, 2, 3, 0, 1, 2]), partition([0, 1, 0, 1, 0, 1, 0])
    assert common(fine, coarse) is fine
    assert common(coarse, fine) is fine
    assert common(fine, partition([0] * 7)) is fine


@given(classes=labels, chosen=st.sets(st.integers(0, 6), min_size=1))
def test_a_restricted_partition_is_that_of_the_values_kept(
    classes: list[int], chosen: set[int]
) -> None:
    allowed = np.array(sorted(chosen))
    found = partition(classes).restricted_to(allowed)
    kept = [classes[i] for i in allowed]
    ids = found.of_values.tolist()
    assert found.size == len(kept)
    assert all(
        (ids[i] == ids[j]) == (kept[i] == kept[j])
        for i in range(len(kept))
        for j in range(len(kept))
    )


@pytest.mark.parametrize("seed", range(N_SEEDS))
def test_a_table_holds_the_sum_of_what_was_added(seed: int) -> None:
    table, expected = zero_table(), np.zeros(SIZES, dtype=np.int64)
    for loss in random_losses(seed, 8):
        expected = expected + dense(loss, SIZES)
        foreseen = table.top_with(loss)
        table.add(loss)
        np.testing.assert_array_equal(dense(table, SIZES), expected)
        assert table.top == foreseen == expected.max()


@pytest.mark.parametrize("most_table", [1, 100, 10_000])
@pytest.mark.parametrize("seed", range(N_SEEDS))
def test_losses_together_are_few_of_the_same_sum(
    monkeypatch: pytest.MonkeyPatch, seed: int, most_table: int
) -> None:
    losses = random_losses(seed, 40)
    losses += [replace(loss, values=-loss.values) for loss in losses[:3]]
    monkeypatch.setattr(loss_tables, "LIMITS", LedgerLimits(most_table=most_table))
    found = together(losses)
    expected = sum(dense(loss, SIZES) for loss in losses)
    np.testing.assert_array_equal(sum(dense(one, SIZES) for one in found), expected)
    large = max(loss.layout.n_entries for loss in losses)
    assert all(one.layout.n_entries <= max(large, most_table) for one in found)
    assert sum(one.is_refund for one in found) == 3
    if most_table > np.prod(SIZES):
        scopes = {loss.layout.axes for loss in losses}
        assert len(found) == len(scopes) + 3
        one = next(one.layout for one in found if one.layout.axes)
        alike = [loss.layout for loss in losses if loss.layout.axes == one.axes]
        assert one.shape[0] == reduce(common, [layout.partitions[0] for layout in alike]).n


@pytest.mark.parametrize("seed", range(N_SEEDS))
def test_restricting_and_maximising_agree_with_the_dense_array(seed: int) -> None:
    table = zero_table()
    for loss in random_losses(seed, 4):
        table.add(loss)
    where = {0: np.array([1, 3]), 2: np.array([0, 1, 4])}
    restricted = table.restricted_to(where)
    expected = dense(table, SIZES)[np.ix_([1, 3], range(3), [0, 1, 4], range(4))]
    np.testing.assert_array_equal(dense(restricted, (2, 3, 3, 4)), expected)
    over = table.maximum_over([0, 3])
    np.testing.assert_array_equal(
        dense(over, SIZES)[0, :, :, 0], dense(table, SIZES).max(axis=(0, 3))
    )


@pytest.mark.parametrize("kept", [(), (2,)])
@pytest.mark.parametrize("max_entries", [1, 30, 10**6])
@pytest.mark.parametrize("seed", range(N_SEEDS))
def test_elimination_is_exact_when_narrow_and_a_bound_otherwise(
    seed: int, max_entries: int, kept: tuple[int, ...]
) -> None:
    tables = [SumTable(x.layout, x.values) for x in random_losses(seed, 8)]
    everything = sum(dense(t, SIZES) for t in tables)
    exact = everything.max(axis=tuple(a for a in range(4) if a not in kept))
    found = dense(eliminate(tables, max_entries=max_entries, kept=kept), SIZES).max(axis=(0, 1, 3))
    assert (found >= exact).all()
    if is_narrow(tables, max_entries=max_entries, kept=kept):
        np.testing.assert_array_equal(found, np.broadcast_to(exact, found.shape))


def test_small_groups_make_elimination_a_bound_only() -> None:
    """Otherwise the test above would say nothing about mini-buckets."""
    gaps = 0
    for seed in range(N_SEEDS):
        tables = [SumTable(x.layout, x.values) for x in random_losses(seed, 8)]
        exact = sum(dense(t, SIZES) for t in tables).max()
        gaps += eliminate(tables, max_entries=1).top > exact
        assert not is_narrow(tables, max_entries=1)
    assert gaps > 0


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("seed", range(N_SEEDS))
def test_shifting_changes_no_sum_and_only_lowers_the_bound(seed: int, pairs: bool) -> None:
    """Cell by cell the tables add up to the losses, exactly, before and after every step."""
    sizes = SIZES[:2] * 2 if pairs else SIZES
    shifted, expected = ShiftedSum(len(sizes) // (2 if pairs else 1)), np.zeros(sizes, np.int64)
    for loss in random_losses(seed, 8, pairs=pairs):
        expected = expected + dense(loss, sizes)
        foreseen = shifted.top_with(loss)
        shifted.add(loss, shift=True)
        assert foreseen >= expected.max()
        assert shifted.top >= expected.max()
    for _ in range(5):
        before = shifted.top
        shifted.settle(n_steps=3)
        np.testing.assert_array_equal(sum(dense(t, sizes) for t in shifted.tables), expected)
        # At most one unit per attribute and step is lost in the division.
        assert expected.max() <= shifted.top <= before + 3 * len(sizes)


def test_shifting_closes_most_of_the_gap() -> None:
    gaps = np.zeros(2)
    for seed in range(N_SEEDS):
        shifted, expected = ShiftedSum(4), np.zeros(SIZES, np.int64)
        for loss in random_losses(seed, 8):
            expected = expected + dense(loss, SIZES)
            shifted.add(loss, shift=False)
        gaps[0] += shifted.top - expected.max()
        shifted.settle_all(rounds=20)
        gaps[1] += shifted.top - expected.max()
    assert gaps[1] < gaps[0] / 3


@pytest.mark.parametrize("seed", range(N_SEEDS))
def test_a_copy_is_not_changed_with_its_origin(seed: int) -> None:
    losses = random_losses(seed, 8)
    shifted = ShiftedSum(4)
    for loss in losses[:4]:
        shifted.add(loss, shift=True)
    twin, before = shifted.copy(), total(shifted.tables)
    for loss in losses[4:]:
        twin.add(loss, shift=True)
    twin.settle_all(rounds=2)
    np.testing.assert_array_equal(dense(total(shifted.tables), SIZES), dense(before, SIZES))


@given(seed=st.integers(0, 10**6))
@settings(max_examples=examples(15))
def test_a_full_store_of_tables_stays_a_bound(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        small = LedgerLimits(most_tables=2, most_single=2, most_table=4)
        patch.setattr("qserver.ledger.branch_and_bound.LIMITS", small)
        shifted, expected = ShiftedSum(4), np.zeros(SIZES, np.int64)
        for loss in random_losses(seed, 10):
            expected = expected + dense(loss, SIZES)
            assert shifted.top_with(loss) >= expected.max()
            shifted.add(loss, shift=True)
            assert shifted.top >= expected.max()
            held = sum(dense(t, SIZES) for t in shifted.tables)
            assert (held >= expected).all()
            assert not shifted.exact or (held == expected).all()
