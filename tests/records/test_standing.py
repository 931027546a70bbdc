"""The standing of a snapshot against what a single person can have lost, by brute force."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import StoreError
from qserver.records.standing import Standing

LIMIT = 1000


@dataclass(frozen=True)
class Place:
    """A snapshot: which cohort of which lineage, and what it has spent."""

    lineage: int
    cohort: int
    share: int


PLACES = st.lists(
    st.builds(Place, st.integers(0, 2), st.integers(0, 2), st.integers(0, 40)),
    min_size=1,
    max_size=8,
)


def worst_person(places: list[Place], chosen: int | None = None) -> int:
    """The most that a person can have lost, who is in one cohort of each lineage at most.

    Args:
        chosen: the place of a snapshot that the person is in; None for any person.
    """
    lineages: dict[int, set[int]] = defaultdict(set)
    for place in places:
        lineages[place.lineage].add(place.cohort)
    if chosen is not None:
        lineages[places[chosen].lineage] = {places[chosen].cohort}
    worst = 0
    for lineage, cohorts in lineages.items():
        worst += max(
            sum(p.share for p in places if (p.lineage, p.cohort) == (lineage, cohort))
            for cohort in cohorts
        )
    return worst


def standing(places: list[Place], i: int) -> Standing:
    """The figures that the store would have for the snapshot at place `i`."""
    mine = places[i]
    cohorts: dict[int, int] = defaultdict(int)
    for p in places:
        if p.lineage == mine.lineage:
            cohorts[p.cohort] += p.share
    dearest = max(cohorts.values())
    return Standing(LIMIT, worst_person(places), dearest, cohorts[mine.cohort], mine.share)


@given(PLACES, st.data())
def test_spent_and_lost_are_what_the_worst_person_has_lost(
    places: list[Place], data: st.DataObject
) -> None:
    i = data.draw(st.integers(0, len(places) - 1))
    assert standing(places, i).lost_nano == worst_person(places, i)


@given(PLACES, st.data(), st.integers(0, 100))
def test_a_spend_moves_every_figure_as_the_definition_does(
    places: list[Place], data: st.DataObject, more: int
) -> None:
    i = data.draw(st.integers(0, len(places) - 1))
    moved = Place(places[i].lineage, places[i].cohort, places[i].share + more)
    after = [*places[:i], moved, *places[i + 1 :]]
    assert standing(places, i).after(moved.share) == standing(after, i)


@given(PLACES, st.data(), st.integers(0, 300), st.integers(0, 300))
def test_what_is_allowed_is_the_most_that_keeps_limit_and_guard(
    places: list[Place], data: st.DataObject, more: int, guard: int
) -> None:
    """Just the shares up to it keep the worst person under the limit, and the cohort's cells."""
    i = data.draw(st.integers(0, len(places) - 1))
    limit = worst_person(places) + 50
    now = standing(places, i)
    now = Standing(limit, now.spent_nano, now.lineage_nano, now.cohort_nano, now.share_nano)
    then = now.after(now.share_nano + more)
    assert (then.spent_nano <= limit) == (then.share_nano <= now.allowed_nano())
    kept = then.spent_nano <= limit and then.cohort_nano <= guard
    assert kept == (then.share_nano <= now.allowed_nano(guard))


def test_a_part_that_exceeds_its_whole_is_refused() -> None:
    for figures in [(5, 5, 5, 6), (5, 5, 6, 5), (5, 6, 5, 5), (5, 5, 5, -1)]:
        with pytest.raises(StoreError, match="contradicts itself"):
            Standing(LIMIT, *figures)
