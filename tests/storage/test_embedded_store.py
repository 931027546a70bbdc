"""The embedded server: keeps what it acknowledged, dies with its parent, guards its folder."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote

import pytest

from qserver.errors import StateInUseError, StoreCorruptError, StoreUnavailableError
from qserver.storage.server import embedded_store
from qserver.storage.server.aof import NOTE, last_increment
from qserver.storage.server.connection import StoreClient, connect
from qserver.storage.server.durability import check_durable
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.server.state_folder import StateFolder

N_CRASHES = 4
N_WRITERS = 4
N_WRITES_BEFORE_CRASH = 300
PATIENCE_S = 120.0

PARENT = """
import sys
from pathlib import Path
from qserver.storage.server.embedded_store import EmbeddedServer
server = EmbeddedServer.start(Path(sys.argv[1]))
print(server.pid, server.url, flush=True)
sys.stdin.read()
"""


@contextmanager
def client_of(server: EmbeddedServer) -> Iterator[StoreClient]:
    client = connect(server.url, role="test")
    try:
        yield client
    finally:
        client.close()


@contextmanager
def watched(pid: int) -> Iterator[int]:
    """A descriptor that becomes readable when the process has ended."""
    fd = os.pidfd_open(pid)
    try:
        yield fd
    finally:
        os.close(fd)


def has_ended(fd: int, *, within_s: float = PATIENCE_S) -> bool:
    return bool(select.select([fd], [], [], within_s)[0])


def data_file(state_dir: Path) -> Path:
    path = last_increment(StateFolder(state_dir).data)
    assert path is not None
    return path


def fill(state_dir: Path, n_keys: int = 20) -> None:
    """Leave a stopped server's data with keys k0, k1, ... behind."""
    with EmbeddedServer.start(state_dir) as server, client_of(server) as client:
        for i in range(n_keys):
            client.set(f"k{i}", "value")


def test_data_outlives_a_stop_and_a_start(state_dir: Path) -> None:
    fill(state_dir, n_keys=3)
    with EmbeddedServer.start(state_dir) as server, client_of(server) as client:
        assert client.mget("k0", "k1", "k2", "k3") == ["value", "value", "value", None]
        assert server.repair is None


def test_a_fresh_server_passes_the_durability_check(redis_client: StoreClient) -> None:
    check_durable(redis_client, allow_volatile=False)


def test_the_server_listens_on_a_private_socket_only(
    store_server: EmbeddedServer, redis_client: StoreClient
) -> None:
    socket = Path(unquote(store_server.url.removeprefix("unix://")))
    assert socket.stat().st_mode & 0o777 == 0o700
    assert socket.parent.stat().st_mode & 0o777 == 0o700
    assert redis_client.config_get("port") == {"port": "0"}
    assert len(os.fsencode(socket)) < 108


def test_looking_after_a_server_takes_one_connection_in_all(state_dir: Path) -> None:
    """A new one for each look took half of what an idle server took."""
    with EmbeddedServer.start(state_dir) as server, client_of(server) as client:
        n_before = client.info("stats")["total_connections_received"]
        for _ in range(3):
            assert server.tend() == ""
        assert client.info("stats")["total_connections_received"] == n_before + 1
        assert client.config_get("hz") == {"hz": "2"}


def test_the_server_has_a_session_of_its_own(store_server: EmbeddedServer) -> None:
    """So an interrupt typed at our terminal does not reach it."""
    assert os.getsid(store_server.pid) == store_server.pid != os.getsid(0)


def test_a_stop_leaves_no_process_and_no_socket(state_dir: Path) -> None:
    server = EmbeddedServer.start(state_dir)
    socket = Path(unquote(server.url.removeprefix("unix://")))
    with watched(server.pid) as fd:
        server.stop()
        assert has_ended(fd, within_s=0)
    assert not server.alive
    assert not socket.parent.exists()
    server.stop()  # a second stop finds nothing to do


def test_a_server_that_does_not_listen_any_more_is_killed(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_store, "_STOP_TIMEOUT_S", 0.05)
    monkeypatch.setattr(embedded_store, "_PROBE_TIMEOUT_S", 0.05)
    server = EmbeddedServer.start(state_dir)
    os.kill(server.pid, signal.SIGSTOP)
    server.stop()
    assert not server.alive


def test_a_forked_child_cannot_stop_its_parents_server(store_server: EmbeddedServer) -> None:
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            store_server.stop()
        os._exit(0)
    os.waitpid(child, 0)
    assert store_server.alive
    with client_of(store_server) as client:
        assert client.ping()


