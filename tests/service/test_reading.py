"""Questions whose posterior is read by another method, more exactly, or under a prior."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qserver.errors import InputError
from qserver.query.asking.after_looking import NOTHING_SEEN, Looking, Selection
from qserver.query.asking.method_and_prior import AS_EVER, Prior, Reading
from qserver.query.question import Question, Workload
from qserver.query.requirement import Requirement
from qserver.records.answer import Answer, JobStatus
from tests.deployment import Deployment

LENGTH, LONG, CONFIDENCE = 40.0, 400.0, 0.95
WOMEN: dict[str, Any] = {"where": {"sex": "Female"}}
FEW: dict[str, Any] = {"where": {"sex": "Female", "age": {"between": [22, 22]}}}
NON_NEGATIVE = Reading(prior=Prior("non-negative"))
BY_DRAWS = Reading("monte-carlo", draws=20_000)


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="100")


@pytest.fixture
def counted(tmp_path: Path, store_url: str) -> Deployment:
    """A town whose number of records is public."""
    return Deployment.make(tmp_path, store_url, limit="100", relation="replace-one")


def asked(
    town: Deployment,
    reading: Reading,
    document: dict[str, Any] = WOMEN,
    *,
    looking: Looking = NOTHING_SEEN,
    length: float = LENGTH,
) -> Answer:
    service = town.service()
    query, requirement = service.parse("people", document), Requirement(length, CONFIDENCE)
    found = service.ask(
        "people", Question(query, requirement, looking=looking, reading=reading), wait_s=0
    )
    if isinstance(found, JobStatus):
        town.work_off()
        result = town.service().job(found.id).result
        assert isinstance(result, Answer)
        return result
    return found


def test_the_worker_reads_as_was_asked_and_charges_the_same(town: Deployment) -> None:
    query = town.service().parse("people", WOMEN)
    price = (
        town.service()
        .explain("people", Question(query, Requirement(LENGTH, CONFIDENCE)))
        .price_nano
    )
    paid = asked(town, BY_DRAWS)
    assert (paid.source, paid.charged_nano) == ("measured", price)
    told = paid.statement
    assert (told.law, told.method, told.draws) == ("posterior", "monte-carlo", 20_000)
    assert 0.0 < told.error < 0.05
    # History gives the same by the same method, and something shorter by the exact law.
    assert paid.rest_nano is None
    again = asked(town, BY_DRAWS)
    assert (again.source, again.interval) == ("history", paid.interval)
    exact = asked(town, AS_EVER)
    assert exact.statement.method == "auto"
    assert exact.estimate == paid.estimate
    assert paid.low < exact.low < exact.high < paid.high
    assert paid.confidence_attained < CONFIDENCE <= exact.confidence_attained


def test_a_lattice_gives_nearly_the_exact_interval(town: Deployment) -> None:
    exact = asked(town, AS_EVER)
    found = asked(town, Reading("convolution", step=0.5))
    assert (found.statement.method, found.statement.step) == ("convolution", 0.5)
    assert found.high - found.low == pytest.approx(exact.high - exact.low, rel=0.01)


def test_a_prior_cuts_the_answer_of_the_worker_and_that_of_history(town: Deployment) -> None:
    paid = asked(town, NON_NEGATIVE, FEW, length=LONG)
    assert paid.source == "measured"
    assert paid.statement.prior == Prior("non-negative", 0.0)
    assert paid.low >= 0.0
    assert asked(town, NON_NEGATIVE, FEW, length=LONG).interval == paid.interval
    plain = asked(town, AS_EVER, FEW, length=LONG)
    assert plain.statement.prior is None
    assert plain.low <= paid.low + 1.0
    assert paid.high - paid.low < plain.high - plain.low + 1.0
    narrow = Reading(prior=Prior("between", 0.0, 3.0))
    cut = asked(town, narrow, FEW, length=LONG)
    assert 0.0 <= cut.low < cut.high <= 3.0


def test_an_answer_that_was_paid_for_stands_though_it_contradicts_the_prior(
    town: Deployment,
) -> None:
    """After that the contradiction is known at no cost, and is told."""
    absurd = Reading(prior=Prior("between", -9000.0, -8000.0))
    paid = asked(town, absurd)
    assert paid.charged_nano > 0
    assert paid.statement.prior is None
    with pytest.raises(InputError, match="`prior` must leave a probability"):
        asked(town, absurd)


def test_a_total_that_is_not_public_is_no_prior(town: Deployment) -> None:
    reading = Reading(prior=Prior("known-total"))
    with pytest.raises(InputError, match="`prior` must not be `known-total`"):
        asked(town, reading)


def test_a_count_lies_between_nothing_and_the_public_total(counted: Deployment) -> None:
    found = asked(counted, Reading(prior=Prior("known-total")), FEW, length=LONG)
    prior = found.statement.prior
    assert prior is not None
    assert prior.low == 0.0
    assert prior.high == round(prior.high or 0.0) > 0.0
    assert found.low >= 0.0
    whole = asked(counted, Reading("convolution", prior=Prior("known-total")), {"where": {}})
    assert whole.interval == pytest.approx((prior.high, prior.high))
    assert whole.statement.law == "exact"


def test_a_probability_is_read_as_was_asked(town: Deployment) -> None:
    asked(town, AS_EVER, FEW, length=LONG)
    service = town.service()
    query = service.parse("people", FEW)

    def probability(reading: Reading) -> float:
        found = service.insight.probability("people", query, low=0.0, high=5.0, reading=reading)
        assert found.statement.method == reading.method
        return found.probability

    plain = probability(AS_EVER)
    assert probability(Reading("convolution")) == pytest.approx(plain, abs=4e-3)
    assert probability(Reading("monte-carlo")) == pytest.approx(plain, abs=4e-3)
    at_least = service.insight.probability("people", query, low=0.0, high=float("inf"))
    assert probability(NON_NEGATIVE) == pytest.approx(plain / at_least.probability, rel=1e-6)


def test_what_history_knows_is_drawn_as_it_is_read(town: Deployment) -> None:
    asked(town, AS_EVER, FEW, length=LONG)
    service, requirement = town.service(), Requirement(LENGTH, CONFIDENCE)
    query = service.parse("people", FEW)
    known = service.insight.known("people", Question(query, requirement, reading=NON_NEGATIVE))
    assert known.answer.statement.prior == Prior("non-negative", 0.0)
    assert min(point.x for point in known.curve) >= 0.0
    by_draws = service.insight.known("people", Question(query, requirement, reading=BY_DRAWS))
    assert len(by_draws.curve) == len(known.curve)


def test_a_query_that_is_no_count_cannot_be_held_non_negative(town: Deployment) -> None:
    difference = {
        "terms": [
            {"coefficient": 1, "where": {"sex": "Female"}},
            {"coefficient": -1, "where": {"sex": "Male"}},
        ]
    }
    with pytest.raises(InputError, match="weight below 0") as caught:
        asked(town, NON_NEGATIVE, difference)
    assert caught.value.name == "prior"


@pytest.mark.parametrize(
    ("reading", "name"),
    [(NON_NEGATIVE, "prior"), (BY_DRAWS, "method"), (Reading(error=1e-3), "error")],
)
def test_what_was_looked_at_and_a_reading_do_not_go_together(
    town: Deployment, reading: Reading, name: str
) -> None:
    for looking in (Looking(Selection(4)), Looking(independent=True)):
        with pytest.raises(InputError) as caught:
            asked(town, reading, looking=looking)
        assert caught.value.name == name


def test_the_questions_of_a_workload_have_no_reading(town: Deployment) -> None:
    query = town.service().parse("people", WOMEN)
    question = Question(query, Requirement(LENGTH, CONFIDENCE), reading=NON_NEGATIVE)
    with pytest.raises(InputError, match="`questions` must leave out method and prior"):
        Workload((question, question))
