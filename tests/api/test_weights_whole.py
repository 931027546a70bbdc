"""Weights of very different sizes from end to end: real store, real worker, the real app."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath
import pytest
from flask.testing import FlaskClient

from qserver.api.access import OpenAccess
from qserver.api.app import create_app
from qserver.records.history import TableMeasurement
from tests.deployment import Deployment
from tests.worker.by_hand import live

CELLS = [{"age": age, "sex": sex} for age in range(20, 30) for sex in ("Female", "Male", "other")]
LARGE, SMALL = 1_000_000, 1e-9
TERMS: list[dict[str, Any]] = [{"coefficient": LARGE, "where": CELLS[0]}, {"coefficient": SMALL}]
FAR = {"coefficient": "1e-9", "where": {"age": {"weights": {"20": "1e-9", "21": "1e-9"}}}}
APART: list[dict[str, Any]] = [
    {"coefficient": 1e12, "where": {"age": {"weights": {"20": 1e12, "22": 1e12}}}},
    FAR,
]
"""The largest weight is 1e24, the least 1e-18."""
SUMS = "1e12 * (1e12 * COUNT_IF(age = 20)) + 1e-9 * COUNT_IF(age = 21)"
CONDITION = "be within a factor of 10^30 of one another"


@dataclass(frozen=True)
class Site:
    """A deployment behind its app, and the scale of every cell of its one table."""

    town: Deployment
    client: FlaskClient
    scale: float

    def post(self, path: str, document: dict[str, Any]) -> Any:
        return self.client.post(f"/v1/datasets/people/{path}", json=document)

    def spent(self) -> tuple[int, int]:
        """What was spent, in nano-epsilon, and by how many charges."""
        service = self.town.service()
        charges = service.ledger.loss("people", where=None, attribute=None).n_charges
        return service.dataset("people").spent_nano, charges


@pytest.fixture
def site(tmp_path: Path, store_url: str) -> Site:
    town = Deployment.make(tmp_path, store_url, limit="5")
    town.ask_workload(town.workload(CELLS, length=60, simultaneous=True))
    (table,) = live(town)
    assert isinstance(table, TableMeasurement)
    assert table.values.size >= 33
    app = create_app(town.service(), access=OpenAccess(), wait_s=0, max_body_bytes=1 << 16)
    return Site(town, app.test_client(), 1e9 / table.alpha_nano)


def query(terms: list[dict[str, Any]], **rest: Any) -> dict[str, Any]:
    return {"query": {"terms": terms}, **rest}


@pytest.mark.slow
@pytest.mark.parametrize("part", [0.015, 0.3, 1.0, 3.0])
def test_the_probability_of_an_event_is_that_of_the_large_weight(site: Site, part: float) -> None:
    """The others move it by 1e-15 of the scale: far below what is compared."""
    wide = {"length": 1e15, "confidence": 0.5}
    estimate = site.post("query", query(TERMS, **wide)).get_json()["estimate"]
    room = part * site.scale * LARGE
    between = [estimate - room, estimate + room]
    found = site.post("probability", query(TERMS, between=between)).get_json()
    with mpmath.workdps(30):
        expected = float(1 - mpmath.exp(-mpmath.mpf(part)))
    assert found["probability"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [0.01, 0.1, 0.5, 0.95])
def test_what_history_answers_is_not_measured_again(site: Site, confidence: float) -> None:
    before = site.spent()
    half_width = -math.log1p(-confidence) * site.scale * LARGE
    asked = query(TERMS, length=2.01 * half_width + 100, confidence=confidence)
    reply = site.post("query", asked)
    assert (reply.status_code, reply.get_json()["source"]) == (200, "history")
    low, high = reply.get_json()["interval"]
    assert high - low == pytest.approx(2 * half_width, rel=0.01, abs=100)
    assert site.spent() == before


@pytest.mark.parametrize("path", ["query", "explain", "probability", "workload", "sql"])
def test_weights_further_apart_than_the_limit_are_refused_and_not_charged(
    site: Site, path: str
) -> None:
    before = site.spent()
    rest = {"at_least": 0} if path == "probability" else {"length": 1e15, "confidence": 0.5}
    document = query(APART, **rest)
    if path == "workload":
        document = {"questions": [query(APART)], "length": 1e15, "confidence": 0.5}
    if path == "sql":
        document = {"sql": f"SELECT {SUMS} FROM people WITHIN 1e12 CONFIDENCE 0.5"}
    reply = site.post(path, document)
    problem = reply.get_json()
    assert reply.status_code == 422, problem
    assert problem["code"] == ("invalid_sql" if path == "sql" else "invalid_query")
    assert CONDITION in problem["detail"]
    assert path == "sql" or "query.terms.weights" in problem["detail"]
    assert site.town.work_off() == 0
    assert site.spent() == before


def test_weights_at_the_limit_are_measured_and_answered(site: Site) -> None:
    terms = [
        {"coefficient": 1e12, "where": {"age": {"weights": {"20": 1e9}}, "sex": "Male"}},
        {"coefficient": 1e-9, "where": {"age": {"between": [21, 29]}}},
    ]
    reply = site.post("query", query(terms, length=1e15, confidence=0.9))
    assert reply.status_code in (200, 202, 409), reply.get_json()