def test_a_long_state_path_works(tmp_path: Path) -> None:
    state_dir = tmp_path.joinpath(*["a folder with a long name, and 'quotes' " * 3] * 4)
    fill(state_dir, n_keys=1)
    with EmbeddedServer.start(state_dir) as server, client_of(server) as client:
        assert client.get("k0") == "value"


def test_a_long_temporary_folder_is_passed_over(
    state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long_folder = tmp_path / ("t" * 100)
    long_folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long_folder))
    with EmbeddedServer.start(state_dir) as server:
        assert str(long_folder) not in server.url
    assert list(long_folder.iterdir()) == []


def test_a_state_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(StoreUnavailableError, match="`state_dir` must be a folder"):
        EmbeddedServer.start(path)


def test_a_thread_other_than_the_main_one_cannot_start_a_server(state_dir: Path) -> None:
    failures: list[BaseException] = []

    def start() -> None:
        try:
            EmbeddedServer.start(state_dir)
        except StoreUnavailableError as exc:
            failures.append(exc)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert "main thread" in str(failures[0])


def test_a_second_server_on_the_same_folder_is_refused(store_server: EmbeddedServer) -> None:
    state_dir = store_server.log.parent.parent
    with pytest.raises(StateInUseError, match="Another server uses the state folder"):
        EmbeddedServer.start(state_dir, lock_timeout_s=0.05)
    assert store_server.alive


def test_the_folder_tells_the_url_of_the_server_that_runs(state_dir: Path) -> None:
    folder = StateFolder(state_dir)
    assert folder.running_url() is None
    with EmbeddedServer.start(state_dir) as server:
        assert folder.running_url() == server.url
    assert folder.running_url() is None


def write_until_it_breaks(server: EmbeddedServer, name: str, acknowledged: list[str]) -> None:
    with client_of(server) as client, suppress(StoreUnavailableError):
        while True:
            key = f"{name}:{len(acknowledged)}"
            client.set(key, "x" * 200)
            acknowledged.append(key)


def crash_under_load(server: EmbeddedServer, i_round: int) -> set[str]:
    """Keys whose writes were acknowledged before the server was killed."""
    acknowledged: list[list[str]] = [[] for _ in range(N_WRITERS)]
    threads = [
        threading.Thread(target=write_until_it_breaks, args=(server, f"{i_round}:{i}", keys))
        for i, keys in enumerate(acknowledged)
    ]
    for thread in threads:
        thread.start()
    with client_of(server) as client:
        while client.dbsize() < N_WRITES_BEFORE_CRASH * (i_round + 1):
            pass
    os.kill(server.pid, signal.SIGKILL)
    for thread in threads:
        thread.join()
    return set().union(*acknowledged)


@pytest.mark.slow
def test_a_killed_server_keeps_every_acknowledged_write(state_dir: Path) -> None:
    expected: set[str] = set()
    for i_round in range(N_CRASHES):
        with EmbeddedServer.start(state_dir) as server:
            expected |= crash_under_load(server, i_round)
        with EmbeddedServer.start(state_dir) as server, client_of(server) as client:
            assert expected <= set(client.keys())
    assert len(expected) >= N_CRASHES * (N_WRITES_BEFORE_CRASH - N_WRITERS)


def test_a_torn_tail_is_trimmed_and_reported(state_dir: Path) -> None:
    fill(state_dir)
    path = data_file(state_dir)
    content = path.read_bytes()
    path.write_bytes(content[:-3])
    (path.parent.parent / NOTE).unlink()  # the end came before these bytes were noted
    with EmbeddedServer.start(state_dir) as server, client_of(server) as client:
        assert server.repair is not None
        assert server.repair is not None
        assert server.repair.copy.read_bytes() == content[:-3]
        assert set(client.keys()) == {f"k{i}" for i in range(19)}
    with EmbeddedServer.start(state_dir) as server:
        assert server.repair is None


