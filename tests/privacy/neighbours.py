"""Two datasets that differ by one record, and fresh deployments of either, made by the thousand.

A deployment is a population of its own in a real store, with a real journal and the worker's own
code from the queue to the acknowledgement; only the file is left out, as its codes are known.
"""

from __future__ import annotations

import functools
import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from unittest import mock

import numpy as np

from qserver.answering.replica import Replica
from qserver.config import Settings
from qserver.ledger.noise_step import lattice_step
from qserver.planning.planner import Plan
from qserver.query.domain import Attribute, Domain
from qserver.query.linear_query import LinearQuery
from qserver.query.primitive import primitive
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.answer import Answer
from qserver.records.charge import NANO, Relation
from qserver.records.dataset import DatasetMeta
from qserver.records.history import AnyMeasurement, Measurement
from qserver.records.paid_question import PaidQuestion
from qserver.records.plan import PlannedRow, PlannedTable
from qserver.storage.encoding.jobs import answer_from_json
from qserver.storage.encoding.queued_requests import Request
from qserver.storage.histories import Cursor
from qserver.storage.server.connection import StoreClient, connect
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Changes, Store, check_schema
from tests.worker.by_hand import charges_by_hand
from worker.journal.records import Attached
from worker.noise.randomness import Entropy
from worker.owner.attach import MAX_PHI
from worker.private.record_tables import Tables, table_from_columns
from worker.private.registry import Registry
from worker.spending.group import job_ends
from worker.spending.spend import Spender, Trusted

CONFIDENCE = 0.95
DOMAIN = Domain(
    (
        Attribute("age", "integer", edges=tuple(map(Fraction, range(7))), outside="clamp"),
        Attribute("sex", "labels", ("Female", "Male"), outside="other", missing="other"),
    )
)
OTHERS = [(i % 6, i % 2) for i in range(30)]
TARGET = (2, 1)
"""The record that is there or not; under replace-one, or else is `REPLACED`."""
REPLACED = (2, 0)
LOG = logging.getLogger("qserver.tests.privacy")
_numbers = itertools.count()
N_PLANNED_ANEW = 3
"""How often a plan is found anew, and compared, before it is taken as known."""


class Counted:
    """A table that counts once what it is asked again and again."""

    def __init__(self, records: Sequence[tuple[int, int]]) -> None:
        columns = {axis: np.array([r[axis] for r in records]) for axis in range(2)}
        table = table_from_columns(columns, DOMAIN.sizes)
        self.answer = functools.cache(table.answer)
        self.counts = functools.cache(table.counts)


def neighbours(relation: Relation) -> tuple[Counted, Counted]:
    """The two datasets: the second has the target."""
    first = OTHERS if relation == "add-remove" else [*OTHERS, REPLACED]
    return Counted(first), Counted([*OTHERS, TARGET])


@dataclass(frozen=True)
class Site:
    """A store and a folder for a journal, where one deployment after another is made.

    Each takes the place of the last: what a spend takes must not grow with those before it.
    """

    settings: Settings
    client: StoreClient
    reader: Store
    writer: SpendingStore
    registry: Registry
    plans: dict[object, list[Plan]] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path, store_url: str) -> Site:
        settings = Settings(redis_url=store_url, state_dir=folder, slot_ms=0)
        client = connect(store_url, role="test")
        reader, writer = Store.open(settings), SpendingStore.open(settings)
        return cls(settings, client, reader, writer, Registry(folder))

    def _clear(self) -> None:
        """Forget the last deployment: all of the store but its schema, and the journal."""
        self.client.flushall()
        check_schema(self.client)
        for journal in (self.registry.folder / "journals").iterdir():
            journal.unlink()

    def town(
        self,
        table: Tables,
        *,
        limit_nano: int,
        relation: Relation,
        entropy: Entropy,
        domain: Domain = DOMAIN,
    ) -> Town:
        """A fresh deployment of `table`, in place of the last one."""
        self._clear()
        name = f"town{next(_numbers)}"
        meta = DatasetMeta(
            name, name, f"{name}s", domain, relation, 1, records_verified=False, phi=MAX_PHI
        )
        journal = self.registry.journal(name, create=True)
        with journal.exclusive():
            journal.append(Attached(name, meta.snapshot, limit_nano, relation, "00"))
        self.writer.attach(meta, limit_nano=limit_nano)
        self.writer.queue.make_queue(name)
        spender = Spender(
            reader=self.reader,
            writer=self.writer,
            trusted=Trusted({meta.snapshot: table}, {name: journal}, entropy),
            settings=self.settings,
            log=LOG,
        )
        return Town(self, meta, limit_nano, spender)


