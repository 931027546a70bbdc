"""`qserver-worker audit-verify`: a log is held against the journals and the independent books."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import qserver.ledger.cell_ledger as ledger
from qserver.ledger.composition import dues
from qserver.records.charge import AnyCharge
from qserver.records.digest_links import relinked
from qserver.storage.audit_check import AuditCheck, AuditExport, check_export
from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient
from qserver.storage.store import Store
from tests.deployment import Deployment
from tests.worker.crashes import die_at
from tests.worker.forge import forge_end_of_charges, forge_ledger
from worker.books.journal_lines import UnknownFactsError
from worker.cli import main
from worker.owner.checks.audit import audit
from worker.spending.bookkeeper import Bookkeeper

pytestmark = [
    pytest.mark.promise(
        "Privacy",
        "an auditor's one command holds a log against the journal and the books, also where "
        "ledger and verifier share a fault",
    ),
]

KEYS = Keys("town")


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    """Two charges, each on cells of its own and on the total, for persons of two records."""
    town = Deployment.make(tmp_path, store_url, limit="3", k=2)
    town.ask({"sex": "Male"})
    town.ask({"sex": "Female"}, length=60)
    return town


def export(town: Deployment) -> AuditExport:
    return AuditExport.read(Store.open(town.settings).audit)


def written(town: Deployment, folder: Path) -> Path:
    file = folder / "audit.jsonl"
    file.write_text("".join(line + "\n" for line in export(town).to_lines()))
    return file


def failed(checks: Sequence[AuditCheck]) -> dict[str, str]:
    return {check.subject: check.text for check in checks if not check.ok}


def test_an_honest_log_passes_and_the_books_say_what_was_lost(town: Deployment) -> None:
    checks = audit(town.registry, town.settings)
    assert failed(checks) == {}
    books = next(check.text for check in checks if check.subject == "books of town")
    assert "lost at most by anybody" in books
    assert {c.subject for c in check_export(export(town))} < {c.subject for c in checks}


def test_a_charge_that_a_killed_worker_left_unwritten_is_no_fault_and_others_are(
    town: Deployment, redis_client: StoreClient
) -> None:
    town.submit({"age": 22}, length=60)
    die_at(town, redis_client, "_writer.reserve", after=True)
    town.work_off()
    assert failed(audit(town.registry, town.settings)) == {}
    last = json.loads(str(redis_client.lindex(KEYS.charges, -1)))
    redis_client.lset(KEYS.charges, -1, json.dumps({**last, "job": "town~other"}))
    forge_end_of_charges(redis_client)
    assert "journal of town" in failed(audit(town.registry, town.settings))


def test_an_earlier_export_is_the_beginning_of_the_journal_but_the_store_must_have_all(
    town: Deployment, tmp_path: Path, redis_client: StoreClient
) -> None:
    file = written(town, tmp_path)
    town.ask({"age": {"below": 22}})
    checks = audit(town.registry, town.settings, file=file)
    assert failed(checks) == {}
    assert any("which has 1 more jobs" in check.text for check in checks)
    redis_client.rpop(KEYS.charges)
    forge_end_of_charges(redis_client)
    assert "journal of town" in failed(audit(town.registry, town.settings))


def test_a_log_that_agrees_with_itself_and_not_with_the_journal_is_found(
    town: Deployment, redis_client: StoreClient
) -> None:
    """The payer of a charge was changed and the chain made anew: no figure of the log tells."""
    texts: Any = redis_client.lrange(KEYS.charges, 0, -1)
    plain = [json.dumps({**json.loads(text), "by": "ben"}) for text in texts]
    redis_client.delete(KEYS.charges)
    redis_client.rpush(KEYS.charges, *relinked(plain).texts)
    forge_end_of_charges(redis_client)
    assert failed(check_export(export(town))) == {}
    found = failed(audit(town.registry, town.settings))
    assert "not one that the journal has" in found["journal of town"]


def test_a_ledger_below_the_journals_figures_is_found(
    town: Deployment, redis_client: StoreClient
) -> None:
    forge_ledger(redis_client, {f"spent:{town.meta.snapshot}": "1"})
    assert (
        "less of people than was charged"
        in failed(audit(town.registry, town.settings))["books of town"]
    )


def test_a_fault_of_the_ledger_that_the_verifier_shares_is_found(
    tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both forget that a person has two records; the books share no code with them."""

    def without_k(charges: Sequence[AnyCharge], *, records_per_person: int, **more: Any) -> Any:
        return dues(charges, records_per_person=1, **more)

    monkeypatch.setattr(ledger, "dues", without_k)
    monkeypatch.setattr(Bookkeeper, "judge", lambda *_args, **_named: "verified")
    town = Deployment.make(tmp_path, store_url, k=2)
    town.ask({"sex": "Male"})
    assert failed(check_export(export(town))) == {}
    assert "a person has lost" in failed(audit(town.registry, town.settings))["books of town"]


def test_books_of_more_datasets_than_they_can_add_up_are_said_to_be_not_verified(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_many(*_args: object) -> int:
        raise UnknownFactsError("there are too many datasets")

    monkeypatch.setattr("worker.books.accountant.heaviest", too_many)
    checks = audit(town.registry, town.settings)
    assert failed(checks) == {}
    [books] = [check.text for check in checks if check.subject == "books of town"]
    assert books == "not verified: there are too many datasets"


def test_a_population_without_its_journal_is_named(town: Deployment, tmp_path: Path) -> None:
    (tmp_path / "worker" / "journals" / "town.journal").unlink()
    assert "nothing tells" in failed(audit(town.registry, town.settings))["journal of town"]


def test_the_command_takes_a_file_or_the_store_and_fails_on_a_fault(
    town: Deployment, tmp_path: Path, redis_client: StoreClient, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["--state", str(tmp_path), "--redis-url", town.settings.redis_url]
    file = str(written(town, tmp_path))
    redis_client.flushall()
    assert main(["audit-verify", file, *common, "--json"]) == 0
    assert {check["ok"] for check in json.loads(capsys.readouterr().out)} == {True}
    assert main(["audit-verify", *common]) == 1
    assert "FAIL journal of town" in capsys.readouterr().out
    assert main(["audit-verify", str(tmp_path / "none"), *common]) == 1
    assert "must be a readable file" in capsys.readouterr().err
