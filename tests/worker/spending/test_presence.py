"""Workers that die: their host's other workers know it by a lock, without waiting for a lease."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from qserver.records.answer import JobStatus
from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient
from tests.deployment import LOG, Deployment
from worker.spending.loop import Loop
from worker.spending.presence import Presence

_DIES = """
import sys
from pathlib import Path
from qserver.config import Settings
from qserver.storage.spend import SpendingStore
from worker.spending.presence import Presence

presence = Presence(Path(sys.argv[1]))
if len(sys.argv) > 2:
    store = SpendingStore.open(Settings(redis_url=sys.argv[2], lease_ms=600_000))
    taken = store.queue.take(["town"], consumer=presence.name, block_ms=10_000)
    assert store.acquire("town", holder=presence.name)
    store.queue.beat(["town"], worker=presence.name, ttl_ms=600_000)
print(presence.name, flush=True)
sys.stdin.read()
"""


class Other:
    """A worker of the folder in a process of its own."""

    def __init__(self, folder: Path, *store_url: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _DIES, str(folder), *store_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.name = self.process.stdout.readline().strip()
        assert self.name

    def kill(self) -> str:
        """End it as a crash does; returns its name."""
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()
        return self.name


def seen_off(presence: Presence) -> list[str]:
    names: list[str] = []
    presence.see_off(names.append)
    return names


@pytest.mark.slow
def test_a_dead_worker_is_seen_off_once_and_a_living_one_never(tmp_path: Path) -> None:
    folder = tmp_path / "living"
    mine, dies, lives = Presence(folder), Other(folder), Other(folder)
    assert seen_off(mine) == []
    dies.kill()
    assert seen_off(mine) == [dies.name]
    assert seen_off(mine) == []
    mine.leave()
    assert os.listdir(folder) == [lives.name]
    lives.kill()


def test_a_worker_that_left_in_good_order_is_not_seen_off(tmp_path: Path) -> None:
    mine, other = Presence(tmp_path), Presence(tmp_path)
    other.leave()
    assert seen_off(mine) == []


def test_a_worker_of_another_host_is_left_to_its_lease(tmp_path: Path) -> None:
    """Its lock may not be seen here. So with a host whose name begins as this one's does."""
    mine = Presence(tmp_path, host="host")
    for name in ("other-1-ab", "host-b-1-ab", ".host-1-ab"):
        (tmp_path / name).touch()
    assert seen_off(mine) == []


def test_a_dead_worker_whose_end_failed_is_tried_again(tmp_path: Path) -> None:
    mine, name = Presence(tmp_path), Other(tmp_path).kill()

    def fails(_name: str) -> None:
        raise RuntimeError("the store is away")

    with pytest.raises(RuntimeError):
        mine.see_off(fails)
    assert seen_off(mine) == [name]


@pytest.mark.slow
def test_what_a_killed_worker_held_goes_on_long_before_its_lease_ends(
    tmp_path: Path, store_url: str, redis_client: StoreClient
) -> None:
    """Its lease, the job that it had taken, and its sign of life: each would last ten minutes."""
    town = Deployment.make(tmp_path, store_url)
    found = town.submit({"age": 20})
    assert isinstance(found, JobStatus)
    folder = town.registry.folder / "living"
    dead = Other(folder, store_url).kill()
    assert str(redis_client.get(Keys("town").lease)).startswith(dead)
    loop = Loop(settings=town.settings, trusted=town.trusted(), log=LOG, presence=Presence(folder))
    thread = threading.Thread(target=loop.run)
    thread.start()
    while town.service().job(found.id).state not in ("done", "failed"):
        thread.join(timeout=0.01)
    loop.stop()
    thread.join(timeout=120)
    assert town.service().job(found.id).state == "done"
    assert dead not in redis_client.smembers(Keys("town").alive)


def test_the_lease_of_a_worker_that_lives_is_not_taken(
    tmp_path: Path, store_url: str, redis_client: StoreClient
) -> None:
    town = Deployment.make(tmp_path, store_url)
    town.submit({"age": 20})
    other = Other(town.registry.folder / "living", store_url)
    held = redis_client.get(Keys("town").lease)
    Presence(town.registry.folder / "living").see_off(
        lambda name: town.writer().see_off("town", name)
    )
    town.writer().see_off("town", "nobody-1-ab")
    assert redis_client.get(Keys("town").lease) == held
    other.kill()
