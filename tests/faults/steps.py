"""The steps of a spend as places where a process may be killed: before or after each.

A trap is a small file. The first process that comes to the place it names claims it, and kills or
stops the victim there and then. Nothing of this is in the worker: its steps are wrapped from here.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import qserver.answering.decide
import worker.journal.witness
import worker.spending.group.spends
import worker.spending.measure
from qserver.answering.replica import Replica
from qserver.storage.histories import ModelStore
from qserver.storage.keys import population_of_job
from qserver.storage.queue import Endings, JobQueue
from qserver.storage.spend import SpendingStore
from worker.journal.sections import Drawn
from worker.private.record_tables import RecordTable
from worker.spending.group.plan import Spend
from worker.spending.group.spends import Spends
from worker.spending.spend import Spender

Victim = Literal["worker", "store", "http", "pause", "slow"]
When = Literal["before", "after"]

WITNESSES = "witnesses"
"""The folder of a site's witnesses, by its name there."""

# Step -> where it is found: an object, and the name in it.
_PLACES: dict[str, tuple[Any, str]] = {
    "take": (JobQueue, "take"),
    "lease": (SpendingStore, "acquire"),
    "settle": (Spender, "settle"),
    "plan": (Replica, "plan"),
    "plan workload": (Replica, "plan_workload"),
    "plan model": (qserver.answering.decide, "plan_model"),
    "check witness": (worker.spending.group.spends, "check_witness"),
    "reserve": (SpendingStore, "reserve"),
    "await": (SpendingStore, "await_durable"),
    "journal charge": (worker.spending.group.spends, "write_reserved"),
    # Twice in a spend: after the charge, and after the answer is in the journal.
    "witness": (Spends, "_attest"),
    "witness line": (worker.journal.witness, "write_all"),
    "read": (RecordTable, "answer"),
    "count": (RecordTable, "counts"),
    "sample": (worker.spending.measure, "draw_answers"),
    "draw": (Spends, "draw"),
    "journal answer": (worker.spending.group.spends, "write_released"),
    "slot": (Spends, "_keep_slot"),
    "publish": (SpendingStore, "publish"),
    "keep model": (ModelStore, "keep"),
    "conclude": (Endings, "conclude"),
    "acknowledge": (SpendingStore, "acknowledge"),
    "let go": (SpendingStore, "release"),
}
STEPS = tuple(_PLACES)


@dataclass(frozen=True)
class Trap:
    """What is killed, and where.

    Args:
        victim: killed; but `pause` holds a worker still, and `slow` the store.
        pid: of the victim; 0 for the process that springs the trap.
    """

    step: str
    when: When
    victim: Victim
    pid: int = 0


class Traps:
    """The folder of traps: at most one is set; those that were sprung stay behind.

    Args:
        folder: shared by the harness and its workers.
    """

    def __init__(self, folder: Path) -> None:
        self._set = folder / "trap.json"
        self._folder = folder

    def set(self, trap: Trap) -> None:
        """Set a trap in place of the one that is set."""
        new = self._folder / "trap.new"
        new.write_text(json.dumps(asdict(trap)))
        new.replace(self._set)

    def take_away(self) -> bool:
        """Take the trap away; False when it was sprung."""
        with contextlib.suppress(FileNotFoundError):
            self._set.unlink()
            return True
        return False

    @property
    def is_set(self) -> bool:
        """Whether a trap is set that nobody sprang."""
        return self._set.exists()

    def passed(self, step: str, when: When) -> None:
        """Spring the trap if it is set for this place."""
        try:
            trap = Trap(**json.loads(self._set.read_text()))
            if (trap.step, trap.when) != (step, when):
                return
            # Of several processes one gets to rename it.
            self._set.rename(self._folder / f"sprung.{os.getpid()}")
        except FileNotFoundError:
            return
        _kill(trap)


def _kill(trap: Trap) -> None:
    number = signal.SIGSTOP if trap.victim in ("pause", "slow") else signal.SIGKILL
    with contextlib.suppress(ProcessLookupError):
        os.kill(trap.pid or os.getpid(), number)


def lay(traps: Traps) -> None:
    """Make this process pass the traps at every step of its spends."""
    for step, (owner, name) in _PLACES.items():
        setattr(owner, name, _passing(getattr(owner, name), step, traps))


def _passing(original: Callable[..., Any], step: str, traps: Traps) -> Callable[..., Any]:
    def passing(*args: Any, **kwargs: Any) -> Any:
        traps.passed(step, "before")
        found = original(*args, **kwargs)
        traps.passed(step, "after")
        return found

    return passing


def n_seen(witness: Path) -> int:
    """The lines of the journal that a witness has seen, by its last whole line."""
    *lines, _torn = witness.read_text().split("\n")
    return int(json.loads(lines[-1])["number"])


def record_draws(path: Path, witnesses: Path) -> None:
    """Write down each draw of this process: job, lattice indices, and what the witness had seen.

    Args:
        witnesses: their folder; each is asked as it was before the draw.
    """
    draw = Spends.draw

    def drawing(self: Any, spends: Sequence[Spend]) -> list[Drawn]:
        population = population_of_job(spends[0].taken.job)
        seen, drawn = n_seen(witnesses / f"{population}.witness"), draw(self, spends)
        lines = [
            json.dumps([one.reservation.job, [list(map(str, i)) for i in one.indices], seen])
            for one in drawn
        ]
        with path.open("a") as file:
            file.write("".join(line + "\n" for line in lines))
        with path.with_name("groups.txt").open("a") as file:
            file.write(f"{len(spends)}\n")
        return drawn

    Spends.draw = drawing  # type: ignore[method-assign]