@dataclass
class Town:
    """One deployment, as an analyst sees it."""

    site: Site
    meta: DatasetMeta
    limit_nano: int
    spender: Spender
    asked: list[object] = field(default_factory=list)

    def ask(self, query: LinearQuery, length: float) -> Answer | None:
        """The answer of a question that is worked off at once; None when it was refused."""
        self.asked.append((length, str(query.to_document())))
        anew = Replica.plan

        def plan(replica: Replica, question: Question) -> Plan:
            if question.looking.independent:
                return anew(replica, question)  # what the rest would cost: nothing is bought
            return self._plan(lambda: anew(replica, question))

        # What refines an answer depends on it, and plans shall be known beforehand.
        drawn_only = mock.patch.object(job_ends, "next_request", return_value=None)
        with mock.patch.object(Replica, "plan", plan), drawn_only:
            return self._answer(query, length)

    def _plan(self, anew: Callable[[], Plan]) -> Plan:
        """What to buy is public, slow to find, and the same whenever the same was asked.

        That it is the same is looked at some times, but for what history gives now, which no
        purchase depends on, and for the last bits of the weights.
        """
        key = (self.meta.relation, self.limit_nano, *self.asked)
        known = self.site.plans.setdefault(key, [])
        if len(known) < N_PLANNED_ANEW:
            known.append(replace(anew(), estimate=None))
            assert replace(known[-1], weights=()) == replace(known[0], weights=())
        return known[0]

    def _answer(self, query: LinearQuery, length: float) -> Answer | None:
        requirement = Requirement(length, CONFIDENCE)
        request = Request(self.meta.name, self.meta.snapshot, Question(query, requirement))
        population, site = self.meta.population, self.site
        job = site.reader.submit(
            request, population=population, digest=str(length), max_queue=10, need_worker=False
        ).job
        taken = site.writer.queue.take([population], consumer="audit", block_ms=None)
        lease = site.writer.acquire(population)
        assert taken is not None
        assert lease is not None
        self.spender.settle(lease)
        self.spender.work(lease, [taken])
        site.writer.release(lease)
        record = site.reader.job(job)
        if record.result is None:
            assert record.problem is not None
            assert "budget_exhausted" in record.problem
            return None
        answer = answer_from_json(record.result)
        assert isinstance(answer, Answer)
        return answer

    def carry_out(
        self,
        about: LinearQuery,
        *,
        rows: Sequence[PlannedRow] = (),
        tables: Sequence[PlannedTable] = (),
    ) -> None:
        """Ask about a row, and have the worker measure these instead."""

        def plan(replica: Replica, question: Question) -> Plan:
            after = replica.ledger.spent_after(charges_by_hand(rows, tables))
            price = after - replica.ledger.spent_nano
            half_width = question.requirement.half_width
            asked = PaidQuestion(about, half_width, CONFIDENCE, "blocks", price)
            return Plan("blocks", tuple(rows), price, after, None, (), tuple(tables), (asked,))

        with mock.patch.object(Replica, "plan", plan):
            assert self.ask(about, 50.0 - len(self.asked)) is not None

    def step(self, row: LinearQuery) -> Fraction:
        """The lattice step of a row's answers here."""
        unit = primitive(row).unit
        return lattice_step(unit, limit_nano=self.limit_nano, records_per_person=1)

    def changes(self) -> Changes:
        """All that the store shows: every event of the history, also those refined since."""
        return self.site.reader.changes(self.meta, Cursor(), shown_only=True)

    @property
    def spent(self) -> float:
        """The ledger's figure, in epsilon."""
        return self.site.reader.stamp(self.meta).budget.spent_nano / NANO


def guess(released: Sequence[AnyMeasurement], first: Counted, second: Counted) -> int | None:
    """Which dataset all that was released points to as far as it can: 0, 1 or, undecided, None.

    An answer beyond both truths has the greatest odds that its noise allows. Where every answer
    lies beyond on the same side, the odds of the whole are the greatest that its law allows.
    """
    votes = {vote for m in released for vote in _votes(m, first, second)}
    return votes.pop() if len(votes) == 1 and None not in votes else None


def guess_from_newest(
    released: Sequence[AnyMeasurement], first: Counted, second: Counted
) -> int | None:
    """As `guess`, from each row's and table's last answer: what a right refinement leaves."""
    newest = {m.id: m for m in released}
    return guess(tuple(newest.values()), first, second)


def _votes(found: AnyMeasurement, first: Counted, second: Counted) -> Iterator[int | None]:
    if isinstance(found, Measurement):
        answers = [(found.index * found.step, first.answer(found.row), second.answer(found.row))]
    else:
        partition = found.partition
        counted = zip(first.counts(partition), second.counts(partition), strict=True)
        indices = found.indices
        answers = [
            (i * found.step, Fraction(a), Fraction(b))
            for i, (a, b) in zip(indices, counted, strict=True)
        ]
    for value, low, high in answers:
        if low == high:
            continue
        if min(low, high) < value < max(low, high):
            yield None
        else:
            yield int((value >= max(low, high)) == (high > low))
