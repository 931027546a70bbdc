"""Networks of two stages by a real worker, and what is kept of them."""

from __future__ import annotations

from dataclasses import replace

from qserver.records.answer import ModelAnswer
from qserver.records.charge import OpaqueCharge, charge_from_json
from qserver.records.history import TableMeasurement
from qserver.storage.histories import Cursor
from qserver.storage.store import Store
from tests.deployment import Deployment
from tests.worker.learn_models import learn
from worker.noise.randomness import Entropy

EDGE = {"network": {"edges": [["sex", "age"]]}}


def learnt(
    at: Deployment, version: str, epsilon: float = 1.0, *, entropy: Entropy | None = None
) -> ModelAnswer:
    """A network of two stages, from noise of this source."""
    trusted = at.trusted()
    trusted = trusted if entropy is None else replace(trusted, entropy=entropy)
    document = {**EDGE, "allocation": version}
    return learn(at, "network", document, epsilon, spender=at.spender(trusted=trusted))


def tables_of(at: Deployment) -> list[TableMeasurement]:
    changes = Store.open(at.settings).changes(at.meta, Cursor(), shown_only=True)
    return [m for m in changes.measurements if isinstance(m, TableMeasurement)]


def charges_of(at: Deployment) -> list[OpaqueCharge]:
    """The lines of the ledger, which must be opaque."""
    texts = Store.open(at.settings).changes(at.meta, Cursor(), shown_only=True).charges
    found = []
    for text in texts:
        charge = charge_from_json(text, snapshot=at.meta.snapshot, sizes=at.meta.domain.sizes)
        assert isinstance(charge, OpaqueCharge)
        found.append(charge)
    return found
