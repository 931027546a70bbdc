"""The production server: gunicorn with our configuration, as a process of its own."""

from __future__ import annotations

import http.client
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import pytest

from qserver.config import Settings
from qserver.program import start
from qserver.program.start import limit_threads
from tests.api.calls import ASK, QUESTION, Caller, Reply, assert_problem, chunk, n_segments

pytestmark = [
    pytest.mark.promise(
        "Operations",
        "HTTP that is asked to stop answers the questions at hand",
    ),
]

TIMEOUT_S = 60
BLOCKING_APP = """
import os
from tests.api.fake_service import FakeService
from qserver.api.access import OpenAccess
from qserver.api.app import create_app

class BlockingService(FakeService):
    def ask(self, *args, **kwargs):
        with open(os.environ["TEST_GATE"], "rb") as gate:
            gate.read()
        return super().ask(*args, **kwargs)

app = create_app(BlockingService(), access=OpenAccess(), wait_s=10, max_body_bytes=4096)
"""

PLAIN_APP = """
from tests.api.fake_service import FakeService
from qserver.api.access import OpenAccess
from qserver.api.app import create_app

app = create_app(FakeService(), access=OpenAccess(), wait_s=10, max_body_bytes=4096)
"""

LOADED_APP = f"""
import sys
assert "qserver.portal.blueprint" in sys.modules, "each process loads the code anew"
{PLAIN_APP}
"""
NUMPY_AFTER_LIMITS = """
import os, sys

class Watch:
    def find_spec(self, name, *_):
        if name == "numpy":
            print(os.environ.get("OPENBLAS_NUM_THREADS"), os.environ.get("OMP_NUM_THREADS"))

sys.meta_path.insert(0, Watch())
import qserver.api.process.gunicorn
"""
WHAT_A_START_LOADS = """
import sys
slow = {f"scipy.{m}" for m in ("optimize", "signal", "stats", "fft", "spatial", "integrate")}
import qserver.api.app, qserver.portal.blueprint, qserver.service.service
print(sorted(sys.modules.keys() & (slow | {"duckdb", "worker"})))
import worker.main_loop
print(sorted(sys.modules.keys() & slow))
"""


@dataclass(frozen=True)
class Server:
    """A running gunicorn."""

    process: subprocess.Popen[str]
    caller: Caller

    def wait_for_line(self, text: str) -> None:
        """Read its log up to a line that holds `text`."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if text in line:
                return
        raise AssertionError(f"the log ended before {text!r}")


@contextmanager
def _gunicorn(app: str, environ: dict[str, str], folder: Path) -> Iterator[Server]:
    listener = socket.create_server(("127.0.0.1", 0))
    fd = listener.fileno()
    config = ("--config", "python:qserver.api.process.gunicorn", "--bind", f"fd://{fd}")
    with subprocess.Popen(
        [sys.executable, "-m", "gunicorn", *config, app],
        cwd=folder,
        env={**os.environ, "HOME": str(folder), **environ},
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=(fd,),
    ) as process:
        try:
            # The socket listens already: a call waits in its queue until a worker is up.
            yield Server(process, Caller("127.0.0.1", listener.getsockname()[1]))
        finally:
            process.kill()
            listener.close()


def _environ_for(folder: Path) -> dict[str, str]:
    """One worker that finds the test's own modules, and the qserver that they stand beside."""
    path = os.pathsep.join([str(folder), str(Path(__file__).parents[2])])
    return {**Settings(http_workers=1).to_environment(), "PYTHONPATH": path}


def test_gunicorn_follows_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(port=8123, http_workers=3, http_threads=5, wait_s=7.5)
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)
    # As gunicorn runs it: anew, whatever was imported before.
    options = runpy.run_path(
        str(Path(start.__file__).parents[1] / "api" / "process" / "gunicorn.py")
    )
    assert options["bind"] == ["127.0.0.1:8123"]
    assert (options["workers"], options["threads"]) == (3, 5)
    assert options["worker_class"] == "qserver.api.process.parking.ParkingWorker"
    assert min(options["timeout"], options["graceful_timeout"]) > 7.5
    assert options["preload_app"] is False
    assert options["accesslog"] is None


