"""Whether a query lies in the row space: the exact test, and what fools a known prime."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qserver.inference.rows.echelon import Echelon
from qserver.inference.rows.estimability import SpanTest
from qserver.inference.rows.factored_rows import FactoredRows
from qserver.inference.rows.modular import PRIME_BITS
from qserver.inference.rows.rational import simple_rationals
from qserver.query.linear import LinearQuery, linear_query, total_query
from qserver.query.primitive import primitive
from qserver.query.weights import indicator, interval
from tests.inference.histories import (
    combination,
    dense,
    engine,
    is_estimable,
    measured,
    random_query,
)
from tests.inference.rows.exact import in_span, rank
from tests.query.dense_weights import scaled_weights

KNOWN_PRIME = 67_108_859
MILLION_MILLION_CELLS = (1000,) * 4


class Scripted:
    """Entropy that first says `prime` wherever a prime of 26 bits is drawn."""

    def __init__(self, prime: int) -> None:
        self._prime = prime
        self._rest = random.Random(0)

    def randrange(self, start: int, stop: int) -> int:
        if stop == 1 << PRIME_BITS:
            return self._prime
        return self._rest.randrange(start, stop)


def _independent(queries: list[LinearQuery]) -> list[LinearQuery]:
    chosen: list[LinearQuery] = []
    for query in queries:
        if rank([dense(q) for q in [*chosen, query]]) > len(chosen):
            chosen.append(query)
    return chosen


def _rows(queries: list[LinearQuery]) -> FactoredRows:
    rows = FactoredRows(queries[0].sizes)
    for query in queries:
        rows.add(query)
    return rows


@given(st.integers(0, 10**9))
@settings(max_examples=60)
def test_the_span_test_agrees_with_elimination_in_fractions(seed):
    rng = random.Random(seed)
    sizes = (3, 2, 2)
    queries = _independent([random_query(rng, sizes) for _ in range(rng.randint(1, 9))])
    asked = [random_query(rng, sizes) for _ in range(4)]
    asked += [q for q in (combination(rng, queries) for _ in range(3)) if q is not None]
    span, rows = SpanTest(sizes, rng), _rows(queries)
    for query in asked:
        assert span.contains(rows, query) == in_span([dense(q) for q in queries], dense(query))


@given(st.integers(0, 10**9))
@settings(max_examples=40)
def test_the_engine_decides_like_elimination_in_fractions_while_history_grows(seed):
    rng = random.Random(seed)
    sizes = (3, 4)
    queries = [random_query(rng, sizes) for _ in range(rng.randint(2, 14))]
    inference = engine(sizes, [], seed=seed)
    for number, query in enumerate(queries):
        inference.extend([measured(number, query)])
        asked = rng.choice([combination(rng, queries[: number + 1]), random_query(rng, sizes)])
        if asked is None:
            continue
        expected = in_span([dense(q) for q in queries[: number + 1]], dense(asked))
        assert is_estimable(inference, primitive(asked)) == expected


@pytest.mark.parametrize("n_rows", [63, 64, 65, 128, 200])
def test_rows_that_fill_blocks_exactly_or_almost_are_found_in_their_span(n_rows):
    sizes = (400,)
    rng = random.Random(n_rows)
    queries = [linear_query(sizes, [(1, {0: interval(400, i, 2 * i + 1)})]) for i in range(n_rows)]
    echelon, rows = Echelon(sizes, rng), FactoredRows(sizes)
    for start in range(0, n_rows, 50):
        # In pieces, so that blocks are opened, half filled and completed.
        for query in queries[start : start + 50]:
            rows.add(query)
        echelon.extend(rows)
    inside = sum((q.scaled(i + 1) for i, q in enumerate(queries)), start=queries[0].scaled(0))
    assert echelon.contains(inside)
    assert not echelon.contains(inside + linear_query(sizes, [(1, {0: indicator(400, [399])})]))


def test_a_total_of_a_million_million_cells_is_told_from_the_same_without_one():
    cell = linear_query(MILLION_MILLION_CELLS, [(1, {a: indicator(1000, [5]) for a in range(4)})])
    total = total_query(MILLION_MILLION_CELLS)
    inference = engine(MILLION_MILLION_CELLS, [measured(0, total, answer=10**6)])
    assert is_estimable(inference, primitive(total))
    assert not is_estimable(inference, primitive(total - cell))
    inference.extend([measured(1, total - cell, answer=10**6)])
    assert is_estimable(inference, primitive(cell))
    estimate = inference.estimate(primitive(cell), confidence=0.9)
    assert estimate is not None
    assert dict(estimate.weights) == {0: 1.0, 1: -1.0}


def _forgery() -> tuple[LinearQuery, LinearQuery]:
    """A row and a query that is no multiple of it, but is one modulo the known prime."""
    row = linear_query((3,), [(1, {0: scaled_weights([1, KNOWN_PRIME, 0])})])
    return row, linear_query((3,), [(1, {0: scaled_weights([1, 0, 0])})])


def test_a_forgery_fools_the_prime_that_it_was_made_for():
    row, query = _forgery()
    echelon = Echelon((3,), Scripted(KNOWN_PRIME))
    echelon.extend(_rows([row]))
    assert echelon.contains(query)


@pytest.mark.parametrize("seed", range(20))
def test_a_forgery_does_not_fool_a_prime_that_it_was_not_made_for(seed):
    row, query = _forgery()
    echelon = Echelon((3,), random.Random(seed))
    echelon.extend(_rows([row]))
    assert not echelon.contains(query)


def test_a_prime_that_divides_a_denominator_is_replaced():
    query = linear_query((2,), [(Fraction(1, KNOWN_PRIME), {0: scaled_weights([1, 0])})])

    class Once(Scripted):
        """Says the known prime for the first two primes, random ones afterwards."""

        calls = 0

        def randrange(self, start: int, stop: int) -> int:
            self.calls += stop == 1 << PRIME_BITS
            if self.calls > 2:
                return self._rest.randrange(start, stop)
            return super().randrange(start, stop)

    span = SpanTest((2,), Once(KNOWN_PRIME))
    assert span.contains(_rows([query]), query.scaled(3))


def test_entropy_decides_the_prime_and_two_processes_differ():
    primes = {Echelon((2,), random.Random(seed))._field.p for seed in range(30)}
    assert len(primes) > 25


def test_a_claimed_combination_is_confirmed_only_if_it_is_exact():
    queries = [
        linear_query((9,), [(1, {0: interval(9, a, b)})]) for a, b in ((0, 3), (2, 7), (5, 9))
    ]
    span, rows = SpanTest((9,), random.Random(1)), _rows(queries)
    query = queries[0].scaled(Fraction(1, 2)) - queries[2].scaled(Fraction(2, 3))
    claim = simple_rationals(claimed := _floats([Fraction(1, 2), 0, Fraction(-2, 3)]))
    assert claim is not None
    assert claim.denominator == 6
    assert span.confirms(rows, query, claim)
    claimed[1] = 1.0
    wrong = simple_rationals(claimed)
    assert wrong is not None
    assert not span.confirms(rows, query, wrong)


def test_weights_that_are_no_simple_fractions_are_not_made_so():
    assert simple_rationals(_floats([0.5, 2**0.5, 3**0.5, 5**0.5])) is None


def _floats(values):
    return np.array([float(v) for v in values])
