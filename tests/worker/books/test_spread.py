"""The books of a snapshot whose people have few records in one period, against figures by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from qserver.query.class_grid import product_partition
from qserver.query.linear_query import linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import indicator
from qserver.records.plan import PlannedRow, PlannedTable
from tests.worker.books.histories import STEP
from tests.worker.books.test_books import SIZES, Hand, row, table
from worker.books.accountant import NOT_VERIFIED, VERIFIED
from worker.books.journal_lines import BookFaultError


def hand_of(path: Path, *, k: int, m: int, keeps: int = 0, relation: str = "add-remove") -> Hand:
    facts = {"period_axis": 0, "records_per_period": m, "keeps_period": keeps}
    return Hand(path, k=k, relation=relation, **facts)


def cell(period: int, value: int, alpha: int) -> PlannedRow:
    chosen = {0: indicator(3, [period]), 1: indicator(2, [value])}
    found = primitive(linear_query(SIZES, [(1, chosen)])).row
    return PlannedRow(found, primitive(found).key, alpha, STEP)


def test_records_of_several_periods_add_up_the_greatest_of_each(tmp_path: Path) -> None:
    hand = hand_of(tmp_path / "j", k=2, m=1)
    assert hand.judge(row(0, 10), share=10) == VERIFIED
    hand.write(row(0, 10), share=10)
    hand.write(row(1, 30), share=40)
    assert hand.judge(row(2, 20), share=50) == VERIFIED
    with pytest.raises(BookFaultError, match="loses"):
        hand.judge(row(2, 20), share=49)
    hand.write(row(2, 20), share=50)
    assert hand.loss() == 50
    # A table costs both records, and less what the rows of its cells paid.
    hand.write(table(100), share=250)
    assert hand.loss() == 200


def test_where_all_records_may_be_of_one_period_nothing_changes(tmp_path: Path) -> None:
    hand = Hand(tmp_path / "j", k=2)
    hand.write(row(0, 10), share=20)
    hand.write(row(1, 30), share=60)
    assert hand.loss() == 60


def test_a_record_that_keeps_its_period_pays_for_pairs_within_it(tmp_path: Path) -> None:
    hand = hand_of(tmp_path / "j", k=2, m=1, keeps=1, relation="replace-one")
    for period, alpha in enumerate((10, 30, 20)):
        hand.write(cell(period, 0, alpha), share=200)
        hand.write(cell(period, 1, alpha), share=200)
    # Within a period a record moves two cells' counts.
    assert hand.loss() == 2 * 30 + 2 * 20
    # A table of periods alone tells no such pair apart; absence it tells.
    periods = product_partition(SIZES, {0: [0, 1, 2]})
    hand.write(PlannedTable(periods, 25, STEP), share=210)
    assert hand.loss() == max(2 * 30, 30 + 25) + max(2 * 20, 20 + 25)


def test_a_record_of_any_period_is_known_by_bounds(tmp_path: Path) -> None:
    hand = hand_of(tmp_path / "j", k=2, m=1, relation="replace-one")
    hand.write(row(0, 10), share=10)
    # Two records of two periods: of one row each, or a pair that moves both.
    assert hand.judge(row(1, 30), share=40) == VERIFIED
    with pytest.raises(BookFaultError, match="loses"):
        hand.judge(row(1, 30), share=35)
    against = [(1, {0: indicator(3, [0])}), (-1, {0: indicator(3, [1])})]
    found = primitive(linear_query(SIZES, against)).row
    both = PlannedRow(found, primitive(found).key, 30, STEP)
    # One pair moves it by 60 for certain, and the other row by 10. Two pairs may move it by 120.
    with pytest.raises(BookFaultError, match="loses"):
        hand.judge(both, share=69)
    assert hand.judge(both, share=100) == NOT_VERIFIED
    assert hand.judge(both, share=130) == VERIFIED