def test_each_process_gets_one_blas_thread_unless_the_operator_chose() -> None:
    environ = {"OMP_NUM_THREADS": "2"}
    limit_threads(environ)
    assert environ == {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "2"}


def test_numpy_is_not_loaded_before_the_thread_limits_are_set() -> None:
    program = "import sys, qserver.program.start; print('numpy' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "False"


@pytest.mark.slow
def test_gunicorn_sets_the_thread_limits_before_numpy_loads() -> None:
    """Its processes are forked from one that has numpy."""
    environ = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    command = [sys.executable, "-c", NUMPY_AFTER_LIMITS]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=environ)
    assert found.stdout.strip() == "1 1"


@pytest.mark.slow
def test_a_start_loads_no_search_that_few_questions_need() -> None:
    found = subprocess.run(
        [sys.executable, "-c", WHAT_A_START_LOADS], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["[]", "[]"]


@pytest.mark.slow
def test_the_code_is_loaded_before_processes_are_forked(tmp_path: Path) -> None:
    (tmp_path / "loaded_app.py").write_text(LOADED_APP)
    with _gunicorn("loaded_app:app", _environ_for(tmp_path), tmp_path) as server:
        assert server.caller.post(ASK, QUESTION).status == 200


@pytest.mark.slow
def test_a_reply_comes_in_one_piece(tmp_path: Path) -> None:
    """With a body and without."""
    (tmp_path / "plain_app.py").write_text(PLAIN_APP)
    with _gunicorn("plain_app:app", _environ_for(tmp_path), tmp_path) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.caller.port, timeout=TIMEOUT_S)
        connection.connect()
        for n, (method, path) in enumerate(
            [("GET", "/v1/datasets"), ("HEAD", "/v1/datasets"), ("GET", "/nowhere")], start=1
        ):
            connection.request(method, path)
            reply = connection.getresponse()
            assert bool(reply.read()) == (method != "HEAD")
            assert n_segments(connection.sock) == n
        connection.close()


@pytest.mark.slow
def test_the_real_app_serves_an_empty_store_and_writes_nothing_beside_it(
    store_url: str, tmp_path: Path
) -> None:
    environ = Settings(redis_url=store_url, http_workers=1, open_access=True).to_environment()
    with _gunicorn("qserver.wsgi:app", environ, tmp_path) as server:
        ready = {"status": "ready", "workers": "none", "worker_alive": {}}
        assert server.caller.get("/readyz").document == ready
        assert server.caller.get("/v1/datasets").document["datasets"] == []
        assert_problem(server.caller.post(ASK, QUESTION), 404, "not_found")
        assert_problem(server.caller.get("/v1/jobs/nobody"), 404, "not_found")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=TIMEOUT_S) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.limit("body_too_large")
@pytest.mark.slow
def test_a_body_in_chunks_is_never_cut_off_at_the_limit_under_gunicorn(tmp_path: Path) -> None:
    (tmp_path / "plain_app.py").write_text(PLAIN_APP)
    environ = _environ_for(tmp_path)
    body = json.dumps(QUESTION).encode()
    with _gunicorn("plain_app:app", environ, tmp_path) as server:
        assert server.caller.send_chunks(ASK, chunk(body.ljust(4096))).status == 200
        reply = server.caller.send_chunks(ASK, chunk(body.ljust(4097)))
        assert_problem(reply, 413, "body_too_large")
        assert_problem(server.caller.send_chunks(ASK, b"no size\r\n"), 400, "bad_request")


@pytest.mark.slow
def test_a_question_under_way_is_answered_when_the_server_is_asked_to_stop(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    (tmp_path / "blocking_app.py").write_text(BLOCKING_APP)
    environ = {**_environ_for(tmp_path), "TEST_GATE": str(gate)}
    replies: list[Reply] = []
    with _gunicorn("blocking_app:app", environ, tmp_path) as server:
        asking = Thread(target=lambda: replies.append(server.caller.post(ASK, QUESTION)))
        asking.start()
        with gate.open("wb"):  # opens once the question is under way
            server.process.send_signal(signal.SIGTERM)
            server.wait_for_line("Handling signal: term")
        asking.join(TIMEOUT_S)
        assert server.process.wait(timeout=TIMEOUT_S) == 0
    assert [reply.status for reply in replies] == [200]
