"""Levels of labels have conditions of their own on the form, and dates the inputs of dates."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from werkzeug.datastructures import MultiDict

from qserver.portal.question import FormQuestion, examples, statement_of
from tests.districts import DOMAIN, IN_REGION, districts
from tests.portal.portal_site import PEOPLE, Browser, answered, browser_on

SURE = {"length": "40", "confidence": "99.9999999"}


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Browser:
    return browser_on(districts(tmp_path, store_url), is_open=True)


def question(*fields: tuple[str, str]) -> FormQuestion:
    return FormQuestion.of(MultiDict(fields), DOMAIN)


def test_a_level_is_a_condition_beside_that_on_its_labels() -> None:
    asked = question(("is:region", "North"), ("is:district", "Ash"), ("not:district", "1"))
    assert asked.where(DOMAIN) == {"region": ["North"], "district": {"not": ["Ash"]}}
    assert FormQuestion.of(MultiDict(asked.pairs()), DOMAIN) == asked
    table = question(("is:region", "North"), ("by", "region"), ("by", "day"))
    assert statement_of(table, DOMAIN, "people") == (
        "SELECT region, day, COUNT(*) AS n FROM people WHERE region IN ('North') "
        "GROUP BY region, day"
    )


@pytest.mark.slow
def test_a_region_is_counted_and_broken_down_by(town: Browser) -> None:
    job = answered(town, {"is:region": "South", **SURE})
    page = town.text(job)
    low, high = re.findall(r"[Bb]etween ([\d.]+) and ([\d.]+)", page)[0]
    assert float(low) <= IN_REGION["South"] <= float(high)
    form = town.text(f"{PEOPLE}?is:region=South&by=region")
    assert re.search(r'name="is:region"[^>]* value="South" checked', form)
    assert "joins district" in form
    assert "<option selected>region</option>" in form
    shown = town.post(f"{PEOPLE}/price", {"by": "region", **SURE}).text
    assert "GROUP BY region" in shown
    told = town.post(f"{PEOPLE}/price", {"is:region": "West", **SURE}).text
    assert "“region”" in told
    assert "is:region" in told


def test_a_day_is_picked_and_what_is_no_day_stays_as_typed(town: Browser) -> None:
    form = town.text(f"{PEOPLE}?from:day=2024-03-02&to:day=2024-03-04")
    ends = re.findall(r'<input type="date" min="([^"]*)" max="([^"]*)" name="([^"]*)"', form)
    assert ends == [("2024-03-01", "2024-03-10", f"{end}:day") for end in ("from", "to")]
    assert 'value="2024-03-04"' in form
    wrong = town.text(f"{PEOPLE}?from:day=March")
    assert re.search(r'<input name="from:day"[^>]*value="March"', wrong)
    job = answered(town, {"from:day": "2024-03-02", "to:day": "2024-03-04", **SURE})
    low, high = re.findall(r"[Bb]etween ([\d.]+) and ([\d.]+)", town.text(job))[0]
    assert float(low) <= 180 <= float(high)


def test_an_example_is_by_the_level_that_has_fewer_values_than_its_labels(town: Browser) -> None:
    found = examples(DOMAIN)
    assert ("How many by region?", "by=region") in found
    assert ("By day and region?", "by=day&by=region") in found
    assert f'<a href="{PEOPLE}?by=region">How many by region?</a>' in town.text("/portal/")
