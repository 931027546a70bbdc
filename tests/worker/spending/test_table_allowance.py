"""Tables count against allowances and paces, and are told beforehand, on a real deployment."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from qserver.ledger.forecast import DAY_S
from qserver.query.class_grid import ProductPartition
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.account import Allowance
from qserver.records.answer import JobStatus, OwnPrice
from qserver.records.plan import CellSource, PlannedTable
from qserver.storage.accounts import AccountBook
from qserver.storage.audit_check import AuditExport, check_export
from qserver.storage.store import Store
from tests.deployment import Deployment
from tests.ledger.table_losses_by_definition import cell_in
from tests.worker.by_hand import ALPHA, BY_BOTH, BY_SEX, LABELS, LIMIT_NANO, STEP, ByHand, sex_row

pytestmark = [
    pytest.mark.promise(
        "Accounts",
        "allowances and paces hold for the own ledger, by brute force; what only a loose bound "
        "refuses is decided by a search",
    ),
]

NEW = PlannedTable(BY_SEX, ALPHA, STEP)


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit=str(LIMIT_NANO // 10**9))


@pytest.fixture
def book(town: Deployment) -> AccountBook:
    found = AccountBook(Store.open(town.settings).client)
    for name in ("ann", "ben"):
        found.create(name, "analyst")
    return found


@pytest.fixture
def by_hand(town: Deployment, book: AccountBook, monkeypatch: pytest.MonkeyPatch) -> ByHand:
    """Ben has paid the row of each sex; from now on ann asks."""
    for label in LABELS:
        town.ask({"sex": label}, by="ben")
    return ByHand(town, monkeypatch, by="ann")


def code_of(status: JobStatus) -> str:
    assert status.problem is not None
    return str(status.problem["code"])


def own_price(town: Deployment, where: dict[str, object], *, length: float) -> OwnPrice | None:
    service = town.service()
    query = service.parse("people", {"where": where})
    return service.explain("people", Question(query, Requirement(length, 0.95)), by="ann").own


def test_a_table_needs_an_allowance_of_just_its_price(
    town: Deployment, book: AccountBook, by_hand: ByHand
) -> None:
    book.allow("ann", "town", Allowance(limit_nano=ALPHA - 1))
    before = AuditExport.read(Store.open(town.settings).audit)
    assert code_of(by_hand.spend(NEW)) == "allowance_exhausted"
    assert AuditExport.read(Store.open(town.settings).audit) == before
    book.allow("ann", "town", Allowance(limit_nano=ALPHA))
    assert by_hand.spend(NEW).result is not None
    assert code_of(by_hand.spend(PlannedTable(BY_BOTH, 1, STEP))) == "allowance_exhausted"


def test_what_others_paid_of_a_tables_cells_is_not_paid_again(
    town: Deployment, book: AccountBook, by_hand: ByHand
) -> None:
    """Every cell's row was paid by ben: ann pays what the cheapest of them left."""
    rows = [sex_row(town, label) for label in LABELS]
    sources = tuple(CellSource(c, r.id, r.alpha_nano) for c, r in enumerate(rows))
    left = ALPHA - min(row.alpha_nano for row in rows)
    assert 0 < left < ALPHA
    book.allow("ann", "town", Allowance(limit_nano=left - 1))
    assert code_of(by_hand.spend(replace(NEW, sources=sources))) == "allowance_exhausted"
    book.allow("ann", "town", Allowance(limit_nano=left))
    assert by_hand.spend(replace(NEW, sources=sources)).result is not None


@pytest.mark.limit("pace_exceeded")
def test_a_pace_counts_tables(town: Deployment, book: AccountBook, by_hand: ByHand) -> None:
    book.allow("ann", "town", Allowance(pace_nano=2 * ALPHA - 1))
    assert by_hand.spend(NEW).result is not None
    raised = PlannedTable(BY_SEX, 2 * ALPHA, STEP, len(LABELS), ALPHA)
    refused = by_hand.spend(raised)
    assert code_of(refused) == "pace_exceeded"
    log = Store.open(town.settings).audit
    last = json.loads(log.charges("town")[-1])
    assert refused.problem is not None
    assert refused.problem["facts"]["more_at"] == last["at"] + DAY_S


