"""Kill a process of a demo every so often, or the demo itself, and count what is finished.

One client asks medians in steps, each about other records, and asks again until it has the answer.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qserver.client import Client
from qserver.errors import QServerError
from tests.cli.local.running_program import command

PARTS = {"worker": "-m worker", "http": "gunicorn", "store": "qserver-valkey"}
"""What the command of a process holds, by victim. `all` is the demo itself."""
_READY_S = 300.0
_FIRST_S = 120.0


@dataclass
class Restarts:
    """What came of it; `given_up` are starts of the demo that ended by themselves."""

    every_s: float
    seconds: float
    kills: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    given_up: list[str] = field(default_factory=list)
    finished: int = 0
    finished_at: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    def plain(self) -> dict[str, Any]:
        """The report for JSON."""
        counts = {"kills": dict(self.kills), "errors": dict(self.errors)}
        rate = round(60 * self.finished / self.seconds, 2)
        return {**vars(self), **counts, "finished_a_minute": rate}


class Demo:
    """A demo that is started again when it ended."""

    def __init__(self, folder: Path, report: Restarts) -> None:
        self.state, self._report = folder / "state", report
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self._output = folder / "demo.txt"
        self._killed = False
        self.start()

    def start(self) -> None:
        """Start it; the output is a file, so that nothing waits for a reader."""
        with self._output.open("ab") as output:
            self._begin = output.tell()
            more = ("--port", str(self._port), "--state", str(self.state), "--limit", "100000")
            self.process = subprocess.Popen(
                command("demo", *more), stdout=output, stderr=output, start_new_session=True
            )
        self._report.starts += 1

    def tend(self) -> None:
        """Start it again if it ended, at once."""
        if self.process.poll() is None:
            return
        if not self._killed:
            with self._output.open("rb") as output:
                output.seek(self._begin)
                self._report.given_up.append(output.read().decode()[-300:])
        self._killed = False
        self.start()

    def kill(self, victim: str, rng: random.Random) -> bool:
        """Kill one process of it; False if there is none now."""
        if victim == "all":
            self._killed = True
            self.process.kill()
            self.process.wait()
            return True
        pids = [pid for pid, text in self._family() if PARTS[victim] in text]
        with contextlib.suppress(ProcessLookupError):
            if pids:
                os.kill(rng.choice(pids), signal.SIGKILL)
                return True
        return False

    def stop(self) -> None:
        """End it in good order."""
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=60)
        self.process.kill()
        self.process.wait()

    def _family(self) -> Iterator[tuple[int, str]]:
        waiting = [self.process.pid]
        while waiting:
            pid = waiting.pop()
            with contextlib.suppress(OSError):
                text = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                yield pid, text
                for task in Path(f"/proc/{pid}/task").iterdir():
                    waiting += map(int, (task / "children").read_text().split())


def run(folder: Path, *, seed: int, every_s: float, seconds: float, victims: list[str]) -> Restarts:
    """Kill for so long, once all is ready and a first statement is answered."""
    report, rng = Restarts(every_s, seconds), random.Random(seed)
    demo, over = Demo(folder, report), threading.Event()
    asking = threading.Thread(target=_ask, args=(demo.url, over, report, seed))
    asking.start()
    try:
        _until(lambda: report.finished > 0, demo, _READY_S)
        report.finished, report.errors, begun = 0, Counter(), time.monotonic()
        report.finished_at.clear()
        due = begun + every_s
        while (now := time.monotonic()) < begun + seconds:
            demo.tend()
            if victims and now >= due:
                victim = rng.choice(victims)
                report.kills[victim if demo.kill(victim, rng) else f"no {victim}"] += 1
                due += every_s
            time.sleep(0.05)
        over.set()
        asking.join()
        inside = [at for at in report.finished_at if at <= begun + seconds]
        report.finished = len(inside)
        report.finished_at = [round(at - begun, 1) for at in inside]
    finally:
        over.set()
        demo.stop()
        asking.join()
    return report


def _until(met: Any, demo: Demo, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not met():
        if time.monotonic() > deadline:
            raise TimeoutError("The demo answered nothing.")
        demo.tend()
        time.sleep(0.05)


def _ask(url: str, over: threading.Event, report: Restarts, seed: int) -> None:
    rng = random.Random(f"statements {seed}")
    while not over.is_set():
        low = rng.randrange(17, 60)
        text = (
            f"SELECT MEDIAN(hours-per-week) FROM adult WHERE age BETWEEN {low} AND {low + 9} "
            f"AND education-num >= {rng.randrange(1, 12)} WITHIN 2 ASSUMING AT LEAST 1000"
        )
        while not over.is_set():
            client = Client(url, timeout_s=20.0, wait_s=_FIRST_S, retries=2)
            try:
                client.sql(text)
            except QServerError as exc:
                report.errors[exc.code] += 1
                over.wait(0.2)
            else:
                report.finished += 1
                report.finished_at.append(time.monotonic())
                break
