"""Spends with a witness of rollback, on a real store: kills at every step, and copies put back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qserver.errors import JournalError
from qserver.storage.server.connection import StoreClient
from tests.deployment import Deployment
from tests.worker.crashes import Crash, crashing, die_at
from worker.journal.journal import Journal
from worker.journal.witness import WitnessAwayError, WitnessSettings
from worker.owner.checks.audit import examine
from worker.private.registry import Registry

pytestmark = [
    pytest.mark.promise(
        "Operations",
        "with a witness no older copy of journal and store is spent on: each draw has its charge "
        "there, and each shown answer is there, through crashes and copies put back at every step",
    ),
]

WHERE = {"sex": "Male"}


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    other_disk = tmp_path / "other"
    other_disk.mkdir()
    settings = WitnessSettings(other_disk, required=True)
    return Deployment.make(tmp_path, store_url, limit="100", witness=settings)


def journal_path(town: Deployment) -> Path:
    return town.registry.folder / "journals" / "town.journal"


def witness_path(town: Deployment) -> Path:
    return town.settings.state_dir / "other" / "town.witness"


def sound(town: Deployment) -> Journal:
    """The journal, which the witness agrees with."""
    journal = town.registry.journal("town", create=False)
    with journal.exclusive():
        assert journal.check_witness()
    return journal


def test_a_spend_is_witnessed_before_its_draw_and_before_it_is_shown(town: Deployment) -> None:
    """Three lines: attached, reserved, released; each as the journal was then."""
    town.ask(WHERE)
    lines = [json.loads(line) for line in witness_path(town).read_text().splitlines()]
    assert [line["number"] for line in lines] == [1, 3, 4]
    assert [line["spent_nano"] > 0 for line in lines] == [False, True, True]
    assert sound(town).n_records == 4


STEPS = [
    # step, after it, whether the witness has seen the charge, whether an answer is to come
    ("_writer.reserve", False, False, False),
    ("_writer.reserve", True, False, False),
    ("_spends._attest", False, False, False),
    ("_spends._attest", True, True, False),
    ("_spends.draw", True, True, False),
    ("_spends.release", True, True, True),
    ("_writer.publish", False, True, True),
    ("_writer.publish", True, True, True),
    ("_writer.acknowledge", True, True, True),
]


@pytest.mark.parametrize(("step", "after", "is_seen", "is_released"), STEPS)
def test_a_worker_that_dies_at_any_step_is_settled_and_an_older_copy_is_refused_once_drawn(
    town: Deployment,
    redis_client: StoreClient,
    step: str,
    after: bool,
    is_seen: bool,
    is_released: bool,
) -> None:
    town.ask(WHERE, length=50)
    copy = journal_path(town).read_bytes()
    town.submit(WHERE, length=20)
    die_at(town, redis_client, step, after=after)
    newest = journal_path(town).read_bytes()

    journal_path(town).write_bytes(copy)
    if is_seen:
        with pytest.raises(JournalError, match="older copy"):
            town.work_off()
    else:
        sound(town)

    journal_path(town).write_bytes(newest)
    town.work_off()
    state = sound(town).state
    assert state.open_jobs == {}
    is_charged = step != "_writer.reserve" or after
    n_burnt = int(is_charged and not is_released)
    assert (len(state.burnt), len(state.released)) == (n_burnt, 2 - n_burnt)
    town.ask(WHERE, length=10)
    sound(town)


def test_an_answer_that_was_shown_is_not_drawn_again_from_a_copy_made_before_its_release(
    town: Deployment, redis_client: StoreClient
) -> None:
    """The copy has the charge. A second draw from the same answer would cost more than both."""
    town.ask(WHERE, length=50)
    town.submit(WHERE, length=20)
    spender = town.spender()
    copies: list[bytes] = []
    draw = spender._spends.draw

    def copied(*args: object) -> object:
        copies.append(journal_path(town).read_bytes())
        return draw(*args)  # type: ignore[arg-type]

    spender._spends.draw = copied  # type: ignore[method-assign, assignment]
    town.work_off(spender)
    journal_path(town).write_bytes(copies[0])
    with pytest.raises(JournalError, match="older copy"):
        town.work_off()


def test_nothing_is_charged_while_a_required_witness_is_away(town: Deployment) -> None:
    town.ask(WHERE, length=50)
    before = town.service().dataset("people").spent_nano
    witness_path(town).unlink()
    town.submit(WHERE, length=20)
    with pytest.raises(WitnessAwayError, match="Mount its disk"):
        town.work_off()
    assert town.service().dataset("people").spent_nano == before


def test_a_witness_that_goes_away_within_a_spend_is_noticed_before_the_charge(
    town: Deployment,
) -> None:
    town.submit(WHERE)
    spender = town.spender()
    reserve = spender._spends.reserve

    def unmounting(*args: object) -> None:
        witness_path(town).unlink()
        reserve(*args)  # type: ignore[arg-type]

    spender._spends.reserve = unmounting  # type: ignore[method-assign, assignment]
    with pytest.raises(WitnessAwayError):
        town.work_off(spender)
    assert town.service().dataset("people").spent_nano == 0


def test_a_wished_witness_that_is_away_holds_nothing_up_and_doctor_tells(
    town: Deployment,
) -> None:
    wished = WitnessSettings(town.settings.state_dir / "other", required=False)
    relaxed = Deployment(
        town.settings, Registry(town.settings.state_dir, witness=wished), town.meta, town.data
    )
    witness_path(town).unlink()
    assert relaxed.ask(WHERE).charged_nano > 0
    found = {f.check: f for f in examine(relaxed.registry, town.settings)}["witness of town"]
    assert not found.ok
    assert "only wished for" in found.text


def test_the_doctor_says_when_there_is_no_witness(town: Deployment) -> None:
    plain = Registry(town.settings.state_dir)
    found = {f.check: f for f in examine(plain, town.settings)}["witness of town"]
    assert found.ok
    assert "a restored copy of the whole state folder cannot be noticed" in found.text


def test_a_crash_at_the_second_look_of_the_witness_shows_nothing_twice(
    town: Deployment, redis_client: StoreClient
) -> None:
    """It dies before the answer is witnessed; the next worker witnesses it and shows the same."""
    town.submit(WHERE)
    spender = town.spender()
    attest, n_seen = spender._spends._attest, 0

    def second(*args: object) -> None:
        nonlocal n_seen
        n_seen += 1
        if n_seen > 1:
            raise Crash
        attest(*args)  # type: ignore[arg-type]

    spender._spends._attest = second  # type: ignore[method-assign, assignment]
    crashing(spender, "_writer.acknowledge", after=True)
    with pytest.raises(Crash):
        town.work_off(spender)
    redis_client.delete("{town}:lease")
    town.work_off()
    assert len(sound(town).state.released) == 1
