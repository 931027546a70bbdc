"""Wanted marginals: how many a model takes, what they may be joined into, what they take."""

from __future__ import annotations

from itertools import chain, combinations
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from qserver.answering.models.kinds.kind import marginals_work
from qserver.answering.models.kinds.marginals_kind import MarginalsKind, read_scopes
from qserver.answering.models.kinds.tables_to_buy import (
    best_prices,
    candidates,
)
from qserver.errors import InputError
from qserver.models.marginals.estimate import estimate
from qserver.models.marginals.fit.observations import NoisyMarginal
from qserver.query.domain import Attribute, Domain
from tests.benchmarks.wide_records import Records, alarm_records

MIB = 1 << 20


def domain(sizes):
    return Domain(
        tuple(
            Attribute(f"q{i}", "labels", labels=tuple(f"v{j}" for j in range(n)))
            for i, n in enumerate(sizes)
        )
    )


def lists(scopes):
    return [[f"q{a}" for a in scope] for scope in scopes]


@pytest.mark.slow
def test_all_triples_of_a_survey_are_bought_with_their_work_stated():
    """1,771 triples of 23 attributes, which were too many for a model once."""
    sizes = tuple(2 + i % 5 for i in range(23))
    survey, triples = domain(sizes), list(combinations(range(23), 3))
    kind = MarginalsKind()
    specification = kind.read({"marginals": lists(triples), "selection": "best"}, survey)
    wanted = kind.wanted(specification, survey, [], epsilon=1e4)
    bought = [w.axes for w in wanted]
    assert sum(w.epsilon for w in wanted) <= 1e4 + 1e-6
    held = set(chain.from_iterable(combinations(s, 3) for s in bought))
    assert held == set(triples)
    work = kind.work(specification, survey, [], bought=bought)
    assert work.n_tables == len(bought)
    assert work.n_cells == sum(prod(sizes[a] for a in s) for s in bought)
    assert 16 * MIB < work.memory_bytes < 256 * MIB
    assert 0 < work.seconds < 60


def parts_of_alarm(which):
    records = alarm_records()
    binary = [a for a, n in enumerate(records.sizes) if n == 2][:12]
    axes = binary if which == "binary" else range(10, 18)
    return Records(records.codes[:, axes], tuple(records.sizes[a] for a in axes))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("which", "epsilon"),
    [("binary", 0.1), ("binary", 1.0), ("mixed", 1.0), ("binary", 10.0), ("binary", 100.0)],
)
def test_wanting_triples_makes_triples_no_worse_than_wanting_pairs(which, epsilon):
    """10,000 records; tables of triples are bought at the last epsilon alone."""
    records = parts_of_alarm(which)
    pairs, triples = (list(combinations(range(len(records.sizes)), k)) for k in (2, 3))
    wide, narrow = (priced(records.sizes, scopes, epsilon) for scopes in (triples, pairs))
    assert sum(wide.values()) <= epsilon * (1 + 1e-12)
    told = [distance(records, prices, triples[::3]) for prices in (wide, narrow)]
    assert told[0] < 1.03 * told[1]


@pytest.mark.slow
def test_triples_are_bought_where_their_noise_is_below_what_pairs_miss():
    """Two attributes are sums, modulo 4, of two others each: pairs tell nothing of them."""
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 4, size=(10_000, 6))
    codes[:, 2], codes[:, 5] = codes[:, :2].sum(axis=1) % 4, codes[:, 3:5].sum(axis=1) % 4
    records, triples = Records(codes, (4,) * 6), list(combinations(range(6), 3))
    wide = priced(records.sizes, triples, 100.0)
    narrow = priced(records.sizes, list(combinations(range(6), 2)), 100.0)
    assert all(any(set(t) <= set(s) for s in wide) for t in triples)
    told = [distance(records, prices, triples) for prices in (wide, narrow)]
    assert told[0] < 0.1 * told[1]


def test_whether_triples_are_bought_depends_on_the_number_of_records_that_is_released():
    sizes, triples = (3,) * 6, list(combinations(range(6), 3))
    few, many = (best_prices(sizes, triples, 1.0, {}, records=n) for n in (1e3, 1e6))
    pairs = best_prices(sizes, list(combinations(range(6), 2)), 1.0, {}, records=1e3)
    assert few == pairs
    assert all(any(set(t) <= set(s) for s in many) for t in triples)


