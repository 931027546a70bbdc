"""Where some combinations of attributes return and others never do, those that return count."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from qserver.planning.blocks import scopes
from qserver.planning.blocks.rent import step_of
from qserver.planning.blocks.rent_or_buy import RentOrBuy
from qserver.planning.constants import PLANNER
from qserver.query.linear_query import linear_query
from qserver.query.primitive import primitive
from qserver.query.requirement import Requirement
from qserver.query.weights import interval
from tests.benchmarks.many_attributes import played_by
from tests.benchmarks.many_streams import MANY_STREAMS, ManyStream, returning
from tests.benchmarks.streams import Asked
from tests.benchmarks.synthetic_noise import Snapshot

SIZES = (8,) * 8
STREAM = ManyStream(
    "one pair of 8 and others",
    SIZES,
    partial(returning, sizes=SIZES, ordered=frozenset(range(8)), n_kept=1, share=0.6),
    repeats=True,
)


def pairs(generator: random.Random) -> Iterator[Asked]:
    """Values of two of 40 attributes, all at one length."""
    while True:
        values = {a: generator.randrange(2) for a in generator.sample(range(40), 2)}
        axes = {a: interval(2, v, v + 1) for a, v in values.items()}
        row = linear_query(PAIRS.sizes, [(1, axes)])
        yield Asked(primitive(row), Requirement(200.0, 0.95))


PAIRS = ManyStream("pairs of 40", (2,) * 40, pairs)
(SETS,) = (s for s in MANY_STREAMS if s.name == "sets on 3 of 30")


@pytest.mark.slow
def test_blocks_for_what_returns_win_among_questions_that_never_return() -> None:
    asked = STREAM.questions(21, 160)
    spent = played_by(STREAM, asked, rule=RentOrBuy()).spent
    by_rows = played_by(STREAM, asked, rule=None).spent
    assert spent[-1] < 0.9 * by_rows[-1]


@pytest.mark.slow
def test_a_scope_is_known_alike_whether_it_was_followed_or_is_met_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One process follows each scope question by question; the other forgets all but one."""
    snapshot = Snapshot(SIZES, rule=RentOrBuy())
    tables = 0
    for asked in STREAM.questions(22, 60):
        plan = snapshot.plan(asked.query, asked.requirement)
        tables += len(plan.tables)
        with monkeypatch.context() as patch:
            patch.setattr(scopes, "PLANNER", replace(PLANNER, kept=1))
            again = snapshot.replayed().plan(asked.query, asked.requirement)
        assert _bare(again) == _bare(plan)
        snapshot.carry_out(plan, asked.query)
    assert tables > 0


@pytest.mark.slow
@pytest.mark.parametrize("stream", [SETS, PAIRS], ids=lambda s: s.name)
def test_bases_that_no_question_may_use_are_written_down_now_and_then(stream: ManyStream) -> None:
    """These attributes do not return, so that a base's price is all that is wanted of it."""
    snapshot, at = Snapshot(stream.sizes, rule=RentOrBuy()), defaultdict[int, list[int]](list)
    for asked in stream.questions(23, 50):
        plan = snapshot.plan(asked.query, asked.requirement)
        for base in (base for paid in plan.paid for base in paid.bases):
            at[base.octave].append(len(snapshot.paid))
        snapshot.carry_out(plan, asked.query)
    every = [n for of_class in at.values() for n in of_class]
    assert len(every) > 9
    assert len(every) == len(set(every))  # one a question
    for of_class in at.values():
        assert all(step_of(n) > before for before, n in pairwise(of_class))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [9101, 8802])
def test_what_is_risked_for_a_question_was_asked_before(seed: int) -> None:
    """The fifth of these questions, and the fourteenth, bought blocks that no other one needed."""
    (child,) = (s for s in MANY_STREAMS if s.name.startswith("child"))
    asked = child.questions(seed, 14)
    spent = played_by(child, asked, rule=RentOrBuy()).spent
    by_rows = played_by(child, asked, rule=None).spent
    assert all(s <= 1.1 * r for s, r in zip(spent, by_rows, strict=True))


def _bare(plan: Any) -> Any:
    return replace(plan, estimate=None)
