"""A correction: all sealed weeks anew. Nothing known is free any more, and what was spent stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from qserver.errors import ConfigError, PrivateDataError
from qserver.query.calendar import PeriodNotSealedError
from qserver.storage.keys import Keys
from qserver.storage.owner import OwnerOperations
from qserver.storage.server.connection import StoreClient
from qserver.storage.spend import SpendingStore
from tests.deployment import LOG
from tests.growing import Growing, Row, rows_of, week, write_rows
from tests.sweeps import share
from tests.worker.owner.arrivals.crashes import Step, die_at, faults
from tests.worker.owner.arrivals.test_retire import refused
from worker import cli
from worker.journal.journal import Journal
from worker.main_loop import AttachedData
from worker.owner.checks.audit import audit
from worker.owner.restore import restore
from worker.private import parts
from worker.private.parts import PartFolder
from worker.private.registry import Registry

RIGHT: list[Row] = [*rows_of(0, 100), *rows_of(1), *rows_of(2), *rows_of(3)]
"""Week 0 had 200 records, and half of them should not have been there."""


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Growing:
    town = Growing.begin(tmp_path, store_url)
    town.append(3)
    return town


def folders(town: Growing) -> dict[str, list[str]]:
    """The part files of each snapshot."""
    return {
        folder.name: sorted(p.name for p in folder.iterdir() if p.name != "lock")
        for folder in (town.registry.folder / "parts").iterdir()
    }


def test_all_sealed_weeks_are_taken_anew(town: Growing) -> None:
    first = town.ask({"week": week(0)}, length=20)
    corrected = town.correct(RIGHT)
    assert corrected.n_shown == 4
    with pytest.raises(PeriodNotSealedError):
        corrected.service().parse("people", {"where": {"week": week(4)}})
    second = corrected.ask({"week": week(0)}, length=20)
    assert abs(first.estimate - 200) < 40
    assert abs(second.estimate - 100) < 40
    assert second.charged_nano == first.charged_nano
    assert folders(corrected) == {corrected.meta.snapshot: ["0000000-0000004.part"]}


def test_what_was_spent_stays_spent(town: Growing) -> None:
    """The old share counts for its people, and the new one adds to it."""
    town.ask({"week": week(0)}, length=20)
    before = town.service().dataset("people").spent_nano
    corrected = town.correct(RIGHT)
    assert corrected.service().dataset("people").spent_nano == before
    corrected.ask({"week": week(0)}, length=20)
    assert corrected.service().dataset("people").spent_nano == 2 * before
    assert all(check.ok for check in audit(town.registry, town.settings))


def test_the_owner_is_told_the_cost_and_has_to_say_yes(town: Growing) -> None:
    town.ask({"week": week(0)}, length=20)
    told = list[str]()
    with pytest.raises(ConfigError, match=r"`correct` must .* asking it again costs again"):
        town.correct(RIGHT, correct=False, say=told.append)
    assert told == ["reading and converting the data"]
    town.correct([*RIGHT, (week(3), "Male", "p0-0")], say=told.append)
    assert told[2].startswith("This takes all 4 sealed periods of people anew.")
    assert "epsilon was spent on it so far" in told[2]
    assert any("1 were more than 1 of a person in all" in line for line in told)


@pytest.mark.slow
def test_the_weeks_go_on_from_there(town: Growing) -> None:
    corrected = town.correct(RIGHT)
    assert corrected.append(4).sealed == 5
    assert abs(corrected.ask({"week": week(4)}, length=20).estimate - 200) < 40
    again = corrected.correct([*RIGHT, *rows_of(4)])
    assert again.n_shown == 5
    assert not faults(again)


def test_a_worker_that_runs_goes_on_with_the_new_weeks(town: Growing) -> None:
    spender = town.spender()
    town.work_off(spender)
    corrected = town.correct(RIGHT)
    attached = AttachedData(Registry(town.settings.state_dir), log=LOG)
    assert attached.load().refused == ()
    assert abs(corrected.ask({"week": week(0)}, length=20).estimate - 100) < 40


def test_what_waits_fails_unpaid(town: Growing) -> None:
    job = town.submit({"week": week(0)}, length=20)
    corrected = town.correct(RIGHT)
    corrected.work_off()
    problem = corrected.service().job(job.id).problem
    assert problem is not None
    assert problem["code"] == "snapshot_replaced"
    assert corrected.service().dataset("people").spent_nano == 0


def test_records_of_weeks_to_come_and_missing_weeks_are_refused(town: Growing) -> None:
    with pytest.raises(PrivateDataError, match=f"after {week(3)}, the last that is sealed"):
        town.correct([*RIGHT, *rows_of(4)])
    with pytest.raises(ConfigError, match=f"{week(3)} has none"):
        town.correct(RIGHT[:-200])
    assert town.correct(RIGHT[:-200], empty=True).n_shown == 4


def test_retired_weeks_stay_so(town: Growing) -> None:
    """Records of theirs in the new data are left out, as late ones."""
    town.retire(2)
    told = list[str]()
    corrected = town.correct(RIGHT, say=told.append)
    assert any("300 records are of periods before" in line for line in told)
    assert any(line.startswith("This takes all 2 sealed periods of people") for line in told)
    assert corrected.service().state("people").n_retired == 2
    assert folders(corrected) == {corrected.meta.snapshot: ["0000002-0000004.part"]}
    assert refused(corrected, corrected.submit({}, length=20)).first_kept == week(2)
    assert abs(corrected.ask({"week": week(2)}, length=20).estimate - 200) < 40
    assert corrected.retire(3).retired == 3
    assert not faults(corrected)


STEPS = [
    Step(SpendingStore, "acquire", True, 0, False),
    Step(Journal, "append", False, 0, False),
    Step(Journal, "append", True, 0, False),
    Step(parts, "write_all", True, 0, False),
    Step(PartFolder, "write", True, 0, False),
    Step(Journal, "append", True, 1, False),
    Step(Registry, "put_next", False, 0, False),
    Step(Registry, "put_next", True, 0, False),
    Step(OwnerOperations, "rotate", False, 0, False),
    Step(OwnerOperations, "rotate", True, 0, True),
    Step(SpendingStore, "await_durable", True, 0, True),
    Step(Registry, "settle", False, 1, True),
    Step(Registry, "settle", True, 1, True),
    Step(PartFolder, "delete", False, 0, True),
    Step(PartFolder, "delete", True, 0, True),
]


@pytest.mark.slow
@pytest.mark.parametrize("step", share(STEPS, 5))
def test_a_correction_that_dies_is_whole_or_was_never_there(
    town: Growing,
    monkeypatch: pytest.MonkeyPatch,
    redis_client: StoreClient,
    step: Step,
) -> None:
    die_at(step, lambda: town.correct(RIGHT), monkeypatch, redis_client)
    registry = Registry(town.settings.state_dir)
    assert not AttachedData(registry, log=LOG).load().refused
    assert town.n_shown == 4
    assert abs(town.ask({"week": week(0)}, length=8).estimate - (100 if step.decided else 200)) < 30
    assert not faults(town)
    assert town.append(4).sealed == 5
    assert abs(town.ask({"week": week(4)}, length=8).estimate - 200) < 30
    corrected = town.correct([*RIGHT, *rows_of(4)])
    assert corrected.n_shown == 5
    assert list(folders(corrected)) == [corrected.meta.snapshot]
    assert abs(corrected.ask({"week": week(0)}, length=8).estimate - 100) < 30


def test_a_store_that_was_lost_gets_the_corrected_weeks_back(
    town: Growing, redis_client: StoreClient
) -> None:
    town.ask({"week": week(0)}, length=20)
    corrected = town.correct(RIGHT)
    answer = corrected.ask({"week": week(0)}, length=20)
    redis_client.flushall()
    restore(
        town.settings,
        registry=Registry(town.settings.state_dir),
        accept_loss=[],
        log=LOG,
        say=lambda _text: None,
    )
    assert corrected.n_shown == 4
    assert corrected.ask({"week": week(0)}, length=20).estimate == answer.estimate


def test_nothing_tells_how_many_records_a_correction_has(
    tmp_path: Path, store_url: str, redis_client: StoreClient
) -> None:
    seen = []
    for n in (1, 400):
        redis_client.flushall()
        (tmp_path / str(n)).mkdir()
        town = Growing.begin(tmp_path / str(n), store_url)
        corrected = town.correct([row for i in range(3) for row in rows_of(i, n)])
        assert town.waits == [30.0]
        log = redis_client.lrange("qs:audit", 0, -1)
        lengths = {k: len(v) for k, v in redis_client.hgetall(Keys("town").ledger).items()}
        ids = (town.meta.snapshot, corrected.meta.snapshot)
        names = [
            str(k).replace(ids[0], "old").replace(ids[1], "new") for k in redis_client.keys("*")
        ]
        seen.append((sorted(names), sorted(lengths.values()), list(map(len, log))))
    assert seen[0] == seen[1]


@pytest.mark.usefixtures("full_minute")
def test_correct_is_an_option_of_rotate(town: Growing, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_rows(town.settings.state_dir / "right.csv", RIGHT)
    arguments = ["rotate", "people", "--data", str(data)]
    arguments += ["--state", str(town.settings.state_dir)]
    arguments += ["--redis-url", town.settings.redis_url]
    assert cli.main(arguments) == 1
    assert "`correct` must be given where data arrive over time" in capsys.readouterr().err
    assert cli.main([*arguments, "--correct"]) == 0
    assert "has snapshot" in capsys.readouterr().out
