"""Several datasets of one population: the same people, or people declared to be others."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from qserver.errors import BudgetExhaustedError, ConfigError, QServerError
from qserver.query.linear_query import total_query
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.answer import Answer, JobStatus
from qserver.records.dataset import DatasetMeta
from qserver.records.problem import error_from_problem
from qserver.storage.audit_check import AuditExport, check_export
from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient
from qserver.storage.store import Store
from tests.deployment import LOG, PEOPLE, ROWS, Deployment
from worker.owner.attach import AttachRequest, attach
from worker.owner.changes import Declared, declare_disjoint, detach
from worker.owner.rotate import RotateRequest, rotate

pytestmark = [
    pytest.mark.promise(
        "Guard rails",
        "`spent` is what the worst person can have lost over datasets, snapshots and declared "
        "pairs",
    ),
]

YOUNG = {"age": {"below": 25}}


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url)


def exported(town: Deployment) -> AuditExport:
    return AuditExport.read(Store.open(town.settings).audit)


def join(town: Deployment, name: str, **changes: object) -> DatasetMeta:
    request = AttachRequest(name, town.data, PEOPLE, Fraction(1), "add-remove", "town", 1, phi=20.0)
    return attach(
        replace(request, **changes),  # type: ignore[arg-type]
        settings=town.settings,
        registry=town.registry,
        progress=lambda _text: None,
    )


def declare(town: Deployment, one: str, other: str) -> Declared:
    return declare_disjoint("town", one, other, settings=town.settings, registry=town.registry)


def ask(town: Deployment, name: str, length: float) -> Answer:
    service = town.service()
    query = service.parse(name, {"where": YOUNG})
    found = service.ask(name, Question(query, Requirement(length, 0.95)), wait_s=0)
    if isinstance(found, JobStatus):
        town.work_off()
        status = service.job(found.id)
        if status.problem is not None:
            raise error_from_problem(status.problem)
        assert isinstance(status.result, Answer)
        return status.result
    return found


def spent(town: Deployment) -> int:
    return town.service().dataset("people").spent_nano


def remaining(town: Deployment, name: str) -> int:
    return town.service().dataset(name).remaining_nano


def test_the_same_people_pay_for_every_dataset_that_they_are_in(town: Deployment) -> None:
    join(town, "more", records_per_person=2)
    first = ask(town, "people", 40)
    second = ask(town, "more", 40)
    assert second.charged_nano == pytest.approx(2 * first.charged_nano, rel=1e-6)
    total = first.charged_nano + second.charged_nano
    assert spent(town) == total
    assert remaining(town, "people") == remaining(town, "more") == 10**9 - total
    with pytest.raises(BudgetExhaustedError):
        ask(town, "more", 8)


@pytest.mark.slow
def test_other_people_pay_for_their_own_dataset_alone(town: Deployment) -> None:
    """Partitions over time: each month its own people, one budget for everybody."""
    join(town, "may", disjoint_from=("people",))
    join(town, "june", disjoint_from=("may", "people"))
    costs = [
        ask(town, name, length).charged_nano
        for name, length in (("people", 20), ("may", 10), ("june", 40))
    ]
    assert spent(town) == max(costs) == costs[1]
    left = [remaining(town, name) for name in ("people", "may", "june")]
    assert left == [10**9 - cost for cost in costs]
    # A dataset of the same people as all of them comes on top of the dearest.
    join(town, "all")
    fourth = ask(town, "all", 20)
    assert spent(town) == costs[1] + fourth.charged_nano
    assert remaining(town, "june") == 10**9 - costs[2] - fourth.charged_nano


def test_disjointness_is_not_handed_on(town: Deployment) -> None:
    """People and lab may be the same file, though both are disjoint from west."""
    join(town, "west", disjoint_from=("people",))
    join(town, "lab", disjoint_from=("west",))
    first = ask(town, "people", 8).charged_nano
    assert first > 10**9 // 2
    assert remaining(town, "lab") == 10**9 - first
    assert remaining(town, "west") == 10**9
    with pytest.raises(BudgetExhaustedError):
        ask(town, "lab", 8)


def test_a_rotation_takes_no_word_over_from_the_file_before(town: Deployment) -> None:
    """The file of west comes in people's place: those of west have lost what both have spent."""
    join(town, "west", disjoint_from=("people",))
    first = ask(town, "west", 8).charged_nano
    rotate(
        RotateRequest("people", town.data),
        settings=town.settings,
        registry=town.registry,
        progress=lambda _text: None,
        log=LOG,
    )
    assert remaining(town, "people") == 10**9 - first
    with pytest.raises(BudgetExhaustedError):
        ask(town, "people", 8)


def test_what_was_not_declared_at_first_can_be_declared_later(town: Deployment) -> None:
    join(town, "west")
    costs = [ask(town, name, 20).charged_nano for name in ("people", "west")]
    assert spent(town) == sum(costs)
    done = declare(town, "west", "people")
    assert (done.n_pairs, done.n_new) == (1, 1)
    # What was recorded as spent never falls; what each may still spend follows the pairs.
    assert spent(town) == sum(costs)
    assert remaining(town, "people") == 10**9 - costs[0]
    assert declare(town, "people", "west").n_new == 0
    kinds = [json.loads(text)["kind"] for text in Store.open(town.settings).audit.changes()]
    assert kinds.count("people declared disjoint") == 1
    assert all(check.ok for check in check_export(exported(town)))


