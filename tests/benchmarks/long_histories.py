"""Stores with long histories of paid questions, written by the spending scripts, from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from qserver.ledger.cell_ledger import CellLedger
from qserver.query.domain import Attribute, Domain
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.query.weights import indicator
from qserver.records.charge import NANO, Charge, Standing, charge_json
from qserver.records.dataset import DatasetMeta
from qserver.records.digest_links import GENESIS, Links, relinked
from qserver.records.paid_question import PaidQuestion
from qserver.records.plan import PlannedRow
from qserver.storage.charging import Charging, Publishing
from qserver.storage.encoding.queued_requests import Request, Reservation
from qserver.storage.queue import Ended, Outcome, Taken
from qserver.storage.spend import SpendingStore

LIMIT_NANO = 10**15
_JOB_ROWS = 100
_STEP = Fraction(1, 1 << 20)
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Shape:
    """A kind of history: predicates on some of the attributes, each a random half of its values."""

    n_attributes: int
    n_values: int
    n_asked: int = 3

    @property
    def domain(self) -> Domain:
        """The domain, with values 0, 1, ..."""
        edges = tuple(map(Fraction, range(self.n_values + 1)))
        return Domain(
            tuple(Attribute(f"a{i}", "integer", edges=edges) for i in range(self.n_attributes))
        )

    def queries(self, seed: int) -> Iterator[LinearQuery]:
        """The questions that were paid for, then others."""
        generator, sizes = random.Random(seed), self.domain.sizes
        while True:
            axes = {
                axis: indicator(sizes[axis], generator.sample(range(sizes[axis]), sizes[axis] // 2))
                for axis in generator.sample(range(len(sizes)), self.n_asked)
            }
            yield linear_query(sizes, [(1, axes)])


SHAPES: Mapping[str, Shape] = {
    "many": Shape(12, 10),
    "dense": Shape(4, 10),
    "wide": Shape(20, 50),
}


def meta_of(shape: Shape) -> DatasetMeta:
    """The facts of the dataset `long`."""
    return DatasetMeta("long", "long", "s1", shape.domain, "add-remove", 1, records_verified=False)


@dataclass(frozen=True)
class Answers:
    """Noisy counts for a dataset that is attached already, with a limit of `LIMIT_NANO`.

    Args:
        alpha_nano: what each is charged.
    """

    values: Sequence[float]
    alpha_nano: int


def fill(
    store: SpendingStore,
    meta: DatasetMeta,
    queries: Sequence[LinearQuery],
    answers: Answers | None = None,
) -> None:
    """Charge and publish a row for each query, as a worker would, hundreds to a job.

    The ledger's figure is that of all charges at once, as a process finds it that starts anew.
    """
    rows = [_planned(q, i) for i, q in enumerate(queries)]
    if answers is None:
        store.attach(meta, limit_nano=LIMIT_NANO)
        indices = [1000 + i % _JOB_ROWS for i in range(len(rows))]
    else:
        rows = [replace(row, alpha_nano=answers.alpha_nano) for row in rows]
        indices = [round(value / _STEP) for value in answers.values]
    ledger = CellLedger(meta.domain.sizes)
    ledger.extend([Charge(r.row, r.alpha_nano, "all") for r in rows])
    lease = store.acquire(meta.population)
    if lease is None:
        raise RuntimeError("The lease of a new store must be free.")
    request = Request(meta.name, meta.snapshot, Question(queries[0], Requirement(100, _CONFIDENCE)))
    chain = Links((), GENESIS)
    for version, start in enumerate(range(0, len(rows), _JOB_ROWS)):
        part = tuple(rows[start : start + _JOB_ROWS])
        job = f"{meta.population}~{version}"
        end = start + len(part)
        before, after = (_alone(ledger.spent_nano * n // len(rows)) for n in (start, end))
        paid = tuple(_paid(r).to_json() for r in part)
        reservation = Reservation(job, request, part, before, after, start, paid=paid)
        charges = [Charge(r.row, r.alpha_nano, job) for r in part]
        texts = [charge_json(c, snapshot=meta.snapshot, at=0) for c in charges]
        chain = relinked(texts, prev=chain.head)
        store.reserve(lease, [Charging(reservation, chain.texts)], ledger_version=version)
        published = [(index,) for index in indices[start:end]]
        store.publish(lease, [Publishing(reservation, published)])
        shown = Outcome("done", "", meta.snapshot, end, 0)
        store.acknowledge([Ended(Taken(meta.population, job, "", meta.name), shown)])
    store.release(lease)


def _planned(query: LinearQuery, i: int) -> PlannedRow:
    row = primitive(query)
    return PlannedRow(row.row, row.key, 50_000_000 + 7919 * i % 100_000_000, _STEP)


def _paid(row: PlannedRow) -> PaidQuestion:
    return PaidQuestion(row.row, 3.0 * NANO / row.alpha_nano, _CONFIDENCE, "fresh", row.alpha_nano)


def _alone(spent_nano: int) -> Standing:
    return Standing.alone(limit_nano=LIMIT_NANO, spent_nano=spent_nano)
