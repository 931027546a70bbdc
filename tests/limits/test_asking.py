"""What an analyst is refused, over HTTP, with the code that docs/limits.md gives."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from qserver.api.access import TokenAccess
from qserver.api.app import create_app
from qserver.query.domain import Domain
from qserver.storage.accounts import AccountBook, RateLimiter
from qserver.storage.store import Store
from tests.deployment import PEOPLE, Deployment
from tests.service.test_statements import answered

AGE, SEX = PEOPLE.attributes
FIVES = Domain((replace(AGE, edges=tuple(map(Fraction, range(20, 41, 5)))), SEX))
"""Ages in bins of five years."""


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="1000", domain=FIVES)


@pytest.fixture
def web(town: Deployment) -> FlaskClient:
    return town.web()


def refusal_of(web: FlaskClient, text: str) -> tuple[str, str]:
    """The code of the refusal of a statement, and what it says."""
    found = web.post("/v1/datasets/people/sql", json={"sql": text})
    assert found.json is not None
    assert found.status_code == 422, found.json
    return found.json["code"], str(found.json)


def _one_number(town: Deployment, text: str) -> dict[str, Any]:
    """What HTTP tells of the one number of a statement, once that is measured."""
    answered(town, text)
    found = town.web().post("/v1/datasets/people/sql", json={"sql": text}).json
    assert found is not None
    [[cell]] = [row["cells"] for row in found["table"]["rows"]]
    return dict(cell)


@pytest.mark.limit("invalid_sql")
@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM people JOIN others ON people.age = others.age WITHIN 50",
        "SELECT * FROM people",
        "SELECT age FROM people WHERE sex = 'Male'",
    ],
)
def test_records_are_never_joined_or_listed(web: FlaskClient, text: str) -> None:
    assert refusal_of(web, text)[0] == "invalid_sql"


@pytest.mark.limit("invalid_sql")
def test_a_condition_that_cuts_through_a_bin_is_refused_with_the_nearest(web: FlaskClient) -> None:
    code, said = refusal_of(web, "SELECT COUNT(*) FROM people WHERE age >= 27 WITHIN 50")
    assert code == "invalid_sql"
    assert "25" in said
    assert "30" in said


@pytest.mark.limit("not_estimable")
def test_what_history_does_not_determine_has_no_probability(
    town: Deployment, web: FlaskClient
) -> None:
    town.ask({"sex": "Male"})
    asked = {"query": {"where": {"sex": "Female"}}, "at_least": 10}
    found = web.post("/v1/datasets/people/probability", json=asked)
    assert found.json is not None
    assert (found.status_code, found.json["code"]) == (409, "not_estimable")
    asked["query"] = {"where": {"sex": "Male"}}
    assert web.post("/v1/datasets/people/probability", json=asked).status_code == 200


@pytest.mark.slow
@pytest.mark.limit("2 in bins of 5")
def test_an_interval_is_about_the_middles_of_bins(tmp_path: Path, store_url: str) -> None:
    """Everybody is 20, and the interval of the average is about 22: `binning` says how far off."""
    width = 5
    edges = tuple(map(Fraction, range(20, 41, width)))
    rows = [(20, "Male")] * 500
    domain = Domain((replace(AGE, edges=edges), SEX))
    town = Deployment.make(tmp_path, store_url, limit="1000", domain=domain, rows=rows)
    text = "SELECT AVG(age) FROM people WITHIN 1 CONFIDENCE 0.999999 ASSUMING AT LEAST 100"
    cell = _one_number(town, text)
    assert cell["binning"] == {"error": 2, "of": "average"}
    low, high = cell["interval"]
    assert 20 < low < 22 < high


@pytest.mark.limit("rate_limited")
def test_too_many_requests_in_a_second_are_refused(town: Deployment) -> None:
    store = Store.open(town.settings)
    book = AccountBook(store.client)
    token = book.create("ann", "analyst").text
    limiter = RateLimiter(store.client, clock=lambda: 0.0)
    access = TokenAccess(book, limiter, token_rate=1, address_rate=0)
    web = create_app(town.service(), access=access, wait_s=0, max_body_bytes=4096).test_client()
    headers = {"Authorization": f"Bearer {token}"}
    replies = (web.get("/v1/datasets", headers=headers) for _ in range(1000))
    refused = next(reply for reply in replies if reply.status_code != 200)
    assert refused.json is not None
    assert (refused.status_code, refused.json["code"]) == (429, "rate_limited")


@pytest.mark.slow
@pytest.mark.limit("10 missed at WITHIN 50")
def test_an_extreme_may_miss_the_records_that_are_beyond_it(tmp_path: Path, store_url: str) -> None:
    """Ten people are 29, and so sure an answer gives 25; at most twice 50 may be beyond it."""
    n_beyond = 10
    rows = [(25, "Male")] * 500 + [(29, "Male")] * n_beyond
    town = Deployment.make(tmp_path, store_url, limit="1000", rows=rows)
    text = "SELECT MAX(age) FROM people WITHIN 50 CONFIDENCE 0.999999"
    cell = _one_number(town, text)
    assert cell["estimate"] == 25
    assert cell["interval"][1] >= 29


@pytest.mark.limit("1,000")
def test_a_workload_has_so_many_questions(web: FlaskClient) -> None:
    asked = {"questions": [{"query": {}}] * 1001, "length": 100, "confidence": 0.95}
    found = web.post("/v1/datasets/people/workload", json=asked)
    assert found.json is not None
    assert (found.status_code, found.json["code"]) == (422, "too_large")
    assert "at most 1,000 questions, got 1,001" in found.json["detail"]
