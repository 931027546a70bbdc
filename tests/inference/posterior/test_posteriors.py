"""The posterior of an estimate, given what rows and tables disagree about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from qserver.errors import EvaluationError
from qserver.inference.disagreement.law_by_cheapest_method import law_given
from qserver.inference.engine import InferenceEngine
from qserver.inference.posterior.disagreeing_rows import GivenPosterior, Stated
from qserver.inference.posterior.row_posterior import Wanted, stated
from qserver.inference.rows.factors import Play
from qserver.query.class_grid import ProductPartition, product_partition
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import interval
from qserver.records.history import AnyMeasurement, Measurement, TableMeasurement
from tests.inference.disagreement.references import Design
from tests.inference.histories import STEP, dense, measured

SIZES = (4, 3)


def _rows(low: int, high: int, size: int = 20) -> LinearQuery:
    return linear_query((size,), [(1, {0: interval(size, low, high)})])


def _stated(engine: InferenceEngine, query: LinearQuery, confidence: float = 0.95) -> Stated:
    row = primitive(query)
    estimate = engine.estimate(row, confidence=confidence)
    assert estimate is not None
    return engine.stated(row, estimate)


def _engine(sizes: tuple[int, ...], *events: AnyMeasurement) -> InferenceEngine:
    engine = InferenceEngine(sizes)
    engine.extend(events)
    return engine


@pytest.fixture
def three_counts() -> InferenceEngine:
    """Two halves and the whole, with answers 31.27 apart."""
    return _engine(
        (20,),
        measured(0, _rows(0, 10), scale=Fraction("6.68"), answer=Fraction("32001.98")),
        measured(1, _rows(10, 20), scale=Fraction("6.68"), answer=Fraction("31989.06")),
        measured(2, _rows(0, 20), scale=Fraction("10.32"), answer=Fraction("64020.35")),
    )


def test_a_probability_is_that_of_the_posterior_given_the_disagreement(
    three_counts: InferenceEngine,
) -> None:
    """.8496 by integration in two dimensions; the law of the estimate's error says .8895."""
    found = _stated(three_counts, _rows(0, 10))
    assert (found.statement.law, found.statement.disagreements) == ("posterior", 1)
    error = found.statement.error
    assert 0.0 < error < 0.004
    assert abs(found.posterior.probability_at_least(32000.0) - 0.8496) <= error
    rest = found.posterior.probability_between(-1e6, 32000.0)
    assert rest == pytest.approx(1.0 - found.posterior.probability_at_least(32000.0))


def test_the_interval_of_minus_a_count_is_its_mirror_image(three_counts: InferenceEngine) -> None:
    found = _stated(three_counts, _rows(0, 10))
    there, back = found.posterior.interval(0.9), found.scaled(Fraction(-2)).posterior.interval(0.9)
    assert [back.low, back.high] == pytest.approx([-2 * there.high, -2 * there.low], rel=1e-9)
    mirrored = found.scaled(Fraction(-2)).posterior.probability_at_least(-64000.0)
    assert mirrored == pytest.approx(1.0 - found.posterior.probability_at_least(32000.0))


def test_the_best_interval_of_a_length_reaches_the_confidence_it_was_made_for(
    three_counts: InferenceEngine,
) -> None:
    posterior = _stated(three_counts, _rows(0, 10)).posterior
    for confidence in (0.5, 0.9, 0.99):
        ends = posterior.interval(confidence)
        reached = posterior.confidence_of((ends.high - ends.low) / 2.0)
        assert confidence - 0.005 < reached <= confidence + 0.002


def test_what_nothing_disagrees_with_keeps_the_law_of_its_error() -> None:
    engine = _engine((20,), measured(0, _rows(0, 10)), measured(1, _rows(5, 20)))
    row = primitive(_rows(0, 10))
    estimate = engine.estimate(row, confidence=0.95)
    assert estimate is not None
    found = engine.stated(row, estimate)
    assert found.posterior is estimate.posterior
    assert (found.statement.law, found.statement.disagreements) == ("posterior", 0)


def test_a_question_gets_the_same_answer_in_another_process(three_counts: InferenceEngine) -> None:
    events = [three_counts.live(i) for i in range(3)]
    other = _engine((20,), *events)
    ends = [_stated(e, _rows(0, 10)).posterior.interval(0.95) for e in (three_counts, other)]
    assert ends[0] == ends[1]


