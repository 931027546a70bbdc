"""Random streams of jobs on several datasets of one population, and what came of each."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from qserver.query.question import Question, Workload
from qserver.query.requirement import Requirement
from qserver.records.account import Allowance
from qserver.records.answer import JobStatus
from qserver.records.charge import NANO
from qserver.storage.accounts import AccountBook
from qserver.storage.queue import Taken
from qserver.storage.server.connection import connect
from qserver.storage.store import Store
from tests.deployment import LOG, PEOPLE, Deployment
from tests.faults.checks import Books
from tests.statistical.test_noise import SeededEntropy
from worker.owner.attach import AttachRequest, attach
from worker.spending.spend import Spender

NAMES = ("people", "homes", "visits")
NOON = 1_800_000_000
_SEXES = ("Female", "Male", "other")


@dataclass
class Stream:
    """A deployment with three datasets of one population.

    Args:
        entropy: the same noise in the same order for every worker.
        finer: what intervals' lengths are multiplied with.
    """

    town: Deployment
    entropy: SeededEntropy
    finer: float = 1.0

    @classmethod
    def make(
        cls,
        folder: Path,
        store_url: str,
        *,
        limit: str,
        phi: float,
        seed: int,
        apart: tuple[str, ...] = ("people",),
    ) -> Stream:
        """A new one.

        Args:
            phi: as for `attach`.
            apart: whose people are not in the third dataset.
        """
        folder.mkdir()
        town = Deployment.make(folder, store_url, limit=limit, phi=phi)
        for name, others in (("homes", ()), ("visits", apart)):
            request = AttachRequest(
                name, town.data, PEOPLE, Fraction(limit), "add-remove", "town", 1, phi=phi
            )
            request = replace(request, disjoint_from=others)
            attach(
                request, settings=town.settings, registry=town.registry, progress=lambda _line: None
            )
        book = AccountBook(Store.open(town.settings).client)
        for name in ("ann", "ben"):
            book.create(name, "analyst")
        book.allow("ann", "town", Allowance(limit_nano=int(Fraction(limit) * NANO) // 3))
        return cls(town, SeededEntropy(seed))

    def spender(self, **changes: Any) -> Spender:
        """A fresh worker on the seeded noise."""
        town = self.town
        return Spender(
            reader=Store.open(town.settings),
            writer=town.writer(),
            trusted=replace(town.trusted(), entropy=self.entropy),
            settings=town.settings,
            log=LOG,
            wall_clock=lambda: NOON,
            planning_clock=lambda: 0.0,
            **changes,
        )

    def submit(self, rng: random.Random, n_jobs: int, *, models: float = 0.1) -> list[str]:
        """Ask so many random things; the ids of the jobs in the order asked.

        Args:
            models: how often it is a model.
        """
        service, jobs = self.town.service(), list[str]()
        while len(jobs) < n_jobs:
            name, by = rng.choice(NAMES), rng.choice(["ann", "ben", ""])
            kind = rng.random()
            found: object
            if kind < models:
                document = {"network": {"edges": [["sex", "age"]]}}
                found = service.models.learn(
                    name, "network", document, rng.randrange(1, 4) * NANO // 10, wait_s=0, by=by
                )
            elif kind < 0.25:
                together = rng.random() < 0.5
                questions = tuple(self._question(rng) for _ in range(rng.randint(2, 4)))
                workload = Workload(questions, simultaneous=together)
                found = service.ask_workload(name, workload, wait_s=0, by=by)
            else:
                q = self._question(rng)
                found = service.ask(name, Question(q.query, q.requirement), wait_s=0, by=by)
            if isinstance(found, JobStatus):
                jobs.append(found.id)
        return list(dict.fromkeys(jobs))

    def _question(self, rng: random.Random) -> Question:
        where: dict[str, object] = {}
        if rng.random() < 0.7:
            low = rng.randrange(20, 29)
            where["age"] = {"between": [low, rng.randrange(low, 30)]}
        if rng.random() < 0.6:
            where["sex"] = rng.choice(_SEXES)
        query = self.town.service().parse("people", {"where": where})
        return Question(query, Requirement(self.finer * rng.choice([25.0, 40.0, 60.0, 90.0]), 0.95))

    def take(self) -> list[Taken]:
        """Every job that waits, in the order of the queues."""
        return self.town.writer().queue.more("town", consumer="test", most=10_000)

    def work(self, taken: list[Taken], *, sizes: random.Random | None) -> list[int]:
        """Work these off, in groups of random sizes or one by one; how many each call ended."""
        spender, writer, ended = self.spender(), self.town.writer(), list[int]()
        while taken:
            n = 1 if sizes is None else sizes.randint(1, 12)
            lease = writer.acquire("town", jobs=[one.job for one in taken[:n]])
            assert lease is not None
            spender.settle(lease)
            left = spender.work(lease, taken[:n])
            ended.append(len(taken[:n]) - len(left))
            taken = [*left, *taken[n:]]
            writer.release(lease)
        return ended

    def work_once(self, spender: Spender, taken: list[Taken]) -> list[Taken]:
        """Work on one group; those of these that are left."""
        writer = self.town.writer()
        lease = writer.acquire("town")
        assert lease is not None
        try:
            spender.settle(lease)
            return spender.work(lease, taken)
        finally:
            writer.release(lease)

    def books(self) -> Books:
        """Store and journal, at rest."""
        client = connect(self.town.settings.redis_url, role="test")
        return Books.read(client, "town", self.town.registry.journal("town", create=False))

    def seen(self, jobs: list[str]) -> dict[str, Any]:
        """What came of each job, and what is in the store, without random names."""
        store, books = Store.open(self.town.settings), self.books()
        names = {job: f"job {i}" for i, job in enumerate(jobs)}
        names |= {store.meta(name).snapshot: f"snapshot {name}" for name in NAMES}
        ends = {job: _plain(books.jobs[job]) for job in jobs}
        found: dict[str, Any] = {
            **{f"end of {job}": end for job, end in ends.items()},
            "charges": [_unlinked(json.loads(text)) for text in books.charges],
            "history": {k: list(map(_unlinked, v)) for k, v in books.history.items()},
            "ledger": {k: v for k, v in books.ledger.items() if k.startswith("s")},
        }
        whole = json.dumps(found, sort_keys=True)
        for name, other in names.items():
            whole = whole.replace(name, other)
        plain = json.loads(whole)
        return {k: v for k, v in plain.items() if k != "ledger"} | {"ledger": _spent(plain)}


def _spent(plain: dict[str, Any]) -> dict[str, str]:
    return {k: v for k, v in plain["ledger"].items() if k.startswith("spent")}


def _plain(fields: Any) -> dict[str, Any]:
    kept = ("state", "result", "problem")
    return {k: json.loads(v) if k != "state" else v for k, v in fields.items() if k in kept}


def _unlinked(plain: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in plain.items() if k not in ("prev", "changes")}
