"""Own ledgers against their losses by definition: rows and tables, shared out among payers."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil

from hypothesis import example, given, settings
from hypothesis import strategies as st

from qserver.charge import AnyCharge
from qserver.domain import Attribute, Domain
from qserver.own_ledger import ChargeEntry, OwnLedger
from qserver.storage.records import DatasetMeta, charge_json
from tests.planning.losses_by_definition import WAYS, Setting, limits
from tests.planning.table_losses_by_definition import greatest_loss, random_dues

PAYERS = ("ann", "ben", "cyn")
N_CHARGES = 9
# A loss is rounded up to a unit, 1/4096 nano-epsilon, for each of its payments.
ROUNDING = Fraction(2 * N_CHARGES, 4096)


def meta_of(setting: Setting) -> DatasetMeta:
    attributes = tuple(
        Attribute(f"a{i}", "labels", labels=tuple(map(str, range(n))))
        for i, n in enumerate(setting.sizes)
    )
    return DatasetMeta(
        name="d",
        population="p",
        snapshot="s",
        domain=Domain(attributes),
        relation=setting.relation,  # type: ignore[arg-type]
        records_per_person=setting.records_per_person,
        records_verified=True,
    )


def entry_of(charge: AnyCharge, *, job: int, by: str) -> ChargeEntry:
    plain = json.loads(charge_json(charge, snapshot="s", at=job))
    return ChargeEntry.of(json.dumps({**plain, "job": str(job), "by": by}))


@given(
    seed=st.integers(0, 2**32),
    way=st.sampled_from(list(WAYS)),
    n_payers=st.integers(1, len(PAYERS)),
)
@example(seed=96, way="shifted", n_payers=1)
@example(seed=19870, way="shifted", n_payers=1)
@settings(max_examples=60, deadline=None)
def test_an_own_ledger_is_the_greatest_loss_of_what_its_account_paid(
    seed: int, way: str, n_payers: int
) -> None:
    """A table's cells pay less where rows paid before, be they rows that somebody else paid."""
    setting, charges, _ = random_dues(seed, N_CHARGES)
    setting = replace(setting, null_cell=True)
    rng = random.Random(seed)
    jobs: list[list[AnyCharge]] = []
    while charges:
        jobs.append([charges.pop(0) for _ in range(min(len(charges), rng.randint(1, 3)))])
    payers = [rng.choice(PAYERS[:n_payers]) for _ in jobs]
    with limits(**WAYS[way]):
        for payer in PAYERS[:n_payers]:
            own_jobs = [job for job, by in enumerate(payers) if by == payer]
            check_own_ledger(setting, {job: jobs[job] for job in own_jobs}, payer, way)


def check_own_ledger(
    setting: Setting, jobs: Mapping[int, Sequence[AnyCharge]], payer: str, way: str
) -> None:
    """Job by job: what was foretold is what is spent, and it covers the greatest loss."""
    ledger, paid = OwnLedger({"s": meta_of(setting)}), []
    for job, charges in jobs.items():
        after = ledger.spent_after("s", charges)
        ledger.extend([entry_of(charge, job=job, by=payer) for charge in charges])
        paid += charges
        greatest = greatest_loss(paid, setting)
        assert after == ledger.spent_nano >= ceil(greatest)
        if setting.relation == "add-remove" and way != "shifted":
            assert ledger.spent_nano <= ceil(greatest + ROUNDING)
    assert [mark.at for mark in ledger.marks] == list(jobs)
    assert ledger.n_charges == len(paid)
