"""A backup is a store that loads, with every write that was acknowledged before it was made."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from qserver.errors import ConfigError, StateInUseError, StoreCorruptError
from qserver.storage.operation.backup import make_backup, read_note, restore_backup
from qserver.storage.server.connection import connect
from qserver.storage.server.embedded_store import EmbeddedServer
from tests.deployment import LOG, Deployment
from worker.owner.restore import restore

pytestmark = [
    pytest.mark.promise(
        "Operations",
        "a backup has every write acknowledged before it, loads, and is refused once changed",
    ),
]


def last_file(folder: Path) -> Path:
    return max((folder / "redis" / "appendonlydir").glob("*.incr.aof"))


@pytest.mark.slow
def test_a_backup_of_a_running_store_brings_it_back(tmp_path: Path) -> None:
    """The whole way: backup, more spends, disaster, restore, journal; then nothing is missing."""
    state = tmp_path / "state"
    with EmbeddedServer.start(state) as server:
        town = Deployment.make(state, server.url)
        town.ask({"age": 20})
        backup = make_backup(state, tmp_path / "backup")
        later = town.ask({"age": 21})
        spent = town.service().dataset("people").spent_nano
    (state / "redis").rename(tmp_path / "lost")
    assert restore_backup(tmp_path / "backup", state) == backup
    with EmbeddedServer.start(state) as server:
        back = Deployment(
            type(town.settings)(**{**vars(town.settings), "redis_url": server.url}),
            town.registry,
            town.meta,
            town.data,
        )
        assert back.service().dataset("people").spent_nano == backup.populations["town"].spent_nano
        assert restore(
            back.settings, registry=back.registry, accept_loss=(), log=LOG, say=lambda _text: None
        )
        back.writer().queue.beat(["town"], worker="test", ttl_ms=60_000)
        assert back.service().dataset("people").spent_nano == spent
        assert back.ask({"age": 21}).estimate == later.estimate


def test_a_backup_says_what_it_holds_and_nothing_of_the_worker(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with EmbeddedServer.start(state) as server:
        town = Deployment.make(state, server.url)
        answer = town.ask({"age": 20})
        make_backup(state, tmp_path / "backup")
    facts = read_note(tmp_path / "backup").populations["town"]
    assert (facts.version, facts.n_charges, facts.limit_nano) == (1, 1, 10**9)
    assert facts.spent_nano == answer.charged_nano
    files = [path for path in (tmp_path / "backup").rglob("*") if path.is_file()]
    assert {path.parent.name for path in files} == {"backup", "appendonlydir"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in files)
    secret = town.registry.entry("people").fingerprint.encode()
    assert not any(secret in path.read_bytes() for path in files)


@pytest.mark.slow
def test_a_backup_under_load_has_every_write_acknowledged_before_it(tmp_path: Path) -> None:
    state = tmp_path / "state"
    stop = threading.Event()
    with EmbeddedServer.start(state) as server:
        client = connect(server.url, role="test")
        written: list[int] = []

        def write() -> None:
            n = 0
            while not stop.is_set():
                n += 1
                client.rpush("numbers", *[str(n)] * 50)
                written.append(n)

        writer = threading.Thread(target=write)
        writer.start()
        before: list[Any] = []
        try:
            for i in range(3):
                before.append(len(written))
                make_backup(state, tmp_path / f"backup{i}")
        finally:
            stop.set()
            writer.join()
        percentage = client.config_get("auto-aof-rewrite-percentage")
    assert percentage == {"auto-aof-rewrite-percentage": "100"}
    for i, n_before in enumerate(before):
        restore_backup(tmp_path / f"backup{i}", tmp_path / f"state{i}")
        with EmbeddedServer.start(tmp_path / f"state{i}") as server:
            assert server.repair is None
            values = connect(server.url, role="test").lrange("numbers", 0, -1)
        n_whole = len(values) // 50
        assert values == [str(n) for n in range(1, n_whole + 1) for _ in range(50)]
        assert n_whole >= n_before


def test_a_stopped_store_is_backed_up_too(tmp_path: Path) -> None:
    with EmbeddedServer.start(tmp_path / "state") as server:
        connect(server.url, role="test").set("k", "v")
    make_backup(tmp_path / "state", tmp_path / "backup")
    restore_backup(tmp_path / "backup", tmp_path / "other")
    with EmbeddedServer.start(tmp_path / "other") as server:
        assert connect(server.url, role="test").get("k") == "v"


def test_a_store_after_a_rewrite_is_backed_up_with_its_base(tmp_path: Path) -> None:
    with EmbeddedServer.start(tmp_path / "state") as server:
        client = connect(server.url, role="test")
        client.set("k", "v")
        client.bgrewriteaof()
        client.set("l", "w")
        make_backup(tmp_path / "state", tmp_path / "backup")
    restore_backup(tmp_path / "backup", tmp_path / "other")
    with EmbeddedServer.start(tmp_path / "other") as server:
        assert connect(server.url, role="test").mget("k", "l") == ["v", "w"]


def test_a_backup_that_was_changed_is_refused(tmp_path: Path) -> None:
    with EmbeddedServer.start(tmp_path / "state") as server:
        connect(server.url, role="test").set("k", "v")
    make_backup(tmp_path / "state", tmp_path / "backup")
    path = last_file(tmp_path / "backup")
    path.write_bytes(path.read_bytes().replace(b"v", b"w"))
    with pytest.raises(StoreCorruptError, match="not those that were backed up"):
        restore_backup(tmp_path / "backup", tmp_path / "other")


def test_a_damaged_store_gives_no_backup(tmp_path: Path) -> None:
    with EmbeddedServer.start(tmp_path / "state") as server:
        client = connect(server.url, role="test")
        for i in range(100):
            client.set(f"key{i}", "value")
    path = last_file(tmp_path / "state")
    data = path.read_bytes()
    middle = data.index(b"*3\r\n", len(data) // 2)
    path.write_bytes(data[:middle] + b"#" + data[middle + 1 :])
    with pytest.raises(StoreCorruptError, match="damaged"):
        make_backup(tmp_path / "state", tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    with EmbeddedServer.start(tmp_path / "state"):
        make_backup(tmp_path / "state", tmp_path / "backup")
        with pytest.raises(ConfigError, match="not there yet"):
            make_backup(tmp_path / "state", tmp_path / "backup")
        with pytest.raises((ConfigError, StateInUseError)):
            restore_backup(tmp_path / "backup", tmp_path / "state")
    with pytest.raises(ConfigError, match="have no store yet"):
        restore_backup(tmp_path / "backup", tmp_path / "state")
    with pytest.raises(ConfigError, match="hold a store"):
        make_backup(tmp_path / "nowhere", tmp_path / "second")
    with pytest.raises(ConfigError, match="be a backup"):
        restore_backup(tmp_path / "state", tmp_path / "third")
