"""Estimates of nearly the least loss: against dense projections, linear programmes, all cells."""

from __future__ import annotations

import random
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import nnls

from qserver.errors import CapacityError, InputError
from qserver.models.marginals import estimate as by_estimate
from qserver.models.marginals.estimate import estimate
from qserver.models.marginals.fit import consistency
from qserver.models.marginals.fit.consensus import agree
from qserver.models.marginals.fit.observations import NoisyMarginal, Observations
from qserver.models.marginals.graph.layout import layout_of
from qserver.models.marginals.model import RelaxedDistribution
from tests.benchmarks.wide_records import adult_records
from tests.models.marginals.few_rounds import limit_rounds
from tests.models.marginals.local_polytope import least_absolute, local_polytope, nearest
from tests.models.marginals.message_passing import estimate_by_messages
from tests.models.marginals.released_marginals import SCOPES, SIZES, TOTAL, dense_targets, released


@pytest.mark.slow
@pytest.mark.parametrize(("oracle", "on"), [("saturated", "shared"), ("factor", "singles")])
@pytest.mark.parametrize(
    ("method", "precision", "error"), [("consensus", 1e-8, 1e-5), ("messages", 1e-4, 5e-3)]
)
def test_relaxed_squares_are_the_euclidean_projection_onto_the_local_polytope(
    oracle, on, method, precision, error
):
    """An independent method of multipliers on dense constraints; scales differ per marginal."""
    measurements = released(SCOPES)
    solve = estimate if method == "consensus" else estimate_by_messages
    found = solve(SIZES, measurements, oracle=oracle, total=TOTAL, precision=precision)
    layout = layout_of(SIZES, SCOPES)
    target, weight = dense_targets(layout, measurements)
    assert (target < 0).any()
    expected = nearest(local_polytope(layout, on=on), target, weight)
    # What is told of noisy tables is no closer than their noise; the fit is.
    assert isinstance(found.distribution, RelaxedDistribution)
    for i, scope in enumerate(layout.scopes):
        table = found.distribution.as_held(scope)
        assert_allclose(table, layout.table(expected, i), atol=error)
    assert found.fit.inconsistency <= 1e-6


def test_the_exact_oracle_finds_the_least_squares_over_all_distributions():
    """Against non-negative least squares on all 36 cells."""
    measurements = released(SCOPES)
    found = estimate(SIZES, measurements, oracle="exact", total=TOTAL, precision=1e-6)
    rows, right = [np.full(36, 1e6)], [np.array([1e6])]
    least = min(m.scales.min() for m in measurements)
    for m in measurements:
        ratio = least / m.scales[0]
        rows.append(ratio * marginal_matrix(m.scope))
        right.append(ratio * m.answers / TOTAL)
    cells, residual = nnls(np.vstack(rows), np.concatenate(right))
    assert_allclose(found.fit.loss, residual**2 / 2, rtol=1e-4)
    for scope in SCOPES:
        expected = marginal_matrix(scope) @ cells
        assert_allclose(found.distribution.marginal(scope).ravel(), expected, atol=2e-3)


def marginal_matrix(scope):
    """The 0/1 matrix that sums all cells to a marginal."""
    codes = np.indices(SIZES).reshape(len(SIZES), -1)
    shape = tuple(SIZES[a] for a in scope)
    cell = np.ravel_multi_index(tuple(codes[a] for a in scope), shape)
    matrix = np.zeros((int(np.prod(shape)), codes.shape[1]))
    matrix[cell, np.arange(codes.shape[1])] = 1.0
    return matrix


def test_the_gap_is_never_less_than_the_distance_from_the_least_loss():
    """Stopped early, after every ten rounds; the least loss comes from the dense projection."""
    measurements = released(SCOPES)
    layout = layout_of(SIZES, SCOPES)
    seen = Observations(layout, measurements, total=TOTAL)
    target, weight = dense_targets(layout, measurements)
    best = nearest(local_polytope(layout), target, weight)
    least = 0.5 * float(weight @ (best - target) ** 2)
    gaps = []
    for rounds in (10, 20, 30, 40, 60, 100):
        found = agree(seen, gap=0.0, max_rounds=rounds)
        assert -1e-9 <= found.value - least <= found.gap + 1e-12
        gaps.append(found.gap)
    assert gaps[0] > 1e-6
    assert gaps[-1] < 1e-3 * gaps[0]


