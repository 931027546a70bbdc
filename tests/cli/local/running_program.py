"""A qserver as its users run it: a process of its own, with all that it starts.

Each of its processes inherits a mark in its environment, so that none can be left behind unseen.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from qserver.client.http import HttpClient

_MARK = "QSERVER_TEST_RUN"
TIMEOUT_S = 60
_OWN = str(Path(sys.executable).parent)
READER = {"PATH": os.pathsep.join(at for at in os.get_exec_path() if at != _OWN)}
"""A shell that does not find our programs by name: commands are printed for the one that asks."""


@dataclass
class Program:
    """A running command, and what it printed."""

    process: subprocess.Popen[bytes]
    state: Path
    mark: str
    printed: str = ""

    def read_until(self, text: str) -> None:
        """Read on until `text` was printed; fail when the output ends or nothing more comes."""
        assert self.process.stdout is not None
        output = self.process.stdout.fileno()
        while text not in self.printed:
            ready, _, _ = select.select([output], [], [], TIMEOUT_S)
            more = os.read(output, 4096) if ready else b""
            assert more, f"`{text}` must be printed, got {self.printed}"
            self.printed += more.decode()

    @property
    def url(self) -> str:
        """The address that it printed."""
        return self.printed.split("answers at ", 1)[1].split()[0]

    @property
    def client(self) -> HttpClient:
        return HttpClient(self.url, timeout_s=TIMEOUT_S)

    def stop(self, number: signal.Signals) -> int:
        """Its exit status after this signal."""
        self.process.send_signal(number)
        return self.process.wait(timeout=TIMEOUT_S)

    def processes(self) -> dict[int, str]:
        """Every process that bears the mark or works in the state folder: id -> command."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                marked = f"{_MARK}={self.mark}".encode() in (folder / "environ").read_bytes()
                # The store writes its title over its environment.
                if marked or (folder / "cwd").readlink().is_relative_to(self.state):
                    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(folder.name)] = command.decode()
        return found

    def process_id(self, part: str) -> int:
        """The first process whose command holds `part`."""
        return min(pid for pid, command in self.processes().items() if part in command)


def command(*arguments: str) -> list[str]:
    """A call of the command line."""
    return [sys.executable, "-m", "qserver.cli.main", *arguments]


def worker_command(*arguments: str) -> list[str]:
    """A call of the worker's command line."""
    return [sys.executable, "-m", "worker", *arguments]


@contextlib.contextmanager
def running(state: Path, *arguments: str, **environ: str) -> Iterator[Program]:
    """The command, once it said where it answers; killed at the end if it still runs."""
    with started(state, command(*arguments), **environ) as program:
        program.read_until("answers at ")
        program.read_until("\n")
        yield program


@contextlib.contextmanager
def started(state: Path, call: list[str], **environ: str) -> Iterator[Program]:
    """The process of this call; killed at the end if it still runs."""
    mark = secrets.token_hex(8)
    process = subprocess.Popen(
        call,
        env={**os.environ, _MARK: mark, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
    )
    program = Program(process, state, mark)
    try:
        yield program
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def wait_until_gone(pids: set[int]) -> None:
    """Return when these processes have ended; the kernel says when, nobody sleeps."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            fd = os.pidfd_open(pid)
            ready, _, _ = select.select([fd], [], [], TIMEOUT_S)
            os.close(fd)
            assert ready, f"process {pid} still runs"
