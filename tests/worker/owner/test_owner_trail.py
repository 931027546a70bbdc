"""What the owner changed is in the audit log, and the log still adds up across all of it."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from qserver.errors import StoreCorruptError
from qserver.ledger.account_ledger import ChargeEntry, OwnLedger, attached_metas
from qserver.storage.audit_check import AuditCheck, AuditExport, check_export
from qserver.storage.encoding.digests import unsealed
from qserver.storage.keys import AUDIT, Keys
from qserver.storage.server.connection import StoreClient
from qserver.storage.store import Store
from tests.deployment import LOG, PEOPLE, Deployment
from tests.worker.forge import forge_ledger
from worker.owner.attach import AttachRequest, attach
from worker.owner.changes import top_up
from worker.owner.checks.audit import examine
from worker.owner.rotate import RotateRequest, rotate

pytestmark = [
    pytest.mark.promise(
        "Accounts",
        "a changed, moved, added or removed entry of the audit log is found, also when linked anew",
    ),
    pytest.mark.promise(
        "Guard rails",
        "a limit is raised by the owner alone, never lowered, and never paid from before the "
        "journal allows it",
    ),
]

YOUNG = {"age": {"below": 25}}


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    """Spends before and after two rotations, a partition and a top-up."""
    town = Deployment.make(tmp_path, store_url)
    town.ask(YOUNG, length=30, by="ann")
    for disjoint in (False, True):
        rotate(
            RotateRequest("people", town.data, disjoint),
            settings=town.settings,
            registry=town.registry,
            progress=lambda _text: None,
            log=LOG,
        )
        town.ask(YOUNG, length=40, by="ann")
    request = AttachRequest("may", town.data, PEOPLE, Fraction(1), "add-remove", "town", 1)
    quiet = {"registry": town.registry, "progress": lambda _text: None}
    attach(request, settings=town.settings, **quiet)  # type: ignore[arg-type]
    top_up("town", Fraction(2), settings=town.settings, registry=town.registry)
    town.ask(YOUNG, length=10, by="ann")
    return town


def checks(town: Deployment) -> list[AuditCheck]:
    return check_export(AuditExport.read(Store.open(town.settings).audit))


@pytest.mark.slow
def test_every_change_is_logged_and_the_log_adds_up(
    town: Deployment, redis_client: StoreClient
) -> None:
    assert [c for c in checks(town) if not c.ok] == []
    texts = redis_client.lrange(AUDIT, 0, -1)
    changes = [json.loads(unsealed(str(text), name=AUDIT)) for text in texts]
    assert [c["kind"] for c in changes] == [*["dataset attached"] * 4, "limit raised"]
    assert [("replaces" in c) for c in changes] == [False, True, True, False, False]
    assert (changes[-1]["before"], changes[-1]["limit"]) == (10**9, 2 * 10**9)
    assert all(f.ok for f in examine(town.registry, town.settings) if "BLAS" not in f.check)


@pytest.mark.slow
@pytest.mark.parametrize("field", ["spent", "limit"])
def test_a_ledger_that_was_changed_does_not_add_up(
    town: Deployment, redis_client: StoreClient, field: str
) -> None:
    before: Any = redis_client.hincrby(Keys("town").ledger, field, 1)
    with pytest.raises(StoreCorruptError, match=f"figure '{field}' was changed"):
        checks(town)
    forge_ledger(redis_client, {field: str(before)})
    assert [c.ok for c in checks(town)].count(False) == 1


@pytest.mark.slow
def test_one_payer_of_everything_has_spent_what_the_population_has(town: Deployment) -> None:
    """Cohorts of other people count once in an analyst's own ledger too."""
    log = Store.open(town.settings).audit
    own = OwnLedger(attached_metas(log.changes()))
    own.extend(map(ChargeEntry.of, log.charges("town")))
    spent = log.ledger("town").spent_nano
    assert own.spent_nano == spent < sum(log.ledger("town").spent_by_snapshot.values())
