"""What a client looks up: budget, history, jobs and posteriors, against a real server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from xml.etree import ElementTree

import pytest

from qserver.client import (
    AsyncClient,
    BudgetProblemError,
    Client,
    History,
    NotDoneError,
    OwnPrice,
    ServerProblemError,
    requests,
)
from qserver.errors import ConfigError, NotEstimableError
from qserver.records.account import Allowance
from qserver.storage.accounts import AccountBook
from qserver.storage.store import Store
from tests.client.serving import Served, by_token, client_of, serving
from tests.client.test_clients import WOMEN
from tests.deployment import Deployment

MEN = {"where": {"sex": "Male"}}
BY_AGE = "SELECT age, COUNT(*) AS n FROM people GROUP BY age WITHIN 30"


def test_a_budget_says_where_it_went(served: Served) -> None:
    client = client_of(served)
    untouched = client.budget("people")
    assert (untouched.spent, untouched.n_charges, untouched.by_value) == (0.0, 0, None)
    answer = client.query("people", WOMEN, length=40)
    found = client.budget("people", attribute="sex")
    assert found.dataset == "people"
    assert found.spent == found.loss == pytest.approx(answer.cost.charged)
    assert found.remaining == pytest.approx(found.limit - found.spent)
    assert found.by_value == {"Female": found.spent, "Male": 0.0, "other": 0.0}
    assert found.records()[1] == {"sex": "Male", "loss": 0.0}
    assert client.budget("people", where={"sex": "Male"}).loss == 0.0
    assert repr(found).splitlines()[0].split() == ["sex", "loss"]
    assert repr(found).splitlines()[-1].endswith("in 1 charges; the largest loss is 0.1498")
    assert client.budget("people").records() == [
        {"limit": 1000.0, "spent": found.spent, "remaining": found.remaining}
    ]
    for plot, bars in ((found.plot(), 3), (client.budget("people").plot(), 2)):
        root = ElementTree.fromstring(plot.svg)
        assert len(list(root.iter("{http://www.w3.org/2000/svg}rect"))) == bars


def test_history_has_what_was_released_in_order_on_all_pages(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of(served)
    for query in (WOMEN, MEN):
        client.query("people", query, length=40, measure="only_this")
    client.sql(BY_AGE, measure="auto")
    whole = client.history("people")
    assert [found.id for found in whole] == list(range(len(whole)))
    assert len(whole) > 2
    first = whole.released[0]
    assert first.value is not None
    assert first.alpha * first.scale == pytest.approx(1.0, rel=1e-6)
    assert first.document["terms"]
    assert client.released("people", 0) == first
    monkeypatch.setattr(requests, "_PAGE", 1)
    assert client.history("people").released == whole.released
    assert [found.id for found in client.history("people", after=1)] == list(range(2, len(whole)))
    assert client.history("people").records()[0]["value"] == first.value
    assert whole.frame()[2].values[0] == first.value
    assert repr(whole).splitlines()[-1] == f"version {whole.version} of history"
    with pytest.raises(ServerProblemError, match="snapshot"):
        client.history("people", snapshot="0" * 16)


@pytest.mark.slow
def test_a_released_table_has_its_values_when_asked_for_alone(demo_url: str) -> None:
    client = Client(demo_url)
    client.sql("SELECT education, sex, COUNT(*) FROM adult GROUP BY education, sex WITHIN 300")
    tables = [found for found in client.history("adult") if found.value is None]
    assert tables
    assert tables[0].values is None
    alone = client.released("adult", tables[0].id)
    assert alone.values is not None
    assert len(alone.values) == alone.n_cells == tables[0].n_cells > 1


def test_a_long_history_shows_its_beginning() -> None:
    row = {"scale": 1.0, "alpha": 1.0, "value": 5.0}
    rows = [{**row, "id": i} for i in range(30)]
    table = {"id": 30, "scale": 2.0, "alpha": 0.5, "n_cells": 3, "values": None}
    lines = repr(History.of({"rows": [table, *rows], "version": 7})).splitlines()
    assert [line.split()[:3] for line in lines[1:3]] == [["30", "3", "-"], ["0", "1", "5.0"]]
    assert lines[-2:] == ["11 more rows", "version 7 of history"]


def test_a_job_is_submitted_looked_at_and_waited_for(served: Served) -> None:
    client = client_of(served)
    job = client.submit("people", WOMEN, length=40)
    assert (job.state, job.is_over, job.answer) == ("queued", False, None)
    assert client.job(str(job.id)).state == "queued"
    answer = client.result(job)
    assert answer.interval.length <= 40 * (1 + 1e-9)
    after = client.job(str(job.id))
    assert (after.state, after.is_over, after.answer) == ("done", True, answer)
    assert client.result(after) == answer
    again = client.submit("people", WOMEN, length=40)
    assert (again.id, again.state) == (None, "done")
    assert again.answer is not None
    assert again.answer.cost.charged == 0.0
    assert client.result(again).estimate == answer.estimate
    assert served.n_charges() == 1


def test_a_job_is_awaited(served: Served) -> None:
    async def work(_seconds: float) -> None:
        served.town.work_off()

    async def ask() -> float:
        client = AsyncClient(served.url, sleep=work)
        return (await client.result(await client.submit("people", WOMEN, length=40))).estimate

    assert asyncio.run(ask()) == Client(served.url).query("people", WOMEN, length=40).estimate


def test_a_submission_whose_reply_was_lost_is_charged_once(served: Served) -> None:
    served.front.to_lose = 1
    client = client_of(served)
    answer = client.result(client.submit("people", WOMEN, length=40))
    first, second, *_ = served.front.keys
    assert first == second != ""
    assert served.n_charges() == 1
    assert answer.cost.charged > 0


def test_a_job_that_is_too_late_is_named_and_one_that_failed_raises(served: Served) -> None:
    hasty = Client(served.url, wait_s=0.0, sleep=lambda _s: None)
    with pytest.raises(NotDoneError) as caught:
        hasty.query("people", WOMEN, length=40)
    assert hasty.job(caught.value.job).state == "queued"
    late = hasty.submit("people", WOMEN, length=1e-6)
    served.town.work_off()
    failed = hasty.job(str(late.id))
    assert (failed.state, failed.is_over, failed.answer) == ("failed", True, None)
    assert isinstance(failed.problem, BudgetProblemError)
    for job in (late, failed):
        with pytest.raises(BudgetProblemError, match="epsilon"):
            Client(served.url, sleep=lambda _s: None).result(job)


def test_the_job_of_a_table_has_no_answer_to_wait_for(served: Served) -> None:
    hasty = Client(served.url, wait_s=0.0, sleep=lambda _s: None)
    with pytest.raises(NotDoneError) as caught:
        hasty.workload("people", [WOMEN, MEN], length=40)
    served.town.work_off()
    job = hasty.job(caught.value.job)
    assert (job.state, job.answer) == ("done", None)
    with pytest.raises(ConfigError, match="one question"):
        hasty.result(job)


def test_a_posterior_is_what_history_says_and_costs_nothing(served: Served, tmp_path: Path) -> None:
    client = client_of(served)
    with pytest.raises(NotEstimableError):
        client.posterior("people", WOMEN)
    answer = client.query("people", WOMEN, length=40)
    found = client.posterior("people", WOMEN, points=33)
    assert (len(found.thresholds), found.confidence) == (33, 0.95)
    assert tuple(found.interval) == pytest.approx(tuple(answer.interval))
    ends = [found.records()[i] for i in (8, 24)]  # half of the way from the middle
    assert [r["value"] for r in ends] == pytest.approx(list(found.interval))
    assert [r["at_least"] for r in ends] == pytest.approx([0.975, 0.025], abs=1e-3)
    assert list(found.at_least) == sorted(found.at_least, reverse=True)
    said = client.probability("people", WOMEN, at_least=found.thresholds[10])
    assert found.at_least[10] == pytest.approx(said)
    assert repr(found) == f"<Posterior 95 percent within {found.interval}>"
    assert served.n_charges() == 1
    found.plot("Women").save(tmp_path / "p.svg")
    assert "with 95 percent probability" in (tmp_path / "p.svg").read_text(encoding="utf-8")
    assert found._repr_svg_().startswith("<svg")
    with pytest.raises(ConfigError, match="points"):
        client.posterior("people", WOMEN, points=2)


def test_a_posterior_has_the_confidence_that_is_asked(served: Served) -> None:
    client = client_of(served)
    client.query("people", WOMEN, length=400)
    narrow, wide = (client.posterior("people", WOMEN, points=5, confidence=c) for c in (0.5, 0.99))
    assert (narrow.confidence, len(narrow.thresholds)) == (0.5, 5)
    assert narrow.interval.length < wide.interval.length
    assert narrow.at_least[1] == pytest.approx(0.75, abs=1e-3)


def test_a_price_says_what_it_costs_the_accounts_own_allowance(
    tmp_path: Path, store_url: str
) -> None:
    town = Deployment.make(tmp_path, store_url, limit="1000")
    book = AccountBook(Store.open(town.settings).client)
    tokens = [book.create(name, "analyst").text for name in ("bound", "free")]
    book.allow("bound", town.meta.population, Allowance(limit_nano=100_000_000))
    with serving(town, wait_s=0, access=by_token(town)) as served:
        bound, free = (Client(served.url, token=token) for token in tokens)
        price = bound.explain("people", WOMEN, length=40)
        assert price.affordable
        assert price.own == OwnPrice(
            price=price.price,
            affordable=False,
            more_at=None,
            spent=0.0,
            spent_today=0.0,
            limit=0.1,
            per_day=None,
        )
        told = bound.price("SELECT COUNT(*) FROM people WHERE sex = 'Female' WITHIN 20")
        assert told.own == price.own
        assert free.explain("people", WOMEN, length=40).own is None
