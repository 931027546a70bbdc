"""Estimates at their limits: contradictory answers, hard tables, much work, nothing measured."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from qserver.errors import InputError
from qserver.models.marginals.estimate import estimate
from qserver.models.marginals.fit import consensus, descent
from qserver.models.marginals.fit.consistency import CliqueAgreement
from qserver.models.marginals.fit.descent import descend
from qserver.models.marginals.fit.observations import NoisyMarginal, Observations
from qserver.models.marginals.graph.junction_tree import JunctionTree

ONE = np.ones(1)
SIZES = (4, 3, 2, 5)
CYCLE = [(0, 1), (1, 2), (2, 3), (0, 3), (1, 3)]


def released(full, scopes, rng):
    """Marginals of a table of all cells with noise of scale 1."""
    found = []
    for scope in scopes:
        rest = tuple(a for a in range(full.ndim) if a not in scope)
        truth = full.sum(axis=rest).ravel()
        found.append(NoisyMarginal(scope, truth + rng.laplace(size=len(truth)), ONE))
    return found


def concentrated():
    """10^8 records, nearly all of them in few cells: here neither way gets to a hundredth."""
    rng = np.random.default_rng(3)
    full = rng.dirichlet(np.full(120, 0.02)).reshape(SIZES) * 1e8
    return released(full, CYCLE, rng)


@pytest.mark.slow
def test_no_gap_is_said_to_be_zero_because_rounding_left_more_than_one_record_in_all():
    """Tables that contradict one another by 10^12 times their noise."""
    rng = np.random.default_rng(1)
    said = [
        NoisyMarginal((0, 1), np.full(6, 1e12) + rng.normal(size=6), ONE),
        NoisyMarginal((1, 2), np.array([6e12, 0, 0, 0, 0, 0]) + rng.normal(size=6), ONE),
        NoisyMarginal((0, 2), np.full(4, 1.5e12), ONE),
    ]
    found = estimate((2, 3, 2), said, oracle="exact")
    assert_allclose(found.layout.totals(found.tables), 1.0, rtol=0, atol=1e-12)
    relaxed = estimate((2, 3, 2), said, oracle="saturated").fit
    # A distribution cannot have less than tables that need agree in pairs alone.
    assert found.fit.loss >= relaxed.loss - relaxed.gap - 1e-9


@pytest.mark.slow
def test_where_consensus_just_misses_and_proximal_steps_fail_potentials_are_fitted_to_it():
    said = concentrated()
    tree = JunctionTree(SIZES, CYCLE)
    found = estimate(SIZES, said, oracle="exact")
    seen = Observations(tree.layout, said, total=found.total)
    steps = descend(tree, seen, gap=1e-2 * seen.noise_loss)
    assert found.fit.loss <= 0.1 * steps.value
    assert_allclose(seen.value(found.tables), found.fit.loss, rtol=1e-9)
    assert_allclose(
        found.distribution.marginal((0, 1)).ravel(),
        tree.layout.table(found.tables, tree.layout.index[0, 1]).ravel(),
        atol=1e-12,
    )


@pytest.mark.parametrize("likelihood", ["squares", "laplace"])
def test_rounds_on_the_cliques_are_fewer_where_rows_take_many_copies(likelihood, monkeypatch):
    rng, scopes = np.random.default_rng(5), [(0, 1)]
    said = released(rng.random((4, 3)) * 100.0, scopes, rng)
    for _ in range(20):
        row = sparse.csr_array(rng.random((1, 12)))
        said.append(NoisyMarginal((0, 1), 30.0 * rng.random(1), ONE, row))
    cliques = CliqueAgreement.of(JunctionTree((4, 3), scopes))
    seen = Observations(cliques.layout, said, total=100.0, likelihood=likelihood)
    # Two tables and twenty copies of twelve cells.
    monkeypatch.setattr(consensus, "MAX_WORK", 50 * 22 * 12)
    # No gap is below zero, so that only the work ends them.
    found = consensus.agree(seen, gap=-1.0, polytope=cliques)
    assert found.rounds == 50
    monkeypatch.setattr(consensus, "MAX_WORK", 1)
    found = consensus.agree(seen, gap=-1.0, polytope=cliques, max_rounds=0)
    assert found.rounds == 10
    assert np.isfinite(found.gap)


def test_the_total_alone_is_no_model():
    with pytest.raises(InputError, match="attribute"):
        estimate((2, 3), [NoisyMarginal((), np.array([10.0]), ONE)])


@pytest.mark.parametrize("zeros", [[], [1.0, -1.0, 0.0]], ids=["empty", "stored"])
def test_a_row_of_zeros_is_named(zeros):
    """Also where its zeros are stored, or entries of one cell add up to it."""
    data, cells = np.array([1.0, *zeros]), np.array([1, 2, 2, 0][: 1 + len(zeros)])
    matrix = sparse.csr_array((data, cells, np.array([0, 1, len(data)])), shape=(2, 3))
    with pytest.raises(InputError, match="rows"):
        NoisyMarginal((1,), np.ones(2), ONE, matrix)


def test_a_descent_that_is_cut_short_ends_nearer_than_uniform_tables(monkeypatch):
    """Stages of two rounds, which overshoot, on pairs that contradict one another."""
    monkeypatch.setattr(descent, "_STAGE_ROUNDS", 2)
    rng = np.random.default_rng(2)
    pairs = list(combinations(range(6), 2))
    said = [NoisyMarginal(s, rng.dirichlet(np.full(9, 0.02)), np.array(1e-3)) for s in pairs]
    tree = JunctionTree((3,) * 6, pairs)
    seen = Observations(tree.layout, said, total=1.0)
    uniform = seen.value(tree.run(np.zeros(tree.layout.n_cells)).tables)
    assert descend(tree, seen, gap=0.0, max_calls=2).value < uniform
