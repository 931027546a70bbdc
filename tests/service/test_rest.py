"""What fresh noise costs: before asking, and where an answer is longer than asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qserver.answering import both_choices
from qserver.answering.both_choices import rest_nano
from qserver.answering.replica import Replica
from qserver.query.looking import Looking, Selection
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.answer import Answer
from qserver.storage.store import Store
from tests.deployment import Deployment
from tests.service.test_looking import FRESH, TOP, asked, explained
from tests.until_tables import LENGTH


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="100")


def _replica(town: Deployment) -> Replica:
    replica = Replica(town.meta, town.settings, shown_only=True)
    replica.refresh(Store.open(town.settings))
    return replica


def _question(town: Deployment, *, length: float = LENGTH, **where: Any) -> Question:
    query = town.service().parse("people", {"where": where})
    return Question(query, Requirement(length, 0.95))


def test_the_price_of_fresh_noise_stands_beside_the_price_and_is_what_it_costs(
    town: Deployment,
) -> None:
    asked(town, Looking())
    found = explained(town, Looking())
    assert found.price_nano == 0
    fresh = found.measure.independent_nano
    assert fresh
    assert explained(town, TOP).measure.independent_nano == fresh
    assert explained(town, FRESH).measure.independent_nano == fresh
    assert asked(town, FRESH).charged_nano == fresh


def test_no_noise_is_fine_enough_for_a_length_below_the_lattice(town: Deployment) -> None:
    longer = replace(asked(town, Looking()), high=1e9)
    assert rest_nano(_replica(town), _question(town, length=1e-8, sex="Female"), longer) is None


def test_an_answer_that_is_longer_than_asked_says_what_the_rest_costs(town: Deployment) -> None:
    short = asked(town, Looking())
    replica, question = _replica(town), _question(town, sex="Female")
    fresh = explained(town, Looking()).measure.independent_nano
    assert rest_nano(replica, question, short) is None
    longer = replace(short, low=short.high - 1.01 * LENGTH)
    assert rest_nano(replica, question, longer) == fresh
    # An interval that allows for a choice is longer on purpose.
    chosen = replace(longer, selected_from=Selection(64))
    assert rest_nano(replica, question, chosen) is None


def test_worker_and_history_both_say_it(town: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every answer counts as longer than asked here; by luck of the noise one in five is."""
    monkeypatch.setattr(both_choices, "_LONGER", 0.1)
    measured, again = asked(town, Looking()), asked(town, Looking())
    assert (measured.source, again.source) == ("measured", "history")
    price = explained(town, Looking()).measure.independent_nano
    assert measured.rest_nano == again.rest_nano == price
    assert isinstance(measured, Answer)
    text = town.web().post(
        "/v1/datasets/people/query",
        json={"query": {"where": {"sex": "Female"}}, "length": LENGTH, "confidence": 0.95},
    )
    assert text.get_json()["epsilon_rest"] == pytest.approx((price or 0) / 1e9)
