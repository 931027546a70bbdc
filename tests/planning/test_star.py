"""The best base found: which blocks it may consist of, and when one block alone is taken."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
import pytest

from qserver.planning.blocks.demand import want_of
from qserver.planning.blocks.star import Star, fit_star, least_price, useful_blocks
from qserver.planning.blocks.wants import Want, Wants
from qserver.planning.effort import Effort
from qserver.planning.holdings import Holdings
from qserver.planning.purchase import Purchase
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.requirement import Requirement
from qserver.query.weights import indicator
from tests.benchmarks.hindsight import Blocks, Chain, Target, best_price
from tests.benchmarks.synthetic_noise import Snapshot

SIZES = (3, 4, 5)
ALL = ((0, 1), (1, 1), (2, 1))
HALF_WIDTH, CONFIDENCE = 30.0, 0.95
SETS = {0: (0, 1), 1: (0, 3), 2: (1, 2, 4)}


def rows_on(scopes: Sequence[tuple[int, ...]]) -> list[LinearQuery]:
    return [
        linear_query(SIZES, [(1, {a: indicator(SIZES[a], SETS[a]) for a in scope})])
        for scope in scopes
    ]


def wants_of(holdings: Holdings, rows: Sequence[LinearQuery]) -> list[Want]:
    found = [
        want_of(holdings, primitive(r), half_width=HALF_WIDTH, confidence=CONFIDENCE) for r in rows
    ]
    wants = [w for w in found if w is not None]
    assert len(wants) == len(rows)
    return wants


def dense_of(row: LinearQuery) -> tuple[np.ndarray, ...]:
    (term,) = row.terms
    return tuple(
        np.asarray(term.by_axis[a].dense if a in term.by_axis else np.ones(n), dtype=float)
        for a, n in enumerate(SIZES)
    )


def test_one_block_as_fine_as_all_is_found_where_it_costs_least() -> None:
    """No question has a component on it, yet it is cheaper than the blocks that they have."""
    rows = rows_on([(0, 1), (1, 2), (0, 2)])
    holdings = Snapshot(SIZES).holdings
    star = fit_star(holdings, wants_of(holdings, rows), effort=Effort())
    assert ALL in star.alphas
    blocks = Blocks(tuple(Chain((1, n)) for n in SIZES))
    solved = best_price(blocks, [Target(dense_of(r), HALF_WIDTH) for r in rows], confidence=0.95)
    assert star.price <= solved * 1.02


def test_only_requirements_that_no_other_implies_are_kept() -> None:
    """Which ones those are is told by components, one pair at a time."""
    holdings, random = Snapshot(SIZES).holdings, np.random.default_rng(4)
    rows = rows_on([(), (0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)])
    wants = []
    for row in random.choice(np.array(rows, dtype=object), 60).tolist():
        half_width = float(random.choice([20.0, 25.0, 30.0, 50.0]))
        want = want_of(holdings, primitive(row), half_width=half_width, confidence=CONFIDENCE)
        assert want is not None
        wants.append(want)
    kept, expected = Wants(), list[Want]()
    for want in wants:
        kept.add(want)
        if not any(implies(old, want) for old in expected):
            expected = [old for old in expected if not implies(want, old)] + [want]
    assert kept.wants == expected
    assert len(rows) // 2 < len(expected) < len(wants)


def implies(one: Want, other: Want) -> bool:
    """Whether the variances of all components are as small where the first one is met."""
    ratio = (other.half_width / one.half_width) ** 2 * (1 + 1e-9)
    least = [(one.energies.get(j, 0.0) * ratio, e) for j, e in other.energies.items()]
    return one.octave <= other.octave and all(e <= most for most, e in least)


def test_an_old_base_of_other_blocks_is_no_start() -> None:
    holdings = Snapshot(SIZES).holdings
    wants = wants_of(holdings, rows_on([(0, 1), (1, 2)]))
    old = Star({((0, 1), (2, 1)): 0.3}, 0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fit_star(holdings, wants, old=old, effort=Effort())
    assert found.alphas == fit_star(holdings, wants, effort=Effort()).alphas


def test_a_join_of_too_many_cells_is_no_candidate() -> None:
    sizes = (400, 400)
    holdings = Snapshot(sizes).holdings
    rows = [linear_query(sizes, [(1, {a: indicator(400, [1, 5, 9])})]) for a in (0, 1)]
    star = fit_star(holdings, wants_of(holdings, rows), spare=10.0, effort=Effort())
    assert star.alphas
    assert all(len(block) <= 1 for block in star.alphas)


@pytest.mark.slow
def test_the_finest_block_alone_is_taken_within_what_may_be_spared_for_it_and_not_beyond() -> None:
    scopes = [s for n in (1, 2, 3) for s in combinations(range(3), n)]
    n_taken = n_left = 0
    holdings = Snapshot(SIZES).holdings
    for one, other in product(scopes, scopes):
        wants = wants_of(holdings, rows_on([one, other]))
        cheapest = fit_star(holdings, wants, effort=Effort())
        spared = fit_star(holdings, wants, spare=0.15, effort=Effort())
        assert spared.price <= 1.15 * cheapest.price * (1.0 + 1e-9)
        if len(spared.alphas) == 1 and len(cheapest.alphas) > 1:
            n_taken += 1
        n_left += len(spared.alphas) > 1
        if len(spared.alphas) > 1:
            assert spared.alphas == cheapest.alphas
    assert n_taken
    assert n_left


@pytest.mark.slow
def test_what_is_bought_already_makes_room_for_no_dearer_raise() -> None:
    """The part that may be spared is one of what is still to be paid."""
    scopes = [s for n in (1, 2, 3) for s in combinations(range(3), n)]
    n_with_less_room = 0
    for one, other in product(scopes, scopes):
        snapshot = Snapshot(SIZES)
        (first,) = rows_on([one])
        snapshot.ask(primitive(first), Requirement(2.0 * HALF_WIDTH, CONFIDENCE))
        start = fit_star(snapshot.holdings, wants_of(snapshot.holdings, [first]), effort=Effort())
        tables = snapshot.holdings.tables(snapshot.holdings.raises(start.alphas))
        snapshot.buy(Purchase(tables=tables))
        holdings = snapshot.holdings
        there = sum(holdings.cost_of(b) * a for b, a in holdings.alphas.items())
        wants = wants_of(holdings, rows_on([one, other]))
        cheapest, spared = (
            fit_star(holdings, wants, effort=Effort()),
            fit_star(holdings, wants, spare=0.15, effort=Effort()),
        )
        assert spared.price - there <= 1.15 * (cheapest.price - there) + 1e-9
        n_with_less_room += spared.price > cheapest.price
    assert n_with_less_room


def test_blocks_about_other_attributes_are_of_no_use_to_a_question() -> None:
    """They tell the total, as blocks about its own attributes do; a total may come from any."""
    holdings = Snapshot(SIZES).holdings
    blocks = ((0, 1),), ((1, 1),), ((0, 1), (2, 1)), ()
    star = Star(dict.fromkeys(blocks, 0.1), 0.4)
    about_first, about_all = wants_of(holdings, [*rows_on([(0,)]), linear_query(SIZES, [(1, {})])])
    assert useful_blocks(holdings, star, about_first) == [blocks[0], blocks[2], blocks[3]]
    assert set(useful_blocks(holdings, star, about_all)) == set(blocks)


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95, 0.999])
@pytest.mark.parametrize("scopes", [[(0,)], [(0, 1), (1, 2)]])
def test_no_calibrated_base_is_cheaper_than_the_least_price(
    confidence: float, scopes: Sequence[tuple[int, ...]]
) -> None:
    """At a low confidence a sum of few errors is shorter than a normal one of its variance."""
    holdings = Snapshot(SIZES).holdings
    found = [
        want_of(holdings, primitive(r), half_width=HALF_WIDTH, confidence=confidence)
        for r in rows_on(scopes)
    ]
    wants = [w for w in found if w is not None]
    least = least_price(holdings, wants, enough=np.inf)
    assert 0.0 < least <= fit_star(holdings, wants, effort=Effort()).price
