"""The books against losses by hand, against definitions, and on lines that are wrong."""

from __future__ import annotations

import json
from fractions import Fraction
from math import ceil, expm1, log1p
from pathlib import Path
from typing import Any

import pytest

from qserver.query.class_grid import product_partition
from qserver.query.primitive import primitive
from qserver.records.codec import plain
from qserver.records.plan import CellSource, PlannedRow, PlannedTable, TableCell
from tests.worker.books.campaign import play
from tests.worker.books.histories import STEP, JournalFile
from worker.books.accountant import NOT_VERIFIED, VERIFIED, Accountant, heaviest
from worker.books.journal_lines import BookFaultError, UnknownFactsError
from worker.books.losses import sample_loss
from worker.journal import records
from worker.journal.records import (
    Adopted,
    Attached,
    Burnt,
    ChargeLine,
    DeclaredDisjoint,
    LimitRaised,
    Released,
    ReleasedRow,
    Reserved,
)

pytestmark = [
    pytest.mark.promise(
        "Privacy",
        "a second accountant, which shares no code with the ledger, finds each person's exact "
        "loss in the journal, and nothing is charged that it does not agree with",
    ),
]

SIZES = (3, 2)
BY_FIRST = product_partition(SIZES, {0: [0, 1, 2]})
LIMIT = 1000


class Hand:
    """A journal made by hand."""

    def __init__(self, path: Path, **facts: Any) -> None:
        self.file, self.n = JournalFile(path), 0
        self.accountant = Accountant(path)
        if facts:
            self.attach("s", **facts)

    def attach(
        self,
        snapshot: str,
        *,
        k: int = 1,
        relation: str = "add-remove",
        null_cell: int = 1,
        disjoint: str = "",
        **details: str | int,
    ) -> None:
        facts: dict[str, str | int] = {
            "records_per_person": k,
            "sizes": "3 2",
            "null_cell": null_cell,
            "disjoint_from": disjoint,
        }
        self.file.append(
            Attached(f"of-{snapshot}", snapshot, LIMIT, relation, "00", facts | details)
        )

    def plan(
        self, *planned: PlannedRow | PlannedTable, share: int, snapshot: str = "s", **more: Any
    ) -> str:
        self.n += 1
        return json.dumps(
            {
                "job": f"j{self.n}",
                "request": json.dumps({"snapshot": snapshot, "sizes": list(SIZES)}),
                "rows": [plain(p) for p in planned if isinstance(p, PlannedRow)],
                "tables": [plain(p) for p in planned if isinstance(p, PlannedTable)],
                "after": {"share_nano": share, "spent_nano": more.pop("spent", LIMIT)},
                **more,
            }
        )

    def judge(self, *planned: PlannedRow | PlannedTable, share: int, **more: Any) -> str:
        return self.accountant.judge(self.plan(*planned, share=share, **more))

    def write(self, *planned: PlannedRow | PlannedTable, share: int, **more: Any) -> None:
        """Charge and release, whatever the books think of it."""
        plan = self.plan(*planned, share=share, **more)
        self.reserve(plan)
        rows = tuple(
            ReleasedRow("x", (7,) * (p.partition.n_cells if isinstance(p, PlannedTable) else 1))
            for p in planned
        )
        self.file.append(Released(f"j{self.n}", rows))

    def reserve(self, plan: str, **more: Any) -> None:
        replay = json.dumps({"plan": plan, "charges": [], "changes": [], **more})
        self.file.append(Reserved(f"j{self.n}", self.n, 1, (ChargeLine("x", 1),), replay=replay))

    def loss(self, snapshot: str = "s") -> int | None:
        found = {f.snapshot: f for f in self.accountant.examine()}
        return found[snapshot].loss


@pytest.fixture
def hand(tmp_path: Path) -> Hand:
    return Hand(tmp_path / "journal", k=1)


def row(place: int, alpha: int, **more: Any) -> PlannedRow:
    found = BY_FIRST.row(place)
    return PlannedRow(found, primitive(found).key, alpha, STEP, **more)


