"""Marginal models learnt by a real worker: what is charged, shared with questions, refreshed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qserver.errors import BudgetExhaustedError, InputError
from qserver.records.answer import ModelAnswer
from qserver.records.charge import NANO
from tests.deployment import PEOPLE, ROWS, Deployment
from tests.worker.learn_models import learn as learn_model

BOTH = {"marginals": [["age", "sex"]]}


def learn(at: Deployment, epsilon: float, document: dict[str, Any] | None = None) -> ModelAnswer:
    """Ask for a model and work it off; raises what the service raises."""
    return learn_model(at, "marginals", document or {}, epsilon)


@pytest.fixture
def at(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="1")


def test_a_model_buys_its_marginals_and_counts_on_them_are_free_afterwards(at: Deployment) -> None:
    found = learn(at, 0.5, BOTH)
    assert 0.5 * NANO - 4 <= found.charged_nano <= 0.5 * NANO
    assert at.service().dataset("people").spent_nano == found.charged_nano
    answer = at.ask({"sex": "Female"}, length=120)
    assert (answer.source, answer.charged_nano) == ("history", 0)


def test_a_model_of_history_alone_costs_nothing_and_needs_a_table(at: Deployment) -> None:
    with pytest.raises(InputError, match="no table: buy one"):
        learn(at, 0)
    bought = learn(at, 0.4, BOTH)
    free = learn(at, 0)
    assert free.charged_nano == 0
    assert free.tables == bought.tables


def test_what_a_network_bought_serves_a_marginal_model_for_nothing(at: Deployment) -> None:
    service = at.service()
    document = {"network": {"edges": [["sex", "age"]]}}
    service.models.learn("people", "network", document, NANO // 2, wait_s=0)
    at.work_off()
    free = learn(at, 0)
    assert free.charged_nano == 0
    assert len(free.tables) >= 1


def test_a_model_stays_with_its_version_and_is_refreshed_by_learning_again(
    at: Deployment,
) -> None:
    first = learn(at, 0.2, BOTH)
    models = at.service().models
    before = models.ask("people", first.id, {"marginal": ["sex"], "given": {}}).document
    learn(at, 0.5, BOTH)
    second = learn(at, 0, BOTH)
    assert second.version > first.version
    again = at.service().models.ask("people", first.id, {"marginal": ["sex"], "given": {}})
    assert again.document == before
    facts = [models.one("people", m.id).facts for m in (first, second)]
    assert facts[0] is not None
    assert facts[1] is not None
    assert all(f["gap"] <= 1e-3 * f["noise_loss"] for f in facts if f is not None)


def test_a_model_with_next_to_no_noise_answers_like_the_people(
    tmp_path: Path, store_url: str
) -> None:
    at = Deployment.make(tmp_path, store_url, limit="2000")
    found = learn(at, 1000, BOTH)
    query = at.service().parse("people", {"where": {"sex": "Male", "age": {"between": [20, 24]}}})
    young = sum(1 for age, sex in ROWS if sex == "Male" and age <= 24)
    assert at.service().models.count("people", found.id, query) == pytest.approx(young, abs=1)


def test_what_exceeds_the_budget_is_refused_whole(at: Deployment) -> None:
    with pytest.raises(BudgetExhaustedError):
        learn(at, 1.5, BOTH)
    assert at.service().dataset("people").spent_nano == 0


def test_synthetic_records_are_the_same_for_the_same_seed(at: Deployment) -> None:
    found = learn(at, 0.5, BOTH)
    models = at.service().models
    drawn = list(models.records("people", found.id, 200, seed=4))
    assert drawn == list(models.records("people", found.id, 200, seed=4))
    assert models.columns("people", found.id) == ("age", "sex")
    names = [set(a.value_names) for a in PEOPLE.attributes]
    assert all(age in names[0] and sex in names[1] for age, sex in drawn)
