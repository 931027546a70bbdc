"""A population with one dataset, and what is written about it by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from qserver.query.domain import Attribute, Domain
from qserver.query.linear_query import total_query
from qserver.query.primitive import primitive
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.charge import Charge, Standing, charge_json
from qserver.records.dataset import DatasetMeta
from qserver.records.plan import PlannedRow
from qserver.storage.charging import Charging, Lease, Publishing, PublishOutcome
from qserver.storage.encoding.queued_requests import Request, Reservation
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store

DOMAIN = Domain((Attribute("sex", "labels", ("Female", "Male")),))
META = DatasetMeta("people", "town", "s1", DOMAIN, "add-remove", 1, records_verified=False)
TOTAL = total_query(DOMAIN.sizes)
KEY = primitive(TOTAL).key
LIMIT = 1000


def a_request() -> Request:
    return Request("people", "s1", Question(TOTAL, Requirement(10, 0.95)))


def a_reservation(job: str, *, before: int = 0, after: int = 300) -> Reservation:
    row = PlannedRow(TOTAL, KEY, after - before, Fraction(1, 4))
    return Reservation(job, a_request(), (row,), alone(before), alone(after), n_history=0)


def alone(spent: int) -> Standing:
    """The standing of a snapshot that is the only one of its population."""
    return Standing.alone(limit_nano=LIMIT, spent_nano=spent)


def reserve(
    writer: SpendingStore,
    lease: Lease,
    job: str = "town~1",
    *,
    version: int = 0,
    before: int = 0,
    after: int = 300,
) -> int:
    charge = Charge(TOTAL, max(after - before, 1), job)
    charges = [charge_json(charge, snapshot="s1", at=0)]
    charging = Charging(a_reservation(job, before=before, after=after), charges)
    return writer.reserve(lease, [charging], ledger_version=version)


def publish(
    writer: SpendingStore,
    lease: Lease,
    reservation: Reservation,
    indices: Sequence[Sequence[int]],
    *,
    n_history: int,
) -> PublishOutcome:
    """Publish one job alone, on a history of so many events."""
    reservation = replace(reservation, n_history=n_history)
    (outcome,) = writer.publish(lease, [Publishing(reservation, indices)])
    return outcome


def submit(reader: Store, digest: str = "d", *, need_worker: bool = False, queue: int = 10) -> str:
    found = reader.submit(
        a_request(), population="town", digest=digest, max_queue=queue, need_worker=need_worker
    )
    return found.job
