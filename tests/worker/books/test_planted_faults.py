"""Faults planted in ledger, planner and worker: the books catch each within a few histories."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import qserver.ledger.cell_ledger as ledger
from qserver.errors import MeasurementError
from qserver.ledger.cell_ledger import CellLedger
from qserver.ledger.composition import Flat, dues
from qserver.ledger.one_person import ByPeriod, Neighbours
from qserver.ledger.population import PopulationLoss, pair
from qserver.records.charge import AnyCharge, OpaqueCharge, TableCharge
from qserver.records.plan import CellSource, PlannedRow, PlannedTable
from tests.worker.books import histories
from tests.worker.books.campaign import play
from tests.worker.books.histories import Numbering, Town
from worker.books.journal_lines import BookFaultError
from worker.spending.answers_in_force import Live, Origin

pytestmark = [
    pytest.mark.promise(
        "Privacy",
        "a second accountant, which shares no code with the ledger, finds each person's exact "
        "loss in the journal, and nothing is charged that it does not agree with",
    ),
]

N_HISTORIES = 40
Patch = pytest.MonkeyPatch
Fault = Callable[[Patch], None]


def forget_records_per_person(patch: Patch) -> None:
    def without_k(charges: Sequence[AnyCharge], *, records_per_person: int, **more: Any) -> Any:
        return dues(charges, records_per_person=1, **more)

    patch.setattr(ledger, "dues", without_k)


def forget_tables(patch: Patch) -> None:
    patch.setattr(Flat, "cell_nano", property(lambda flat: flat.totals_nano + flat.opaque_nano))


def forget_samples(patch: Patch) -> None:
    patch.setattr(Flat, "cell_nano", property(lambda flat: flat.totals_nano + flat.tables_nano))


def forget_pairs_of_cells(patch: Patch) -> None:
    patch.setattr(CellLedger, "_has_pairs", property(lambda _ledger: False))


def charge_tables_of_a_pair_once(patch: Patch) -> None:
    def greatest(self: CellLedger, cells: int, pairs: int, flat: Flat) -> int:
        alone = ledger._nano(cells) + flat.cell_nano
        return max(alone, ledger._nano(pairs) + flat.cell_nano) if self._has_pairs else alone

    patch.setattr(CellLedger, "_greatest_nano", greatest)


def forget_the_null_cell(patch: Patch) -> None:
    real = Neighbours.__init__

    def without(self: Neighbours, relation: Any, k: int, null_cell: bool, *more: Any) -> None:
        real(self, relation, k, relation == "add-remove" and null_cell, *more)

    patch.setattr(Neighbours, "__init__", without)


def forget_records_of_other_periods(patch: Patch) -> None:
    def greatest(by: ByPeriod, amounts: Any, n_records: int) -> int:
        return int(max(amounts)) * min(by.most, n_records)

    patch.setattr(ByPeriod, "greatest", greatest)
    # Its own check of recorded figures must not see it first.
    patch.setattr(CellLedger, "_certain_nano", None)


def round_down(patch: Patch) -> None:
    real = CellLedger.spent_after
    patch.setattr(CellLedger, "spent_after", lambda self, charges: real(self, charges) - 1)
    patch.setattr(CellLedger, "spent_nano", property(lambda self: _less(self)))


def _less(self: CellLedger) -> int:
    self._take_in()
    return max(0, self._spent_nano - 1)


def refund_too_much(patch: Patch) -> None:
    real = TableCharge.__init__

    def more(self: TableCharge, partition: Any, alpha_nano: int, paid: Any, job: str) -> None:
        paid = tuple((cell, alpha_nano) for cell in range(partition.n_cells))
        real(self, partition, alpha_nano, paid or (), job)

    patch.setattr(TableCharge, "__init__", more)


def hand_disjointness_on(patch: Patch) -> None:
    real = PopulationLoss.__init__

    def closed(self: PopulationLoss, shares: Any, pairs: Any) -> None:
        found = set(pairs)
        for a, b in pairs:
            for c, d in pairs:
                found |= {pair(x, y) for x in (a, b) for y in (c, d) if x != y}
        real(self, shares, frozenset(found))

    patch.setattr(PopulationLoss, "__init__", closed)


def forget_other_files(patch: Patch) -> None:
    patch.setattr(PopulationLoss, "spent_nano", property(lambda p: max(p.shares.values())))


def price_a_sample_by_half(patch: Patch) -> None:
    real = histories._sample_charge
    patch.setattr(histories, "_sample_charge", lambda x, people: real(x, people) // 2 + 1)


def price_tables_of_two_stages_too_low(patch: Patch) -> None:
    real = Town.learn

    def learn(self: Town, one: Any) -> Any:
        found = real(self, one)
        table = found.planned[0]
        more = table.old_alpha_nano + 10 * found.plan["sampled"]["alpha_nano"] + 10**9
        return replace(found, planned=(replace(table, alpha_nano=more),))

    patch.setattr(Town, "learn", learn)


def say_that_a_row_paid_more(patch: Patch) -> None:
    _without_checks(patch)
    real = Town._row

    def row(self: Town, one: Any) -> PlannedRow:
        found = real(self, one)
        if found.old_alpha_nano < 2:
            return found
        return replace(found, old_alpha_nano=found.alpha_nano - 1)

    patch.setattr(Town, "_row", row)


def say_that_sources_paid_more(patch: Patch) -> None:
    _without_checks(patch)
    real = Town._sources

    def sources(self: Town, one: Any, table: PlannedTable) -> tuple[CellSource, ...]:
        found = real(self, one, table)
        return tuple(dataclasses.replace(s, alpha_nano=s.alpha_nano + 10**6) for s in found)

    patch.setattr(Town, "_sources", sources)


def draw_twins(patch: Patch) -> None:
    """Two rows of one plan go on from one answer, as before they were held to each other."""
    _without_checks(patch)
    real = Town._row

    def row(self: Town, one: Any) -> PlannedRow:
        state = self.random.getstate()
        found = real(self, one)
        self.random.setstate(state)
        return found

    patch.setattr(Town, "_row", row)


def refine_what_was_refined(patch: Patch) -> None:
    """The worker's copy of the history keeps the old answers of what was refined."""
    real = Town.finish

    def finish(self: Town, one: Any, bought: Any, *, burns: bool = False) -> None:
        before = list(one.found)
        real(self, one, bought, burns=burns)
        one.found[: len(before)] = before

    patch.setattr(Town, "finish", finish)


