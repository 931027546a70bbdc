"""A primary with a real replica: nothing is drawn or shown before the replica has it."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qserver.errors import StoreBehindError, StoreNotDurableError
from qserver.records.answer import JobStatus
from qserver.storage.keys import Keys
from qserver.storage.queue import Ended, Outcome
from qserver.storage.server.connection import StoreClient, connect
from qserver.storage.server.embedded_store import EmbeddedServer
from tests.deployment import Deployment
from tests.faults.checks import Books, faults
from tests.faults.site import paused
from worker.spending.spend import Spender

pytestmark = [
    pytest.mark.promise(
        "Faults and races",
        "nothing is charged while the replicas are away, drawn before they hold the charge, or "
        "shown before they hold the answer",
    ),
    pytest.mark.promise(
        "Faults and races",
        "a replica that took over and missed only the acknowledgement shows the same again, bit "
        "for bit",
    ),
    pytest.mark.promise(
        "Faults and races",
        "a promoted replica that is behind is refused; one that is not goes on",
    ),
]

YOUNG: dict[str, object] = {"age": {"below": 25}}


class Pair:
    """A primary and a replica that has caught up, with a dataset on them."""

    def __init__(self, folder: Path, primary: EmbeddedServer, replica: EmbeddedServer) -> None:
        self.primary, self.replica = primary, replica
        self.at_primary = connect(primary.url, role="test")
        self.at_replica = connect(replica.url, role="test")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.at_primary.config_set("port", str(port))
        self.at_primary.config_set("repl-diskless-sync-delay", "0")
        self.at_replica.replicaof("127.0.0.1", str(port))
        town = Deployment.make(folder, primary.url, limit="100")
        settings = replace(town.settings, replicas=1, durable_timeout_ms=4000)
        self.town = replace(town, settings=settings)
        self.catch_up()

    def catch_up(self) -> None:
        """Return once the replica has all on its disk."""
        client = connect(self.primary.url, role="test", single_connection=True)
        client.set("caught-up", "1")
        for _ in range(100):
            if client.waitaof(1, 1, 1000)[1] >= 1:
                return
        raise AssertionError("The replica must catch up.")

    def promoted(self) -> Deployment:
        """The deployment on the replica, once the primary is dead."""
        os.kill(self.primary.pid, signal.SIGKILL)
        self.at_replica.replicaof("NO", "ONE")
        self.at_replica.delete(Keys("town").lease)  # its time is over
        settings = replace(self.town.settings, redis_url=self.replica.url, replicas=0)
        return replace(self.town, settings=settings)

    def n_charges(self, client: StoreClient) -> int:
        """Charges that a server has."""
        return int(client.llen(Keys("town").charges))


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with (
        EmbeddedServer.start(tmp_path / "a") as primary,
        EmbeddedServer.start(tmp_path / "b") as replica,
    ):
        yield Pair(tmp_path, primary, replica)


def submitted(town: Deployment) -> str:
    found = town.submit(YOUNG)
    assert isinstance(found, JobStatus)
    return found.id


def lose_replica_at(
    spender: Spender, pair: Pair, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Stop the replica just before this step of the spender's writer."""
    writer: Any = spender._writer
    original = getattr(writer, step)

    def stopping(*args: Any, **kwargs: Any) -> Any:
        os.kill(pair.replica.pid, signal.SIGSTOP)
        return original(*args, **kwargs)

    monkeypatch.setattr(writer, step, stopping)


def resume(pair: Pair) -> None:
    os.kill(pair.replica.pid, signal.SIGCONT)
    pair.at_primary.delete(Keys("town").lease)
    pair.catch_up()


def test_a_replica_that_is_away_stops_a_spend_before_it_is_charged(pair: Pair) -> None:
    job = submitted(pair.town)
    with paused(pair.replica.pid), pytest.raises(StoreNotDurableError, match="1 replicas"):
        pair.town.work_off()
    assert pair.n_charges(pair.at_primary) == 0
    resume(pair)
    pair.town.work_off()
    assert pair.town.service().job(job).state == "done"
    assert pair.n_charges(pair.at_replica) == pair.n_charges(pair.at_primary) == 1


