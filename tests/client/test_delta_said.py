"""Under zcdp every face says once at which delta its amounts are epsilon; else none says a word."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from fractions import Fraction
from pathlib import Path

import pytest

from qserver.cli.main import main
from qserver.client import BudgetProblemError
from tests.client.serving import Served, client_of, serving
from tests.client.test_clients import WOMEN
from tests.deployment import Deployment
from tests.portal.portal_site import PEOPLE, Browser, browser_on
from tests.postgres.client import connected

pytestmark = pytest.mark.slow
DELTA = Fraction(1, 10**9)
SAID = "at delta 1e-09"
BY_SEX = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex WITHIN 20"
FEMALE = ("people", "--where", "sex=Female")
COMMANDS = (
    ("sql", f"EXPLAIN {BY_SEX}"),
    ("sql", BY_SEX),
    ("explain", *FEMALE, "--length", "4"),
    ("query", *FEMALE, "--length", "60"),
    ("budget", "people"),
    ("dataset", "show", "people"),
    ("dataset", "list"),
    ("model", "list", "people"),
)


@pytest.fixture
def site(tmp_path: Path, store_url: str) -> Iterator[Served]:
    """People under zcdp."""
    with _served(tmp_path, store_url, DELTA) as found:
        yield found


def _served(
    folder: Path, store_url: str, delta: Fraction | None = None
) -> AbstractContextManager[Served]:
    return serving(Deployment.make(folder, store_url, limit="1000", delta=delta), wait_s=0)


def test_every_face_says_the_delta_once(site: Served, capsys: pytest.CaptureFixture[str]) -> None:
    shown = dict(_shown(site, capsys))
    assert {face: text.count(SAID) for face, text in shown.items()} == dict.fromkeys(shown, 1)


def test_no_face_of_a_pure_population_says_a_word(
    tmp_path: Path, store_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with _served(tmp_path, store_url) as pure:
        for face, text in _shown(pure, capsys):
            assert "delta" not in text, face
        found = client_of(pure).dataset("people")
        assert (found.delta, found.rho) == (None, None)
        assert '"delta"' not in _explained(pure)


def test_programs_are_told_delta_and_rho(site: Served) -> None:
    client = client_of(site)
    answer = client.query("people", WOMEN, length=40)
    assert answer.cost.delta == client.budget("people").delta == 1e-9
    assert client.price(BY_SEX).delta == 1e-9
    assert _explained(site).count('"delta":1e-9') == 1
    found, zcdp = client.dataset("people"), site.town.service().dataset("people").zcdp
    assert zcdp is not None
    assert zcdp.spent_rho_nano > 0
    assert found.rho == (zcdp.spent_rho_nano / 1e9, zcdp.limit_rho_nano / 1e9)
    with pytest.raises(BudgetProblemError) as refused:
        client.query("people", WOMEN, length=0.001)
    assert refused.value.facts["delta"] == 1e-9


def _explained(site: Served) -> str:
    """The price of a question as HTTP sends it."""
    question = {"query": WOMEN, "length": 9, "confidence": 0.9}
    path = ("v1", "datasets", "people", "explain")
    return client_of(site)._driver.http.post(*path, document=question).text


def _shown(site: Served, capsys: pytest.CaptureFixture[str]) -> Iterator[tuple[str, str]]:
    """Names of faces, and what each shows of amounts of epsilon."""
    yield from _by_client(site)
    for words in COMMANDS:
        assert main(words, environ={"QSERVER_URL": site.url}) == 0
        said = capsys.readouterr()
        yield " ".join(words), said.out + said.err
    with connected(site.town.service()) as port:
        port.start()
        for text in (f"EXPLAIN {BY_SEX}", BY_SEX.replace("20", "4")):
            yield f"port: {text}", repr(port.query(text))
    browser = browser_on(site.town, is_open=True)
    for page in ("", "/sql", "/saved", "/budget", "/history", "/models"):
        yield f"page {page}", browser.text(f"{PEOPLE}{page}")
    yield "page of all", browser.text("/portal/")
    yield from _of_owner(site, browser, capsys)


def _of_owner(
    site: Served, browser: Browser, capsys: pytest.CaptureFixture[str]
) -> Iterator[tuple[str, str]]:
    browser.book.create("anna", "analyst")
    environ = {"QSERVER_REDIS_URL": site.town.settings.store_url}
    for command in (
        ("allow", "anna", "--population", site.town.meta.population, "--limit", "0.5"),
        ("list",),
    ):
        assert main(("account", *command), environ=environ) == 0
        yield f"account {command[0]}", capsys.readouterr().out
    for page in ("/portal/owner", f"{PEOPLE}/charges"):
        yield f"page {page}", browser.text(page)
    for change in browser.text("/portal/owner/changes").split("<tr>"):
        if "ε" in change:
            yield f"change {change}", change


def _by_client(site: Served) -> Iterator[tuple[str, str]]:
    client = client_of(site)
    answer = client.query("people", WOMEN, length=40)
    yield "answer", repr(answer)
    yield "answer in a notebook", answer._repr_html_()
    yield "free answer", repr(client.query("people", WOMEN, length=60))
    yield "table", "\n".join(client.sql(BY_SEX).notes())
    yield "price", repr(client.price(BY_SEX))
    yield "budget", repr(client.budget("people"))
    listed = ("people", [["sex"]])
    model = client.models.learn_marginals(*listed, epsilon=1, selection="listed")
    yield "model", repr(model)
    yield "model later", repr(client.models.get("people", model.id))
    with pytest.raises(BudgetProblemError) as refused:
        client.query("people", WOMEN, length=0.001)
    yield "refusal", str(refused.value)
