"""The history's events as the store keeps them: new rows, and refinements of earlier ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from qserver.answering.replica import Replica
from qserver.config import Settings
from qserver.errors import InputError, StoreError
from qserver.query.class_grid import product_partition
from qserver.query.domain import Attribute, Domain
from qserver.query.linear_query import total_query
from qserver.query.primitive import primitive
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.charge import Standing
from qserver.records.dataset import DatasetMeta
from qserver.records.digest_links import relinked
from qserver.records.history import Measurement, TableMeasurement
from qserver.records.paid_question import PaidQuestion
from qserver.records.plan import CellSource, Planned, PlannedRow, PlannedTable, TableCell
from qserver.storage.encoding.digests import sealed_fields
from qserver.storage.encoding.jobs import measurement_json, measurements_from_json
from qserver.storage.encoding.queued_requests import Request, Reservation
from qserver.storage.histories import Cursor
from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store

DOMAIN = Domain((Attribute("sex", "labels", ("Female", "Male")),))
META = DatasetMeta("people", "town", "s1", DOMAIN, "add-remove", 1, records_verified=False)
TOTAL = total_query(DOMAIN.sizes)
KEY = primitive(TOTAL).key
BEFORE = Standing(10**9, 90, 80, 5)
AFTER = Standing(10**9, 580, 580, 505)
NEW = PlannedRow(TOTAL, KEY, 300, Fraction(1, 4))
REFINED = PlannedRow(TOTAL, KEY, 500, Fraction(1, 4), refines=1, old_alpha_nano=300)
SEXES = product_partition(DOMAIN.sizes, {0: [0, 1]})
TABLE = PlannedTable(SEXES, 300, Fraction(1, 4))
RAISED = PlannedTable(SEXES, 500, Fraction(1, 4), 1, 300, (CellSource(1, 0, 400),))
# As the first version wrote it.
OLD_TEXT = json.dumps(
    {"row": TOTAL.to_document(), "key": KEY, "alpha": 300, "step": "1/4", "index": "-7", "job": "j"}
)


def history(texts: list[str], *, next_id: int = 0) -> list[tuple[int, int, int]]:
    found = measurements_from_json(texts, next_id=next_id, sizes=DOMAIN.sizes)
    return [(m.id, m.alpha_nano, m.index) for m in found]


def test_events_of_a_store_without_refinements_are_read_as_new_rows() -> None:
    assert history([OLD_TEXT, OLD_TEXT]) == [(0, 300, -7), (1, 300, -7)]
    assert measurement_json(NEW, [-7], "j") == OLD_TEXT


def test_a_refinement_has_the_id_of_its_target_and_takes_no_new_one() -> None:
    texts = [measurement_json(row, [i], "j") for i, row in enumerate((NEW, NEW, REFINED, NEW))]
    assert history(texts) == [(0, 300, 0), (1, 300, 1), (1, 500, 2), (2, 300, 3)]
    assert history(texts[2:], next_id=2) == [(1, 500, 2), (2, 300, 3)]


def test_a_reservation_with_refinements_and_weights_survives_its_json() -> None:
    request = Request("people", "s1", Question(TOTAL, Requirement(10, 0.95)))
    reserved = Reservation(
        "town~1", request, (REFINED, NEW), BEFORE, AFTER, 3, ((1, 0.1), (2, 0.9))
    )
    assert Reservation.from_json(reserved.to_json()) == reserved
    assert reserved.source == "refined"
    assert replace(reserved, rows=(NEW,)).source == "measured"
    plain = json.loads(reserved.to_json())
    del plain["weights"]
    assert Reservation.from_json(json.dumps(plain)) == replace(reserved, weights=())


def test_a_reservation_with_tables_cells_and_paid_questions_survives_its_json() -> None:
    request = Request("people", "s1", Question(TOTAL, Requirement(10, 0.95)))
    continued = PlannedRow(SEXES.row(1), "k", 500, Fraction(1, 4), 3, 300, TableCell(2, 1))
    paid = PaidQuestion(TOTAL, 0.1 + 0.2, 0.95, "blocks", 200)
    reserved = Reservation(
        "town~1",
        request,
        (continued,),
        BEFORE,
        AFTER,
        3,
        tables=(RAISED, TABLE),
        paid=(paid.to_json(),),
        weights=((3, -1.0),),
        tables_give_rest=True,
    )
    back = Reservation.from_json(reserved.to_json())
    assert back == reserved
    assert back.planned == (continued, RAISED, TABLE)
    assert PaidQuestion.from_json(back.paid[0], DOMAIN.sizes) == paid
    assert back.source == "refined"
    assert replace(reserved, rows=(), tables=(TABLE,)).source == "measured"
    assert replace(reserved, rows=(replace(continued, refines=None),)).source == "refined"


def test_tables_and_rows_share_one_sequence_of_ids() -> None:
    events: list[tuple[PlannedRow | PlannedTable, list[int]]]
    events = [(NEW, [7]), (TABLE, [-(2**70), 3]), (RAISED, [4, 5]), (NEW, [8])]
    texts = [measurement_json(planned, found, "j") for planned, found in events]
    read = measurements_from_json(texts, next_id=0, sizes=DOMAIN.sizes)
    assert read == (
        Measurement(0, TOTAL, KEY, 300, Fraction(1, 4), 7),
        TableMeasurement(1, SEXES, 300, Fraction(1, 4), (-(2**70), 3)),
        TableMeasurement(1, SEXES, 500, Fraction(1, 4), (4, 5)),
        Measurement(2, TOTAL, KEY, 300, Fraction(1, 4), 8),
    )
    assert measurements_from_json(texts[2:], next_id=2, sizes=DOMAIN.sizes) == read[2:]


def test_a_table_that_a_row_claims_to_refine_is_the_stores_fault(
    reader: Store, redis_client: StoreClient, settings: Settings
) -> None:
    for planned, found in ((NEW, [7]), (TABLE, [1, 2]), (REFINED, [3])):
        _release(redis_client, planned, found)
    with pytest.raises(StoreError, match="history"):
        Replica(META, settings, shown_only=False).refresh(reader)


@pytest.mark.parametrize(
    ("alpha", "refines", "old"), [(300, None, 100), (300, 0, 0), (300, 0, 300)]
)
def test_a_planned_row_that_refines_nothing_or_is_no_finer_is_refused(
    alpha: int, refines: int | None, old: int
) -> None:
    with pytest.raises(InputError, match="old_alpha_nano"):
        PlannedRow(TOTAL, KEY, alpha, Fraction(1), refines, old)


def test_the_charge_of_a_refinement_is_the_rise_of_alpha() -> None:
    live = Measurement(1, TOTAL, KEY, 300, Fraction(1, 4), 9)
    assert PlannedRow.refining(live, alpha_nano=500) == REFINED
    assert (REFINED.charge_nano, NEW.charge_nano) == (200, 300)
    assert REFINED.refines_live(live)
    for other in ({"alpha_nano": 301}, {"key": "k"}, {"step": Fraction(1, 2)}, {"id": 2}):
        assert not REFINED.refines_live(replace(live, **other))


def _release(client: StoreClient, planned: Planned, indices: Sequence[int]) -> None:
    """Append an event to the history, linked to the one before."""
    keys = Keys("town")
    before = str(client.hget(keys.ledger, "head:s1"))
    found = relinked([measurement_json(planned, indices, "j")], prev=before)
    client.rpush(keys.history("s1"), *found.texts)
    client.hset(keys.ledger, mapping=dict[Any, Any](sealed_fields({"head:s1": found.head})))


@pytest.fixture
def settings(store_url: str) -> Settings:
    return Settings(redis_url=store_url)


@pytest.fixture
def reader(settings: Settings) -> Store:
    SpendingStore.open(settings).attach(META, limit_nano=1000)
    return Store.open(settings)


def test_a_reader_keeps_events_and_ids_apart(
    reader: Store, redis_client: StoreClient, settings: Settings
) -> None:
    """Event by event or all at once, and no further than what is shown."""
    keys = Keys("town")
    early = Replica(META, settings, shown_only=True)
    rows = (NEW, NEW, REFINED, NEW)
    for i, row in enumerate(rows):
        _release(redis_client, row, [i])
        assert early.n_events == max(0, i - 1)
        redis_client.hset(keys.ledger, mapping=dict[Any, Any](sealed_fields({"shown:s1": str(i)})))
        early.refresh(reader)
        assert early.n_events == i
    redis_client.hset(keys.ledger, mapping=dict[Any, Any](sealed_fields({"shown:s1": "4"})))
    late = Replica(META, settings, shown_only=True)
    for replica in (early, late):
        replica.refresh(reader)
        assert replica.n_events == 4
        assert [(m.id, m.index) for m in replica.measurements] == [(0, 0), (1, 2), (2, 3)]
    moved = reader.changes(META, Cursor(), shown_only=True).cursor
    assert (moved.n_events, moved.n_measurements) == (4, 3)


def test_a_history_that_contradicts_itself_is_the_stores_fault(
    reader: Store, redis_client: StoreClient, settings: Settings
) -> None:
    _release(redis_client, REFINED, [1])
    with pytest.raises(StoreError, match="history"):
        Replica(META, settings, shown_only=False).refresh(reader)
