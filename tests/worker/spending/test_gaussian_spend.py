"""A population under zcdp on a real worker: asked, answered again, restarted, killed, refused."""

from __future__ import annotations

import contextlib
import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.special import ndtri

from qserver.errors import (
    AllowanceExhaustedError,
    BudgetExhaustedError,
    ConfigError,
    DisclosureGuardError,
    InputError,
    MeasurementError,
    StoreError,
)
from qserver.ledger.noise_step import lattice_step
from qserver.query.asking.method_and_prior import Reading
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.account import Allowance
from qserver.records.answer import Answer, JobStatus, WorkloadAnswer, Zcdp
from qserver.records.claim import Claim, ClaimGuardError
from qserver.records.history import GaussianMeasurement, GaussianTable
from qserver.records.plan import CellSource, PlannedTable
from qserver.records.privacy.conversion import epsilon_nano, rho_nano
from qserver.storage.accounts import AccountBook
from qserver.storage.server.connection import StoreClient
from qserver.storage.store import Store
from tests.deployment import PEOPLE, ROWS, Deployment
from tests.service.test_statements import answered, explained, interval
from tests.worker.books.test_worker_refusals import books_of_doctor, charges, meta, refused
from tests.worker.by_hand import BY_SEX, COUNTS, ByHand, live
from tests.worker.crashes import STEPS, die_at
from tests.worker.owner.test_demand import turn
from worker.books.accountant import Accountant
from worker.owner.attach import AttachRequest, attach
from worker.owner.changes import top_up
from worker.spending.group import planner
from worker.spending.reservation import reservation_of

DELTA = Fraction(1, 10**9)
N_MEN = sum(sex == "Male" for _, sex in ROWS)
AGES = [{"age": age} for age in range(20, 30)]
AT_40 = Requirement(40, 0.95)


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="4", delta=DELTA)


def zcdp(town: Deployment) -> Zcdp:
    found = town.service().dataset("people").zcdp
    assert found is not None
    return found


def epsilon(rho: float) -> float:
    """The least over all orders by a grid in 40 digits, by another route than the ledger's."""
    with mpmath.workdps(40):
        return float(
            min(
                a * rho + mpmath.log(1 - 1 / a) + (mpmath.log(10**9) - mpmath.log(a)) / (a - 1)
                for a in (1 + mpmath.mpf(10) ** (mpmath.mpf(i) / 400) for i in range(-400, 1600))
            )
        )


def test_a_question_is_priced_measured_kept_and_asked_more_exactly(town: Deployment) -> None:
    query = town.service().parse("people", {"where": {"sex": "Male"}})
    price = town.service().explain("people", Question(query, Requirement(60, 0.95))).price_nano
    first = town.ask({"sex": "Male"}, length=60)
    assert (first.source, first.charged_nano) == ("measured", price)
    assert first.high - first.low <= 60 * (1 + 1e-9)
    assert first.statement.law == "posterior"
    # The normal quantile, and rho = 1 / (2 s^2); the lattice takes next to nothing.
    deviation = 30 / 1.959963984540054
    rho = 1 / (2 * deviation**2)
    assert zcdp(town).spent_rho_nano == pytest.approx(rho * 1e9, rel=1e-5)
    assert first.charged_nano / 1e9 == pytest.approx(epsilon(rho), rel=1e-4)
    again = town.submit({"sex": "Male"}, length=60)
    assert isinstance(again, Answer)
    assert (again.charged_nano, again.estimate) == (0, first.estimate)
    # More exactly: one more measurement for the rest of the precision, so that rho adds up.
    second = town.ask({"sex": "Male"}, length=30)
    assert second.high - second.low <= 30 * (1 + 1e-9)
    assert second.evidence == (0, 1)
    assert zcdp(town).spent_rho_nano == pytest.approx(4 * rho * 1e9, rel=1e-5)
    total = first.charged_nano + second.charged_nano
    assert total / 1e9 == pytest.approx(epsilon(4 * rho), rel=1e-4)
    rows = live(town)
    assert all(isinstance(row, GaussianMeasurement) for row in rows)
    weights = np.array([row.alpha_nano for row in rows], dtype=float)
    values = np.array([row.value_float for row in rows if isinstance(row, GaussianMeasurement)])
    assert second.estimate == pytest.approx(float(weights @ values / weights.sum()), rel=1e-9)


