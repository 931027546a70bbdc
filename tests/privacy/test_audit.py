"""What is inferred about one record is within the ledger's figure, and the audit can say no.

False alarms: each bound is wrong with a chance of 1e-6, over the seed. More deployments:
`python -m tests.privacy audit`.
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from math import comb, exp
from pathlib import Path

import pytest

from qserver.ledger.noise_step import lattice_step
from qserver.query.primitive import primitive
from qserver.records.charge import NANO
from qserver.records.history import AnyMeasurement
from qserver.records.plan import CellSource, Planned, PlannedRow, PlannedTable, TableCell
from qserver.records.privacy.noise_law import LAPLACE
from tests.privacy import audit as scenarios
from tests.privacy.audit import BY_SEX, FAULTS, LIMIT_NANO, SCENARIOS, SEX, audit
from tests.privacy.guessing import ERROR, Guesses
from tests.privacy.neighbours import Site, guess, guess_from_newest, neighbours
from tests.statistical.test_noise import SeededEntropy
from worker.spending.answers_in_force import Live
from worker.spending.measure import draw_all

pytestmark = [
    pytest.mark.promise(
        "Privacy",
        "what an attacker infers about one record stays within the ledger's figure: rows, "
        "refinements, combined and adaptive plans, differences, tables",
    ),
    pytest.mark.promise(
        "Privacy",
        "the audit can say no: noise 20 percent too small is caught, and so is new noise in place"
        " of refined noise",
    ),
]

N_DRAWN = 5000
N_DEPLOYMENTS = 70
SEED = 4
ROW = primitive(BY_SEX.row(SEX))
STEP = lattice_step(ROW.unit, limit_nano=LIMIT_NANO, records_per_person=1)
FIRST, SECOND, THIRD, LAST = (LIMIT_NANO * tenths // 10 for tenths in (2, 5, 7, 10))


def new_row(alpha: int) -> PlannedRow:
    return PlannedRow(ROW.row, ROW.key, alpha, STEP)


SEQUENCES: dict[str, list[Planned]] = {
    "row": [new_row(LAST)],
    "refinements": [
        new_row(FIRST),
        PlannedRow(ROW.row, ROW.key, SECOND, STEP, 0, FIRST),
        PlannedRow(ROW.row, ROW.key, LAST, STEP, 0, SECOND),
    ],
    "table": [PlannedTable(BY_SEX, LAST, STEP)],
    "row and table": [
        new_row(FIRST),
        PlannedTable(BY_SEX, SECOND, STEP, sources=(CellSource(SEX, 0, FIRST),)),
        PlannedTable(BY_SEX, THIRD, STEP, 1, SECOND),
        PlannedRow(ROW.row, ROW.key, LAST, STEP, 0, THIRD, TableCell(1, SEX)),
    ],
}
"""What costs the target `LIMIT_NANO` in all, the dearest of the cells."""


def inferred(sequence: list[Planned], fault: str) -> float:
    """Lower bound of the epsilon realised when the worker draws these in turn."""
    tables = neighbours("add-remove")
    coin, entropy = random.Random(SEED), SeededEntropy(SEED)
    rules = (guess, guess_from_newest)
    made, right = [0, 0], [0, 0]
    with FAULTS[fault]():
        for _ in range(N_DRAWN):
            secret = coin.randrange(2)
            live, released = Live([]), list[AnyMeasurement]()
            for planned in sequence:
                draw_all([planned], private=tables[secret], live=live, entropy=entropy, law=LAPLACE)
                number = planned.refines
                newest = live._found[-1 if number is None else number]
                released.append(newest)
            for i, rule in enumerate(rules):
                guessed = rule(released, *tables)
                made[i] += guessed is not None
                right[i] += guessed == secret
    return max(Guesses(*pair).epsilon_at_least for pair in zip(made, right, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", SEQUENCES)
def test_what_is_drawn_tells_no_more_than_was_charged(name: str) -> None:
    assert inferred(SEQUENCES[name], "none") <= LIMIT_NANO / NANO


@pytest.mark.slow
@pytest.mark.parametrize("name", SEQUENCES)
def test_noise_a_fifth_too_small_is_caught(name: str) -> None:
    """Negative control: it realises 1.25 times the epsilon that was charged."""
    assert inferred(SEQUENCES[name], "too little noise") > LIMIT_NANO / NANO


@pytest.mark.slow
@pytest.mark.parametrize("name", ["refinements", "row and table"])
def test_new_noise_in_place_of_refined_noise_is_caught(name: str) -> None:
    """Negative control: several answers then tell more than the last of them."""
    assert inferred(SEQUENCES[name], "refined afresh") > LIMIT_NANO / NANO


@pytest.mark.slow
def test_whole_spends_tell_no_more_than_the_ledger_says(
    tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On fresh deployments: a row, a table on it, the table raised, the row raised from its cell.

    So few of them do not tell a fifth too little noise; that hardly any noise is told shows that
    the audit looks at what was released.
    """
    little = replace(SCENARIOS["table"], limit_nano=LIMIT_NANO // 5)
    monkeypatch.setattr(scenarios, "SCENARIOS", {"little": little})
    monkeypatch.setattr(scenarios, "TOO_SMALL", Fraction(1, 40))
    site = Site.open(tmp_path, store_url)
    found = audit(site, "little", n_runs=N_DEPLOYMENTS, seed=SEED)
    assert found.is_kept
    assert found.ledger == little.limit_nano / NANO
    fault = "too little noise"
    assert not audit(site, "little", n_runs=N_DEPLOYMENTS, seed=SEED, fault=fault).is_kept


@pytest.mark.slow
@pytest.mark.parametrize(("n", "n_right"), [(60, 60), (500, 440), (2000, 1700)])
def test_the_lower_bound_is_the_epsilon_that_makes_so_many_right_guesses_just_too_rare(
    n: int, n_right: int
) -> None:
    """The chance of as many or more, summed term by term in exact integers."""
    share = Fraction(1 / (1 + exp(-Guesses(n, n_right).epsilon_at_least))).limit_denominator(10**6)
    chance = sum(comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(n_right, n + 1))
    assert float(chance) == pytest.approx(ERROR, rel=1e-2)
