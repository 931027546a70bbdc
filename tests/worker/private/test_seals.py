"""Restarts read the seal: its source may be gone, and what an earlier version left is sealed."""

from __future__ import annotations

import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import PrivateDataError
from qserver.query.domain import Attribute, Domain
from qserver.query.linear_query import total_query
from tests.deployment import LOG, PEOPLE, ROWS, Deployment, write_people
from tests.worker.earlier import attaching_without_seals
from tests.worker.private.reading import KEY, codes_in_order, snapshot_of
from worker.main_loop import AttachedData
from worker.owner.changes import detach
from worker.owner.checks.audit import examine
from worker.owner.rotate import RotateRequest, rotate
from worker.private import seal_file as seal
from worker.private.present_content import sealed_table
from worker.private.seal_file import PackedRows, fingerprint_of_table, open_seal

TOTAL = total_query(PEOPLE.sizes)


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url)


def seal_files(town: Deployment) -> list[str]:
    return sorted(path.name for path in town.registry.seals.iterdir())


def total(town: Deployment) -> Fraction | None:
    """The true total of what a worker that starts now would serve; None where it is refused."""
    loaded = AttachedData(town.registry, log=LOG).load()
    tables = list(loaded.trusted.tables.values())
    return tables[0].answer(TOTAL) if tables else None


def test_a_start_needs_the_seal_and_not_the_file(town: Deployment) -> None:
    town.data.unlink()
    assert total(town) == len(ROWS)


def test_the_seal_holds_the_records_sorted_whatever_the_order_of_the_file(
    town: Deployment, tmp_path: Path
) -> None:
    entry = town.registry.entry("people")
    found = sealed_table(town.registry, entry)
    order = np.lexsort(codes_in_order(town.data, PEOPLE, folder=tmp_path))
    unsorted = codes_in_order(town.data, PEOPLE, folder=tmp_path)
    assert [c.tolist() for c in found.codes] == [np.array(c)[order].tolist() for c in unsorted]
    turned = write_people(tmp_path / "turned.csv", ROWS[::-1])
    one, other = (snapshot_of(p, PEOPLE, folder=tmp_path) for p in (town.data, turned))
    assert one.fingerprint == other.fingerprint
    assert one.in_order != other.in_order


@pytest.mark.parametrize("bit", [1, 128])
@pytest.mark.parametrize("place", [2, 17, 70, -70])
def test_a_changed_byte_of_a_seal_is_noticed(town: Deployment, place: int, bit: int) -> None:
    path = town.registry.seal_path(town.registry.entry("people"))
    text = bytearray(path.read_bytes())
    text[place] ^= bit
    path.write_bytes(bytes(text))
    assert total(town) is None
    (finding,) = [f for f in examine(town.registry, town.settings) if f.check == "data of people"]
    assert not finding.ok


def test_a_missing_seal_is_refused_and_doctor_says_what_to_do(town: Deployment) -> None:
    town.registry.seal_path(town.registry.entry("people")).unlink()
    assert total(town) is None
    (finding,) = [f for f in examine(town.registry, town.settings) if f.check == "data of people"]
    assert not finding.ok
    assert "Put it back from a copy" in finding.text


def test_codes_that_do_not_fit_are_mapped_and_count_the_same(town: Deployment) -> None:
    entry = town.registry.entry("people")
    mapped = open_seal(town.registry.seal_path(entry), PEOPLE, memory_bytes=0)
    held = open_seal(town.registry.seal_path(entry), PEOPLE, memory_bytes=1 << 20)
    assert all(isinstance(codes, np.memmap) for codes in mapped.codes)
    assert not any(isinstance(codes, np.memmap) for codes in held.codes)
    assert mapped.answer(TOTAL) == held.answer(TOTAL) == len(ROWS)
    assert fingerprint_of_table(mapped, PEOPLE, town.registry.key()) == entry.fingerprint


def test_the_seal_goes_with_its_dataset_and_with_a_rotation(town: Deployment) -> None:
    first = seal_files(town)
    assert len(first) == 1
    new = write_people(town.settings.state_dir / "new.csv", ROWS[:7])
    rotate(
        RotateRequest("people", new),
        settings=town.settings,
        registry=town.registry,
        progress=lambda _text: None,
        log=LOG,
    )
    assert len(seal_files(town)) == 1
    assert seal_files(town) != first
    assert total(town) == 7
    detach("people", settings=town.settings, registry=town.registry, log=LOG)
    assert seal_files(town) == []


