"""A dataset of 52 weeks from a file with dates, asked over HTTP, in SQL and on the pages."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from qserver.cli.conditions import where_document
from qserver.config import Settings
from qserver.query.domain_file import domain_from_document
from qserver.storage.spend import SpendingStore
from tests.deployment import Deployment
from worker.owner.attach import AttachRequest, attach
from worker.private.registry import Registry

WEEK = {"name": "week", "kind": "period", "every": "week", "first": "2024-W10", "count": 52}
DOMAIN = domain_from_document(
    {
        "attributes": [
            WEEK,
            {"name": "sex", "labels": ["F", "M"]},
            {"name": "age", "kind": "integer", "range": [0, 99], "width": 10, "outside": "clamp"},
        ]
    }
)
DAYS = [date(2024, 3, 1) + timedelta(days=i % 371) for i in range(20_000)]
ROWS = [(day, "FM"[i % 3 == 0], i * 7 % 100) for i, day in enumerate(DAYS)]
WEEKS = Counter("{}-W{:02}".format(*day.isocalendar()[:2]) for day in DAYS)


@pytest.fixture(params=["", "week"])
def town(tmp_path: Path, store_url: str, request: pytest.FixtureRequest) -> Deployment:
    """All weeks are there; the owner calls them the time, or does not."""
    settings = Settings(
        redis_url=store_url, state_dir=tmp_path, slot_ms=0, lease_ms=60_000, open_access=True
    )
    data = tmp_path / "visits.csv"
    data.write_text("age,week,sex\n" + "".join(f"{a},{day},{sex}\n" for day, sex, a in ROWS))
    wanted = AttachRequest(
        name="people",
        data=data,
        domain=DOMAIN,
        limit=Fraction(5),
        relation="add-remove",
        population="town",
        records_per_person=1,
        time=request.param,
    )
    registry = Registry(tmp_path)
    meta = attach(wanted, settings=settings, registry=registry, progress=lambda _text: None)
    SpendingStore.open(settings).queue.beat(["town"], worker="test", ttl_ms=600_000)
    return Deployment(settings, registry, meta, data)


def body(town: Deployment, path: str, document: dict[str, Any]) -> dict[str, Any]:
    """The reply once all is measured that it needs."""
    for _ in range(4):
        response = town.web().post(f"/v1/datasets/people/{path}", json=document)
        assert response.status_code in (200, 202), response.text
        if response.status_code == 200:
            return dict(response.get_json())
        town.work_off()
    raise AssertionError(response.text)


def test_ranges_of_weeks_and_dates_are_one_question(town: Deployment) -> None:
    """The second is free: it is the same row."""
    where = {"week": {"between": ["2024-W12", "2024-W20"]}, "sex": "F"}
    first = body(town, "query", {"query": {"where": where}, "length": 100, "confidence": 0.999999})
    expected = sum(
        sex == "F" and date(2024, 3, 18) <= day <= date(2024, 5, 19) for day, sex, _ in ROWS
    )
    low, high = first["interval"]
    assert low <= expected <= high
    text = (
        "SELECT COUNT(*) FROM people WHERE week >= DATE '2024-03-18' "
        "AND week <= '2024-05-19' AND sex = 'F' WITHIN 50 CONFIDENCE 0.999999"
    )
    spent = town.service().dataset("people").spent_nano
    second = body(town, "sql", {"sql": text})
    assert second["table"]["rows"][0]["cells"][0]["estimate"] == pytest.approx(first["estimate"])
    assert town.service().dataset("people").spent_nano == spent > 0


def test_conditions_of_the_command_line_are_conditions_on_periods(town: Deployment) -> None:
    service = town.service()
    typed = where_document(["week=2024-W12..2024-05-19", "sex=F"])
    where = {"week": {"between": ["2024-W12", "2024-W20"]}, "sex": "F"}
    queries = [service.parse("people", {"where": found}) for found in (typed, where)]
    assert queries[0] == queries[1]


@pytest.mark.slow
def test_groups_by_week_hold_the_records_of_their_days(town: Deployment) -> None:
    """At a confidence at which 52 intervals all hold but once in 19,000 runs."""
    text = "SELECT week, COUNT(*) FROM people GROUP BY week WITHIN 100 CONFIDENCE 0.999999"
    rows = body(town, "sql", {"sql": text})["table"]["rows"]
    assert [row["group"] for row in rows] == [[name] for name in DOMAIN.attributes[0].value_names]
    for row in rows:
        low, high = row["cells"][0]["interval"]
        assert low <= WEEKS[row["group"][0]] <= high
    # A table of the weeks, or rows of it, also answer all sums over weeks: those are known now.
    spent = town.service().dataset("people").spent_nano
    where = {"week": {"below": "2024-W12"}}
    body(town, "query", {"query": {"where": where}, "length": 2000, "confidence": 0.95})
    assert town.service().dataset("people").spent_nano == spent


def test_groups_by_month_hold_the_weeks_of_their_thursdays(town: Deployment) -> None:
    text = (
        "SELECT DATE_TRUNC('month', week) AS month, COUNT(*) FROM people WHERE week >= '2025-W01' "
        "GROUP BY month ORDER BY month WITHIN 100 CONFIDENCE 0.999999"
    )
    table = body(town, "sql", {"sql": text})["table"]
    assert [row["group"] for row in table["rows"]] == [["2025-01"], ["2025-02"]]
    thursdays = {name: date.fromisocalendar(int(name[:4]), int(name[6:]), 4) for name in WEEKS}
    for row in table["rows"]:
        (month,) = row["group"]
        names = [n for n, day in thursdays.items() if f"{day:%Y-%m}" == month and n <= "2025-W09"]
        low, high = row["cells"][0]["interval"]
        assert low <= sum(WEEKS[n] for n in names) <= high


def test_date_within_a_week_is_refused_over_http(town: Deployment) -> None:
    where = {"week": {"below": "2024-03-20"}}
    document = {"query": {"where": where}, "length": 100, "confidence": 0.95}
    response = town.web().post("/v1/datasets/people/query", json=document)
    assert (response.status_code, response.json["code"]) == (422, "invalid_query")
    assert "2024-03-20 lies in 2024-W12, 2024-03-18 to 2024-03-24" in response.json["detail"]


def test_dataset_shows_its_periods_in_short(town: Deployment) -> None:
    found = town.web().get("/v1/datasets/people").json["domain"]["attributes"][0]
    assert found == {**WEEK, "outside": "drop", "missing": "drop"}


def test_pages_offer_the_weeks_from_and_to(town: Deployment) -> None:
    web = town.web()
    page = web.get("/portal/datasets/people?from:week=2024-W12&to:week=2024-W13").text
    assert '<select name="from:week"' in page
    assert '<select name="to:week"' in page
    assert page.count("<option selected>2024-W1") == 2
    assert page.count("<option>2024-W20</option>") == 2
    town.ask({"week": {"between": ["2024-W12", "2024-W20"]}, "sex": "F"}, length=500)
    assert "week 2024-W12 to 2024-W20, sex F" in web.get("/portal/datasets/people/history").text