def test_nothing_is_drawn_before_the_replica_holds_the_reservation(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The charge is burnt: it is paid, and nobody will ever draw for it."""
    job = submitted(pair.town)
    spender = pair.town.spender()
    drawn: list[object] = []
    monkeypatch.setattr(spender._spends, "draw", lambda *a: drawn.append(a))
    lose_replica_at(spender, pair, monkeypatch, "reserve")
    with pytest.raises(StoreNotDurableError):
        pair.town.work_off(spender)
    assert drawn == []
    assert pair.n_charges(pair.at_primary) == 1
    resume(pair)
    pair.town.work_off()
    status = pair.town.service().job(job)
    assert (status.state, (status.problem or {}).get("code")) == ("failed", "measurement_failed")
    assert pair.at_replica.hexists(Keys("town").burnt, job)


def test_nothing_is_shown_before_the_replica_holds_the_answer(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submitted(pair.town)
    spender = pair.town.spender()
    lose_replica_at(spender, pair, monkeypatch, "publish")
    with pytest.raises(StoreNotDurableError):
        pair.town.work_off(spender)
    assert pair.town.service().job(job).state in ("queued", "running")
    assert pair.town.service().dataset("people").version == 0
    journal = pair.town.registry.journal("town", create=False)
    released = journal.state.released.get(job)
    resume(pair)
    pair.town.work_off()
    assert pair.town.service().job(job).state == "done"
    assert released is not None
    assert faults(Books.read(pair.at_primary, "town", journal)) == []


def test_a_promoted_replica_that_has_everything_goes_on(pair: Pair) -> None:
    answer = pair.town.ask(YOUNG)
    pair.catch_up()
    after = pair.promoted()
    again = after.ask(YOUNG)
    assert again.source == "history"
    assert (again.estimate, again.low, again.high) == (answer.estimate, answer.low, answer.high)
    assert after.ask({"sex": "Male"}).source == "measured"
    journal = after.registry.journal("town", create=False)
    assert faults(Books.read(pair.at_replica, "town", journal)) == []


def test_a_promoted_replica_that_is_behind_is_refused(pair: Pair) -> None:
    """Without replicas in the settings the primary goes on alone; the replica misses a charge."""
    pair.town.ask(YOUNG)
    pair.catch_up()
    alone = replace(pair.town, settings=replace(pair.town.settings, replicas=0))
    with paused(pair.replica.pid):
        # The link is cut first: what waits in its buffers would still arrive.
        pair.at_primary.execute_command("CLIENT", "KILL", "TYPE", "replica")
        alone.ask({"sex": "Male"})
        os.kill(pair.primary.pid, signal.SIGKILL)
    after = pair.promoted()
    assert pair.n_charges(pair.at_replica) == 1
    assert isinstance(after.submit({"sex": "Female"}), JobStatus)
    with pytest.raises(StoreBehindError):
        after.work_off()
    assert pair.n_charges(pair.at_replica) == 1


def test_what_was_shown_is_shown_again_by_a_promoted_replica_bit_for_bit(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replica lost the acknowledgement alone, and more was measured before the job is taken up.

    The job's weights on the newest history would give another answer, at no charge.
    """
    job, spender = submitted(pair.town), pair.town.spender()
    show = spender._writer.endings.show

    def showing(*args: Any) -> None:
        os.kill(pair.replica.pid, signal.SIGSTOP)
        pair.at_primary.execute_command("CLIENT", "KILL", "TYPE", "replica")
        show(*args)

    monkeypatch.setattr(spender._writer.endings, "show", showing)
    work_one(pair.town, spender)
    shown = pair.town.service().job(job)
    assert shown.result is not None
    os.kill(pair.primary.pid, signal.SIGKILL)
    os.kill(pair.replica.pid, signal.SIGCONT)
    after = pair.promoted()
    assert after.service().job(job).state == "running"
    second = after.submit(YOUNG, length=10)
    assert isinstance(second, JobStatus)
    after.work_off()
    assert (after.service().job(second.id).result or shown.result).source == "refined"
    assert after.service().job(job) == shown
    journal = after.registry.journal("town", create=False)
    assert faults(Books.read(pair.at_replica, "town", journal)) == []


def work_one(town: Deployment, spender: Spender) -> None:
    """Work the one job that waits off, and nothing after it."""
    writer = town.writer()
    taken = writer.queue.take(["town"], consumer="test", block_ms=None)
    assert taken is not None
    lease = writer.acquire("town", jobs=[taken.job])
    assert lease is not None
    spender.work(lease, [taken])


def test_how_a_job_ends_is_shown_after_the_replica_holds_it(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a refusal, which charges nothing: what was told stands."""
    found = pair.town.submit(YOUNG)
    assert isinstance(found, JobStatus)
    spender = pair.town.spender()
    lose_replica_at(spender, pair, monkeypatch, "acknowledge")
    with pytest.raises(StoreNotDurableError):
        work_one(pair.town, spender)
    assert pair.town.service().job(found.id).state == "running"
    resume(pair)
    pair.town.work_off()
    assert pair.town.service().job(found.id).state == "done"


def test_an_ending_that_was_written_down_stands(pair: Pair) -> None:
    """Were it worked anew after a top-up, it could be charged although a refusal was told."""
    job = submitted(pair.town)
    writer = pair.town.writer()
    taken = writer.queue.take(["town"], consumer="dies", block_ms=None)
    assert taken is not None
    refusal = Outcome("failed", '{"code": "budget_exhausted"}', "", 0, 60)
    (first,) = writer.endings.conclude([Ended(taken, refusal)])
    assert first.is_new
    (again,) = writer.endings.conclude([Ended(taken, Outcome("done", "{}", "", 0, 60))])
    assert (again.outcome, again.is_new) == (refusal, False)
    pair.town.work_off()
    status = pair.town.service().job(job)
    assert (status.state, status.problem) == ("failed", {"code": "budget_exhausted"})
    assert pair.n_charges(pair.at_primary) == 0
