"""Own ledgers against their losses by definition: rows and tables, shared out among payers."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from fractions import Fraction
from math import ceil

from hypothesis import given, settings
from hypothesis import strategies as st

from qserver.charge import AnyCharge
from qserver.domain import Attribute, Domain
from qserver.own_ledger import ChargeEntry, OwnLedger
from qserver.storage.records import DatasetMeta, charge_json
from tests.planning.losses_by_definition import Setting
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


@given(seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_an_own_ledger_is_the_greatest_loss_of_what_its_account_paid(seed: int) -> None:
    """A table's cells pay less where rows paid before, be they rows that somebody else paid."""
    setting, charges, _ = random_dues(seed, N_CHARGES)
    setting = replace(setting, null_cell=True)
    rng = random.Random(seed)
    payers = [rng.choice(PAYERS) for _ in charges]
    for payer in PAYERS:
        ledger, paid = OwnLedger({"s": meta_of(setting)}), []
        for job, (charge, by) in enumerate(zip(charges, payers, strict=True)):
            if by != payer:
                continue
            after = ledger.spent_after("s", [charge])
            ledger.extend([entry_of(charge, job=job, by=by)])
            paid.append(charge)
            greatest = greatest_loss(paid, setting)
            assert after == ledger.spent_nano >= ceil(greatest)
            if setting.relation == "add-remove":
                assert ledger.spent_nano <= ceil(greatest + ROUNDING)
        assert [mark.at for mark in ledger.marks] == [
            j for j, by in enumerate(payers) if by == payer
        ]
