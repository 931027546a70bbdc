"""Networks of two stages that are refused or burnt: before anything is charged, and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from qserver.errors import (
    BudgetExhaustedError,
    InputError,
    JournalError,
    MeasurementError,
    UnanswerableError,
)
from qserver.query.class_grid import ProductPartition
from qserver.query.linear_query import LinearQuery
from qserver.query.question import ModelAsked
from qserver.records.plan import Sampled
from qserver.storage.encoding.queued_requests import Reservation
from tests.deployment import Deployment
from tests.worker.learn_models import learn
from tests.worker.spending.two_stage_learning import EDGE, charges_of, learnt, tables_of
from worker.journal.records import Released, ReleasedRow
from worker.journal.sections import Drawn
from worker.private.record_tables import Tables
from worker.spending import two_stages


@pytest.fixture
def at(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="2")


def test_what_passes_the_budget_or_is_too_little_is_refused_before_anything_is_drawn(
    at: Deployment,
) -> None:
    with pytest.raises(BudgetExhaustedError):
        learnt(at, "arxiv", 2.1)
    with pytest.raises(InputError, match="every table"):
        learnt(at, "icml", 3e-9)
    assert charges_of(at) == []
    assert at.registry.journal("town", create=False).state.last_reserved_job is None


class _Unsampled:
    """Private data of an engine that can draw no sample."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def answer(self, query: LinearQuery) -> Fraction:
        return self._tables.answer(query)

    def counts(self, partition: ProductPartition) -> list[int]:
        return self._tables.counts(partition)


def test_data_that_cannot_be_sampled_are_refused_before_anything_is_charged(
    at: Deployment,
) -> None:
    trusted = at.trusted()
    unsampled: dict[str, Tables] = {
        name: _Unsampled(tables) for name, tables in trusted.tables.items()
    }
    spender = at.spender(trusted=replace(trusted, tables=unsampled))
    with pytest.raises(MeasurementError):
        learn(at, "network", {**EDGE, "allocation": "arxiv"}, 0.5, spender=spender)
    assert charges_of(at) == []


def test_a_decision_that_passes_what_is_reserved_whatever_is_drawn_is_never_charged(
    at: Deployment,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(two_stages, "divided_nano", lambda total, shares: (total,) * len(shares))
        with pytest.raises(UnanswerableError):
            learnt(at, "arxiv", 0.5)
    assert charges_of(at) == []


def test_a_decision_that_passes_what_is_reserved_is_burnt(at: Deployment) -> None:
    """One that the rehearsal could not foresee."""
    calls = []

    def divided(total: int, shares: Sequence[float]) -> tuple[int, ...]:
        calls.append(shares)
        return (total if len(calls) > 1 else 1,) * len(shares)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(two_stages, "divided_nano", divided)
        with pytest.raises(MeasurementError):
            learnt(at, "arxiv", 0.5)
    assert len(charges_of(at)) == 2
    assert tables_of(at) == []
    journal = at.registry.journal("town", create=False)
    assert not journal.state.open_jobs
    job = journal.state.last_reserved_job
    assert job is not None
    assert journal.state.ledger_version == 1
    assert job in journal.state.burnt


def test_a_journal_without_the_alphas_that_were_decided_publishes_nothing(at: Deployment) -> None:
    found = learnt(at, "arxiv", 0.5)
    reservation = at.writer().reservation("town", found.id)
    assert reservation is not None
    assert reservation == Reservation.from_json(reservation.to_json())
    assert isinstance(reservation.request.asked, ModelAsked)
    rows = tuple(ReleasedRow(t.key, (1,) * t.partition.n_cells) for t in reservation.tables)
    with pytest.raises(JournalError, match="lacks the alphas"):
        Drawn.of_journal(reservation, Released(found.id, rows))


def test_two_stages_are_checked_when_built() -> None:
    good = Sampled(1, 2, 3, 3)
    assert [charge.epsilon_nano for charge in good.charges("j")] == [2, 3]
    for name in ("first_alpha_nano", "sample_nano", "alpha_nano", "tables_nano"):
        with pytest.raises(InputError):
            replace(good, **{name: 0})
    with pytest.raises(InputError, match="tables_nano"):
        Sampled(1, 2, 3, 2)
