"""A question's posterior by other methods and under priors, on histories that disagree or not."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from qserver.errors import InputError
from qserver.inference.engine import InferenceEngine
from qserver.inference.estimate import Posterior
from qserver.inference.posterior.disagreeing_rows import Stated
from qserver.inference.posterior.method_and_prior import AsRead, ContradictedPriorError, read
from qserver.query.asking.method_and_prior import Prior, Reading
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import interval
from qserver.records import codec
from qserver.records.statement import EXACT
from tests.inference.histories import measured

NON_NEGATIVE = Prior("non-negative", 0.0)


def _rows(low: int, high: int) -> LinearQuery:
    return linear_query((20,), [(1, {0: interval(20, low, high)})])


def _engine(*answers: tuple[int, int, str, str]) -> InferenceEngine:
    """Counts from `low` to `high` with their scales and answers."""
    engine = InferenceEngine((20,))
    engine.extend(
        measured(i, _rows(low, high), scale=Fraction(scale), answer=Fraction(answer))
        for i, (low, high, scale, answer) in enumerate(answers)
    )
    return engine


def _read(engine: InferenceEngine, query: LinearQuery, reading: Reading) -> AsRead:
    row = primitive(query)
    estimate = engine.estimate(row, confidence=0.95)
    assert estimate is not None
    stated = engine.stated(row, estimate, error=reading.error).scaled(row.multiplier)
    return read(stated, estimate.posterior.scaled(row.multiplier), reading)


@pytest.fixture(scope="module")
def live() -> InferenceEngine:
    """Two halves and the whole, with answers 29.31 apart."""
    return _engine(
        (0, 10, "6.68", "32001.98"), (10, 20, "6.68", "31989.06"), (0, 20, "10.32", "64020.35")
    )


@pytest.mark.parametrize(
    ("reading", "expected", "law"),
    [
        (Reading(), 0.8496, "posterior"),
        (Reading(error=1e-3), 0.8496, "posterior"),
        (Reading("convolution"), 0.8895, "estimator"),
        (Reading("convolution", step=1.0), 0.8895, "estimator"),
        (Reading("monte-carlo"), 0.8895, "estimator"),
    ],
)
def test_other_methods_say_the_law_of_the_estimates_error(
    live: InferenceEngine, reading: Reading, expected: float, law: str
) -> None:
    found = _read(live, _rows(0, 10), reading)
    assert found.posterior.probability_at_least(32000.0) == pytest.approx(
        expected, abs=found.statement.error + 5e-5
    )
    told = found.statement
    assert (told.law, told.method, told.prior) == (law, reading.method, None)
    assert told.disagreements == (1 if reading.method == "auto" else 0)
    assert (told.step is not None) == (reading.method == "convolution")
    assert (told.draws is not None) == (reading.method == "monte-carlo")


def test_a_smaller_error_is_reached_on_the_live_example(live: InferenceEngine) -> None:
    found = _read(live, _rows(0, 10), Reading(error=1e-3))
    assert found.statement.error <= 1e-3
    assert abs(found.posterior.probability_at_least(32000.0) - 0.8496) <= 1e-3


@pytest.mark.parametrize("method", ["convolution", "monte-carlo"])
def test_where_nothing_disagrees_every_method_gives_the_posterior(method: str) -> None:
    engine = _engine((0, 10, "2", "40"), (10, 20, "3", "70"))
    exact = _read(engine, _rows(0, 20), Reading())
    found = _read(engine, _rows(0, 20), codec.read(Reading, {"method": method}))
    assert found.statement.law == "posterior"
    assert found.posterior.estimate == exact.posterior.estimate == 110.0
    for low, high in ((100.0, 112.0), (-math.inf, 108.0), (110.0, 111.0)):
        difference = found.posterior.probability_between(low, high)
        difference -= exact.posterior.probability_between(low, high)
        assert abs(difference) <= found.statement.error
    wide, narrow = found.posterior.interval(0.95), exact.posterior.interval(0.95)
    assert wide.low <= narrow.low
    assert narrow.high <= wide.high <= narrow.high + 1.0


def _grid_of_live() -> tuple[np.ndarray, np.ndarray]:
    """Places of the first half of the live example, and masses by a grid over both halves."""
    one, other = np.meshgrid(
        32000 + np.linspace(-90, 120, 1401), 32000 + np.linspace(-110, 110, 1401), indexing="ij"
    )
    logs = -np.abs(one - 32001.98) / 6.68 - np.abs(other - 31989.06) / 6.68
    logs -= np.abs(one + other - 64020.35) / 10.32
    masses = np.exp(logs).sum(axis=1)
    return one[:, 0], masses / masses.sum()


@pytest.mark.parametrize(
    "prior",
    [Prior("between", 32000.0, 32010.0), Prior("known-total", 0.0, 32003.0)],
    ids=lambda p: p.kind,
)
def test_a_prior_cuts_the_posterior_given_the_disagreement(
    live: InferenceEngine, prior: Prior
) -> None:
    found = _read(live, _rows(0, 10), Reading(prior=prior))
    assert (found.statement.law, found.statement.prior) == ("posterior", prior)
    low, high = prior.ends
    places, masses = _grid_of_live()
    masses = np.where((places >= low) & (places <= high), masses, 0.0)
    masses /= masses.sum()
    error = found.statement.error
    assert 0.0 < error < 0.02
    expected = masses[places >= 32002.0].sum()
    assert found.posterior.probability_at_least(32002.0) == pytest.approx(
        expected, abs=error + 0.015
    )
    assert found.posterior.estimate == pytest.approx(float(masses @ places), abs=0.1)
    ends = found.posterior.interval(0.9)
    assert low <= ends.low < ends.high <= high


def test_a_cut_that_leaves_little_of_a_rough_law_falls_back_to_the_law_of_the_error(
    live: InferenceEngine,
) -> None:
    prior = Prior("between", 31900.0, 31950.0)
    for reading in (Reading(prior=prior), Reading("monte-carlo", prior=prior)):
        found = _read(live, _rows(0, 10), reading)
        told = found.statement
        assert (told.law, told.method, told.prior, told.error) == ("estimator", "auto", prior, 0.0)
        assert 31900.0 <= found.posterior.interval(0.95).low < 31950.0


def test_a_prior_and_a_method_go_together() -> None:
    engine = _engine((0, 10, "2", "1"), (10, 20, "3", "0"))
    exact = _read(engine, _rows(0, 20), Reading(prior=NON_NEGATIVE))
    assert exact.statement.error == 0.0
    found = _read(engine, _rows(0, 20), Reading("convolution", prior=NON_NEGATIVE))
    assert (found.statement.method, found.statement.prior) == ("convolution", NON_NEGATIVE)
    assert found.posterior.probability_at_least(2.0) == pytest.approx(
        exact.posterior.probability_at_least(2.0), abs=found.statement.error
    )
    assert found.posterior.estimate == pytest.approx(exact.posterior.estimate, abs=0.02)


def test_released_answers_that_contradict_a_prior_are_told(live: InferenceEngine) -> None:
    for reading in (Reading(), Reading("convolution"), Reading("monte-carlo", draws=10_000)):
        prior = Prior("between", -100.0, 0.0)
        with pytest.raises(ContradictedPriorError, match="1e-12"):
            _read(live, _rows(0, 10), Reading(reading.method, prior=prior))


def test_a_public_total_gives_the_ends_of_its_prior_or_there_are_none() -> None:
    row = primitive(_rows(0, 20))
    with pytest.raises(InputError, match="whose number of records is not public"):
        Prior("known-total").on(row, total=None)
    assert Prior("known-total").on(row, total=48).ends == (48.0, 48.0)


def test_a_public_answer_is_read_as_it_is_or_contradicts_the_prior() -> None:
    known = Posterior(48.0, np.zeros(0), 0.0)
    stated = Stated(known, EXACT)
    for reading in (Reading("convolution"), Reading(prior=Prior("known-total", 48.0, 48.0))):
        found = read(stated, known, reading)
        assert (found.posterior, found.statement) == (known, EXACT)
    with pytest.raises(ContradictedPriorError):
        read(stated, known, Reading(prior=Prior("between", 0.0, 47.0)))


def test_ends_follow_from_the_weights_of_the_query() -> None:
    query = linear_query((20,), [(3, {0: interval(20, 0, 5)}), (-2, {0: interval(20, 10, 20)})])
    row = primitive(query)
    assert Prior("known-total").on(row, total=100).ends == (-200.0, 300.0)
    with pytest.raises(InputError, match="`prior` must not be `non-negative`"):
        Prior("non-negative").on(row, total=None)
    count = primitive(_rows(3, 7))
    assert Prior("non-negative").on(count, total=None).ends == (0.0, math.inf)
    negative = primitive(_rows(3, 7).scaled(-1))
    with pytest.raises(InputError, match="weight below 0"):
        Prior("non-negative").on(negative, total=None)


@pytest.mark.parametrize(
    ("plain", "name"),
    [
        ({"method": "exact"}, "method"),
        ({"step": 1.0}, "step"),
        ({"method": "monte-carlo", "step": 1.0}, "step"),
        ({"method": "convolution", "step": 0.0}, "step"),
        ({"method": "convolution", "draws": 20_000}, "draws"),
        ({"method": "monte-carlo", "draws": 9_999}, "draws"),
        ({"method": "monte-carlo", "draws": 2_000_001}, "draws"),
        ({"error": 0.0009}, "error"),
        ({"error": math.nan}, "error"),
        ({"prior": {"kind": "between", "low": 3.0, "high": 3.0}}, "prior"),
        ({"prior": {"kind": "between", "low": None, "high": 3.0}}, "prior"),
        ({"prior": {"kind": "between", "low": -math.inf, "high": 3.0}}, "prior"),
        ({"prior": {"kind": "positive", "low": None, "high": None}}, "prior"),
    ],
)
def test_a_reading_that_means_nothing_is_refused(plain: dict[str, object], name: str) -> None:
    with pytest.raises(InputError) as caught:
        codec.read(Reading, plain)
    assert caught.value.name == name


def test_a_reading_is_stored_as_what_differs_from_the_default() -> None:
    assert codec.plain(Reading()) == {}
    for reading in (
        Reading("convolution", step=0.5),
        Reading("monte-carlo", draws=50_000, error=2e-3),
        Reading(prior=Prior("between", -1.0, 4.5)),
        Reading(prior=NON_NEGATIVE),
    ):
        written = codec.plain(reading)
        assert codec.read(Reading, {**written, "terms": []}) == reading
        assert len(written) < 5