def test_every_face_tells_epsilon_at_delta_of_the_rho_that_is_kept(town: Deployment) -> None:
    kept = rho_nano(4 * 10**9, DELTA)
    assert zcdp(town) == Zcdp(1e-9, kept, 0)
    answer = town.ask({"sex": "Male"})
    status, now = town.service().dataset("people"), zcdp(town)
    limit, spent = (epsilon_nano(n, DELTA) for n in (kept, now.spent_rho_nano))
    assert (status.limit_nano, status.spent_nano) == (limit, spent)
    assert status.remaining_nano == limit - spent == answer.remaining_nano
    assert 4 * 10**9 - 10 <= limit <= 4 * 10**9
    report = town.service().ledger.loss("people", where=None, attribute="sex")
    assert (report.limit_nano, report.spent_nano, report.loss_nano) == (limit, spent, spent)
    assert report.by_value == {"Female": 0, "Male": spent, "other": 0}
    burnt = town.service().ledger.burn_down("people")
    assert (burnt.limit_nano, burnt.points[-1].spent_nano) == (limit, spent)
    body = town.web().get("/v1/datasets/people").get_json()
    assert body["zcdp"] == {
        "delta": 1e-9,
        "limit_rho": kept / 1e9,
        "spent_rho": now.spent_rho_nano / 1e9,
    }
    assert (body["limit"], body["spent"]) == (limit / 1e9, spent / 1e9)


def test_a_price_is_the_rise_from_where_the_population_stands(town: Deployment) -> None:
    service, where = town.service(), {"where": {"age": 22}}
    first = service.explain("people", Question(service.parse("people", where), AT_40))
    town.ask({"age": {"between": [20, 24]}}, length=20)
    now = town.service()
    then = now.explain("people", Question(now.parse("people", where), AT_40))
    # The same rho, on top of what was spent: the converted limit rises by less.
    assert [r.charge_nano for r in then.rows] == [r.charge_nano for r in first.rows]
    assert 0 < then.price_nano < first.price_nano
    assert then.most_nano == then.price_nano
    assert town.ask({"age": 22}).charged_nano == then.price_nano


def test_a_group_by_costs_one_cell_and_its_sums_are_free(town: Deployment) -> None:
    found = town.ask_workload(town.workload([*AGES, {"age": "other"}]))
    one = 1.959963984540054**2 / (2 * 20**2)
    assert zcdp(town).spent_rho_nano == pytest.approx(one * 1e9, rel=1e-5)
    counts = [sum(age == a for age, _ in ROWS) for a in range(20, 30)]
    assert all(abs(a.estimate - n) < 100 for a, n in zip(found.answers, counts, strict=False))
    pair = town.submit({"age": {"between": [20, 21]}}, length=40 * 2**0.5 * 1.0001)
    assert isinstance(pair, Answer)
    assert pair.estimate == pytest.approx(found.answers[0].estimate + found.answers[1].estimate)
    again = town.submit_workload(town.workload(AGES, simultaneous=False))
    assert isinstance(again, WorkloadAnswer)
    assert again.charged_nano == 0


def test_a_workload_whose_intervals_hold_at_once_goes_by_the_union_bound(town: Deployment) -> None:
    found = town.ask_workload(town.workload(AGES, simultaneous=True))
    assert found.simultaneous is not None
    assert (found.simultaneous.method, found.simultaneous.confidence) == ("union", 0.95)
    # Tables answer, too, and what certifies other bounds is about Laplace noise.
    town.ask_workload(town.workload([{"age": a, "sex": "Male"} for a in range(20, 30)]))
    again = town.submit_workload(town.workload(AGES, length=60, simultaneous=True))
    assert isinstance(again, WorkloadAnswer)
    assert again.simultaneous is not None
    assert (again.charged_nano, again.simultaneous.method) == (0, "union")


