"""Models of merged values by a real worker: two purchases, charged before either is drawn."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qserver.answering.models.kinds.rare_values import FIRST_SHARE
from qserver.answering.models.purchase import second_tables
from qserver.errors import (
    BooksError,
    BudgetExhaustedError,
    FencedError,
    InputError,
    MeasurementError,
)
from qserver.query.domain import Attribute, Domain
from qserver.query.domain_file import domain_from_document
from qserver.records.answer import JobStatus, ModelAnswer
from qserver.records.charge import NANO, OpaqueCharge, Relation, TableCharge, charge_from_json
from qserver.records.history import TableMeasurement
from qserver.records.plan import Second
from qserver.records.unit import Unit
from qserver.storage.encoding.queued_requests import Reservation
from qserver.storage.histories import Cursor
from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient
from qserver.storage.store import Store
from tests.deployment import Deployment
from tests.statistical.test_noise import SeededEntropy
from tests.worker.crashes import STEPS, Crash, die_at
from tests.worker.learn_models import learn
from tests.worker.owner.test_recovery import bring_up, dump, lasting, put_back
from worker.books.accountant import Accountant
from worker.journal.records import Decided
from worker.journal.sections import Drawn, write_decided
from worker.spending.measure import draw_all
from worker.spending.second_purchase import decided

pytestmark = pytest.mark.promise(
    "Privacy", "what released answers decide to buy costs no more than was charged before"
)

SPENDS = "worker.spending.group.spends"
CITIES = tuple(f"c{i}" for i in range(12))
TOWN = Domain(
    (
        Attribute("city", "labels", labels=CITIES),
        Attribute("sex", "labels", labels=("f", "m")),
        Attribute("job", "labels", labels=tuple(f"j{i}" for i in range(6))),
    )
)
RARE = CITIES[3:]
ROWS = [
    (CITIES[i % 3 if i % 60 else 3 + i // 60 % 9], "fm"[i % 7 < 3], f"j{(i % 3 + i % 5) % 6}")
    for i in range(3000)
]
WANTED = [list(pair) for pair in combinations(TOWN.names, 2)]
MERGED = {"marginals": WANTED, "selection": "merged"}


def made(folder: Path, store_url: str, **more: Any) -> Deployment:
    return Deployment.make(
        folder, store_url, **{"limit": "2", "rows": ROWS, "domain": TOWN, **more}
    )


@pytest.fixture
def at(request: pytest.FixtureRequest, tmp_path: Path, store_url: str) -> Deployment:
    """Under zcdp where a test has a delta for it."""
    return made(tmp_path, store_url, delta=getattr(request, "param", None))


both_laws = pytest.mark.parametrize(
    "at", [None, Fraction(1, 10**9)], ids=["pure", "zcdp"], indirect=True
)


def learnt(at: Deployment, epsilon: float = 1.0, *, seed: int = 1) -> ModelAnswer:
    trusted = replace(at.trusted(), entropy=SeededEntropy(seed))
    return learn(at, "marginals", MERGED, epsilon, spender=at.spender(trusted=trusted))


def tables_of(at: Deployment) -> list[TableMeasurement]:
    changes = Store.open(at.settings).changes(at.meta, Cursor(), shown_only=True)
    return [m for m in changes.measurements if isinstance(m, TableMeasurement)]


def charges_of(at: Deployment) -> tuple[list[TableCharge], list[OpaqueCharge]]:
    """The lines of the ledger: of the first tables, and of the others together."""
    texts = Store.open(at.settings).changes(at.meta, Cursor(), shown_only=True).charges
    found = [
        charge_from_json(text, snapshot=at.meta.snapshot, sizes=at.meta.domain.sizes)
        for text in texts
    ]
    first = [one for one in found if isinstance(one, TableCharge)]
    return first, [one for one in found if isinstance(one, OpaqueCharge)]


def test_a_second_purchase_is_charged_at_the_dearest_table_where_periods_come_first(
    tmp_path: Path, store_url: str
) -> None:
    """Neighbours share the period of a record, so that a table of periods alone costs half."""
    week = {"name": "week", "kind": "period", "every": "week", "first": "2024-W10", "count": 8}
    labels = [{"name": a.name, "labels": list(a.labels or ())} for a in TOWN.attributes]
    domain = domain_from_document({"attributes": [week, *labels]})
    weeks = domain.attributes[0].value_names
    rows = [(weeks[i % 8], *row) for i, row in enumerate(ROWS)]
    unit = Unit("person-period", None, "same-period")
    at = made(tmp_path, store_url, relation="replace-one", rows=rows, domain=domain, unit=unit)
    found = learnt(at)
    first, [others] = charges_of(at)
    assert NANO - 2 <= found.charged_nano <= NANO
    drawn = sum(one.alpha_nano for one in tables_of(at)[len(first) :])
    assert 0 < 2 * drawn <= others.epsilon_nano
    [finding] = Accountant(at.registry.journal("town", create=False).path).examine()
    assert finding.loss is not None
    assert 0 < finding.loss <= finding.share == found.charged_nano


@pytest.mark.parametrize(
    ("relation", "k"), [("add-remove", 1), ("add-remove", 3), ("replace-one", 2)]
)
def test_the_ledger_has_the_first_tables_and_all_others_in_one_line(
    tmp_path: Path, store_url: str, relation: Relation, k: int
) -> None:
    at = made(tmp_path, store_url, relation=relation, k=k)
    unit = k if relation == "add-remove" else 2 * k
    found = learnt(at)
    first, [others] = charges_of(at)
    assert NANO - unit < found.charged_nano <= NANO
    paid = unit * sum(one.alpha_nano for one in first)
    assert paid + others.epsilon_nano == found.charged_nano
    assert paid == pytest.approx(FIRST_SHARE * NANO, abs=10)
    assert at.service().dataset("people").spent_nano == found.charged_nano
    released = tables_of(at)
    rises = [t.alpha_nano for t in released[len(first) :]]
    assert unit * sum(rises) <= others.epsilon_nano < unit * (sum(rises) + 2 * len(rises))


def test_rare_values_share_a_cell_and_the_model_says_so(at: Deployment) -> None:
    found = learnt(at, 0.5)
    first, _, *others = tables_of(at)
    assert first.partition.axes[0].n == len(CITIES)
    cities = [p for t in others for p in t.partition.axes if p.axis == 0]
    assert {p.n for p in cities} == {4}
    assert len({tuple(p.dense) for p in cities}) == 1
    service = at.service().models
    facts = service.one("people", found.id).facts
    assert facts is not None
    assert facts["merged"] == {"city": [list(RARE)]}
    answer = service.ask("people", found.id, {"marginal": ["city", "sex"], "given": {}}).document
    assert answer["merged"] == facts["merged"]
    told = np.array(answer["probabilities"])
    exported = json.loads(service.export("people", found.id))
    assert exported["merged"] == facts["merged"]
    shares = np.array(exported["shares"]["city"][-1])
    assert shares.sum() == pytest.approx(1)
    assert np.allclose(told[3:], np.outer(shares, told[3:].sum(axis=0)))
    # As the one-way table has them, whatever sex is: the order is that of its counts.
    counts = np.array(first.values).ravel()[3:]
    order = np.argsort(counts)
    assert (np.diff(shares[order]) >= 0).all()
    drawn = list(service.records("people", found.id, 20_000, seed=1))
    assert {city for city, _, _ in drawn} <= set(CITIES)
    part = sum(city in RARE for city, _, _ in drawn) / len(drawn)
    assert part == pytest.approx(told[3:].sum(), abs=0.01)


def test_without_the_wish_nothing_is_merged(at: Deployment) -> None:
    found = learn(at, "marginals", {"marginals": WANTED}, 1.0)
    assert charges_of(at)[1] == []
    facts = at.service().models.one("people", found.id).facts
    assert facts is not None
    assert facts["merged"] == {}


@pytest.mark.slow
def test_charge_and_plan_are_the_same_whatever_is_drawn_and_whatever_the_data(
    tmp_path: Path, store_url: str, redis_client: StoreClient
) -> None:
    reserved, decided = set(), set()
    for number, rows in enumerate((ROWS, ROWS, [(CITIES[0], "f", "j0")] * 3000)):
        redis_client.flushall()
        folder = tmp_path / str(number)
        folder.mkdir()
        at = made(folder, store_url, rows=rows)
        told = at.service().models.explain("people", "marginals", MERGED, NANO)
        found = learnt(at, seed=number)
        plan = at.writer().reservation("town", found.id)
        assert plan is not None
        assert plan == Reservation.from_json(plan.to_json())
        assert plan.second is not None
        tables = tuple((t.key, t.alpha_nano) for t in plan.tables)
        reserved.add((told.price_nano, found.charged_nano, tables, plan.second))
        decided.add(tuple((t.key, t.alpha_nano) for t in tables_of(at)))
    assert len(reserved) == 1
    assert len(decided) > 1


def test_what_is_decided_is_in_the_journal_before_the_second_draw(at: Deployment) -> None:
    seen = []

    def noting(planned: Any, **named: Any) -> Any:
        state = at.registry.journal("town", create=False).state
        seen.append((len(state.open_jobs), len(state.decided), len(planned)))
        return draw_all(planned, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{SPENDS}.draw_all", noting)
        learnt(at)
    released = tables_of(at)
    assert seen == [(1, 0, 2), (1, 1, len(released) - 2)]
    journal = at.registry.journal("town", create=False)
    with journal.exclusive():
        records = list(journal.records())
    [line] = [one for one in records if isinstance(one, Decided)]
    assert [row.indices for row in line.rows] == [t.indices for t in released[:2]]
    assert len(line.tables) == len(released) - 2


@both_laws
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("step", "n_charged"), [*STEPS, ("_spends.go_on", 1)])
def test_a_crash_at_any_step_charges_once_and_releases_what_was_drawn_or_nothing(
    at: Deployment, redis_client: StoreClient, step: str, n_charged: int, after: bool
) -> None:
    job = at.service().models.learn("people", "marginals", MERGED, NANO, wait_s=0)
    assert isinstance(job, JobStatus)
    die_at(at, redis_client, step, after=after)
    charged = at.service().dataset("people").spent_nano
    assert (charged > 0) == (bool(n_charged) or after)
    at.work_off()
    _check_ended(at, job.id)


@pytest.mark.slow
@both_laws
@pytest.mark.parametrize("step", ["write_decided", "draw_all"])
@pytest.mark.parametrize("is_lost", [False, True])
def test_a_crash_between_the_purchases_leaves_the_first_tables(
    at: Deployment, redis_client: StoreClient, step: str, *, is_lost: bool
) -> None:
    """They are paid and released; the second are never drawn, and their charge stays.

    So it is where the store is lost as well.
    """
    job = at.service().models.learn("people", "marginals", MERGED, NANO, wait_s=0)
    assert isinstance(job, JobStatus)
    steps: dict[str, Callable[..., Any]] = {"write_decided": write_decided, "draw_all": draw_all}
    original = steps[step]
    calls = []

    def dying(*args: Any, **named: Any) -> Any:
        found = original(*args, **named)
        calls.append(found)
        if step == "write_decided" or len(calls) == 2:
            raise Crash
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{SPENDS}.{step}", dying)
        with pytest.raises(Crash):
            at.work_off()
    redis_client.delete(Keys("town").lease)
    state = at.registry.journal("town", create=False).state
    [decided] = state.decided.values()
    if is_lost:
        put_back(at, {})
        bring_up(at)
    at.work_off()
    _check_ended(at, job.id)
    assert [t.indices for t in tables_of(at)] == [row.indices for row in decided.rows]
    answer = at.ask({"city": "c0"}, length=400)
    assert (answer.source, answer.charged_nano) == ("history", 0)
    again = learnt(at, 0.5)
    assert len(tables_of(at)) > 2
    facts = at.service().models.one("people", again.id).facts
    assert facts is not None
    assert facts["merged"]


def _check_ended(at: Deployment, job: str) -> None:
    """The whole is charged, once; history has what the journal has; the books agree."""
    status, journal = at.service().job(job), at.registry.journal("town", create=False)
    first, [others] = charges_of(at)
    paid = sum(one.alpha_nano for one in first) + others.epsilon_nano
    assert at.service().dataset("people").spent_nano == at.meta.shown.nano(paid)
    released = journal.state.released.get(job)
    assert (status.state == "done") == (released is not None)
    found = [row.indices for row in released.rows] if released is not None else []
    assert found == [t.indices for t in tables_of(at)]
    assert not journal.state.open_jobs
    assert not journal.state.decided
    [finding] = Accountant(journal.path).examine()
    assert finding.text == ""
    assert finding.loss is not None
    assert finding.loss <= paid


@pytest.mark.parametrize("is_written", [False, True])
def test_a_worker_that_was_taken_over_between_the_purchases_releases_nothing(
    at: Deployment, redis_client: StoreClient, *, is_written: bool
) -> None:
    """Until the decision is written nothing is released; then the other releases the first."""
    job = at.service().models.learn("people", "marginals", MERGED, NANO, wait_s=0)
    assert isinstance(job, JobStatus)
    slow, other = at.spender(), at.spender()

    def taken_over(*args: Any) -> bool:
        found = write_decided(*args) if is_written else None
        redis_client.delete(Keys("town").lease)
        lease = at.writer().acquire("town")
        assert lease is not None
        other.settle(lease)
        at.writer().release(lease)
        return write_decided(*args) if found is None else found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{SPENDS}.write_decided", taken_over)
        if is_written:
            at.work_off(slow)
        else:
            with pytest.raises(FencedError):
                at.work_off(slow)
    assert len(tables_of(at)) == (2 if is_written else 0)
    at.work_off()
    _check_ended(at, job.id)


@pytest.mark.slow
@both_laws
def test_an_empty_store_is_rebuilt_with_the_tables_that_were_decided(at: Deployment) -> None:
    learnt(at, 0.5)
    backup = dump(at)
    learnt(at, 0.7, seed=2)
    before, tables = lasting(at), tables_of(at)
    for store in (backup, {}):
        put_back(at, store)
        assert lasting(at) != before
        bring_up(at)
        assert lasting(at) == before
        assert tables_of(at) == tables


def test_what_passes_the_budget_or_is_too_little_is_refused_before_anything_is_drawn(
    at: Deployment,
) -> None:
    with pytest.raises(BudgetExhaustedError):
        learnt(at, 2.1)
    with pytest.raises(InputError, match="every table"):
        learnt(at, 4e-9)
    assert charges_of(at) == ([], [])
    assert at.registry.journal("town", create=False).state.last_reserved_job is None


def test_a_decision_that_passes_what_is_reserved_is_burnt(at: Deployment) -> None:
    """One that the rehearsal could not foresee."""
    calls: list[int] = []

    def dearer(*args: Any, alpha_nano: int) -> Any:
        calls.append(alpha_nano)
        return second_tables(*args, alpha_nano=alpha_nano * (1 + (len(calls) > 1)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("worker.spending.second_purchase.second_tables", dearer)
        with pytest.raises(MeasurementError):
            learnt(at)
    assert len(calls) == 2
    assert tables_of(at) == []
    journal = at.registry.journal("town", create=False)
    assert not journal.state.open_jobs
    assert journal.state.last_reserved_job in journal.state.burnt


def test_the_books_refuse_tables_that_were_not_written_down_before(at: Deployment) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            f"{SPENDS}.write_decided",
            lambda journal, first, tables: write_decided(journal, first, (*tables, *tables)),
        )
        learnt(at)
    _check_refused(at, "not written down before")


def test_the_books_refuse_tables_that_rise_by_more_than_was_charged(at: Deployment) -> None:
    def dearer(first: Drawn, replica: Any) -> Any:
        tables, live = decided(first, replica)
        return tuple(replace(t, alpha_nano=t.alpha_nano + NANO) for t in tables), live

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{SPENDS}.decided_after", dearer)
        learnt(at)
    _check_refused(at, "charged less than the rises")


def _check_refused(at: Deployment, words: str) -> None:
    """The books find it, and nothing is drawn for this population any more."""
    [finding] = Accountant(at.registry.journal("town", create=False).path).examine()
    assert words in finding.text
    with pytest.raises(BooksError):
        learnt(at, 0.1)


def test_each_purchase_has_a_slot_of_its_own(at: Deployment) -> None:
    ends: list[float] = []
    at = replace(at, settings=replace(at.settings, slot_ms=5))
    spender = at.spender(clock=lambda: 0.0, wait_until=ends.append)
    learn(at, "marginals", MERGED, 0.5, spender=spender)
    assert ends == [pytest.approx(0.005), pytest.approx(0.005)]


def test_a_second_purchase_is_checked_when_built() -> None:
    good = Second(2, 4)
    assert good.charge("j") == OpaqueCharge(4, "j")
    for name in ("alpha_nano", "tables_nano"):
        with pytest.raises(InputError):
            replace(good, **{name: 0})
    with pytest.raises(InputError, match="tables_nano"):
        Second(4, 2)