def priced(sizes, scopes, epsilon):
    survey, kind = domain(sizes), MarginalsKind()
    specification = kind.read({"marginals": lists(scopes)}, survey)
    return {w.axes: w.epsilon for w in kind.wanted(specification, survey, [], epsilon=epsilon)}


def distance(records, prices, scopes):
    """Mean L1 distance from the truth of a model's marginals, from tables at these prices."""
    rng, said = np.random.default_rng(11), []
    for scope, price in prices.items():
        noisy = records.counts(scope) + rng.laplace(
            scale=1 / price, size=len(records.counts(scope))
        )
        said.append(NoisyMarginal(scope, noisy, np.array(1 / price)))
    model = estimate(records.sizes, said, total=float(records.n)).distribution
    told = [np.abs(model.marginal(s).ravel() - records.counts(s) / records.n) for s in scopes]
    return np.mean([one.sum() for one in told])


@pytest.mark.parametrize(
    ("sizes", "scopes", "message"),
    [
        ((2,) * 31, list(combinations(range(31), 3)), "at most 4,096 lists"),
        ((256,) * 14, list(combinations(range(14), 2)), "at most 4,194,304 cells together"),
        ((2,) * 18, list(combinations(range(18), 16))[:20], "at most 1,048,576 parts together"),
    ],
)
def test_more_than_a_model_holds_is_refused_with_the_limit(sizes, scopes, message):
    with pytest.raises(InputError, match=message):
        read_scopes(lists(scopes), domain(sizes))


@given(st.data())
def test_candidates_are_the_wanted_marginals_and_their_smallest_unions(data):
    """Against every pair, written out."""
    sizes = tuple(data.draw(st.lists(st.integers(2, 40), min_size=3, max_size=7)))
    scope = st.sets(st.integers(0, len(sizes) - 1), min_size=1, max_size=3)
    found = data.draw(st.lists(scope.map(lambda s: tuple(sorted(s))), unique=True, max_size=12))
    joined = {
        tuple(sorted({*a, *b})) for a, b in combinations(found, 2) if not set(a).isdisjoint(b)
    }
    small = [(prod(sizes[a] for a in s), s) for s in joined - set(found)]
    expected = [s for n, s in sorted(small) if n <= 4096]
    assert candidates(sizes, found) == [*found, *expected]


def test_of_many_unions_the_smallest_three_hundred_are_kept():
    sizes = tuple(2 + i % 3 for i in range(26))
    pairs = list(combinations(range(26), 2))
    unions = {
        tuple(sorted({*a, *b})) for a, b in combinations(pairs, 2) if not set(a).isdisjoint(b)
    }
    ranked = sorted((prod(sizes[a] for a in s), s) for s in unions)
    assert candidates(sizes, pairs) == [*pairs, *(s for _, s in ranked[:300])]


def test_the_work_is_that_of_all_parts_of_all_tables():
    """Every part of every table, counted one by one."""
    sizes, scopes = (2, 3, 4, 5), [(0, 1, 2), (1, 3), (2,)]
    parts = sum(
        prod(sizes[a] for a in part)
        for s in scopes
        for k in range(len(s) + 1)
        for part in combinations(s, k)
    )
    work = marginals_work(sizes, scopes=scopes, bought=[(1, 3)])
    assert (work.n_tables, work.n_cells) == (3, 24 + 15 + 4)
    assert work.memory_bytes == 16 * MIB + 128 * parts
    rounds = 200 * (2e-8 * parts + 1e-5 * 3)
    assert_allclose(work.seconds, rounds + 2.5e-5 * 15, rtol=1e-12)
    exact = marginals_work(sizes, scopes=scopes, bought=[], n_tree_cells=1_000)
    assert exact.memory_bytes - work.memory_bytes == 128_000
    assert_allclose(exact.seconds - rounds, 200 * (2e-8 + 1e-7) * 1_000, rtol=1e-9)
