"""Questions that come while the server starts: the worker may be about to start, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from qserver.errors import NoWorkerError
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.answer import JobStatus
from qserver.service.service import Service
from qserver.storage.store import Store
from tests.deployment import Deployment


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    """A deployment whose worker has gone."""
    found = Deployment.make(tmp_path, store_url, limit="1")
    found.writer().queue.leave(["town"], worker="test")
    return found


def test_a_question_waits_for_a_worker_that_may_be_starting_and_later_is_refused(
    town: Deployment,
) -> None:
    now = [1000.0]

    def slept(seconds: float) -> None:
        now[0] += seconds

    service = Service(
        Store.open(town.settings), town.settings, starting_s=30.0, clock=lambda: now[0], sleep=slept
    )

    def ask(age: int) -> object:
        query = service.parse("people", {"where": {"age": age}})
        return service.ask("people", Question(query, Requirement(20, 0.95)), wait_s=5.0)

    waiting = ask(21)
    assert isinstance(waiting, JobStatus)
    assert waiting.state == "queued"
    now[0] = 1029.0
    assert isinstance(ask(22), JobStatus)
    now[0] = 1030.0 + 5.0
    with pytest.raises(NoWorkerError):
        ask(23)


def test_unless_it_says_so_a_service_does_not_wait_for_one(town: Deployment) -> None:
    service = Service(Store.open(town.settings), town.settings)
    query = service.parse("people", {"where": {"age": 21}})
    with pytest.raises(NoWorkerError):
        service.ask("people", Question(query, Requirement(20, 0.95)), wait_s=5.0)
