"""At most k records of a person are kept, by a key, whatever the order of the file."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import ConfigError, PrivateDataError
from qserver.query.domain import Attribute, Domain
from tests.worker.codes import codes_of
from tests.worker.private.reading import KEY, snapshot_of
from worker.owner.domains.draft import infer_domain_document
from worker.private.people import People
from worker.private.truncation import PersonRule, kept_records

pytestmark = [
    pytest.mark.promise(
        "Guard rails",
        "of each person k records stay at most, whatever the file's order and whoever else is in "
        "it",
    ),
]

RECORDS = st.lists(
    st.tuples(st.sampled_from(["", "ann", "bob", "eve"]), st.integers(0, 2), st.integers(0, 1)),
    max_size=24,
)
DOMAIN = Domain(
    (
        Attribute("age", "integer", edges=tuple(map(Fraction, range(20, 31)))),
        Attribute("sex", "labels", ("Female", "Male")),
    )
)
Record = tuple[str, int, int]


def kept(records: list[Record], most: int, key: bytes = KEY) -> list[Record]:
    people = People.of_texts([person for person, _, _ in records])
    codes = [np.array([r[i] for r in records], dtype=np.int64) for i in (1, 2)]
    mask = kept_records(people, codes, most=most, key=key)
    return [record for record, stays in zip(records, mask.tolist(), strict=True) if stays]


@given(RECORDS, st.integers(1, 4))
def test_each_person_keeps_as_many_records_as_allowed_and_nobody_none(
    records: list[Record], most: int
) -> None:
    owned = Counter(person for person, _, _ in records)
    stayed = Counter(person for person, _, _ in kept(records, most))
    assert stayed == {p: min(n, most) for p, n in owned.items() if p}


@given(RECORDS, st.integers(1, 3), st.randoms(use_true_random=False))
def test_what_stays_does_not_depend_on_the_order_of_the_file(
    records: list[Record], most: int, rng: random.Random
) -> None:
    shuffled = records.copy()
    rng.shuffle(shuffled)
    assert Counter(kept(records, most)) == Counter(kept(shuffled, most))


@given(RECORDS, RECORDS, st.integers(1, 3))
def test_what_stays_of_a_person_does_not_depend_on_anybody_else(
    records: list[Record], others: list[Record], most: int
) -> None:
    """So to add or to remove a person changes k records at most: that person's."""
    mine = [r for r in records if r[0] == "ann"]
    rest = [r for r in others if r[0] != "ann"]
    both = [r for r in kept([*rest, *mine], most) if r[0] == "ann"]
    assert Counter(both) == Counter(kept(mine, most))
    assert Counter(kept([*rest, *mine], most)) - Counter(both) == Counter(kept(rest, most))


def test_which_record_stays_depends_on_the_key_and_favours_none() -> None:
    """Of three records each stays for about a third of 600 keys; 4.5 sigma is the room."""
    records = [("ann", value, 0) for value in range(3)]
    stays = Counter(kept(records, 1, key=i.to_bytes(32, "big"))[0][1] for i in range(600))
    assert set(stays) == {0, 1, 2}
    for n in stays.values():
        assert abs(n - 200) < 4.5 * (600 * 1 / 3 * 2 / 3) ** 0.5


def file_of(tmp_path: Path, rows: list[str], name: str = "rows.csv") -> Path:
    path = tmp_path / name
    path.write_text("who,age,sex\n" + "".join(f"{row}\n" for row in rows))
    return path


def table_of(path: Path, most: int) -> Counter[tuple[int, ...]]:
    rule = PersonRule("who", most)
    codes = codes_of(snapshot_of(path, DOMAIN, folder=path.parent, person=rule))
    return Counter(zip(*(c.tolist() for c in codes), strict=True))


@pytest.mark.slow
def test_a_file_read_in_any_order_keeps_the_same_records(tmp_path: Path) -> None:
    rows = ["ann,20,Male", "ann,21,Male", "ann,22,Female", "bob,20,Male"]
    tables = [
        table_of(file_of(tmp_path, list(order), f"{i}.csv"), 2)
        for i, order in enumerate(itertools.permutations(rows))
    ]
    assert all(table == tables[0] for table in tables)
    assert tables[0].total() == 3
    assert table_of(file_of(tmp_path, rows), 3).total() == 4


def test_records_that_the_domain_drops_do_not_count_for_their_person(tmp_path: Path) -> None:
    rows = ["ann,99,Male", "ann,20,X", "ann,25,Male", ",20,Male", "  ,21,Male", " ann ,25,Male"]
    assert table_of(file_of(tmp_path, rows), 2) == {(5, 1): 2}


def test_the_column_must_be_there_and_be_no_attribute(tmp_path: Path) -> None:
    path = file_of(tmp_path, ["ann,20,Male"])
    with pytest.raises(PrivateDataError, match="lacks owner"):
        snapshot_of(path, DOMAIN, folder=tmp_path, person=PersonRule("owner", 1))
    with pytest.raises(ConfigError, match="`person_id`"):
        PersonRule("", 1)
    with pytest.raises(ConfigError, match="`records_per_person`"):
        PersonRule("who", 0)


def test_an_inferred_domain_leaves_the_persons_out(tmp_path: Path) -> None:
    path = file_of(tmp_path, ["ann,20,Male"])
    document = infer_domain_document(path, folder=tmp_path, without="who")
    assert [a["name"] for a in document["attributes"]] == ["age", "sex"]  # type: ignore[attr-defined]
