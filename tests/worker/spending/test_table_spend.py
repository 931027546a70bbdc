"""Spends of tables, end to end: new, raised, continued from rows, and rows continued from cells."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from qserver.errors import StaleVersionError
from qserver.query.class_grid import ProductPartition
from qserver.query.linear_query import LinearQuery
from qserver.query.primitive import primitive
from qserver.records.history import Measurement, TableMeasurement
from qserver.records.plan import CellSource, PlannedRow, PlannedTable, TableCell
from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient
from tests.deployment import Deployment
from tests.statistical.test_noise import SeededEntropy
from tests.worker.by_hand import (
    ALPHA,
    BY_BOTH,
    BY_SEX,
    COUNTS,
    LABELS,
    LIMIT_NANO,
    STEP,
    ByHand,
    changes,
    live,
    sex_row,
    spent_nano,
)
from tests.worker.crashes import STEPS, Crash, crashing
from worker.noise.mechanism import release_refined
from worker.private.record_tables import Tables
from worker.spending import measure as measuring

NEW = PlannedTable(BY_SEX, ALPHA, STEP)


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit=str(LIMIT_NANO // 10**9))


@pytest.fixture
def by_hand(town: Deployment, monkeypatch: pytest.MonkeyPatch) -> ByHand:
    """A town that has answered one question already: row 0, the count of men."""
    town.ask({"sex": "Male"})
    assert [m.id for m in live(town)] == [0]
    assert sex_row(town, "Male").step == STEP
    return ByHand(town, monkeypatch)


def table_of(town: Deployment, number: int = 1) -> TableMeasurement:
    found = live(town)[number]
    assert isinstance(found, TableMeasurement)
    return found


def charge_lines(town: Deployment) -> list[tuple[str, int]]:
    """Key and nano-epsilon of every charge in the journal."""
    journal = town.registry.journal("town", create=False)
    return [(c.scope, c.nano) for r in journal.state.reserved.values() for c in r.charges]


@pytest.mark.slow
def test_a_new_table_is_charged_once_for_all_its_cells(town: Deployment, by_hand: ByHand) -> None:
    row = sex_row(town, "Male")
    status = by_hand.spend(PlannedTable(BY_BOTH, ALPHA, STEP))
    assert status.result is not None
    table = table_of(town)
    assert (table.partition, table.alpha_nano, table.step) == (BY_BOTH, ALPHA, STEP)
    # 60 / alpha is far beyond any noise of 9 cells.
    assert abs(float(table.values.sum()) - sum(COUNTS)) < 60
    assert status.result.charged_nano == ALPHA
    assert status.result.source == "measured"
    assert spent_nano(town) == row.alpha_nano + ALPHA
    assert charge_lines(town) == [(row.key, row.alpha_nano), (BY_BOTH.key, ALPHA)]
    journal = town.registry.journal("town", create=False)
    released = journal.state.released.get(status.id)
    assert released is not None
    assert [(r.row, r.indices) for r in released.rows] == [(BY_BOTH.key, table.indices)]
    stored = json.loads(changes(town).charges[-1])
    assert (stored["table"], stored["alpha"], stored["paid"]) == (BY_BOTH.to_document(), ALPHA, [])
    assert [q.price_nano for q in changes(town).paid][-1:] == [ALPHA]


def test_a_raised_table_keeps_its_id_and_is_charged_the_rise(
    town: Deployment, by_hand: ByHand
) -> None:
    by_hand.spend(PlannedTable(BY_BOTH, ALPHA, STEP))
    before = spent_nano(town)
    old = table_of(town)
    raised = PlannedTable(BY_BOTH, 3 * ALPHA, STEP, 1, ALPHA)
    status = by_hand.spend(raised)
    assert status.result is not None
    assert (status.result.source, status.result.charged_nano) == ("refined", 2 * ALPHA)
    assert spent_nano(town) == before + 2 * ALPHA
    assert charge_lines(town)[-1] == (BY_BOTH.key, 2 * ALPHA)
    new = table_of(town)
    assert (new.id, new.step, new.alpha_nano) == (old.id, old.step, 3 * ALPHA)
    assert new.indices != old.indices
    assert len(live(town)) == 2


def test_cells_pay_only_what_their_own_rows_have_not_paid(
    town: Deployment, by_hand: ByHand
) -> None:
    """The men's row has paid part: the table brings the spent budget to its own alpha."""
    row = sex_row(town, "Male")
    source = CellSource(1, row.id, row.alpha_nano)
    assert row.alpha_nano < ALPHA
    status = by_hand.spend(replace(NEW, sources=(source,)))
    assert status.result is not None
    assert spent_nano(town) == ALPHA
    assert json.loads(changes(town).charges[-1])["paid"] == [[1, row.alpha_nano]]


