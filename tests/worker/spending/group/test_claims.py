"""Claims on a real store: what would let one be known too well is refused, no more."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from math import exp
from pathlib import Path

import pytest

from qserver.answering.replica import Replica
from qserver.errors import ConfigError
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.answer import Answer, JobStatus
from qserver.records.claim import Claim, ClaimGuardError, claims_from_plain
from qserver.storage.encoding.digests import meta_text
from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient
from qserver.storage.store import Store
from tests.deployment import LOG, PEOPLE, Deployment
from tests.worker.crashes import die_at
from tests.worker.learn_models import learn
from worker.owner.attach import AttachRequest, attach
from worker.spending.spend import Spender

pytestmark = [
    pytest.mark.promise(
        "Guard rails",
        "nobody with a flat prior knows a claim better than its cap, whatever the answers; what "
        "would pass it is refused by web and worker, also within a group",
    ),
]

YOUNG = {"age": {"below": 25}}
OLD = {"age": {"at_least": 25}}
EDGE = {"network": {"edges": [["sex", "age"]]}}
CAP = 0.4
CLAIM = {"name": "young", "query": {"where": YOUNG}, "width": 10, "p": CAP}


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, claims=claims_from_plain([CLAIM]))


def of_store(town: Deployment) -> Replica:
    store = Store.open(town.settings)
    replica = Replica(store.meta("people"), town.settings, shown_only=True)
    replica.refresh(store)
    return replica


def test_a_spend_that_lifts_a_claim_past_its_cap_is_refused_with_its_bounds(
    town: Deployment,
) -> None:
    """Length 60 at .95 costs .09986 epsilon: a bound of 1 - exp(-.4993) = .393 for width 10."""
    first = town.ask(YOUNG, length=60)
    assert first.charged_nano / 1e9 == pytest.approx(0.09986, abs=2e-5)
    with pytest.raises(ClaimGuardError) as refused:
        town.ask(YOUNG, length=40)
    error = refused.value
    assert (error.claim, error.width, error.cap) == ("young", 10, CAP)
    assert error.before == pytest.approx(0.393, abs=1e-3)
    assert error.after == pytest.approx(1 - 2.71828 ** (-5 * 0.1498), abs=1e-3)
    assert error.free.high - error.free.low == pytest.approx(60, rel=1e-3)
    assert "`young`" in str(error)
    assert "only_this" in str(error)


def test_what_is_free_and_what_tells_nothing_of_the_claim_is_still_answered(
    town: Deployment,
) -> None:
    town.ask(YOUNG, length=60)
    assert town.ask(YOUNG, length=60).source == "history"
    assert town.ask(OLD, length=30).source == "measured"
    # Of OLD and everybody YOUNG follows, as good as nobody's age being missing.
    with pytest.raises(ClaimGuardError):
        town.ask({}, length=30)


def test_explain_says_that_an_answer_cannot_be_had(town: Deployment) -> None:
    service = town.service()
    query = service.parse("people", {"where": YOUNG})
    assert service.explain("people", Question(query, Requirement(60, 0.95))).affordable
    assert not service.explain("people", Question(query, Requirement(40, 0.95))).affordable


@pytest.mark.limit("claim_guard")
def test_the_worker_refuses_the_third_of_a_group_that_each_fitted_alone(
    tmp_path: Path, store_url: str, redis_client: StoreClient
) -> None:
    """Each fits while it is queued, and all are planned before the first is drawn."""
    town = Deployment.make(tmp_path, store_url, limit="64", claims=claims_from_plain([CLAIM]))
    jobs = [town.submit(where, length=60) for where in (YOUNG, OLD, {})]
    writer = town.writer()
    spender = Spender(
        reader=Store.open(town.settings),
        writer=writer,
        trusted=town.trusted(),
        settings=town.settings,
        log=LOG,
        planning_clock=lambda: 0.0,  # planning is never over
    )
    taken = [writer.queue.take(["town"], consumer="test", block_ms=None) for _ in jobs]
    lease = writer.acquire("town")
    assert lease is not None
    spender.settle(lease)
    assert spender.work(lease, [one for one in taken if one is not None]) == []
    writer.release(lease)
    states = [town.service().job(job.id) for job in jobs if isinstance(job, JobStatus)]
    assert [state.state for state in states] == ["done", "done", "failed"]
    assert states[2].problem is not None
    assert states[2].problem["code"] == "claim_guard"
    assert redis_client.llen(Keys("town").charges) == 2


def test_workloads_are_refused_whole_and_smaller_ones_answered(town: Deployment) -> None:
    with pytest.raises(ClaimGuardError) as refused:
        town.ask_workload(town.workload([YOUNG, OLD], length=30))
    assert len(refused.value.free) == 2
    assert town.ask_workload(town.workload([OLD, {"age": {"at_least": 27}}], length=60)).answers


@pytest.mark.parametrize("document", [EDGE, {**EDGE, "allocation": "arxiv"}], ids=["one", "two"])
def test_a_model_whose_tables_tell_too_much_is_refused(
    town: Deployment, document: dict[str, object]
) -> None:
    """Of one stage, by its tables; of two, by opaque charges. A cheaper one is learnt."""
    with pytest.raises(ClaimGuardError):
        learn(town, "network", document, 0.4)
    found = learn(town, "network", document, 0.05)
    [(_, known)] = of_store(town).known_claims
    # Two stages: e = .05 for each record more or less. One: tables of .05 in all.
    assert 0 < known <= 1 - exp(-5 * 0.05) + 1e-6
    assert found.charged_nano > 0


def test_a_new_process_knows_what_was_charged(town: Deployment) -> None:
    """Each call of `ask` builds a service and a worker anew; here also the checkpoint's state."""
    town.ask(YOUNG, length=60)
    store, replica = Store.open(town.settings), of_store(town)
    again = Replica(store.meta("people"), town.settings, shown_only=True, saved=replica.saved)
    again.refresh(store)
    assert again.n_resumed > 0
    [(claim, known)] = again.known_claims
    assert (claim.name, known) == ("young", replica.known_claims[0][1])
    assert known == pytest.approx(0.393, abs=1e-3)


