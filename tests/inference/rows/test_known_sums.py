"""Known sums of rows: solved once for all questions that they bear on, until a row comes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from qserver.inference.disagreement.known_sums import KnownSums
from qserver.inference.disagreement.law_by_cheapest_method import law_given
from qserver.inference.rows.rows_in_play import RowsInPlay
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.weights import interval
from qserver.records.history import Measurement
from tests.inference.histories import measured

SIZE = 12
ENDS = [(i, k) for i in range(0, SIZE, 2) for k in range(i + 2, SIZE + 1, 2)]
"""All ranges of pairs of values."""


def _row(low: int, high: int) -> LinearQuery:
    return linear_query((SIZE,), [(1, {0: interval(SIZE, low, high)})])


def _measured(ends: Iterable[tuple[int, int]], *, first: int = 0) -> list[Measurement]:
    rng = np.random.default_rng(4)
    return [
        measured(i, _row(*pair), scale=2, answer=Fraction(int(rng.integers(0, 9))))
        for i, pair in enumerate(ends, start=first)
    ]


def _in_play(made: Iterable[Measurement]) -> RowsInPlay:
    found = RowsInPlay(max_rows=100, most_records=1_000)
    for one in made:
        found.note(one)
    found.catch_up()
    return found


def _sums(rows: RowsInPlay, low: int, high: int) -> KnownSums:
    found = rows.combinations(_row(low, high), least=True)
    assert found is not None
    pairs = zip(found.noise.ids.tolist(), found.least.tolist(), strict=True)
    return rows.known_sums(tuple(pairs))


def test_questions_of_the_same_rows_share_what_was_solved() -> None:
    rows = _in_play(_measured(ENDS))
    one, other = _sums(rows, 0, 4), _sums(rows, 2, 10)
    assert one.solved is not None
    assert one.solved is other.solved
    for known in (one, other):
        shared, alone = known.reduced(), replace(known, solved=None).reduced()
        assert shared.n_disagreements == alone.n_disagreements > 0
        assert float(shared.shift) == pytest.approx(float(alone.shift), abs=1e-9)
        found, expected = law_given(shared), law_given(alone)
        assert found.places == pytest.approx(expected.places, rel=1e-9)
        assert found.below == pytest.approx(expected.below, abs=1e-12)


@pytest.mark.parametrize("is_tried", [False, True])
def test_a_new_row_is_one_more_disagreement(is_tried: bool) -> None:
    rows = _in_play(_measured(ENDS))
    before = _sums(rows, 0, 4)
    after = rows.tried() if is_tried else rows
    two = linear_query((SIZE,), [(1, {0: interval(SIZE, i, i + 2)}) for i in (0, 6)])
    after.note(measured(len(ENDS), two, scale=2, answer=5))
    after.catch_up()
    now = _sums(after, 0, 4)
    assert now.solved is not before.solved
    assert now.reduced().n_disagreements == before.reduced().n_disagreements + 1
    if is_tried:
        assert _sums(rows, 0, 4).solved is before.solved


def test_rows_that_share_nothing_have_sums_of_their_own() -> None:
    low, high = [(0, 2), (2, 4), (0, 4)], [(6, 8), (8, 10), (6, 10)]
    rows = _in_play(_measured([*low, *high]))
    one, other = _sums(rows, 0, 2), _sums(rows, 6, 8)
    assert one.solved is not other.solved
    assert one.reduced().n_disagreements == other.reduced().n_disagreements == 1
