"""A spend on placeholders: the whole answer is built once before anything is charged.

The code that later publishes and answers runs first on a copy of the state, with placeholders
instead of drawn answers. So a plan that gives no answer is never charged. All of it is public: the
plan, the released history, and placeholders that follow from these. No private data are read, and
no noise is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np

from qserver.answering.replica import Replica
from qserver.errors import InputError
from qserver.query.domain import Domain
from qserver.records.charge import NANO, charge_from_json, charge_json
from qserver.records.plan import PlannedRow, PlannedTable
from qserver.storage.encoding.jobs import answer_from_json, answer_json, measurement_json
from qserver.storage.encoding.requests import Reservation
from qserver.storage.queue import Outcome
from worker.journal.sections import Drawn
from worker.spending.group.answers import next_request
from worker.spending.live import Live, Origin
from worker.spending.measure import in_turn
from worker.spending.reservation import answer_spent, charges_of
from worker.spending.two_stages import decided, first_tables


@dataclass(frozen=True)
class Rehearsed:
    """What came of a spend on placeholders.

    Args:
        outcome: of the job.
        after: the replica then, for the plans that follow. They depend on rows and alphas, never
            on answers.
    """

    outcome: Outcome
    after: Replica


def rehearse(reservation: Reservation, replica: Replica) -> Rehearsed:
    """The outcome of a job if placeholders were drawn; `replica` stays as it is.

    Args:
        reservation: not made yet, of a plan on the replica's present state.

    Raises:
        Exception: any fault that would come up after the charge.
    """
    # A worker that takes over reads all of this back.
    reservation = Reservation.from_json(reservation.to_json())
    _check_charges(reservation, replica)
    drawn = _made_up(reservation, replica)
    drawn = Drawn.of_journal(drawn.reservation, drawn.to_journal())
    events = [
        measurement_json(planned, found, reservation.job)
        for planned, found in zip(drawn.reservation.planned, drawn.indices, strict=True)
    ]
    after = replica.tried(events)
    found = answer_spent(after, drawn.reservation)
    text = answer_json(found.answer)
    answer_from_json(text)
    more = next_request(after, drawn.reservation, found.answer)
    refines, kept = "" if more is None else more.to_json(), found.estimators
    outcome = Outcome("done", text, replica.meta.snapshot, after.n_events, 0, kept, refines)
    return Rehearsed(Outcome.from_json(outcome.to_json()), after)


def _check_charges(reservation: Reservation, replica: Replica) -> None:
    """Read the ledger's lines back, as every reader will."""
    snapshot, sizes = replica.meta.snapshot, replica.meta.domain.sizes
    for charge in charges_of(reservation):
        text = charge_json(charge, snapshot=snapshot, at=0)
        if charge_from_json(text, snapshot=snapshot, sizes=sizes) != charge:
            raise InputError("charge", "be read back as it was written")


def _made_up(reservation: Reservation, replica: Replica) -> Drawn:
    """The draw with placeholders; in a plan of two stages, of both."""
    source, live = Placeholders(), Live(replica.measurements)
    if reservation.sampled is not None:
        reservation = _decided(reservation, replica.meta.domain)
    return Drawn(reservation, in_turn(reservation.planned, source=source, live=live))


def _decided(reservation: Reservation, domain: Domain) -> Reservation:
    noisy = [
        np.array(Placeholders().of_table(table, {}), float) * float(table.step)
        for table in first_tables(reservation, domain)
    ]
    return decided(reservation, domain, noisy)


@dataclass(frozen=True)
class Placeholders:
    """Answers one noise scale away from zero, or from the answer that they continue from."""

    def of_row(self, row: PlannedRow, origin: Origin | None) -> int:
        """A row's placeholder.

        Raises:
            InputError: no noise could be drawn for it on any data.
        """
        if row.row.is_zero or (Fraction(1, row.row.denominator) / row.step).denominator != 1:
            raise InputError("step", "divide the row's unit", row.step)
        return _placeholder(row, origin)

    def of_table(self, table: PlannedTable, origins: Mapping[int, Origin]) -> tuple[int, ...]:
        """The placeholders of a table's cells."""
        if (1 / table.step).denominator != 1:
            raise InputError("step", "divide 1", table.step)
        alone = _placeholder(table, None)
        found = [alone] * table.partition.n_cells
        for cell, origin in origins.items():
            found[cell] = _placeholder(table, origin)
        return tuple(found)


def _placeholder(planned: PlannedRow | PlannedTable, origin: Origin | None) -> int:
    if planned.alpha_nano <= 0:
        raise InputError("alpha_nano", "be > 0", planned.alpha_nano)
    if origin is not None and origin.alpha_nano >= planned.alpha_nano:
        return origin.index
    scale = ceil(Fraction(NANO, planned.alpha_nano) / planned.step)
    return scale + (0 if origin is None else origin.index)
