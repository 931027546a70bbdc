"""Models of a population under zcdp by a real worker: prices, charges, fits and refusals."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

from qserver.answering.models.kinds.marginal_tables import marginals
from qserver.errors import BudgetExhaustedError, InputError
from qserver.models.network.bif import read_bif
from qserver.query.domain import Domain
from qserver.query.domain_file import domain_from_document
from qserver.records.answer import Answer, ModelAnswer
from qserver.records.charge import NANO, Relation
from qserver.records.history import GaussianTable
from qserver.records.privacy.conversion import epsilon_nano
from qserver.records.unit import Unit
from tests.deployment import PEOPLE, ROWS, Deployment
from tests.worker.by_hand import live
from tests.worker.learn_models import learn
from worker.books.accountant import Accountant

pytestmark = pytest.mark.promise(
    "Privacy", "models under zcdp are charged what their Gaussian tables cost in rho, and no more"
)

DELTA = Fraction(1, 10**9)
SINGLE = {"marginals": [["age"], ["sex"]], "selection": "listed"}
EDGE = {"network": {"edges": [["sex", "age"]]}}
N_MEN = sum(sex == "Male" for _, sex in ROWS)


def made(folder: Path, store_url: str, **more: Any) -> Deployment:
    return Deployment.make(folder, store_url, **{"limit": "2", "delta": DELTA, **more})


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return made(tmp_path, store_url)


def rho(town: Deployment) -> int:
    found = town.service().dataset("people").zcdp
    assert found is not None
    return found.spent_rho_nano


def tables_of(town: Deployment) -> list[GaussianTable]:
    return [one for one in live(town) if isinstance(one, GaussianTable)]


def explained(
    town: Deployment, document: dict[str, Any], epsilon: float, kind: str = "marginals"
) -> Any:
    return town.service().models.explain("people", kind, document, int(epsilon * NANO))


@pytest.mark.parametrize(
    ("relation", "k", "factor"),
    [("add-remove", 1, 1), ("add-remove", 3, 9), ("replace-one", 1, 2), ("replace-one", 2, 8)],
)
def test_tables_cost_the_sum_of_their_rho_and_a_price_is_what_epsilon_rises_by(
    tmp_path: Path, store_url: str, relation: Relation, k: int, factor: int
) -> None:
    town = made(tmp_path, store_url, relation=relation, k=k)
    for charged, n in ((0.5, 2), (0.25, 4)):
        before = rho(town)
        told = explained(town, SINGLE, charged)
        found = learn(town, "marginals", SINGLE, charged)
        assert told.price_nano == found.charged_nano <= charged * NANO
        assert rho(town) == factor * sum(one.alpha_nano for one in tables_of(town))
        assert found.charged_nano == epsilon_nano(rho(town), DELTA) - epsilon_nano(before, DELTA)
        # No more fits: the next rho of every table is above what was asked for.
        more = epsilon_nano(rho(town) + 2 * factor, DELTA) - epsilon_nano(before, DELTA)
        assert more > charged * NANO
        assert len(found.tables) == len(tables_of(town)) == n
        assert told.second_nano is None
    [finding] = Accountant(town.registry.journal("town", create=False).path).examine()
    assert (finding.ok, finding.loss) == (True, rho(town))


def test_the_split_is_by_variance_and_what_is_foretold_is_that_of_gaussian_noise(
    town: Deployment,
) -> None:
    document = {"marginals": [["age", "sex"], ["age"], ["sex"]], "selection": "listed"}
    told = explained(town, document, 0.5)
    learn(town, "marginals", document, 0.5)
    [both, age, sex] = tables_of(town)
    assert both.alpha_nano == age.alpha_nano == sex.alpha_nano
    # Of the 33 parts of a count of 11 by 3, 20 are told by its own table alone.
    part = (20 + 10 / (1 + 3) + 2 / (1 + 11) + 1 / (1 + 3 + 11)) / 33
    assert told.wanted[0].deviation ** 2 == pytest.approx(part / (2 * both.alpha_nano / NANO))
    again = explained(town, document, 0.5)
    learn(town, "marginals", document, 0.5)
    total = sum(one.alpha_nano for one in tables_of(town)) / NANO / 3
    assert again.wanted[0].deviation ** 2 == pytest.approx(part / (2 * total))


def test_two_measurements_of_the_same_cells_are_one_of_both_precisions(town: Deployment) -> None:
    learn(town, "marginals", SINGLE, 0.5)
    second = learn(town, "marginals", SINGLE, 0.5)
    age, sex = marginals(tables_of(town))
    assert (age.ids, sex.ids) == ((0, 2), (1, 3))
    one, other = (tables_of(town)[i] for i in sex.ids)
    weights = np.array([one.alpha_nano, other.alpha_nano], dtype=float)
    expected = np.average([one.values, other.values], axis=0, weights=weights)
    assert np.allclose(sex.values, expected)
    assert sex.scale == pytest.approx((4 * weights.sum() / NANO) ** -0.5)
    free = learn(town, "marginals", {}, 0)
    assert free.tables == second.tables == (0, 1, 2, 3)
    asked = {"marginal": ["sex"], "given": {}}
    told = town.service().models.ask("people", free.id, asked).document["probabilities"]
    # The nearest counts, none below 0, of the total that both tables tell.
    sums = np.array([age.values.sum() / 11, sex.values.sum() / 3])
    total = float(sums.sum() / (1 / 11 + 1 / 3))
    shift = brentq(lambda by: np.maximum(expected + by, 0.0).sum() - total, -1e4, 1e4)
    assert np.allclose(told, np.maximum(expected + shift, 0.0) / total, atol=2e-3)
    # And counts on them are free, by the rows' own estimates.
    answer = town.submit({"sex": "Male"}, length=200, confidence=0.9999999)
    assert isinstance(answer, Answer)
    assert (answer.charged_nano, answer.low <= N_MEN <= answer.high) == (0, True)


def test_merged_values_are_bought_twice_for_one_price(tmp_path: Path, store_url: str) -> None:
    town = made(tmp_path, store_url, relation="replace-one", k=2)
    document = {"marginals": [["age", "sex"]], "selection": "merged"}
    told = explained(town, document, 0.5)
    found = learn(town, "marginals", document, 0.5)
    assert told.price_nano == found.charged_nano <= NANO // 2
    first, *others = tables_of(town)
    assert others
    # What is drawn costs no more than what was charged; the books find each.
    assert 8 * sum(one.alpha_nano for one in tables_of(town)) <= rho(town)
    assert told.second_nano == found.charged_nano - epsilon_nano(8 * first.alpha_nano, DELTA)
    [finding] = Accountant(town.registry.journal("town", create=False).path).examine()
    assert finding.ok
    assert finding.loss == 8 * sum(one.alpha_nano for one in tables_of(town))
    again = learn(town, "marginals", document, 0.5)
    assert set(found.tables) < set(again.tables)


@pytest.mark.parametrize("selection", ["merged", "listed"])
def test_with_periods_no_table_costs_more_than_it_is_charged(
    tmp_path: Path, store_url: str, selection: str
) -> None:
    """A table without the periods is moved by all records of a person, one with them by few."""
    week = {"name": "week", "kind": "period", "every": "week", "first": "2024-W10", "count": 12}
    [weekly] = domain_from_document({"attributes": [week]}).attributes
    domain, weeks = Domain((weekly, *PEOPLE.attributes)), weekly.value_names
    rows = [(weeks[i % 12], *row) for i, row in enumerate(ROWS)]
    unit = Unit("person", 1)
    town = made(tmp_path, store_url, rows=rows, domain=domain, unit=unit, k=12, limit="8")
    wanted = [["age", "sex"], ["week"]] if selection == "merged" else [["age"], ["week", "sex"]]
    found = learn(town, "marginals", {"marginals": wanted, "selection": selection}, 1.0)
    assert 0 < found.charged_nano <= NANO
    [finding] = Accountant(town.registry.journal("town", create=False).path).examine()
    assert finding.loss is not None
    assert 0 < finding.loss <= rho(town)


@pytest.mark.parametrize("allocation", ["best", "rows", "uniform"])
def test_a_network_is_learnt_from_gaussian_tables(town: Deployment, allocation: str) -> None:
    document = {**EDGE, "allocation": allocation}
    told = explained(town, document, 0.5, "network")
    found: ModelAnswer = learn(town, "network", document, 0.5)
    assert told.price_nano == found.charged_nano == epsilon_nano(rho(town), DELTA)
    own = next(one for one in tables_of(town) if one.partition.n_cells == 33)
    # Of a parameter of 3 rows and 11 values by the table of both alone; others may help.
    alone = 3 * ((1 - 1 / 11) / (2 * own.alpha_nano / NANO)) ** 0.5
    assert 0.5 * alone < told.error.greatest <= alone * (1 + 1e-9)
    models = town.service().models
    exported = read_bif(models.export("people", found.id))
    assert exported.structure.edges == (("sex", "age"),)
    men = models.ask("people", found.id, {"marginal": ["sex"], "given": {}}).document
    at = men["labels"][0].index("Male")
    assert men["probabilities"][at] == pytest.approx(N_MEN / len(ROWS), abs=0.2)


@pytest.mark.parametrize(
    ("kind", "document", "code", "words"),
    [
        ("network", {**EDGE, "allocation": "arxiv"}, "invalid_network", "secret sample"),
        ("network", {**EDGE, "allocation": "icml"}, "invalid_network", "secret sample"),
        ("marginals", {**SINGLE, "likelihood": "laplace"}, "invalid_input", "squares"),
    ],
)
def test_what_is_proven_or_likely_under_laplace_noise_alone_is_refused(
    town: Deployment, kind: str, document: dict[str, Any], code: str, words: str
) -> None:
    for path, epsilon in product(("models", "models/explain"), (0.5, 0)):
        body = {"kind": kind, "epsilon": epsilon, **document}
        reply = town.web().post(f"/v1/datasets/people/{path}", json=body)
        problem = reply.get_json()
        assert (reply.status_code, problem["code"]) == (422, code)
        assert words in problem["detail"]
        assert "zcdp" in problem["detail"]
    assert town.registry.journal("town", create=False).state.last_reserved_job is None


def test_what_passes_the_limit_or_is_too_little_is_refused(town: Deployment) -> None:
    with pytest.raises(BudgetExhaustedError):
        learn(town, "marginals", SINGLE, 2.1)
    for document in (SINGLE, {**SINGLE, "selection": "merged"}):
        with pytest.raises(InputError, match="every table"):
            learn(town, "marginals", document, 1e-9)
    assert rho(town) == 0
