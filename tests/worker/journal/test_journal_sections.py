"""The journal's sections: locking, durability, several processes, kill -9."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from qserver.errors import JournalError
from tests.worker.journal.on_disk import opened, written
from worker.journal.journal import Journal
from worker.journal.records import (
    Attached,
    Burnt,
    ChargeLine,
    Record,
    Released,
    ReleasedRow,
    Reserved,
)

ATTACHED = Attached("census", "s1", 10**9, "add-remove", "00ff")
HISTORY: tuple[Record, ...] = (
    ATTACHED,
    Reserved("j1", 1, 60, (ChargeLine("row", 60),)),
    Released("j1", (ReleasedRow("row", (-7,)),)),
    Burnt("j2"),
)


def test_appending_and_nesting_outside_the_rules_of_sections_is_refused(path: Path) -> None:
    journal = written(path)
    with pytest.raises(JournalError, match="within an exclusive section"):
        journal.append(ATTACHED)
    with journal.exclusive():
        with pytest.raises(JournalError, match="must not be nested"), journal.exclusive():
            pass
        journal.append(ATTACHED)
    assert opened(path).state.attached.get("census") == ATTACHED


def test_a_section_that_is_held_elsewhere_refuses_one_that_does_not_wait(path: Path) -> None:
    journal, other = written(path), opened(path)
    refusal = pytest.raises(JournalError, match="held by another")
    with journal.exclusive(), refusal, other.exclusive(wait=False):
        pass
    with other.exclusive(wait=False):
        other.append(ATTACHED)


def test_threads_that_share_one_object_take_turns(path: Path) -> None:
    """A file lock alone would not part them."""
    journal = written(path)

    def work(name: str) -> None:
        for i in range(30):
            with journal.exclusive():
                n_before = journal.n_records
                journal.append(Burnt(f"{name}-{i}"))
                assert journal.n_records == n_before + 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, "abcd"))
    assert opened(path).n_records == 121


def test_a_section_ends_when_its_body_fails(path: Path) -> None:
    journal = written(path)
    with pytest.raises(ZeroDivisionError), journal.exclusive():
        raise ZeroDivisionError
    with opened(path).exclusive(wait=False) as other:
        other.append(ATTACHED)


class Disk:
    """An fsync that notes what it was called on, and how long the file was; may be told to fail."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self.fails = False

    def __call__(self, descriptor: int) -> None:
        if self.fails:
            raise OSError(5, "input/output error")
        status = os.fstat(descriptor)
        is_folder = stat.S_ISDIR(status.st_mode)
        self.calls.append(("folder", 0) if is_folder else ("file", status.st_size))


def test_every_append_is_synced_whole_before_it_returns(path: Path) -> None:
    """Creation syncs the folder too, before the first line says that the journal exists."""
    disk = Disk()
    journal = Journal.open(path, population="people", create=True, fsync=disk)
    assert disk.calls == [("folder", 0), ("file", path.stat().st_size)]
    for record in HISTORY:
        disk.calls.clear()
        with journal.exclusive():
            journal.append(record)
            assert disk.calls == [("file", path.stat().st_size)]


def test_what_others_left_is_synced_before_it_is_believed(path: Path) -> None:
    """A worker killed between write and fsync leaves a line that a power cut could still undo."""
    written(path, *HISTORY)
    disk = Disk()
    journal = Journal.open(path, population="people", create=False, fsync=disk)
    assert disk.calls == [("file", path.stat().st_size)]
    with journal.exclusive():
        pass
    assert len(disk.calls) == 1


def test_after_a_failed_sync_the_object_refuses_everything(path: Path) -> None:
    """Whether the line reached the disk is unknown; opening anew finds out."""
    disk = Disk()
    journal = Journal.open(path, population="people", create=True, fsync=disk)
    with journal.exclusive():
        disk.fails = True
        with pytest.raises(JournalError, match="could not be written"):
            journal.append(ATTACHED)
        disk.fails = False
        with pytest.raises(JournalError, match="open the journal anew"):
            journal.append(ATTACHED)
    assert journal.state.attached.get("census") is None
    with pytest.raises(JournalError, match="open the journal anew"), journal.exclusive():
        pass
    assert opened(path).state.attached.get("census") == ATTACHED


def python(script: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )


APPENDER = """
import sys
from pathlib import Path
from worker.journal.journal import Journal
from worker.journal.records import Burnt, ChargeLine, Released, ReleasedRow, Reserved

name, n_jobs = sys.argv[2], int(sys.argv[3])
journal = Journal.open(Path(sys.argv[1]), population="people", create=False)
for i in range(n_jobs):
    job = f"{name}-{i}"
    with journal.exclusive():
        version = journal.state.ledger_version + 1
        journal.append(Reserved(job, version, version, (ChargeLine("row", 1),)))
        journal.append(Released(job, (ReleasedRow("row", (i,)),)))
    print(version, flush=True)
"""


def test_processes_that_append_at_once_never_interleave(path: Path) -> None:
    """Each takes the next ledger version in turn: none is lost, none is taken twice."""
    n_processes, n_jobs = 3, 40
    written(path, ATTACHED)
    children = [python(APPENDER, str(path), f"p{i}", str(n_jobs)) for i in range(n_processes)]
    versions = [int(line) for child in children for line in child.communicate()[0].split()]
    assert [child.returncode for child in children] == [0] * n_processes
    assert sorted(versions) == list(range(1, n_processes * n_jobs + 1))
    journal = opened(path)
    assert journal.n_records == 2 + 2 * n_processes * n_jobs
    assert journal.state.ledger_version == n_processes * n_jobs
    for i in range(n_processes):
        for j in range(n_jobs):
            assert journal.state.released.get(f"p{i}-{j}") == Released(
                f"p{i}-{j}", (ReleasedRow("row", (j,)),)
            )


def test_a_worker_killed_at_work_loses_nothing_it_acknowledged(path: Path) -> None:
    written(path, ATTACHED)
    for i in range(3):
        child = python(APPENDER, str(path), f"k{i}", "100000")
        assert child.stdout is not None
        acknowledged = [int(child.stdout.readline()) for _ in range(7 + i)]
        child.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in child.stdout.read().split("\n")[:-1]]
        child.wait()
        child.stdout.close()
        journal = opened(path)
        assert journal.state.ledger_version >= acknowledged[-1]
        assert all(journal.state.released.get(f"k{i}-{j}") for j in range(len(acknowledged)))


FORKER = """
import os, sys
from pathlib import Path
from worker.journal.journal import Journal
from worker.journal.records import Burnt

journal = Journal.open(Path(sys.argv[1]), population="people", create=False)
for i in range(4):
    if os.fork() == 0:
        for j in range(20):
            with journal.exclusive():
                journal.append(Burnt(f"{i}-{j}"))
        os._exit(0)
assert all(os.wait()[1] == 0 for _ in range(4))
with journal.exclusive():
    print(journal.n_records)
"""


def test_a_journal_opened_before_a_fork_serves_every_child(path: Path) -> None:
    """A lock belongs to an open file, which children would share: each section opens its own."""
    written(path, ATTACHED)
    child = python(FORKER, str(path))
    assert child.communicate()[0].split() == ["82"]
    assert opened(path).n_records == 82
