"""What plans are charged by a search, against every cell and pair of small domains.

The ledger's other ways to a maximum are held down to their bounds, so that the search decides.
"""

from __future__ import annotations

import random
from dataclasses import replace
from math import ceil

import pytest

from qserver.ledger import branch_and_bound
from qserver.ledger.cell_ledger import CellLedger
from qserver.ledger.constants import LIMITS
from qserver.ledger.one_person import Neighbours
from qserver.records.charge import AnyCharge, Relation
from tests.ledger.losses_by_definition import WAYS, Setting, limits
from tests.ledger.table_losses_by_definition import greatest_loss, random_dues

N_SEEDS = 40
SEARCHED = {**WAYS, "outgrown": {"dense": 8, "eliminated": 1}}
"""Also from a sum that is written down until it grows too large."""
ROUNDING = 2
"""Nano-epsilon that rows rounded up to 2^-12 can make over ten charges of three records."""


def jobs_of(charges: list[AnyCharge], rng: random.Random) -> list[list[AnyCharge]]:
    """The same charges as jobs of one to three."""
    left, jobs = charges[:], list[list[AnyCharge]]()
    while left:
        n = rng.randint(1, 3)
        jobs.append(left[:n])
        left = left[n:]
    return jobs


def ledger_of(setting: Setting) -> CellLedger:
    return CellLedger.like(setting.sizes, neighbours(setting))


def neighbours(setting: Setting) -> Neighbours:
    return Neighbours(setting.relation, setting.records_per_person, setting.null_cell)


def charged(ledger: CellLedger, job: list[AnyCharge]) -> int:
    """Charge a job as the worker does; what is spent then."""
    after = ledger.settled_after(job)
    ledger.extend(job)
    ledger.cap(after)
    return after


@pytest.mark.slow
@pytest.mark.parametrize("most_looks", [0, 30, LIMITS.proof_looks])
@pytest.mark.parametrize("way", SEARCHED)
def test_nobody_ever_loses_more_than_what_jobs_are_charged(
    way: str, most_looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Job by job: rows, tables, refunds, both relations; the search ends, or gives up at once."""
    n_searched = n_less = 0
    for seed in range(N_SEEDS):
        setting, charges, _ = random_dues(seed, 10)
        with limits(**SEARCHED[way]):
            ledger, quick, paid = ledger_of(setting), ledger_of(setting), list[AnyCharge]()
            with monkeypatch.context() as patch:
                few = replace(LIMITS, most_table=1 << 8, proof_group=4, proof_looks=most_looks)
                patch.setattr(branch_and_bound, "LIMITS", few)
                for job in jobs_of(charges, random.Random(seed)):
                    before, most = ledger.spent_nano, ledger.spent_after(job)
                    after = charged(ledger, job)
                    quick.extend(job)
                    paid += job
                    truth = ceil(greatest_loss(paid, setting))
                    assert before <= after <= most
                    assert after >= truth
                    n_searched += 1
                    if setting.relation == "add-remove" and most_looks > 30:
                        assert after <= truth + ROUNDING
            n_less += ledger.spent_nano < quick.spent_nano
    assert n_searched > 100
    if way == "shifted" and most_looks > 30:
        assert n_less > 0


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("seed", range(12))
def test_a_ledger_that_was_kept_and_one_that_read_all_at_once_charge_the_same(
    seed: int, relation: Relation
) -> None:
    """After a kill and a restart the recorded figure and the same price follow."""
    setting, charges, _ = random_dues(seed, 12)
    setting = replace(setting, relation=relation)
    *jobs, last = jobs_of(charges, random.Random(seed))
    with limits(**WAYS["shifted"]):
        ledger = ledger_of(setting)
        spent = [charged(ledger, job) for job in jobs][-1]
        state = ledger.state()
        kept = CellLedger.from_state(state, sizes=setting.sizes, neighbours=neighbours(setting))
        anew = ledger_of(setting)
        anew.extend([charge for job in jobs for charge in job])
        anew.cap(spent)
        assert kept.spent_nano == anew.spent_nano == spent
        price = ledger.settled_after(last)
        assert kept.settled_after(last) == price
        if relation == "add-remove":
            assert anew.settled_after(last) == price
