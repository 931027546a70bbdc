"""Kill a process at every step of spends under load, again and again, by a seeded schedule."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.checks import Books, faults
from tests.faults.clients import Crowd
from tests.faults.site import Dataset, Site
from tests.faults.steps import STEPS, Trap, Victim, When

DATASETS = (
    Dataset(name="people", population="town"),
    Dataset(name="shops", population="trade", phi=0.25),
    Dataset(name="visits", population="trade", phi=0.25),
)
VICTIMS: tuple[Victim, ...] = ("worker", "worker", "store", "http", "pause", "slow")
WHENS: tuple[When, ...] = ("before", "after")
_TRAP_S = 5.0
_N_BETWEEN = 5
_BETWEEN_S = 2.0
# Longer than a lease, and than a client of the store waits for a reply.
_HELD_S = {"pause": 1.6, "slow": 5.5}
_SETTLE_S = 300.0


@dataclass
class Report:
    """What a campaign did and found; `faults` is empty when everything held."""

    seed: int
    sprung: dict[str, int] = field(default_factory=dict)
    by_victim: dict[str, int] = field(default_factory=dict)
    n_not_sprung: int = 0
    deaths: dict[str, int] = field(default_factory=dict)
    questions: dict[str, int] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    n_broken_connections: int = 0
    reservations: int = 0
    released: int = 0
    burnt: int = 0
    groups: dict[int, int] = field(default_factory=dict)
    tables: int = 0
    odd_ends: list[int] = field(default_factory=list)
    last_words: dict[str, int] = field(default_factory=dict)
    took_s: float = 0.0
    faults: list[str] = field(default_factory=list)

    @property
    def n_kills(self) -> int:
        """Traps that were sprung."""
        return sum(self.by_victim.values())

    def plain(self) -> dict[str, Any]:
        """The report for JSON."""
        return {"kills": self.n_kills, **asdict(self)}


def schedule(seed: int, n_kills: int, victims: Sequence[Victim] = VICTIMS) -> list[Trap]:
    """Traps in a random order that visits every step, before and after, in turn."""
    rng = random.Random(seed)
    places = [(step, when) for step in STEPS for when in WHENS]
    found: list[Trap] = []
    while len(found) < n_kills:
        rng.shuffle(places)
        found += [Trap(step, when, rng.choice(victims)) for step, when in places]
    return found[:n_kills]


def run(
    folder: Path,
    *,
    seed: int,
    n_kills: int,
    n_clients: int = 8,
    victims: Sequence[Victim] = VICTIMS,
    trap_s: float = _TRAP_S,
) -> Report:
    """A campaign: set each trap in turn, let it be sprung, start again what died; then check.

    Args:
        trap_s: how long to wait for a step that has a trap before the next trap is set.
    """
    report, begun = Report(seed), time.monotonic()
    rng = random.Random(f"victims {seed}")
    places: Counter[str] = Counter()
    fallen: Counter[str] = Counter()
    # Threads for all clients: those that wait for one population are spent for together.
    with Site(folder, datasets=DATASETS, http_threads=max(8, n_clients)) as site:
        names = [dataset.name for dataset in DATASETS]
        port = site.settings.port
        with Crowd(port, datasets=names, n_clients=n_clients, seed=seed) as crowd:
            for trap in schedule(seed, n_kills, victims):
                let_answer(site, crowd)
                if _spring(site, trap, rng, trap_s=trap_s):
                    places[f"{trap.when} {trap.step}"] += 1
                    fallen[trap.victim] += 1
                else:
                    report.n_not_sprung += 1
            crowd.stop_asking()
            let_end(site, crowd, report)
        report.sprung, report.by_victim = dict(sorted(places.items())), dict(fallen)
        report.questions = dict(Counter(s.state for s in crowd.memory.shown))
        report.done = dict(Counter(s.kind for s in crowd.memory.shown if s.state == "done"))
        report.failures, report.n_broken_connections = crowd.memory.codes(), crowd.memory.n_broken
        site.stop_workers()
        check(site, crowd, report)
        report.deaths, report.odd_ends = site.deaths, site.odd_ends
        report.last_words = site.last_words()
    report.took_s = round(time.monotonic() - begun, 1)
    return report


def let_answer(site: Site, crowd: Crowd) -> None:
    """Let the site answer some questions between two kills, so that history and ledger grow."""
    enough = len(crowd.memory.shown) + _N_BETWEEN
    with contextlib.suppress(TimeoutError):
        site.wait_until(
            lambda: len(crowd.memory.shown) >= enough, what="answer", timeout_s=_BETWEEN_S
        )


def _spring(site: Site, trap: Trap, rng: random.Random, *, trap_s: float) -> bool:
    """Whether the trap was sprung; what died is started again, what was held still goes on."""
    pid = 0
    if trap.victim in ("store", "slow"):
        pid = site.store_pid
    elif trap.victim == "http":
        # Mostly one process of several; at times the one that oversees them.
        pid = rng.choice([*site.http_pids(), site.http.pid])
    site.traps.set(Trap(trap.step, trap.when, trap.victim, pid))
    with contextlib.suppress(TimeoutError):
        site.wait_until(lambda: not site.traps.is_set, what="spring", timeout_s=trap_s)
    if site.traps.take_away():
        return False
    if trap.victim in _HELD_S:
        _go_on(site, after_s=_HELD_S[trap.victim])
    return True


def _go_on(site: Site, *, after_s: float) -> None:
    """Continue whatever is held still."""
    end = time.monotonic() + after_s
    site.wait_until(lambda: time.monotonic() > end, what="wait")
    for pid in (site.store_pid, *(child.pid for child in site.workers)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def let_end(site: Site, crowd: Crowd, report: Report) -> None:
    """Wait until every client heard of its question and the queues are empty."""
    try:
        site.wait_until(
            lambda: crowd.n_waiting == 0 and site.n_unfinished() == 0,
            what="work everything off",
            timeout_s=_SETTLE_S,
        )
    except TimeoutError:
        report.faults.append(f"{site.n_unfinished()} jobs did not end")


def check(site: Site, crowd: Crowd, report: Report) -> None:
    """Compare the books of each population with what clients were shown and workers drew."""
    sizes = site.folder / "groups.txt"
    if sizes.exists():
        report.groups = dict(sorted(Counter(map(int, sizes.read_text().split())).items()))
    client = site.connect()
    for population in sorted({dataset.population for dataset in DATASETS}):
        members = [d.name for d in DATASETS if d.population == population]
        journal = site.registry.journal(population, create=False)
        books = Books.read(client, population, journal)
        mine = [shown for shown in crowd.memory.shown if shown.dataset in members]
        report.faults += faults(books, shown=mine, draws=site.folder / "draws.txt")
        report.reservations += len(books.reservations)
        report.burnt += len(books.burnt)
        report.released += len(books.reservations) - len(books.burnt)
        report.tables += sum("table" in e for events in books.history.values() for e in events)
