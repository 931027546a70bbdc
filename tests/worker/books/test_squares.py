"""The books under zcdp: against every cell and pair, and on lines that are wrong."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from qserver.ledger.cell_ledger import CellLedger
from qserver.query.class_grid import product_partition
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.sealed_periods import on_periods
from qserver.query.weights import indicator
from qserver.records.charge import Charge, TableCharge
from qserver.records.plan import CellSource, PlannedRow, PlannedTable
from qserver.records.privacy.noise_law import GAUSSIAN
from tests.ledger.people_by_definition import People
from tests.query.dense_weights import scaled_weights
from tests.worker.books.histories import STEP
from tests.worker.books.test_books import SIZES, Hand, row, table
from worker.books import account
from worker.books.accountant import NOT_VERIFIED, VERIFIED
from worker.books.journal_lines import BookFaultError
from worker.journal.records import LimitRaised

pytestmark = pytest.mark.promise(
    "Privacy",
    "under Gaussian noise the books reckon squares by their own code, and nothing is charged that "
    "they do not agree with",
)
LIMIT = 10**12
ZCDP = {"privacy": "zcdp", "delta": "1/1000000000"}
CELLS = list(product(*map(range, SIZES)))


def hand_of(path: Path, **facts: Any) -> Hand:
    hand = Hand(path, **(ZCDP | facts))
    hand.file.append(LimitRaised(1000, LIMIT))
    return hand


def some_row(rng: random.Random) -> LinearQuery:
    """A row of one to three terms with weights of both signs."""
    terms = []
    for _ in range(rng.randint(1, 3)):
        weights = {
            axis: scaled_weights([Fraction(rng.randint(-2, 3)) for _ in range(size)])
            for axis, size in enumerate(SIZES)
            if rng.random() < 0.8
        }
        terms.append((Fraction(rng.randint(1, 4), rng.randint(1, 3)), weights))
    return linear_query(SIZES, terms)


def planned(query: LinearQuery, rho: int) -> PlannedRow:
    return PlannedRow(primitive(query).row, primitive(query).key, rho, STEP)


def some_table(rng: random.Random, rho: int) -> PlannedTable:
    """A table of some attributes, whose values are in parts."""
    axes = rng.sample(range(len(SIZES)), rng.randint(0, len(SIZES)))
    parts = {a: sorted(rng.randrange(2) for _ in range(SIZES[a])) for a in axes}
    return PlannedTable(product_partition(SIZES, parts), rho, STEP)


def rows_of(one: PlannedRow | PlannedTable) -> list[PlannedRow]:
    """A row, or the cells of a table as rows."""
    if isinstance(one, PlannedRow):
        return [one]
    cells = map(one.partition.row, range(one.partition.n_cells))
    return [PlannedRow(row, primitive(row).key, one.alpha_nano, STEP) for row in cells]


def greatest(
    bought: Sequence[PlannedRow | PlannedTable], *, k: int, relation: str, null_cell: int
) -> Fraction:
    """The most that anybody loses: every cell, or every pair of cells, one after the other."""
    rows = [row for one in bought for row in rows_of(one)]
    at = [[row.row.value_at(cell) for row in rows] for cell in CELLS]
    none = [Fraction(0)] * len(rows)
    places = [*at, none] if null_cell else at
    if relation == "add-remove":
        pairs = [(one, none) for one in at]
    else:
        pairs = list(product(places, places))
    return (
        k
        * k
        * max(
            sum(
                (r.alpha_nano * (a - b) ** 2 for r, a, b in zip(rows, one, other, strict=True)),
                Fraction(0),
            )
            for one, other in pairs
        )
    )


@pytest.mark.parametrize("seed", range(40))
def test_the_books_find_the_greatest_sum_of_squares_of_every_cell_and_pair(
    tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    relation = rng.choice(["add-remove", "replace-one"])
    k, null_cell = rng.randint(1, 3), rng.randint(0, 1)
    hand = hand_of(tmp_path / "j", k=k, relation=relation, null_cell=null_cell)
    rows = list[PlannedRow | PlannedTable]()
    facts: dict[str, Any] = {"k": k, "relation": relation, "null_cell": null_cell}
    while len(rows) < 5:
        query = some_row(rng)
        if query.is_zero:
            continue
        rho = rng.randint(1, 10**6)
        rows.append(some_table(rng, rho) if rng.random() < 0.4 else planned(query, rho))
        share = ceil(greatest(rows, **facts))
        before = ceil(greatest(rows[:-1], **facts)) if rows[:-1] else 0
        if share > before:
            with pytest.raises(BookFaultError, match="loses"):
                hand.judge(rows[-1], share=share - 1, spent=LIMIT)
        assert hand.judge(rows[-1], share=share, spent=LIMIT) == VERIFIED
        hand.write(rows[-1], share=share, spent=LIMIT)
        assert hand.loss() == share


def greatest_of_people(bought: Sequence[PlannedRow | PlannedTable], people: People) -> Fraction:
    """The most that anybody of these loses, one exchange after the other."""
    rows = [(row.alpha_nano, row.row) for one in bought for row in rows_of(one)]
    at = {cell: [row.value_at(cell) for _, row in rows] for cell in CELLS}
    most = Fraction(0)
    for one, other in people.exchanges():
        sums = [[sum(at[c][i] for c in who) for i in range(len(rows))] for who in (one, other)]
        moved = zip(rows, *sums, strict=True)
        most = max(most, sum((rho * (a - b) ** 2 for (rho, _), a, b in moved), Fraction(0)))
    return most


PARTS = (
    {0: [0, 1, 2]},
    {0: [0, 1, 2], 1: [0, 1]},
    {1: [0, 1]},
    {0: [0, -1, 1]},
    {0: [0, 0, 1]},
    {},
)
"""Of tables that tell all periods apart, none, some, or that have some alone."""


def is_shown(hand: Hand, row: PlannedRow | PlannedTable, share: int) -> bool:
    """Whether the books say that nobody loses more."""
    with suppress(BookFaultError):
        return hand.judge(row, share=share, spent=LIMIT) == VERIFIED
    return False


SPREADS = {
    "add-remove": People(SIZES, 0, 2, 1),
    "two of a period": People(SIZES, 0, 3, 2),
    "any period": People(SIZES, 0, 2, 1, "replace-one"),
    "same period": People(SIZES, 0, 2, 1, "replace-one", same_period=True),
    "all of a period": People(SIZES, 0, 2, 2, "replace-one", same_period=True),
}


@dataclass
class Spread:
    """A history of people with periods: in the books, and as the ledger charges it."""

    hand: Hand
    people: People
    rng: random.Random
    only_counts: bool = False
    bought: list[PlannedRow | PlannedTable] = field(default_factory=list)

    @classmethod
    def of(cls, path: Path, name: str, seed: int, *, only_counts: bool = False) -> Spread:
        people = SPREADS[name]
        by = {"records_per_period": people.m, "keeps_period": int(people.same_period)}
        hand = hand_of(path, k=people.k, relation=people.relation, period_axis=0, **by)
        return cls(hand, people, random.Random(f"{name} {seed}"), only_counts)

    def steps(self, n: int) -> Iterator[tuple[PlannedRow | PlannedTable, int, int, int]]:
        """What is bought, the least share of it, and what the ledger says before and after."""
        ledger = CellLedger.like(SIZES, replace(self.people.neighbours, law=GAUSSIAN))
        while len(self.bought) < n:
            one = self._bought()
            if one is None:
                continue
            self.bought.append(one)
            before = ledger.spent_nano
            if isinstance(one, PlannedRow):
                ledger.append(Charge(one.row, one.alpha_nano, "job"))
            else:
                ledger.append(TableCharge(one.partition, one.alpha_nano, (), "job"))
            yield one, ceil(greatest_of_people(self.bought, self.people)), before, ledger.spent_nano
            self.hand.write(one, share=ledger.spent_nano, spent=LIMIT)

    def _bought(self) -> PlannedRow | PlannedTable | None:
        rng, rho = self.rng, self.rng.randint(1, 10**6)
        query, period = some_row(rng), rng.randrange(SIZES[0])
        if self.only_counts:
            value = indicator(SIZES[1], [rng.randrange(SIZES[1])])
            in_one = {0: indicator(SIZES[0], [period])} if rng.random() < 0.7 else {}
            query = linear_query(SIZES, [(1, {1: value, **in_one})])
        if rng.random() < 0.4:
            parts = PARTS[:3] if self.only_counts else PARTS
            return PlannedTable(product_partition(SIZES, rng.choice(parts)), rho, STEP)
        if self.only_counts:
            return planned(query, rho)
        if not query.is_zero and rng.random() < 0.7:
            query = on_periods(query, 0, range(period, period + 1))
        return None if query.is_zero else planned(query, rho)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", SPREADS)
def test_no_person_of_several_periods_loses_more_than_the_books_let_pass(
    tmp_path: Path, name: str, seed: int
) -> None:
    """Nor do they refuse what the ledger charges."""
    spread = Spread.of(tmp_path / "j", name, seed)
    for one, lost, before, after in spread.steps(4):
        assert lost <= after
        assert lost <= before or not is_shown(spread.hand, one, lost - 1)
        assert spread.hand.judge(one, share=after, spent=LIMIT) == VERIFIED or name == "any period"


@pytest.mark.parametrize("seed", range(8))
def test_counts_and_tables_of_any_period_are_verified(tmp_path: Path, seed: int) -> None:
    """As under pure privacy, whose books leave rows with weights of both signs open, too."""
    spread = Spread.of(tmp_path / "j", "any period", seed, only_counts=True)
    for one, _, _, after in spread.steps(4):
        assert spread.hand.judge(one, share=after, spent=LIMIT) == VERIFIED


def test_books_that_take_every_row_for_one_of_one_period_are_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control."""
    monkeypatch.setattr(account.Spread, "n_moving", lambda *_facts: 1)
    monkeypatch.setattr(account.Account, "_rise", lambda *_losses: Fraction(LIMIT))
    spreads = [Spread.of(tmp_path / f"{i}", "add-remove", i) for i in range(8)]
    assert any(
        lost > before and is_shown(spread.hand, one, lost - 1)
        for spread in spreads
        for one, lost, before, _ in spread.steps(4)
    )


