"""The journal's line of a snapshot: its facts, its public row, and the digests of its content.

Also whose questions it is planned for: those of earlier data, which are public.
"""

from __future__ import annotations

from collections.abc import Sequence

from qserver.errors import ConfigError
from qserver.ledger.one_person import neighbours_of
from qserver.planning.constants import PLANNER
from qserver.query.domain import Domain
from qserver.query.linear_query import total_query
from qserver.query.primitive import primitive
from qserver.records.dataset import DatasetMeta
from qserver.storage.encoding.jobs import public_row_json
from qserver.storage.store import Store
from worker.journal.records import Attached
from worker.private.snapshot import Snapshot

DemandOf = tuple[tuple[str, int], ...]


def demand_of(earlier: DatasetMeta, reader: Store) -> DemandOf:
    """The demand that the next snapshot begins with: paid questions, and its own first demand.

    The oldest are left out as soon as later ones are as many as count.
    """
    kept, n_kept = list[tuple[str, int]](), 0
    for snapshot, n in ((earlier.snapshot, reader.n_paid(earlier)), *reversed(earlier.demand_of)):
        if n and n_kept < PLANNER.most_fitted:
            kept.append((snapshot, n))
            n_kept += n
    return tuple(reversed(kept))


def demand_of_dataset(name: str, *, population: str, domain: Domain, reader: Store) -> DemandOf:
    """The demand that a new dataset begins with if its owner names another one.

    Raises:
        NotFoundError: there is no such dataset.
        ConfigError: it is of another population or domain.
    """
    earlier = reader.meta(name)
    if earlier.population != population or earlier.domain != domain:
        raise ConfigError("demand_of", f"be a dataset of population {population} and this domain")
    return demand_of(earlier, reader)


def plain_facts(meta: DatasetMeta) -> dict[str, str | int]:
    """The facts that fix a person's possible loss, in plain numbers: the books read no domain."""
    facts: dict[str, str | int] = {
        "records_per_person": meta.records_per_person,
        "records_verified": int(meta.records_verified),
        "sizes": " ".join(map(str, meta.domain.sizes)),
        "null_cell": int(meta.has_null_cell),
    }
    if meta.delta is not None:
        facts["privacy"], facts["delta"] = meta.privacy, str(meta.delta)
    by = neighbours_of(meta).by_period
    if by is not None:
        facts["period_axis"], facts["records_per_period"] = by.axis, by.most
        facts["keeps_period"] = int(by.same_period)
    return facts


def attached_record(
    meta: DatasetMeta,
    snapshot: Snapshot,
    *,
    limit_nano: int,
    replaces: str = "",
    other_people_than: Sequence[str] = (),
) -> Attached:
    """The journal's record of a snapshot: its facts, and the keyed digests of its content.

    Args:
        replaces: the snapshot that a rotation replaces.
        other_people_than: populations with the same data and, by the owner's word, other people.
    """
    details: dict[str, str | int] = {
        **plain_facts(meta),
        "disjoint_from": " ".join(meta.disjoint_from),
        # For a store that is restored from a backup and must get them again.
        "meta": meta.to_json(),
        "public_row": public_row(meta, snapshot),
        **snapshot.content.details(),
    }
    if replaces:
        details["replaces"] = replaces
    if other_people_than:
        details["other_people_than"] = " ".join(other_people_than)
    return Attached(
        dataset=meta.name,
        snapshot=meta.snapshot,
        limit_nano=limit_nano,
        neighbours=meta.relation,
        fingerprint_hex=snapshot.fingerprint,
        details=details,
    )


def public_row(meta: DatasetMeta, snapshot: Snapshot) -> str:
    """The total as a free exact row if the neighbour relation makes it public; else ''.

    A replaced record keeps the number of records only if none is ever dropped. That number is the
    number of people only if each person owns exactly one record. Records without a person are
    dropped, so a person column rules this out too.
    """
    if meta.relation != "replace-one" or meta.has_null_cell or meta.records_per_person != 1:
        return ""
    row = total_query(meta.domain.sizes)
    return public_row_json(row, primitive(row).key, snapshot.table.answer(row))
