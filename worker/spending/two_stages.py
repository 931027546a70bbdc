"""Draw a plan of two stages: look at a secret sample, decide, measure all records.

The sample, its counts and its noisy counts live in one call. Only the alphas of the final tables
leave it, and these are released. The charge of both stages was reserved before, for any decision:
the alphas must not add up to more than the plan says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from qserver.answering.models.kinds.kind import SampledKind, divided_nano
from qserver.answering.models.kinds.marginal_tables import marginal_partition
from qserver.errors import MeasurementError
from qserver.query.domain import Domain
from qserver.query.question import ModelAsked
from qserver.records.plan import PlannedTable
from qserver.records.privacy.noise_law import LAPLACE
from qserver.storage.encoding.queued_requests import Reservation
from worker.journal.sections import Drawn
from worker.noise.randomness import Entropy
from worker.private.record_tables import Tables
from worker.spending.answers_in_force import Live
from worker.spending.measure import draw_all, draw_table


@runtime_checkable
class SampledTables(Tables, Protocol):
    """Private data that give samples."""

    def sample(self, entropy: Entropy) -> Tables:
        """Each record with a probability of at most a tenth, independently; private as the data."""
        ...


def first_tables(reservation: Reservation, domain: Domain) -> list[PlannedTable]:
    """The tables of the sample, never released; an empty list for a plan of one stage."""
    sampled, asked = reservation.sampled, reservation.request.asked
    if sampled is None or not isinstance(asked, ModelAsked):
        return []
    stages = _kind(asked).stages(asked.specification, domain)
    if stages is None:
        raise MeasurementError
    step = reservation.tables[0].step
    return [
        PlannedTable(marginal_partition(domain.sizes, axes), sampled.first_alpha_nano, step)
        for axes in stages.first
    ]


def draw_in_two_stages(
    reservation: Reservation, *, domain: Domain, private: Tables, live: Live, entropy: Entropy
) -> Drawn:
    """The released indices of the final tables, at alphas decided by the sample's noisy tables.

    Args:
        live: the measurements in force; the new ones are added.

    Raises:
        MeasurementError: the plan has one stage, a sample cannot be drawn, or the decision passes
            the reservation.
    """
    if not isinstance(private, SampledTables):
        raise MeasurementError
    sample = private.sample(entropy)
    noisy = [
        np.array(draw_table(sample.counts(table.partition), table, {}, entropy=entropy), float)
        * float(table.step)
        for table in first_tables(reservation, domain)
    ]
    # Everything below follows from noisy counts.
    final = decided(reservation, domain, noisy)
    # The cost of a sample is proven for this noise.
    return Drawn(
        final,
        draw_all(final.planned, private=private, live=live, entropy=entropy, law=LAPLACE),
    )


def decided(
    reservation: Reservation, domain: Domain, noisy: Sequence[NDArray[np.float64]]
) -> Reservation:
    """The reservation with the alphas decided by a sample's noisy tables.

    Raises:
        MeasurementError: the plan has one stage, or the decision passes the reservation, or it has
            parts that the charges do not cover.
    """
    sampled, asked = reservation.sampled, reservation.request.asked
    if sampled is None or not isinstance(asked, ModelAsked):
        raise MeasurementError
    shares = _kind(asked).shares(asked.specification, domain, noisy)
    rises = divided_nano(sampled.alpha_nano, shares)
    if len(rises) != len(reservation.tables) or sum(rises) > sampled.alpha_nano:
        raise MeasurementError
    if reservation.rows or any(table.sources for table in reservation.tables):
        # The charge covers whole tables only.
        raise MeasurementError
    tables = tuple(
        replace(table, alpha_nano=table.old_alpha_nano + rise)
        for table, rise in zip(reservation.tables, rises, strict=True)
    )
    return replace(reservation, tables=tables)


def _kind(asked: ModelAsked) -> SampledKind:
    # Planning has loaded it: nothing loads while a slot runs.
    from qserver.answering.models.kinds.registry import kind_of

    found = kind_of(asked.kind)
    if not isinstance(found, SampledKind):
        raise MeasurementError
    return found
