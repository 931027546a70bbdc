"""Persons that come piece by piece are numbered as if they had come at once, and taken in parts."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.worker.codes import codes_of
from tests.worker.private.reading import snapshot_of
from tests.worker.sources.tables import DOMAIN, as_csv, random_rows
from worker.constants import WORKER
from worker.private import people as people_module
from worker.private import snapshot as snapshot_module
from worker.private.people import GrowingPeople, People
from worker.private.truncation import PeriodRule, PersonRule

NAMES = st.lists(st.sampled_from(["", "ann", "bob", "eve", "zoë", "a" * 30]), max_size=9)


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Persons are numbered after each third record, and bounded three records at a time."""
    few = replace(WORKER, people_records=3)
    monkeypatch.setattr(people_module, "WORKER", few)
    monkeypatch.setattr(snapshot_module, "WORKER", few)


@given(st.lists(NAMES, max_size=9))
@pytest.mark.usefixtures("few_at_once")
def test_every_person_has_one_number_however_the_pieces_come(pieces: list[list[str]]) -> None:
    with TemporaryDirectory() as folder, closing(GrowingPeople(Path(folder))) as growing:
        for piece in pieces:
            growing.add(pa.array(piece, pa.string()))
        people = growing.people()
        assert list(Path(folder).iterdir()) == []
    texts = people.texts.to_pylist()
    assert len(texts) == len(set(texts))
    assert [texts[i] for i in people.who] == [name for piece in pieces for name in piece]


@given(st.lists(NAMES, max_size=9), st.integers(1, 7))
@example([["ann", "bob"]], 1)
@example([["ann", "bob", "eve", "zoë", "bob"]], 2)
def test_no_person_is_in_two_parts(pieces: list[list[str]], most: int) -> None:
    names = [name for piece in pieces for name in piece]
    seen: list[int] = []
    owners: list[str] = []
    for places, part in People.of_texts(names).parts(most):
        texts = [part.text(i) for i in part.who.tolist()]
        assert texts == [names[i] for i in places]
        assert len(texts) <= most or len(set(texts)) == 1
        seen += places.tolist()
        owners += set(texts)
    assert sorted(seen) == list(range(len(names)))
    assert len(owners) == len(set(owners))


@pytest.mark.parametrize(
    "rule", [PersonRule("person", 2), PersonRule("person", 4, PeriodRule(3, 2, 4))]
)
def test_persons_taken_in_parts_keep_the_same_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: PersonRule
) -> None:
    """And the owner is told the same of them, whatever part they are in."""
    data = as_csv(tmp_path / "rows.csv", [*random_rows(7, 300), *random_rows(8, 300)])
    found, told = [], []
    for most in (1 << 19, 10):
        few = replace(WORKER, people_records=most)
        monkeypatch.setattr(people_module, "WORKER", few)
        monkeypatch.setattr(snapshot_module, "WORKER", few)
        lines: list[str] = []
        found.append(snapshot_of(data, DOMAIN, folder=tmp_path, person=rule, say=lines.append))
        told.append([line for line in lines if not line.startswith("read ")])
    assert found[0].fingerprint == found[1].fingerprint
    assert found[0].in_order == found[1].in_order
    assert found[0].content == found[1].content
    assert told[0] == told[1]
    n_all = len(codes_of(snapshot_of(data, DOMAIN, folder=tmp_path))[0])
    assert 0 < len(codes_of(found[0])[0]) < n_all
    assert np.array_equal(codes_of(found[0])[0], codes_of(found[1])[0])