@pytest.mark.slow
def test_averages_and_quotients_of_sql_hold_and_are_then_free(
    tmp_path: Path, store_url: str
) -> None:
    town = Deployment.make(tmp_path, store_url, limit="40", delta=DELTA)
    text = "SELECT AVG(age) FROM people WITHIN 0.5 CONFIDENCE 0.999999 ASSUMING AT LEAST 400"
    price = explained(town, text)
    low, high = interval(answered(town, text))
    # Of bins by their middles: an age is half a year more.
    mean = sum(age for age, _ in ROWS) / len(ROWS)
    assert low <= mean + 0.5 <= high or low <= mean <= high
    assert 0 < town.service().dataset("people").spent_nano <= price.most_nano
    before = town.service().dataset("people").spent_nano
    answered(town, text)
    assert town.service().dataset("people").spent_nano == before


def test_the_limit_holds_and_a_raised_one_is_kept_in_rho(town: Deployment) -> None:
    with pytest.raises(BudgetExhaustedError) as caught:
        town.ask({"sex": "Male"}, length=1)
    assert caught.value.remaining_nano == town.service().dataset("people").limit_nano
    town.ask({"sex": "Male"}, length=8)
    with pytest.raises(BudgetExhaustedError):
        town.ask({"sex": "Male"}, length=4)
    before = zcdp(town).limit_rho_nano
    done = top_up("town", Fraction(8), settings=town.settings, registry=town.registry)
    assert zcdp(town).limit_rho_nano == rho_nano(8 * 10**9, DELTA) > before
    assert done.after_nano == town.service().dataset("people").limit_nano
    with pytest.raises(ConfigError, match="more than"):
        top_up("town", Fraction(7), settings=town.settings, registry=town.registry)
    assert town.ask({"sex": "Male"}, length=4).source == "measured"


def test_an_allowance_is_of_epsilon_at_delta(town: Deployment, redis_client: StoreClient) -> None:
    book = AccountBook(redis_client)
    book.create("ada", "analyst")
    price = town.service().explain(
        "people", Question(town.service().parse("people", {"where": {"sex": "Male"}}), AT_40)
    )
    book.allow("ada", "town", Allowance(limit_nano=price.price_nano - 1))
    with pytest.raises(AllowanceExhaustedError) as caught:
        town.ask({"sex": "Male"}, by="ada")
    assert caught.value.price_nano == price.price_nano
    book.allow("ada", "town", Allowance(limit_nano=price.price_nano))
    assert town.ask({"sex": "Male"}, by="ada").charged_nano == price.price_nano
    [spending] = [a for a in town.service().ledger.spending("people").accounts if a.account]
    assert spending.spent_nano == price.price_nano


@pytest.mark.parametrize(("step", "releases"), STEPS)
@pytest.mark.parametrize("after", [False, True])
def test_a_worker_that_dies_at_any_step_charges_once_or_burns_the_charge(
    town: Deployment, redis_client: StoreClient, step: str, releases: int, *, after: bool
) -> None:
    town.ask({"sex": "Male"}, length=60)
    before = zcdp(town).spent_rho_nano
    found = town.submit({"sex": "Male"}, length=40)
    assert isinstance(found, JobStatus)
    die_at(town, redis_client, step, after=after)
    town.work_off()
    status, once = town.service().job(found.id), zcdp(town).spent_rho_nano
    assert status.state in ("done", "failed")
    rho = 1.959963984540054**2 / (2 * 20**2) * 1e9
    # It was reserved, drawn and released once; or burnt, and charged for ever.
    assert once == pytest.approx(rho, rel=1e-4)
    assert once > before
    assert len(live(town)) == (2 if status.state == "done" else 1)
    accountant = Accountant(town.registry.journal("town", create=False).path)
    [finding] = accountant.examine()
    assert finding.ok
    assert finding.loss == (once if status.state == "done" else before)
    # Who asks after the burnt one pays for what is drawn then.
    last = town.ask({"sex": "Male"}, length=40)
    assert last.high - last.low <= 40 * (1 + 1e-9)