@pytest.mark.slow
@pytest.mark.parametrize("precision", [1.0, 1e-1, 1e-3])
@pytest.mark.parametrize(("oracle", "on"), [("saturated", "shared"), ("factor", "singles")])
def test_messages_come_with_a_gap_that_is_never_less_than_their_distance(oracle, on, precision):
    """The bound is that of multipliers; the least loss comes from the dense projection."""
    measurements = released(SCOPES)
    found = estimate_by_messages(
        SIZES, measurements, oracle=oracle, total=TOTAL, precision=precision
    )
    layout = layout_of(SIZES, SCOPES)
    target, weight = dense_targets(layout, measurements)
    best = nearest(local_polytope(layout, on=on), target, weight)
    least = 0.5 * float(weight @ (best - target) ** 2)
    assert -1e-9 <= found.fit.loss - least <= found.fit.gap + 1e-9
    assert found.fit.gap <= 1.5 * precision * found.fit.noise_loss
    # The tables that are returned agree: one projection after the messages.
    polytope = local_polytope(layout, on=on)
    assert_allclose(polytope.matrix @ found.tables, polytope.right, atol=1e-9)
    assert (found.tables >= 0).all()


PAIRS = list(combinations(range(13), 2))


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["squares", "laplace"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize(
    "scopes",
    [
        [(0, 1, 12), (1, 5, 12), (3, 7, 12), (5, 7, 12)],
        sorted(random.Random(12_000).sample(PAIRS, 12)),
        sorted(random.Random(16_000).sample(PAIRS, 16)),
        sorted(random.Random(20_001).sample(PAIRS, 20)),
    ],
    ids=["triples", "12-pairs", "16-pairs", "20-pairs"],
)
def test_the_exact_optimum_of_adult_is_proven_to_a_millionth_of_the_noise(
    likelihood, epsilon, scopes, monkeypatch
):
    """Trees of up to 13,516 cells, common cells and rare ones, many of them zero at the optimum.

    Proximal steps with a quasi-Newton search ended after 2,000 calls of the tree with up to
    five hundredths of the noise's loss unproven.
    """
    records = adult_records()
    rng = np.random.default_rng(7)
    scale = np.array(len(scopes) / epsilon)
    measurements = []
    for scope in scopes:
        counts = records.counts(scope)
        measurements.append(
            NoisyMarginal(scope, counts + rng.laplace(scale=scale, size=len(counts)), scale)
        )
    limit_rounds(monkeypatch, 1_500)
    found = estimate(
        records.sizes,
        measurements,
        oracle="exact",
        likelihood=likelihood,
        total=float(records.n),
        precision=1e-6,
    )
    assert found.fit.gap <= 1e-6 * found.fit.noise_loss
    assert found.fit.method == "consensus"


@pytest.mark.slow
@pytest.mark.parametrize("oracle", ["exact", "saturated"])
@pytest.mark.parametrize("likelihood", ["squares", "laplace"])
def test_noise_of_very_different_scales_takes_no_more_rounds(likelihood, oracle, monkeypatch):
    """Scales a hundredfold apart: with one penalty for all tables 5,000 rounds were too few."""
    records = adult_records()
    rng = np.random.default_rng(3)
    scopes = sorted(random.Random(12_000).sample(PAIRS, 12))
    measurements = []
    for i, scope in enumerate(scopes):
        scale, counts = np.array(12.0 * 10 ** (i % 3)), records.counts(scope)
        measurements.append(
            NoisyMarginal(scope, counts + rng.laplace(scale=scale, size=len(counts)), scale)
        )
    limit_rounds(monkeypatch, 1_000)
    found = estimate(
        records.sizes,
        measurements,
        oracle=oracle,
        likelihood=likelihood,
        total=float(records.n),
        precision=1e-3,
    )
    assert found.fit.gap <= 1e-3 * found.fit.noise_loss


@pytest.mark.parametrize("likelihood", ["squares", "laplace"])
def test_without_a_consensus_proximal_steps_come_to_the_same_loss(likelihood, monkeypatch):
    measurements = released(SCOPES)
    keywords = {"oracle": "exact", "likelihood": likelihood, "total": TOTAL, "precision": 1e-4}
    by_consensus = estimate(SIZES, measurements, **keywords)
    monkeypatch.setattr(consistency, "MAX_PARTS", 3)
    by_steps = [estimate(SIZES, measurements, **keywords)]
    monkeypatch.undo()
    monkeypatch.setattr(by_estimate, "_ROUNDS", 10)
    by_steps.append(estimate(SIZES, measurements, **keywords))
    assert by_consensus.fit.method == "consensus"
    for found in by_steps:
        assert found.fit.method == "descent"
        room = 1e-4 * found.fit.noise_loss
        assert max(by_consensus.fit.gap, found.fit.gap) <= room
        assert abs(by_consensus.fit.loss - found.fit.loss) <= room


def test_the_exact_gap_is_never_less_than_the_distance_from_the_least_loss():
    """At every precision, with rows and scales that differ by cell; least squares on all cells."""
    prefix = sparse.csr_array(np.tril(np.ones((9, 9))))
    answers = 100.0 + 10.0 * np.random.default_rng(1).normal(size=9)
    rows = NoisyMarginal((1, 3), answers, np.linspace(3.0, 9.0, 9), prefix)
    uneven = released(SCOPES)
    first = uneven[0]
    uneven[0] = NoisyMarginal(first.scope, first.answers, np.linspace(3.0, 30.0, 12))
    measurements = [*uneven, rows]
    stacked, right = [np.full(36, 1e6)], [np.array([1e6])]
    for m in measurements:
        ratio = 3.0 / m.scales[:, None]
        matrix = marginal_matrix(m.scope)
        stacked.append(ratio * (matrix if m.rows is None else m.rows.toarray() @ matrix))
        right.append(ratio[:, 0] * m.answers / TOTAL)
    _, residual = nnls(np.vstack(stacked), np.concatenate(right))
    for precision in (1.0, 1e-1, 1e-2, 1e-4, 1e-6):
        fit = estimate(SIZES, measurements, oracle="exact", total=TOTAL, precision=precision).fit
        assert -1e-9 <= fit.loss - residual**2 / 2 <= fit.gap + 1e-9
        assert fit.gap <= precision * fit.noise_loss


@pytest.mark.parametrize(("oracle", "on"), [("saturated", "shared"), ("factor", "singles")])
def test_the_laplace_likelihood_reaches_the_optimum_of_its_linear_programme(oracle, on):
    measurements = released(SCOPES)
    layout = layout_of(SIZES, SCOPES)
    seen = Observations(layout, measurements, total=TOTAL, likelihood="laplace")
    found = estimate(
        SIZES, measurements, oracle=oracle, likelihood="laplace", total=TOTAL, precision=1e-3
    )
    rows = np.eye(layout.n_cells)[seen.cells]
    least = least_absolute(local_polytope(layout, on=on), rows, seen.targets, seen.weights)
    assert least <= found.fit.loss + 1e-12
    assert found.fit.loss - least <= found.fit.gap
    assert found.fit.gap <= 1e-3 * found.fit.noise_loss


def test_the_exact_laplace_likelihood_reaches_its_linear_programme_too():
    measurements = released(SCOPES)
    found = estimate(
        SIZES, measurements, oracle="exact", likelihood="laplace", total=TOTAL, precision=1e-5
    )
    whole = layout_of(SIZES, [tuple(range(len(SIZES)))])
    seen = Observations(found.layout, measurements, total=TOTAL, likelihood="laplace")
    order = [s for m in measurements for s in [m.scope]]
    rows = np.vstack([marginal_matrix(s) for s in order])
    least = least_absolute(local_polytope(whole), rows, seen.targets, seen.weights)
    assert -1e-9 <= found.fit.loss - least <= found.fit.gap + 1e-9
    assert found.fit.gap <= 1e-5 * found.fit.noise_loss


@pytest.mark.parametrize("oracle", ["exact", "saturated", "factor"])
def test_rows_inside_a_clique_count_like_the_marginal_that_they_make_up(oracle):
    """The cells of a marginal as rows, in two overlapping groups, are the marginal itself."""
    whole = released(SCOPES)
    first = whole[0]
    eye = sparse.csr_array(np.eye(12))
    as_rows = NoisyMarginal(first.scope, first.answers, first.scales, eye)
    expected = estimate(SIZES, whole, oracle=oracle, total=TOTAL, precision=1e-7)
    found = estimate(SIZES, [as_rows, *whole[1:]], oracle=oracle, total=TOTAL, precision=1e-7)
    for scope in SCOPES:
        ours, theirs = found.distribution.marginal(scope), expected.distribution.marginal(scope)
        assert_allclose(ours, theirs, atol=1e-3)


def test_overlapping_rows_of_any_weights_are_fitted_as_a_dense_solve_does():
    """Prefix sums with weights, beside a marginal: least squares over all cells."""
    measurements = released([(0, 1, 2), (0, 3)])
    prefix = sparse.csr_array(np.tril(np.ones((9, 9))) * np.linspace(0.5, 1.0, 9)[:, None])
    answers = 150.0 + 10.0 * np.random.default_rng(1).normal(size=9)
    rows = NoisyMarginal((1, 3), answers, np.linspace(3.0, 9.0, 9), prefix)
    found = estimate(SIZES, [*measurements, rows], oracle="exact", total=TOTAL, precision=1e-6)
    stacked, right = [np.full(36, 1e6)], [np.array([1e6])]
    for m in [*measurements, rows]:
        ratio = 3.0 / m.scales[:, None]
        matrix = marginal_matrix(m.scope)
        stacked.append(ratio * (matrix if m.rows is None else m.rows.toarray() @ matrix))
        right.append(ratio[:, 0] * m.answers / TOTAL)
    _, residual = nnls(np.vstack(stacked), np.concatenate(right))
    assert_allclose(found.fit.loss, residual**2 / 2, rtol=1e-4)
    relaxed = estimate(
        SIZES, [*measurements, rows], oracle="saturated", total=TOTAL, precision=1e-6
    )
    # (0, 1, 2), (0, 3) and (1, 3) form a cycle: the relaxation may only fit better.
    assert relaxed.fit.loss <= found.fit.loss + relaxed.fit.gap


def test_two_measurements_of_one_marginal_count_by_their_precision():
    a, b = (
        released([(0, 1)], scales={(0, 1): 3.0}),
        released([(0, 1)], scales={(0, 1): 1.0}, seed=4),
    )
    both = estimate(SIZES, a + b, oracle="saturated", total=TOTAL, precision=1e-8)
    mean = (a[0].answers / 9 + b[0].answers) / (1 / 9 + 1)
    one = estimate(
        SIZES,
        [NoisyMarginal((0, 1), mean, np.array(1.0))],
        oracle="saturated",
        total=TOTAL,
        precision=1e-8,
    )
    assert_allclose(
        both.distribution.marginal((0, 1)), one.distribution.marginal((0, 1)), atol=1e-6
    )


def test_auto_takes_the_exact_oracle_while_its_tables_are_small():
    measurements = released(SCOPES)
    small = estimate(SIZES, measurements, total=TOTAL)
    large = estimate(SIZES, measurements, total=TOTAL, max_cells=35)
    assert (small.fit.oracle, large.fit.oracle) == ("exact", "saturated")
    assert small.fit.exact_cells == large.fit.exact_cells == 36
    with pytest.raises(CapacityError, match="would hold 36 cells; 35 are the most"):
        estimate(SIZES, measurements, oracle="exact", max_cells=35)


def test_the_total_is_the_mean_by_inverse_variance_of_all_whole_marginals():
    measurements = released(SCOPES)
    found = estimate(SIZES, measurements, oracle="saturated")
    variances = [2 * m.scales[0] ** 2 * len(m.answers) for m in measurements]
    expected = np.average([m.answers.sum() for m in measurements], weights=1 / np.array(variances))
    assert_allclose(found.total, expected)


def test_rows_alone_give_no_total():
    row = NoisyMarginal((0,), np.array([3.0]), np.array(1.0), sparse.csr_array([[1.0, 0.0]]))
    with pytest.raises(InputError, match="hold a whole marginal, which gives the total"):
        estimate(SIZES, [row])


@pytest.mark.parametrize("pair", [*combinations(range(4), 2)])
def test_marginals_of_the_exact_model_are_those_of_one_table_of_all_cells(pair):
    found = estimate(SIZES, released(SCOPES), oracle="exact", total=TOTAL).distribution
    whole = found.marginal((0, 1, 2, 3))
    other = tuple(a for a in range(4) if a not in pair)
    assert_allclose(found.marginal(pair), whole.sum(axis=other), atol=1e-12)
    assert_allclose(whole.sum(), 1.0)
