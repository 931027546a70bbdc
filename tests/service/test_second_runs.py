"""A request that waited for its job is run again, and reads and looks up nothing a second time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qserver.answering import decide
from qserver.api.access import OpenAccess
from qserver.api.app import create_app
from qserver.portal.blueprint import Portal
from qserver.service.cache import statements as kept
from qserver.service.parking import Parked, Visit, read_once, visiting
from qserver.service.service import Service
from qserver.service.statements import Statements
from tests.deployment import Deployment

TEXT = "SELECT COUNT(*) FROM people WHERE age >= 24 WITHIN 20"
QUERY = {"query": {"where": {"age": {"at_least": 24}}}, "length": 40, "confidence": 0.95}


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="100")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was read, and where history was looked up."""
    found = list[str]()

    def noting(where: Any, name: str) -> None:
        step: Callable[..., Any] = getattr(where, name)

        def noted(*args: Any, **rest: Any) -> Any:
            found.append(name)
            return step(*args, **rest)

        monkeypatch.setattr(where, name, noted)

    noting(kept, "parse_statement")
    noting(Service, "parse")
    noting(decide, "meeting")
    return found


def twice(town: Deployment, calls: list[str], run: Callable[[], Any]) -> Any:
    """What the second run of a request gives, once the job ended that the first one waited for."""
    visit = Visit()
    with visiting(visit), pytest.raises(Parked):
        run()
    n_calls = len(calls)
    town.work_off()
    del calls[n_calls:]  # the worker's
    with visiting(visit):
        return run()


def test_a_statement_that_waited_is_read_and_looked_up_once(
    town: Deployment, calls: list[str]
) -> None:
    asked = Statements(town.service())
    found = twice(town, calls, lambda: asked.run("people", TEXT, wait_s=10))
    assert found.charged_nano > 0
    assert calls == ["parse_statement", "meeting"]


def test_a_question_that_waited_is_read_and_looked_up_once_by_http(
    town: Deployment, calls: list[str]
) -> None:
    service = town.service()
    app = create_app(
        service, access=OpenAccess(), wait_s=10, max_body_bytes=1 << 20, pages=Portal(service)
    )
    client = app.test_client()
    reply = twice(town, calls, lambda: client.post("/v1/datasets/people/query", json=QUERY))
    assert reply.json["source"] == "measured"
    assert calls == ["parse", "meeting"]


def test_what_a_request_read_is_of_no_use_to_another_one() -> None:
    texts = iter(["first", "second", "third", "fourth"])

    def read() -> str:
        return next(texts)

    one, other = Visit(), Visit()
    with visiting(one):
        assert [read_once("text", str, read) for _ in range(2)] == ["first"] * 2
    with visiting(other):
        assert read_once("text", str, read) == "second"
    assert [read_once("text", str, read) for _ in range(2)] == ["third", "fourth"]
