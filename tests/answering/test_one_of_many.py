"""One question where many are the rule: a workload of one, and one of the numbers of a choice."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from qserver.answering.answer import answer_from
from qserver.answering.workload import WorkloadCost, answer_workload, offers
from qserver.inference.engine import InferenceEngine
from qserver.planning.holdings import estimate_of
from qserver.query.asking.after_looking import Looking, Selection
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.question import Question, Workload
from qserver.query.requirement import Requirement
from qserver.query.weights import interval
from qserver.records.answer import Answer, WorkloadAnswer
from qserver.records.statement import Simultaneous
from tests.inference.histories import measured

SCALE = 20 / math.log(20)
"""Of Laplace noise whose interval of 95 percent is 40 long: each tail is e^(-20 / b) / 2."""
CHOICES = [
    Selection(64),
    Selection(64, "least"),
    Selection(64, "any"),
    Selection(64, "largest", 5),
    Selection(64, "least", 64),
    Selection(2, "least"),
    Selection(1),
    Selection(1, "any"),
]


def _rows(low: int, high: int) -> LinearQuery:
    return linear_query((20,), [(1, {0: interval(20, low, high)})])


ASKED = Question(_rows(0, 10), Requirement(41.0, 0.95))


@pytest.fixture
def engine() -> InferenceEngine:
    """One number is known, and nothing disagrees."""
    found = InferenceEngine((20,))
    found.extend([measured(0, _rows(0, 10), scale=Fraction(SCALE), answer=Fraction(500))])
    return found


@pytest.fixture
def disagreeing() -> InferenceEngine:
    """Two halves and the whole, with answers 31.27 apart."""
    found, answers = InferenceEngine((20,)), ("32001.98", "31989.06", "64020.35")
    ends = ((0, 10), (10, 20), (0, 20))
    found.extend(
        measured(i, _rows(*at), scale=Fraction("6.68"), answer=Fraction(said))
        for i, (at, said) in enumerate(zip(ends, answers, strict=True))
    )
    return found


def _workload(
    engine: InferenceEngine, workload: Workload, together: Simultaneous | None = None
) -> WorkloadAnswer:
    return answer_workload(
        engine,
        workload,
        estimators=[None] * len(workload.questions),
        together=together,
        cost=WorkloadCost(0, 10**9, {}),
        version=3,
    ).answer


def _question(engine: InferenceEngine, question: Question) -> Answer:
    """The answer to a question that is asked by itself."""
    estimate = estimate_of(engine, question)
    assert estimate is not None
    return answer_from(
        question,
        estimate,
        engine.stated(question.row, estimate),
        source="history",
        charged_nano=0,
        remaining_nano=10**9,
        version=3,
    )


@pytest.mark.parametrize("selection", CHOICES)
def test_a_workload_of_one_that_was_chosen_has_the_ends_of_the_choice(
    engine: InferenceEngine, selection: Selection
) -> None:
    """A Laplace error is beyond b log(k / .05) on one side with probability .025 / k."""
    [answer] = _workload(engine, Workload((ASKED,), selected_from=selection)).answers
    among, reported = (SCALE * math.log(k / 0.05) for k in (selection.m, selection.first))
    below = reported if selection.rule == "least" else among
    above = reported if selection.rule == "largest" else among
    assert 500 - answer.low == pytest.approx(below, rel=1e-6)
    assert answer.high - 500 == pytest.approx(above, rel=1e-6)
    assert answer.selected_from == selection


def test_the_largest_of_64_that_is_40_long_by_itself_is_68_long(engine: InferenceEngine) -> None:
    [answer] = _workload(engine, Workload((ASKED,), selected_from=Selection(64))).answers
    assert answer.high - answer.low == pytest.approx(67.8, abs=0.05)


def test_a_workload_of_one_that_was_not_chosen_is_the_question(engine: InferenceEngine) -> None:
    found = _workload(engine, Workload((ASKED,)))
    [answer] = found.answers
    assert found.ends == ()
    assert answer == _question(engine, ASKED)
    assert answer.high - answer.low == pytest.approx(40.0, rel=1e-6)
    [offered] = offers(engine, Workload((ASKED,)))
    assert offered is not None
    assert offered.interval == (answer.low, answer.high)


def test_of_one_all_hold_at_once_as_it_holds_alone(engine: InferenceEngine) -> None:
    union = Simultaneous(0.95, "union")
    found = _workload(engine, Workload((ASKED,), simultaneous=True), union)
    [answer] = found.answers
    assert found.ends == ()
    assert answer.interval == pytest.approx(_question(engine, ASKED).interval, rel=1e-9)


@pytest.mark.parametrize("disagrees", [False, True])
@pytest.mark.parametrize("selection", CHOICES)
def test_a_workload_of_one_and_the_question_have_one_interval(
    engine: InferenceEngine, disagreeing: InferenceEngine, selection: Selection, disagrees: bool
) -> None:
    """The other numbers of the choice are unknown to both."""
    of = disagreeing if disagrees else engine
    [answer] = _workload(of, Workload((ASKED,), selected_from=selection)).answers
    alone = _question(of, ASKED.with_looking(Looking(selection)))
    assert answer.statement.disagreements == alone.statement.disagreements == int(disagrees)
    assert answer.interval == pytest.approx(alone.interval, rel=1e-7)


def test_where_answers_disagree_the_short_rule_needs_every_number_of_the_choice(
    disagreeing: InferenceEngine,
) -> None:
    """Given what disagrees the laws of the numbers that are not asked for are others."""
    asked = tuple(Question(_rows(*at), ASKED.requirement) for at in ((0, 10), (10, 20), (0, 20)))
    choices: list[Selection] = [
        Selection(3, "largest"),
        Selection(3, "any"),
        Selection(4, "largest"),
        Selection(4, "any"),
    ]
    by_rule = [
        _workload(disagreeing, Workload(asked, selected_from=choice)).answers for choice in choices
    ]
    largest, any_of_three, fourth_unknown, any_of_four = (
        [answer.high - answer.low for answer in answers] for answers in by_rule
    )
    assert any(a < b for a, b in zip(largest, any_of_three, strict=True))
    assert fourth_unknown == any_of_four
