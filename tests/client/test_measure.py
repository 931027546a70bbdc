"""The choice of what is measured, from the Python client and the command line over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from qserver.cli.main import main
from qserver.client import QuestionProblemError
from qserver.query.requirement import Measure
from qserver.storage.histories import Cursor
from qserver.storage.store import Store
from tests.client.serving import Served, client_of, serving
from tests.deployment import Deployment
from tests.until_tables import LENGTH, Where, next_that_buys
from worker.owner.changes import set_measure

Out = pytest.CaptureFixture[str]


@pytest.fixture
def busy(tmp_path: Path, store_url: str) -> Iterator[tuple[Served, Where]]:
    """A server whose planner would buy tables for the next question, and that question."""
    town = Deployment.make(tmp_path, store_url, limit="1000", phi=0.4)
    where = next_that_buys(town)
    with serving(town, wait_s=0) as served:
        yield served, where


def last_paid(served: Served) -> str:
    changes = Store.open(served.town.settings).changes(served.town.meta, Cursor(), shown_only=False)
    return changes.paid[-1].measure


@pytest.mark.slow
def test_a_client_sees_both_prices_and_pays_the_one_that_it_chose(
    busy: tuple[Served, Where],
) -> None:
    served, where = busy
    client, query = client_of(served), {"where": where}
    prices = {
        measure: client.explain("people", query, length=LENGTH, measure=measure)
        for measure in ("only_this", "auto", None)
    }
    both = prices[None].measure
    assert both is not None
    assert both.chosen == "auto"
    found = prices["only_this"].price, prices["auto"].price
    assert found == (both.only_this, both.auto)
    assert both.only_this != both.auto
    assert both.buys in repr(prices[None])
    answer = client.query("people", query, length=LENGTH, measure="only_this")
    assert answer.cost.charged == both.only_this
    assert last_paid(served) == "only_this"


@pytest.mark.slow
def test_a_statement_says_it_in_its_text_or_beside_it(busy: tuple[Served, Where]) -> None:
    served, where = busy
    client, (low, high) = client_of(served), where["age"]["between"]
    text = f"SELECT COUNT(*) FROM people WHERE age BETWEEN {low} AND {high} WITHIN {LENGTH / 2}"
    said, beside = client.price(f"{text} ONLY THIS"), client.price(text, measure="only_this")
    assert said.price == beside.price != client.price(text).price
    # What the text says goes before what stands beside it.
    assert client.price(f"{text} ONLY THIS", measure="auto").price == said.price
    table = client.sql(f"{text} ONLY THIS")
    assert table.cost.charged == said.price
    assert last_paid(served) == "only_this"


@pytest.mark.slow
def test_a_text_that_ends_with_only_is_refused_at_its_place(busy: tuple[Served, Where]) -> None:
    served, _ = busy
    with pytest.raises(QuestionProblemError, match="say THIS after ONLY"):
        client_of(served).price("SELECT COUNT(*) FROM people WITHIN 20 ONLY")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["explain", "sql"])
def test_the_command_line_shows_both_prices(
    busy: tuple[Served, Where], capsys: Out, command: str
) -> None:
    served, where = busy
    low, high = where["age"]["between"]
    text = f"SELECT COUNT(*) FROM people WHERE age BETWEEN {low} AND {high} WITHIN {LENGTH / 2}"
    question = ["people", "--where", f"age={low}..{high}", "--length", f"{LENGTH:g}"]
    arguments = question if command == "explain" else [text, "--explain"]
    shown = {}
    for option in ("--only-this", "--no-only-this"):
        assert main([command, *arguments, option, "--url", served.url], environ={}) == 0
        shown[option] = capsys.readouterr().out
    assert shown["--only-this"] != shown["--no-only-this"]
    for out in shown.values():
        assert "only this question:" in out
        assert "with what later ones use too:" in out
        assert "age (" in out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("measure", "words"), [("auto", "also what later"), ("only_this", "just the question")]
)
def test_the_command_line_shows_the_owners_choice(
    busy: tuple[Served, Where], capsys: Out, measure: Measure, words: str
) -> None:
    served, _ = busy
    town = served.town
    set_measure("people", measure, settings=town.settings, registry=town.registry)
    assert main(["dataset", "show", "people", "--url", served.url], environ={}) == 0
    assert f"measured by default: {words}" in capsys.readouterr().out
