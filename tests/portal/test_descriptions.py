"""What an owner says of the data, on the landing page: shown as text, and left out where unsaid."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from qserver.client.results import DatasetInfo
from tests.deployment import PEOPLE, Deployment
from tests.portal.portal_site import Browser, answered, browser_on


def test_description_and_licence_stand_on_the_landing_page(tmp_path: Path, store_url: str) -> None:
    about = replace(PEOPLE, description="People of <b>one</b> town.", licence="CC BY 4.0")
    browser = browser_on(Deployment.make(tmp_path, store_url, domain=about), is_open=True)
    page = browser.text("/portal/")
    assert "<p>People of &lt;b&gt;one&lt;/b&gt; town.</p>" in page
    assert "Licence: CC BY 4.0" in page
    # The data are the same to the worker.
    answered(browser)
    assert browser.spent_nano() > 0
    info = DatasetInfo.of(browser.get("/v1/datasets/people").json)
    assert (info.description, info.licence) == ("People of <b>one</b> town.", "CC BY 4.0")


def test_nothing_is_shown_where_nothing_is_said(browser: Browser) -> None:
    assert "Licence:" not in browser.text("/portal/")
