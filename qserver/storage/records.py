"""What the store holds, as frozen data, and its JSON forms."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, cast

from qserver.answer import Answer, Source
from qserver.charge import AnyCharge, Charge, OpaqueCharge, Relation, TableCharge
from qserver.disclosure import guard_nano
from qserver.domain import Domain
from qserver.domain_file import domain_from_document, domain_to_document
from qserver.errors import StoreError
from qserver.history import AnyMeasurement, Estimator, Measurement, TableMeasurement
from qserver.plan import Planned, PlannedRow, PlannedTable
from qserver.product_partition import ProductPartition
from qserver.query import LinearQuery, query_from_document
from qserver.requirement import Requirement
from qserver.standing import People, Standing

DEFAULT_PHI = 0.4


@dataclass(frozen=True)
class DatasetMeta:
    """The public facts of a dataset, fixed when it was attached.

    Args:
        records_per_person: k.
        records_verified: whether attach enforced k.
        phi: what may be spent on single rows before tables are bought instead, as a part of the
            price of the best tables. Small for datasets that will be asked for years.
        disclosure_cap: with what probability a cell's count may be known; None for no guard.
        cohort, lineage: see People; '' for the snapshot's own.
    """

    name: str
    population: str
    snapshot: str
    domain: Domain
    relation: Relation
    records_per_person: int
    records_verified: bool
    phi: float = DEFAULT_PHI
    disclosure_cap: float | None = None
    cohort: str = ""
    lineage: str = ""

    @cached_property
    def people(self) -> People:
        """Whose data it is; a snapshot that was attached alone has people of its own."""
        return People(self.cohort or self.snapshot, self.lineage or self.snapshot)

    @cached_property
    def guard_nano(self) -> int | None:
        """The most that a cell may lose, in nano-epsilon; None where only the limit counts."""
        return None if self.disclosure_cap is None else guard_nano(self.disclosure_cap)

    @property
    def has_null_cell(self) -> bool:
        """Whether a person's record may lie outside the domain, or be absent.

        People own different numbers of records where k is enforced: replacing one may then add or
        remove records, which is a replacement by records of the null cell.
        """
        return self.records_verified or not self.domain.is_total

    @cached_property
    def domain_document(self) -> dict[str, object]:
        """The domain as plain JSON values."""
        return domain_to_document(self.domain)

    def to_json(self) -> str:
        """The facts as JSON text."""
        plain = {k: getattr(self, k) for k in _META_FIELDS}
        return json.dumps({**plain, "domain": self.domain_document})

    @classmethod
    def from_json(cls, text: str) -> DatasetMeta:
        """The facts that `to_json` wrote."""
        plain = json.loads(text)
        domain = domain_from_document(plain.pop("domain"))
        return cls(domain=domain, **plain)


_META_FIELDS = (
    "name",
    "population",
    "snapshot",
    "relation",
    "records_per_person",
    "records_verified",
    "phi",
    "disclosure_cap",
    "cohort",
    "lineage",
)


@dataclass(frozen=True)
class Request:
    """A question as it waits for a worker: `query` = what was asked, in exact terms.

    Args:
        by: account that asked first and pays; '' where there are no accounts.
    """

    dataset: str
    snapshot: str
    query: LinearQuery
    requirement: Requirement
    by: str = ""

    def to_json(self) -> str:
        """The request as JSON text."""
        return json.dumps(
            {
                "dataset": self.dataset,
                "snapshot": self.snapshot,
                "sizes": list(self.query.sizes),
                "terms": self.query.to_document(),
                "length": self.requirement.length,
                "confidence": self.requirement.confidence,
                "by": self.by,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Request:
        """The request that `to_json` wrote; also what a hostile web process may have written.

        Raises:
            InputError: the query or the requirement is out of range.
        """
        plain = json.loads(text)
        return cls(
            dataset=plain["dataset"],
            snapshot=plain["snapshot"],
            query=query_from_document(plain["sizes"], plain["terms"]),
            requirement=Requirement(plain["length"], plain["confidence"]),
            by=str(plain.get("by", "")),
        )


@dataclass(frozen=True)
class Reservation:
    """What a job will measure, fixed when its charges were reserved.

    Args:
        before, after: the snapshot's standing without and with this spend.
        n_history: events in the history that it was planned on.
        weights: pairs of a measurement's id and its weight in the asked row that meet the
            requirement once the rows are released; empty where nobody wrote them down.
        tables_give_rest: whether the weights leave something of the row to the tables.
        tables: tables to be measured or refined; new ones have the ids after those of new rows.
        paid: the paid questions that it adds, as JSON texts.
    """

    job: str
    request: Request
    rows: tuple[PlannedRow, ...]
    before: Standing
    after: Standing
    n_history: int
    weights: tuple[tuple[int, float], ...] = ()
    tables: tuple[PlannedTable, ...] = ()
    paid: tuple[str, ...] = ()
    tables_give_rest: bool = False

    @property
    def planned(self) -> tuple[Planned, ...]:
        """What is measured, in the order of its answers and of new ids: rows, then tables."""
        return (*self.rows, *self.tables)

    @property
    def price_nano(self) -> int:
        """What the people of the snapshot lose more, in nano-epsilon."""
        return self.after.lost_nano - self.before.lost_nano

    @property
    def source(self) -> Source:
        """Where the answer comes from: `refined` if anything is a refinement, else `measured`."""
        refines = any(p.old_alpha_nano > 0 for p in self.planned)
        return "refined" if refines else "measured"

    def to_json(self) -> str:
        """The reservation as JSON text."""
        return json.dumps(
            {
                "job": self.job,
                "request": self.request.to_json(),
                "rows": [row.to_plain() for row in self.rows],
                "before": asdict(self.before),
                "after": asdict(self.after),
                "n_history": self.n_history,
                "weights": [list(w) for w in self.weights],
                "tables": [table.to_plain() for table in self.tables],
                "paid": list(self.paid),
                "tables_give_rest": self.tables_give_rest,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Reservation:
        """The reservation that `to_json` wrote."""
        plain = json.loads(text)
        request = Request.from_json(plain["request"])
        sizes = request.query.sizes
        rows = tuple(PlannedRow.from_plain(r, sizes) for r in plain["rows"])
        tables = tuple(PlannedTable.from_plain(t, sizes) for t in plain.get("tables", ()))
        return cls(
            job=plain["job"],
            request=request,
            rows=rows,
            before=Standing(**plain["before"]),
            after=Standing(**plain["after"]),
            n_history=plain["n_history"],
            weights=tuple((int(i), float(w)) for i, w in plain.get("weights", ())),
            tables=tables,
            paid=tuple(plain.get("paid", ())),
            tables_give_rest=bool(plain.get("tables_give_rest", False)),
        )


@dataclass(frozen=True)
class Problem:
    """Why a job failed: a stable code, a public text, public facts."""

    code: str
    message: str
    facts: Mapping[str, Any]

    def to_json(self) -> str:
        """The problem as JSON text."""
        return json.dumps({"code": self.code, "message": self.message, "facts": dict(self.facts)})


@dataclass(frozen=True)
class JobRecord:
    """A job as the store has it."""

    id: str
    state: Literal["queued", "running", "done", "failed"]
    dataset: str
    request: str
    result: str | None
    problem: str | None


def measurement_json(planned: Planned, indices: Sequence[int], job: str) -> str:
    """JSON text of what was released of a row or table: the next id's, or of what it `refines`.

    Args:
        indices: lattice indices, one for a row, one per cell for a table.
    """
    # A lattice index may exceed 2^53, so it travels as text.
    text = " ".join(map(str, indices))
    return json.dumps({**planned.to_plain(), "index": text, "job": job})


def public_row_json(row: LinearQuery, key: str, value: Fraction) -> str:
    """JSON text of a public row: exact, without noise, charged to nobody."""
    step = Fraction(1, value.denominator)
    planned = PlannedRow(row, key, 0, step)
    return measurement_json(planned, [value.numerator], "attach")


def measurements_from_json(
    texts: Sequence[str], *, next_id: int, sizes: Sequence[int]
) -> tuple[AnyMeasurement, ...]:
    """The released rows and tables of a history's events, in order.

    Args:
        next_id: how many measurements, refinements not counted, came before.
    """
    found: list[AnyMeasurement] = []
    for text in texts:
        plain = json.loads(text)
        refines = plain.get("refines")
        number = next_id if refines is None else refines
        next_id += refines is None
        found.append(_measurement(number, plain, sizes))
    return tuple(found)


def _measurement(number: int, plain: Mapping[str, Any], sizes: Sequence[int]) -> AnyMeasurement:
    indices = tuple(map(int, plain["index"].split()))
    if "table" in plain:
        table = PlannedTable.from_plain(plain, sizes)
        return TableMeasurement(number, table.partition, table.alpha_nano, table.step, indices)
    row = PlannedRow.from_plain(plain, sizes)
    return Measurement(number, row.row, row.key, row.alpha_nano, row.step, *indices)


def estimator_json(estimator: Estimator) -> str:
    """JSON text of certified weights; floats survive exactly."""
    weights = [list(w) for w in estimator.weights]
    plain = {"key": estimator.key, "weights": weights, "error": estimator.float_error}
    return json.dumps(plain if estimator.at is None else {**plain, "at": estimator.at})


def estimator_from_json(text: str) -> Estimator:
    """The weights that `estimator_json` wrote."""
    plain = json.loads(text)
    weights = tuple((int(i), float(w)) for i, w in plain["weights"])
    return Estimator(plain["key"], weights, float(plain.get("error", 0.0)), plain.get("at"))


def charge_json(charge: AnyCharge, *, snapshot: str, at: int) -> str:
    """JSON text of a charge.

    Args:
        snapshot: whose cells it loads.
        at: Unix time in whole seconds, far coarser than any measurement.
    """
    plain: dict[str, Any] = {"snapshot": snapshot, "job": charge.job, "at": at}
    if isinstance(charge, Charge):
        plain |= {"row": charge.row.to_document(), "alpha": charge.alpha_nano}
    elif isinstance(charge, TableCharge):
        plain |= {"table": charge.partition.to_document(), "alpha": charge.alpha_nano}
        plain["paid"] = [list(p) for p in charge.paid]
    else:
        plain |= {"epsilon": charge.epsilon_nano}
    return json.dumps(plain)


def charge_from_json(text: str, *, snapshot: str, sizes: Sequence[int]) -> AnyCharge | None:
    """The charge in `text`; None for one that loads another snapshot."""
    plain = json.loads(text)
    if plain["snapshot"] != snapshot:
        return None
    job = plain["job"]
    if "epsilon" in plain:
        return OpaqueCharge(plain["epsilon"], job)
    if "table" in plain:
        partition = ProductPartition.from_document(sizes, plain["table"])
        paid = tuple((int(cell), int(nano)) for cell, nano in plain["paid"])
        return TableCharge(partition, plain["alpha"], paid, job)
    return Charge(query_from_document(sizes, plain["row"]), plain["alpha"], job)


def answer_json(answer: Answer) -> str:
    """JSON text of an answer."""
    return json.dumps(asdict(answer))


def answer_from_json(text: str) -> Answer:
    """The answer that `answer_json` wrote."""
    plain = json.loads(text)
    return Answer(**{**plain, "evidence": tuple(plain["evidence"])})


def reply_code(reply: object) -> int:
    """The code that opens every script's reply."""
    if not isinstance(reply, list) or not reply:
        raise StoreError("A script of the store gave a reply of another form.")
    return int(cast("int", reply[0]))