@pytest.mark.parametrize(
    ("one", "other", "names"),
    [
        ("people", "nobody", "`other`"),
        ("nobody", "people", "`dataset`"),
        ("people", "people", "`other`"),
    ],
)
def test_a_word_about_nothing_is_refused(
    town: Deployment, one: str, other: str, names: str
) -> None:
    with pytest.raises(ConfigError, match=names):
        declare(town, one, other)


def test_a_store_of_an_earlier_version_has_no_pairs_until_they_are_declared(
    town: Deployment, redis_client: StoreClient
) -> None:
    """It kept lineages, and had recorded less than a person may have lost."""
    join(town, "lab", disjoint_from=("people",))
    costs = [ask(town, name, 8).charged_nano for name in ("people", "lab")]
    redis_client.delete(Keys("town").disjoint)
    for name in ("people", "lab"):
        meta = Store.open(town.settings).meta(name)
        plain = json.loads(meta.to_json()) | {"cohort": meta.snapshot, "lineage": "l"}
        del plain["disjoint_from"]
        redis_client.hset(Keys("town").dataset(name), "meta", json.dumps(plain))
    assert spent(town) == sum(costs) > 10**9
    assert remaining(town, "people") == remaining(town, "lab") == 0
    with pytest.raises(BudgetExhaustedError):
        ask(town, "people", 4)
    declare(town, "people", "lab")
    assert [remaining(town, name) for name in ("people", "lab")] == [10**9 - c for c in costs]


def test_people_are_other_people_within_one_population_only(town: Deployment) -> None:
    join(town, "abroad", population="city", same_data_other_people=True)
    with pytest.raises(ConfigError, match="`disjoint_from`"):
        join(town, "may", disjoint_from=("abroad",))
    with pytest.raises(QServerError):
        join(town, "may", disjoint_from=("nothing",))
    assert set(Store.open(town.settings).datasets()) == {"people", "abroad"}


def test_a_detached_partition_leaves_what_its_people_lost(town: Deployment) -> None:
    join(town, "may", disjoint_from=("people",))
    cost = ask(town, "may", 20).charged_nano
    detach("may", settings=town.settings, registry=town.registry, log=LOG)
    assert (spent(town), remaining(town, "people")) == (cost, 10**9)
    assert ask(town, "people", 40).charged_nano > 0
    assert spent(town) == cost


@pytest.mark.slow
def test_workers_of_two_datasets_never_pass_the_common_limit(
    tmp_path: Path, store_url: str
) -> None:
    """Two threads spend on two datasets at once; the lease and the version keep the sum."""
    town = Deployment.make(tmp_path, store_url, limit="0.5")
    join(town, "more", limit=Fraction(1, 2))
    service = town.service()
    jobs = []
    for age in range(20, 30):
        for name in ("people", "more"):
            query = service.parse(name, {"where": {"age": {"below": age + 1}}})
            found = service.ask(name, Question(query, Requirement(50, 0.95)), wait_s=0)
            assert isinstance(found, JobStatus)
            jobs.append(found.id)
    _in_parallel(lambda: _work_off_all(town))
    states = [service.job(job).state for job in jobs]
    assert set(states) == {"done", "failed"}
    shares = [
        Store.open(town.settings).stamp(Store.open(town.settings).meta(name)).spent_snapshot_nano
        for name in ("people", "more")
    ]
    assert sum(shares) == spent(town) <= 5 * 10**8
    assert spent(town) > 3 * 10**8


def _work_off_all(town: Deployment) -> None:
    spender, writer = town.spender(), town.writer()
    consumer = threading.current_thread().name
    while True:
        taken = writer.queue.take(["town"], consumer=consumer, block_ms=None)
        if taken is None:
            return
        lease = None
        while lease is None:
            lease = writer.acquire("town")
        try:
            spender.settle(lease)
            spender.work(lease, [taken])
        finally:
            writer.release(lease)


def _in_parallel(work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_an_enforced_k_is_shown_as_verified_and_holds_after_a_restart(town: Deployment) -> None:
    rows = "".join(f"{i % 100},{age},{sex}\n" for i, (age, sex) in enumerate(ROWS))
    data = town.settings.state_dir / "owned.csv"
    data.write_text("who,age,sex\n" + rows)
    meta = join(town, "owned", data=data, records_per_person=2, person_column="who")
    status = town.service().dataset("owned")
    assert (status.records_per_person, status.records_verified) == (2, True)
    assert meta.has_null_cell
    kept = [
        town.trusted().tables[meta.snapshot].answer(total_query(PEOPLE.sizes)) for _ in range(2)
    ]
    assert kept == [200, 200]
    answer = ask(town, "owned", 40)
    declared = ask(town, "people", 40)
    assert answer.charged_nano == pytest.approx(2 * declared.charged_nano, rel=1e-6)


def test_the_total_is_no_free_row_where_persons_may_lack_records(town: Deployment) -> None:
    one = join(
        town, "declared", population="a", relation="replace-one", same_data_other_people=True
    )
    assert Store.open(town.settings).stamp(one).n_shown == 1
    owned = town.settings.state_dir / "owned.csv"
    owned.write_text("who,age,sex\n1,20,Male\n,21,Male\n")
    three = join(
        town, "third", population="c", relation="replace-one", data=owned, person_column="who"
    )
    assert Store.open(town.settings).stamp(three).n_shown == 0