STEP = lattice_step(Fraction(1), limit_nano=10**10, records_per_person=1)
TABLE = PlannedTable(BY_SEX, 2 * 10**6, STEP)


def test_a_table_is_charged_measured_once_more_restarted_and_found_by_the_books(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = ByHand(town, monkeypatch)
    assert hand.spend(TABLE).state == "done"
    assert hand.spend(replace(TABLE, alpha_nano=10**6)).state == "done"
    assert zcdp(town).spent_rho_nano == 3 * 10**6
    first, second = live(town)
    assert isinstance(first, GaussianTable)
    assert isinstance(second, GaussianTable)
    assert (first.id, second.id, second.alpha_nano) == (0, 1, 10**6)
    weighed = (2 * first.values + second.values) / 3
    deviation = (2 * 3e-3) ** -0.5
    assert np.abs(weighed - COUNTS).max() < 8 * deviation
    # A sum of two cells of both, and a row of the same on top: independent noises.
    length = 2 * 1.9599640 * deviation * 2**0.5 * (1 + 1e-6)
    men = {"weights": {"Male": 1, "Female": 1}}
    both = town.submit({"sex": men}, length=length)
    assert isinstance(both, Answer)
    assert both.estimate == pytest.approx(float(weighed.ravel()[:2].sum()))
    assert both.evidence == (0, 1)
    finding = Accountant(town.registry.journal("town", create=False).path).examine()[0]
    assert (finding.ok, finding.loss) == (True, 3 * 10**6)


@pytest.mark.parametrize(
    "more",
    [{"refines": 0, "old_alpha_nano": 2 * 10**6}, {"sources": (CellSource(0, 1, 10**6),)}],
)
def test_a_plan_that_goes_on_from_an_answer_is_never_charged(
    town: Deployment, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    hand = ByHand(town, monkeypatch)
    assert hand.spend(TABLE).state == "done"
    problem = hand.spend(replace(TABLE, alpha_nano=4 * 10**6, **more)).problem
    assert problem is not None
    assert problem["code"] == MeasurementError.code
    assert zcdp(town).spent_rho_nano == 2 * 10**6


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"delta": Fraction(1, 10**5)}, "at most 1e-6"),
        ({"delta": None}, "delta"),
        ({"privacy": "pure"}, "pure"),
    ],
)
def test_what_is_not_served_is_refused_at_attach_in_one_line(
    town: Deployment, more: dict[str, Any], words: str
) -> None:
    request = attach_request(town, name="second", population="other", **more)
    with pytest.raises(InputError, match=words) as caught:
        attach(request(), settings=town.settings, registry=town.registry, progress=print)
    assert "\n" not in str(caught.value)


def attach_request(town: Deployment, **more: Any) -> Any:
    facts: dict[str, Any] = {
        "data": town.data,
        "domain": PEOPLE,
        "limit": Fraction(4),
        "relation": "add-remove",
        "records_per_person": 1,
        "as_it_is": True,
        "same_data_other_people": True,
        "privacy": "zcdp",
        "delta": DELTA,
    }
    return lambda: AttachRequest(**(facts | more))


def test_earlier_questions_count_after_a_rotation_and_where_they_are_attached(
    town: Deployment,
) -> None:
    town.ask({"sex": "Male"})
    request = attach_request(town, name="second", population="town", demand_of="people")
    attach(request(), settings=town.settings, registry=town.registry, progress=lambda _: None)
    meta = Store.open(town.settings).meta("second")
    assert meta.demand_of == ((town.meta.snapshot, 1),)
    assert turn(town).demand_of == ((town.meta.snapshot, 1),)


@pytest.mark.parametrize("delta", [None, DELTA / 10])
def test_a_population_keeps_its_kind_of_privacy(town: Deployment, delta: Fraction | None) -> None:
    privacy = "pure" if delta is None else "zcdp"
    request = attach_request(town, name="second", population="town", privacy=privacy, delta=delta)
    with pytest.raises(ConfigError, match="that of population town: zcdp with delta 1e-09"):
        attach(request(), settings=town.settings, registry=town.registry, progress=lambda _: None)
    same = attach_request(town, name="second", population="town")
    attach(same(), settings=town.settings, registry=town.registry, progress=lambda _: None)


