"""An owner asks in the browser, and nothing happens until the owner confirms where it runs."""

from __future__ import annotations

import io
import json
import re

import pytest

from qserver.cli.main import main as server
from qserver.errors import CapacityError
from qserver.query.domain_file import domain_to_document
from qserver.storage.keys import WISHES
from qserver.storage.server.connection import StoreClient
from qserver.storage.wishes import MOST, Wishes
from tests.deployment import PEOPLE as PEOPLE_DOMAIN
from tests.portal.portal_site import SAME_ORIGIN, Browser
from tests.portal.test_owner_pages import signed_in
from worker.cli import main as worker

pytestmark = [
    pytest.mark.promise(
        "Accounts",
        "what an owner asks for in the browser changes nothing until it is confirmed on the trusted"
        " side, as it is shown there",
    ),
]
PLACE = "/portal/owner/requests"
Out = pytest.CaptureFixture[str]


def limit(browser: Browser) -> int:
    return browser.town.service().dataset("people").limit_nano


def asked(browser: Browser, kind: str, **values: str) -> str:
    """The digest of a wish that is filed now."""
    response = browser.post(f"{PLACE}/{kind}", values)
    assert response.status_code == 303, response.text
    digest = response.headers["Location"].partition("#")[2]
    assert f"confirm {digest} --state STATE" in browser.text(PLACE)
    return digest


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def place(browser: Browser) -> list[str]:
    settings = browser.town.settings
    return ["--state", str(settings.state_dir), "--redis-url", settings.redis_url]


def test_a_top_up_is_filed_read_confirmed_and_done_once(
    guarded: Browser, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    digest, before = (
        asked(signed_in(guarded, "boss", "owner"), "top-up", population="town", to="3"),
        limit(guarded),
    )
    assert worker(["requests", *place(guarded)]) == 0
    assert "qserver-worker top-up town --to=3" in capsys.readouterr().out
    for text in ("", "no\n", "y\n"):
        typed(monkeypatch, text)
        assert worker(["confirm", digest, *place(guarded)]) == 1
        assert (
            "Raise the limit of population town to 3 epsilon, for ever." in capsys.readouterr().err
        )
    assert limit(guarded) == before
    typed(monkeypatch, "yes\n")
    assert worker(["confirm", digest, *place(guarded)]) == 0
    assert limit(guarded) == 3 * 10**9
    typed(monkeypatch, "yes\n")
    assert worker(["confirm", digest, *place(guarded)]) == 1
    assert digest not in guarded.text(PLACE)


def test_accounts_and_allowances_are_confirmed_by_the_owners_commands(
    guarded: Browser, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    signed_in(guarded, "boss", "owner")
    made = asked(guarded, "create", name="eve", role="analyst")
    bound = asked(guarded, "allow", name="eve", population="town", per_day="0.2")
    assert worker(["confirm", made, *place(guarded)]) == 1
    for digest in (made, bound):
        typed(monkeypatch, "yes\n")
        assert server(["account", "confirm", digest, *place(guarded)[2:]], environ={}) == 0
    assert len(capsys.readouterr().out.splitlines()[0]) > 30  # the token
    assert guarded.book.allowance("eve", "town").pace_nano == 2 * 10**8
    gone = asked(guarded, "revoke", name="eve")
    assert server(["account", "confirm", gone, "--drop", *place(guarded)[2:]], environ={}) == 0
    assert guarded.book.account("eve").token_id
    assert server(["account", "requests", *place(guarded)[2:]], environ={}) == 0
    assert "none waits" in capsys.readouterr().out


def test_an_attach_is_the_commands_own_with_its_refusals(
    guarded: Browser, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    signed_in(guarded, "boss", "owner")
    folder = guarded.town.settings.state_dir
    domain = folder / "d.json"
    domain.write_text(json.dumps(domain_to_document(PEOPLE_DOMAIN)))
    (folder / "more.csv").write_text("age,sex\n20,Male\n21,Female\n")
    files = {"data": str(folder / "more.csv"), "domain": str(domain), "limit": "0.5"}
    wrong = asked(guarded, "attach", name="more", population="town", **{**files, "limit": "7"})
    typed(monkeypatch, "yes\n")
    assert worker(["confirm", wrong, *place(guarded)]) == 1
    assert "be the limit that population town has" in capsys.readouterr().err
    assert wrong in guarded.text(PLACE)
    right = asked(guarded, "attach", name="more", population="town", **files)
    typed(monkeypatch, "yes\n")
    assert worker(["confirm", right, *place(guarded)]) == 0
    assert guarded.town.service().dataset("more").population == "town"


def test_only_owners_file_and_only_by_our_forms(guarded: Browser) -> None:
    fields = {"population": "town", "to": "9"}
    signed_in(guarded, "ann", "analyst")
    assert guarded.get(PLACE).status_code == 403
    assert guarded.post(f"{PLACE}/top-up", fields).status_code == 403
    signed_in(guarded, "boss", "owner")
    assert (
        guarded.client.post(f"{PLACE}/top-up", data=fields, headers=SAME_ORIGIN).status_code == 403
    )
    for kind, wrong in (
        ("run", {}),
        ("top-up", {"population": "town"}),
        ("top-up", {**fields, "state": "x"}),
    ):
        response = guarded.post(f"{PLACE}/{kind}", wrong)
        assert response.status_code == 422
        assert re.search("must be", response.text)
    assert Wishes(guarded.book._client).all() == []


def test_a_store_that_swaps_the_text_under_a_digest_is_refused(
    guarded: Browser, redis_client: StoreClient, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    signed_in(guarded, "boss", "owner")
    digest = asked(guarded, "top-up", population="town", to="3")
    other = asked(guarded, "top-up", population="town", to="900")
    text, before = str(redis_client.hget(WISHES, other)), limit(guarded)
    for planted in (text, "{}", "no json", text.replace("900", "4")):
        redis_client.hset(WISHES, digest, planted)
        typed(monkeypatch, "yes\n")
        assert worker(["confirm", digest, *place(guarded)]) == 1
        assert "not_found" in capsys.readouterr().err
    assert limit(guarded) == before


def test_old_and_too_many_wishes_do_not_wait(redis_client: StoreClient) -> None:
    now = [10**9]
    wishes = Wishes(redis_client, wall_clock=lambda: now[0])
    old = wishes.add("top-up", {"population": "town", "to": "3"}, by="boss")
    now[0] += 8 * 86_400
    assert wishes.all() == []
    for i in range(MOST - 1):
        last = wishes.add("revoke", {"name": f"a{i}"}, by="boss")
    with pytest.raises(CapacityError, match="wait already"):
        wishes.add("revoke", {"name": "b"}, by="boss")
    wishes.drop(last.digest)
    assert not redis_client.hexists(WISHES, old.digest)
    assert wishes.add("revoke", {"name": "b"}, by="boss") in wishes.all()
