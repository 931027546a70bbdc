"""The standing of a snapshot against what a single person can have lost."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import StoreError
from qserver.ledger.population import Pair, PopulationLoss
from qserver.records.charge import Standing
from qserver.records.codec import plain

pytestmark = [
    pytest.mark.promise(
        "Guard rails",
        "`spent` is what the worst person can have lost over datasets, snapshots and declared "
        "pairs",
    ),
]

NAMES = [f"s{i}" for i in range(6)]
SHARES = st.fixed_dictionaries({name: st.integers(0, 40) for name in NAMES})
PAIRS = st.sets(st.sampled_from(list(itertools.combinations(NAMES, 2)))).map(frozenset)


def standing(loss: PopulationLoss, *, limit: int = 1000) -> Standing:
    """The figures that the store would have for the first snapshot."""
    return Standing(limit, loss.spent_nano, loss.lost_nano("s0"), loss.shares["s0"])


@given(SHARES, PAIRS, st.integers(0, 100))
def test_a_spend_moves_every_figure_as_the_definition_does(
    shares: dict[str, int], pairs: frozenset[Pair], more: int
) -> None:
    after = shares["s0"] + more
    moved = PopulationLoss({**shares, "s0": after}, pairs)
    assert standing(PopulationLoss(shares, pairs)).after(after) == standing(moved)


@given(SHARES, PAIRS, st.integers(0, 300), st.integers(0, 300))
def test_what_is_allowed_is_the_most_that_keeps_limit_and_guard(
    shares: dict[str, int], pairs: frozenset[Pair], more: int, guard: int
) -> None:
    loss = PopulationLoss(shares, pairs)
    now = standing(loss, limit=loss.spent_nano + 50)
    then = now.after(now.share_nano + more + 1)
    assert (then.spent_nano <= then.limit_nano) == (then.share_nano <= now.allowed_nano())
    kept = then.spent_nano <= then.limit_nano and then.lost_nano <= guard
    assert kept == (then.share_nano <= now.allowed_nano(guard))
    assert now.allowed_nano(guard) >= now.share_nano


def test_nothing_is_left_where_more_than_the_limit_was_lost() -> None:
    """As where an earlier version charged too little."""
    over = Standing(100, 190, 190, 95)
    assert (over.remaining_nano, over.allowed_nano()) == (0, 95)
    assert Standing(100, 190, 20, 20).remaining_nano == 0


def test_a_part_that_exceeds_its_whole_is_refused() -> None:
    for figures in [(5, 5, 6), (5, 6, 5), (5, 5, -1)]:
        with pytest.raises(StoreError, match="contradicts itself"):
            Standing(1000, *figures)


def test_a_standing_with_cohorts_is_read_as_what_its_people_had_lost() -> None:
    """Jobs that an earlier version had charged are still settled."""
    old = {"limit_nano": 9, "spent_nano": 7, "lineage_nano": 5, "cohort_nano": 3, "share_nano": 2}
    assert Standing.from_plain(old) == Standing(9, 7, 5, 2)
    assert Standing.from_plain(plain(Standing(9, 7, 5, 2))) == Standing(9, 7, 5, 2)
