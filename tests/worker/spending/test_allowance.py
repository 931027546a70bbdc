"""Allowances and paces: what an analyst's own charges may cost, on a real deployment."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import pytest

from qserver.errors import AllowanceExhaustedError, PaceExceededError, QServerError
from qserver.ledger.forecast import DAY_S
from qserver.query.question import Question
from qserver.records.account import Allowance
from qserver.records.answer import JobStatus
from qserver.records.problem import error_from_problem
from qserver.storage.accounts import AccountBook
from qserver.storage.store import Store
from tests.deployment import LOG, Deployment
from worker.spending.spend import Spender

pytestmark = [
    pytest.mark.promise(
        "Accounts",
        "allowances and paces hold for the own ledger, by brute force; what only a loose bound "
        "refuses is decided by a search",
    ),
]

NOON = 1_800_000_000
YOUNG: dict[str, object] = {"age": {"below": 25}}
OLD: dict[str, object] = {"age": {"at_least": 25}}
WOMEN: dict[str, object] = {"sex": "Female"}


@dataclass
class Town:
    """A deployment with a worker whose wall clock stands where a test puts it."""

    deployment: Deployment
    now: list[float] = field(default_factory=lambda: [NOON])

    def __post_init__(self) -> None:
        town = self.deployment
        self.store = Store.open(town.settings)
        self.book = AccountBook(self.store.client)
        for name in ("ann", "ben"):
            self.book.create(name, "analyst")
        self.spender = Spender(
            reader=self.store,
            writer=town.writer(),
            trusted=town.trusted(),
            settings=town.settings,
            log=LOG,
            wall_clock=lambda: self.now[0],
        )

    def allow(self, name: str, **bounds: int) -> None:
        self.book.allow(name, "town", Allowance(**bounds))

    def ask(self, where: dict[str, object], *, by: str, length: float = 40) -> int:
        """What the answer cost; raises what the analyst is told."""
        found = self.deployment.submit(where, length=length, by=by)
        assert isinstance(found, JobStatus)
        self.deployment.work_off(self.spender)
        status = self.deployment.service().job(found.id)
        if status.result is None:
            raise error_from_problem(status.problem or {})
        return status.result.charged_nano

    def refusal(self, where: dict[str, object], *, by: str, length: float = 40) -> QServerError:
        before = self.store.audit.ledger("town")
        with pytest.raises(AllowanceExhaustedError) as caught:
            self.ask(where, by=by, length=length)
        assert self.store.audit.ledger("town") == before
        return caught.value

    def payers(self) -> list[str]:
        return [json.loads(text)["by"] for text in self.store.audit.charges("town")]


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Town:
    return Town(Deployment.make(tmp_path, store_url, limit="2"))


def test_who_asks_first_pays_and_who_asks_the_same_meanwhile_does_not(town: Town) -> None:
    """Two analysts ask the very same before it is worked off."""
    deployment = town.deployment
    jobs = [deployment.submit(YOUNG, by=by) for by in ("ann", "ben", "ann")]
    assert all(isinstance(job, JobStatus) for job in jobs)
    assert deployment.work_off(town.spender) == 2
    results = [deployment.service().job(job.id).result for job in jobs]
    assert [r.source for r in results if r] == ["measured", "history", "measured"]
    assert len({r.estimate for r in results if r}) == 1
    town.ask(WOMEN, by="ben")
    assert town.payers() == ["ann", "ben"]


def test_an_allowance_that_refuses_one_refuses_nobody_else(town: Town) -> None:
    town.allow("ann", limit_nano=0)
    refused, paid = (town.deployment.submit(YOUNG, by=by) for by in ("ann", "ben"))
    town.deployment.work_off(town.spender)
    states = [town.deployment.service().job(job.id).state for job in (refused, paid)]
    assert states == ["failed", "done"]
    assert town.payers() == ["ben"]


def test_an_allowance_of_just_the_price_suffices_and_one_nano_less_does_not(town: Town) -> None:
    query = town.deployment.service()
    parsed = query.parse("people", {"where": YOUNG})
    from qserver.query.requirement import Requirement

    price = query.explain("people", Question(parsed, Requirement(40, 0.95))).price_nano
    town.allow("ann", limit_nano=price - 1)
    error = town.refusal(YOUNG, by="ann")
    assert isinstance(error, AllowanceExhaustedError)
    assert (error.price_nano, error.remaining_nano, error.more_at) == (price, price - 1, None)
    town.allow("ann", limit_nano=price)
    assert town.ask(YOUNG, by="ann") == price


@pytest.mark.limit("allowance_exhausted")
def test_an_allowance_bounds_the_analysts_own_cells_and_nobody_elses(town: Town) -> None:
    """Disjoint questions share an allowance, as they share the budget; ben's charges do not."""
    price = town.ask(WOMEN, by="ben")
    town.allow("ann", limit_nano=price + price // 2)
    town.ask(YOUNG, by="ann")
    town.ask(OLD, by="ann")
    error = town.refusal({"age": {"below": 26}}, by="ann")
    assert error.code == "allowance_exhausted"
    town.ask({"age": {"below": 26}}, by="ben")


def test_a_group_spends_together_what_its_owner_allows_it(town: Town) -> None:
    """Each may be paid by the price of the other question: the members' charges add up."""
    town.book.let_in("analysts/", "analyst")
    price = town.ask(YOUNG, by="analysts/ann")
    town.book.allow("analysts/", "town", Allowance(limit_nano=2 * price))
    town.ask({"age": {"below": 26}}, by="analysts/ben")
    error = town.refusal({"age": {"below": 27}}, by="analysts/never-seen")
    assert isinstance(error, AllowanceExhaustedError)
    assert error.remaining_nano == 0
    town.ask({"age": {"below": 27}}, by="ann")
    service = town.deployment.service()
    spent = {a.account: a.spent_nano for a in service.ledger.spending("people").accounts}
    assert spent["analysts/"] == 2 * price
    assert spent["analysts/ann"] == spent["analysts/ben"] == price


def test_a_members_own_allowance_binds_beside_the_groups(town: Town) -> None:
    town.book.let_in("analysts/", "analyst")
    town.book.allow("analysts/", "town", Allowance(limit_nano=10**9))
    town.book.allow("analysts/ann", "town", Allowance(limit_nano=0))
    assert town.refusal(YOUNG, by="analysts/ann").code == "allowance_exhausted"
    town.ask(YOUNG, by="analysts/ben")


@pytest.mark.parametrize("payer", ["analysts/", "analysts/ann"])
def test_the_price_that_is_shown_is_that_of_the_ledger_which_binds(town: Town, payer: str) -> None:
    from qserver.query.requirement import Requirement

    town.book.let_in("analysts/", "analyst")
    for name in ("analysts/", "analysts/ann"):
        limit_nano = 5 if name == payer else 10**9
        town.book.allow(name, "town", Allowance(limit_nano=limit_nano))
    service = town.deployment.service()
    query = service.parse("people", {"where": YOUNG})
    own = service.explain("people", Question(query, Requirement(40, 0.95)), by="analysts/ann").own
    assert own is not None
    assert (own.affordable, own.limit_nano) == (False, 5)


def test_what_history_answers_is_never_refused(town: Town) -> None:
    town.ask(YOUNG, by="ben")
    town.allow("ann", limit_nano=0, pace_nano=0)
    assert town.deployment.submit(YOUNG, by="ann").charged_nano == 0
    assert town.refusal(OLD, by="ann").code == "allowance_exhausted"


def test_a_pace_is_of_any_24_hours_and_says_when_more_is_there(town: Town) -> None:
    first = town.ask(YOUNG, by="ann", length=80)
    town.now[0] = NOON + 3600
    second = town.ask({"age": {"below": 26}}, by="ann", length=80)
    town.allow("ann", pace_nano=first + second)
    town.now[0] = NOON + 7200
    error = town.refusal({"age": {"below": 27}}, by="ann", length=80)
    assert isinstance(error, PaceExceededError)
    assert error.remaining_nano == 0
    assert error.more_at == NOON + DAY_S
    town.now[0] = NOON + DAY_S - 1
    town.refusal({"age": {"below": 27}}, by="ann", length=80)
    town.now[0] = NOON + DAY_S
    town.ask({"age": {"below": 27}}, by="ann", length=80)


def test_a_price_above_the_whole_pace_is_never_affordable(town: Town) -> None:
    price = town.ask(YOUNG, by="ben")
    town.allow("ann", pace_nano=price - 2)
    error = town.refusal(OLD, by="ann")
    assert isinstance(error, PaceExceededError)
    assert (error.remaining_nano, error.more_at) == (price - 2, None)


def test_an_allowance_that_is_lowered_refuses_from_then_on(town: Town) -> None:
    town.ask(YOUNG, by="ann")
    town.allow("ann", limit_nano=1)
    error = town.refusal({"age": {"below": 26}}, by="ann")
    assert isinstance(error, AllowanceExhaustedError)
    assert error.remaining_nano == 0
    town.allow("ann")
    town.ask({"age": {"below": 26}}, by="ann")


def test_the_own_ledgers_are_those_of_the_charges_by_brute_force(town: Town) -> None:
    """Per payer, the greatest over all 33 cells of the sum of abs(h_c) alpha, in fractions."""
    questions: list[tuple[dict[str, object], str]]
    questions = [(YOUNG, "ann"), (WOMEN, "ben"), (OLD, "ann"), ({"age": 21}, "ann"), ({}, "ben")]
    for where, by in questions:
        town.ask(where, by=by, length=90)
    report = town.deployment.service().ledger.spending("people")
    found = {item.account: item.spent_nano for item in report.accounts}
    cells: dict[str, dict[tuple[int, int], Fraction]] = {"ann": {}, "ben": {}}
    sizes = town.deployment.meta.domain.sizes
    for text in town.store.audit.charges("town"):
        plain = json.loads(text)
        for coefficient, factors in plain["row"]:
            for age in range(sizes[0]):
                for sex in range(sizes[1]):
                    weight = Fraction(coefficient)
                    for axis, ends, values in factors:
                        at = (age, sex)[axis]
                        run = next(i for i, end in enumerate(ends) if at < end)
                        weight *= Fraction(values[run])
                    own = cells[plain["by"]]
                    loss = abs(weight) * plain["alpha"]
                    own[age, sex] = own.get((age, sex), Fraction(0)) + loss
    assert found == {by: max(own.values()) for by, own in cells.items()}
