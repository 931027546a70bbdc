"""Rows that were refined again and again: what floats leave of the old noise says nothing."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from qserver.inference.engine import InferenceEngine
from qserver.inference.estimate import RowEstimate
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import Weights, interval
from tests.inference.histories import measured

N = 20
COUNT = linear_query((N,), [(1, {0: interval(N, 0, N)})])
THIRD = linear_query(
    (N,), [(Fraction(1, 3), {0: Weights(tuple(range(1, N + 1)), tuple(range(1, N + 1)))})]
) - COUNT.scaled(Fraction(7, 2))
PARTS = (linear_query((N,), [(1, {0: interval(N, 0, 7)})]), COUNT)


def refined(queries: tuple[LinearQuery, LinearQuery], scales: list[float]) -> InferenceEngine:
    """Two rows, each measured at these scales in turn, and asked after each."""
    engine = InferenceEngine((N,))
    for k, scale in enumerate(scales):
        engine.extend(
            measured(i, query, scale=Fraction(scale), answer=Fraction(-100 + 250 * i + k, 3))
            for i, query in enumerate(queries)
        )
        estimates(engine, queries)
    return engine


def estimates(engine: InferenceEngine, queries: tuple[LinearQuery, ...]) -> list[RowEstimate]:
    found = [engine.estimate(primitive(query), confidence=0.95) for query in queries]
    return [one for one in found if one is not None]


def chain(seed: int) -> list[float]:
    rng = np.random.default_rng(seed)
    return (40.0 * np.cumprod(rng.uniform(0.3, 0.95, 5))).tolist()


@pytest.mark.parametrize("seed", range(8))
def test_no_error_of_a_refined_row_is_known(seed: int) -> None:
    """Two rows that have nothing to disagree about: an average's numerator and denominator."""
    queries = (THIRD, COUNT)
    engine = refined(queries, chain(seed))
    rows = [primitive(query).row for query in queries]
    found = engine.together(rows, estimates(engine, queries))
    assert found is not None
    known = found.sums.reduced()
    assert known.n_disagreements == 0
    assert not known.shift.any()
    scales = [
        abs(one.weights[0][1]) * engine.measurement(one.weights[0][0]).scale
        for one in estimates(engine, queries)
    ]
    assert np.abs(known.weights).sum(axis=1) == pytest.approx(scales)


@pytest.mark.parametrize("seed", range(4))
def test_what_refined_rows_disagree_about_is_known_once(seed: int) -> None:
    """A part, the whole and the rest, of which two were refined."""
    engine = refined(PARTS, chain(seed))
    rest = linear_query((N,), [(1, {0: interval(N, 7, N)})])
    engine.extend([measured(2, rest, scale=9, answer=40)])
    queries = (*PARTS, rest)
    rows = [primitive(query).row for query in queries[:2]]
    found = engine.together(rows, estimates(engine, queries[:2]))
    assert found is not None
    assert found.sums.reduced().n_disagreements == 1
