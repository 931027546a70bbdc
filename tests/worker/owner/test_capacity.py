"""A declared capacity: refused on the owner's terminal, and the slot that follows from it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from qserver.client import DatasetInfo
from qserver.errors import ConfigError
from qserver.query.class_grid import product_partition
from qserver.records.dataset import DatasetMeta
from qserver.records.plan import PlannedTable
from qserver.storage.store import Store
from tests.deployment import PEOPLE, ROWS, Deployment, write_people
from worker.constants import WORKER
from worker.owner.attach import AttachRequest, attach
from worker.owner.checks import capacity as module
from worker.owner.checks.capacity import slot_finding
from worker.owner.rotate import RotateRequest
from worker.spending.slot import reads_of, slot_of_group, slots_of

pytestmark = [
    pytest.mark.promise(
        "Time",
        "more records than the capacity, or a slot that does not hold a scan of so many, are "
        "refused on the owner's terminal",
    ),
]

CAPACITY = 4 * len(ROWS)


class Scans:
    """A clock: every second reading is `seconds` after the one before."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._now = 0.0
        self.n_read = 0

    def __call__(self) -> float:
        self.n_read += 1
        self._now += self._seconds if self.n_read % 2 == 0 else 1.0
        return self._now


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url)


def attach_with(
    town: Deployment, *, capacity: int | None, scan_s: float = 0.0, slot_ms: int = 5
) -> DatasetMeta:
    request = AttachRequest(
        name="sized",
        data=town.data,
        domain=PEOPLE,
        limit=Fraction(1),
        relation="add-remove",
        population="town",
        records_per_person=1,
        capacity=capacity,
    )
    return attach(
        request,
        settings=replace(town.settings, slot_ms=slot_ms),
        registry=town.registry,
        progress=lambda _text: None,
        clock=Scans(scan_s),
    )


@pytest.mark.parametrize("capacity", [0, -1, (1 << 40) + 1])
def test_a_capacity_out_of_range_is_refused(town: Deployment, capacity: int) -> None:
    with pytest.raises(ConfigError, match="`capacity` must be from 1 to"):
        attach_with(town, capacity=capacity)


def test_the_capacity_is_a_public_fact_that_old_datasets_lack(town: Deployment) -> None:
    attach_with(town, capacity=CAPACITY)
    found = Store.open(town.settings).meta("sized")
    assert found.capacity == CAPACITY
    assert DatasetMeta.from_json(found.to_json()) == found
    plain = town.meta.to_json()
    assert "capacity" not in plain
    assert DatasetMeta.from_json(plain) == town.meta


def test_whoever_asks_is_told_the_capacity(town: Deployment) -> None:
    """Over HTTP, by the client and on the page; null and nothing where none was declared."""
    attach_with(town, capacity=123_456)
    web = town.web()
    shown = {name: web.get(f"/v1/datasets/{name}").json for name in ("sized", "people")}
    assert {name: found["capacity"] for name, found in shown.items() if found} == {
        "sized": 123_456,
        "people": None,
    }
    assert DatasetInfo.of(shown["sized"]).capacity == 123_456
    assert web.get("/portal/").text.count("never more than 123,456 records") == 1


def test_a_reply_of_an_older_server_has_no_capacity(town: Deployment) -> None:
    shown = town.web().get("/v1/datasets/people").json
    assert shown
    del shown["capacity"]
    assert DatasetInfo.of(shown).capacity is None


def test_more_records_than_the_capacity_are_refused_without_their_number(
    town: Deployment,
) -> None:
    with pytest.raises(ConfigError, match="number of records in the file") as found:
        attach_with(town, capacity=len(ROWS) - 1)
    assert str(len(ROWS)) not in str(found.value)
    assert "sized" not in Store.open(town.settings).datasets()
    assert attach_with(town, capacity=len(ROWS)).capacity == len(ROWS)