def test_a_disk_without_nameless_files_gets_the_seal_by_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_link(*_args: object, **_options: object) -> None:
        raise FileNotFoundError

    data = write_people(tmp_path / "people.csv")
    made = snapshot_of(data, PEOPLE, folder=tmp_path).seal
    assert made is not None
    monkeypatch.setattr(os, "link", no_link)
    made.keep_as(tmp_path / "x.seal")
    assert (tmp_path / "x.seal").stat().st_mode & 0o777 == 0o600
    assert open_seal(tmp_path / "x.seal", PEOPLE).answer(TOTAL) == len(ROWS)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["people.csv", "x.seal"]


class TestAttachedByAnEarlierVersion:
    """Its entry has no seal, and its fingerprint is of the order of the file."""

    @pytest.fixture
    def old(self, tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch) -> Deployment:
        with attaching_without_seals(monkeypatch):
            town = Deployment.make(tmp_path, store_url)
        plain = (town.registry.folder / "datasets.json").read_text()
        assert "sealed" not in plain
        assert seal_files(town) == []
        return town

    def test_the_first_start_seals_it_and_the_next_needs_no_file(self, old: Deployment) -> None:
        assert total(old) == len(ROWS)
        entry = old.registry.entry("people")
        assert entry.sealed
        assert seal_files(old) == [f"{entry.snapshot}.seal"]
        old.data.unlink()
        assert total(old) == len(ROWS)
        assert old.ask({"age": 20}).source == "measured"

    def test_a_start_that_died_before_it_registered_the_seal_is_done_again(
        self, old: Deployment
    ) -> None:
        old.registry.seal_path(old.registry.entry("people")).write_bytes(b"half")
        assert total(old) == len(ROWS)

    def test_a_changed_file_is_refused_and_nothing_is_sealed(self, old: Deployment) -> None:
        write_people(old.data, ROWS[1:])
        assert total(old) is None
        assert seal_files(old) == []
        assert not old.registry.entry("people").sealed

    def test_doctor_changes_nothing(self, old: Deployment) -> None:
        found = [f for f in examine(old.registry, old.settings) if f.check == "data of people"]
        assert [f.ok for f in found] == [True]
        assert seal_files(old) == []


SIZES = st.lists(
    st.sampled_from([1, 2, 3, 200, 256, 257, 65_536, 65_537, 1 << 20]), min_size=1, max_size=9
)


@given(SIZES, st.integers(0, 40), st.integers(0, 2**32 - 1), st.booleans())
def test_packed_rows_come_back_sorted_with_the_last_attribute_first(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], n: int, seed: int, mapped: bool
) -> None:
    """Held to numpy's lexsort, with more bits than one word has, in memory and mapped."""
    rng = np.random.default_rng(seed)
    folder = tmp_path_factory.getbasetemp()
    codes = [rng.integers(0, min(size, 1 + seed % 5 * size), n) for size in sizes]
    kept = rng.random(n) < 0.5
    rows = PackedRows(folder, sizes, memory_bytes=0 if mapped else 1 << 30)
    rows.add(codes)
    assert [rows.column(i).tolist() for i in range(len(sizes))] == [c.tolist() for c in codes]
    rows.flag(kept)
    rows.sort()
    order = np.lexsort(codes)
    assert [rows.column(i).tolist() for i in range(len(sizes))] == [
        c[order].tolist() for c in codes
    ]
    stay = [c[kept] for c in codes]
    for i, column in enumerate(stay):
        pieces = list(rows.pieces(i, flagged=True))
        found = np.concatenate([np.zeros(0, dtype=np.int64), *pieces])
        assert found.tolist() == column[np.lexsort(stay)].tolist()
    rows.close()


def test_a_seal_of_another_domain_is_refused(tmp_path: Path) -> None:
    data = write_people(tmp_path / "people.csv")
    made = snapshot_of(data, PEOPLE, folder=tmp_path, key=KEY).seal
    assert made is not None
    made.keep_as(tmp_path / "x.seal")
    wider = replace(PEOPLE.attributes[1], labels=tuple(f"l{i}" for i in range(300)))
    with pytest.raises(PrivateDataError, match="no seal of this domain"):
        open_seal(tmp_path / "x.seal", Domain((PEOPLE.attributes[0], wider)))
    one = Domain((Attribute("sex", "labels", ("Female", "Male")),))
    with pytest.raises(PrivateDataError, match="no seal of this domain"):
        open_seal(tmp_path / "x.seal", one)
    assert seal.SUFFIX == ".seal"
