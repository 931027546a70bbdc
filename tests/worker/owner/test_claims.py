"""Claims from the owner's file to every face, through a rotation, a restore and a lost store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qserver.client import DatasetInfo
from qserver.errors import ConfigError
from qserver.records.claims.claim import MAX_CLAIMS, claims_from_plain
from qserver.records.claims.refused import ClaimGuardError
from qserver.records.dataset import DatasetMeta
from qserver.storage.store import Store
from tests.deployment import Deployment
from tests.worker.owner.test_recovery import bring_up, raw
from tests.worker.owner.test_rotate import turn
from worker.owner.checks.doctor import examine
from worker.owner.claims import load_claims

YOUNG = {"age": {"below": 25}}
CLAIM = {"name": "young", "query": {"where": YOUNG}, "width": 10, "p": 0.4}
KNOWN = 0.393
"""After one count of length 60 at 95 percent: 1 - exp(-.5), for noise of scale 10.01."""


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, claims=claims_from_plain([CLAIM]))


def test_everybody_sees_the_claims_and_how_well_they_can_be_known(town: Deployment) -> None:
    """Over HTTP, by the client and on the page."""
    web = town.web()
    shown = web.get("/v1/datasets/people").json
    assert shown
    assert shown["claims"] == [{**CLAIM, "width": 10.0, "known": 0.0}]
    town.ask(YOUNG, length=60)
    [claim] = DatasetInfo.of(web.get("/v1/datasets/people").json).claims
    assert (claim.name, claim.query, claim.width, claim.p) == ("young", {"where": YOUNG}, 10, 0.4)
    assert claim.known == pytest.approx(KNOWN, abs=1e-3)
    page = web.get("/portal/").text
    assert "“young” may be known within 10 with probability 0.4 at most; now at most 0.393" in page


def test_a_refusal_over_http_and_on_the_page_names_the_claim(town: Deployment) -> None:
    question = {"query": {"where": YOUNG}, "length": 40, "confidence": 0.95}
    reply = town.web().post("/v1/datasets/people/query", json=question)
    town.work_off()
    job = town.web().get(reply.headers["Location"]).json if reply.status_code == 202 else None
    problem = reply.json if job is None else job["problem"]
    assert problem
    assert problem["code"] == "claim_guard"
    assert (problem["claim"], problem["width"], problem["cap"]) == ("young", 10.0, 0.4)
    assert problem["before"] == 0.0
    assert problem["after"] == pytest.approx(0.527, abs=1e-3)
    explained = town.web().post("/v1/datasets/people/explain", json=question).json
    assert explained
    assert explained["affordable"] is False


def test_a_reply_of_an_older_server_has_no_claims(town: Deployment) -> None:
    shown = town.web().get("/v1/datasets/people").json
    assert shown
    del shown["claims"]
    assert DatasetInfo.of(shown).claims == ()


def test_datasets_without_claims_are_stored_as_before(tmp_path: Path, store_url: str) -> None:
    plain = Deployment.make(tmp_path, store_url).meta.to_json()
    assert "claims" not in plain
    assert DatasetMeta.from_json(plain).claims == ()


def test_a_rotation_keeps_claims_and_what_the_same_people_lost(town: Deployment) -> None:
    town.ask(YOUNG, length=60)
    turn(town)
    assert Store.open(town.settings).meta("people").claims == town.meta.claims
    [claim] = town.service().dataset("people").claims
    assert claim.known == pytest.approx(KNOWN, abs=1e-3)
    with pytest.raises(ClaimGuardError):
        town.ask(YOUNG, length=200)


def test_a_lost_store_gets_claims_and_bounds_back_from_the_journal(town: Deployment) -> None:
    town.ask(YOUNG, length=60)
    before = town.service().dataset("people").claims
    raw(town).flushdb()
    bring_up(town)
    assert town.service().dataset("people").claims == before
    assert not [f for f in examine(town.registry, town.settings) if not f.ok]
    town.writer().queue.beat(["town"], worker="test", ttl_ms=600_000)
    with pytest.raises(ClaimGuardError):
        town.ask(YOUNG, length=40)


def test_a_file_holds_one_claim_or_a_list_of_them(tmp_path: Path) -> None:
    path = tmp_path / "claims.json"
    path.write_text(json.dumps(CLAIM))
    assert load_claims(path) == claims_from_plain([CLAIM])
    path.write_text(json.dumps([CLAIM, {**CLAIM, "name": "again", "width": "1/3"}]))
    assert [claim.name for claim in load_claims(path)] == ["young", "again"]
    assert load_claims(None) == ()


@pytest.mark.parametrize("text", ["", "[", "[NaN]", '{"name": "x"}', "3", "[[]]"])
def test_a_file_that_holds_no_claims_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "claims.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="`claims"):
        load_claims(path)
    with pytest.raises(ConfigError, match="`claims` must be a readable JSON file"):
        load_claims(tmp_path / "none.json")


def test_there_are_at_most_so_many_claims() -> None:
    many = [{**CLAIM, "name": str(i)} for i in range(MAX_CLAIMS + 1)]
    with pytest.raises(ConfigError, match=f"at most {MAX_CLAIMS}"):
        claims_from_plain(many)
