"""The owner's pages: what is overseen, the audit log with its files, and nobody else gets in."""

from __future__ import annotations

import csv
import html
import io
import re
import shlex

import pytest

from qserver.cli.console import Console
from qserver.cli.main import build_parser as server_parser
from qserver.cli.runtime import Runtime
from qserver.portal import numbers
from qserver.portal.pages.owner import change_line
from qserver.records.account import Allowance
from qserver.service.ledger import AuditEntry
from qserver.storage.spend import SpendingStore
from tests.portal.portal_site import PEOPLE, Browser
from worker.parser import build_parser as worker_parser

OWNERS = (
    "/portal/owner",
    "/portal/owner/changes",
    "/portal/owner/changes.csv",
    f"{PEOPLE}/charges",
    f"{PEOPLE}/charges.csv",
)


def signed_in(browser: Browser, name: str, role: str) -> Browser:
    browser.sign_in(browser.book.create(name, role).text)  # type: ignore[arg-type]
    return browser


def file_rows(browser: Browser, path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(browser.text(path))))


def test_only_an_owner_gets_in_and_only_an_owner_is_shown_the_way(guarded: Browser) -> None:
    signed_in(guarded, "ann", "analyst")
    assert 'href="/portal/owner"' not in guarded.text("/portal/")
    for path in OWNERS:
        response = guarded.get(path)
        assert response.status_code == 403, path
        assert "Only an owner may read this page." in response.text
        assert "town" not in response.text
    signed_in(guarded, "boss", "owner")
    assert 'href="/portal/owner"' in guarded.text("/portal/")
    for path in OWNERS:
        assert guarded.get(path).status_code == 200, path


def test_the_page_shows_budgets_promises_and_who_spent_what(guarded: Browser) -> None:
    signed_in(guarded, "ann", "analyst")
    guarded.book.allow("ann", "town", Allowance(limit_nano=3 * 10**8, pace_nano=2 * 10**8))
    paid = guarded.town.ask({"age": 22}, by="ann").charged_nano
    guarded.book.create("bob", "analyst")
    guarded.book.revoke("bob")
    page = signed_in(guarded, "boss", "owner").text("/portal/owner")
    facts = dict(re.findall(r"<dt>([^<]*)</dt><dd[^>]*>(.*?)</dd>", page))
    assert facts["Limit"] == "0.5 ε"
    assert facts["Spent"] == numbers.price(paid)
    assert facts["Records of a person"] == "at most 1, as declared"
    assert facts["Charges"] == "1"
    assert facts["Attributes"] == "2, 33 cells"
    spending = re.search(r'<th scope="row">ann</th>(.*?)</tr>', page, re.DOTALL)
    assert spending
    cells = re.findall(r">([^<>\n]+)</td>", spending[1])
    assert cells[2:5] == ["1", "0.3", "0.2"]
    accounts = page.split('id="accounts"')[1]
    assert re.search(r'bob</th><td>analyst</td><td><span class="bad">revoked', accounts)
    assert re.search(r"boss</th><td>owner</td><td>in force", accounts)


def test_the_commands_of_the_page_are_those_of_the_programs(browser: Browser) -> None:
    found = re.findall(r"<code>(qserver[^<]*STATE)</code>", browser.text("/portal/owner"))
    assert len(found) == 7
    runtime = Runtime(console=Console(out=io.StringIO(), err=io.StringIO()), environ={})
    programs = {"qserver": server_parser(runtime), "qserver-worker": worker_parser()}
    for command in found:
        program, *arguments = shlex.split(html.unescape(command))
        programs[program].parse_args(arguments)


def test_the_changes_are_told_in_words_and_had_as_a_file(guarded: Browser) -> None:
    signed_in(guarded, "boss", "owner")
    guarded.book.create("ann", "analyst")
    guarded.book.allow("ann", "town", Allowance(limit_nano=3 * 10**8))
    guarded.book.allow("ann", "town", Allowance())
    guarded.book.revoke("ann")
    owner = SpendingStore.open(guarded.town.settings).owner
    owner.raise_limit("town", limit_nano=7 * 10**8)
    owner.set_measure(guarded.town.meta, "only_this")
    page = guarded.text("/portal/owner/changes")
    told = re.findall(r'<td>([a-z ]+)</td><td class="what">([^<]*)</td>', page)
    wanted = [
        ("dataset attached", "people in population town, limit 0.5 ε"),
        ("account created", "boss, owner"),
        ("account created", "ann, analyst"),
        ("allowance set", "ann on town: 0.3 ε in all"),
        ("allowance set", "ann on town: no bound of its own"),
        ("token revoked", "ann, analyst"),
        ("limit raised", "population town: from 0.5 to 0.7 ε"),
        ("measure set", "people: only_this"),
    ]
    assert told == wanted[::-1]
    rows = file_rows(guarded, "/portal/owner/changes.csv")
    assert [(row["kind"], row["what"]) for row in rows] == wanted
    log = guarded.town.service().ledger.changes(after=-1, limit=50)
    assert [row["digest"] for row in rows] == [entry.digest for entry in log.entries]


def test_the_charges_say_who_paid_for_what(guarded: Browser) -> None:
    signed_in(guarded, "boss", "owner")
    guarded.town.ask({"age": {"between": [22, 24]}, "sex": "Female"}, by="ann", length=60)
    guarded.town.ask({"age": 25}, by="boss")
    page = guarded.text(f"{PEOPLE}/charges")
    told = re.findall(r'<td class="what"><a href="([^"]*)">([^<]*)</a>', page)
    assert [text for _, text in told] == ["age 25", "age 22 to 24, sex Female"]
    assert guarded.get(told[0][0]).status_code == 200
    rows = file_rows(guarded, f"{PEOPLE}/charges.csv")
    assert [(r["account"], r["dataset"], r["what"]) for r in rows] == [
        ("ann", "people", "age 22 to 24, sex Female"),
        ("boss", "people", "age 25"),
    ]
    spent = guarded.town.service().ledger.charges("people", after=-1, limit=9)
    assert [row["digest"] for row in rows] == [entry.digest for entry in spent.entries]


def test_the_log_goes_page_by_page_from_its_end_to_its_beginning(
    guarded: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qserver.portal.pages.owner._PAGE_SIZE", 2)
    monkeypatch.setattr("qserver.portal.pages.owner._READ_AT_ONCE", 2)
    signed_in(guarded, "boss", "owner")
    for name in ("ann", "bob", "cem"):
        guarded.book.create(name, "analyst")
    found, path = [], "/portal/owner/changes"
    while path:
        page = guarded.text(path)
        found.append(re.findall(r'class="what">([^<]*)</td>', page))
        older = re.search(r'href="([^"]*)">Older', page)
        path = older[1] if older else ""
    # Five entries; the last page begins with the first of them.
    assert found == [
        ["cem, analyst", "bob, analyst"],
        ["ann, analyst", "boss, owner"],
        ["boss, owner", "people in population town, limit 0.5 ε"],
    ]
    first = guarded.text("/portal/owner/changes?after=-1")
    assert "people in population town" in first
    assert "Older" not in first
    assert "Newer" in first
    assert guarded.get("/portal/owner/changes?after=x").status_code == 200
    assert len(file_rows(guarded, "/portal/owner/changes.csv")) == 5


def test_a_change_of_another_version_is_told_as_it_is() -> None:
    text = '{"kind": "moon moved", "at": 5, "prev": "", "by": 3}'
    assert change_line(AuditEntry(0, text, "d"), {}).text == '{"by": 3}'