def table(alpha: int, **more: Any) -> PlannedTable:
    return PlannedTable(BY_FIRST, alpha, STEP, **more)


def test_disjoint_rows_cost_the_greater_and_a_chain_its_last_alpha(hand: Hand) -> None:
    assert hand.judge(row(0, 10), share=10) == VERIFIED
    hand.write(row(0, 10), share=10)
    hand.write(row(1, 30), share=30)
    hand.write(row(0, 25, refines=0, old_alpha_nano=10), share=30)
    assert hand.loss() == 30
    with pytest.raises(BookFaultError, match="loses"):
        hand.judge(row(2, 31), share=30)


def test_a_row_and_its_cell_cost_the_greater_of_both(hand: Hand) -> None:
    hand.write(row(0, 10), share=10)
    # The cell goes on from the row: ten are paid already. The other cells pay the whole.
    hand.write(table(25, sources=(CellSource(0, 0, 10),)), share=25)
    assert hand.loss() == 25
    named = {"refines": 0, "old_alpha_nano": 25, "cell": TableCell(1, 0)}
    hand.write(row(0, 60, **named), share=60)
    assert hand.loss() == 60
    # A new measurement of the same row has noise of its own, and costs its whole alpha.
    hand.write(row(0, 5), share=65)
    assert hand.loss() == 65


def test_a_cell_that_is_released_once_more_costs_nothing(hand: Hand) -> None:
    hand.write(row(0, 50), share=50)
    assert hand.judge(table(20, sources=(CellSource(0, 0, 50),)), share=50) == VERIFIED
    hand.write(table(20, sources=(CellSource(0, 0, 50),)), share=50)
    assert hand.loss() == 50


@pytest.mark.parametrize(("null_cell", "loss"), [(0, 30), (1, 30)])
def test_a_replaced_record_moves_two_cells_of_a_table(
    tmp_path: Path, null_cell: int, loss: int
) -> None:
    hand = Hand(tmp_path / "j", k=3, relation="replace-one", null_cell=null_cell)
    hand.write(table(5), share=30)
    assert hand.loss() == loss
    total = product_partition(SIZES, {})
    hand.write(PlannedTable(total, 100, STEP), share=2 * loss + 300)
    # Two cells of the domain never differ in the total; a record and none do.
    assert hand.loss() == (315 if null_cell else 30)


def test_a_burnt_job_cost_nobody_anything(hand: Hand) -> None:
    hand.write(row(0, 10), share=10)
    hand.reserve(hand.plan(row(0, 90, refines=0, old_alpha_nano=10), share=90))
    hand.file.append(Burnt(f"j{hand.n}"))
    assert hand.loss() == 10
    # But a share never falls.
    with pytest.raises(BookFaultError, match="falls"):
        hand.judge(row(1, 20), share=20)
    assert hand.judge(row(0, 40, refines=0, old_alpha_nano=10), share=120) == VERIFIED


def test_a_secret_sample_costs_its_amplified_loss(hand: Hand) -> None:
    sampled = {"first_alpha_nano": 1, "sample_nano": 1, "alpha_nano": 100, "tables_nano": 100}
    nominal = 700 * 10**6
    exact = log1p(0.1 * expm1(0.7)) * 1e9
    plan = hand.plan(table(100), share=ceil(exact) + 100, spent=10**12, sampled=sampled)
    hand.file.append(LimitRaised(LIMIT, 10**12))
    assert hand.accountant.judge(plan, nominal_nano=nominal) == VERIFIED
    less = hand.plan(table(100), share=int(exact) + 99, spent=10**12, sampled=sampled)
    with pytest.raises(BookFaultError, match="loses"):
        hand.accountant.judge(less, nominal_nano=nominal)
    with pytest.raises(BookFaultError, match="nominal"):
        hand.accountant.judge(plan)


@pytest.mark.parametrize("nominal", [1, 10**6, 10**9, 50 * 10**9, 10**15])
def test_the_loss_of_a_sample_is_never_less_than_the_true_one(nominal: int) -> None:
    import mpmath

    with mpmath.workdps(80):
        x = mpmath.mpf(nominal) / 10**9
        true = mpmath.log1p(mpmath.expm1(x) / 10) * 10**9
        found = sample_loss(nominal, Fraction(1, 10))
        found_mp = mpmath.mpf(found.numerator) / found.denominator
        assert 0 <= found_mp - true < mpmath.mpf(10) ** -15 * max(1, nominal)


