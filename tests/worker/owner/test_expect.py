"""How many questions an owner expects: attached, changed, rotated, restored, and shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from qserver.cli.main import main as ask
from qserver.client import Client
from qserver.errors import InputError, NotFoundError
from qserver.records.dataset import MOST_EXPECTED, DatasetMeta
from qserver.storage.keys import Keys
from qserver.storage.owner import OwnerOperations
from qserver.storage.server.connection import StoreClient
from qserver.storage.standings import expected_field, expected_text
from qserver.storage.store import Store
from tests.client.serving import serving
from tests.deployment import LOG, Deployment
from tests.worker.crashes import Crash
from worker.cli import main
from worker.owner.changes import set_expected
from worker.owner.checks.audit import examine
from worker.owner.restore import restore
from worker.owner.rotate import RotateRequest


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="10")


def expect(town: Deployment, number: int) -> None:
    set_expected("people", number, settings=town.settings, registry=town.registry)


def shown(town: Deployment) -> int:
    return town.service().dataset("people").expected


def faults(town: Deployment) -> list[str]:
    return [
        f.text for f in examine(town.registry, town.settings) if not f.ok and "BLAS" not in f.check
    ]


def test_nothing_is_said_by_default_and_nothing_of_it_is_written_down(town: Deployment) -> None:
    assert shown(town) == 0
    assert "expected" not in json.loads(town.meta.to_json())
    found = replace(town.meta, expected=2_000)
    assert DatasetMeta.from_json(found.to_json()) == found


def test_the_owner_says_so_when_attaching_and_later(
    town: Deployment, store_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["--state", str(town.settings.state_dir), "--redis-url", store_url]
    domain = town.data.with_name("people.json")
    domain.write_text(json.dumps(town.meta.domain_document), encoding="utf-8")
    facts = ["--data", str(town.data), "--domain", str(domain), "--limit", "10"]
    more = ["--population", "town", "--records-per-person", "1"]
    assert main(["attach", "other", *facts, *more, "--expect", "2000", *common]) == 0
    assert "Expected: about 2,000 questions until the limit" in capsys.readouterr().out
    assert town.service().dataset("other").expected == 2_000
    assert main(["expect", "other", "500", *common]) == 0
    assert capsys.readouterr().out == "About 500 questions are expected on other; it was 2,000.\n"
    assert town.service().dataset("other").expected == 500
    assert main(["expect", "other", "0", "--json", *common]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"dataset": "other", "before": 500, "after": 0}
    assert town.service().dataset("other").expected == 0
    assert faults(town) == []


def test_every_face_shows_it(town: Deployment, capsys: pytest.CaptureFixture[str]) -> None:
    expect(town, 2_000)
    client = town.web()
    assert client.get("/v1/datasets/people").get_json()["expected"] == 2_000
    assert "about 2,000 questions expected until the limit" in client.get("/portal/").text
    with serving(town, wait_s=0) as served:
        assert Client(served.url).datasets()[0].expected == 2_000
        assert ask(["dataset", "show", "people", "--url", served.url], environ={}) == 0
    assert "expected: about 2,000 questions until the limit" in capsys.readouterr().out


def test_the_worker_plans_as_the_price_said(town: Deployment) -> None:
    """A change while a question waits is followed by both sides."""
    expect(town, 10_000)
    answer = town.ask({"age": 25})
    assert answer.charged_nano > 0
    expect(town, 0)
    assert town.ask({"age": 26}).charged_nano == 0  # the table that was bought tells it
    assert faults(town) == []


def test_a_new_file_keeps_the_word(town: Deployment) -> None:
    expect(town, 300)
    request = RotateRequest("people", town.data, same_data_other_people=True)
    town.rotated(request)
    assert shown(town) == 300
    assert faults(town) == []


def test_a_crash_between_journal_and_store_is_finished_by_the_same_call(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(self: OwnerOperations, meta: DatasetMeta, expected: int) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(OwnerOperations, "set_expected", die)
        with pytest.raises(Crash):
            expect(town, 300)
    assert shown(town) == 0
    town.ask({"age": 25})
    assert faults(town) == []
    expect(town, 300)
    assert shown(town) == 300


def test_a_store_that_lost_the_word_gets_it_from_the_journal(
    town: Deployment, redis_client: StoreClient
) -> None:
    town.ask({"age": 25})
    expect(town, 300)
    redis_client.hdel(Keys("town").ledger, expected_field(town.meta.snapshot))
    assert shown(town) == 0
    assert restore(
        town.settings, registry=town.registry, accept_loss=(), log=LOG, say=lambda _text: None
    )
    assert shown(town) == 300
    assert faults(town) == []


def test_a_word_that_its_owner_never_said_is_found(
    town: Deployment, redis_client: StoreClient
) -> None:
    snapshot = town.meta.snapshot
    redis_client.hset(Keys("town").ledger, expected_field(snapshot), expected_text(9, snapshot))
    assert any("not its owner's word" in text for text in faults(town))


@pytest.mark.parametrize("text", ["7\n00", "-1", "many", ""])
def test_a_damaged_word_is_told_as_damage(
    town: Deployment, redis_client: StoreClient, text: str
) -> None:
    redis_client.hset(Keys("town").ledger, expected_field(town.meta.snapshot), text)
    reply = town.web().get("/v1/datasets/people")
    assert (reply.status_code, reply.get_json()["code"]) == (503, "store_corrupt")


def test_the_change_is_in_the_audit_log_once(town: Deployment) -> None:
    expect(town, 300)
    expect(town, 300)
    changes = [json.loads(text) for text in Store.open(town.settings).audit.changes()]
    (found,) = [c for c in changes if c["kind"] == "expected set"]
    assert (found["dataset"], found["expected"]) == ("people", 300)


@pytest.mark.parametrize("number", [-1, MOST_EXPECTED + 1])
def test_a_number_out_of_range_is_refused(town: Deployment, number: int) -> None:
    with pytest.raises(InputError, match="expected"):
        expect(town, number)
    with pytest.raises(NotFoundError):
        set_expected("nobody", 1, settings=town.settings, registry=town.registry)