def test_a_torn_transaction_goes_as_a_whole(state_dir: Path) -> None:
    script = "redis.call('SET', KEYS[1], 1) redis.call('SET', KEYS[2], 1)"
    with EmbeddedServer.start(state_dir) as server, client_of(server) as client:
        client.set("before", "1")
        client.eval(script, 2, "one", "two")
    path = data_file(state_dir)
    path.write_bytes(path.read_bytes()[:-1])
    (path.parent.parent / NOTE).unlink()
    with EmbeddedServer.start(state_dir) as server, client_of(server) as client:
        assert server.repair is not None
        assert client.keys() == ["before"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(b"$3\r\nk10", b"$9\r\nk10", id="a length"),
        pytest.param(b"$3\r\nk10", b"$999999\r\nk10", id="a length past the end"),
        pytest.param(b"SET\r\n$3\r\nk10", b"XET\r\n$3\r\nk10", id="a command's name"),
        pytest.param(b"SET\r\n$3\r\nk10", b"\0" * 11, id="zeros"),
    ],
)
def test_damage_in_the_middle_is_refused_and_nothing_is_changed(
    state_dir: Path, old: bytes, new: bytes
) -> None:
    fill(state_dir)
    path = data_file(state_dir)
    content = path.read_bytes()
    assert content.count(old) == 1
    path.write_bytes(content.replace(old, new))
    with pytest.raises(StoreCorruptError, match="Restore"):
        EmbeddedServer.start(state_dir)
    assert path.read_bytes() == content.replace(old, new)
    path.write_bytes(content)  # as from a backup: the refusal has left nothing in the way
    with EmbeddedServer.start(state_dir) as server, client_of(server) as client:
        assert client.dbsize() == 20


def test_a_damaged_snapshot_is_refused(state_dir: Path) -> None:
    fill(state_dir)
    [base] = data_file(state_dir).parent.glob("*.base.rdb")
    content = bytearray(base.read_bytes())
    content[len(content) // 2] ^= 1
    base.write_bytes(content)
    with pytest.raises(StoreCorruptError, match="Restore"):
        EmbeddedServer.start(state_dir)


def test_a_missing_data_file_is_refused(state_dir: Path) -> None:
    fill(state_dir)
    data_file(state_dir).unlink()
    with pytest.raises(StoreCorruptError, match="missing"):
        EmbeddedServer.start(state_dir)


def test_a_program_that_is_no_server_is_reported(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_store, "server_binary", lambda: Path("/bin/false"))
    with pytest.raises(StoreUnavailableError, match="ended with status 1"):
        EmbeddedServer.start(state_dir)


def test_a_machine_without_the_program_is_told_what_to_do(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "vax")
    with pytest.raises(StoreUnavailableError, match=r"vax.*URL of a Redis 7\.2"):
        EmbeddedServer.start(state_dir)


@contextmanager
def server_of_another_process(state_dir: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(state_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert parent.stdout is not None
        pid, url = parent.stdout.readline().split()
        client = connect(url, role="test")
        client.set("key", "acknowledged")
        client.close()
        yield parent, int(pid)
    finally:
        parent.kill()
        parent.communicate()


def test_the_server_ends_when_its_parent_is_killed(state_dir: Path) -> None:
    with server_of_another_process(state_dir) as (parent, pid), watched(pid) as fd:
        parent.kill()
        assert has_ended(fd)
    with EmbeddedServer.start(state_dir) as server, client_of(server) as client:
        assert client.get("key") == "acknowledged"


def test_the_folder_stays_closed_while_an_orphaned_server_lives(state_dir: Path) -> None:
    """Two servers on one file would lose writes; so the lock belongs to the server itself."""
    with server_of_another_process(state_dir) as (parent, pid), watched(pid) as fd:
        os.kill(pid, signal.SIGSTOP)
        parent.kill()
        parent.wait()
        with pytest.raises(StateInUseError):
            EmbeddedServer.start(state_dir, lock_timeout_s=0)
        os.kill(pid, signal.SIGCONT)
        assert has_ended(fd)
    with EmbeddedServer.start(state_dir) as server, client_of(server) as client:
        assert client.get("key") == "acknowledged"


def test_a_child_whose_parent_is_gone_already_ends_at_once() -> None:
    script = (
        "from qserver.storage.server.embedded_store import end_with_parent; end_with_parent({})"
    )
    codes = [
        subprocess.run([sys.executable, "-c", script.format(parent)], check=False).returncode
        for parent in (os.getpid(), os.getpid() + 1)
    ]
    assert codes == [0, 127]


def test_what_a_crashed_parent_left_in_the_temporary_folder_is_removed(state_dir: Path) -> None:
    with server_of_another_process(state_dir) as (parent, pid), watched(pid) as fd:
        left = Path((state_dir / "redis" / "socket").read_text())
        parent.kill()
        assert has_ended(fd)
    assert left.exists()
    EmbeddedServer.start(state_dir).stop()
    assert not left.exists()
