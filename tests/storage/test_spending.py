"""The spending scripts on a real server: each code of each script, and races."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from functools import partial

import pytest

from qserver.config import Settings
from qserver.errors import (
    BudgetExhaustedError,
    ConfigError,
    FencedError,
    NotFoundError,
    StaleVersionError,
    StoreBehindError,
    StoreError,
    StoreUnsupportedError,
)
from qserver.records.charge import Charge, charge_json
from qserver.records.dataset import DatasetMeta
from qserver.records.history import Estimator
from qserver.records.paid_question import PaidQuestion
from qserver.storage.charging import Charging, Lease
from qserver.storage.encoding.cursor import Cursor
from qserver.storage.keys import SCHEMA, Keys
from qserver.storage.queue import Ended, Outcome
from qserver.storage.server.connection import StoreClient
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from tests.storage.one_dataset import (
    DOMAIN,
    KEY,
    LIMIT,
    META,
    TOTAL,
    a_reservation,
    publish,
    reserve,
    submit,
)

pytestmark = [
    pytest.mark.promise(
        "Faults and races",
        "different questions asked at once never pass the limit",
    ),
]


def test_attach_registers_the_dataset_and_the_limit(reader: Store) -> None:
    assert reader.datasets() == {"people": "town"}
    assert reader.meta("people") == META
    assert reader.stamp(META).budget.limit_nano == LIMIT


def test_attach_refuses_a_taken_name_another_limit_and_another_relation(
    writer: SpendingStore,
) -> None:
    other = DatasetMeta("more", "town", "s2", DOMAIN, "add-remove", 1, records_verified=False)
    replace = DatasetMeta("third", "town", "s3", DOMAIN, "replace-one", 1, records_verified=False)
    with pytest.raises(ConfigError, match="attached already"):
        writer.attach(META, limit_nano=LIMIT)
    with pytest.raises(ConfigError, match="limit"):
        writer.attach(other, limit_nano=LIMIT + 1)
    with pytest.raises(ConfigError, match="neighbours"):
        writer.attach(replace, limit_nano=LIMIT)
    writer.attach(other, limit_nano=LIMIT)


def test_detach_hides_the_dataset_and_keeps_what_was_spent(
    writer: SpendingStore, reader: Store, lease: Lease
) -> None:
    reserve(writer, lease)
    writer.detach(META.name, population=META.population, snapshot=META.snapshot)
    assert reader.datasets() == {}
    with pytest.raises(NotFoundError):
        reader.stamp(META)
    writer.attach(
        DatasetMeta("people", "town", "s2", DOMAIN, "add-remove", 1, records_verified=False),
        limit_nano=LIMIT,
    )
    assert reader.stamp(reader.meta("people")).budget.spent_nano == 300


def test_reserve_charges_and_raises_the_version(
    writer: SpendingStore, reader: Store, lease: Lease
) -> None:
    assert reserve(writer, lease) == 1
    changes = reader.changes(META, Cursor(), shown_only=True)
    assert changes.stamp.budget.spent_nano == 300
    assert changes.stamp.spent_snapshot_nano == 300
    assert [json.loads(c)["alpha"] for c in changes.charges] == [300]
    assert writer.open_reservations("town") == ["town~1"]


@pytest.mark.parametrize("after", [LIMIT + 1, 10**18, 10**30])
def test_reserve_refuses_to_pass_the_limit_and_writes_nothing(
    writer: SpendingStore, reader: Store, lease: Lease, after: int
) -> None:
    with pytest.raises(BudgetExhaustedError):
        reserve(writer, lease, after=after)
    changes = reader.changes(META, Cursor(), shown_only=True)
    assert changes.stamp.budget.spent_nano == 0
    assert changes.charges == ()
    assert writer.open_reservations("town") == []


def test_reserve_takes_the_limit_itself(writer: SpendingStore, lease: Lease) -> None:
    assert reserve(writer, lease, after=LIMIT) == 1


def test_reserve_refuses_less_than_was_spent(writer: SpendingStore, lease: Lease) -> None:
    reserve(writer, lease)
    with pytest.raises(StoreError, match="malformed"):
        reserve(writer, lease, "town~2", version=1, before=200, after=299)


def test_reserve_refuses_a_stale_version_and_a_second_time(
    writer: SpendingStore, lease: Lease
) -> None:
    reserve(writer, lease)
    with pytest.raises(StaleVersionError):
        reserve(writer, lease, "town~2", version=0, before=300, after=400)
    with pytest.raises(StaleVersionError):
        reserve(writer, lease, "town~1", version=1, before=300, after=400)


def test_reserve_is_fenced_off_by_another_holder(
    writer: SpendingStore, lease: Lease, redis_client: StoreClient
) -> None:
    redis_client.delete(Keys("town").lease)
    other = writer.acquire("town")
    assert other is not None
    assert other.fence == lease.fence + 1
    with pytest.raises(FencedError):
        reserve(writer, lease)
    with pytest.raises(FencedError):
        publish(writer, lease, a_reservation("town~1"), [[5]], n_history=0)
    with pytest.raises(FencedError):
        writer.burn(lease, "town~1")
    writer.release(other)


@pytest.mark.limit("1")
def test_a_lease_is_held_by_one_at_a_time(writer: SpendingStore, lease: Lease) -> None:
    assert writer.acquire("town") is None
    assert writer.renew(lease)
    writer.release(lease)
    assert not writer.renew(lease)
    taken = [writer.acquire("town") for _ in range(3)]
    assert sum(one is not None for one in taken) == 1


def test_a_lease_of_an_unknown_population_is_a_lost_store(writer: SpendingStore) -> None:
    with pytest.raises(StoreBehindError):
        writer.acquire("village")


def test_publish_attaches_the_answer_once(
    writer: SpendingStore, reader: Store, lease: Lease
) -> None:
    reserve(writer, lease)
    huge = 2**90 + 1
    assert publish(writer, lease, a_reservation("town~1"), [[huge]], n_history=0) == "published"
    again = publish(writer, lease, a_reservation("town~1"), [[7]], n_history=1)
    assert again == "published before"
    rows = reader.changes(META, Cursor(), shown_only=False).measurements
    assert [m.index for m in rows] == [huge]
    assert writer.open_reservations("town") == []


def test_a_published_row_is_not_shown_before_it_is_acknowledged(
    writer: SpendingStore, reader: Store, lease: Lease
) -> None:
    job = submit(reader)
    reserve(writer, lease, job)
    publish(writer, lease, a_reservation(job), [[5]], n_history=0)
    assert reader.changes(META, Cursor(), shown_only=True).measurements == ()
    taken = writer.queue.take(["town"], consumer="c", block_ms=None)
    assert taken is not None
    kept = Estimator(KEY, ((0, 1.0),))
    outcome = Outcome("done", '"result"', "s1", n_show=1, keep_s=0, estimators=(kept,))
    writer.acknowledge([Ended(taken, outcome)])
    writer.acknowledge([Ended(taken, outcome)])
    changes = reader.changes(META, Cursor(), shown_only=True)
    assert len(changes.measurements) == 1
    assert changes.estimators == (kept,)
    assert reader.job(job).state == "done"


def test_publish_refuses_a_burnt_or_unknown_reservation(
    writer: SpendingStore, lease: Lease
) -> None:
    reserve(writer, lease)
    with pytest.raises(StoreBehindError):
        publish(writer, lease, a_reservation("town~9"), [[5]], n_history=0)
    with pytest.raises(StaleVersionError):
        publish(writer, lease, a_reservation("town~1"), [[5]], n_history=3)
    writer.burn(lease, "town~1")
    writer.burn(lease, "town~1")
    assert publish(writer, lease, a_reservation("town~1"), [[5]], n_history=0) == "burnt"
    assert writer.n_history("town", "s1") == 0


def test_paid_questions_are_kept_with_the_charge_and_only_then(
    writer: SpendingStore, lease: Lease, reader: Store
) -> None:
    """Public, in the order of the spends; a refused reservation leaves none."""
    questions = [PaidQuestion(TOTAL, 0.1 + i, 0.95, "fresh", i) for i in range(3)]
    charge = charge_json(Charge(TOTAL, 300, "j"), snapshot="s1", at=0)
    for i, chosen in enumerate((questions[:2], questions[2:])):
        reserved = replace(
            a_reservation(f"town~{i}", before=300 * i, after=300 * (i + 1)),
            paid=tuple(q.to_json() for q in chosen),
        )
        spend = partial(writer.reserve, lease, [Charging(reserved, [charge])])
        with pytest.raises(StaleVersionError):
            spend(ledger_version=i + 7)
        spend(ledger_version=i)
    changes = reader.changes(META, Cursor(), shown_only=True)
    assert changes.paid == tuple(questions)
    assert len(changes.charges) == 2
    later = reader.changes(META, replace(Cursor(), n_paid=2), shown_only=True)
    assert later.paid == tuple(questions[2:])


def test_remembered_weights_are_bounded_per_key(reader: Store) -> None:
    for i in range(10):
        reader.remember(META, Estimator("key", ((i, 0.1 + i),)))
    found = reader.changes(META, Cursor(), shown_only=True).estimators
    assert [e.weights for e in found] == [((i, 0.1 + i),) for i in range(4)]


def test_a_store_of_another_schema_is_refused(
    settings: Settings, redis_client: StoreClient
) -> None:
    redis_client.set(SCHEMA, "999")
    with pytest.raises(StoreUnsupportedError, match="999"):
        Store.open(settings)


@pytest.mark.slow
def test_hundreds_of_racing_reservations_charge_the_exact_total(
    settings: Settings, writer: SpendingStore, reader: Store
) -> None:
    """Many threads take the lease in turn; the ledger ends at the sum, never past the limit."""
    n_threads, n_each, price, won = 8, 40, 7, []

    def spend(me: int) -> None:
        own = SpendingStore.open(settings)
        own_reader = Store.open(settings)
        for i in range(n_each):
            lease = own.acquire("town")
            while lease is None:
                lease = own.acquire("town")
            budget = own_reader.stamp(META).budget
            try:
                before = budget.spent_nano
                reserve(
                    own,
                    lease,
                    f"town~{me}-{i}",
                    version=budget.version,
                    before=before,
                    after=before + price,
                )
                won.append(price)
            except BudgetExhaustedError:
                pass
            finally:
                own.release(lease)

    threads = [threading.Thread(target=spend, args=(i,)) for i in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    changes = reader.changes(META, Cursor(), shown_only=True)
    assert sum(won) == changes.stamp.budget.spent_nano == LIMIT // price * price
    assert len(changes.charges) == LIMIT // price
