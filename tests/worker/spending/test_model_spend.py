"""Networks learnt by a real worker from real tables: what is charged, kept and told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qserver.errors import (
    BudgetExhaustedError,
    CapacityError,
    InputError,
    NetworkError,
    NotFoundError,
    QServerError,
)
from qserver.models.network.bif import read_bif, write_bif
from qserver.models.network.network import network_of_counts
from qserver.models.network.structure import structure_of_edges
from qserver.records.answer import JobStatus, ModelAnswer
from qserver.records.charge import NANO
from qserver.records.history import TableMeasurement
from qserver.service import models as model_service
from qserver.storage.server.connection import StoreClient
from qserver.storage.store import Store
from tests.deployment import PEOPLE, ROWS, Deployment
from tests.worker.crashes import STEPS, die_at
from tests.worker.learn_models import learn as learn_model

EDGE = {"network": {"edges": [["sex", "age"]]}}


def learn(
    at: Deployment, epsilon: float = 0.5, document: dict[str, Any] | None = None
) -> ModelAnswer:
    """Ask for a network and work it off; raises what the service raises."""
    return learn_model(at, "network", document or EDGE, epsilon)


@pytest.fixture
def at(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="1")


def test_a_network_buys_its_tables_and_counts_on_them_are_free_afterwards(at: Deployment) -> None:
    found = learn(at, 0.5)
    assert 0.5 * NANO - 4 <= found.charged_nano <= 0.5 * NANO
    status = at.service().dataset("people")
    assert status.spent_nano == found.charged_nano
    assert found.remaining_nano == NANO - found.charged_nano
    released = Store.open(at.settings).models.history(at.meta, found.version)
    assert [m.id for m in released if isinstance(m, TableMeasurement)] == list(found.tables)
    answer = at.ask({"sex": "Female"}, length=120)
    assert (answer.source, answer.charged_nano) == ("history", 0)
    at.work_off()
    assert [m.learnt.id for m in at.service().models.all("people")] == [found.id]
    _check_synthetic_records(at, found)
    _check_that_no_parameter_is_kept(at, found)


def _check_synthetic_records(at: Deployment, found: ModelAnswer) -> None:
    models = at.service().models
    assert models.columns("people", found.id) == ("age", "sex")
    drawn = list(models.records("people", found.id, 300, seed=4))
    assert drawn == list(models.records("people", found.id, 300, seed=4))
    names = [set(a.value_names) for a in PEOPLE.attributes]
    assert len(drawn) == 300
    assert all(r[0] in names[0] and r[1] in names[1] for r in drawn)


def _check_that_no_parameter_is_kept(at: Deployment, found: ModelAnswer) -> None:
    kept = Store.open(at.settings).models.all(at.meta)
    text = json.dumps([vars(m.answer) | {"asked": m.asked.specification} for m in kept])
    for cpd in read_bif(at.service().models.export("people", found.id)).cpds:
        assert all(repr(float(p)) not in text for p in np.ravel(cpd))


def test_under_replace_one_the_same_tables_cost_twice(tmp_path: Path, store_url: str) -> None:
    at = Deployment.make(tmp_path, store_url, limit="1", relation="replace-one", k=2)
    found = learn(at, 0.5)
    assert 0.5 * NANO - 16 <= found.charged_nano <= 0.5 * NANO


def test_the_parameters_follow_from_the_version_whatever_comes_later(at: Deployment) -> None:
    first = learn(at, 0.3)
    service = at.service()
    before = service.models.export("people", first.id)
    learn(at, 0.3)
    at.ask({"age": 23}, length=60)
    assert at.service().models.export("people", first.id) == before
    assert service.models.export("people", first.id) == before


def test_a_second_network_raises_the_tables_of_the_first(at: Deployment) -> None:
    first = learn(at, 0.3)
    second = learn(at, 0.2)
    assert second.tables == first.tables
    assert 0.2 * NANO - 4 <= second.charged_nano <= 0.2 * NANO
    released = Store.open(at.settings).models.history(at.meta, second.version)
    alphas = [m.alpha_nano for m in released if isinstance(m, TableMeasurement)]
    assert sum(alphas) == first.charged_nano + second.charged_nano


def test_history_alone_makes_a_network_for_nothing(at: Deployment) -> None:
    with pytest.raises(NetworkError, match="must be bought"):
        learn(at, 0)
    bought = learn(at, 0.4)
    free = learn(at, 0)
    assert free.charged_nano == 0
    assert free.tables == bought.tables
    models = at.service().models
    text = models.export("people", free.id)
    assert text == models.export("people", bought.id)
    again = learn(at, 0, {"network": text})
    assert again.tables == bought.tables
    assert read_bif(text).structure.edges == (("sex", "age"),)


def test_what_exceeds_the_budget_is_refused_whole(at: Deployment) -> None:
    with pytest.raises(BudgetExhaustedError):
        learn(at, 1.5)
    assert at.service().dataset("people").spent_nano == 0


@pytest.mark.parametrize("allocation", ["uniform", "arxiv", "icml"])
def test_a_wider_table_of_history_serves_an_allocation_that_wants_a_narrow_one(
    at: Deployment, allocation: str
) -> None:
    """Sex alone is read off the table of both attributes, and nothing is bought."""
    bought = learn(at, 0.4)
    document = {"network": {"edges": [], "variables": ["sex"]}, "allocation": allocation}
    free = learn(at, 0, document)
    assert (free.charged_nano, free.tables) == (0, bought.tables)
    models = at.service().models
    found = models.ask("people", free.id, {"marginal": ["sex"], "given": {}}).document
    expected = models.ask("people", bought.id, {"marginal": ["sex"], "given": {}}).document
    assert found["probabilities"] == pytest.approx(expected["probabilities"], abs=0.05)


@pytest.mark.parametrize("allocation", ["rows", "uniform"])
def test_other_allocations_buy_only_what_history_lacks(at: Deployment, allocation: str) -> None:
    document = {**EDGE, "allocation": allocation}
    first = learn(at, 0.4, document)
    assert 0.4 * NANO - 4 <= first.charged_nano <= 0.4 * NANO
    again = learn(at, 0.4, document)
    assert again.charged_nano == 0
    assert at.service().dataset("people").spent_nano == first.charged_nano


def test_a_learnt_network_answers_like_the_people_do(tmp_path: Path, store_url: str) -> None:
    """With next to no noise its answers are the shares in the data."""
    at = Deployment.make(tmp_path, store_url, limit="2000")
    found = learn(at, 1000)
    models = at.service().models
    sexes = [sex for _, sex in ROWS]
    answer = models.ask("people", found.id, {"marginal": ["sex"], "given": {}}).document
    share = answer["probabilities"][answer["labels"][0].index("Female")]
    assert share == pytest.approx(sexes.count("Female") / len(ROWS), abs=1e-3)
    given = models.ask("people", found.id, {"marginal": ["sex"], "given": {"age": "23"}}).document
    of_23 = [sex for age, sex in ROWS if age == 23]
    share = given["probabilities"][given["labels"][0].index("Female")]
    assert share == pytest.approx(of_23.count("Female") / len(of_23), abs=1e-2)
    query = at.service().parse("people", {"where": {"sex": "Male", "age": {"between": [20, 24]}}})
    young = sum(1 for age, sex in ROWS if sex == "Male" and age <= 24)
    assert models.count("people", found.id, query) == pytest.approx(young, abs=1)
    best = models.ask("people", found.id, {"most_probable": None, "given": {"sex": "Male"}})
    assert set(best.document["labels"]) == {"age"}


def _wide(n_parents: int) -> str:
    """BIF of a variable with so many parents, none of them an attribute of the dataset."""
    names = [f"v{i}" for i in range(n_parents + 1)]
    labels = dict.fromkeys(names, ("0", "1"))
    structure = structure_of_edges(labels, [(p, names[-1]) for p in names[:-1]])
    shapes = [structure.family_shape(i) for i in range(len(names))]
    return write_bif(network_of_counts(structure, [np.ones(shape) for shape in shapes]))


def test_models_that_cannot_be_are_refused_before_a_job(at: Deployment) -> None:
    service = at.service()
    bad: list[dict[str, Any]] = [
        {"network": {"edges": [["sex", "height"]]}},
        {"network": {"edges": [["sex", "age"], ["age", "sex"]]}},
        {"network": {"edges": [["sex"]]}},
        {"network": {"edges": "sex"}},
        {"network": {"edges": [], "variables": ["sex", "sex"]}},
        {"network": {"edges": [], "more": 1}},
        {"network": "no network"},
        {"network": None},
        {"network": _wide(9)},
        {**EDGE, "allocation": "most"},
    ]
    for document in bad:
        with pytest.raises(NetworkError):
            service.models.learn("people", "network", document, NANO, wait_s=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_service, "MAX_MODELS", 0)
        with pytest.raises(CapacityError, match="at most 0 models"):
            service.models.learn("people", "network", EDGE, NANO, wait_s=0)
    with pytest.raises(InputError, match="kind"):
        service.models.learn("people", "tree", EDGE, NANO, wait_s=0)
    with pytest.raises(InputError, match="epsilon"):
        service.models.learn("people", "network", EDGE, -1, wait_s=0)
    for missing in ("town~0123", "nothing"):
        with pytest.raises(NotFoundError):
            service.models.one("people", missing)
    with pytest.raises(QServerError):
        service.models.all("nobody")


@pytest.mark.parametrize("n_names", [2, 100_000])
def test_variables_that_are_named_again_are_refused(at: Deployment, n_names: int) -> None:
    """The number of cells of so many names could not even be printed."""
    found, models = learn(at), at.service().models
    with pytest.raises(NetworkError, match="`marginal` must name each variable once"):
        models.ask("people", found.id, {"marginal": ["age"] * n_names, "given": {}})


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("step", "n_charged"), [STEPS[0], STEPS[-3], *STEPS[-2:]])
def test_a_crash_at_any_step_charges_once_and_keeps_one_model_or_none(
    at: Deployment, redis_client: StoreClient, step: str, n_charged: int, after: bool
) -> None:
    job = at.service().models.learn("people", "network", EDGE, NANO // 2, wait_s=0)
    assert isinstance(job, JobStatus)
    die_at(at, redis_client, step, after=after)
    spent = at.service().dataset("people").spent_nano
    assert (spent > 0) == (bool(n_charged) or after)
    at.work_off()
    status, service = at.service().job(job.id), at.service()
    kept = [m.learnt for m in service.models.all("people")]
    assert kept == ([status.result] if status.state == "done" else [])
    assert spent in (0, service.dataset("people").spent_nano)
    assert status.state == "done" or service.dataset("people").spent_nano == spent
