"""Levels learnt from questions: nested and strict, with what is bought and what was asked."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from qserver.inference.tables.blocks.nested_partitions import Chain, default_chain, single_values
from qserver.planning.blocks.levels import Sightings, learnt_chain, sightings
from qserver.planning.blocks.rent import n_learnt_from
from qserver.query.linear_query import linear_query
from qserver.query.weights import Weights, indicator, interval
from qserver.records.paid_question import PaidQuestion
from tests.sweeps import examples

MOST = 40


@st.composite
def seen(draw: st.DrawFn) -> Sightings:
    size = draw(st.integers(6, MOST))
    counts: dict[Weights, int] = {}
    for _ in range(draw(st.integers(1, 6))):
        chosen = draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=size - 1))
        low, high = min(chosen), max(chosen) + 1
        is_range = draw(st.booleans()) and high - low < size
        weights = interval(size, low, high) if is_range else indicator(size, chosen)
        counts[weights] = draw(st.integers(2, 30))
    return Sightings(size, counts)


def sets_of(chain: Chain) -> list[set[frozenset[int]]]:
    """Per level the real parts as sets of values, read from the slots."""
    width = len(chain.slots)
    found = []
    for k in chain.n_parts:
        step = width // k
        parts = [
            frozenset(v for v in chain.slots[i : i + step] if v >= 0) for i in range(0, width, step)
        ]
        found.append({p for p in parts if p})
    return found


def labels(level: set[frozenset[int]], size: int) -> np.ndarray:
    ordered = sorted(level, key=min)
    return np.array([next(i for i, p in enumerate(ordered) if v in p) for v in range(size)])


@settings(max_examples=examples(150))
@given(seen())
def test_levels_nest_strictly_from_the_total_to_single_values(found: Sightings) -> None:
    chain = learnt_chain(0, found, [])
    if chain is None:
        return
    levels = sets_of(chain)
    assert levels[0] == {frozenset(range(found.size))}
    assert levels[-1] == {frozenset([v]) for v in range(found.size)}
    for coarse, fine in pairwise(levels):
        assert all(any(f <= c for c in coarse) for f in fine)
        assert all(sum(f <= c for f in fine) >= 2 for c in coarse)
    assert chain.is_strict


@settings(max_examples=examples(150))
@given(seen(), seen())
def test_what_is_bought_stays_a_level(first: Sightings, later: Sightings) -> None:
    chain = learnt_chain(0, first, [])
    chain = default_chain(single_values(0, first.size)) if chain is None else chain
    bought = [labels(level, first.size) for level in sets_of(chain)[1:-1]]
    counts = {w: n for w, n in later.counts.items() if w.size == first.size}
    again = learnt_chain(0, Sightings(first.size, {**first.counts, **counts}), bought)
    if again is not None:
        levels = sets_of(again)
        assert all(level in levels for level in sets_of(chain))
        assert again.is_strict


@settings(max_examples=examples(150))
@given(seen())
def test_every_predicate_seen_is_a_union_of_parts_of_the_finest_level(found: Sightings) -> None:
    chain = learnt_chain(0, found, [])
    if chain is None:
        return
    for weights in found.counts:
        assert chain.resolves(weights)
        np.testing.assert_allclose(
            sum(np.repeat(c, len(chain.slots) // len(c)) for c in chain.components(weights))[
                np.array(chain.slots) >= 0
            ],
            weights.dense[[v for v in chain.slots if v >= 0]],
            atol=1e-12,
        )


def test_bands_that_return_are_parts_of_a_level() -> None:
    """Ages from 17 to 90 in bands of ten years: eight parts."""
    bands = [(0, 3), (3, 13), (13, 23), (23, 33), (33, 43), (43, 53), (53, 63), (63, 74)]
    counts = {interval(74, *band): 4 for band in bands}
    chain = learnt_chain(0, Sightings(74, counts), [])
    assert chain is not None
    assert {frozenset(range(*band)) for band in bands} in sets_of(chain)


def test_levels_end_where_questions_do_and_nowhere_else() -> None:
    """The finest level above single values has the parts of the two bands."""
    found = Sightings(74, {interval(74, 13, 23): 3, interval(74, 33, 43): 3})
    chain = learnt_chain(0, found, [])
    assert chain is not None
    bands = [range(13), range(13, 23), range(23, 33), range(33, 43), range(43, 74)]
    assert {frozenset(b) for b in bands} in [set(level) for level in sets_of(chain)]


def test_groups_of_labels_that_return_are_unions_of_parts() -> None:
    groups = [(0, 5, 9), (1, 2, 7, 8), (0, 5, 9, 3, 11)]
    counts = {indicator(16, g): 5 for g in groups}
    chain = learnt_chain(0, Sightings(16, counts), [])
    assert chain is not None
    middle = sets_of(chain)[-2]
    for group in groups:
        assert all(p <= set(group) or not p & set(group) for p in middle)


def test_where_every_bound_is_new_there_is_nothing_to_learn() -> None:
    generator = random.Random(8)
    counts = {interval(1000, *sorted(generator.sample(range(1, 1000), 2))): 1 for _ in range(60)}
    found = Sightings(1000, counts)
    assert found.novelty > 0.8
    assert learnt_chain(0, found, []) is None


def test_ranges_that_tell_nearly_all_values_apart_leave_regular_levels() -> None:
    """Every bound of forty values was seen six times or more, and none is new."""
    counts = {interval(40, low, low + 3): 3 for low in range(37)}
    found = Sightings(40, counts)
    assert found.novelty < 0.1
    assert learnt_chain(0, found, []) is None


def test_novelty_is_the_share_of_bounds_seen_once_with_room_for_chance() -> None:
    """Bounds 2 (five times), 6 (three times), 8 and 9 (once each); four new ones are counted in."""
    found = Sightings(12, {interval(12, 2, 6): 3, interval(12, 2, 8): 1, interval(12, 2, 9): 1})
    assert found.cuts == {2: 5, 6: 3, 8: 1, 9: 1}
    assert found.novelty == (2 + math.sqrt(2) + 4) / (10 + 4)


def test_sightings_count_every_attribute_of_every_paid_question() -> None:
    sizes = (8, 6)
    both = linear_query(sizes, [(1, {0: interval(8, 0, 3), 1: interval(6, 2, 5)})])
    one = linear_query(sizes, [(1, {0: interval(8, 0, 3)})])
    found = sightings([PaidQuestion(row, 1.0, 0.9, "fresh", 1) for row in (both, one, one)])
    assert found[0].counts == {interval(8, 0, 3): 3}
    assert found[1].counts == {interval(6, 2, 5): 1}


def test_levels_are_looked_at_anew_ever_more_rarely() -> None:
    looked = sorted({n_learnt_from(n) for n in range(10_000)})
    assert looked[:14] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20]
    assert looked[-1] == 512
    assert all(n_learnt_from(n) <= n for n in range(3_000))
