"""A job is shown to the account that asked and to owners; to others there is none of its id."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from werkzeug.test import TestResponse

from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.account import Caller
from qserver.records.answer import JobStatus
from qserver.storage.accounts import AccountBook
from tests.portal.portal_site import Browser, browser_on, open_browser

QUESTION = {"query": {"where": {"sex": "Female"}}, "length": 60, "confidence": 0.9}
UNKNOWN = "town~000000000000000000000000"


class Town:
    """A server with accounts; `boss` is an owner."""

    def __init__(self, folder: Path, store_url: str) -> None:
        self.browser = open_browser(folder, store_url, is_open=False)
        self._signed_in: dict[str, Browser] = {}
        book: AccountBook = self.browser.book
        self.tokens = {name: book.create(name, role="analyst").text for name in ("ann", "ben")}
        self.tokens["boss"] = book.create("boss", role="owner").text

    def ask(self, name: str) -> str:
        """The job of a question that an account asks."""
        reply = self.browser.client.post(
            "/v1/datasets/people/query", json=QUESTION, headers=self.bearer(name)
        )
        assert reply.status_code == 202, reply.text
        return str(reply.get_json()["id"])

    def bearer(self, name: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[name]}"}

    def signed_in(self, name: str) -> Browser:
        """A browser with the account's token, the same one at each call."""
        if name not in self._signed_in:
            found = self._signed_in[name] = browser_on(self.browser.town, is_open=False)
            assert found.sign_in(self.tokens[name]).status_code == 303
        return self._signed_in[name]

    def replies(self, name: str, job: str) -> dict[str, TestResponse]:
        """Every route of the server that takes a job, as this account gets it."""
        pages = self.signed_in(name)
        found = {}
        for rule in pages.client.application.url_map.iter_rules():
            if "job_id" in rule.arguments:
                path = rule.rule.replace("<job_id>", job).replace("<ending>", "csv")
                assert "<" not in path
                found[rule.rule] = pages.client.get(path, headers=self.bearer(name), buffered=True)
        return found


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Town:
    return Town(tmp_path, store_url)


@pytest.mark.slow
def test_every_route_of_a_job_answers_the_account_that_asked_and_owners_alone(town: Town) -> None:
    job = town.ask("ann")
    town.browser.town.work_off()
    for name in ("ann", "boss"):
        replies = town.replies(name, job)
        assert {"/v1/jobs/<job_id>", "/portal/jobs/<job_id>"} <= replies.keys()
        assert {reply.status_code for reply in replies.values()} == {200}
    for path, reply in town.replies("ben", job).items():
        unknown = town.replies("ben", UNKNOWN)[path]
        assert (reply.status_code, unknown.status_code) == (404, 404)
        assert said(reply, job) == said(unknown, UNKNOWN)


def said(reply: TestResponse, job: str) -> str:
    """What a reply says, without its request's id and the id that was asked for."""
    text = re.sub(r'"request_id": ?"[^"]*"|value="[0-9a-f]{64}"', "", reply.text)
    return text.replace(job, "JOB")


def test_waiting_for_anothers_job_shows_nothing_of_it(town: Town) -> None:
    job = town.ask("ann")
    headers = {**town.bearer("ben"), "Prefer": "wait=1"}
    reply = town.browser.client.get(f"/v1/jobs/{job}", headers=headers)
    assert (reply.status_code, reply.get_json()["code"]) == (404, "not_found")


@pytest.mark.slow
def test_the_list_of_a_browser_leaves_out_jobs_of_another_account(town: Town) -> None:
    """The list is a cookie, which whoever sits at the browser can write."""
    job = town.ask("ann")
    for name, is_shown in (("ann", True), ("ben", False), ("boss", True)):
        browser = town.signed_in(name)
        browser.client.set_cookie("qserver_jobs", job, path="/portal")
        assert (job in browser.text("/portal/jobs")) == is_shown


@pytest.mark.slow
def test_the_same_question_of_two_accounts_is_a_job_of_each(town: Town) -> None:
    mine, other = town.ask("ann"), town.ask("ben")
    assert mine != other
    assert {r.status_code for r in town.replies("ben", mine).values()} == {404}


@pytest.mark.slow
def test_what_was_asked_before_there_were_accounts_is_for_owners(town: Town) -> None:
    service = town.browser.town.service()
    query = service.parse("people", QUESTION["query"])
    job = service.ask("people", Question(query, Requirement(60, 0.9)), wait_s=0)
    assert isinstance(job, JobStatus)
    town.browser.town.work_off()
    assert town.replies("ann", job.id)["/v1/jobs/<job_id>"].status_code == 404
    assert town.replies("boss", job.id)["/v1/jobs/<job_id>"].status_code == 200


def test_an_account_without_a_name_sees_nobodys_job() -> None:
    assert not Caller("", "analyst", "").sees_of("")
    assert not Caller("ann", "analyst", "").sees_of("")
    assert Caller("ann", "analyst", "").sees_of("ann")
