"""Which law the answers of a workload have where released answers disagree."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from qserver.answering.workload import AnsweredWorkload, WorkloadCost, answer_workload, offers
from qserver.inference.engine import InferenceEngine
from qserver.planning.holdings import estimate_of
from qserver.query.asking.after_looking import Selection
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.question import Question, Workload
from qserver.query.requirement import Requirement
from qserver.query.weights import interval
from qserver.records.answer import Answer
from qserver.records.statement import Simultaneous
from tests.inference.histories import measured

THERE = Requirement(40.0, 0.95)


def _rows(low: int, high: int) -> LinearQuery:
    return linear_query((20,), [(1, {0: interval(20, low, high)})])


ASKED = tuple(Question(_rows(*ends), THERE) for ends in ((0, 10), (10, 20), (0, 20)))


@pytest.fixture
def engine() -> InferenceEngine:
    """Two halves and the whole, with answers 31.27 apart."""
    found = InferenceEngine((20,))
    found.extend(
        [
            measured(0, _rows(0, 10), scale=Fraction("6.68"), answer=Fraction("32001.98")),
            measured(1, _rows(10, 20), scale=Fraction("6.68"), answer=Fraction("31989.06")),
            measured(2, _rows(0, 20), scale=Fraction("10.32"), answer=Fraction("64020.35")),
        ]
    )
    return found


def _answered(
    engine: InferenceEngine, workload: Workload, together: Simultaneous | None = None
) -> AnsweredWorkload:
    return answer_workload(
        engine,
        workload,
        estimators=[None] * len(workload.questions),
        together=together,
        cost=WorkloadCost(0, 10**9, {}),
        version=3,
    )


def _laws(found: AnsweredWorkload) -> set[str]:
    return {answer.statement.law for answer in found.answer.answers}


def test_the_answers_are_those_of_the_posterior(engine: InferenceEngine) -> None:
    found = _answered(engine, Workload(ASKED))
    assert _laws(found) == {"posterior"}
    assert {a.statement.disagreements for a in found.answer.answers} == {1}
    for question, answer, end in zip(ASKED, found.answer.answers, found.answer.ends, strict=True):
        estimate = estimate_of(engine, question)
        assert estimate is not None
        posterior = engine.stated(question.row, estimate).posterior
        assert answer.estimate == end.estimate == posterior.estimate
        assert answer.low == pytest.approx(posterior.interval(0.95).low, rel=1e-12)
        assert end.low == pytest.approx(posterior.low_at(0.025), rel=1e-12)
        assert end.highest == pytest.approx(posterior.high_at(0.025 / 3), rel=1e-12)
        assert end.lowest < answer.low < answer.high < end.highest


def test_estimates_add_up_as_the_questions_do(engine: InferenceEngine) -> None:
    """Posterior means do not depend on the weights that they were found by."""
    one, other, both = (a.estimate for a in _answered(engine, Workload(ASKED)).answer.answers)
    assert one + other == pytest.approx(both, abs=0.02)


def test_a_choice_among_the_answers_takes_the_ends_of_the_posterior(
    engine: InferenceEngine,
) -> None:
    chosen = _answered(engine, Workload(ASKED, selected_from=Selection(3)))
    alone = _answered(engine, Workload(ASKED))
    for answer, by_itself in zip(chosen.answer.answers, alone.answer.answers, strict=True):
        assert answer.estimate == by_itself.estimate
        assert answer.low < by_itself.low


@pytest.mark.parametrize("confidence", [0.95, 0.99])
def test_intervals_that_hold_at_once_by_the_union_bound_are_posteriors(
    engine: InferenceEngine, confidence: float
) -> None:
    asked = tuple(q.with_requirement(Requirement(90.0, confidence)) for q in ASKED)
    union = Simultaneous(confidence, "union")
    found = _answered(engine, Workload(asked, simultaneous=True), union)
    assert _laws(found) == {"posterior"}
    by_itself = _answered(engine, Workload(asked))
    for answer, one in zip(found.answer.answers, by_itself.answer.answers, strict=True):
        assert answer.low < one.low < one.high < answer.high


def _by_a_joint_bound(engine: InferenceEngine, asked: tuple[Question, ...]) -> AnsweredWorkload:
    found = [None if q.row.is_zero else estimate_of(engine, q) for q in asked]
    return answer_workload(
        engine,
        Workload(asked, simultaneous=True),
        estimators=[
            None if e is None else e.estimator(q.row.key) for q, e in zip(asked, found, strict=True)
        ],
        together=Simultaneous(0.95, "exact"),
        cost=WorkloadCost(0, 10**9, {}),
        version=3,
    )


def test_a_joint_bound_on_errors_is_one_on_posteriors_where_nothing_disagrees() -> None:
    engine = InferenceEngine((20,))
    halves = ASKED[:2]
    engine.extend(
        [
            measured(i, q.row.row, scale=Fraction(7), answer=Fraction(100 * i))
            for i, q in enumerate(halves)
        ]
    )
    found = _by_a_joint_bound(engine, ASKED)
    assert _laws(found) == {"posterior"}
    for question, answer in zip(ASKED, found.answer.answers, strict=True):
        assert answer.high - answer.low == pytest.approx(question.requirement.length, rel=1e-6)


@pytest.mark.slow
def test_where_answers_disagree_all_hold_at_once_by_their_posterior(
    engine: InferenceEngine,
) -> None:
    """Each interval is the asked one times one factor, and around the posterior's mean."""
    apart = measured(3, _rows(19, 20), scale=Fraction(7), answer=Fraction(5))
    engine.extend([apart])
    asked = (*ASKED[:2], ASKED[2].with_requirement(Requirement(60.0, 0.95)), _alone(19))
    found = _by_a_joint_bound(engine, asked)
    assert _laws(found) == {"posterior"}
    together, answers = found.answer.simultaneous, found.answer.answers
    assert together is not None
    assert (together.confidence, together.method) == (0.95, "posterior")
    factors = [(a.high - a.low) / q.requirement.length for a, q in zip(answers, asked, strict=True)]
    assert factors == pytest.approx([factors[0]] * 4, rel=1e-7)
    by_itself = _answered(engine, Workload(asked)).answer.answers
    union = _answered(engine, Workload(asked, simultaneous=True), Simultaneous(0.95, "union"))
    for answer, one in zip(answers, by_itself, strict=True):
        assert answer.estimate == one.estimate == (answer.low + answer.high) / 2
        assert answer.statement.disagreements == 1
        assert one.statement.error < answer.statement.error < 0.01
        assert one.high - one.low < answer.high - answer.low
    pairs = zip(answers, union.answer.answers, strict=True)
    assert any(_length(answer) < _length(other) for answer, other in pairs)
    # The asked lengths hold at once as surely as they do by themselves, or less so.
    assert together.attained is not None
    assert together.attained < min(a.confidence_attained for a in by_itself)
    assert (together.attained < 0.95) == (factors[0] > 1.0)