def factored_rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows are factored at a time from now on."""
    made, make = list[int](), Play.of

    def counted(rows: Sequence[Measurement], *others: Any) -> Play:
        if rows:
            made.append(len(rows))
        return make(rows, *others)

    monkeypatch.setattr(Play, "of", counted)
    return made


def _table(number: int, *axes: int, values: np.ndarray) -> TableMeasurement:
    partition = product_partition(SIZES, {a: np.arange(SIZES[a]) for a in axes})
    indices = tuple(round(float(v) / float(STEP)) for v in values)
    return TableMeasurement(number, partition, 10**8, STEP, indices)


def _cells(partition: ProductPartition) -> list[np.ndarray]:
    return [_dense(partition.row(i)) for i in range(partition.n_cells)]


def _dense(query: LinearQuery) -> np.ndarray:
    return np.array([float(value) for value in dense(query)])


@pytest.mark.parametrize("seed", range(3))
def test_tables_disagree_with_tables_and_rows(seed: int) -> None:
    """A table, its margin and a row: as by the rows of all their cells, written out."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 50, 12).astype(float)
    query = linear_query(SIZES, [(1, {0: interval(4, 1, 2)})])
    odd = linear_query(SIZES, [(1, {0: interval(4, 1, 3), 1: interval(3, 0, 2)})])
    fine, margin = (_table(i, *a, values=np.zeros(12 // 3**i)) for i, a in ((0, (0, 1)), (1, (0,))))
    rows = np.array([*_cells(fine.partition), *_cells(margin.partition), _dense(odd)])
    design = Design(rows, np.full(len(rows), 10.0), _dense(query))
    errors = design.errors(rng)
    answers = np.round((rows @ truth + errors) / float(STEP)) * float(STEP)
    engine = _engine(
        SIZES,
        _table(0, 0, 1, values=answers[:12]),
        _table(1, 0, values=answers[12:16]),
        measured(2, odd, scale=10, answer=Fraction(answers[16])),
    )
    found = _stated(engine, query)
    assert found.statement.law == "posterior"
    assert isinstance(found.posterior, GivenPosterior)
    given = design.known(answers - rows @ truth).reduced()
    assert found.statement.disagreements == given.n_disagreements == 3
    law = law_given(given)
    middle = float(design.weights @ answers) - given.shift
    for off in np.linspace(-25.0, 25.0, 11):
        expected = law.cdf(middle - (middle + off))
        # Other rows are basis rows there, so the points are others.
        room = law.largest_error + found.statement.error
        assert abs(found.posterior.probability_at_least(middle + off) - expected) < room


def test_one_table_alone_disagrees_with_nothing() -> None:
    engine = _engine(SIZES, _table(0, 0, 1, values=np.arange(12.0)))
    found = _stated(engine, linear_query(SIZES, [(1, {0: interval(4, 1, 2)})]))
    assert (found.statement.law, found.statement.disagreements) == ("posterior", 0)


def test_cells_bear_on_an_estimate_by_rows_alone() -> None:
    """The posterior is one: it does not depend on which released answers the estimate uses."""
    query = linear_query(SIZES, [(1, {0: interval(4, 0, 2)})])
    engine = _engine(
        SIZES,
        measured(0, query, scale=Fraction(9), answer=Fraction(120)),
        _table(1, 0, 1, values=np.arange(12.0)),
    )
    row = primitive(query)
    by_row = engine.estimate_by_rows(row, confidence=0.95)
    best = engine.estimate(row, confidence=0.95)
    assert by_row is not None
    assert best is not None
    assert by_row.half_width > best.half_width
    found = [engine.stated(row, one) for one in (by_row, best)]
    assert [one.statement.disagreements for one in found] == [1, 1]
    one, other = (one.posterior.interval(0.95) for one in found)
    assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=0.1)


def test_cells_and_rows_are_factored_once_for_all_questions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A table of 300 cells and eight ranges: more than are merged for one question."""
    made = factored_rows(monkeypatch)
    partition = product_partition((300,), {0: np.arange(300)})
    table = TableMeasurement(0, partition, 10**8, STEP, tuple(range(300)))
    asked = [_rows(30 * i, 30 * i + 20, 300) for i in range(8)]
    ranges = [
        measured(i, row, scale=Fraction(20), answer=Fraction(10 * i))
        for i, row in enumerate(asked, start=1)
    ]
    engine = _engine((300,), table, *ranges)
    told = [_stated(engine, row).statement for row in asked]
    assert [(one.law, one.disagreements) for one in told] == [("posterior", 1)] * 8
    assert sorted(made) == [8, 308]


@pytest.mark.parametrize("size", [150, 990, 3_000])
def test_a_large_table_disagrees_with_a_row(size: int) -> None:
    """Ten cells and their sum: all others are merged, and have nothing to say."""
    partition = product_partition((size,), {0: np.arange(size)})
    table = TableMeasurement(0, partition, 10**8, STEP, tuple(range(size)))
    row = _rows(0, 10, size)
    engine = _engine((size,), table, measured(1, row, scale=Fraction(20), answer=Fraction(30)))
    found = _stated(engine, row)
    assert (found.statement.law, found.statement.disagreements) == ("posterior", 1)
    small = product_partition((20,), {0: np.arange(20)})
    twenty = TableMeasurement(0, small, 10**8, STEP, tuple(range(20)))
    row = _rows(0, 10, 20)
    same = _engine((20,), twenty, measured(1, row, scale=Fraction(20), answer=Fraction(30)))
    expected = _stated(same, row)
    room = found.statement.error + expected.statement.error
    for place in np.linspace(-20.0, 80.0, 11):
        one, other = (s.posterior.probability_at_least(place) for s in (found, expected))
        assert abs(one - other) <= room


def test_tables_that_tell_too_much_apart_keep_the_law_of_the_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two tables that a question needs both of, where neither is as fine as the other."""
    query = linear_query(SIZES, [(1, {0: interval(4, 0, 2)}), (1, {1: interval(3, 0, 1)})])
    tables = (_table(0, 0, values=np.arange(4.0)), _table(1, 1, values=np.arange(3.0)))
    assert _stated(_engine(SIZES, *tables), query).statement.law == "posterior"
    monkeypatch.setattr("qserver.inference.posterior.cells_as_rows.MOST_MERGED", 2)
    for module in ("posteriors", "cells_as_rows"):
        monkeypatch.setattr(f"qserver.inference.posterior.{module}.MOST_CELLS", 2)
    assert _stated(_engine(SIZES, *tables), query).statement.law == "estimator"


def test_what_an_estimate_uses_may_be_as_many_merged_cells_as_cells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three merged cells, where no more than one is merged beside other rows."""
    partition = product_partition((40,), {0: np.arange(40)})
    table = TableMeasurement(0, partition, 10**8, STEP, tuple(range(40)))
    row = _rows(0, 10, 40)
    events = (table, measured(1, row, scale=Fraction(20), answer=Fraction(30)))
    expected = _stated(_engine((40,), *events), row)
    monkeypatch.setattr("qserver.inference.posterior.cells_as_rows.MOST_MERGED", 1)
    monkeypatch.setattr("qserver.inference.posterior.posteriors.MOST_CELLS", 0)
    found = _stated(_engine((40,), *events), row)
    assert (found.statement.law, found.statement.disagreements) == ("posterior", 1)
    room = found.statement.error + expected.statement.error
    for place in np.linspace(-20.0, 120.0, 11):
        one, other = (s.posterior.probability_at_least(place) for s in (found, expected))
        assert abs(one - other) <= room


@pytest.mark.parametrize("fault", [np.linalg.LinAlgError("x"), ValueError("not finite")])
def test_where_floats_fail_the_law_of_the_error_is_stated(
    three_counts: InferenceEngine, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """An answer that was paid for must not be lost to a number."""

    def fails(*_args: object, **_more: object) -> None:
        raise fault

    monkeypatch.setattr("qserver.inference.posterior.row_posterior.law_given", fails)
    assert _stated(three_counts, _rows(0, 10)).statement.law == "estimator"


def test_a_law_with_a_large_error_is_not_stated(
    three_counts: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qserver.inference.posterior.row_posterior._ROUGHEST", 1e-9)
    assert _stated(three_counts, _rows(0, 10)).statement.law == "estimator"


def test_an_estimate_that_floats_cannot_bound_is_not_stated(
    three_counts: InferenceEngine,
) -> None:
    row = primitive(_rows(0, 10))
    estimate = three_counts.estimate(row, confidence=0.95)
    assert estimate is not None
    found = three_counts.together((row.row,), (estimate,))
    assert found is not None
    wanted = Wanted(row.row, estimate.posterior, 1e-3)
    assert stated(found, wanted).statement.law == "posterior"
    with pytest.raises(EvaluationError):
        stated(replace(found, allowances=np.array([np.inf])), wanted)


def test_a_posterior_is_found_once_for_one_history(
    three_counts: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _stated(three_counts, _rows(0, 10))
    monkeypatch.setattr("qserver.inference.posterior.row_posterior.law_given", None)
    assert _stated(three_counts, _rows(0, 10)) is first
