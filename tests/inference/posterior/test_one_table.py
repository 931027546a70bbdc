"""Questions that one table alone answers: nothing can disagree, and nothing is combined."""

from __future__ import annotations

from fractions import Fraction

import pytest

from qserver.inference.disagreement.law_by_cheapest_method import ENOUGH
from qserver.inference.engine import InferenceEngine
from qserver.inference.posterior.disagreeing_rows import Stated
from qserver.inference.posterior.posteriors import AsTheyAre
from qserver.inference.posterior.row_posterior import Wanted
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import interval
from qserver.records.history import AnyMeasurement
from tests.inference.histories import measured
from tests.inference.posterior.test_by_cells import SIZES, sum_of, table

TABLE = table(0, SIZES, {0: 24, 1: 3}, scale=5.0, seed=1)


def _count(**ends: tuple[int, int]) -> LinearQuery:
    axes = {"a": 0, "b": 1}
    return linear_query(
        SIZES, [(1, {axes[k]: interval(SIZES[axes[k]], *v) for k, v in ends.items()})]
    )


def _both(events: list[AnyMeasurement], query: LinearQuery) -> tuple[Stated, Stated]:
    """As the engine has it, and by all cells as rows of the algebra."""
    engine, row = InferenceEngine(SIZES), primitive(query)
    engine.extend(events)
    estimate = engine.estimate(row, confidence=0.95)
    assert estimate is not None
    every = AsTheyAre(events, engine.in_play.most_records)
    alone = every.stated(Wanted(row.row, estimate.posterior, ENOUGH))
    assert alone is not None
    return engine.stated(row, estimate), alone


@pytest.mark.parametrize(
    "query", [_count(a=(3, 4), b=(1, 2)), _count(a=(2, 9)), _count(), sum_of(SIZES)]
)
def test_a_question_of_one_table_is_answered_without_combining_its_cells(
    query: LinearQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, alone = _both([TABLE], query)
    assert found.statement == alone.statement
    assert found.statement.law == "posterior"
    ends, expected = found.posterior.interval(0.95), alone.posterior.interval(0.95)
    assert [ends.low, ends.high] == pytest.approx([expected.low, expected.high], abs=1e-9)
    monkeypatch.setattr(AsTheyAre, "stated", lambda *_: pytest.fail("cells were combined"))
    engine, row = InferenceEngine(SIZES), primitive(query)
    engine.extend([TABLE])
    estimate = engine.estimate(row, confidence=0.95)
    assert estimate is not None
    assert engine.stated(row, estimate).statement == found.statement


@pytest.mark.parametrize("asked", [{"a": (3, 4)}, {"a": (12, 24), "b": (0, 2)}])
def test_what_a_row_disagrees_about_with_a_table_is_still_told(
    asked: dict[str, tuple[int, int]],
) -> None:
    """The row meets cells of a, and these are all that the question is of."""
    row = measured(1, _count(a=(3, 4)), scale=Fraction(9), answer=Fraction(40))
    found, alone = _both([TABLE, row], _count(**asked))
    assert found.statement.disagreements == alone.statement.disagreements
    assert found.statement.disagreements == int(asked == {"a": (3, 4)})
    ends, expected = found.posterior.interval(0.95), alone.posterior.interval(0.95)
    assert [ends.low, ends.high] == pytest.approx([expected.low, expected.high], abs=1e-9)