def test_a_cell_whose_row_has_less_noise_takes_its_answer_over(
    town: Deployment, by_hand: ByHand
) -> None:
    """Also where that is every cell: nothing is drawn, nothing more is spent."""
    for label in ("Female", "other"):
        town.ask({"sex": label})
    rows = [sex_row(town, label) for label in LABELS]
    alpha = min(r.alpha_nano for r in rows) - 1
    before = spent_nano(town)
    sources = tuple(CellSource(c, r.id, r.alpha_nano) for c, r in enumerate(rows))
    status = by_hand.spend(PlannedTable(BY_SEX, alpha, STEP, sources=sources))
    assert status.result is not None
    assert table_of(town, 3).indices == tuple(r.index for r in rows)
    assert (status.result.charged_nano, spent_nano(town)) == (0, before)
    # The table then goes on from the rows that were measured more precisely.
    raised = PlannedTable(BY_SEX, ALPHA, STEP, 3, alpha, sources)
    assert by_hand.spend(raised).result is not None
    assert spent_nano(town) == ALPHA


@pytest.mark.parametrize("label", ["Male", "Female"], ids=["measured before", "new"])
def test_a_row_continues_from_its_cell_and_pays_the_difference(
    town: Deployment, by_hand: ByHand, monkeypatch: pytest.MonkeyPatch, label: str
) -> None:
    own = sex_row(town, "Male")
    source = CellSource(1, own.id, own.alpha_nano)
    by_hand.spend(replace(NEW, sources=(source,)))
    cell = LABELS.index(label)
    query = BY_SEX.row(cell)
    refines = own.id if label == "Male" else None
    origins: list[int] = []
    refined = release_refined

    def noting(*args: Any, **kwargs: Any) -> list[int]:
        origins.extend(kwargs["released"])
        return refined(*args, **kwargs)

    monkeypatch.setattr(measuring, "release_refined", noting)
    old = TableCell(1, cell)
    key = primitive(query).key
    row = PlannedRow(query, key, 2 * ALPHA, STEP, refines, ALPHA, old)
    status = by_hand.spend(rows=(row,), label=label)
    assert status.result is not None
    assert status.result.source == "refined"
    assert origins == [table_of(town).indices[cell]]
    assert spent_nano(town) == 2 * ALPHA
    assert sex_row(town, label).alpha_nano == 2 * ALPHA
    assert len(live(town)) == (2 if label == "Male" else 3)


def test_a_plan_on_anything_but_what_is_in_force_is_refused_before_it_is_charged(
    town: Deployment, by_hand: ByHand
) -> None:
    row = sex_row(town, "Male")
    by_hand.spend(NEW)
    before, lines = spent_nano(town), charge_lines(town)
    raised = PlannedTable(BY_SEX, 3 * ALPHA, STEP, 1, ALPHA)
    from_cell = PlannedRow(row.row, row.key, 3 * ALPHA, STEP, 0, ALPHA, TableCell(1, 1))
    job = by_hand.submit()
    for table in (
        replace(raised, old_alpha_nano=ALPHA - 1),
        replace(raised, refines=0),
        replace(raised, step=STEP / 2),
        replace(raised, sources=(CellSource(1, 0, ALPHA + 1),)),
        NEW,
    ):
        with pytest.raises(StaleVersionError):
            by_hand.work_off(table)
    for stale in (
        replace(from_cell, old_alpha_nano=ALPHA - 1),
        replace(from_cell, cell=TableCell(1, 0)),
        replace(from_cell, step=Fraction(1)),
    ):
        with pytest.raises(StaleVersionError):
            by_hand.work_off(rows=(stale,))
    assert (spent_nano(town), charge_lines(town)) == (before, lines)
    assert town.writer().reservation("town", job) is None
    by_hand.work_off(raised)
    assert town.service().job(job).state == "done"


class Exploding:
    """Private tables that answer rows but fail to count cells, with a message that tells."""

    def answer(self, query: LinearQuery) -> Fraction:
        return Fraction(0)

    def counts(self, partition: ProductPartition) -> list[int]:
        raise ValueError("secret value 424242")


