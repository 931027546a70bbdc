"""What is spent, held against own rows alone and the best base in hindsight, after every question.

Own rows are added up per cell here, without a ledger; the hindsight best is fitted to the questions
asked, on an empty history.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest

from qserver.planning.blocks.demand import want_of
from qserver.planning.blocks.star import fit_star
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.holdings import Holdings
from qserver.planning.purchase import Purchase
from qserver.query.class_grid import product_partition
from qserver.query.linear_query import linear_query
from qserver.query.primitive import Primitive, primitive
from qserver.query.requirement import Requirement
from qserver.query.weights import interval
from qserver.records.charge import NANO, Relation
from qserver.records.plan import PlannedTable
from tests.benchmarks.best_blocks import hindsight_price
from tests.benchmarks.blocks_spend import STREAMS
from tests.benchmarks.hindsight import Blocks, Chain, Target, best_price
from tests.benchmarks.streams import COVID_SIZES, Asked, covid
from tests.benchmarks.synthetic_noise import Snapshot

AIM = 2.1
RANGES_AIM = 1.85
LOOSE = Requirement(60.0, 0.95)


def row_of(low: int, high: int, size: int) -> Primitive:
    return primitive(linear_query((size,), [(1, {0: interval(size, low, high)})]))


def own_alpha(asked: Asked) -> float:
    """Alpha, in epsilon, of a row that meets the requirement by itself: ln(1/delta) / h."""
    return -math.log(1.0 - asked.requirement.confidence) / asked.requirement.half_width


def own_rows(
    asked: Sequence[Asked], sizes: tuple[int, ...], *, relation: Relation = "add-remove"
) -> float:
    """Epsilon that own rows alone cost: the greatest of the cells' sums, or of the pairs'."""
    loss = np.zeros(sizes)
    pairs = np.zeros((loss.size, loss.size))
    for question in {a.query.key: a for a in asked}.values():
        (term,) = question.query.row.terms
        cells = np.ones(sizes)
        for axis, weights in term.by_axis.items():
            shape = [-1 if a == axis else 1 for a in range(len(sizes))]
            cells = cells * weights.dense.reshape(shape)
        loss += own_alpha(question) * cells
        pairs += own_alpha(question) * np.abs(np.subtract.outer(cells.ravel(), cells.ravel()))
    return float(loss.max() if relation == "add-remove" else pairs.max())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("zipf", "seed", "relation"),
    [
        (0.0, 982, "add-remove"),
        (0.0, 983, "add-remove"),
        (1.0, 983, "add-remove"),
        (1.0, 982, "add-remove"),
        (1.0, 992, "add-remove"),
        (1.0, 992, "replace-one"),
        (1.0, 996, "replace-one"),
    ],
)
def test_streams_that_once_passed_the_ratio_aimed_at_stay_within(
    zipf: float, seed: int, relation: Relation
) -> None:
    """They reached 2.1 to 2.55.

    After two questions; with the base bought late; or with a base of several blocks fitted to few
    questions, where a single finer one answers the next ones too.
    """
    asked = list(covid(seed, zipf=zipf, n_draws=60))
    snapshot = Snapshot(COVID_SIZES, relation, is_total=relation == "replace-one")
    spent = []
    for question in asked:
        snapshot.ask(question.query, question.requirement)
        spent.append(snapshot.ledger.spent_nano / NANO)
    best = math.inf
    for n in (60, 41, 31, 25, 18, 13, 8, 5, 3, 2, 1):
        # A base for more questions answers these, too, and a fit may have missed it.
        best = min(best, hindsight_price(COVID_SIZES, asked[:n], relation=relation))
        alone = own_rows(asked[:n], COVID_SIZES, relation=relation)
        assert spent[n - 1] <= AIM * min(alone, best)


@pytest.mark.slow
def test_a_base_that_grew_right_after_its_first_blocks_stays_within_the_ratio() -> None:
    """It reached 2.15 while the base was fitted with the question that was asked."""
    asked = list(covid(989, zipf=1.0, n_draws=60))
    snapshot = Snapshot(COVID_SIZES)
    for question in asked:
        snapshot.ask(question.query, question.requirement)
    best = hindsight_price(COVID_SIZES, asked, relation="add-remove")
    assert snapshot.ledger.spent_nano / NANO <= AIM * best


def test_two_questions_about_other_records_cost_no_more_than_twice_one_of_them() -> None:
    """Of own rows alone no cell pays for both, of a table bought with the first every cell does."""
    for low in range(2, 12):
        asked = [Asked(row_of(0, low, 49), LOOSE), Asked(row_of(low, 49, 49), LOOSE)]
        snapshot = Snapshot((49,))
        for question in asked:
            snapshot.ask(question.query, question.requirement)
        assert snapshot.ledger.spent_nano / NANO <= 2.0 * own_rows(asked, (49,))


@pytest.mark.slow
@pytest.mark.parametrize(("stream", "seed"), [(0, 909), (0, 935), (0, 986), (2, 923), (2, 988)])
def test_ranges_that_once_passed_the_ratio_aimed_at_stay_within(stream: int, seed: int) -> None:
    """They reached 1.90 to 2.13: blocks, then several rows that own rows would not have stacked."""
    chosen = STREAMS[stream]
    asked = list(islice(chosen.questions(seed, 12), 12))
    snapshot = Snapshot(chosen.sizes)
    for n, question in enumerate(asked, start=1):
        snapshot.ask(question.query, question.requirement)
        best = hindsight_price(chosen.sizes, asked[:n], relation="add-remove")
        least = min(own_rows(asked[:n], chosen.sizes), best)
        assert snapshot.ledger.spent_nano / NANO <= RANGES_AIM * least


@pytest.mark.slow
def test_levels_are_not_learnt_before_it_is_clear_that_cuts_return() -> None:
    """Of 50 cuts 16 had been seen; blocks of parts between these took it to 2.06."""
    chosen, n = STREAMS[2], 18
    asked = list(islice(chosen.questions(1010, 100), n))
    snapshot = Snapshot(chosen.sizes)
    best = hindsight_price(chosen.sizes, asked, relation="add-remove")
    for i, question in enumerate(asked, start=1):
        snapshot.ask(question.query, question.requirement)
        least = min(own_rows(asked[:i], chosen.sizes), best)
        assert snapshot.ledger.spent_nano / NANO <= RANGES_AIM * least


@pytest.mark.slow
def test_early_blocks_leave_room_for_a_row_about_other_records() -> None:
    """Of a base with coarser parts, whatever the rows before had in common."""
    n_early = 0
    for seed in range(4):
        asked = list(islice(STREAMS[1].questions(seed, 6), 6))
        snapshot, own = Snapshot(STREAMS[1].sizes), own_alpha(asked[0])
        for n, question in enumerate(asked, start=1):
            plan = snapshot.ask(question.query, question.requirement)
            alone = own_rows(asked[:n], STREAMS[1].sizes)
            if plan.tables and plan.rows and plan.price_nano / NANO > own:
                n_early += 1
                spent = snapshot.ledger.spent_nano / NANO
                assert spent <= PLANNER.most_ratio * alone
                assert spent + own <= RANGES_AIM * alone * (1.0 + 1e-6)
    assert n_early >= 4


def test_a_base_that_grows_no_more_is_bought_without_room_for_a_whole_row() -> None:
    """Four ranges over the middle: the fourth buys all of the base, not parts and a row."""
    snapshot, ends = Snapshot((49,)), [(3, 46), (5, 41), (4, 38), (6, 43)]
    plans = [snapshot.ask(row_of(*e, 49), LOOSE) for e in ends]
    assert [p.kind for p in plans[:3]] == ["fresh"] * 3
    assert plans[3].tables
    assert not plans[3].rows
    own = own_alpha(Asked(row_of(3, 46, 49), LOOSE))
    spent = snapshot.ledger.spent_nano / NANO
    alone = own_rows([Asked(row_of(*e, 49), LOOSE) for e in ends], (49,))
    assert spent + own > RANGES_AIM * alone


def base_price(holdings: Holdings, asked: Sequence[Asked]) -> float:
    wants = [
        want_of(holdings, a.query, half_width=a.requirement.half_width, confidence=0.95)
        for a in asked
    ]
    known = [w for w in wants if w is not None]
    assert len(known) == len(asked)
    return fit_star(holdings, known, effort=Effort()).price


def test_a_base_costs_what_the_solver_finds_and_more_with_blocks_bought_in_vain() -> None:
    """Against the solver of the benchmarks, which may miss that the middle level is of no use."""
    generator, size = random.Random(4), 16
    asked = []
    for _ in range(8):
        low, high = sorted(generator.sample(range(size + 1), 2))
        asked.append(Asked(row_of(low, high, size), LOOSE))
    snapshot = Snapshot((size,))
    found = base_price(snapshot.holdings, asked)
    targets = [Target((a.query.row.terms[0].by_axis[0].dense.astype(float),), 30.0) for a in asked]
    levels = tuple(snapshot.holdings.lattice.chains[0].n_parts)
    chains = (Chain(levels), Chain((levels[0], levels[-1])))
    solved = min(best_price(Blocks((c,)), targets, confidence=0.95) for c in chains)
    assert found == pytest.approx(solved, rel=0.02)
    table = product_partition((size,), {0: [v % 2 for v in range(size)]})
    snapshot.buy(Purchase(tables=(PlannedTable(table, NANO // 5, Fraction(1, 1 << 20)),)))
    assert base_price(snapshot.holdings, asked) > 1.1 * found
