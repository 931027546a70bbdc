"""The checkpoints of a worker: when they are written, and that they are only ever a help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from qserver.answering.checkpoint import shared_folder
from qserver.answering.replica import Replica
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.answer import Answer, JobStatus
from qserver.records.state import State
from qserver.service.service import Service
from qserver.storage.store import Store
from tests.deployment import Deployment
from worker.constants import WORKER
from worker.spending.spend import Spender

pytestmark = [
    pytest.mark.promise(
        "Faults and races",
        "a process that goes on from a checkpoint prices, plans and answers as one that replayed,"
        " to the last bit; what came after is appended; one that is damaged, another's, of other "
        "code or ahead of the store is ignored",
    ),
]

N_BEFORE = 6


@pytest.fixture
def town(tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """A deployment whose worker writes a checkpoint after every third spend."""
    constants = replace(WORKER, checkpoint_entries=6)
    monkeypatch.setattr("worker.spending.group.checkpoints.WORKER", constants)
    return Deployment.make(tmp_path, store_url, limit="20")


def spend(town: Deployment, spender: Spender, n: int, *, first: int = 0) -> None:
    """Let one worker carry out purchases, as its loop does."""
    for i in range(first, first + n):
        found = town.submit({"age": {"below": 22 + i}}, length=20)
        assert isinstance(found, JobStatus)
        town.work_off(spender)
        spender.catch_up()
        spender._checkpoints.wait()


def files(town: Deployment) -> dict[str, bytes]:
    """The contents of both files."""
    own, shared = town.registry.checkpoints(), shared_folder(town.settings.state_dir)
    found = {"own": own, "shared": shared}
    return {k: next(f.path.iterdir()).read_bytes() for k, f in found.items() if f.path.exists()}


def resumed(town: Deployment, spender: Spender) -> int:
    """How much a worker did not replay."""
    spend(town, spender, 1, first=30)
    (replica,) = spender._replicas.values()
    return replica.n_resumed


def test_it_is_written_between_jobs_when_enough_has_come(town: Deployment) -> None:
    spender = town.spender()
    spend(town, spender, 2)
    assert not files(town)
    spend(town, spender, 1, first=2)
    first = files(town)
    spend(town, spender, 2, first=3)
    assert files(town) == first
    spend(town, spender, 1, first=5)
    assert files(town)["own"] != first["own"]


def test_a_restarted_worker_goes_on_from_its_own(town: Deployment) -> None:
    spend(town, town.spender(), N_BEFORE)
    assert resumed(town, town.spender()) == 2 * N_BEFORE


def test_the_copy_for_others_has_the_same_bytes_but_for_the_seal(town: Deployment) -> None:
    spend(town, town.spender(), N_BEFORE)
    found = files(town)
    assert found["own"][:-32] == found["shared"][:-32]
    assert found["own"][-32:] != found["shared"][-32:]


def test_a_worker_does_not_trust_the_copy(town: Deployment) -> None:
    """Whoever can write to the copy must not decide what an answer costs."""
    spend(town, town.spender(), N_BEFORE)
    own, shared = town.registry.checkpoints(), shared_folder(town.settings.state_dir)
    next(own.path.iterdir()).write_bytes(files(town)["shared"])
    assert resumed(town, town.spender()) == 0
    assert shared.load(town.meta.snapshot) is not None


def test_a_fresh_http_process_answers_from_the_copy(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    spend(town, town.spender(), N_BEFORE)
    seen = _replicas_of(monkeypatch)
    answer = town.submit({"age": {"below": 23}}, length=20)
    assert isinstance(answer, Answer)
    assert answer.source == "history"
    assert seen[-1].n_resumed == 2 * N_BEFORE


def _flipped(content: bytes) -> bytes:
    changed = bytearray(content)
    changed[len(changed) // 2] ^= 1
    return bytes(changed)


@pytest.mark.slow
@pytest.mark.parametrize("damage", [_flipped, lambda content: content[:-9], lambda _: b"no"])
def test_damage_changes_no_answer_and_no_price(
    town: Deployment,
    damage: Callable[[bytes], bytes],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spend(town, town.spender(), N_BEFORE)
    before, prices = town.submit({"age": {"below": 23}}, length=20), _price(town.service())
    for folder in (town.registry.checkpoints(), shared_folder(town.settings.state_dir)):
        path = next(folder.path.iterdir())
        path.write_bytes(damage(path.read_bytes()))
    seen = _replicas_of(monkeypatch)
    assert town.submit({"age": {"below": 23}}, length=20) == before
    assert seen[-1].n_resumed == 0
    assert _price(town.service()) == prices
    assert resumed(town, town.spender()) == 0
    assert "is ignored" in caplog.text


def test_one_of_a_store_that_was_put_back_is_ignored(town: Deployment, store_url: str) -> None:
    """The store lost its last entries: the checkpoint knows more, and counts for nothing."""
    spend(town, town.spender(), N_BEFORE)
    shared = shared_folder(town.settings.state_dir).load(town.meta.snapshot)
    assert isinstance(shared, State)
    client = Store.open(town.settings).client
    client.ltrim("qs:{town}:paid:" + town.meta.snapshot, 0, -2)
    replica = town.service()._datasets.refresh("people").replica
    assert replica.n_resumed == 0
    assert replica.n_entries == 2 * N_BEFORE - 1


def test_a_folder_that_cannot_be_written_stops_no_job(
    town: Deployment, caplog: pytest.LogCaptureFixture
) -> None:
    (town.settings.state_dir / "checkpoints").write_text("in the way", encoding="utf-8")
    spend(town, town.spender(), N_BEFORE)
    assert "was not written" in caplog.text


def _price(service: Service) -> object:
    query = service.parse("people", {"where": {"age": {"below": 27}}})
    found = service.explain("people", Question(query, Requirement(10, 0.95)))
    return found.price_nano, found.plan


def _replicas_of(monkeypatch: pytest.MonkeyPatch) -> list[Replica]:
    """The replicas that are made from now on."""
    seen: list[Replica] = []
    anew = Replica.__init__

    def init(replica: Replica, *args: object, **rest: object) -> None:
        anew(replica, *args, **rest)  # type: ignore[arg-type]
        seen.append(replica)

    monkeypatch.setattr(Replica, "__init__", init)
    return seen