def release_another_answer_once_more(patch: Patch) -> None:
    real = Numbering._draw

    def draw(self: Numbering, vector: Any, origin: Origin | None, alpha: int) -> int:
        found = real(self, vector, origin, alpha)
        again = origin is not None and origin.alpha_nano >= alpha
        return found + 1_000_000 if again else found

    patch.setattr(Numbering, "_draw", draw)


def raise_the_limit_in_the_store(patch: Patch) -> None:
    """The journal has a limit that the ledger does not keep."""
    patch.setattr(histories, "LIMIT", 50 * 10**6)


def lower_a_share(patch: Patch) -> None:
    real = Town.priced

    def priced(self: Town, one: Any, charges: Sequence[AnyCharge], **parts: Any) -> Any:
        plan = real(self, one, charges, **parts)
        plan["after"]["share_nano"] //= 2
        return plan

    patch.setattr(Town, "priced", priced)


def forget_opaque_charges(patch: Patch) -> None:
    real = CellLedger.append

    def append(self: CellLedger, charge: AnyCharge) -> None:
        if not isinstance(charge, OpaqueCharge):
            real(self, charge)

    patch.setattr(CellLedger, "append", append)
    patch.setattr(CellLedger, "cap", lambda self, _spent: None)


def _without_checks(patch: Patch) -> None:
    patch.setattr(Live, "check", lambda _self, _planned: None)


FAULTS: Sequence[Fault] = [
    forget_records_per_person,
    forget_tables,
    forget_samples,
    forget_opaque_charges,
    forget_pairs_of_cells,
    charge_tables_of_a_pair_once,
    forget_the_null_cell,
    forget_records_of_other_periods,
    round_down,
    refund_too_much,
    hand_disjointness_on,
    forget_other_files,
    price_a_sample_by_half,
    price_tables_of_two_stages_too_low,
    say_that_a_row_paid_more,
    say_that_sources_paid_more,
    draw_twins,
    refine_what_was_refined,
    release_another_answer_once_more,
    raise_the_limit_in_the_store,
    lower_a_share,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_caught(fault: Fault, tmp_path: Path, monkeypatch: Patch) -> None:
    fault(monkeypatch)
    for seed in range(N_HISTORIES):
        try:
            play(seed, tmp_path / "journal")
        except BookFaultError:
            return
        except MeasurementError:
            continue  # harmless, and the worker refused it
        except (AssertionError, KeyError):
            # The definition noticed it after the books had passed it, or they named it at the end.
            if _is_named(tmp_path / "journal"):
                return
            raise
    pytest.fail(f"none of {N_HISTORIES} histories shows it")


def _is_named(path: Path) -> bool:
    from worker.books.accountant import Accountant

    return any(not found.ok for found in Accountant(path).examine())
