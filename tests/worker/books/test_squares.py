"""The books under zcdp: against every cell and pair, and on lines that are wrong."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from qserver.query.linear import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.records.plan import PlannedRow
from tests.query.dense_weights import scaled_weights
from tests.worker.books.histories import STEP
from tests.worker.books.test_books import SIZES, Hand, row, table
from worker.books.accountant import NOT_VERIFIED, VERIFIED
from worker.books.lines import BookFaultError
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


def greatest(rows: Sequence[PlannedRow], *, k: int, relation: str, null_cell: int) -> Fraction:
    """The most that anybody loses: every cell, or every pair of cells, one after the other."""
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
    rows = list[PlannedRow]()
    facts: dict[str, Any] = {"k": k, "relation": relation, "null_cell": null_cell}
    while len(rows) < 5:
        query = some_row(rng)
        if query.is_zero:
            continue
        rows.append(planned(query, rng.randint(1, 10**6)))
        share = ceil(greatest(rows, **facts))
        before = ceil(greatest(rows[:-1], **facts)) if rows[:-1] else 0
        if share > before:
            with pytest.raises(BookFaultError, match="loses"):
                hand.judge(rows[-1], share=share - 1, spent=LIMIT)
        assert hand.judge(rows[-1], share=share, spent=LIMIT) == VERIFIED
        hand.write(rows[-1], share=share, spent=LIMIT)
        assert hand.loss() == share


def test_a_row_measured_again_adds_up_and_never_goes_on_from_an_answer(tmp_path: Path) -> None:
    hand = hand_of(tmp_path / "j")
    hand.write(row(0, 10), share=10)
    assert hand.judge(row(0, 25), share=35) == VERIFIED
    with pytest.raises(BookFaultError, match="loses"):
        hand.judge(row(0, 25), share=25)
    with pytest.raises(BookFaultError, match="Gaussian"):
        hand.judge(row(0, 25, refines=0, old_alpha_nano=10), share=35)
    with pytest.raises(BookFaultError, match="Gaussian"):
        hand.judge(table(5), share=35)
    with pytest.raises(BookFaultError, match="second purchase"):
        hand.judge(row(0, 10), share=60, second={"alpha_nano": 25})


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"meta": '{"privacy": "pure"}'}, "not that of its facts"),
        ({"meta": '{"privacy": "zcdp", "delta": "1/1000"}'}, "not that of its facts"),
        ({"period_axis": 0, "records_per_period": 1, "keeps_period": 0}, "pure privacy alone"),
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
    monkeypatch.setattr("worker.books.functions._MOST_SQUARED", 1)
    hand = hand_of(tmp_path / "j")
    two = linear_query(
        SIZES, [(1, {0: scaled_weights([1, 2, 0])}), (1, {1: scaled_weights([1, 3])})]
    )
    assert hand.judge(planned(two, 10), share=1000) == NOT_VERIFIED
