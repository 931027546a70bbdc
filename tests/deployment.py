"""A whole small deployment in one process: real store, real attach, real journal, real spends."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from flask.testing import FlaskClient

from qserver.api.access import OpenAccess
from qserver.api.app import create_app
from qserver.config import Settings
from qserver.portal.blueprint import Portal
from qserver.query.domain import Attribute, Domain
from qserver.query.question import Question, Workload
from qserver.query.requirement import Requirement
from qserver.records.answer import Answer, JobStatus, WorkloadAnswer
from qserver.records.claim import Claim
from qserver.records.dataset import DatasetMeta
from qserver.records.problem import error_from_problem
from qserver.records.unit import Unit
from qserver.service.service import Service
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from worker.journal.witness import WitnessSettings
from worker.main_loop import AttachedData
from worker.owner.attach import MAX_PHI, AttachRequest, attach
from worker.owner.rotate import RotateRequest, rotate
from worker.private.registry import Registry
from worker.spending.spend import Spender, Trusted

Relation = Literal["add-remove", "replace-one"]
LOG = logging.getLogger("qserver.tests")

PEOPLE = Domain(
    (
        Attribute(
            "age",
            "integer",
            edges=tuple(map(Fraction, range(20, 31))),
            outside="clamp",
            missing="other",
        ),
        Attribute("sex", "labels", ("Female", "Male"), outside="other", missing="other"),
    )
)
ROWS = [(20 + i % 10, ("Female", "Male")[i % 3 == 0]) for i in range(500)]


def write_people(
    path: Path,
    rows: Sequence[tuple[int | str, ...]] = tuple(ROWS),
    *,
    names: Sequence[str] = PEOPLE.names,
) -> Path:
    """A CSV file of these people."""
    path.write_text(
        ",".join(names) + "\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)
    )
    return path


@dataclass(frozen=True)
class Deployment:
    """A store, a registry with one dataset, and what a process needs to use them."""

    settings: Settings
    registry: Registry
    meta: DatasetMeta
    data: Path

    @classmethod
    def make(
        cls,
        folder: Path,
        store_url: str,
        *,
        limit: str = "1",
        relation: Relation = "add-remove",
        k: int = 1,
        rows: Sequence[tuple[int | str, ...]] = tuple(ROWS),
        domain: Domain = PEOPLE,
        phi: float = MAX_PHI,
        disclosure_cap: float | None = None,
        claims: tuple[Claim, ...] = (),
        witness: WitnessSettings | None = None,
        capacity: int | None = None,
        as_it_is: bool = True,
        delta: Fraction | None = None,
        unit: Unit | None = None,
    ) -> Deployment:
        """Attach `people` under the given limit.

        Args:
            as_it_is: unless it is said, columns that are nearly all lost are refused.
            delta: of a population under zcdp; None for pure privacy.
            unit: what is protected of a person; None for all records of one.
            phi: the default measures what is asked, row by row, before any table is bought.
        """
        settings = Settings(
            redis_url=store_url, state_dir=folder, slot_ms=0, lease_ms=60_000, open_access=True
        )
        registry = Registry(folder, witness=witness)
        data = write_people(folder / "people.csv", rows, names=domain.names)
        request = AttachRequest(
            name="people",
            data=data,
            domain=domain,
            limit=Fraction(limit),
            relation=relation,
            population="town",
            records_per_person=k,
            phi=phi,
            disclosure_cap=disclosure_cap,
            claims=claims,
            capacity=capacity,
            as_it_is=as_it_is,
            privacy="pure" if delta is None else "zcdp",
            delta=delta,
            unit=unit or Unit(),
        )
        meta = attach(request, settings=settings, registry=registry, progress=lambda _text: None)
        store = SpendingStore.open(settings)
        store.queue.beat(["town"], worker="test", ttl_ms=600_000)
        return cls(settings, registry, meta, data)

    def rotated(self, request: RotateRequest) -> DatasetMeta:
        """A dataset with other data; nobody waits for workers."""
        return rotate(
            request,
            settings=self.settings,
            registry=self.registry,
            progress=lambda _text: None,
            log=LOG,
            pause=lambda _s: None,
        )

    def change_seal(self) -> None:
        """Change the first code of the sealed data, as a failing disk might."""
        path = self.registry.seal_path(self.registry.entry(self.meta.name))
        text = bytearray(path.read_bytes())
        text[64] ^= 1
        path.write_bytes(bytes(text))

    def service(self, *, short_s: float = 60.0) -> Service:
        """A fresh online side; whoever asks waits for looks, however slow the machine is."""
        return Service(Store.open(self.settings), self.settings, short_s=short_s)

    def web(self, service: Service | None = None) -> FlaskClient:
        """A client of a fresh HTTP process, open to everybody, with the web pages."""
        service = service or self.service()
        app = create_app(
            service,
            access=OpenAccess(),
            wait_s=0,
            max_body_bytes=1 << 20,
            pages=Portal(service),
        )
        return app.test_client()

    def trusted(self) -> Trusted:
        """The private side, loaded anew from disk."""
        return AttachedData(self.registry, log=LOG).load().trusted

    def writer(self) -> SpendingStore:
        """A fresh spending side of the store."""
        return SpendingStore.open(self.settings)

    def spender(
        self,
        *,
        writer: SpendingStore | None = None,
        trusted: Trusted | None = None,
        **timing: Any,
    ) -> Spender:
        """A fresh worker without its loop; its clock and its waits may be others."""
        return Spender(
            reader=Store.open(self.settings),
            writer=writer or self.writer(),
            trusted=trusted or self.trusted(),
            settings=self.settings,
            log=LOG,
            **timing,
        )

    def work_off(self, spender: Spender | None = None) -> int:
        """Work every waiting job off, also those that a dead worker took; how many there were."""
        spender = spender or self.spender()
        writer, done = self.writer(), 0
        while True:
            taken = writer.queue.take(["town"], consumer="test", block_ms=None)
            taken = taken or writer.queue.take_over("town", consumer="test", idle_ms=0)
            lease = writer.acquire("town")
            assert lease is not None
            try:
                spender.settle(lease)
                if taken is None:
                    return done
                assert spender.work(lease, [taken]) == []
                done += 1
            finally:
                writer.release(lease)

    def submit(
        self,
        where: Mapping[str, object],
        *,
        length: float = 40,
        confidence: float = 0.95,
        by: str = "",
    ) -> Answer | JobStatus:
        """Ask a question without waiting for its answer."""
        service = self.service()
        query = service.parse("people", {"where": where})
        return service.ask(
            "people", Question(query, Requirement(length, confidence)), wait_s=0, by=by
        )

    def ask(
        self,
        where: Mapping[str, object],
        *,
        length: float = 40,
        confidence: float = 0.95,
        by: str = "",
    ) -> Answer:
        """Ask a question and work it off; raises what the service raises."""
        found = self.submit(where, length=length, confidence=confidence, by=by)
        if isinstance(found, Answer):
            return found
        self.work_off()
        status = self.service().job(found.id)
        if status.problem is not None:
            raise error_from_problem(status.problem)
        assert isinstance(status.result, Answer), status
        return status.result

    def workload(
        self,
        wheres: Sequence[Mapping[str, object]],
        *,
        length: float = 40,
        confidence: float = 0.95,
        simultaneous: bool = False,
    ) -> Workload:
        """A workload of counts, all with one requirement."""
        service = self.service()
        requirement = Requirement(length, confidence)
        questions = tuple(
            Question(service.parse("people", {"where": where}), requirement) for where in wheres
        )
        return Workload(questions, simultaneous=simultaneous)

    def submit_workload(self, workload: Workload, *, by: str = "") -> WorkloadAnswer | JobStatus:
        """Ask a workload without waiting for its answers."""
        return self.service().ask_workload("people", workload, wait_s=0, by=by)

    def ask_workload(self, workload: Workload, *, by: str = "") -> WorkloadAnswer:
        """Ask a workload and work it off; raises what the service raises."""
        found = self.submit_workload(workload, by=by)
        if isinstance(found, WorkloadAnswer):
            return found
        self.work_off()
        status = self.service().job(found.id)
        if status.problem is not None:
            raise error_from_problem(status.problem)
        assert isinstance(status.result, WorkloadAnswer), status
        return status.result