def test_a_row_measured_again_adds_up_and_never_goes_on_from_an_answer(tmp_path: Path) -> None:
    hand = hand_of(tmp_path / "j")
    hand.write(row(0, 10), share=10)
    assert hand.judge(row(0, 25), share=35) == VERIFIED
    with pytest.raises(BookFaultError, match="loses"):
        hand.judge(row(0, 25), share=25)
    with pytest.raises(BookFaultError, match="Gaussian"):
        hand.judge(row(0, 25, refines=0, old_alpha_nano=10), share=35)
    with pytest.raises(BookFaultError, match="Gaussian"):
        hand.judge(table(15, sources=(CellSource(0, 0, 10),)), share=35)
    hand.write(table(5), share=15)
    with pytest.raises(BookFaultError, match="Gaussian"):
        hand.judge(table(9, refines=1, old_alpha_nano=5), share=35)
    assert hand.judge(table(5), share=20) == VERIFIED
    with pytest.raises(BookFaultError, match="loses"):
        hand.judge(table(5), share=19)


@pytest.mark.parametrize(("facts", "factor"), [({"k": 3}, 9), ({"relation": "replace-one"}, 2)])
def test_a_second_purchase_costs_the_squares_of_whatever_tables_it_is_of(
    tmp_path: Path, facts: dict[str, Any], factor: int
) -> None:
    hand = hand_of(tmp_path / "j", **facts)
    share = factor * (5 + 25)
    assert hand.judge(table(5), share=share, second={"alpha_nano": 25}) == VERIFIED
    with pytest.raises(BookFaultError, match="loses"):
        hand.judge(table(5), share=share - 1, second={"alpha_nano": 25})


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"meta": '{"privacy": "pure"}'}, "not that of its facts"),
        ({"meta": '{"privacy": "zcdp", "delta": "1/1000"}'}, "not that of its facts"),
    ],
)
def test_facts_that_do_not_go_together_are_refused(
    tmp_path: Path, facts: dict[str, Any], words: str
) -> None:
    hand = hand_of(tmp_path / "j", k=2, **facts)
    with pytest.raises(BookFaultError, match=words):
        hand.judge(row(0, 1), share=4)


def test_a_population_has_one_kind_of_privacy(tmp_path: Path) -> None:
    hand = hand_of(tmp_path / "j")
    hand.attach("other")
    with pytest.raises(BookFaultError, match="two kinds"):
        hand.judge(row(0, 1), share=1)


def test_a_row_of_too_many_terms_is_not_verified(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("worker.books.cell_functions._MOST_SQUARED", 1)
    hand = hand_of(tmp_path / "j")
    two = linear_query(
        SIZES, [(1, {0: scaled_weights([1, 2, 0])}), (1, {1: scaled_weights([1, 3])})]
    )
    assert hand.judge(planned(two, 10), share=1000) == NOT_VERIFIED
