"""What is kept of a person in a stream: m a period, k in all, and never by what comes later."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import ConfigError
from worker.private.people import People
from worker.private.truncation import Kept, PeriodRule, kept_by_period, kept_records, ranked

pytestmark = [
    pytest.mark.promise(
        "Guard rails",
        "of data with periods m records of a person stay in a period and k in all; what comes "
        "later changes no earlier period, and nobody else's records",
    ),
]

KEY = b"k" * 32
Record = tuple[str, int, int]
"""Person, period and value."""
PEOPLE = ["", "ann", "bob", "eve"]
RECORDS = st.lists(
    st.tuples(st.sampled_from(PEOPLE), st.integers(0, 4), st.integers(0, 3)), max_size=40
)
RULES = st.builds(
    PeriodRule, st.just(0), st.integers(1, 3), st.one_of(st.none(), st.integers(1, 5))
)


def found_of(
    records: Sequence[Record], rule: PeriodRule, earlier: Mapping[str, int] | None = None
) -> Kept:
    people = People.of_texts([person for person, _, _ in records])
    codes = [np.array([r[i] for r in records], dtype=np.int64) for i in (1, 2)]
    return kept_by_period(people, codes, rule=rule, key=KEY, earlier=earlier or {})


def kept(
    records: Sequence[Record], rule: PeriodRule, earlier: Mapping[str, int] | None = None
) -> list[Record]:
    mask = found_of(records, rule, earlier).mask.tolist()
    return [record for record, stays in zip(records, mask, strict=True) if stays]


def one_by_one(records: Sequence[Record], rule: PeriodRule) -> Counter[Record]:
    """By definition: period after period, person after person."""
    found, so_far = Counter[Record](), Counter[str]()
    by_group = defaultdict[tuple[int, str], list[Record]](list)
    for record in records:
        by_group[record[1], record[0]].append(record)
    for (_, person), mine in sorted(by_group.items()):
        if not person:
            continue
        room = len(mine) if rule.in_all is None else max(0, rule.in_all - so_far[person])
        texts = [np.array(r[1:], dtype=">i8").tobytes() for r in mine]
        chosen = ranked(person, texts, KEY)[: min(rule.most, room)]
        found.update(mine[i] for i in chosen)
        so_far[person] += len(chosen)
    return found


@given(RECORDS, RULES)
def test_it_is_the_rule_period_by_period(records: list[Record], rule: PeriodRule) -> None:
    assert Counter(kept(records, rule)) == one_by_one(records, rule)


@given(RECORDS, RULES)
def test_nobody_keeps_more_than_allowed_and_the_counts_add_up(
    records: list[Record], rule: PeriodRule
) -> None:
    stayed = kept(records, rule)
    assert max(Counter(r[:2] for r in stayed).values(), default=0) <= rule.most
    in_all = max(Counter(r[0] for r in stayed).values(), default=0)
    assert rule.in_all is None or in_all <= rule.in_all
    found = found_of(records, rule)
    left_out = found.n_over_period + found.n_over_all + found.n_nobody
    assert left_out == len(records) - len(stayed)
    assert found.n_nobody == sum(not person for person, _, _ in records)
    assert rule.in_all is not None or found.n_over_all == 0


@given(RECORDS, RULES, st.integers(0, 5))
def test_no_sealed_period_ever_changes(
    records: list[Record], rule: PeriodRule, watermark: int
) -> None:
    """Whatever comes later, the records of earlier periods that are kept stay the same."""
    early = [r for r in records if r[1] < watermark]
    whole = Counter(r for r in kept(records, rule) if r[1] < watermark)
    assert Counter(kept(early, rule)) == whole


@given(RECORDS, RULES, st.randoms(use_true_random=False))
def test_part_by_part_is_the_same_as_at_once(
    records: list[Record], rule: PeriodRule, rng: random.Random
) -> None:
    """Each part is told how many records of a person the parts before have kept."""
    ends = sorted({5, *(rng.randrange(5) for _ in range(3))})
    found, so_far, start = Counter[Record](), Counter[str](), 0
    for end in ends:
        part = kept([r for r in records if start <= r[1] < end], rule, so_far)
        found.update(part)
        so_far.update(person for person, _, _ in part)
        start = end
    assert found == Counter(kept(records, rule))


@given(RECORDS, RULES, st.randoms(use_true_random=False))
def test_neither_the_order_of_the_file_nor_others_matter(
    records: list[Record], rule: PeriodRule, rng: random.Random
) -> None:
    """Streams that differ by a person differ in that person's kept records alone."""
    shuffled = records.copy()
    rng.shuffle(shuffled)
    stayed = Counter(kept(records, rule))
    assert Counter(kept(shuffled, rule)) == stayed
    without = Counter(kept([r for r in records if r[0] != "ann"], rule))
    assert without == Counter({r: n for r, n in stayed.items() if r[0] != "ann"})


@given(RECORDS, RECORDS, RULES)
def test_records_that_keep_their_periods_change_as_many_kept_ones(
    records: list[Record], others: list[Record], rule: PeriodRule
) -> None:
    """Other values of one person: of every period as many records are kept as before."""
    values = [value for _, _, value in others] or [0]
    changed = [
        (who, t, values[i % len(values)] if who == "ann" else a)
        for i, (who, t, a) in enumerate(records)
    ]
    one, other = (Counter(kept(stream, rule)) for stream in (records, changed))
    for counts in (one - other, other - one):
        assert all(who == "ann" for who, _, _ in counts)
    periods = [Counter(t for who, t, _ in c.elements() if who == "ann") for c in (one, other)]
    assert periods[0] == periods[1]


def test_a_file_truncated_as_a_whole_would_change_sealed_periods() -> None:
    """The control: the rule for one file, run anew after each period, changes what was sealed."""
    rng, changed = random.Random(7), 0
    for _ in range(200):
        records = [("ann", rng.randrange(5), rng.randrange(4)) for _ in range(8)]
        columns = [np.array([r[i] for r in records], dtype=np.int64) for i in (1, 2)]
        people = People.of_texts(["ann"] * len(records))
        early = columns[0] < 4
        whole = kept_records(people, columns, most=3, key=KEY)[early]
        alone = kept_records(people.where(early), [c[early] for c in columns], most=3, key=KEY)
        changed += bool((whole != alone).any())
    assert changed > 100


def test_the_owner_is_told_what_was_left_out() -> None:
    records = [("ann", 0, 0), ("ann", 0, 1), ("ann", 1, 0), ("ann", 2, 0), ("", 0, 0)]
    rule = PeriodRule(0, 1, 2)
    (line,) = found_of(records, rule).lines(rule)
    assert line == (
        "private, for you alone: kept 2 of 5 records; 1 were more than 1 of a person in a period; "
        "1 were more than 2 of a person in all; 1 name no person"
    )
    assert found_of([], rule).lines(rule) == ["private, for you alone: kept 0 of 0 records"]


@pytest.mark.parametrize("rule", [(0, 0, 1), (0, 1, 0)])
def test_a_rule_that_keeps_nothing_is_refused(rule: tuple[int, int, int]) -> None:
    with pytest.raises(ConfigError, match="records_per"):
        PeriodRule(*rule)