def test_people_of_several_files_lose_the_sum(hand: Hand) -> None:
    hand.attach("west", disjoint="s")
    hand.attach("lab", disjoint="west")
    hand.write(row(0, 900), share=900, spent=900)
    assert hand.judge(row(0, 900), share=900, snapshot="west") == VERIFIED
    with pytest.raises(BookFaultError, match="several"):
        hand.judge(row(0, 900), share=900, snapshot="lab")
    hand.file.append(DeclaredDisjoint((("lab", "s"),)))
    assert hand.judge(row(0, 900), share=900, snapshot="lab") == VERIFIED
    with pytest.raises(BookFaultError, match="several"):
        hand.judge(row(0, 900), share=900, snapshot="lab", spent=899)


def test_what_two_rows_are_drawn_from_is_refused(hand: Hand) -> None:
    hand.write(table(10), share=10)
    twin = row(0, 20, old_alpha_nano=10, cell=TableCell(0, 0))
    with pytest.raises(BookFaultError, match="not paired"):
        hand.judge(twin, twin, share=500)


@pytest.mark.parametrize(
    ("planned", "word"),
    [
        (row(0, 60, refines=0, old_alpha_nano=35), "not in force"),
        (row(1, 20, refines=0, old_alpha_nano=10), "another one"),
        (row(0, 20, refines=5, old_alpha_nano=10), "not in force"),
        (row(1, 40, old_alpha_nano=30, cell=TableCell(1, 0)), "not paired"),
        (table(40, refines=1, old_alpha_nano=35), "not in force|less than its rise"),
        (table(40, sources=(CellSource(0, 0, 20),)), "paid less"),
        (table(50, refines=0, old_alpha_nano=10), "another one"),
    ],
)
def test_a_plan_that_says_more_is_paid_than_there_is_is_refused(
    hand: Hand, planned: PlannedRow | PlannedTable, word: str
) -> None:
    hand.write(row(0, 10), share=10)
    hand.write(table(30), share=40)
    with pytest.raises(BookFaultError, match=word):
        hand.judge(planned, share=900)


def test_an_answer_released_once_more_as_another_one_is_named_for_ever(hand: Hand) -> None:
    hand.write(row(0, 50), share=50)
    plan = hand.plan(table(20, sources=(CellSource(0, 0, 50),)), share=50)
    hand.reserve(plan)
    hand.file.append(Released(f"j{hand.n}", (ReleasedRow("x", (8, 7, 7)),)))
    assert not hand.accountant.examine()[0].ok
    with pytest.raises(BookFaultError, match="once more"):
        hand.judge(row(1, 1), share=60)


def test_older_lines_are_not_verified(tmp_path: Path) -> None:
    hand = Hand(tmp_path / "j")
    facts: dict[str, str | int] = {"records_per_person": 1, "records_verified": 0}
    hand.file.append(Attached("old", "s", LIMIT, "replace-one", "00", facts))
    assert hand.judge(row(0, 10), share=1) == NOT_VERIFIED
    hand.file.append(Adopted(4, 20))
    assert hand.accountant.examine()[0].text.startswith(NOT_VERIFIED)
    other = Hand(tmp_path / "k")
    other.file.append(Attached("old", "s", LIMIT, "add-remove", "00", facts))
    assert other.judge(row(0, 10), share=10) == VERIFIED
    other.file.append(Reserved("j9", 9, 1, (ChargeLine("x", 1),)))
    assert other.judge(row(0, 10), share=10) == NOT_VERIFIED


def test_what_is_charged_and_not_drawn_yet_counts_as_drawn(hand: Hand) -> None:
    """A row of 10 is open, and a table of 20 of the other attribute crosses it."""
    other = PlannedTable(product_partition(SIZES, {1: [0, 1]}), 20, STEP)
    hand.reserve(hand.plan(row(0, 10), share=10))
    assert hand.judge(other, share=30) == VERIFIED
    with pytest.raises(BookFaultError, match="loses"):
        hand.judge(other, share=29)


