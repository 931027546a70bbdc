"""Several HTTP processes that share datasets out, several workers, and an outside store."""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
import redis

from qserver.api.access import OpenAccess
from qserver.api.app import create_app
from qserver.config import Settings
from qserver.portal.blueprint import Portal
from qserver.service.service import Service
from qserver.storage.spend import SpendingStore
from tests.api.fake_service import FakeService
from tests.benchmarks.scale import (
    filled,
    fleet,
    fresh,
    outside_store,
    path_of,
    populations,
    routed,
    routes,
)
from tests.benchmarks.test_benchmarks import quick_document

HISTORY = re.compile(r"qs:\{(\w+)\}:history:")


def read_histories(url: str, watch: redis.client.Monitor) -> dict[str, set[str]]:
    """Of which datasets each user of the store has read the history since the watch began."""
    client = redis.Redis.from_url(url, decode_responses=True)
    users = {one["addr"]: one["user"] for one in client.client_list()}
    client.echo("the end")
    found = dict[str, set[str]]()
    for said in watch.listen():
        if "the end" in said["command"]:
            return found
        user = users.get(f"{said['client_address']}:{said['client_port']}", "")
        if user.startswith("http-"):
            found.setdefault(user, set()).update(HISTORY.findall(said["command"]))
    raise AssertionError("the watch ended")


@pytest.mark.slow
def test_by_dataset_each_process_replays_its_own_datasets_and_all_answer_alike(
    tmp_path: Path,
) -> None:
    """Four processes and 100 datasets; a dataset that moves is answered as before."""
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(outside_store(tmp_path))
        asked = filled(SpendingStore.open(Settings(redis_url=url)), 100, 8)
        found = stack.enter_context(fleet(url, 4, tmp_path))
        watch = stack.enter_context(redis.Redis.from_url(url, decode_responses=True).monitor())
        place = {name: routed(path_of(name), 4) for name in asked}
        answers = {
            (name, body): found.ask(place[name], name, body)
            for name, bodies in asked.items()
            for body in bodies[:3]
        }
        expected = dict[str, set[str]]()
        for name, i in place.items():
            expected.setdefault(f"http-{i}", set()).add(name)
        assert read_histories(url, watch) == expected
        assert len(expected) == 4
        for (name, body), answer in answers.items():
            assert found.ask((place[name] + 1) % 4, name, body) == answer
        moved = read_histories(url, watch)
        assert moved == {f"http-{(int(u[5:]) + 1) % 4}": names for u, names in expected.items()}


@pytest.mark.slow
def test_memory_and_processor_time_are_told_by_the_way_that_questions_go(tmp_path: Path) -> None:
    rows = quick_document("scale", tmp_path)["rows"]
    assert [(row["questions go"], row["processes"]) for row in rows] == [
        ("by dataset", 2),
        ("to any", 2),
        ("to one", 1),
    ]
    assert all(row["empty_mb"] > 0 and row["again_ms"] > 0 for row in rows)


@pytest.mark.slow
def test_workers_share_populations_and_servers_a_store(tmp_path: Path) -> None:
    """What one server had measured, by either worker, the other one knows at no cost."""
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(outside_store(tmp_path))
        names = populations(stack, url, tmp_path, 2, 4)
        found = stack.enter_context(fleet(url, 2, tmp_path))
        generator = random.Random(1)
        for i, name in enumerate(names):
            body = fresh(generator)
            first, again = found.ask(i % 2, name, body), found.ask((i + 1) % 2, name, body)
            assert (first["source"], again["source"]) == ("measured", "history")
            assert again["interval"] == first["interval"]
            assert again["epsilon_charged"] == 0 < first["epsilon_charged"]
        for i in (0, 1):
            journals = (tmp_path / f"worker-{i}" / "worker" / "journals").glob("*.journal")
            assert {path.stem for path in journals} == set(names[2 * i : 2 * i + 2])


def paths_with_a_dataset() -> Mapping[str, str]:
    """Every path of HTTP and the pages that names a dataset, and its rule."""
    service = cast("Service", FakeService())
    app = create_app(
        service, access=OpenAccess(), wait_s=0, max_body_bytes=1 << 20, pages=Portal(service)
    )
    rules = [rule.rule for rule in app.url_map.iter_rules() if "<dataset>" in rule.rule]
    return {re.sub("<[^>]*>", "x", r.replace("<dataset>", "d-1")): r for r in rules}


def test_every_path_of_a_dataset_goes_where_its_dataset_lives() -> None:
    """Also its jobs, whose names begin with the population."""
    paths = [*paths_with_a_dataset(), "/v1/jobs/d-1~17", "/portal/jobs/d-1~17/answer.csv"]
    assert len(paths) > 30
    for path in paths:
        keys = [found[1] for pattern in routes() if (found := pattern.search(path))]
        assert keys == ["d-1"], path
        assert routed(path, 1_000) == routed("/v1/datasets/d-1/query", 1_000)
    for path in ("/v1/datasets", "/portal/", "/healthz", "/v1/models"):
        assert not any(pattern.search(path) for pattern in routes())
