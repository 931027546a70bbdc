"""Claims from the owner's file to every face, through a rotation, a restore and a lost store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qserver.client import DatasetInfo
from qserver.errors import BooksError, ConfigError
from qserver.portal.faults import fault_of
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.answer import JobStatus
from qserver.records.claim import MAX_CLAIMS, ClaimGuardError, claims_from_plain
from qserver.records.dataset import DatasetMeta
from qserver.storage.keys import Keys
from qserver.storage.owner import OwnerOperations
from qserver.storage.server.connection import StoreClient
from qserver.storage.standings import claims_field, claims_text
from qserver.storage.store import Store
from tests.deployment import LOG, Deployment
from tests.worker.crashes import Crash
from tests.worker.owner.test_recovery import bring_up, raw
from tests.worker.owner.test_rotate import turn
from worker.cli import main
from worker.owner.changes import load_claims, set_claims
from worker.owner.checks.audit import examine
from worker.owner.restore import restore

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


def test_the_page_of_a_refused_question_says_what_is_known_and_what_to_do(town: Deployment) -> None:
    town.ask(YOUNG, length=60)
    with pytest.raises(ClaimGuardError) as refused:
        town.ask(YOUNG, length=40)
    fault = fault_of(refused.value)
    assert (fault.code, fault.status, fault.title) == (
        "claim_guard",
        409,
        "A claim would be known too well",
    )
    assert "`young`" in fault.detail
    assert "for this question only" in fault.advice
    assert fault.is_known
    assert fault.free.high - fault.free.low == pytest.approx(60, rel=1e-3)


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
    assert faults(town) == []
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


@pytest.mark.limit("16")
def test_there_are_at_most_so_many_claims() -> None:
    many = [{**CLAIM, "name": str(i)} for i in range(MAX_CLAIMS + 1)]
    with pytest.raises(ConfigError, match="at most 16"):
        claims_from_plain(many)


def choose(town: Deployment, *claims: dict[str, object]) -> None:
    found = claims_from_plain(list(claims))
    set_claims("people", found, settings=town.settings, registry=town.registry)


def faults(town: Deployment) -> list[str]:
    return [f.text for f in examine(town.registry, town.settings) if not f.ok]


@pytest.fixture
def plain(tmp_path: Path, store_url: str) -> Deployment:
    """A dataset that was attached without claims."""
    return Deployment.make(tmp_path, store_url)


def test_processes_that_run_follow_claims_that_are_set_later(plain: Deployment) -> None:
    """What was charged before counts, of which they had kept nothing for claims."""
    service, spender = plain.service(), plain.spender()
    query = service.parse("people", {"where": YOUNG})

    def ask(length: float) -> JobStatus:
        found = service.ask("people", Question(query, Requirement(length, 0.95)), wait_s=0)
        assert isinstance(found, JobStatus)
        plain.work_off(spender)
        return service.job(found.id)

    assert ask(60).state == "done"
    choose(plain, CLAIM)
    [claim] = service.dataset("people").claims
    assert (claim.name, claim.known) == ("young", pytest.approx(KNOWN, abs=1e-3))
    refused = ask(40)
    assert refused.problem is not None
    assert refused.problem["code"] == "claim_guard"
    choose(plain)
    assert service.dataset("people").claims == ()
    assert ask(40).state == "done"
    assert faults(plain) == []


def test_the_worker_holds_a_job_that_was_queued_before_to_new_claims(plain: Deployment) -> None:
    waiting = plain.submit(YOUNG, length=40)
    assert isinstance(waiting, JobStatus)
    choose(plain, CLAIM)
    plain.work_off()
    problem = plain.service().job(waiting.id).problem
    assert problem is not None
    assert problem["code"] == "claim_guard"


def test_a_command_that_dies_before_the_store_stops_spending_until_it_is_repeated(
    plain: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(self: OwnerOperations, meta: DatasetMeta, claims: object) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(OwnerOperations, "set_claims", die)
        with pytest.raises(Crash):
            choose(plain, CLAIM)
    with pytest.raises(BooksError):
        plain.ask(YOUNG, length=200)
    assert any("the claims of dataset people" in text for text in faults(plain))
    choose(plain, CLAIM)
    assert faults(plain) == []
    assert plain.ask(YOUNG, length=200).source == "measured"


@pytest.mark.parametrize("lost", [True, False], ids=["taken away", "made weaker"])
def test_later_claims_that_the_store_lost_or_changed_are_found(
    town: Deployment, redis_client: StoreClient, lost: bool
) -> None:
    choose(town, {**CLAIM, "p": 0.2})
    ledger, field = Keys("town").ledger, claims_field(town.meta.snapshot)
    if lost:
        redis_client.hdel(ledger, field)
    else:
        text = claims_text(claims_from_plain([{**CLAIM, "p": 0.9}]), town.meta.snapshot)
        redis_client.hset(ledger, field, text)
    with pytest.raises(BooksError):
        town.ask(YOUNG, length=60)
    assert restore(
        town.settings, registry=town.registry, accept_loss=(), log=LOG, say=lambda _text: None
    )
    assert faults(town) == []
    with pytest.raises(ClaimGuardError):
        town.ask(YOUNG, length=60)


def test_later_claims_outlive_a_rotation_and_a_lost_store(town: Deployment) -> None:
    choose(town, {**CLAIM, "name": "later"})
    turn(town)
    assert [claim.name for claim in Store.open(town.settings).meta("people").claims] == ["later"]
    choose(town, {**CLAIM, "name": "latest"})
    raw(town).flushdb()
    bring_up(town)
    assert [claim.name for claim in town.service().dataset("people").claims] == ["latest"]
    assert faults(town) == []


@pytest.mark.parametrize("text", ["[]\n00", "all", ""])
def test_damaged_claims_are_told_as_damage(
    town: Deployment, redis_client: StoreClient, text: str
) -> None:
    redis_client.hset(Keys("town").ledger, claims_field(town.meta.snapshot), text)
    reply = town.web().get("/v1/datasets/people")
    assert (reply.status_code, reply.get_json()["code"]) == (503, "store_corrupt")


def test_the_change_is_in_the_audit_log_once_and_the_log_still_verifies(
    town: Deployment, store_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    town.ask(YOUNG, length=200)
    choose(town, {**CLAIM, "p": 0.2})
    choose(town, {**CLAIM, "p": 0.2})
    changes = [json.loads(text) for text in Store.open(town.settings).audit.changes()]
    (found,) = [c for c in changes if c["kind"] == "claims set"]
    assert (found["dataset"], found["claims"][0]["p"]) == ("people", 0.2)
    common = ["--state", str(town.settings.state_dir), "--redis-url", store_url]
    assert main(["audit-verify", *common]) == 0, capsys.readouterr()


def test_the_owner_lists_and_sets_claims_at_the_command_line(
    town: Deployment, store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["--state", str(town.settings.state_dir), "--redis-url", store_url]
    town.ask(YOUNG, length=60)
    assert main(["claims", "people", *common]) == 0
    out = capsys.readouterr().out
    assert "Claim young: within a width of 10 it is known with probability 0.393" in out
    assert "at most now, and 0.4 at most ever." in out
    (tmp_path / "none.json").write_text("[]")
    assert main(["claims", "people", "--set", str(tmp_path / "none.json"), *common]) == 0
    assert capsys.readouterr().out == "There are no claims about people.\n"
    (tmp_path / "wrong.json").write_text(json.dumps({**CLAIM, "query": {"where": {"x": 1}}}))
    assert main(["claims", "people", "--set", str(tmp_path / "wrong.json"), *common]) == 1
    assert "must name an attribute" in capsys.readouterr().err
    assert town.service().dataset("people").claims == ()
