"""What the store holds of datasets, their history and their ledger, and its JSON forms."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, cast

from qserver.charge import AnyCharge, Charge, OpaqueCharge, Relation, TableCharge
from qserver.disclosure import guard_nano
from qserver.domain import Domain
from qserver.domain_file import domain_from_document, domain_to_document
from qserver.errors import StoreError
from qserver.history import AnyMeasurement, Estimator, Measurement, TableMeasurement
from qserver.paid import DEFAULT_PHI
from qserver.plan import Planned, PlannedRow, PlannedTable
from qserver.product_partition import ProductPartition
from qserver.query import LinearQuery, query_from_document
from qserver.standing import People


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


def estimator_plain(estimator: Estimator) -> dict[str, Any]:
    """Certified weights as plain JSON values; floats survive exactly."""
    weights = [list(w) for w in estimator.weights]
    plain = {"key": estimator.key, "weights": weights, "error": estimator.float_error}
    return plain if estimator.at is None else {**plain, "at": estimator.at}


def estimator_from_plain(plain: Mapping[str, Any]) -> Estimator:
    """The weights that `estimator_plain` wrote."""
    weights = tuple((int(i), float(w)) for i, w in plain["weights"])
    return Estimator(plain["key"], weights, float(plain.get("error", 0.0)), plain.get("at"))


def estimator_json(estimator: Estimator) -> str:
    """JSON text of certified weights."""
    return json.dumps(estimator_plain(estimator))


def estimator_from_json(text: str) -> Estimator:
    """The weights that `estimator_json` wrote."""
    return estimator_from_plain(json.loads(text))


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


def reply_code(reply: object) -> int:
    """The code that opens every script's reply."""
    if not isinstance(reply, list) or not reply:
        raise StoreError("A script of the store gave a reply of another form.")
    return int(cast("int", reply[0]))