@pytest.mark.limit("invalid_input")
def test_other_methods_are_refused_with_the_reason(town: Deployment) -> None:
    service = town.service()
    query = service.parse("people", {"where": {"sex": "Male"}})
    with pytest.raises(InputError, match="Gaussian") as caught:
        service.ask(
            "people", Question(query, AT_40, reading=Reading(method="monte-carlo")), wait_s=0
        )
    assert caught.value.code == "invalid_input"
    assert zcdp(town).spent_rho_nano == 0
    assert "by Monte Carlo" not in town.web().get("/portal/datasets/people").text


def test_facts_of_a_population_under_pure_privacy_are_written_as_ever(
    tmp_path: Path, store_url: str
) -> None:
    town = Deployment.make(tmp_path, store_url)
    assert not {"privacy", "delta"} & json.loads(town.meta.to_json()).keys()
    line = town.registry.journal("town", create=False).state.by_snapshot[town.meta.snapshot]
    assert not {"privacy", "delta"} & line.details.keys()
    assert "zcdp" not in town.web().get("/v1/datasets/people").get_json()
    assert "by Monte Carlo" in town.web().get("/portal/datasets/people").text


@pytest.mark.parametrize(
    "changes",
    [{"privacy": "pure", "delta": None}, {"delta": "1/2000000000"}, {"records_per_person": 2}],
)
def test_facts_that_were_changed_in_the_store_stop_the_worker(
    town: Deployment, redis_client: StoreClient, changes: dict[str, object]
) -> None:
    job = town.submit({"sex": "Male"})
    assert isinstance(job, JobStatus)
    meta(**changes)(redis_client)
    with contextlib.suppress(StoreError):
        town.work_off()
    assert town.service().job(job.id).state != "done"
    assert charges(town) == []
    found = books_of_doctor(town)
    assert not found.ok
    assert next(iter(changes)) in found.text


