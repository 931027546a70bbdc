"""Own ledgers against their losses by definition: rows and tables, shared out among payers."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from qserver.errors import AllowanceExhaustedError
from qserver.ledger.account_ledger import (
    ChargeEntry,
    OwnLedger,
    OwnSpend,
    check_allowance,
    entries_of,
)
from qserver.query.domain import Attribute, Domain
from qserver.records.account import Allowance
from qserver.records.charge import NANO, AnyCharge, Charge, charge_json
from qserver.records.dataset import DatasetMeta
from tests.ledger.losses_by_definition import WAYS, Setting, limits
from tests.ledger.table_losses_by_definition import greatest_loss, random_dues
from tests.planning.test_search import WIDE, a_row
from tests.sweeps import examples

pytestmark = [
    pytest.mark.promise(
        "Accounts",
        "allowances and paces hold for the own ledger, by brute force; what only a loose bound "
        "refuses is decided by a search",
    ),
]

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
        relation=setting.relation,
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
@settings(max_examples=examples(60))
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
        own = [entry_of(charge, job=job, by=payer) for charge in charges]
        ledger.extend([replace(entry, own_nano=after.share_nano) for entry in own])
        paid += charges
        greatest = greatest_loss(paid, setting)
        assert after.spent_nano == ledger.spent_nano >= ceil(greatest)
        if setting.relation == "add-remove" and way != "shifted":
            assert ledger.spent_nano <= ceil(greatest + ROUNDING)
    assert [mark.at for mark in ledger.marks] == list(jobs)
    assert ledger.n_charges == len(paid)


def test_an_allowance_that_only_the_quick_bound_passes_is_proven_to_hold() -> None:
    """60 counts on 10^18 cells: the search shows less, and the charge that was let pass says so.

    Read again from the log the ledger comes to the proven figure, not to the quick one.
    """
    rng = random.Random(3)
    rows = [a_row(rng, WIDE, rng.randint(2, 3)) for _ in range(61)]
    charges = [Charge(row, rng.randrange(1, NANO), "j") for row in rows[:-1]]
    charges.append(Charge(rows[-1], NANO, "j"))
    meta = wide_meta()
    entries = [entry_of(c, job=i, by="ann") for i, c in enumerate(charges)]
    # All at once: the quick figure of one by one has slack that no search can take away.
    first = OwnLedger({"s": meta})
    first.extend(replace(entry, job="0") for entry in entries[:-1])
    last = charges[-1:]
    found = first.spent_after("s", last)
    assert found == OwnSpend(found.share_nano, found.share_nano)
    proven = found.spent_nano
    assert first.spent_nano <= proven < first.by_snapshot["s"].spent_after(last)
    allowance = Allowance(limit_nano=proven)
    check_allowance(first, allowance, spent_after_nano=proven, at=0)
    first.extend([replace(entries[-1], own_nano=found.share_nano)])
    assert first.spent_nano == proven
    with pytest.raises(AllowanceExhaustedError):
        check_allowance(first, allowance, spent_after_nano=proven + 1, at=0)


def test_what_is_proven_of_a_payer_is_not_taken_for_what_all_have_spent() -> None:
    """Ann's proven share is less than both have spent, and says nothing of the group's ledger."""
    row, meta = a_row(random.Random(3), WIDE, 2), wide_meta()
    names = ("team/ann", "team/ben")
    entries = [
        replace(entry_of(Charge(row, NANO, "j"), job=i, by=by), own_nano=NANO)
        for i, by in enumerate(names)
    ]
    one, both = OwnLedger({"s": meta}), OwnLedger({"s": meta})
    one.extend(entries_of("team/ann", entries))
    both.extend(replace(entry, own_nano=None) for entry in entries)
    for whose in ("team/", None):
        ledger = OwnLedger({"s": meta})
        ledger.extend(entries_of(whose, entries))
        assert ledger.spent_nano == both.spent_nano > one.spent_nano
    proven = [replace(entry, group_nano=both.spent_nano) for entry in entries[1:]]
    assert [entry.own_nano for entry in entries_of("team/", proven)] == [both.spent_nano]


def wide_meta() -> DatasetMeta:
    attributes = tuple(
        Attribute(f"a{i}", "labels", labels=tuple(map(str, range(n)))) for i, n in enumerate(WIDE)
    )
    return DatasetMeta(
        name="d",
        population="p",
        snapshot="s",
        domain=Domain(attributes),
        relation="add-remove",
        records_per_person=1,
        records_verified=True,
    )
