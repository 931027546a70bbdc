"""Rows in play that go on from what was saved: the same weights, to the last bit."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qserver.answering.checkpoint import CheckpointFolder
from qserver.inference.corners import base
from qserver.inference.corners.vectors import CornerNames
from qserver.inference.rows import rows_in_play
from qserver.inference.rows.blue import Combinations
from qserver.inference.rows.factors import Play
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.weights import indicator, interval
from qserver.records.history import Measurement
from tests.benchmarks.workloads import QuerySource, measurements_of
from tests.inference.corners.rows_on_trial import Trial, trial

pytestmark = [
    pytest.mark.promise(
        "Faults and races",
        "a process that goes on from a checkpoint prices, plans and answers as one that replayed,"
        " to the last bit; what came after is appended; one that is damaged, another's, of other "
        "code or ahead of the store is ignored",
    ),
]

SIZES = (6, 5, 4)


def _queries(n: int, seed: int) -> list[LinearQuery]:
    source = QuerySource.seeded(SIZES, seed)
    return [source.predicate(1 + i % 3) if i % 2 else source.box() for i in range(n)]


def _resumed(saved: Trial, folder: Path, rows: Sequence[Measurement], **limits: Any) -> Trial:
    files = CheckpointFolder(folder)
    files.keep("s", "rows", saved.rows.state())
    state = files.load("s")
    assert state is not None
    found = Trial(**limits)
    for row in rows:
        found.rows.note(row)
    found.rows.restore(state, SIZES)
    found.rows.catch_up()
    return found


def _same(one: Combinations | None, other: Combinations | None) -> bool:
    if one is None or other is None:
        return one is other
    pairs = ((one.least, other.least), (one.directions, other.directions))
    same = all(np.array_equal(a, b) for a, b in pairs) and one.error == other.error
    return same and np.array_equal(one.noise.ids, other.noise.ids)


@pytest.mark.parametrize("is_large", [False, True])
def test_the_same_rows_give_the_same_weights(
    is_large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of sparse parts, of small ones, and of a dense part whose factor is kept."""
    if is_large:
        monkeypatch.setattr(base, "_SMALL", 5)
    rows = measurements_of(_queries(160, 3), seed=4)
    first = trial(rows)
    factors = [name for name in first.rows.state().arrays if "factor" in name]
    assert bool(factors) is is_large
    found = _resumed(first, tmp_path, rows)
    for query in [*(r.row for r in rows[::9]), *_queries(40, 9)]:
        assert _same(first.combinations(query), found.combinations(query))


def test_what_came_since_is_taken_in(tmp_path: Path) -> None:
    """New rows, and refinements of old ones, some of them before the rows were saved."""
    rows = measurements_of(_queries(90, 5), seed=6)
    raised = [replace(m, alpha_nano=3 * m.alpha_nano, index=m.index + 1) for m in rows]
    first = trial(rows[:60])
    first.extend([raised[3], *rows[60:70]])
    found = _resumed(first, tmp_path, [*rows[:3], raised[3], *rows[4:80], raised[62]])
    anew = trial([*rows[:3], raised[3], *rows[4:62], raised[62], *rows[63:80]])
    for query in (r.row for r in rows[:80:7]):
        one, other = found.combinations(query), anew.combinations(query)
        assert one is not None
        assert other is not None
        spread = [np.linalg.norm(c.least * c.noise.scales) for c in (one, other)]
        np.testing.assert_allclose(spread[0], spread[1], rtol=1e-9)


def test_rows_beyond_the_cap_stay_out_of_play(tmp_path: Path) -> None:
    rows = measurements_of(_queries(60, 7), seed=8)
    first = trial(rows, max_rows=20)
    found = _resumed(first, tmp_path, rows, max_rows=20)
    for row in rows:
        assert _same(first.combinations(row.row), found.combinations(row.row))
        weights = ((row.id, 1.0),)
        assert found.polished(row.row, weights) == first.polished(row.row, weights)


def test_a_factoring_that_fails_in_its_thread_fails_no_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rows_in_play, "_MOST_LATER", 5)
    monkeypatch.setattr(rows_in_play, "_MOST_AT_ONCE", 10)
    rows = measurements_of(_queries(60, 13), seed=14)
    found, expected = trial(rows[:30]), trial(rows)

    def fail(*_args: object) -> Play:
        raise np.linalg.LinAlgError("singular")

    with monkeypatch.context() as failing:
        failing.setattr(Play, "of", fail)
        for row in rows[30:]:
            found.extend([row])
            found.rows.wait()
    for row in rows[::5]:
        one, other = found.combinations(row.row), expected.combinations(row.row)
        assert one is not None
        assert other is not None
        spread = [np.linalg.norm(c.least * c.noise.scales) for c in (one, other)]
        np.testing.assert_allclose(spread[0], spread[1], rtol=1e-9)


def test_names_go_on_with_the_next_number() -> None:
    """New corners after a restart are not taken for saved ones."""
    rows = _queries(50, 11)
    names = CornerNames()
    for row in rows[:30]:
        names.of_row(row)
    again = CornerNames.from_state(names.state(), SIZES)
    assert len(again) == len(names)
    for row in rows:
        unknown = again.of_query(row).ids.min(initial=0) < 0
        assert unknown == (names.of_query(row).ids.min(initial=0) < 0)
        assert np.array_equal(names.of_row(row).ids, again.of_row(row).ids)
    assert len(again) == len(names)


def test_a_row_of_too_many_corners_is_known_again() -> None:
    sizes = (40, 40, 40)
    generator = random.Random(1)
    halves = {a: indicator(40, generator.sample(range(40), 20)) for a in range(3)}
    row, names = linear_query(sizes, [(1, halves)]), CornerNames()
    (number,) = names.of_row(row).ids
    again = CornerNames.from_state(names.state(), sizes)
    assert again.of_query(row).ids.tolist() == [number]


def test_corners_stay_apart_however_many_there_are() -> None:
    """With 2^24 corners an edge from the last of them was taken for one from the root."""
    names = CornerNames()
    names._children._later = defaultdict(count(1 << 24).__next__)
    one, other = interval(6, 0, 3), interval(5, 0, 2)
    both = names.of_row(linear_query(SIZES, [(1, {0: one, 1: other})]))
    alone = names.of_row(linear_query(SIZES, [(1, {1: other})]))
    assert not {*both.ids.tolist()} & {*alone.ids.tolist()}
