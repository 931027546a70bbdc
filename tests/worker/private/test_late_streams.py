"""Streams in which records come late: what is kept is still of their person and the past alone."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.query.domain import Attribute, Domain
from qserver.records.dataset import Growth
from tests.worker.private.test_causal import KEY, RULES, Record, kept, one_by_one
from worker.coding.tally import Tally
from worker.owner.arrivals.findings import Late
from worker.owner.arrivals.part import Arriving, in_time
from worker.private.content_digests import Content
from worker.private.people import People
from worker.private.snapshot import Records
from worker.private.truncation import PeriodRule

N_PERIODS = 5
DOMAIN = Domain(
    (
        Attribute("t", "period", labels=tuple("abcde")),
        Attribute("a", "labels", labels=tuple("wxyz")),
    )
)
Arrival = tuple[str, int, int, int]
"""Person, period, value, and by how many parts it comes late."""
STREAMS = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob"]), st.integers(0, 4), st.integers(0, 3), st.integers(0, 2)
    ),
    max_size=30,
)
LATE = st.sampled_from(["drop", "move"])


def parts_of(stream: list[Arrival], late: Late) -> list[list[Record]]:
    """What each part, of one period, holds before any of a person is left out."""
    found = []
    for t in range(N_PERIODS):
        file = [r for r in stream if min(r[1] + r[3], N_PERIODS - 1) == t]
        codes = tuple(np.array([r[i] for r in file], dtype=np.int64) for i in (1, 2))
        people = People.of_texts([r[0] for r in file])
        arriving = Arriving(DOMAIN, Growth("t", 99), None, KEY, (), t, t + 1, late=late)
        read, n_late = in_time(Records(codes, people, Content(), Tally.of(DOMAIN)), arriving)
        assert n_late == sum(r[1] < t for r in file)
        assert read.people is not None
        names = [read.people.text(i) for i in read.people.who]
        columns = zip(names, *read.codes, strict=True)
        found.append([(str(who), int(p), int(a)) for who, p, a in columns])
    return found


def stored(stream: list[Arrival], rule: PeriodRule, late: Late) -> list[Counter[Record]]:
    """The kept records of each part, each told what the parts before have kept of a person."""
    found, so_far = list[Counter[Record]](), Counter[str]()
    for part in parts_of(stream, late):
        stays = kept(part, rule, so_far)
        so_far.update(who for who, _, _ in stays)
        found.append(Counter(stays))
    return found


@pytest.mark.slow
@given(STREAMS, RULES, LATE)
def test_a_part_holds_its_own_period_alone(
    stream: list[Arrival], rule: PeriodRule, late: Late
) -> None:
    """A sealed period is never added to."""
    for t, part in enumerate(stored(stream, rule, late)):
        assert {p for _, p, _ in part} <= {t}


@given(STREAMS, RULES, LATE)
def test_it_is_the_rule_on_the_stream_in_time(
    stream: list[Arrival], rule: PeriodRule, late: Late
) -> None:
    """As if each late record had been of the period that counts it, or had never been."""
    whole = [record for part in parts_of(stream, late) for record in part]
    assert sum(stored(stream, rule, late), Counter()) == one_by_one(whole, rule)
    n_late = sum(r[3] > 0 and r[1] < N_PERIODS - 1 for r in stream)
    assert len(whole) == len(stream) - (n_late if late == "drop" else 0)


@given(STREAMS, RULES, LATE)
def test_streams_that_differ_by_a_person_differ_in_as_many_records_as_are_charged(
    stream: list[Arrival], rule: PeriodRule, late: Late
) -> None:
    """Ann's kept records alone: at most m of a period and k in all, late ones counted in."""
    whole = sum(stored(stream, rule, late), Counter())
    without = sum(stored([r for r in stream if r[0] != "ann"], rule, late), Counter())
    gone = whole - without
    assert not without - whole
    assert all(who == "ann" for who, _, _ in gone)
    assert max(Counter(p for _, p, _ in gone.elements()).values(), default=0) <= rule.most
    assert rule.in_all is None or gone.total() <= rule.in_all


@given(STREAMS, STREAMS, RULES, LATE, st.integers(0, N_PERIODS))
def test_what_comes_later_changes_no_sealed_part(
    stream: list[Arrival], others: list[Arrival], rule: PeriodRule, late: Late, n: int
) -> None:
    """Also if it is late, and so of the sealed periods."""

    def until(arrivals: list[Arrival]) -> list[Arrival]:
        return [r for r in arrivals if min(r[1] + r[3], N_PERIODS - 1) < n]

    later = [r for r in others if min(r[1] + r[3], N_PERIODS - 1) >= n]
    one, other = stored(stream, rule, late), stored(until(stream) + later, rule, late)
    assert one[:n] == other[:n]
