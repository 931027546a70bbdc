"""A restored store is brought up to the journal, bit for bit, before anything is drawn again."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import redis

from qserver.errors import JournalError, StoreBehindError
from qserver.storage.accounts import AccountBook
from qserver.storage.server.connection import connect
from qserver.storage.store import Store
from tests.deployment import LOG, PEOPLE, Deployment, write_people
from tests.sweeps import share
from tests.worker.crashes import Crash, crashing
from worker.noise.randomness import SystemEntropy
from worker.owner.attach import AttachRequest, attach
from worker.owner.changes import detach, top_up
from worker.owner.checks.audit import examine
from worker.owner.restore import Recovery, restore
from worker.owner.rotate import RotateRequest, rotate
from worker.spending.spend import Trusted

pytestmark = [
    pytest.mark.promise(
        "Operations",
        "a restored or emptied store gets every charge, answer and entry of the log back from the"
        " journal, bit for bit, before anything is drawn",
    ),
    pytest.mark.promise(
        "Operations",
        "without the journal the restore says what it cannot know and needs the owner's word",
    ),
]

YOUNG = {"age": {"below": 25}}
# What a store may have more or less of without knowing more or less of what was released.
PASSING = ("lease", "alive", "jobs", "queues", "asked", "estimators", "remembered", "idempotency")


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url)


def raw(town: Deployment) -> Any:
    return redis.Redis.from_url(town.settings.redis_url)


def dump(town: Deployment) -> dict[bytes, bytes]:
    client = raw(town)
    return {key: client.dump(key) for key in client.scan_iter("*")}


def put_back(town: Deployment, dumped: Mapping[bytes, bytes]) -> None:
    """The store as it was at the time of `dumped`, as from a backup."""
    client = raw(town)
    client.flushdb()
    for key, value in dumped.items():
        client.restore(key, 0, value)


def lasting(town: Deployment) -> dict[str, Any]:
    """All that must come back: ledger, charges, plans, history, what was paid and burnt."""
    client = raw(town)
    found: dict[str, Any] = {}
    for key in sorted(map(bytes.decode, client.scan_iter("qs:{town}:*"))):
        kind = key.removeprefix("qs:{town}:").split(":")[0]
        if kind in PASSING or kind == "job":
            continue
        if client.type(key) == b"list":
            found[key] = client.lrange(key, 0, -1)
        else:
            found[key] = client.hgetall(key)
            found[key].pop(b"fence", None)  # it grows with every holder of the lease
    return found


def bring_up(town: Deployment, *, accept_loss: tuple[str, ...] = ()) -> list[str]:
    said: list[str] = []
    registry = town.registry
    complete = restore(
        town.settings, registry=registry, accept_loss=accept_loss, log=LOG, say=said.append
    )
    assert complete == (registry.has_journal("town"))
    return said


def lose_journal(town: Deployment) -> None:
    (town.registry.folder / "journals" / "town.journal").unlink()


def spend_variously(town: Deployment) -> None:
    """A new row, one refined, one burnt, and a second new one."""
    town.ask({"age": 22}, length=80)
    town.ask(YOUNG, length=20)
    spender = town.spender()
    crashing(spender, "_spends.draw", after=True)
    town.submit({"age": 23}, length=60)
    with pytest.raises(Crash):
        town.work_off(spender)
    raw(town).delete("qs:{town}:lease")
    town.work_off()
    town.ask({"sex": "Male"}, length=70)


@pytest.mark.slow
def test_an_old_backup_gets_back_every_charge_and_answer_bit_for_bit(town: Deployment) -> None:
    town.ask(YOUNG)
    backup = dump(town)
    spend_variously(town)
    before, answer = lasting(town), town.ask(YOUNG, length=20)
    put_back(town, backup)
    assert lasting(town) != before
    with pytest.raises(StoreBehindError, match="qserver-worker restore"):
        town.work_off()
    said = bring_up(town)
    assert "0 datasets and 4 charged jobs" in said[0]
    assert lasting(town) == before
    assert town.ask(YOUNG, length=20).estimate == answer.estimate
    assert town.work_off() == 0


@pytest.mark.slow
def test_an_empty_store_is_rebuilt_from_the_journal_alone(town: Deployment) -> None:
    town.ask(YOUNG)
    spend_variously(town)
    before = lasting(town)
    put_back(town, {})
    assert "1 datasets and 5 charged jobs" in bring_up(town)[0]
    assert lasting(town) == before


def test_the_exact_total_under_replace_one_comes_back_too(tmp_path: Path, store_url: str) -> None:
    town = Deployment.make(tmp_path, store_url, relation="replace-one")
    town.ask(YOUNG)
    before = lasting(town)
    put_back(town, {})
    bring_up(town)
    assert lasting(town) == before


def rotate_people(town: Deployment, name: str, *, disjoint: bool = False) -> None:
    data = write_people(town.data.with_name(name), [(21, "Male"), (25, "Female")] * 90)
    rotate(
        RotateRequest("people", data, disjoint_people=disjoint),
        settings=town.settings,
        registry=town.registry,
        progress=lambda _text: None,
        log=LOG,
    )


@pytest.mark.slow
@pytest.mark.parametrize("n_before", [0, 1, 2, 3])
def test_rotations_and_top_ups_come_back_at_their_places(town: Deployment, n_before: int) -> None:
    """Whatever of it the backup has: nothing, the first question, the top-up, the rotation."""
    backups = [{}, dump(town)]
    town.ask(YOUNG, length=10)
    backups.append(dump(town))
    top_up("town", Fraction(3), settings=town.settings, registry=town.registry)
    backups.append(dump(town))
    rotate_people(town, "second.csv", disjoint=True)
    town.ask(YOUNG, length=12)
    rotate_people(town, "third.csv")
    AccountBook(connect(town.settings.redis_url, role="test")).create("ann", role="analyst")
    town.ask({"age": 25}, length=20)
    before, log = lasting(town), raw(town).lrange("qs:audit", 0, -1)
    assert len(log) == 5
    put_back(town, backups[n_before])
    bring_up(town)
    assert lasting(town) == before
    assert raw(town).lrange("qs:audit", 0, -1) == log
    assert [
        f for f in examine(town.registry, town.settings) if not f.ok and "town" in f.check
    ] == []
    assert town.ask({"age": 25}, length=20).source == "history"
    assert town.ask({"age": 26}, length=20).source == "measured"


def test_populations_that_share_a_store_come_back_together(town: Deployment) -> None:
    town.ask(YOUNG)
    backup = dump(town)
    data = write_people(town.data.with_name("crowd.csv"), [(21, "Male")] * 50)
    request = AttachRequest("crowd", data, PEOPLE, Fraction(1), "add-remove", "crowd", 1)
    facts = {"settings": town.settings, "registry": town.registry}
    attach(request, **facts, progress=lambda _text: None)  # type: ignore[arg-type]
    town.ask({"age": 22}, length=80)
    town.ask({"age": 23}, length=80)
    before, log = lasting(town), raw(town).lrange("qs:audit", 0, -1)
    for dumped in (backup, {}):
        put_back(town, dumped)
        assert len(bring_up(town)) == 2
        assert lasting(town) == before
        assert raw(town).lrange("qs:audit", 0, -1) == log
        assert set(Store.open(town.settings).datasets()) == {"people", "crowd"}


def test_a_log_that_went_on_after_the_backup_was_put_back_is_refused(town: Deployment) -> None:
    backup = dump(town)
    top_up("town", Fraction(3), settings=town.settings, registry=town.registry)
    town.ask(YOUNG)
    put_back(town, backup)
    AccountBook(connect(town.settings.redis_url, role="test")).create("ann", role="analyst")
    before = lasting(town)
    with pytest.raises(StoreBehindError, match="went on by itself"):
        bring_up(town)
    assert lasting(town) == before


def test_a_rotation_that_never_was_is_not_made_by_a_restore(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_args: object, **_facts: object) -> None:
        raise Crash

    town.ask(YOUNG)
    with monkeypatch.context() as patch:
        patch.setattr("qserver.storage.owner.OwnerOperations.rotate", die)
        with pytest.raises(Crash):
            rotate_people(town, "second.csv")
    raw(town).delete("qs:{town}:lease")
    town.ask({"age": 22}, length=80)
    before = lasting(town)
    assert "0 datasets" in bring_up(town)[0]
    assert lasting(town) == before
    put_back(town, {})
    assert "1 datasets" in bring_up(town)[0]
    assert lasting(town) == before


def test_a_dataset_that_was_detached_comes_back_only_for_its_charges(town: Deployment) -> None:
    backup = dump(town)
    town.ask(YOUNG)
    detach("people", settings=town.settings, registry=town.registry, log=LOG)
    before = lasting(town)
    put_back(town, {})
    registry = town.registry
    journal = registry.journal("town", create=False)
    writer, trusted = town.writer(), Trusted({}, {"town": journal}, SystemEntropy())
    spender = town.spender(writer=writer, trusted=trusted)
    reader = Store.open(town.settings)
    recovery = Recovery(reader=reader, writer=writer, spender=spender, registry=registry)
    found = recovery.bring_up("town", journal)
    assert (found.n_attached, found.n_charged) == (1, 1)
    assert lasting(town) == before
    put_back(town, backup)
    recovery.bring_up("town", journal)
    assert "people" in reader.datasets()  # it was there at the time of the backup


def test_a_store_that_lacks_nothing_is_left_as_it_is(town: Deployment) -> None:
    town.ask(YOUNG)
    before = lasting(town)
    assert "0 datasets and 0 charged jobs" in bring_up(town)[0]
    assert lasting(town) == before


def test_a_job_that_the_store_forgot_has_its_answer_again(town: Deployment) -> None:
    backup = dump(town)
    answer = town.ask(YOUNG)
    store = Store.open(town.settings)
    job = next(iter(raw(town).hkeys("qs:{town}:reservations"))).decode()
    result = store.job(job).result
    put_back(town, backup)
    bring_up(town)
    assert store.job(job).result == result
    assert result is not None
    assert f"{answer.estimate}" in result


@pytest.mark.parametrize("step", ["reserve", "publish", "acknowledge"])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("n_jobs", share([4, 1], 1))
def test_a_recovery_that_dies_half_way_is_done_again(
    town: Deployment, step: str, after: bool, n_jobs: int
) -> None:
    backup = dump(town)
    if n_jobs == 1:
        town.ask(YOUNG)
    else:
        spend_variously(town)
    ended = {"done"} if n_jobs == 1 else {"done", "failed"}
    before = lasting(town)
    put_back(town, backup)
    journal = town.registry.journal("town", create=False)
    writer = town.writer()
    trusted = Trusted({}, {"town": journal}, town.trusted().entropy)
    spender = town.spender(writer=writer, trusted=trusted)
    reader = Store.open(town.settings)
    recovery = Recovery(reader=reader, writer=writer, spender=spender, registry=town.registry)
    crashing(spender, f"_writer.{step}", after=after)
    with pytest.raises(Crash):
        recovery.bring_up("town", journal)
    raw(town).delete("qs:{town}:lease")
    bring_up(town)
    assert lasting(town) == before
    jobs = raw(town).hkeys("qs:{town}:reservations")
    assert {reader.job_state(job.decode()) for job in jobs} == ended


def test_a_store_that_went_its_own_way_is_refused(town: Deployment, tmp_path: Path) -> None:
    backup = dump(town)
    journal = town.registry.folder / "journals" / "town.journal"
    shutil.copy(journal, tmp_path / "early")
    town.ask(YOUNG)
    shutil.copy(journal, tmp_path / "late")
    put_back(town, backup)
    journal.unlink()
    shutil.copy(tmp_path / "early", journal)
    town.ask({"age": 22})
    journal.unlink()
    shutil.copy(tmp_path / "late", journal)
    before = lasting(town)
    with pytest.raises(StoreBehindError, match="parted"):
        bring_up(town)
    assert lasting(town) == before


def test_without_the_journal_it_says_what_it_cannot_know_and_draws_nothing(
    town: Deployment,
) -> None:
    town.ask(YOUNG)
    lose_journal(town)
    (said,) = bring_up(town)
    assert "nobody can know" in said
    assert "--accept-loss town" in said
    with pytest.raises(JournalError, match="missing"):
        town.trusted()


def test_the_workers_doctor_points_to_restore(town: Deployment) -> None:
    def journal_text() -> str:
        (found,) = [
            f for f in examine(town.registry, town.settings) if f.check == "journal of town"
        ]
        return ("ok: " if found.ok else "") + found.text

    early = dump(town)
    town.ask(YOUNG)
    assert journal_text().startswith("ok: ")
    put_back(town, early)
    assert "knows less" in journal_text()
    assert "qserver-worker restore" in journal_text()
    lose_journal(town)
    assert "missing" in journal_text()


@pytest.mark.slow
def test_the_owners_word_begins_a_journal_that_holds_from_then_on(town: Deployment) -> None:
    early = dump(town)
    first = town.ask(YOUNG)
    lose_journal(town)
    said = bring_up(town, accept_loss=("town",))
    assert "on your word" in said[0]
    assert town.ask(YOUNG).estimate == first.estimate
    town.ask({"age": 22}, length=80)
    before = lasting(town)
    backup = dump(town)
    town.ask({"age": 23}, length=80)
    after = lasting(town)
    put_back(town, backup)
    assert lasting(town) == before
    bring_up(town)
    assert lasting(town) == after
    put_back(town, early)  # older than the owner's word: the journal does not know what came first
    with pytest.raises(StoreBehindError, match="parted"):
        bring_up(town)
    with pytest.raises(StoreBehindError):
        town.work_off()


def test_a_journal_that_is_there_is_never_replaced(town: Deployment) -> None:
    town.ask(YOUNG)
    said = bring_up(town, accept_loss=("town",))
    assert "new journal" not in said[0]
    assert town.registry.journal("town", create=False).state.ledger_version == 1
