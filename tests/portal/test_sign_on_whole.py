"""Single sign-on over real HTTP, with a provider in a process of its own that demands PKCE."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from joserfc import jwt
from joserfc.jwk import RSAKey

from qserver.records.account import Allowance
from tests.portal.office import Office, providing, serving
from tests.postgres.client import connected, message, startup

pytestmark = [
    pytest.mark.slow,
    pytest.mark.promise(
        "Accounts",
        "single sign-on against a real provider: expired, of another audience, issuer, key or "
        "sign-in, unsigned, shut out",
    ),
]
BACK = "/portal/sign-in/back"


class Browser:
    """Follows links by hand, and keeps cookies."""

    def __init__(self, office: Office) -> None:
        self.office = office
        self.session = requests.Session()

    def get(self, url: str) -> requests.Response:
        return self.session.get(url, allow_redirects=False, timeout=60)

    def begin(self, who: str = "ann") -> str:
        """The address to which the provider sends the browser back."""
        asked = self.get(f"{self.office.url}/portal/sign-in/start")
        assert asked.status_code == 303, asked.text
        given = self.get(f"{asked.headers['Location']}&as={who}")
        assert given.status_code == 302, given.text
        return given.headers["Location"]

    def sign_in(self, who: str = "ann") -> requests.Response:
        return self.get(self.begin(who))

    def is_in(self) -> bool:
        return self.get(f"{self.office.url}/portal/").status_code == 200


@pytest.fixture
def office(tmp_path: Path, store_url: str) -> Iterator[Office]:
    with providing() as provider, serving(tmp_path, store_url, provider) as office:
        yield office


@pytest.fixture
def browser(office: Office) -> Browser:
    return Browser(office)


def test_a_person_signs_in_and_is_an_account_of_the_group(browser: Browser) -> None:
    office = browser.office
    assert not browser.is_in()
    assert f'href="{BACK[:-5]}/start"' in browser.get(f"{office.url}/portal/sign-in").text
    assert browser.sign_in().status_code == 200
    assert browser.is_in()
    assert "analysts/ann" in browser.get(f"{office.url}/portal/").text
    # The online side made nothing.
    assert [account.name for account in office.book.accounts()] == ["analysts/"]


def test_the_code_is_asked_for_with_pkce_state_and_nonce_that_never_repeat(
    browser: Browser,
) -> None:
    start = f"{browser.office.url}/portal/sign-in/start"
    sent = [parse_qs(urlsplit(browser.get(start).headers["Location"]).query) for _ in range(2)]
    for name in ("state", "nonce", "code_challenge"):
        assert len({query[name][0] for query in sent}) == 2
    assert sent[0]["code_challenge_method"] == ["S256"]
    assert "openid" in sent[0]["scope"][0].split()


def test_an_answer_of_the_provider_counts_once(browser: Browser) -> None:
    back = browser.begin()
    cookies = browser.session.cookies.copy()
    assert browser.get(back).status_code == 200
    # Neither again, nor with the cookie that the browser had before.
    assert "did not begin here" in browser.get(back).text
    again = Browser(browser.office)
    again.session.cookies = cookies
    assert "did not sign you in" in again.get(back).text
    assert not again.is_in()


def test_an_answer_in_another_browser_signs_nobody_in(browser: Browser) -> None:
    other = Browser(browser.office)
    other.begin()
    refused = other.get(browser.begin())
    assert refused.status_code == 401
    assert "did not begin here" in refused.text
    assert not other.is_in()


WRONG: dict[str, dict[str, object]] = {
    "expired": {"shift_s": -361},
    "clock ahead": {"shift_s": 90},
    "wrong audience": {"aud": "another"},
    "wrong issuer": {"iss": "https://id.example"},
    "replayed nonce": {"nonce": "of-another-sign-in"},
}


def test_a_wrong_id_token_signs_nobody_in(browser: Browser) -> None:
    for name, faults in WRONG.items():
        browser.office.provider.faults(**faults)
        assert browser.sign_in().status_code == 401, name
        assert not browser.is_in(), name
    browser.office.provider.faults()
    assert browser.sign_in().status_code == 200


def test_a_clock_that_is_nearly_a_minute_off_does_no_harm(browser: Browser) -> None:
    for shift_s in (-50, 50):
        browser.office.provider.faults(shift_s=shift_s)
        assert browser.sign_in().status_code == 200


def test_who_is_in_no_group_that_was_let_in_is_told_so(browser: Browser) -> None:
    browser.office.provider.groups("eve", "choir")
    refused = browser.sign_in("eve")
    assert refused.status_code == 401
    assert "qserver account let-in GROUP/" in refused.text


def test_who_is_shut_out_stays_out_until_let_in_again(browser: Browser) -> None:
    office = browser.office
    office.book.revoke("analysts/ann")
    assert browser.sign_in().status_code == 401
    assert office.get("/v1/datasets", office.provider.token("ann")).status_code == 401
    office.book.let_in("analysts/ann", "analyst")
    assert browser.sign_in().status_code == 200


def test_a_rotated_key_counts_and_the_one_before_ends(office: Office) -> None:
    first, old = office.provider.token("ann"), office.provider.token("ben")
    assert office.get("/v1/datasets", first).status_code == 200
    office.provider.rotate()
    new = office.provider.token("ann")
    # Not even a flood of unknown keys makes us read them more often than every ten seconds.
    assert office.get("/v1/datasets", new).status_code == 401
    office.uptime[0] += 10
    assert office.get("/v1/datasets", new).status_code == 200
    assert office.get("/v1/datasets", old).status_code == 401


def test_while_the_provider_is_away_nobody_signs_in_and_its_tokens_count(browser: Browser) -> None:
    office = browser.office
    first, other = office.provider.token("ann"), office.provider.token("ben")
    assert office.get("/v1/datasets", first).status_code == 200
    back = browser.begin()
    office.provider.stop()
    office.uptime[0] += 3600
    assert office.get("/v1/datasets", other).status_code == 200
    refused = browser.get(back)
    assert refused.status_code == 401
    assert "did not sign you in" in refused.text
    assert not browser.is_in()


def test_a_provider_that_was_never_reached_lets_nobody_in(office: Office) -> None:
    token = office.provider.token("ann")
    office.provider.stop()
    assert office.get("/v1/datasets", token).status_code == 401
    asked = Browser(office).get(f"{office.url}/portal/sign-in/start")
    assert "cannot be reached" in asked.text


def unsigned(token: str) -> str:
    head = urlsafe_b64encode(b'{"alg":"none","kid":"first"}').rstrip(b"=").decode()
    return f"{head}.{token.split('.')[1]}."


def by_another_key(token: str, office: Office) -> str:
    key = RSAKey.generate_key(2048, {"kid": "first"})
    provided = requests.get(f"{office.provider.url}/keys", timeout=30).json()["keys"]
    public = RSAKey.import_key(provided[0])
    return jwt.encode({"alg": "RS256", "kid": "first"}, jwt.decode(token, public).claims, key)


def test_a_forged_token_of_a_program_is_refused(office: Office) -> None:
    token = office.provider.token("ann")
    assert office.get("/v1/datasets", token).status_code == 200
    for forged in (unsigned(token), by_another_key(token, office), token[:-8] + "AAAAAAAA"):
        assert office.get("/v1/datasets", forged).status_code == 401


def test_a_token_of_the_provider_is_a_password_for_postgresql(office: Office) -> None:
    for password, is_in in ((office.provider.token("ann"), True), ("a.b.c", False)):
        with connected(office.town.service(), access=office.access) as client:
            client.send(startup())
            assert client.message() == (b"R", b"\0\0\0\3")
            client.send(message(b"p", password.encode() + b"\0"))
            if is_in:
                assert b"session_authorization\0analysts/ann\0" in client.until().of(b"S")
            else:
                assert client.last()["C"] == "28P01"


def test_what_a_group_has_spent_none_of_its_members_can_spend_again(office: Office) -> None:
    """Ann pays all that the group was allowed; Ben, whom nobody saw before, gets nothing."""
    query = {"query": {"where": {"age": {"below": 25}}}, "length": 40, "confidence": 0.95}
    other = {"query": {"where": {"sex": "Female"}}, "length": 40, "confidence": 0.95}
    sent = {"Authorization": f"Bearer {office.provider.token('ann')}"}
    explained = requests.post(
        f"{office.url}/v1/datasets/people/explain", json=query, headers=sent, timeout=60
    ).json()
    limit_nano = round(explained["price"] * 1e9)
    office.book.allow("analysts/", "town", Allowance(limit_nano=limit_nano))
    for who, body, state in (("ann", query, "done"), ("ben", other, "failed")):
        sent = {"Authorization": f"Bearer {office.provider.token(who)}"}
        url = f"{office.url}/v1/datasets/people/query"
        job = requests.post(url, json=body, headers=sent, timeout=60).json()
        assert "id" in job, job
        office.town.work_off()
        found = requests.get(f"{office.url}/v1/jobs/{job['id']}", headers=sent, timeout=60).json()
        assert found["state"] == state, found
    assert found["problem"]["code"] == "allowance_exhausted"