@pytest.mark.parametrize("step", ["_spends.draw", "_spends.release", "_writer.publish"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_what_a_dead_worker_charged_counts_whether_it_was_released_or_burnt(
    town: Deployment, redis_client: StoreClient, step: str, after: bool
) -> None:
    """YOUNG itself is bought by the dead worker; what the next would add is past the cap."""
    dead = town.submit(YOUNG, length=60)
    assert isinstance(dead, JobStatus)
    die_at(town, redis_client, step, after=after)
    # Nothing is published yet, and the online side counts it already.
    assert of_store(town).known_claims[0][1] == pytest.approx(0.393, abs=1e-3)
    with pytest.raises(ClaimGuardError):
        town.ask({"age": {"below": 25}, "sex": ["Female", "Male"]}, length=100)
    assert redis_client.llen(Keys("town").charges) == 1


def test_spends_on_other_data_of_the_same_people_count(town: Deployment) -> None:
    """Another dataset of the population has no claims: .1 of each person's loss there."""
    other = AttachRequest(
        name="other",
        data=town.data,
        domain=PEOPLE,
        limit=Fraction(1),
        relation="add-remove",
        population="town",
        records_per_person=1,
    )
    attach(other, settings=town.settings, registry=town.registry, progress=lambda _text: None)
    service = town.service()
    found = service.ask(
        "other", Question(service.parse("other", {"where": OLD}), Requirement(60, 0.95)), wait_s=0
    )
    assert isinstance(found, JobStatus)
    town.work_off()
    assert of_store(town).known_claims[0][1] == pytest.approx(0.393, abs=1e-3)
    with pytest.raises(ClaimGuardError):
        town.ask(YOUNG, length=100)


def test_a_claim_that_the_store_lost_is_found_before_anything_is_charged(
    town: Deployment, redis_client: StoreClient
) -> None:
    weaker = replace(town.meta, claims=())
    redis_client.hset(Keys("town").dataset("people"), "meta", meta_text(weaker))
    job = town.submit(YOUNG, length=40)
    assert isinstance(job, JobStatus)
    town.work_off()
    status = town.service().job(job.id)
    assert status.problem is not None
    assert status.problem["code"] == "books_differ"
    assert redis_client.llen(Keys("town").charges) == 0


def test_a_claim_that_is_known_from_the_start_cannot_be_made(
    tmp_path: Path, store_url: str
) -> None:
    """Under replace-one, with every record in the domain, the total is public."""
    everybody = claims_from_plain({**CLAIM, "query": {"where": {}}})
    with pytest.raises(ConfigError, match=r"claims\.young"):
        Deployment.make(tmp_path, store_url, relation="replace-one", claims=everybody)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"width": 0}, r"claims\[0\]\.width.*more than 0"),
        ({"width": "far"}, r"claims\[0\]\.width.*finite number"),
        ({"p": 1}, r"claims\[0\]\.p.*from 1e-06"),
        ({"p": "half"}, r"claims\[0\]\.p"),
        ({"name": "a/b"}, r"claims\[0\]\.name"),
        ({"more": 1}, r"claims\[0\].*`name`, `query`, `width` and `p`"),
    ],
)
def test_a_wrong_claim_is_refused_by_the_name_of_its_member(
    change: dict[str, object], match: str
) -> None:
    with pytest.raises(ConfigError, match=match):
        claims_from_plain([{**CLAIM, **change}])


def test_claims_have_names_of_their_own_and_come_back_as_they_were() -> None:
    with pytest.raises(ConfigError, match="name of its own"):
        claims_from_plain([CLAIM, CLAIM])
    [claim] = claims_from_plain([CLAIM])
    assert claims_from_plain(json.loads(json.dumps([claim.to_plain()]))) == (claim,)
    assert isinstance(claim, Claim)
    assert claim.exact_width == 10


def test_answers_far_from_the_claim_are_those_without_it(tmp_path: Path, store_url: str) -> None:
    """A claim changes what is refused, never how an answer is found or what it costs."""
    town = Deployment.make(tmp_path, store_url, claims=claims_from_plain([CLAIM]))
    found = town.ask({"sex": "Male"}, length=60)
    assert isinstance(found, Answer)
    assert found.charged_nano / 1e9 == pytest.approx(0.09986, abs=2e-5)
