"""The trail of charges: whoever changes the store, but not the journal, is found out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from qserver.errors import ConfigError, StoreBehindError, StoreCorruptError
from qserver.ledger.account_ledger import ChargeEntry
from qserver.query.linear_query import total_query
from qserver.records.answer import JobStatus
from qserver.records.charge import Charge
from qserver.records.digest_links import digest_of, linked
from qserver.storage.audit_check import AuditExport, check_export
from qserver.storage.keys import AUDIT, Keys
from qserver.storage.server.connection import StoreClient
from qserver.storage.store import Store
from tests.deployment import LOG, PEOPLE, Deployment
from tests.worker.forge import forge_end_of_charges, forge_ledger
from worker.journal.records import ChargeLine, Reserved, read_line, write_line
from worker.owner.changes import detach
from worker.spending.trail import ChargePayment, Trail

pytestmark = [
    pytest.mark.promise(
        "Accounts",
        "a changed, moved, added or removed entry of the audit log is found, also when linked anew",
    ),
]

CHARGES = Keys("town").charges
Tamper = Callable[[StoreClient], object]


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    """Three charges, by two payers."""
    town = Deployment.make(tmp_path, store_url, limit="2")
    for i, by in enumerate(("ann", "ben", "ann")):
        town.ask({"age": 20 + i}, by=by)
    return town


def export(town: Deployment) -> AuditExport:
    return AuditExport.read(Store.open(town.settings).audit)


def relink(
    redis_client: StoreClient, first: int, change: Callable[[dict[str, object]], object]
) -> None:
    """Change an entry and link all later ones anew, as whoever may write to the store can."""
    texts = [json.loads(text) for text in redis_client.lrange(CHARGES, 0, -1)]
    change(texts[first])
    prev = ""
    for i, plain in enumerate(texts):
        text = linked({k: v for k, v in plain.items() if k != "prev"}, prev=prev)
        redis_client.lset(CHARGES, i, text)
        prev = digest_of(text)
    forge_end_of_charges(redis_client)


def cheaper(client: StoreClient) -> None:
    text = json.loads(str(client.lindex(CHARGES, 1)))
    client.lset(CHARGES, 1, json.dumps({**text, "alpha": 1}, sort_keys=True))


def another_payer(client: StoreClient) -> None:
    text = json.loads(str(client.lindex(CHARGES, 0)))
    client.lset(CHARGES, 0, json.dumps({**text, "by": "ben"}, sort_keys=True))


IN_THE_CHAIN: dict[str, Tamper] = {
    "cheaper": cheaper,
    "another payer": another_payer,
    "removed first": lambda client: client.lpop(CHARGES),
    "repeated": lambda client: client.rpush(CHARGES, str(client.lindex(CHARGES, 2))),
    "a change removed": lambda client: client.lpop(AUDIT),
}
RELINKED: dict[str, Tamper] = {
    "cheaper": lambda client: relink(client, 1, lambda plain: plain.update(alpha=1)),
    "another payer": lambda client: relink(client, 0, lambda plain: plain.update(by="ben")),
    "earlier": lambda client: relink(client, 2, lambda plain: plain.update(at=1)),
    "removed last": lambda client: (client.rpop(CHARGES), forge_end_of_charges(client)),
}


@pytest.mark.parametrize("how", IN_THE_CHAIN)
def test_a_broken_chain_is_found_by_the_verifier_and_stops_the_worker(
    town: Deployment, redis_client: StoreClient, how: str
) -> None:
    assert all(check.ok for check in check_export(export(town)))
    town.submit({"age": 28})
    IN_THE_CHAIN[how](redis_client)
    assert not all(check.ok for check in check_export(export(town)))
    # Whoever reads charges checks their links; the worker alone reads the changes for each charge.
    with pytest.raises(StoreBehindError if how == "a change removed" else StoreCorruptError):
        town.work_off()


@pytest.mark.parametrize("how", RELINKED)
def test_a_chain_that_was_linked_anew_is_found_by_the_journal(
    town: Deployment, redis_client: StoreClient, how: str
) -> None:
    RELINKED[how](redis_client)
    found = town.submit({"age": 28})
    assert isinstance(found, JobStatus)
    with pytest.raises(StoreBehindError, match="are not those of the journal"):
        town.work_off()


def test_a_cheaper_charge_linked_anew_does_not_add_up_for_the_verifier(
    town: Deployment, redis_client: StoreClient
) -> None:
    """Questions on single ages cost each its own cells: all three set the maximum together."""
    relink(redis_client, 1, lambda plain: plain.update(row=[["1", []]]))
    failed = [check for check in check_export(export(town)) if not check.ok]
    assert [check.subject for check in failed] == ["ledger of town"]
    assert "less than what its charges cost" in failed[0].text


def test_a_limit_that_was_raised_without_a_word_is_found(
    town: Deployment, redis_client: StoreClient
) -> None:
    forge_ledger(redis_client, {"limit": "3000000000"})
    failed = [check for check in check_export(export(town)) if not check.ok]
    assert [check.subject for check in failed] == ["limit of town"]


def test_a_log_is_the_same_from_its_file(town: Deployment) -> None:
    found = export(town)
    assert AuditExport.from_lines(list(found.to_lines())) == found
    for line in ("{", "[]", "{}", '{"ledger": {}}'):
        with pytest.raises(ConfigError, match="`file` must be an audit log"):
            AuditExport.from_lines([line])


def test_the_log_of_a_detached_dataset_still_adds_up(town: Deployment) -> None:

    detach("people", settings=town.settings, registry=town.registry, log=LOG)
    checks = check_export(export(town))
    assert all(check.ok for check in checks)
    assert any("3 charges of 3 jobs" in check.text for check in checks)


def test_the_journal_holds_the_digest_of_the_last_charge(
    town: Deployment, redis_client: StoreClient
) -> None:
    journal = town.registry.journal("town", create=False)
    assert journal.state.charges_digest == digest_of(str(redis_client.lindex(CHARGES, -1)))


def test_a_journal_line_without_a_digest_is_what_it_was_before() -> None:
    old = Reserved("j", 1, 5, (ChargeLine("k", 5),))
    line = write_line(old, sequence=1, previous=b"")
    assert b"charges_digest" not in line.text
    assert read_line(line.text, sequence=1, previous=b"").record == old
    new = Reserved("j", 1, 5, (ChargeLine("k", 5),), "ab" * 32)
    line = write_line(new, sequence=1, previous=b"")
    assert read_line(line.text, sequence=1, previous=b"").record == new


def test_a_proven_figure_of_the_own_ledger_is_in_the_charge_and_read_again() -> None:
    charge = Charge(total_query(PEOPLE.sizes), 5, "town~1")
    payment = ChargePayment("ann", "s1", [charge], at=0, share_nano=11)
    trail = Trail("town")
    proven, plain = (
        trail.entries(payment, proven=p).texts[0] for p in ({"own": 7, "own_group": 9}, {})
    )
    entry = ChargeEntry.of(proven)
    assert (entry.own_nano, entry.group_nano, entry.share_nano) == (7, 9, 11)
    assert ChargeEntry.of(plain).own_nano is ChargeEntry.of(plain).group_nano is None
