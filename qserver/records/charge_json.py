"""JSON forms of charges, as the store and the journal hold them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from qserver.query.linear import query_from_document
from qserver.query.partition import ProductPartition
from qserver.records.charge import AnyCharge, Charge, OpaqueCharge, TableCharge


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
