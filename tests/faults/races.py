"""Many clients at once, over several processes; and one dataset against another's flood."""

from __future__ import annotations

import contextlib
import random
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.faults.checks import Books, faults
from tests.faults.clients import Asker, Memory, Question, call
from tests.faults.site import Dataset, Site, paused

_LIMIT = "2"
_N_ALONE = 20


@dataclass(frozen=True)
class Race:
    """What so many clients did to a population, and what does not hold afterwards."""

    n_clients: int
    reservations: int
    done: int
    codes: dict[str, int]
    spent_nano: int
    limit_nano: int
    took_s: float
    faults: list[str]


RACED = tuple(
    Dataset(name=name, population=name, limit=_LIMIT) for name in ("identical", "different")
)


def race_site(folder: Path, *, n_workers: int = 2, http_workers: int = 3) -> Site:
    """A site for both races, each on a population of its own."""
    return Site(
        folder,
        datasets=RACED,
        n_workers=n_workers,
        http_threads=64,
        http_workers=http_workers,
        # Nothing is killed here: a worker may stand still for so long and keep its job.
        lease_ms=30_000,
    )


def identical(site: Site, *, n_clients: int) -> Race:
    """All clients ask one question at the same moment; it must be charged once."""
    question = Question("identical", {"age": {"between": [22, 26]}}, 20.0)
    race = _race(site, [question] * n_clients)
    answers = 1 if race.done == n_clients else 0
    if race.reservations != 1 or not answers:
        race.faults.append(f"{race.reservations} charges, {race.done} answers")
    return race


def different(site: Site, *, n_clients: int, seed: int) -> Race:
    """All clients ask different questions that the limit cannot pay; it must never be passed."""
    rng = random.Random(seed)
    questions = [
        Question(
            "different",
            {"age": {"between": [20 + i % 10, 20 + rng.randrange(i % 10, 10)]}},
            round(4 + 16 * rng.random(), 6),
        )
        for i in range(n_clients)
    ]
    race = _race(site, questions)
    if race.codes.get("budget_exhausted", 0) == 0:
        race.faults.append("nothing was refused: the limit was not reached")
    return race


def _race(site: Site, questions: Sequence[Question]) -> Race:
    memory, name = Memory(), questions[0].dataset
    begun = time.monotonic()
    _at_once(
        [
            partial(Asker(site.settings.port, memory, key=f"c{i}").ask, q, waits=i % 2 == 0)
            for i, q in enumerate(questions)
        ]
    )
    took_s = time.monotonic() - begun
    site.wait_until(lambda: site.n_unfinished() == 0, what="work everything off")
    books = Books.read(site.connect(), name, site.registry.journal(name, create=False))
    return Race(
        n_clients=len(questions),
        reservations=len(books.reservations),
        done=memory.count("done"),
        codes=memory.codes(),
        spent_nano=int(books.ledger["spent"]),
        limit_nano=int(books.ledger["limit"]),
        took_s=round(took_s, 2),
        faults=faults(books, shown=memory.shown, draws=site.folder / "draws.txt"),
    )


def _at_once(acts: Sequence[Callable[[], Any]]) -> None:
    gate = threading.Barrier(len(acts))

    def act(what: Callable[[], Any]) -> None:
        gate.wait()
        what()

    threads = [threading.Thread(target=act, args=(what,)) for what in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@dataclass(frozen=True)
class Fairness:
    """How long a dataset's questions take alone, and while another dataset is flooded.

    Args:
        flood_left: questions of the flood that still waited when the last one was answered.
    """

    populations: int
    n_workers: int
    alone_s: float
    beside_flood_s: float
    worst_beside_flood_s: float
    flood_left: int


def fairness(folder: Path, *, n_flood: int, shared: bool, n_workers: int) -> Fairness:
    """Ask a quiet dataset questions, one by one, alone and beside a flood on another.

    Args:
        shared: both datasets belong to one population.
    """
    datasets = (
        Dataset(name="loud", population="one"),
        Dataset(name="quiet", population="one" if shared else "two"),
    )
    with Site(folder, datasets=datasets, n_workers=n_workers) as site:
        asker = Asker(site.settings.port, Memory(), key="quiet")
        alone = _ask_in_turn(asker, length_from=100.0)
        with contextlib.ExitStack() as held:
            # The flood is there at once, not as fast as it can be asked.
            for child in site.workers:
                held.enter_context(paused(child.pid))
            _flood(site, n_flood)
        beside = _ask_in_turn(asker, length_from=20.0)
        left = site.n_unfinished()
    return Fairness(
        populations=1 if shared else 2,
        n_workers=n_workers,
        alone_s=round(statistics.median(alone), 4),
        beside_flood_s=round(statistics.median(beside), 4),
        worst_beside_flood_s=round(max(beside), 4),
        flood_left=left,
    )


def _flood(site: Site, n_flood: int) -> None:
    for i in range(n_flood):
        body = Question("loud", {"age": {"between": [20, 20 + i % 10]}}, 50 * 0.995**i).body
        path, headers = "/v1/datasets/loud/query", {"Prefer": "respond-async"}
        call(site.settings.port, "POST", path, body, headers)


def _ask_in_turn(asker: Asker, *, length_from: float) -> list[float]:
    return [
        asker.ask(
            Question("quiet", {"age": {"between": [20, 20 + i % 10]}}, length_from * 0.95**i),
            waits=False,
        ).took_s
        for i in range(_N_ALONE)
    ]