@pytest.mark.slow
def test_a_table_that_cannot_be_counted_is_burnt_with_the_rows_of_its_plan(
    town: Deployment, by_hand: ByHand
) -> None:
    tables: dict[str, Tables] = {town.meta.snapshot: Exploding()}
    spender = town.spender(trusted=replace(town.trusted(), tables=tables))
    row = PlannedRow(BY_SEX.row(0), primitive(BY_SEX.row(0)).key, ALPHA, STEP)
    job = by_hand.submit()
    before = spent_nano(town)
    by_hand.work_off(PlannedTable(BY_BOTH, ALPHA, STEP), rows=(row,), spender=spender)
    status = town.service().job(job)
    assert status.problem is not None
    assert status.problem["code"] == "measurement_failed"
    assert "424242" not in str(status.problem)
    assert job in town.registry.journal("town", create=False).state.burnt
    assert [m.id for m in live(town)] == [0]
    # Women pay row and table, men their old row and the table.
    assert spent_nano(town) == max(2 * ALPHA, before + ALPHA)


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("step", "charged"), STEPS)
def test_a_crash_at_any_step_publishes_what_was_journalled_or_burns_it(
    town: Deployment,
    by_hand: ByHand,
    redis_client: StoreClient,
    step: str,
    charged: int,
    after: bool,
) -> None:
    """A raised table, a new table and a new row, in one plan."""
    own = sex_row(town, "Male")
    by_hand.spend(NEW)
    first = table_of(town)
    row = PlannedRow(BY_SEX.row(0), primitive(BY_SEX.row(0)).key, 4 * ALPHA, STEP)
    raised = PlannedTable(BY_SEX, 5 * ALPHA, STEP, 1, ALPHA)
    beside = PlannedTable(BY_BOTH, ALPHA, STEP)
    n_lines, n_paid = len(changes(town).charges), len(changes(town).paid)
    job = by_hand.submit()
    dying = town.spender()
    crashing(dying, step, after=after)
    with pytest.raises(Crash):
        by_hand.work_off(raised, beside, rows=(row,), spender=dying)
    redis_client.delete(Keys("town").lease)

    by_hand.work_off(raised, beside, rows=(row,))
    status = town.service().job(job)
    reserved = charged or (step == "_writer.reserve" and after)
    drawn = step in ("_writer.publish", "_writer.acknowledge") or (
        step == "_spends.release" and after
    )
    journal = town.registry.journal("town", create=False)
    assert len(changes(town).charges) == n_lines + 3
    # Women pay the row and both tables.
    assert spent_nano(town) == (4 + 5 + 1) * ALPHA
    assert len(changes(town).paid) == n_paid + 1
    if drawn or not reserved:
        assert status.state == "done"
        released = journal.state.released.get(job)
        assert released is not None
        alone, again, other = (r.indices for r in released.rows)
        found = live(town)
        assert found[:2] == [own, replace(first, alpha_nano=5 * ALPHA, indices=again)]
        assert found[2:] == [
            Measurement(2, row.row, row.key, 4 * ALPHA, STEP, *alone),
            TableMeasurement(3, BY_BOTH, ALPHA, STEP, other),
        ]
    else:
        assert status.state == "failed"
        assert job in journal.state.burnt
        assert live(town) == [own, first]
    assert town.work_off() == 0


def test_the_store_never_holds_a_count_or_its_noise(
    town: Deployment, by_hand: ByHand, redis_client: StoreClient
) -> None:
    """On the lattice both are long numbers, so that none of them is there by chance."""
    spender = town.spender(trusted=replace(town.trusted(), entropy=SeededEntropy(1)))
    for table in (NEW, PlannedTable(BY_SEX, 3 * ALPHA, STEP, 1, ALPHA)):
        by_hand.submit()
        by_hand.work_off(table, spender=spender)
    truths = [int(n / STEP) for n in COUNTS]
    indices = table_of(town).indices
    # The noise of an empty cell is its answer.
    noises = [abs(i - t) for i, t in zip(indices, truths, strict=True) if t]
    hidden = [*filter(None, truths), *noises]
    assert len(hidden) == 4
    assert min(hidden) > 10**5
    texts = [journal_text(town), *map(str, everything(redis_client))]
    assert all(any(str(index) in text for text in texts) for index in indices)
    assert not [n for n in hidden if any(str(n) in text for text in texts)]


def journal_text(town: Deployment) -> str:
    return (town.registry.folder / "journals" / "town.journal").read_text()


def everything(client: StoreClient) -> list[object]:
    """All values of all keys."""
    readers: dict[str, Any] = {
        "string": client.get,
        "hash": client.hgetall,
        "list": lambda key: client.lrange(key, 0, -1),
        "zset": lambda key: client.zrange(key, 0, -1),
        "set": client.smembers,
        "stream": client.xrange,
    }
    return [readers[str(client.type(key))](key) for key in client.keys("*")]
