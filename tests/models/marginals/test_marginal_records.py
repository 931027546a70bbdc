"""Synthetic records: no further from the model than by rounding, whatever a tree leaves out."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from qserver.models.marginals.estimate import estimate, record_source
from qserver.models.marginals.fit.observations import NoisyMarginal
from qserver.models.marginals.graph.layout import layout_of
from qserver.models.marginals.model import draw_given, stratified
from qserver.models.marginals.record_moves import move_towards

SIZES = (4, 3, 5, 3, 4, 3)
PAIRS = list(combinations(range(6), 2))
N = 4_000
SEEDS = 3_000


def dependent(seed):
    """Codes of N records; each attribute goes with two before it."""
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(n, size=N) for n in SIZES], axis=1)
    for a in range(2, 6):
        before = codes[:, a - 1] + codes[:, a - 2]
        codes[:, a] = np.where(rng.random(N) < 0.7, before % SIZES[a], codes[:, a])
    return codes


def counts(codes, scope):
    shape = tuple(SIZES[a] for a in scope)
    cell = np.ravel_multi_index(tuple(codes[:, a] for a in scope), shape)
    return np.bincount(cell, minlength=int(np.prod(shape))).astype(float)


def distance(codes, told, scopes):
    """Mean L1 distance of the records' proportions from what is told of each scope."""
    found = [np.abs(counts(codes, s) / len(codes) - told(s)).sum() for s in scopes]
    return float(np.mean(found))


def relaxed(seed, *, scale=1.0, scopes=PAIRS):
    rng, codes = np.random.default_rng(seed), dependent(seed)
    said = [
        NoisyMarginal(
            s,
            counts(codes, s) + rng.laplace(scale=scale, size=counts(codes, s).size),
            np.array(scale),
        )
        for s in scopes
    ]
    return estimate(SIZES, said, oracle="saturated", total=float(N))


def test_records_alike_in_what_is_given_have_every_value_as_often_as_it_should_be():
    """Rounded up or down, in every group, also where a group is small or empty."""
    rng = np.random.default_rng(1)
    table = rng.dirichlet(np.ones(5), size=8)
    records = np.zeros((700, 2), dtype=np.intp)
    records[:, 0] = rng.choice(7, size=700, p=np.array([1, 2, 3, 30, 40, 12, 12]) / 100)
    draw_given(records, table * rng.random((8, 1)), (0,), (1,), rng)
    for g in range(8):
        own = records[records[:, 0] == g, 1]
        expected = len(own) * table[g]
        assert (np.abs(np.bincount(own, minlength=5) - expected) < 1 + 1e-9).all()


def test_each_record_of_a_group_has_each_value_with_its_probability():
    """3,000 draws of three records alike; a false alarm once in some 10^6 runs."""
    p = np.array([0.55, 0.3, 0.15])
    found = np.zeros((3, 3))
    for seed in range(SEEDS):
        records = np.zeros((3, 2), dtype=np.intp)
        draw_given(records, p[None], (0,), (1,), np.random.default_rng(seed))
        found[np.arange(3), records[:, 1]] += 1 / SEEDS
    assert (np.abs(found - p) < 5.0 * np.sqrt(p * (1 - p) / SEEDS)).all()


def test_numbers_of_a_group_are_evenly_spaced():
    groups = np.array([2, 0, 2, 2, 0, 5])
    found = stratified(groups, 6, np.random.default_rng(4))
    assert ((found >= 0) & (found < 1)).all()
    assert_allclose(np.diff(np.sort(found[groups == 2])), 1 / 3)
    assert_allclose(np.diff(np.sort(found[groups == 0])), 1 / 2)


def test_records_of_an_exact_model_are_ten_times_nearer_than_independent_draws():
    scopes = [(a, a + 1) for a in range(5)]
    codes = dependent(3)
    said = [NoisyMarginal(s, counts(codes, s), np.array(0.1)) for s in scopes]
    found = estimate(SIZES, said, oracle="exact", total=float(N)).distribution

    def told(scope):
        return found.marginal(scope).ravel()

    rng = np.random.default_rng(5)
    independent = [
        np.abs(rng.multinomial(N, told(s) / told(s).sum()) / N - told(s)).sum() for s in scopes
    ]
    drawn = found.draw(N, np.random.default_rng(6))
    assert distance(drawn, told, scopes) < 0.1 * float(np.mean(independent))


@pytest.mark.parametrize("scale", [10.0, 30.0])
def test_records_hold_tables_that_their_tree_leaves_out(scale):
    """All pairs, of which a tree of 120 cells holds a few: within 1.1 times the model's error."""
    found, truth = relaxed(7, scale=scale), dependent(7)
    source = record_source(found, max_cells=120)
    assert sum(source.drawn_from.holds(pair) for pair in PAIRS) < len(PAIRS) / 2

    def true(scope):
        return counts(truth, scope) / N

    model = float(
        np.mean([np.abs(found.distribution.marginal(s).ravel() - true(s)).sum() for s in PAIRS])
    )
    drawn = source.drawn_from.draw(N, np.random.default_rng(8))
    moved = source.draw(N, np.random.default_rng(8))
    assert distance(drawn, true, PAIRS) > 1.4 * model
    assert distance(moved, true, PAIRS) < 1.1 * model