@pytest.mark.limit("10^10")
def test_without_a_capacity_more_records_than_intervals_allow_for_are_refused(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound on the bias of weights counts on it."""
    assert town.meta.most_records == 10**10
    assert replace(town.meta, capacity=7).most_records == 7
    monkeypatch.setattr(module, "MOST_RECORDS", len(ROWS) - 1)
    with pytest.raises(ConfigError, match="number of records in the file") as found:
        attach_with(town, capacity=None)
    assert str(len(ROWS)) not in str(found.value)


def turn(town: Deployment, rows: list[tuple[int, str]]) -> None:
    request = RotateRequest("sized", write_people(town.settings.state_dir / "next.csv", rows))
    town.rotated(request)


def test_a_rotation_keeps_the_capacity_and_refuses_more_records(town: Deployment) -> None:
    before = attach_with(town, capacity=len(ROWS))
    with pytest.raises(ConfigError, match="`capacity`"):
        turn(town, [*ROWS, ROWS[0]])
    assert Store.open(town.settings).meta("sized") == before
    turn(town, ROWS[1:])
    found = Store.open(town.settings).meta("sized")
    assert found.snapshot != before.snapshot
    assert found.capacity == len(ROWS)


def test_a_slot_that_does_not_hold_a_scan_is_refused_and_the_needed_one_is_named(
    town: Deployment,
) -> None:
    """A slot of 5 ms holds scans of up to 2.5: one of 2.9 needs a setting of 6."""
    with pytest.raises(ConfigError, match=r"`slot_ms` must be at least 6 .*, got 5") as found:
        attach_with(town, capacity=CAPACITY, scan_s=0.0029)
    assert "takes 2.9 ms here" in str(found.value)
    assert attach_with(town, capacity=CAPACITY, scan_s=0.0029, slot_ms=6).capacity == CAPACITY


def test_what_is_timed_depends_on_the_capacity_and_not_on_the_records(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    make = module._made_up

    def noting(n: int, sizes: tuple[int, ...]) -> object:
        made.append(n)
        return make(n, sizes)

    monkeypatch.setattr(module, "_made_up", noting)
    attach_with(town, capacity=CAPACITY)
    assert made == [CAPACITY]


def test_a_large_capacity_is_reckoned_from_fewer_records(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A millisecond for the timed records, of which the capacity has a thousand times as many."""
    monkeypatch.setattr("worker.owner.checks.capacity.WORKER", replace(WORKER, timed_records=1000))
    capacity = 1_000_000
    slot_ms = slot_of_reads(2, capacity) * 5
    with pytest.raises(ConfigError, match=r"takes 1000\.0 ms here") as found:
        attach_with(town, capacity=capacity, scan_s=0.001)
    assert f"slot of {slot_ms:g} ms" in str(found.value)


def slot_of_reads(reads: int, capacity: int) -> int:
    """Whole slots that hold scans of so many reads."""
    return -(-capacity * reads // WORKER.reads_per_slot)


def test_the_slot_follows_from_capacity_and_plan(town: Deployment) -> None:
    sizes = town.meta.domain.sizes
    by_sex = PlannedTable(product_partition(sizes, {1: [0, 1, 2]}), 10**9, Fraction(1))
    assert reads_of(by_sex) == 2
    assert slots_of([by_sex]) == 1
    assert seconds(slots_of([by_sex], capacity=1000)) == 0.005
    million = slots_of([by_sex], capacity=10**6)
    assert seconds(million) == pytest.approx(0.005 * slot_of_reads(2, 10**6))
    assert seconds(slots_of([by_sex] * 4, capacity=10**6)) == pytest.approx(
        0.005 * slot_of_reads(8, 10**6)
    )
    sampled = slots_of([by_sex], capacity=10**6, sampled=True)
    more = WORKER.sample_slots + slot_of_reads(2 + WORKER.sample_reads, 10**6)
    assert seconds(sampled) == pytest.approx(0.005 * more)


def test_the_slot_of_a_group_holds_each_of_its_plans(town: Deployment) -> None:
    """Rounded up once, where capacities tell how long scans take; else each has its own slots."""
    sizes = town.meta.domain.sizes
    by_sex = PlannedTable(product_partition(sizes, {1: [0, 1, 2]}), 10**9, Fraction(1))
    alone, sized = slots_of([by_sex]), slots_of([by_sex], capacity=10**6)
    assert seconds(*[alone] * 32) == pytest.approx(32 * 0.005)
    # The draws of 32 tables of three cells take three slots and a sixteenth.
    assert seconds(*[sized] * 32) == pytest.approx(0.005 * (slot_of_reads(64, 10**6) + 3))
    assert 0.005 <= seconds(alone, sized) - 0.005 * slot_of_reads(2, 10**6) <= 0.01


def seconds(*slots: Fraction) -> float:
    """The slot of a group, at the default setting."""
    return slot_of_group(slots, slot_s=0.005)


def test_the_doctor_tells_of_datasets_without_a_capacity(town: Deployment) -> None:
    attach_with(town, capacity=CAPACITY)
    entries = town.registry.entries()
    plain = slot_finding(entries["people"], replace(town.settings, slot_ms=5))
    assert plain.ok
    assert "no capacity is declared" in plain.text
    sized = slot_finding(entries["sized"], replace(town.settings, slot_ms=60_000))
    assert sized.ok
    assert f"a scan of {CAPACITY:,} records takes" in sized.text
    off = slot_finding(entries["sized"], town.settings)
    assert not off.ok
    assert "QSERVER_SLOT_MS is 0" in off.text
