"""Records and the rules of their order, without a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import JournalError
from worker.journal.records import (
    GENESIS,
    Adopted,
    Attached,
    Burnt,
    ChargeLine,
    ClaimsSet,
    HistoryChained,
    LimitRaised,
    MeasureSet,
    Opened,
    Record,
    Released,
    ReleasedRow,
    Reserved,
    Retired,
    Sealed,
    read_line,
    write_line,
)
from worker.journal.state import JournalState

names = st.text(min_size=1, max_size=8)
counts = st.integers(min_value=1, max_value=2**80)
records = st.one_of(
    st.builds(Opened, names, st.just(1)),
    st.builds(
        Attached,
        names,
        names,
        counts,
        st.sampled_from(["add-remove", "replace-one"]),
        st.binary(min_size=1).map(bytes.hex),
        st.dictionaries(names, st.one_of(names, st.integers())),
    ),
    st.builds(
        Reserved,
        names,
        counts,
        counts,
        st.lists(st.builds(ChargeLine, names, counts), min_size=1).map(tuple),
    ),
    st.builds(
        Released,
        names,
        st.lists(
            st.builds(
                ReleasedRow, names, st.lists(st.integers(), min_size=1, max_size=4).map(tuple)
            ),
            min_size=1,
            max_size=3,
        ).map(tuple),
    ),
    st.builds(Burnt, names),
    counts.map(lambda limit: LimitRaised(limit, limit + 7)),
    st.builds(MeasureSet, names, st.sampled_from(("auto", "only_this"))),
    st.builds(ClaimsSet, names, names),
)


@given(records, st.integers(min_value=0), st.binary(min_size=32, max_size=32))
def test_every_record_reads_back_as_it_was_written(
    record: Record, sequence: int, previous: bytes
) -> None:
    line = write_line(record, sequence=sequence, previous=previous)
    assert line.text.count(b"\n") == 1
    assert line.text.endswith(b"\n")
    assert read_line(line.text, sequence=sequence, previous=previous) == line


@given(records)
def test_a_line_is_refused_at_another_place_or_after_another_line(record: Record) -> None:
    text = write_line(record, sequence=3, previous=GENESIS).text
    with pytest.raises(JournalError, match="out of place"):
        read_line(text, sequence=4, previous=GENESIS)
    with pytest.raises(JournalError, match="out of place"):
        read_line(text, sequence=3, previous=b"\1" * 32)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b"[]\n",
        b"{}\n",
        b"1\n",
        b'{"body":[]}\n',
        b'{"body":{"kind":"burnt","fields":{}}}\n',
        b'{"body":{"kind":[],"fields":{}}}\n',
        b'{"body":{"kind":"other","fields":{}}}\n',
        b'{"body":{"kind":"released","fields":{"job":"j","rows":[{"row":"a"}]}}}\n',
        b'{"body":{"kind":"released","fields":{"job":"j","rows":[{"indices":3,"row":"a"}]}}}\n',
        b'{"body":{"kind":"released","fields":{"job":"j","rows":7}}}\n',
        b'{"body":{"kind":"reserved","fields":{"charges":[7]}}}\n',
        b'{"body":{"kind":"attached","fields":{"details":[]}}}\n',
        b"[" * 100_000 + b"\n",
        b"\xff\xfe\n",
    ],
)
def test_lines_of_any_other_form_are_damaged(text: bytes) -> None:
    with pytest.raises(JournalError, match="record 5 is damaged"):
        read_line(text, sequence=5, previous=GENESIS)


def untyped(value: object) -> Any:
    """A value of a type that the checker would refuse where it goes."""
    return value


@pytest.mark.parametrize(
    ("build", "field"),
    [
        (lambda: Opened("", 1), "population"),
        (lambda: Opened("p", 0), "schema_version"),
        (lambda: Burnt(untyped(7)), "job"),
        (lambda: ChargeLine("row", 0), "nano"),
        (lambda: ChargeLine("row", True), "nano"),
        (lambda: ChargeLine("row", untyped(1.0)), "nano"),
        (lambda: ReleasedRow("row", untyped((1.0,))), "indices"),
        (lambda: ReleasedRow("row", (True,)), "indices"),
        (lambda: ReleasedRow("row", ()), "indices"),
        (lambda: ReleasedRow("row", (1,), -1), "alpha_nano"),
        (lambda: ReleasedRow("row", (1,), untyped(1.0)), "alpha_nano"),
        (lambda: ReleasedRow("row", untyped([1])), "indices"),
        (lambda: Released("job", ()), "rows"),
        (lambda: Reserved("job", 0, 1, (ChargeLine("row", 1),)), "ledger_version"),
        (lambda: Reserved("job", 1, -1, (ChargeLine("row", 1),)), "spent_nano_after"),
        (lambda: Reserved("job", 1, 1, ()), "charges"),
        (lambda: LimitRaised(5, 5), "new_limit_nano"),
        (lambda: MeasureSet("s1", "all"), "measure"),
        (lambda: ClaimsSet("s1", ""), "claims"),
        (lambda: Attached("d", "s", 0, "add-remove", "00"), "limit_nano"),
        (lambda: Attached("d", "s", 1, "bounded", "00"), "neighbours"),
        (lambda: Attached("d", "s", 1, "add-remove", "0"), "fingerprint_hex"),
        (lambda: Attached("d", "s", 1, "add-remove", "00", untyped({"a": 0.5})), "details"),
        (lambda: Attached("d", "s", 1, "add-remove", "00", {"a": True}), "details"),
    ],
)
def test_a_record_with_a_bad_field_cannot_be_built(build: Callable[[], Record], field: str) -> None:
    with pytest.raises(JournalError, match=f"`{field}` of a journal record must"):
        build()


def test_details_cannot_be_changed_from_outside() -> None:
    given_details: dict[str, str | int] = {"a": 1}
    record = Attached("d", "s", 1, "add-remove", "00", given_details)
    given_details["a"] = 2
    assert record.details == {"a": 1}
    with pytest.raises(TypeError):
        record.details["a"] = 2


def attached(dataset: str, snapshot: str, *, limit_nano: int = 1000) -> Attached:
    return Attached(dataset, snapshot, limit_nano, "add-remove", "00")


def reserved(job: str, version: int, *, spent_nano: int) -> Reserved:
    return Reserved(job, version, spent_nano, (ChargeLine("row", 1),))


def released(job: str) -> Released:
    return Released(job, (ReleasedRow("row", (1,)),))


def state_of(*more: Record) -> JournalState:
    """One job each released, burnt and open; 500 of 1000 spent at version 3."""
    state = JournalState()
    for record in (
        Opened("p", 1),
        attached("d", "s"),
        reserved("out", 1, spent_nano=100),
        released("out"),
        reserved("burnt", 2, spent_nano=200),
        Burnt("burnt"),
        Burnt("never-journalled"),
        reserved("open", 3, spent_nano=500),
        *more,
    ):
        state.apply(record)
    return state


@pytest.mark.parametrize(
    ("record", "rule"),
    [
        (Opened("p", 1), "only the first"),
        (attached("d", "s"), "attached once"),
        (attached("other", "s"), "attached once"),
        (attached("other", "t", limit_nano=1001), "equal the population's limit"),
        (reserved("open", 4, spent_nano=600), "reserved once"),
        (reserved("out", 4, spent_nano=600), "reserved once"),
        (reserved("burnt", 4, spent_nano=600), "reserved once"),
        (reserved("never-journalled", 4, spent_nano=600), "never after it is burnt"),
        (reserved("new", 3, spent_nano=600), "must exceed the last"),
        (reserved("new", 4, spent_nano=499), "must not fall"),
        (reserved("new", 4, spent_nano=1001), "at most the limit"),
        (released("new"), "must be reserved"),
        (released("out"), "neither released nor burnt"),
        (released("burnt"), "neither released nor burnt"),
        (Burnt("out"), "neither released nor burnt before"),
        (Burnt("burnt"), "neither released nor burnt before"),
        (LimitRaised(999, 2000), "equal the limit before"),
    ],
)
def test_a_record_against_the_rules_is_refused_and_changes_nothing(
    record: Record, rule: str
) -> None:
    state, untouched = state_of(), state_of()
    with pytest.raises(JournalError, match=rule):
        state.apply(record)
    assert vars(state) == vars(untouched)


@pytest.mark.parametrize(
    "record",
    [
        attached("d", "t"),
        attached("other", "t"),
        reserved("new", 4, spent_nano=500),
        reserved("new", 9, spent_nano=1000),
        released("open"),
        Burnt("open"),
        Burnt("another"),
        LimitRaised(1000, 2000),
    ],
)
def test_a_record_within_the_rules_is_taken(record: Record) -> None:
    assert vars(state_of(record)) != vars(state_of())


def test_nothing_but_its_opening_begins_a_journal() -> None:
    with pytest.raises(JournalError, match="must be the first record"):
        JournalState().apply(attached("d", "s"))


def test_nothing_is_reserved_before_a_limit_is_known() -> None:
    state = JournalState()
    state.apply(Opened("p", 1))
    with pytest.raises(JournalError, match="at most the limit"):
        state.apply(reserved("j", 1, spent_nano=1))


def test_a_raised_limit_can_be_spent() -> None:
    state = state_of(LimitRaised(1000, 2000), reserved("new", 4, spent_nano=2000))
    assert state.spent_nano == 2000
    assert state.limit_nano == 2000


@pytest.mark.parametrize(
    ("build", "least"),
    [
        (lambda n: Opened("p", n), 1),
        (lambda n: Attached("d", "s", n, "add-remove", "00"), 1),
        (lambda n: ChargeLine("row", n), 1),
        (lambda n: Reserved("job", n, 1, (ChargeLine("row", 1),)), 1),
        (lambda n: Reserved("job", 1, n, (ChargeLine("row", 1),)), 0),
        (lambda n: ReleasedRow("row", (1,), n), 0),
        (lambda n: HistoryChained("s", "", n), 0),
        (lambda n: LimitRaised(n, 9), 1),
        (lambda n: LimitRaised(4, n), 5),
        (lambda n: Adopted(n, 7), 0),
        (lambda n: Adopted(7, n), 0),
        (lambda n: Sealed("s", n, 9, "file", "00"), 0),
        (lambda n: Sealed("s", 3, n, "file", "00"), 4),
        (lambda n: Retired("s", n, 9, "file", "00"), 1),
        (lambda n: Retired("s", 3, n, "file", "00"), 3),
    ],
)
def test_a_number_is_taken_from_its_least_value_on(
    build: Callable[[int], Record], least: int
) -> None:
    """A store that was adopted before anything was charged has spent 0, for example."""
    build(least)
    with pytest.raises(JournalError, match=f"must be an int >= {least}"):
        build(least - 1)