@pytest.mark.slow
def test_own_ledgers_and_the_audit_are_right_with_tables_by_brute_force(
    town: Deployment, by_hand: ByHand
) -> None:
    """Per payer, the greatest over all 33 cells of what rows and tables charge, in fractions."""
    source = CellSource(1, 1, sex_row(town, "Male").alpha_nano)
    by_hand.spend(replace(NEW, sources=(source,)))
    by_hand.spend(PlannedTable(BY_BOTH, 5, STEP))
    town.ask({"age": 21}, by="ann")
    sizes = town.meta.domain.sizes
    cells = [(age, sex) for age in range(sizes[0]) for sex in range(sizes[1])]
    losses = {by: dict.fromkeys(cells, Fraction(0)) for by in ("ann", "ben")}
    for text in Store.open(town.settings).audit.charges("town"):
        plain = json.loads(text)
        for cell in cells:
            losses[plain["by"]][cell] += loss_of(plain, cell, sizes)
    report = town.service().ledger.spending("people")
    found = {item.account: item.spent_nano for item in report.accounts}
    assert found == {by: max(own.values()) for by, own in losses.items()}
    together = [losses["ann"][cell] + losses["ben"][cell] for cell in cells]
    assert report.spent_nano == max(together)
    checks = check_export(AuditExport.read(Store.open(town.settings).audit))
    assert [check.text for check in checks if not check.ok] == []
    assert any("is just what 6 charges of 6 jobs cost" in check.text for check in checks)


def loss_of(plain: dict[str, Any], cell: tuple[int, int], sizes: tuple[int, ...]) -> Fraction:
    """What a charge of the log costs a cell, read from its JSON."""
    if "table" in plain:
        partition = ProductPartition.from_document(sizes, plain["table"])
        paid = dict(plain["paid"])
        return Fraction(plain["alpha"] - paid.get(cell_in(partition, cell), 0))
    weights = Fraction(0)
    for coefficient, factors in plain["row"]:
        weight = Fraction(coefficient)
        for axis, ends, values in factors:
            run = next(i for i, end in enumerate(ends) if cell[axis] < end)
            weight *= Fraction(values[run])
        weights += weight
    return abs(weights) * plain["alpha"]


@pytest.mark.slow
def test_explain_tells_the_own_price_of_what_the_worker_then_charges(
    town: Deployment, book: AccountBook
) -> None:
    """The asker's figures follow those of the log, and nobody else's charges are in them."""
    assert own_price(town, {"age": 21}, length=40) is None
    book.allow("ann", "town", Allowance(limit_nano=10**9, pace_nano=LIMIT_NANO))
    first = own_price(town, {"age": 21}, length=40)
    assert first is not None
    assert (first.spent_nano, first.affordable, first.more_at) == (0, True, None)
    town.ask({"age": 21}, by="ben")
    town.ask({"age": 22}, by="ann", length=40)
    second = own_price(town, {"age": 22}, length=20)
    assert second is not None
    assert second.spent_nano == second.today_nano == first.price_nano
    book.allow("ann", "town", Allowance(pace_nano=first.price_nano))
    third = own_price(town, {"age": 22}, length=20)
    assert third is not None
    assert (third.limit_nano, third.pace_nano) == (None, first.price_nano)
    assert (third.price_nano, third.affordable) == (second.price_nano, False)
    assert own_price(town, {"age": 22}, length=90).price_nano == 0


@pytest.mark.slow
def test_explain_tells_the_own_price_of_a_table(
    town: Deployment, book: AccountBook, by_hand: ByHand
) -> None:
    rows = [sex_row(town, label) for label in LABELS]
    sources = tuple(CellSource(c, r.id, r.alpha_nano) for c, r in enumerate(rows))
    left = ALPHA - min(row.alpha_nano for row in rows)
    for limit in (left - 1, left):
        book.allow("ann", "town", Allowance(limit_nano=limit))
        with by_hand.planning(replace(NEW, sources=sources)):
            own = own_price(town, {"sex": "Male"}, length=1)
        assert own == OwnPrice(left, limit == left, None, 0, 0, limit, None)
