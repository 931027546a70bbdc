"""Durability: every setting that could lose a charge is refused, and a wait means the disk."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qserver.errors import ConfigError, StoreError, StoreNotDurableError
from qserver.storage.server.aof import last_increment
from qserver.storage.server.connection import StoreClient, connect
from qserver.storage.server.durability import await_durable, check_durable
from qserver.storage.server.embedded_store import EmbeddedServer

DURABLE = {
    "appendonly": "yes",
    "appendfsync": "always",
    "maxmemory-policy": "noeviction",
    "no-appendfsync-on-rewrite": "no",
}

ChangeInfo = Callable[..., None]


@pytest.fixture
def server_client(redis_client: StoreClient) -> Iterator[StoreClient]:
    """A client whose server gets its settings back afterwards."""
    yield redis_client
    redis_client.replicaof("NO", "ONE")
    redis_client.config_set(*(word for setting in DURABLE.items() for word in setting))
    while redis_client.info("persistence")["aof_rewrite_in_progress"]:
        pass  # a file that was switched on again is begun by a rewrite
    if redis_client.acl_getuser("managed"):
        redis_client.acl_deluser("managed")


@pytest.fixture
def change_info(monkeypatch: pytest.MonkeyPatch, server_client: StoreClient) -> ChangeInfo:
    """Alter what INFO says, for states that a healthy machine cannot be brought into."""

    def change(**changes: str) -> None:
        info = {**server_client.info(), **changes}
        monkeypatch.setattr(server_client, "info", lambda: info)

    return change


def managed_client(client: StoreClient, url: str) -> StoreClient:
    """A client whose user may not use CONFIG, as on managed servers."""
    client.acl_setuser(
        "managed", enabled=True, nopass=True, keys=["*"], categories=["+@all"], commands=["-config"]
    )
    return connect(url.replace("unix://", "unix://managed:any@"), role="test")


def apply_fix(client: StoreClient, message: str) -> None:
    """Do what the message says."""
    match = re.search("Run: (.*)$", message)
    assert match, message
    client.execute_command(*match[1].split())


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("appendonly", "no"),
        ("appendfsync", "no"),
        ("no-appendfsync-on-rewrite", "yes"),
        ("maxmemory-policy", "allkeys-lru"),
        ("maxmemory-policy", "volatile-ttl"),
        ("maxmemory-policy", "allkeys-random"),
    ],
)
def test_a_setting_that_can_lose_charges_is_refused_and_its_fix_works(
    server_client: StoreClient, setting: str, value: str
) -> None:
    server_client.config_set(setting, value)
    with pytest.raises(StoreNotDurableError, match=f"`{setting}` must be .*got {value}") as caught:
        check_durable(server_client, allow_volatile=False)
    apply_fix(server_client, str(caught.value))
    check_durable(server_client, allow_volatile=False)


@pytest.mark.parametrize("fsync", ["always", "everysec"])
def test_both_durable_fsync_policies_are_accepted(server_client: StoreClient, fsync: str) -> None:
    server_client.config_set("appendfsync", fsync)
    check_durable(server_client, allow_volatile=False)


@pytest.mark.parametrize("allow_volatile", [False, True])
def test_a_replica_is_refused_always(server_client: StoreClient, *, allow_volatile: bool) -> None:
    server_client.replicaof("127.0.0.1", "1")
    with pytest.raises(StoreNotDurableError, match="must be a primary, got slave"):
        check_durable(server_client, allow_volatile=allow_volatile)


def test_eviction_is_refused_even_for_toys(server_client: StoreClient) -> None:
    server_client.config_set("maxmemory-policy", "allkeys-lru")
    with pytest.raises(StoreNotDurableError, match="evicted"):
        check_durable(server_client, allow_volatile=True)


def test_a_volatile_server_is_accepted_for_toys_only(server_client: StoreClient) -> None:
    server_client.config_set("appendonly", "no")
    check_durable(server_client, allow_volatile=True)
    with pytest.raises(StoreNotDurableError):
        check_durable(server_client, allow_volatile=False)


def test_a_rewrite_that_failed_is_refused_until_one_succeeds(state_dir: Path) -> None:
    with EmbeddedServer.start(state_dir) as server:
        client = connect(server.url, role="test")
        current = last_increment(state_dir / "redis")
        assert current is not None
        obstacle = current.with_name("appendonly.aof.2.incr.aof")
        obstacle.mkdir()
        with pytest.raises(Exception, match="rewriting"):
            client.bgrewriteaof()
        with pytest.raises(StoreNotDurableError, match=r"bgrewrite_status.*BGREWRITEAOF"):
            check_durable(client, allow_volatile=False)
        obstacle.rmdir()
        client.bgrewriteaof()
        while client.info("persistence")["aof_last_bgrewrite_status"] != "ok":
            pass
        check_durable(client, allow_volatile=False)
        client.close()


def test_a_write_that_failed_is_refused(
    server_client: StoreClient, change_info: ChangeInfo
) -> None:
    change_info(aof_last_write_status="err")
    with pytest.raises(StoreNotDurableError, match="`aof_last_write_status` must be ok, got err"):
        check_durable(server_client, allow_volatile=False)


def test_a_server_that_forbids_config_is_judged_by_info(
    server_client: StoreClient, store_url: str
) -> None:
    managed = managed_client(server_client, store_url)
    check_durable(managed, allow_volatile=False)
    server_client.config_set("maxmemory-policy", "allkeys-lfu")
    with pytest.raises(StoreNotDurableError, match="`maxmemory-policy` must be noeviction"):
        check_durable(managed, allow_volatile=False)
    server_client.config_set("maxmemory-policy", "noeviction", "appendonly", "no")
    with pytest.raises(StoreNotDurableError, match="`appendonly` must be yes, got no"):
        check_durable(managed, allow_volatile=False)
    managed.close()


def test_a_server_that_tells_nothing_is_refused(
    server_client: StoreClient, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    managed = managed_client(server_client, store_url)
    monkeypatch.setattr(managed, "info", lambda: {"role": "master"})
    with pytest.raises(StoreNotDurableError, match=r"lets us read it neither.*\+config\|get"):
        check_durable(managed, allow_volatile=False)
    managed.close()


@pytest.mark.parametrize("covers", ["own_writes", "all_writes"])
@pytest.mark.parametrize("fsync", ["always", "everysec"])
def test_a_durable_write_is_awaited(
    server_client: StoreClient, single_client: StoreClient, fsync: str, covers: Any
) -> None:
    server_client.config_set("appendfsync", fsync)
    single_client.set("key", "value")
    await_durable(single_client, replicas=0, timeout_ms=4000, covers=covers)


def test_a_server_that_never_syncs_is_noticed_by_the_wait(
    server_client: StoreClient, single_client: StoreClient
) -> None:
    """So durability does not rest on settings that were read once."""
    server_client.config_set("appendfsync", "no")
    single_client.set("key", "value")
    with pytest.raises(StoreNotDurableError, match="got 0 and 0"):
        await_durable(single_client, replicas=0, timeout_ms=50, covers="own_writes")


def test_a_retry_that_wrote_nothing_still_waits_for_the_write_it_found(
    server_client: StoreClient, single_client: StoreClient
) -> None:
    server_client.config_set("appendfsync", "no")
    server_client.set("key", "written over another connection")
    await_durable(single_client, replicas=0, timeout_ms=50, covers="own_writes")
    with pytest.raises(StoreNotDurableError):
        await_durable(single_client, replicas=0, timeout_ms=50, covers="all_writes")


def test_a_server_without_a_file_is_noticed_by_the_wait(
    server_client: StoreClient, single_client: StoreClient
) -> None:
    server_client.config_set("appendonly", "no")
    single_client.set("key", "value")
    with pytest.raises(StoreNotDurableError, match="WAITAOF"):
        await_durable(single_client, replicas=0, timeout_ms=50)
    await_durable(single_client, replicas=0, timeout_ms=50, allow_volatile=True)


@pytest.mark.parametrize("allow_volatile", [False, True])
def test_a_missing_replica_is_noticed(single_client: StoreClient, *, allow_volatile: bool) -> None:
    single_client.set("key", "value")
    with pytest.raises(StoreNotDurableError, match="1 replicas within 30 ms, got 1 and 0"):
        await_durable(single_client, replicas=1, timeout_ms=30, allow_volatile=allow_volatile)


@pytest.mark.parametrize("covers", ["own_writes", "all_writes"])
def test_a_connection_made_anew_since_the_write_is_noticed(
    single_client: StoreClient, covers: Any
) -> None:
    """The new connection has written nothing, so the server would confirm at once."""
    single_client.set("key", "value")
    connection: Any = single_client.connection
    connection.disconnect()
    with pytest.raises(StoreNotDurableError, match="broke after the write"):
        await_durable(single_client, replicas=0, timeout_ms=1000, covers=covers)


def test_a_pooled_client_cannot_wait(redis_client: StoreClient) -> None:
    with pytest.raises(StoreError, match="single-connection client"):
        await_durable(redis_client, replicas=0, timeout_ms=1000)


@pytest.mark.parametrize(
    ("replicas", "timeout_ms", "name"),
    [(-1, 100, "replicas"), (0, 0, "timeout_ms"), (0, -1, "timeout_ms"), (0, 5000, "timeout_ms")],
)
def test_a_wait_out_of_range_is_refused(
    single_client: StoreClient, replicas: int, timeout_ms: int, name: str
) -> None:
    """A timeout of 0 would wait for ever; one past the client's own would hide the outcome."""
    with pytest.raises(ConfigError, match=f"`{name}` must"):
        await_durable(single_client, replicas=replicas, timeout_ms=timeout_ms)