def test_where_all_tables_are_too_much_work_records_are_moved_to_their_pairs():
    """All triples, and time for a seventh of the moves: the pairs come as near as in the model."""
    found, truth = relaxed(15, scale=10.0, scopes=list(combinations(range(6), 3))), dependent(15)
    whole = record_source(found, max_cells=120)
    cells = int(np.sum([SIZES[a] for s in whole.moved_to.layout.scopes for a in s]))
    source = replace(whole, max_work=2 * N * cells // 7)

    def true(scope):
        return counts(truth, scope) / N

    near = [np.abs(found.distribution.marginal(s).ravel() - true(s)).sum() for s in PAIRS]
    rng, targets = np.random.default_rng(16), source.moved_to
    by_all = source.drawn_from.draw(N, rng)
    move_towards(by_all, targets.layout, targets.tables, rng, max_work=source.max_work)
    assert distance(by_all, true, PAIRS) > 1.5 * np.mean(near)
    assert distance(source.draw(N, np.random.default_rng(16)), true, PAIRS) < 1.2 * np.mean(near)


def test_moves_lower_the_sum_that_they_are_made_for():
    """Written out over all cells, before and after, with work for a part of the records alone."""
    found = relaxed(9)
    layout = layout_of(SIZES, PAIRS)
    tables = np.concatenate([found.distribution.marginal(s).ravel() for s in layout.scopes])

    def chi_square(codes):
        have = np.concatenate([counts(codes, s) for s in layout.scopes])
        expected = len(codes) * tables
        return 0.5 * float((np.square(have - expected) / (expected + 1.0)).sum())

    rng = np.random.default_rng(10)
    records = np.stack([rng.integers(n, size=500) for n in SIZES], axis=1)
    sums, moved = [chi_square(records)], records.copy()
    for _ in range(3):
        before = moved.copy()
        move_towards(moved, layout, tables, np.random.default_rng(11), max_work=110 * 100)
        # Each of 100 records at 5 tables of 22 values in all.
        assert 0 < (moved != before).any(axis=1).sum() <= 100
        sums.append(chi_square(moved))
    assert sums == sorted(sums, reverse=True)
    move_towards(moved, layout, tables, np.random.default_rng(12))
    assert chi_square(moved) < 0.02 * sums[0]


def test_few_records_move_one_by_one_as_written_out():
    """Pairs, a triple, and an attribute of one value; each value's cost by all cells anew."""
    layout = layout_of((3, 1, 4, 2), [(0, 1), (1, 2), (0, 2, 3), (3,)])
    rng = np.random.default_rng(15)
    tables = np.concatenate([rng.dirichlet(np.ones(int(n))) for n in layout.counts])
    moved = np.stack([rng.integers(n, size=60) for n in layout.sizes], axis=1)
    found, order = moved.copy(), np.random.default_rng(16)
    move_towards(found, layout, tables, np.random.default_rng(16))

    def cost(record, rest):
        total = 0.0
        for i, scope in enumerate(layout.scopes):
            expected = 60 * layout.table(tables, i)[tuple(record[list(scope)])]
            have = (rest[:, list(scope)] == record[list(scope)]).all(axis=1).sum()
            total += (have - expected + 0.5) / (expected + 1.0)
        return total

    for _ in range(2):
        for k in order.permutation(60):
            rest = np.delete(moved, k, axis=0)
            for a, n in enumerate(layout.sizes):
                costs = [cost(np.r_[moved[k, :a], v, moved[k, a + 1 :]], rest) for v in range(n)]
                if costs[moved[k, a]] - min(costs) > 0.1:
                    moved[k, a] = int(np.argmin(costs))
    assert (found == moved).all()


def test_the_same_seed_moves_the_same_records():
    source = record_source(relaxed(13), max_cells=120)
    first, second = (source.draw(300, np.random.default_rng(14)) for _ in range(2))
    assert (first == second).all()


def test_an_attribute_that_no_table_tells_of_stays_as_drawn():
    layout = layout_of((2, 2, 3), [(0, 1)])
    records = np.zeros((40, 3), dtype=np.intp)
    records[:, 2] = np.arange(40) % 3
    move_towards(records, layout, np.full(4, 0.25), np.random.default_rng(2))
    assert (records[:, 2] == np.arange(40) % 3).all()
    assert_allclose(np.bincount(2 * records[:, 0] + records[:, 1]), 10, atol=1)
