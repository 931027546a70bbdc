"""Children as processes: sessions, ends, and the socket that they are given."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import pytest

from qserver.cli.processes import (
    Child,
    ChildSpec,
    address_family,
    child_environment,
    http_spec,
    listen,
    python_command,
)
from qserver.config import Settings, url_of
from qserver.errors import ConfigError, PortInUseError

# Says that it is ready on the descriptor it was given, then waits for signals.
_WAITING = "import os, signal; {first}; os.write({fd}, b'!'); signal.pause()"


def start(code: str, tmp_path: Path, *, fd: int, stop_timeout_s: float = 20.0) -> Child:
    spec = ChildSpec(
        name="child",
        command=python_command("-c", code),
        environment=dict(os.environ),
        log=tmp_path / "log",
        pass_fds=(fd,),
        stop_timeout_s=stop_timeout_s,
    )
    return Child(spec)


Pipe = tuple[FileIO, FileIO]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """Both ends as files: to close one twice closes nothing that has got its number since."""
    reader, writer = os.pipe()
    with FileIO(reader) as source, FileIO(writer, "w") as sink:
        yield source, sink


def test_a_child_has_a_session_of_its_own_and_ends_on_request(tmp_path: Path, pipe: Pipe) -> None:
    reader, writer = pipe
    child = start(_WAITING.format(first="pass", fd=writer.fileno()), tmp_path, fd=writer.fileno())
    assert reader.read(1) == b"!"
    assert os.getsid(child.pid) == child.pid != os.getsid(0)
    assert child.status is None
    child.stop()
    assert child.status == -signal.SIGTERM
    child.stop()


def test_a_child_that_will_not_end_is_killed_with_its_own_children(
    tmp_path: Path, pipe: Pipe
) -> None:
    reader, writer = pipe
    stubborn = "signal.signal(signal.SIGTERM, signal.SIG_IGN); os.fork()"
    code = _WAITING.format(first=stubborn, fd=writer.fileno())
    child = start(code, tmp_path, fd=writer.fileno(), stop_timeout_s=0.05)
    assert reader.read(1) + reader.read(1) == b"!!"
    child.stop()
    assert child.status == -signal.SIGKILL
    # Only when the grandchild is gone as well is there no writer left.
    writer.close()
    assert reader.read(1) == b""


def test_nothing_that_a_child_started_outlives_its_own_end(tmp_path: Path, pipe: Pipe) -> None:
    reader, writer = pipe
    fd = writer.fileno()
    code = f"import os, signal; os.fork() or signal.pause(); os.write({fd}, b'!'); os._exit(3)"
    child = start(code, tmp_path, fd=fd)
    writer.close()
    assert reader.read(1) == b"!"
    while child.status is None:
        pass
    assert child.status == 3
    ready, _, _ = select.select([reader], [], [], 30)
    assert ready, "the grandchild still runs"
    assert reader.read(1) == b""


def test_a_child_does_not_outlive_a_parent_that_was_killed(tmp_path: Path, pipe: Pipe) -> None:
    reader, writer = pipe
    code = f"""
import os, signal
from pathlib import Path
from qserver.cli.processes import Child, ChildSpec, python_command
child = {_WAITING.format(first="pass", fd=writer.fileno())!r}
Child(ChildSpec(name="c", command=python_command("-c", child), environment=dict(os.environ),
                log=Path({str(tmp_path / "log")!r}), pass_fds=({writer.fileno()},)))
signal.pause()
"""
    parent = subprocess.Popen([sys.executable, "-c", code], pass_fds=(writer.fileno(),))
    writer.close()
    assert reader.read(1) == b"!"
    parent.kill()
    parent.wait()
    ready, _, _ = select.select([reader], [], [], 30)
    assert ready
    assert reader.read(1) == b""


def test_a_taken_port_is_refused_by_its_number() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortInUseError, match=f"Port {port} of 127.0.0.1 is taken"):
            listen("127.0.0.1", port)
    with listen("127.0.0.1", port) as again:
        assert again.getsockname()[1] == port


@pytest.mark.parametrize("host", ["203.0.113.7", "no host", "::zz"])
def test_a_host_that_is_not_ours_is_refused_by_its_name(host: str) -> None:
    with pytest.raises(ConfigError, match="`host` must be accessible"):
        listen(host, 0)


@pytest.mark.parametrize(
    ("host", "url", "family"),
    [
        ("127.0.0.1", "http://127.0.0.1:80", socket.AF_INET),
        ("localhost", "http://localhost:80", socket.AF_INET),
        ("::1", "http://[::1]:80", socket.AF_INET6),
        ("[::]", "http://[::]:80", socket.AF_INET6),
    ],
)
def test_a_host_may_be_an_address_of_ipv6(
    host: str, url: str, family: socket.AddressFamily
) -> None:
    read = Settings(host=host).host
    assert address_family(read) == family
    assert url_of(read, 80) == url


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_out_of_range_is_refused(port: int) -> None:
    with pytest.raises(ConfigError, match="`port` must be from 0 to 65535"):
        listen("127.0.0.1", port)


def test_connections_made_before_http_runs_are_not_refused() -> None:
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        assert select.select([listener], [], [], 30)[0] == [listener]


def test_the_http_server_gets_the_socket_the_settings_and_time_for_open_questions() -> None:
    settings = Settings(redis_url="unix:///s", port=8123, wait_s=30.0)
    with listen("127.0.0.1", 0) as listener:
        spec = http_spec(settings, listener=listener, log=None, environ={"LANG": "C"})
        assert spec.pass_fds == (listener.fileno(),)
        assert f"fd://{listener.fileno()}" in spec.command
    assert Settings.from_environment(spec.environment) == settings
    assert spec.environment["LANG"] == "C"
    assert spec.stop_timeout_s > settings.wait_s


def test_children_use_one_blas_thread_whatever_the_environment_says() -> None:
    environment = child_environment(Settings(), {"OPENBLAS_NUM_THREADS": "16"})
    assert environment["OPENBLAS_NUM_THREADS"] == environment["OMP_NUM_THREADS"] == "1"


def test_a_package_in_the_current_folder_cannot_take_the_place_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "worker.py").write_text("raise SystemExit('the wrong worker')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    code = "import worker, sys; sys.exit(0 if worker.__name__ == 'worker' else 1)"
    spec = ChildSpec(
        name="child",
        command=python_command("-c", code),
        environment={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        log=tmp_path / "log",
    )
    child = Child(spec)
    while child.status is None:
        pass
    assert child.status == 0


def test_connections_that_come_before_the_server_do_not_wait_for_acknowledgements() -> None:
    """A static file sends its head first; what a listener lacks, connections lack for ever."""
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
