"""The connection: addresses, failures as our errors, retries of reads only, versions, scripts."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import redis

from qserver.errors import (
    ConfigError,
    StoreCorruptError,
    StoreError,
    StoreNotDurableError,
    StoreUnavailableError,
    StoreUnsupportedError,
)
from qserver.storage.server import connection as connection_module
from qserver.storage.server.connection import (
    Scripts,
    StoreClient,
    check_server,
    connect,
    public_address,
    read_scripts,
    translated_errors,
)
from qserver.storage.server.embedded_store import EmbeddedServer

SECRET = "hunter2"


class SpeakingClient(StoreClient):
    """A client whose INFO is given, for servers that are not at hand."""

    def __init__(self, info: dict[str, Any]) -> None:
        super().__init__()
        self._given = info

    def execute_command(self, *args: Any, **options: Any) -> Any:
        assert args[0] == "INFO"
        return self._given


@contextmanager
def tcp_server(*, n_dropped: int, reply: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """URL of a server that hangs up on `n_dropped` requests of interest, then gives `reply`.

    What it hears is listed. Connection set-up is acknowledged and not listed.
    """
    heard: list[bytes] = []
    accepted: list[socket.socket] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with connection:
            while request := connection.recv(65536):
                setup = request.count(b"CLIENT"), request.count(b"PING")
                if any(setup):
                    connection.sendall(b"+OK\r\n" * setup[0] + b"+PONG\r\n" * setup[1])
                    continue
                heard.append(request)
                if len(heard) <= n_dropped:
                    return
                connection.sendall(reply)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            accepted.append(connection)
            with suppress(OSError):
                serve(connection)

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}", heard
    finally:
        for left in (listener, *accepted):
            with suppress(OSError):
                left.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def test_text_goes_in_and_comes_out(redis_client: StoreClient) -> None:
    redis_client.set("key", "größer")
    assert redis_client.get("key") == "größer"


def test_the_server_knows_who_is_connected(store_url: str) -> None:
    client = connect(store_url, role="worker")
    assert client.client_getname() == "qserver-worker"
    client.close()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("unix:///run/q.sock", "unix:///run/q.sock"),
        (f"unix://ann@/run/q.sock?password={SECRET}", "unix:///run/q.sock"),
        (f"redis://ann:{SECRET}@db.example:6390/2", "redis://db.example:6390/2"),
        (f"rediss://:{SECRET}@db.example", "rediss://db.example:6379"),
        (f"redis://ann:{SECRET}@[::1]/", "redis://[::1]:6379"),
        (f"redis://:{SECRET}@", "redis://localhost:6379"),
    ],
)
def test_an_address_is_shown_without_credentials(url: str, shown: str) -> None:
    assert public_address(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        f"http://:{SECRET}@host",
        f"unix://{SECRET}",
        f"redis://:{SECRET}@host:70000",
        f"redis://:{SECRET}@host?decode_responses=no",
        f"redis://:{SECRET}@host?ssl_cert_reqs=none",
        SECRET,
    ],
)
def test_a_malformed_address_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ConfigError, match="`redis_url` must") as caught:
        connect(url, role="test")
    assert SECRET not in str(caught.value)


def test_a_malformed_role_is_refused(store_url: str) -> None:
    with pytest.raises(ConfigError, match="`role` must be lower-case"):
        connect(store_url, role="two words")


def test_a_tls_address_checks_certificates() -> None:
    client = connect("rediss://db.example", role="test")
    connection = client.connection_pool.make_connection()
    assert isinstance(connection, redis.SSLConnection)
    assert connection.cert_reqs.name == "CERT_REQUIRED"
    assert connection.check_hostname


def test_an_unreachable_server_is_named_without_its_password(tmp_path: Path) -> None:
    url = f"unix://ann@{tmp_path}/no.sock?password={SECRET}"
    client = connect(url, role="test")
    with pytest.raises(StoreUnavailableError, match=r"no\.sock cannot be used now") as caught:
        client.set("key", "value")
    assert SECRET not in str(caught.value)


def test_a_single_connection_client_fails_when_it_is_made(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError):
        connect(f"unix://{tmp_path}/no.sock", role="test", single_connection=True)


def test_refused_credentials_are_reported_without_them(store_url: str) -> None:
    client = connect(store_url.replace("unix://", f"unix://ann:{SECRET}@"), role="test")
    with pytest.raises(StoreUnavailableError, match="refused the credentials") as caught:
        client.get("key")
    assert SECRET not in str(caught.value)


def test_a_read_is_tried_again_when_the_connection_breaks() -> None:
    with tcp_server(n_dropped=2, reply=b"$5\r\nvalue\r\n") as (url, heard):
        client = connect(url, role="test")
        assert client.get("key") == "value"
        client.close()
    assert [request.count(b"GET") for request in heard] == [1, 1, 1]


def test_a_write_is_sent_once_even_when_the_connection_breaks() -> None:
    with tcp_server(n_dropped=1, reply=b"+OK\r\n") as (url, heard):
        client = connect(url, role="test")
        with pytest.raises(StoreUnavailableError):
            client.set("key", "value")
        client.close()
    assert [request.count(b"SET") for request in heard] == [1]


def test_a_script_is_sent_once_even_when_the_connection_breaks(tmp_path: Path) -> None:
    tmp_path.joinpath("charge.lua").write_text("return 1")
    with tcp_server(n_dropped=1, reply=b":1\r\n") as (url, heard):
        client = connect(url, role="test")
        with pytest.raises(StoreUnavailableError):
            Scripts(client, folder=tmp_path).run("charge", keys=[], args=[])
        client.close()
    assert [request.count(b"EVALSHA") for request in heard] == [1]


def test_a_pipeline_is_sent_once_even_when_the_connection_breaks() -> None:
    with tcp_server(n_dropped=1, reply=b"+OK\r\n") as (url, heard):
        client = connect(url, role="test")
        pipeline: Any = client.pipeline(transaction=False)
        with pytest.raises(StoreUnavailableError):
            pipeline.set("key", "value").execute()
        client.close()
    assert [request.count(b"SET") for request in heard] == [1]


def test_a_pipeline_replies_in_order(redis_client: StoreClient) -> None:
    pipeline: Any = redis_client.pipeline()
    assert pipeline.set("key", "1").incr("key").get("key").execute() == [True, 2, "2"]


def test_a_single_connection_client_has_no_pipeline(single_client: StoreClient) -> None:
    with pytest.raises(StoreError, match="must not use pipelines"):
        single_client.pipeline()


def test_a_single_connection_client_counts_its_reconnections(single_client: StoreClient) -> None:
    single_client.set("key", "1")
    assert (single_client.n_reconnects, single_client.n_reconnects_at_write) == (0, 0)
    connection: Any = single_client.connection
    connection.disconnect()
    single_client.get("key")
    assert (single_client.n_reconnects, single_client.n_reconnects_at_write) == (1, 0)
    single_client.set("key", "2")
    assert (single_client.n_reconnects, single_client.n_reconnects_at_write) == (1, 1)


def test_a_server_that_hangs_is_given_up(store_server: EmbeddedServer, store_url: str) -> None:
    # Not even a first reply is waited for: on a busy machine it could take longer.
    client = connect(store_url, role="test", timeout_s=0.05)
    os.kill(store_server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(StoreUnavailableError, match="did not answer in time"):
            client.set("key", "1")
    finally:
        os.kill(store_server.pid, signal.SIGCONT)
    client.close()


def test_a_full_memory_is_reported(redis_client: StoreClient) -> None:
    redis_client.config_set("maxmemory", "1")
    try:
        with pytest.raises(StoreUnavailableError, match="out of memory"):
            redis_client.set("key", "1")
    finally:
        redis_client.config_set("maxmemory", "0")


def test_a_write_to_a_replica_is_reported(redis_client: StoreClient) -> None:
    redis_client.replicaof("127.0.0.1", "1")
    try:
        with pytest.raises(StoreNotDurableError, match="is a replica"):
            redis_client.set("key", "1")
    finally:
        redis_client.replicaof("NO", "ONE")


def test_a_disk_that_cannot_be_written_is_reported() -> None:
    refusal = "MISCONF Errors writing to the AOF file: No space left on device"
    with (
        pytest.raises(StoreNotDurableError, match="cannot write to its disk"),
        translated_errors("here"),
    ):
        raise redis.ResponseError(refusal)


def test_a_wrong_use_of_a_command_stays_what_it_is(redis_client: StoreClient) -> None:
    with pytest.raises(redis.ResponseError, match="wrong number of arguments"):
        redis_client.execute_command("LPUSH", "key")


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_a_value_of_another_kind_is_damage(redis_client: StoreClient, *, in_pipeline: bool) -> None:
    """Every key has one kind, so a store whose key has another was changed."""
    redis_client.set("key", "text")
    sender = redis_client.pipeline() if in_pipeline else redis_client
    with pytest.raises(StoreCorruptError, match="kind"):  # noqa: PT012
        sender.lrange("key", 0, -1)
        if in_pipeline:
            sender.execute()


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_bytes_that_are_no_text_are_damage(redis_client: StoreClient, *, in_pipeline: bool) -> None:
    """The next command on the same client is answered as ever."""
    redis_client.rpush("key", "a", b"\xff", "b")
    sender = redis_client.pipeline() if in_pipeline else redis_client
    with pytest.raises(StoreCorruptError, match="UTF-8"):  # noqa: PT012
        sender.lrange("key", 0, -1)
        if in_pipeline:
            sender.execute()
    assert [redis_client.lindex("key", i) for i in (0, 2)] == ["a", "b"]


def test_the_embedded_server_is_supported(redis_client: StoreClient) -> None:
    check_server(redis_client)


@pytest.mark.parametrize(
    "info",
    [
        {"redis_version": "7.2.0", "redis_mode": "standalone"},
        {"redis_version": "10.0.1", "redis_mode": "standalone"},
        {"redis_version": "7.2.4", "valkey_version": "8.0.0", "server_mode": "standalone"},
    ],
)
def test_a_supported_version_is_accepted(info: dict[str, Any]) -> None:
    check_server(SpeakingClient(info))


@pytest.mark.parametrize(
    ("info", "shown"),
    [
        ({"redis_version": "7.0.15"}, "Redis 7.0.15"),
        ({"redis_version": "6.2"}, "Redis 6.2"),
        ({"redis_version": "7.2.4", "valkey_version": "7.2.11"}, "Valkey 7.2.11"),
        ({"redis_version": "unstable"}, "Redis unstable"),
        ({}, "Redis 0"),
        ({"redis_version": "8.0.0", "redis_mode": "cluster"}, "cluster"),
        ({"redis_version": "7.2.4", "valkey_version": "9.0.0", "server_mode": "sentinel"}, "senti"),
    ],
)
def test_an_unsupported_server_is_refused(info: dict[str, Any], shown: str) -> None:
    with pytest.raises(StoreUnsupportedError, match=shown):
        check_server(SpeakingClient(info))


@pytest.fixture
def script_folder(tmp_path: Path) -> Path:
    tmp_path.joinpath("add.lua").write_text("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    tmp_path.joinpath("echo.lua").write_text("return {KEYS[1], ARGV[1], ARGV[2]}")
    tmp_path.joinpath("notes.txt").write_text("not a script")
    return tmp_path


def test_a_script_is_called_by_the_name_of_its_file(
    redis_client: StoreClient, script_folder: Path
) -> None:
    scripts = Scripts(redis_client, folder=script_folder)
    assert set(read_scripts(script_folder)) == {"add", "echo"}
    assert scripts.run("echo", keys=["k"], args=["text", 7]) == ["k", "text", "7"]
    assert scripts.run("add", keys=["n"], args=[2]) == 2


def test_a_script_runs_again_when_the_server_has_forgotten_it(
    redis_client: StoreClient, script_folder: Path
) -> None:
    scripts = Scripts(redis_client, folder=script_folder)
    scripts.run("add", keys=["n"], args=[2])
    redis_client.script_flush()
    assert scripts.run("add", keys=["n"], args=[2]) == 4


def test_an_unknown_script_is_refused(redis_client: StoreClient, script_folder: Path) -> None:
    with pytest.raises(KeyError, match="gone"):
        Scripts(redis_client, folder=script_folder).run("gone", keys=[], args=[])


def test_an_installation_without_scripts_is_reported(
    redis_client: StoreClient, tmp_path: Path
) -> None:
    with pytest.raises(StoreError, match="without its Lua scripts"):
        Scripts(redis_client, folder=tmp_path / "absent")


def test_every_script_of_the_package_is_accepted_by_the_server(redis_client: StoreClient) -> None:
    folder = Path(connection_module.__file__).parents[1] / "scripts"
    texts = read_scripts()
    assert set(texts) == {path.stem for path in folder.glob("*.lua")}
    for text in texts.values():
        assert len(redis_client.script_load(text)) == 40


@pytest.mark.parametrize("single", [False, True])
def test_a_client_in_a_circle_of_garbage_closes_its_sockets(
    store_url: str, single: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Garbage is finalized in the order in which it was made; here the socket comes first."""
    faults = list[object]()
    monkeypatch.setattr(sys, "unraisablehook", lambda fault: faults.append(fault.exc_value))
    early = socket.socket(socket.AF_UNIX)
    client = connect(store_url, role="test", single_connection=single)
    client.ping()
    connection: Any = client.connection or client.connection_pool._available_connections[0]
    connection._sock.close()
    early.connect(store_url.removeprefix("unix://"))
    connection._sock = early
    circle: list[object] = [client]
    circle.append(circle)
    dropped = weakref.ref(client)
    del early, client, connection, circle
    gc.collect()
    assert dropped() is None
    assert faults == []