@pytest.mark.slow
def test_the_same_workload_gets_the_same_answer(engine: InferenceEngine) -> None:
    assert _by_a_joint_bound(engine, ASKED).answer == _by_a_joint_bound(engine, ASKED).answer


@pytest.mark.slow
def test_too_sure_for_draws_is_the_union_bound_of_posteriors(engine: InferenceEngine) -> None:
    asked = tuple(q.with_requirement(Requirement(90.0, 0.9999)) for q in ASKED)
    found = _by_a_joint_bound(engine, asked)
    assert found.answer.simultaneous == Simultaneous(0.9999, "union")
    assert _laws(found) == {"posterior"}
    union = _answered(engine, Workload(asked, simultaneous=True), Simultaneous(0.9999, "union"))
    for answer, other in zip(found.answer.answers, union.answer.answers, strict=True):
        assert answer.interval == pytest.approx(other.interval, abs=1e-6)


def test_one_noisy_number_beside_an_exact_one(engine: InferenceEngine) -> None:
    """Only one of them is drawn."""
    nothing = Question(_rows(0, 0), THERE)
    found = _by_a_joint_bound(engine, (ASKED[0], nothing))
    noisy, exact = found.answer.answers
    assert (noisy.statement.law, exact.statement.law) == ("posterior", "exact")
    (alone,) = _answered(engine, Workload(ASKED[:1])).answer.answers
    assert found.answer.simultaneous is not None
    assert found.answer.simultaneous.method == "posterior"
    # Around the mean and widened by the error of draws, so a little longer than the shortest.
    assert 1.0 <= _length(noisy) / _length(alone) < 1.1


@pytest.mark.parametrize("fault", [np.linalg.LinAlgError("x"), ValueError("not finite")])
def test_where_floats_fail_the_union_bound_is_left(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """An answer that was paid for must not be lost to a number."""

    def fails(*_args: object, **_more: object) -> None:
        raise fault

    monkeypatch.setattr("qserver.inference.posterior.simultaneous.farthest_off", fails)
    found = _by_a_joint_bound(engine, ASKED)
    assert found.answer.simultaneous == Simultaneous(0.95, "union")
    assert _laws(found) == {"posterior"}


@pytest.mark.slow
def test_draws_are_made_once_for_a_history(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _by_a_joint_bound(engine, ASKED)
    monkeypatch.setattr("qserver.inference.posterior.simultaneous.farthest_off", None)
    assert _by_a_joint_bound(engine, ASKED).answer == first.answer


def _length(answer: Answer) -> float:
    return answer.high - answer.low


def _alone(value: int) -> Question:
    return Question(_rows(value, value + 1), THERE)


def test_what_quotients_are_made_of_keeps_the_law_of_the_error(engine: InferenceEngine) -> None:
    found = _answered(engine, Workload(ASKED, for_quotients=(0, 2)))
    laws = [a.statement.law for a in found.answer.answers]
    assert laws == ["estimator", "posterior", "estimator"]
    for question, answer, law in zip(ASKED, found.answer.answers, laws, strict=True):
        estimate = estimate_of(engine, question)
        assert estimate is not None
        assert (answer.estimate == estimate.posterior.estimate) == (law == "estimator")


def test_a_large_workload_has_posteriors(engine: InferenceEngine) -> None:
    many = tuple(Question(_rows(*ends), THERE) for ends in [(0, 10), (10, 20), (0, 20)] * 200)
    assert _laws(_answered(engine, Workload(many))) == {"posterior"}


def test_what_is_only_tried_has_no_posterior(engine: InferenceEngine) -> None:
    tried = engine.tried()
    assert _laws(_answered(tried, Workload(ASKED))) == {"estimator"}
    assert _laws(_answered(engine, Workload(ASKED))) == {"posterior"}


def test_what_is_free_of_a_workload_is_its_answers(engine: InferenceEngine) -> None:
    free, answers = offers(engine, Workload(ASKED)), _answered(engine, Workload(ASKED)).answer
    for one, answer, question in zip(free, answers.answers, ASKED, strict=True):
        assert one is not None
        assert (one.interval, one.law) == ((answer.low, answer.high), "posterior")
        estimate = estimate_of(engine, question)
        assert estimate is not None
        assert one.free_length == pytest.approx(2 * estimate.half_width)
    many = offers(engine, Workload(ASKED * 30))
    assert {one.law for one in many if one is not None} == {"estimator"}
