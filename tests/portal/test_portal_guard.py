"""Who gets in, and what other origins can do: nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from qserver.api.access import OpenAccess
from qserver.api.app import create_app
from qserver.portal.cookies import form_token, with_job
from qserver.records.account import Token
from tests.portal.portal_site import PEOPLE, SAME_ORIGIN, Browser

PAGES = ("/portal/", PEOPLE, f"{PEOPLE}/budget", f"{PEOPLE}/history", "/portal/jobs")
STATIC = Path(__file__).parents[2] / "qserver" / "portal" / "static"


def test_every_page_but_the_sign_in_sends_a_stranger_there(guarded: Browser) -> None:
    for path in (*PAGES, "/portal/nowhere", "/portal/sign-inn", "/portal/jobs/town~x"):
        response = guarded.get(path)
        assert (response.status_code, response.headers.get("Location")) == (
            303,
            "/portal/sign-in",
        )
    for path in ("ask", "price"):
        sent = guarded.client.post(f"{PEOPLE}/{path}", headers=SAME_ORIGIN)
        assert sent.headers["Location"] == "/portal/sign-in"
    assert guarded.get("/portal/sign-in").status_code == 200
    assert guarded.get("/portal/static/portal.css").status_code == 200


def test_a_token_signs_in_until_signed_out_or_revoked(guarded: Browser) -> None:
    token = guarded.book.create("ann", "analyst").text
    assert guarded.sign_in(Token.new().text).status_code == 401
    assert guarded.sign_in("nonsense").status_code == 401
    assert guarded.get("/portal/").status_code == 303
    welcome = guarded.sign_in(f"  {token} ")
    assert (welcome.status_code, welcome.headers["Location"]) == (303, "/portal/")
    assert "<b>ann</b>" in guarded.text("/portal/")
    out = guarded.post("/portal/sign-out", {})
    assert out.status_code == 303
    assert guarded.get("/portal/").status_code == 303


def test_the_token_cookie_is_for_the_pages_and_out_of_reach(guarded: Browser) -> None:
    token = guarded.book.create("ann", "analyst").text
    cookies = guarded.sign_in(token).headers.getlist("Set-Cookie")
    kept = next(c for c in cookies if c.startswith("qserver_token="))
    for part in ("HttpOnly", "SameSite=Strict", "Path=/portal/"):
        assert part in kept
    assert "Secure" not in kept
    # The JSON interface takes no cookie, even where one is sent.
    plain = guarded.client.application.test_client(use_cookies=False)
    sent = {"Cookie": f"qserver_token={token}"}
    assert plain.get("/portal/", headers=sent).status_code == 200
    assert plain.get("/v1/datasets", headers=sent).status_code == 401
    guarded.client.set_cookie("qserver_token", "", path="/portal/")
    secure = guarded.client.post(
        "/portal/sign-in",
        data={"token": token},
        headers={**SAME_ORIGIN, "X-Forwarded-Proto": "https"},
    )
    told = [c for c in secure.headers.getlist("Set-Cookie") if c.startswith("qserver_token=")]
    assert "Secure" in told[0]


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "https://elsewhere.example"},
        {"Origin": "http://localhost:1"},
        {"Origin": "null"},
    ],
)
def test_a_form_of_another_origin_is_refused_even_with_the_right_token(
    browser: Browser, headers: dict[str, str]
) -> None:
    for path in (f"{PEOPLE}/ask", f"{PEOPLE}/price", "/portal/sign-out"):
        response = browser.post(path, {}, headers=headers)
        assert response.status_code == 403
        assert "Another site sent this form" in response.text
    assert browser.client.post("/portal/sign-in", headers=headers).status_code == 401
    assert browser.spent_nano() == 0


def test_a_form_needs_the_token_of_this_browser(browser: Browser) -> None:
    right = browser.form_token()
    for wrong in ("", "0" * 64, form_token("A" * 22, ""), right[:-1], right + "0", "ä"):
        sent = browser.client.post(f"{PEOPLE}/ask", data={"form_token": wrong}, headers=SAME_ORIGIN)
        assert sent.status_code == 403, wrong
    other = browser.client.application.test_client()
    sent = other.post(f"{PEOPLE}/ask", data={"form_token": right}, headers=SAME_ORIGIN)
    assert sent.status_code == 403
    # The control: the right one passes, also from a browser that sends neither header.
    sent = browser.client.post(f"{PEOPLE}/ask", data={"form_token": right, "length": "40"})
    assert sent.status_code == 303


def test_the_form_token_changes_with_the_account(guarded: Browser) -> None:
    """A form cookie that another page on this host planted is of no use: the token counts too."""
    first = guarded.book.create("ann", "analyst").text
    second = guarded.book.create("ben", "analyst").text
    tokens = []
    for token in (first, second):
        guarded.sign_in(token)
        guarded.client.set_cookie("qserver_form", "A" * 22, path="/portal/")
        tokens.append(guarded.form_token())
    assert tokens == [form_token("A" * 22, first), form_token("A" * 22, second)]
    assert tokens[0] != tokens[1]


def test_an_open_server_is_not_fooled_by_a_name_that_leads_to_it(browser: Browser) -> None:
    for host in ("elsewhere.example", "127.0.0.1.elsewhere.example", "localhost.example:80", "@"):
        for path in ("/portal/", "/v1/datasets"):
            assert browser.get(path, Host=host).status_code == 403
    for host in ("127.0.0.1:8000", "localhost:8000", "[::1]:8000"):
        assert browser.get("/portal/", Host=host).status_code == 200


def test_every_page_has_a_policy_that_lets_nothing_in(browser: Browser) -> None:
    for path in (*PAGES, "/portal/sign-in", "/portal/nowhere"):
        response = browser.get(path)
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        # Nothing that the policy would stop, and nothing from elsewhere.
        assert not re.search(r"<style|style=|\son\w+=", response.text)
        assert not re.search(r"<script(?! defer src=\"/portal/static/)", response.text)
        assert not re.search(r"(?:src|href|action)=\"(?:https?:)?//", response.text)


def test_what_pages_load_is_kept_by_browsers_and_its_address_changes_with_it(
    browser: Browser,
) -> None:
    page = browser.text("/portal/")
    loaded = re.findall(r"(?:src|href)=\"(/portal/static/[^\"]+)\"", page)
    assert len(loaded) >= 6
    for address in loaded:
        assert re.search(r"\?v=[0-9a-f]{12}$", address)
        response = browser.get(address)
        assert response.status_code == 200
        assert "immutable" in response.headers["Cache-Control"]
    assert browser.get("/portal/static/../blueprint.py").status_code == 404
    assert browser.get("/portal/static/missing.js").status_code == 404


def test_what_is_not_ours_has_its_licence_beside_it() -> None:
    names = {path.name for path in (STATIC / "vendor").iterdir()}
    assert names == {
        "htmx.min.js",
        "htmx.LICENSE",
        "uPlot.iife.min.js",
        "uPlot.min.css",
        "uPlot.LICENSE",
    }


def test_a_fault_of_the_server_tells_its_request_and_nothing_else(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_self: object) -> None:
        raise RuntimeError("row 17")

    monkeypatch.setattr("qserver.service.service.Service.datasets", fail)
    response = browser.get("/portal/", **{"X-Request-Id": "r-17"})
    assert response.status_code == 500
    assert "row 17" not in response.text
    assert "Request r-17." in response.text


def test_a_body_that_is_too_large_is_refused(browser: Browser) -> None:
    sent = browser.post(f"{PEOPLE}/price", {"text": "x" * (1 << 17)})
    assert sent.status_code == 413


def test_texts_of_the_asker_are_shown_as_texts(browser: Browser) -> None:
    page = browser.text(f"{PEOPLE}/sql?text=%3Cscript%3Ealert(1)%3C/script%3E")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    page = browser.text(f"{PEOPLE}?from:age=%22%3E%3Cb%3E")
    assert 'value=""><b>' not in page
    assert 'value="&#34;&gt;&lt;b&gt;"' in page


def test_jobs_are_kept_once_each_and_not_without_end() -> None:
    jobs = with_job(["a", "b"], "b").split("/")
    assert jobs == ["b", "a"]
    assert len(with_job([str(i) for i in range(40)], "x").split("/")) == 12


def test_without_the_setting_there_are_no_pages(browser: Browser) -> None:
    service = browser.town.service()
    app = create_app(service, access=OpenAccess(), wait_s=1, max_body_bytes=4096)
    api_client = app.test_client()
    assert api_client.get("/portal/").status_code == 404
    assert api_client.get("/").status_code == 404
