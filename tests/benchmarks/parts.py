"""What each part of a running server has used of the processor: HTTP, worker, store, port.

A part is a process that we started and all that it started in turn, such as the engine that reads
SQL. The kernel's clock of a process has nanoseconds, where `/proc/PID/stat` has hundredths.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

# In the order in which they are looked for: the echo, too, runs under gunicorn.
_SIGNS: Mapping[str, str] = {
    "echo": "tests.benchmarks.echo:app",
    "server": "qserver.wsgi:app",
    "port": "qserver.postgres",
    "worker": "-m worker run",
    "store": "valkey-server",
}
PARTS = tuple(_SIGNS)


@dataclass
class Clocks:
    """Clocks of the parts that run below this process, as they were when it was made."""

    pids: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: processes())

    def seconds(self) -> dict[str, float]:
        """What each part has used by now, without what has ended meanwhile."""
        return {part: sum(map(_used_s, pids)) for part, pids in self.pids.items()}


def processes() -> dict[str, tuple[int, ...]]:
    """The processes of each part that runs below this one."""
    below, found = _children(), dict[str, tuple[int, ...]]()
    for pid in _all_below(os.getpid(), below):
        part = _part_of(pid)
        if part is not None and pid not in sum(found.values(), ()):
            found[part] = (*found.get(part, ()), pid, *_all_below(pid, below))
    return found


def used_below() -> float:
    """Processor seconds of all processes that run below this one."""
    return sum(map(_used_s, _all_below(os.getpid(), _children())))


def proportional_mb(pids: tuple[int, ...]) -> float:
    """Memory of these processes, pages shared with others by their share, in MB."""
    found = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
            found += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return found / 1000


def _used_s(pid: int) -> float:
    """As `clock_getcpuclockid` names the clock of another process; 0 where it has ended."""
    with contextlib.suppress(OSError):
        return time.clock_gettime((~pid << 3) | 2)
    return 0.0


def _children() -> dict[int, list[int]]:
    """The processes that each process started, by its id."""
    found = dict[int, list[int]]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name, in brackets, may hold anything.
            rest = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
            found.setdefault(int(rest.split()[1]), []).append(int(path.parent.name))
    return found


def _all_below(pid: int, below: Mapping[int, list[int]]) -> list[int]:
    found = list(below.get(pid, ()))
    for one in found:
        found.extend(below.get(one, ()))  # The list grows while it is read.
    return found


def _part_of(pid: int) -> str | None:
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        return next((part for part, sign in _SIGNS.items() if sign in command), None)
    return None
