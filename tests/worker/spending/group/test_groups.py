"""Jobs that are spent for together come to what they would have come to one by one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from qserver.errors import (
    BooksError,
    BudgetExhaustedError,
    QServerError,
    StaleVersionError,
)
from qserver.records.charge import NANO
from qserver.storage.charging import Lease
from qserver.storage.keys import Keys
from qserver.storage.queue import Taken
from qserver.storage.server.connection import StoreClient
from tests.deployment import Deployment
from tests.faults.checks import faults
from tests.statistical.test_noise import SeededEntropy
from tests.sweeps import n_of, share
from tests.worker.crashes import Crash, crashing
from tests.worker.spending.group.stream import Stream
from worker.constants import WORKER
from worker.spending.bookkeeper import Bookkeeper
from worker.spending.group import planner
from worker.spending.group.plan import Spend
from worker.spending.group.spends import Spends

pytestmark = [
    pytest.mark.promise(
        "Faults and races",
        "jobs that are spent for together come to what they would have come to one by one, to the"
        " last bit: answers, refusals, charges",
    ),
    pytest.mark.promise(
        "Faults and races",
        "a crash at any step burns a group or shows all of it; a draw that fails burns its job "
        "and those after it; a refusal fails alone",
    ),
]

N_JOBS = n_of(30, share=16)
STEPS = [
    # step, after it, whether the answers are to come
    ("_spends.reserve", False, False),
    ("_writer.reserve", False, False),
    ("_writer.reserve", True, False),
    ("_spends._attest", False, False),
    ("_spends.draw", False, False),
    ("_spends._keep_slot", True, False),
    ("_spends.release", False, False),
    ("_spends.release", True, True),
    ("_writer.publish", False, True),
    ("_writer.publish", True, True),
    ("_writer.endings.conclude", True, True),
    ("_writer.endings.show", False, True),
    ("_writer.endings.show", True, True),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "phi", "seed"), [("30", 0.05, 2), ("1.5", 20.0, 3)], ids=["tables", "refused"]
)
def test_groups_of_any_size_come_to_what_one_by_one_comes_to(
    tmp_path: Path, store_url: str, redis_client: StoreClient, limit: str, phi: float, seed: int
) -> None:
    """The same noise, in the order taken; equal to the last bit: answers, refusals, charges.

    Questions, workloads and models on three datasets, refined and repeated, of three payers.
    """
    seen, ended = list[dict[str, Any]](), []
    for sizes in (None, random.Random(seed)):
        redis_client.flushall()
        folder = tmp_path / ("groups" if sizes else "alone")
        stream = Stream.make(folder, store_url, limit=limit, phi=phi, seed=seed)
        jobs = stream.submit(random.Random(seed), N_JOBS)
        ended.append(stream.work(stream.take(), sizes=sizes))
        seen.append(stream.seen(jobs))
    differ = [name for name, found in seen[0].items() if seen[1].get(name) != found]
    assert (differ, len(seen[0])) == ([], len(seen[1]))
    assert max(ended[0]) == 1 < max(ended[1])


@pytest.fixture
def stream(tmp_path: Path, store_url: str) -> Stream:
    return Stream.make(tmp_path / "s", store_url, limit="200", phi=20.0, seed=5, apart=())


def ask(stream: Stream, n_jobs: int = 8, *, seed: int = 7) -> list[Taken]:
    """Ask so many things on top of some that were answered before."""
    stream.submit(random.Random(seed), 4, models=0)
    stream.work(stream.take(), sizes=None)
    stream.submit(random.Random(seed + 1), n_jobs, models=0)
    return stream.take()


@pytest.mark.slow
@pytest.mark.parametrize(("step", "after", "is_released"), share(STEPS, 4))
def test_a_crash_at_any_step_burns_a_group_or_shows_all_of_it(
    stream: Stream, redis_client: StoreClient, step: str, after: bool, is_released: bool
) -> None:
    """Whoever takes over comes to one of two ends for the whole group."""
    taken, writer = ask(stream), stream.town.writer()
    before = writer.reserved_jobs("town")
    spender = stream.spender()
    crashing(spender, step, after=after)
    with pytest.raises(Crash):
        stream.work_once(spender, taken)
    redis_client.delete(Keys("town").lease)
    group = writer.reserved_jobs("town") - before
    was_charged = step != "_spends.reserve" and (step != "_writer.reserve" or after)
    assert (len(group) > 3) == was_charged
    stream.work(taken, sizes=None)
    books = stream.books()
    assert faults(books) == []
    assert group & books.burnt == (frozenset() if is_released else group)
    assert {books.jobs[job]["state"] for job in group} <= {"done" if is_released else "failed"}


@pytest.mark.parametrize("is_released", [False, True])
def test_a_crash_at_the_release_burns_three_counts_or_shows_all_three(
    tmp_path: Path, store_url: str, redis_client: StoreClient, is_released: bool
) -> None:
    """The two ends of the sweep above, by questions that are planned at once."""
    town = Deployment.make(tmp_path, store_url, limit="50")
    stream = Stream(town, SeededEntropy(5))
    for where in ({}, {"sex": "Male"}, {"age": {"between": [22, 25]}}):
        town.submit(where)
    taken, spender = stream.take(), stream.spender()
    crashing(spender, "_spends.release", after=is_released)
    with pytest.raises(Crash):
        stream.work_once(spender, taken)
    redis_client.delete(Keys("town").lease)
    stream.work(taken, sizes=None)
    books = stream.books()
    assert faults(books) == []
    assert len(books.burnt) == (0 if is_released else 3)
    assert [job["state"] for job in books.jobs.values()] == 3 * [
        "done" if is_released else "failed"
    ]


@pytest.mark.slow
def test_two_workers_that_settle_one_group_agree(stream: Stream, redis_client: StoreClient) -> None:
    """The slow one drew; the other took over and burnt; so the slow one shows nothing."""
    taken, slow = ask(stream), stream.spender()
    release, n_open = slow._spends.release, []

    def overtaken(*args: Any) -> bool:
        redis_client.delete(Keys("town").lease)
        n_open.append(len(stream.town.writer().open_reservations("town")))
        stream.work_once(stream.spender(), [])
        return release(*args)

    slow._spends.release = overtaken  # type: ignore[assignment, method-assign]
    left = stream.work_once(slow, taken)
    stream.work(left, sizes=None)
    assert n_open[0] > 3
    assert faults(stream.books()) == []
    assert len(stream.books().burnt) == n_open[0]


@pytest.mark.slow
def test_a_draw_that_fails_burns_its_job_and_all_after_it(stream: Stream) -> None:
    """Those before it are released, and what is asked next is planned on them alone."""
    taken, spender = ask(stream), stream.spender()
    measure, n_drawn = spender._spends._measure, []

    def failing(*args: Any) -> Any:
        n_drawn.append(args[0].taken.job)
        if len(n_drawn) == 3:
            raise ValueError("secret value 424242")
        return measure(*args)

    spender._spends._measure = failing  # type: ignore[assignment, method-assign]
    left = stream.work_once(spender, taken)
    spender._spends._measure = measure  # type: ignore[method-assign]
    while left:
        left = stream.work_once(spender, left)
    books = stream.books()
    assert faults(books) == []
    assert not set(n_drawn[:2]) & books.burnt
    assert n_drawn[2] in books.burnt
    assert len(books.burnt) > 1
    assert "424242" not in str(books.jobs)


@pytest.mark.slow
def test_a_plan_that_the_books_refuse_fails_alone(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, judge, judged = ask(stream), Bookkeeper.judge, list[str]()

    def refusing(self: Bookkeeper, name: str, reservation: Any, *args: Any, **rest: Any) -> str:
        judged.append(reservation.job)
        if len(judged) == 2:
            raise BooksError
        return judge(self, name, reservation, *args, **rest)

    monkeypatch.setattr(Bookkeeper, "judge", refusing)
    stream.work(taken, sizes=random.Random(3))
    books = stream.books()
    assert faults(books) == []
    states = [books.jobs[job]["state"] for job in judged]
    assert states == ["done", "failed", *["done"] * (len(judged) - 2)]
    assert "books_differ" in books.jobs[judged[1]]["problem"]
    assert judged[1] not in books.reservations


@pytest.mark.slow
@pytest.mark.parametrize(
    "error",
    [StaleVersionError("moved on"), BudgetExhaustedError(price_nano=1, remaining_nano=0)],
)
def test_the_first_job_is_planned_anew_alone_when_the_store_refuses_a_group(
    stream: Stream, error: QServerError
) -> None:
    """Nothing was charged, so what was planned on that is forgotten; the others are left."""
    taken, spender = ask(stream), stream.spender()
    reserve, sizes = spender._spends.reserve, list[int]()

    def refusing(lease: Lease, spends: Sequence[Spend]) -> None:
        sizes.append(len(spends))
        if len(sizes) == 1:
            raise error
        reserve(lease, spends)

    spender._spends.reserve = refusing  # type: ignore[method-assign]
    left = stream.work_once(spender, taken)
    assert sizes[0] > 3
    assert sizes[1] == len(taken) - len(left) == 1
    while left:
        left = stream.work_once(spender, left)
    assert faults(stream.books()) == []
    assert stream.books().burnt == frozenset()


@pytest.mark.slow
def test_a_group_closes_before_its_price_is_too_much(
    tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream.make(tmp_path / "s", store_url, limit="30", phi=20.0, seed=5, apart=())
    sizes, reserve = list[tuple[int, int]](), Spends.reserve

    def reserving(self: Spends, lease: Lease, spends: Sequence[Spend]) -> None:
        sizes.append((len(spends), sum(one.reservation.price_nano for one in spends)))
        reserve(self, lease, spends)

    monkeypatch.setattr(Spends, "reserve", reserving)
    stream.submit(random.Random(1), 30, models=0)
    taken = stream.take()
    while taken:
        taken = stream.work_once(stream.spender(), taken)
    assert 1 < max(n for n, _ in sizes) < 30
    most = 30 * NANO // WORKER.group_price_share
    assert all(price <= most for n, price in sizes if n > 1)


@pytest.mark.slow
def test_a_group_closes_before_its_slot_is_too_much_and_no_job_passes_another(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A third of the slots each; what is bought first may answer what comes after it."""
    part, sizes = Fraction(WORKER.group_slots, 3), list[int]()
    monkeypatch.setattr(planner, "slots_of_job", lambda *_: part)
    reserve = Spends.reserve

    def reserving(self: Spends, lease: Lease, spends: Sequence[Spend]) -> None:
        sizes.append(len(spends))
        reserve(self, lease, spends)

    monkeypatch.setattr(Spends, "reserve", reserving)
    left = taken = ask(stream)
    while left:
        left = stream.work_once(stream.spender(), left)
        assert left == taken[len(taken) - len(left) :]
    assert max(sizes) == 3
    assert len(sizes) > 1


@pytest.mark.slow
def test_a_job_that_was_taken_over_is_a_group_of_its_own(stream: Stream) -> None:
    """It may be what ended the worker before: others shall not end with it."""
    taken, spender = ask(stream), stream.spender()
    again = [replace(taken[0], n_taken=2), *taken[1:]]
    assert stream.work_once(spender, again) == taken[1:]
    again = [*taken[1:3], replace(taken[3], n_taken=2), *taken[4:]]
    assert stream.work_once(spender, again) == again[2:]
