"""Sentinels, clusters and TLS with client certificates: addresses, and what is refused."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qserver.config import LOOPBACK
from qserver.errors import (
    ConfigError,
    StoreNotDurableError,
    StoreUnavailableError,
    StoreUnsupportedError,
)
from qserver.storage.server.connection import (
    SentinelAddress,
    StoreClient,
    check_server,
    connect,
    public_address,
)
from qserver.storage.server.durability import check_failover
from tests.faults import failovers
from tests.faults.sentinels import Node, free_ports, wait_until
from tests.postgres.certificate import Certificate

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis+sentinel://a:1,b:2/store", "redis+sentinel://a:1,b:2/store"),
        (f"redis+sentinel://ann:{SECRET}@a,[::1]:7/s/2", "redis+sentinel://a:26379,[::1]:7/s/2"),
        (f"rediss+sentinel://:{SECRET}@a/s?sentinel_password={SECRET}&ssl_certfile=/c", "rediss+"),
    ],
)
def test_an_address_of_sentinels_is_shown_without_credentials(url: str, shown: str) -> None:
    assert public_address(url).startswith(shown)
    assert SECRET not in public_address(url) + repr(SentinelAddress.read(url))


def test_credentials_go_to_the_store_or_to_the_sentinels_as_they_are_named() -> None:
    url = (
        "rediss+sentinel://ann:p%40ss@a:1/s/3?sentinel_password=word&ssl_certfile=/c&ssl_keyfile=/k"
    )
    pool = SentinelAddress.read(url).pool(timeout_s=1)
    store: dict[str, Any] = pool.connection_kwargs
    (sentinel,) = pool.sentinel_manager.sentinels
    asked = sentinel.connection_pool.connection_kwargs
    assert (store["username"], store["password"], store["db"]) == ("ann", "p@ss", 3)
    assert (asked["username"], asked["password"], asked["db"]) == (None, "word", 0)
    for options in (store, asked):
        assert (options["ssl_certfile"], options["ssl_keyfile"]) == ("/c", "/k")


@pytest.mark.parametrize(
    "rest",
    ["a:1", "a:1/", "/s", "a:x/s", "a:1,/s", "a:1/s/x", "a:1/s?ssl_cert_reqs=n"],
)
def test_a_malformed_address_of_sentinels_is_refused_without_being_shown(rest: str) -> None:
    with pytest.raises(ConfigError, match="`redis_url` must") as caught:
        connect(f"redis+sentinel://:{SECRET}@{rest}", role="test")
    assert SECRET not in str(caught.value)


def test_sentinels_that_do_not_answer_are_named() -> None:
    url = f"redis+sentinel://{LOOPBACK}:{free_ports(1)[0]}/store"
    with pytest.raises(StoreUnavailableError, match=f"No sentinel of redis.sentinel://{LOOPBACK}"):
        connect(url, role="test", single_connection=True)


def test_a_cluster_and_a_sentinel_in_the_place_of_a_store_are_refused(tmp_path: Path) -> None:
    """Each is a real one."""
    ports = free_ports(2)
    text = "port {}\nbind 127.0.0.1\ndir {}\nsave ''\n"
    cluster = text.format(ports[0], tmp_path / "c") + "cluster-enabled yes\ncluster-port {}\n"
    nodes = [
        Node(tmp_path / "c", ports[0], cluster.format(*free_ports(1)), is_sentinel=False),
        Node(tmp_path / "s", ports[1], text.format(ports[1], tmp_path / "s"), is_sentinel=True),
    ]
    with contextlib.ExitStack() as ending:
        for node, mode in zip(nodes, ("cluster", "sentinel"), strict=True):
            ending.callback(node.kill)
            wait_until(node.answers, what="start")
            client = connect(f"redis://{LOOPBACK}:{node.port}", role="test")
            with pytest.raises(StoreUnsupportedError, match=f"got {mode}.*redis.sentinel://"):
                check_server(client)
            client.close()


class WatchedClient(StoreClient):
    """A client whose sentinels know so many replicas."""

    def __init__(self, n_known: int | None, *, is_guarded: bool = True) -> None:
        super().__init__()
        self._n_known, self._is_guarded = n_known, is_guarded

    def n_replicas(self) -> int | None:
        return self._n_known

    def execute_command(self, *args: Any, **options: Any) -> Any:
        assert args == ("INFO", "replication")
        return {"min_slaves_good_slaves": 2} if self._is_guarded else {}


@pytest.mark.parametrize(("n_known", "replicas"), [(None, 0), (0, 1), (1, 1), (2, 2), (2, 3)])
def test_a_charge_on_every_replica_outlives_its_primary(n_known: int | None, replicas: int) -> None:
    check_failover(WatchedClient(n_known), replicas=replicas)


@pytest.mark.parametrize(("n_known", "replicas"), [(0, 0), (1, 0), (2, 0), (2, 1), (3, 2)])
def test_a_charge_that_an_elected_replica_may_lack_is_refused(n_known: int, replicas: int) -> None:
    with pytest.raises(StoreNotDurableError, match=f"must be {max(1, n_known)} with sentinels"):
        check_failover(WatchedClient(n_known), replicas=replicas)


def test_a_primary_that_takes_writes_alone_is_refused() -> None:
    with pytest.raises(StoreNotDurableError, match="CONFIG SET min-replicas-to-write 1"):
        check_failover(WatchedClient(2, is_guarded=False), replicas=2)


@contextlib.contextmanager
def behind_tls(store_url: str, context: ssl.SSLContext) -> Iterator[int]:
    """The port of a TLS server that passes one connection on to the store."""
    listener = socket.create_server((LOOPBACK, 0))

    def carry(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        plain, _ = listener.accept()
        with (
            plain,
            contextlib.suppress(OSError),
            context.wrap_socket(plain, True) as near,
            socket.socket(socket.AF_UNIX) as far,
        ):
            far.connect(store_url.removeprefix("unix://"))
            back = threading.Thread(target=carry, args=(far, near))
            back.start()
            carry(near, far)
            back.join()

    thread = threading.Thread(target=serve)
    thread.start()
    with listener:
        yield listener.getsockname()[1]
        thread.join()


def test_a_store_that_asks_for_a_certificate_gets_ours(tmp_path: Path, store_url: str) -> None:
    for name in ("server", "client"):
        (tmp_path / name).mkdir()
    server = Certificate.write(tmp_path / "server", "localhost")
    mine = Certificate.write(tmp_path / "client", "worker")
    context = server.context
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(mine.path)
    known = f"ssl_ca_certs={server.path}"
    with behind_tls(store_url, context) as port:
        url = f"rediss://localhost:{port}?{known}&ssl_certfile={mine.path}&ssl_keyfile={mine.key}"
        client = connect(url, role="test", single_connection=True)
        check_server(client)
        client.close()
    with behind_tls(store_url, context) as port, pytest.raises(StoreUnavailableError):
        connect(f"rediss://localhost:{port}?{known}", role="test", single_connection=True).ping()


@pytest.mark.slow
def test_failovers_under_load_lose_nothing_and_spend_nothing_twice(tmp_path: Path) -> None:
    """One of each way; `python -m tests.faults failovers` makes a hundred."""
    found = failovers.run(tmp_path, seed=1, n_failovers=len(failovers.WAYS))
    assert found.report.faults == []
    assert set(found.ways) == set(failovers.WAYS)
    assert found.report.released > 0
