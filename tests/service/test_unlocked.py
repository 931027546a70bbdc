"""A law of an error is computed when the lock of its dataset is free again."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from qserver.answering.explain import Explained, explain_question
from qserver.answering.replica import Replica
from qserver.answering.smooth_numbers import SmoothOf
from qserver.inference.arrays import FloatArray
from qserver.inference.disagreement.gibbs_sampler import drawn_errors
from qserver.inference.disagreement.known_sums import Reduced
from qserver.inference.disagreement.law_by_cheapest_method import law_given
from qserver.inference.disagreement.table_of_law import TableOfLaw
from qserver.query.asking.method_and_prior import USUAL_ERROR
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.query.sql.statistics.smooth_functions import QuotientOf
from qserver.query.sql.tables.cell_intervals import PublicBounds
from qserver.records.answer import Answer, Explanation
from qserver.service.ask import Asking
from qserver.service.cache.smooth_numbers import SmoothNumbers
from qserver.service.datasets import OpenDatasets
from qserver.service.free_answers import Insight
from qserver.storage.store import Store
from tests.deployment import Deployment

PARTS = {"age": {"between": [20, 22]}}, {"age": {"between": [23, 25]}}
WHOLE = {"age": {"between": [20, 25]}}


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    """A whole and both its parts, which disagree."""
    found = Deployment.make(tmp_path, store_url, limit="100")
    for where, length in ((WHOLE, 90), (PARTS[0], 60), (PARTS[1], 70)):
        found.ask(where, length=length)
    return found


def test_no_question_waits_while_the_law_of_another_is_computed(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(town.settings)
    datasets, workloads = (OpenDatasets(store, town.settings) for _ in range(2))
    locked = list[bool]()

    def law(known: Reduced, *, enough: float = USUAL_ERROR) -> TableOfLaw:
        locked.append(datasets.get("people").lock.locked())
        return law_given(known, enough=enough)

    monkeypatch.setattr("qserver.inference.posterior.row_posterior.law_given", law)
    insight = Insight(store, datasets, workloads)
    first, second, whole = (town.service().parse("people", {"where": w}) for w in (*PARTS, WHOLE))
    requirement = Requirement(90, 0.95)
    asking = Asking(store, datasets, workloads, town.settings)
    found = asking.ask("people", Question(first, requirement), wait_s=0, idempotency=None)
    assert isinstance(found, Answer)
    assert found.statement.law == "posterior"
    assert (
        insight.known("people", Question(second, requirement)).answer.statement.disagreements == 1
    )
    assert insight.probability("people", whole, low=0, high=100).statement.disagreements == 1
    assert locked == [False] * 3


def test_a_law_is_computed_once_for_all_that_ask(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(town.settings)
    datasets = OpenDatasets(store, town.settings)
    insight = Insight(store, datasets, datasets)
    query = town.service().parse("people", {"where": WHOLE})
    first = insight.known("people", Question(query, Requirement(90, 0.95))).answer
    monkeypatch.setattr("qserver.inference.posterior.row_posterior.law_given", None)
    assert insight.known("people", Question(query, Requirement(90, 0.95))).answer == first


@pytest.mark.slow
def test_no_question_waits_while_another_is_priced(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A price takes half a second on a history of years."""
    service = town.service()
    locked = list[bool]()

    def explain(replica: Replica, question: Question) -> Explained[Explanation]:
        locked.append(service._datasets.get("people").lock.locked())
        return explain_question(replica, question)

    monkeypatch.setattr("qserver.service.service.explain_question", explain)
    query = service.parse("people", {"where": WHOLE})
    found = service.explain("people", Question(query, Requirement(90, 0.95)))
    assert locked == [False]
    assert found.price_nano == 0


def test_a_smooth_number_is_drawn_without_the_lock_and_once(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The share of a part in the whole, of which the other part was released, too."""
    store = Store.open(town.settings)
    datasets = OpenDatasets(store, town.settings)
    numbers = SmoothNumbers(store, datasets)
    service = town.service()
    part, whole = (service.parse("people", {"where": where}) for where in (PARTS[0], WHOLE))
    function = QuotientOf(Fraction(0), PublicBounds(Fraction(0), Fraction(1)))
    share = SmoothOf((part, whole), function, function.smooth, 0.9)
    locked = list[bool]()

    def drawn(known: Reduced) -> FloatArray:
        locked.append(datasets.get("people").lock.locked())
        return drawn_errors(known)

    monkeypatch.setattr("qserver.inference.smooth.part_law.drawn_errors", drawn)
    first = numbers.view("people", [share]).known(share)
    assert first.statement.disagreements == 1
    assert numbers.view("people", [share]).known(share) == first
    assert locked == [False]
