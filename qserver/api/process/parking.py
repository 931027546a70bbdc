"""A gunicorn worker that puts requests aside: a waiting request holds no thread.

It is gunicorn's worker of threads with three pools in place of one: short requests, questions, and
whatever may take seconds. The app asks to be run again by raising `Parked`. One thread looks after
all jobs that are waited for. A reply is sent by one write, where gunicorn makes two.
"""

from __future__ import annotations

import errno
import logging
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gunicorn.workers.gthread import (  # type: ignore[import-untyped]
    _DEFER,
    TConn,
    ThreadWorker,
)

from qserver.api.lanes import LANES, VISIT_KEY
from qserver.service.parking import Parked, Visit, visiting

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


_log = logging.getLogger("qserver.jobs")
_C = TypeVar("_C")
_LEAST_PAUSE_S = 0.002
# Pause over what a look cost: looks take a fortieth of a processor, however many jobs wait. Two
# processes that looked each 2 ms took as much of it as their questions did.
_PAUSE_PER_LOOK = 39.0
_LONGEST_PAUSE_S = 0.25


@dataclass
class _Waiting(Generic[_C]):
    """A request that was put aside."""

    who: _C
    visit: Visit
    parked: Parked
    deadline: float


class JobWatch(Generic[_C]):
    """Wakes requests whose job ended or whose time is over.

    Args:
        wake: called once for each, in the thread of the watch.
        spent: seconds of processor time that the calling thread has taken.
        sleep: waits for so many seconds.
    """

    def __init__(
        self,
        wake: Callable[[_C], None],
        *,
        spent: Callable[[], float] = time.thread_time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._wake = wake
        self._spent = spent
        self._sleep = sleep
        self._new = threading.Condition()
        self._waiting: list[_Waiting[_C]] = []
        self._thread = threading.Thread(target=self._run, name="jobs", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def add(self, who: _C, visit: Visit, parked: Parked, *, now: float) -> None:
        """Watch a job from now on."""
        with self._new:
            self._waiting.append(_Waiting(who, visit, parked, now + parked.wait_s))
            self._new.notify()

    def _run(self) -> None:
        while True:
            with self._new:
                while not self._waiting:
                    self._new.wait()
                waiting = list(self._waiting)
            self._sleep(self._look(waiting))

    def _look(self, waiting: list[_Waiting[_C]]) -> float:
        """Wake the requests whose time has come; returns the next pause in seconds."""
        jobs, begun = {w.parked.job for w in waiting}, self._spent()
        try:
            ended = set(waiting[0].parked.ended(jobs))
            pause_s = max(_LEAST_PAUSE_S, (self._spent() - begun) * _PAUSE_PER_LOOK)
            pause_s = min(pause_s, _LONGEST_PAUSE_S)
        except Exception:  # noqa: BLE001 - the loop goes on, so that deadlines hold
            _log.exception("the jobs that requests wait for could not be read")
            ended, pause_s = set(), _LONGEST_PAUSE_S
        now = time.monotonic()
        woken = [w for w in waiting if w.parked.job in ended or now >= w.deadline]
        gone = set(map(id, woken))
        with self._new:
            self._waiting = [w for w in self._waiting if id(w) not in gone]
        for one in woken:
            one.visit.is_over = now >= one.deadline
            self._wake(one.who)
        return pause_s


MOST_CONNECTIONS = 2000
"""Connections of one process; gunicorn accepts no more until one closes."""

MOST_WAITING = 1500
"""Requests of one process that wait for a job or a lane. A further one is answered at once: with
its job, or `busy`."""

MOST_WAITING_BYTES = 64 << 20
"""Bytes that the bodies of these requests may have in all. One that would pass it is answered as
one too many."""

_THREADS_PER_LANE = 2
_AGAIN = "again"
_SHORT_AGAIN = ("", "questions")
# Pause before the next connection where there are no more files for one.
_NO_FILES_S = 0.02
# A thread that computes gives way to short requests more often than after Python's 5 ms.
_SWITCH_S = 0.0005
_OTHER_FILES = 64


class Connection(TConn):  # type: ignore[misc]
    """A connection, and its request that was put aside, if any."""

    visit: Visit | None = None
    request: Any = None
    environ: WSGIEnvironment | None = None
    parked: Parked | None = None
    waits = False

    @property
    def n_body_bytes(self) -> int:
        """The length of the body, if it was read."""
        body = None if self.environ is None else self.environ["wsgi.input"]
        return body.getbuffer().nbytes if isinstance(body, BytesIO) else 0


class _Joined:
    """A socket that keeps a reply's head until its body comes, so that one write sends both.

    What else is asked of the socket comes after the head.
    """

    def __init__(self, sock: Any) -> None:
        self._sock, self._head = sock, b""
        self._is_new = True

    def sendall(self, data: bytes) -> None:
        """Send, except what is to go with later bytes."""
        if self._is_new:
            self._head, self._is_new = data, False
            return
        head, self._head = self._head, b""
        self._sock.sendall(head + data if head else data)

    def flush(self) -> None:
        """Send a head without a body."""
        if self._head:
            self.sendall(b"")

    def __getattr__(self, name: str) -> Any:
        self.flush()
        return getattr(self._sock, name)


class _Again:
    """A parser whose next request is the present one."""

    def __init__(self, parser: Any, request: Any) -> None:
        self.parser = parser
        self._request = request

    def __next__(self) -> Any:
        return self._request

    def __getattr__(self, name: str) -> Any:
        return getattr(self.parser, name)


class ParkingWorker(ThreadWorker):  # type: ignore[misc]
    """Runs the app in lanes, and runs it again where it asks."""

    def init_process(self) -> None:
        """Make the lanes, then start as any worker."""
        sys.setswitchinterval(_SWITCH_S)
        self.worker_connections = _allowed_connections()
        self.max_keepalived = self.worker_connections - self.cfg.threads
        self._present = threading.local()
        self._n_waiting = self._n_waiting_bytes = 0
        self._lanes: dict[str, ThreadPoolExecutor] = {
            lane: ThreadPoolExecutor(_THREADS_PER_LANE, thread_name_prefix=lane)
            for lane in (*LANES, _AGAIN)
        }
        self._watch: JobWatch[Connection] = JobWatch(self._wake)
        self._watch.start()
        super().init_process()

    def load_wsgi(self) -> None:
        """Load the app, and stand in front of it."""
        super().load_wsgi()
        self._app: WSGIApplication = self.app.wsgi()
        self.wsgi: WSGIApplication = self._call

    def accept(self, listener: Any) -> None:
        """Take a connection; a thread takes it over when its request begins to arrive."""
        try:
            sock, address = listener.accept()
        except OSError as exc:
            # Another process was quicker, or the client left; else other files must close first.
            if exc.errno in (errno.EMFILE, errno.ENFILE):
                time.sleep(_NO_FILES_S)
            return
        self.nr_conns += 1
        conn = Connection(self.cfg, sock, address, listener.getsockname())
        self.finish_request(conn, _deferred())

    def handle_request(self, req: Any, conn: Connection) -> Any:
        """Run the app for a request, or run it again."""
        conn.request = req
        self._present.conn = conn
        plain, conn.sock = conn.sock, _Joined(conn.sock)
        try:
            goes_on = super().handle_request(req, conn)
            conn.sock.flush()
        except Parked as parked:
            conn.parked = parked
            raise
        finally:
            self._present.conn, conn.sock = None, plain
        return goes_on

    def handle(self, conn: Connection) -> Any:
        """The next step with the connection, which keeps a request that was put aside."""
        parser = conn.parser
        if conn.request is not None:
            conn.parser = _Again(parser, conn.request)
        try:
            return super().handle(conn)
        except Parked:
            return False
        finally:
            if isinstance(conn.parser, _Again):
                conn.parser = parser

    def finish_request(self, conn: Connection, fs: Future[Any]) -> None:
        """Put the request aside, or go on with its connection. On the main thread."""
        if conn.waits:
            conn.waits, self._n_waiting = False, self._n_waiting - 1
            self._n_waiting_bytes -= conn.n_body_bytes
        parked, conn.parked = conn.parked, None
        if parked is not None and conn.visit is not None:
            self._put_aside(conn, conn.visit, parked)
            return
        conn.visit = conn.request = conn.environ = None
        super().finish_request(conn, fs)

    def _call(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        conn = getattr(self._present, "conn", None)
        if conn is None:  # HTTP/2, whose connections keep their thread
            return self._app(environ, start)
        if conn.visit is None or conn.environ is None:
            conn.visit, conn.environ = Visit(), environ
        conn.environ[VISIT_KEY] = conn.visit
        body = conn.environ["wsgi.input"]
        if isinstance(body, BytesIO):  # an earlier run has read it
            body.seek(0)
        with visiting(conn.visit):
            return self._app(conn.environ, start)

    def _put_aside(self, conn: Connection, visit: Visit, parked: Parked) -> None:
        n_bytes = self._n_waiting_bytes + conn.n_body_bytes
        if self._n_waiting >= MOST_WAITING or n_bytes > MOST_WAITING_BYTES:
            visit.is_over = True
            self._submit(self.tpool, conn)
            return
        conn.waits, self._n_waiting = True, self._n_waiting + 1
        self._n_waiting_bytes = n_bytes
        if parked.lane:
            visit.lane = parked.lane
            self._submit(self._lanes[parked.lane], conn)
        else:
            self._watch.add(conn, visit, parked, now=time.monotonic())

    def _wake(self, conn: Connection) -> None:
        self.method_queue.defer(self._run_again, conn)

    def _run_again(self, conn: Connection) -> None:
        """Form the reply of a request whose job ended. A question's is short, others' may be long.

        Those have neither the threads of short requests nor to wait behind explanations.
        """
        lane = "" if conn.visit is None else conn.visit.lane
        self._submit(self.tpool if lane in _SHORT_AGAIN else self._lanes[_AGAIN], conn)

    def _submit(self, pool: ThreadPoolExecutor, conn: Connection) -> None:
        """As `enqueue_req`, in another pool."""
        running = pool.submit(self.handle, conn)
        running.add_done_callback(
            lambda future: self.method_queue.defer(self.finish_request, conn, future)
        )


def _deferred() -> Future[Any]:
    """The outcome of a connection that has sent nothing yet, in gunicorn's form."""
    future: Future[Any] = Future()
    future.set_result(_DEFER)
    return future


def _allowed_connections() -> int:
    """`MOST_CONNECTIONS`, or as many as the system lets this process open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + _OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted - _OTHER_FILES