def test_a_charge_that_is_less_than_the_squares_is_refused_by_the_books(
    town: Deployment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = reservation_of

    def cheaper(*args: Any, **named: Any) -> Any:
        found = made(*args, **named)
        return replace(found, after=found.before.after(found.after.share_nano - 1))

    town.ask({"age": {"below": 25}}, length=60)
    monkeypatch.setattr(planner, "reservation_of", cheaper)
    assert "a person loses" in refused(town, caplog)


@pytest.mark.slow
def test_intervals_hold_as_often_as_they_say_on_fresh_noise(
    tmp_path: Path, store_url: str, redis_client: StoreClient
) -> None:
    """Of 600 numbers on 20 fresh populations at 0.8; four deviations of a binomial number."""
    held = n = 0
    cells = [{"age": a, "sex": s} for a in range(20, 30) for s in ("Female", "Male", "other")]
    for i in range(20):
        folder = tmp_path / str(i)
        folder.mkdir()
        redis_client.flushall()
        town = Deployment.make(folder, store_url, limit="4", delta=DELTA)
        found = town.ask_workload(town.workload(cells, length=12, confidence=0.8))
        for where, answer in zip(cells, found.answers, strict=True):
            truth = sum((a, s) == (where["age"], where["sex"]) for a, s in ROWS)
            held += answer.low <= truth <= answer.high
            n += 1
    assert abs(held - 0.8 * n) <= 4 * (0.8 * 0.2 * n) ** 0.5


@pytest.mark.slow
def test_ranges_of_measured_ages_hold_at_once_by_their_joint_law(
    tmp_path: Path, store_url: str
) -> None:
    town = Deployment.make(tmp_path, store_url, limit="40", delta=DELTA)
    town.ask_workload(town.workload([{"age": age} for age in range(20, 30)], length=20))
    spans = [(a, b) for a in range(20, 30) for b in range(a + 1, 30)]
    wheres = [{"age": {"between": list(span)}} for span in spans]
    found = town.submit_workload(town.workload(wheres, length=130, simultaneous=True))
    each = town.submit_workload(town.workload(wheres, length=130))
    assert isinstance(found, WorkloadAnswer)
    assert isinstance(each, WorkloadAnswer)
    assert found.simultaneous is not None
    assert (found.simultaneous.method, found.simultaneous.confidence) == ("posterior", 0.95)
    by_union = -ndtri(0.025 / len(spans)) / 1.959963984540054
    for answer, end, (a, b) in zip(found.answers, each.ends, spans, strict=True):
        union = 20 * (b - a + 1) ** 0.5 * by_union
        assert 0.8 * union < answer.high - answer.low < 0.95 * union
        # After looking, on either side: what all of them keep at once on that side.
        assert end.highest - end.estimate == pytest.approx(end.estimate - end.lowest)
        assert 0.8 * union < end.highest - end.lowest < 0.97 * union


def test_the_guard_holds_and_is_told_in_epsilon_at_delta(tmp_path: Path, store_url: str) -> None:
    town = Deployment.make(tmp_path, store_url, limit="4", delta=DELTA, disclosure_cap=0.05)
    town.ask({"sex": "Male"}, length=60)
    lost, found = zcdp(town).spent_rho_nano, town.service().dataset("people").guard
    assert found is not None
    assert found.known == pytest.approx((lost / 1e9 / np.pi) ** 0.5, rel=1e-6)
    assert found.loss_nano == town.service().dataset("people").spent_nano
    with pytest.raises(DisclosureGuardError) as caught:
        town.ask({"sex": "Male"}, length=20)
    assert caught.value.allowed_nano == found.allowed_nano < 4 * 10**9
    assert caught.value.loss_nano + caught.value.price_nano > found.allowed_nano
    assert town.ask({"sex": "Female"}, length=60).source == "measured"


def test_a_claim_holds_until_its_people_lose_elsewhere(tmp_path: Path, store_url: str) -> None:
    young = {"where": {"age": {"below": 25}}}
    claim = Claim("young", json.dumps(young), "10", 0.26)
    town = Deployment.make(tmp_path, store_url, limit="4", delta=DELTA, claims=(claim,))
    town.ask({"age": {"below": 25}}, length=60)
    [known] = town.service().dataset("people").claims
    # Ten of the counts around the answer, of a normal law with this deviation.
    deviation = 30 / 1.959963984540054
    assert known.known == pytest.approx(math.erf(5 / deviation / 2**0.5), rel=1e-3)
    with pytest.raises(ClaimGuardError):
        town.ask({"age": {"below": 25}}, length=40)
    assert town.ask({"age": {"at_least": 25}}, length=30).source == "measured"
    request = attach_request(town, name="second", population="town")
    attach(request(), settings=town.settings, registry=town.registry, progress=lambda _: None)
    service = town.service()
    query = service.parse("second", {"where": {"sex": "Male"}})
    found = service.ask("second", Question(query, Requirement(60, 0.95)), wait_s=0)
    town.work_off()
    assert isinstance(found, JobStatus)
    [known] = town.service().dataset("people").claims
    assert known.known == 1.0
    with pytest.raises(ClaimGuardError):
        town.ask({"age": {"at_least": 27}}, length=100)


@pytest.mark.parametrize("simultaneous", [False, True])
def test_a_number_that_is_public_stands_beside_others(
    tmp_path: Path, store_url: str, *, simultaneous: bool
) -> None:
    town = Deployment.make(tmp_path, store_url, limit="9", relation="replace-one", delta=DELTA)
    wheres: list[dict[str, Any]] = [{}, {"sex": "Male"}, {"sex": ["Male", "Female"]}]
    found = town.ask_workload(town.workload(wheres, length=40, simultaneous=simultaneous))
    # No record is replaced by none, so all know how many there are.
    total, men, _ = found.answers
    assert total.low <= len(ROWS) <= total.high
    assert total.high - total.low < 1e-3 < men.high - men.low
