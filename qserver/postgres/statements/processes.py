"""Processes that answer statements: one at a time each, within a bound of time.

The process that clients are connected to reads no statement and computes no answer, so that nothing
holds it up. A statement that takes too long ends with its process, wherever it is: what it was
charged is found in the store, as after any other end. Another process takes its place.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from logging.config import dictConfig
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Final

from sqlglot import exp

from qserver.api.process.start import STARTING_S, logging_config, open_store
from qserver.config import Settings
from qserver.postgres.catalogue.child import MOST_SECONDS
from qserver.postgres.statements.dataset_answers import Answerer
from qserver.postgres.wire.faults import TOO_LATE, PostgresError, fault_of
from qserver.query.sql.engine.run import run
from qserver.service.service import Service

_LOOK_S: Final = 0.05
_LOOK_AT_HISTORY_S: Final = 3600.0
"""By the clock; the bound on what its process computes is sooner."""
_MOST_LAWS: Final = 5.0
"""Each takes 5 to 80 ms by the length of the history, and a statement has other things to do."""
_CLOCK_OF_PROCESS: Final = 2
_GARBAGE_S: Final = 1.0
_MOST_GARBAGE_S: Final = 10.0
"""Of the processor, between two searches for garbage."""
_IDLE_S: Final = 0.3
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([__name__])


def used_s(process: int) -> float:
    """The processor time of a process and its children, in seconds; 0 for none."""
    try:
        with open(f"/proc/{process}/task/{process}/children", encoding="ascii") as children:
            found = [process, *map(int, children.read().split())]
    except OSError:
        found = [process]
    return sum(map(_own_s, found))


def _own_s(process: int) -> float:
    try:
        return time.clock_gettime(~process << 3 | _CLOCK_OF_PROCESS)
    except OSError:
        return 0.0


class Calculator:
    """A process that answers calls, one at a time.

    Args:
        serve: what it does, given its end of a pipe and `niceness`.
        niceness: how far it gives way to others.
        most_s: what one call may take of the processor, in seconds.
        clock: what a process took of it so far, with what it started.
    """

    def __init__(
        self,
        niceness: int = 0,
        *,
        serve: Callable[[Connection, int], None] | None = None,
        most_s: float = MOST_SECONDS,
        clock: Callable[[int], float] = used_s,
    ) -> None:
        self._serve, self._niceness = serve or answer, niceness
        self._most_s, self._clock = most_s, clock
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None

    def start(self) -> int:
        """Have the process, which then loads by itself; returns its number."""
        if self._process is None or self._pipe is None or not self._process.is_alive():
            self.end()
            self._pipe, theirs = _processes.Pipe()
            arguments = theirs, self._niceness
            self._process = _processes.Process(target=self._serve, args=arguments, daemon=True)
            self._process.start()
            theirs.close()
        return self._process.pid or 0

    @property
    def used_s(self) -> float:
        """The processor time that it took so far, in seconds."""
        process = self._process
        return 0.0 if process is None else self._clock(process.pid or 0)

    def end(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
        if self._pipe is not None:
            self._pipe.close()
        self._process = self._pipe = None

    def ask(self, method: str, call: object, *, most_s: float | None = None) -> Any:
        """The result of a method of its Answerer for a call.

        Args:
            most_s: what it may take of the processor, if that is not as ever.

        Raises:
            PostgresError: what the method raises, or that it took too long.
        """
        process = self.start()
        assert self._pipe is not None  # noqa: S101 - it has just started
        try:
            return self._asked(process, self._pipe, (method, call), most_s or self._most_s)
        except PostgresError:
            raise
        except BaseException:
            self.end()  # its reply must not be taken for the next one's
            raise

    def _asked(self, process: int, pipe: Connection, request: object, most_s: float) -> Any:
        end = self._clock(process) + most_s
        try:
            pipe.send(request)
            while not pipe.poll(_LOOK_S):
                if self._clock(process) > end:
                    self.end()
                    self.start()  # the next statement shall not wait for all of it
                    raise PostgresError(
                        TOO_LATE,
                        f"The statement took more than {most_s:g} s of the processor.",
                        hint="Ask its parts.",
                    )
            is_answer, found = pipe.recv()
        except (EOFError, OSError) as exc:
            raise RuntimeError("A process that answers statements ended.") from exc
        if not is_answer:
            raise PostgresError(**found)
        return found


def answer(pipe: Connection, niceness: int) -> None:
    """Answer calls until none is left, with the environment's settings."""
    os.nice(niceness)
    settings = Settings.from_environment()
    dictConfig(logging_config(settings.log_format))
    # A look is waited for: it has this process to itself, and ends with it.
    store = open_store(settings)
    service = Service(
        store, settings, starting_s=STARTING_S, short_s=_LOOK_AT_HISTORY_S, most_laws=_MOST_LAWS
    )
    # The first statement shall not wait for the engine's process and for what writes its SQL.
    run(exp.select(exp.Literal.number(1)), ())
    gc.freeze()
    serve(pipe, Answerer(service))


def serve(pipe: Connection, answerer: object) -> None:
    """Answer each call by a method of an object, until none is left."""
    # A search of all for garbage takes .2 s: it waits until nobody asks, or for long.
    gc.set_threshold(*gc.get_threshold()[:2], 1 << 30)
    used = time.process_time()
    with contextlib.suppress(EOFError, OSError):
        while True:
            since_s = time.process_time() - used
            if since_s > _MOST_GARBAGE_S or (since_s > _GARBAGE_S and not pipe.poll(_IDLE_S)):
                gc.collect()
                used = time.process_time()
            method, call = pipe.recv()
            try:
                reply = True, getattr(answerer, method)(call)
            except Exception as exc:  # noqa: BLE001 - which may hold what was asked
                reply = False, vars(fault_of(exc))
            pipe.send(reply)
    sys.exit()