def test_beside_an_open_plan_of_two_stages_nothing_is_verified(hand: Hand) -> None:
    """What it will draw is decided by its sample."""
    hand.reserve(hand.plan(table(20), share=40, sampled={"alpha_nano": 20}), nominal_nano=3)
    assert hand.judge(row(0, 1), share=50) == NOT_VERIFIED


def test_what_follows_facts_that_are_unknown_is_no_fault(hand: Hand) -> None:
    """An older charge may have drawn the row that is refined."""
    hand.file.append(Reserved("old", 1, 1, (ChargeLine("x", 1),)))
    hand.write(row(0, 25, refines=0, old_alpha_nano=10), share=30)
    assert hand.accountant.examine()[0].text.startswith(NOT_VERIFIED)


def test_a_line_that_was_changed_moved_or_cut_is_refused(hand: Hand) -> None:
    hand.write(row(0, 10), share=10)
    path = hand.file.path
    whole = path.read_bytes()
    assert hand.loss() == 10
    path.write_bytes(whole.replace(b'"alpha', b'"alphb'))
    with pytest.raises(BookFaultError):
        Accountant(path).examine()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], lines[3], lines[2]]))
    with pytest.raises(BookFaultError):
        Accountant(path).examine()
    path.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(BookFaultError, match="cut"):
        hand.loss()


def test_a_torn_last_line_is_left_for_later(hand: Hand) -> None:
    hand.write(row(0, 10), share=10)
    whole = hand.file.path.read_bytes()
    hand.file.path.write_bytes(whole[:-9])
    found = Accountant(hand.file.path)
    found.examine()
    hand.file.path.write_bytes(whole)
    assert found.examine()[0].loss == 10


def test_every_kind_of_line_is_known(hand: Hand) -> None:
    """A kind that the books do not know stops all charges: teach it to them."""
    source = Path(__file__).parents[3] / "worker" / "books" / "accountant.py"
    # A group is read as the lines that it has.
    text = source.read_text(encoding="utf-8") + '"group"'
    assert [kind for kind in records._KINDS if f'"{kind}"' not in text] == []


def test_a_heaviest_set_is_that_of_all_sets() -> None:
    import random
    from itertools import combinations

    for seed in range(200):
        rng = random.Random(seed)
        shares = {str(i): rng.randint(0, 9) for i in range(rng.randint(0, 8))}
        pairs = {p for p in combinations(sorted(shares), 2) if rng.random() < 0.4}
        best = max(
            sum(shares[name] for name in chosen)
            for size in range(len(shares) + 1)
            for chosen in combinations(sorted(shares), size)
            if not pairs & set(combinations(chosen, 2))
        )
        assert heaviest(shares, pairs) == best


def test_sixty_files_are_added_up_exactly_and_too_many_are_said_to_be() -> None:
    import random
    from itertools import combinations

    rng = random.Random(3)
    shares = {f"{i:03}": rng.randint(1, 10**9) for i in range(60)}
    pairs = {p for p in combinations(shares, 2) if rng.random() < 0.3}
    assert 0 < heaviest(shares, pairs) < sum(shares.values())
    shares = {f"{i:03}": 10**9 + i for i in range(200)}
    pairs = {p for p in combinations(shares, 2) if rng.random() < 0.05}
    with pytest.raises(UnknownFactsError):
        heaviest(shares, pairs)
    # Ten years of weekly rotations, each of the same people or each of others.
    weeks = {f"{i:03}": 10**6 + i for i in range(520)}
    assert heaviest(weeks, ()) == sum(weeks.values())
    assert heaviest(weeks, set(combinations(weeks, 2))) == max(weeks.values())


@pytest.mark.parametrize("seed", range(12))
def test_random_histories_are_exact(seed: int, tmp_path: Path) -> None:
    found = play(seed, tmp_path / "journal")
    assert found.spent >= found.exact - 1e-3
    assert found.n_unverified <= found.n_bounded
