"""What models answer: marginals, products of weights, scopes no table holds, drawn records."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from qserver.errors import CapacityError
from qserver.models.marginals.estimate import estimate, near_records
from qserver.models.marginals.fit.observations import NoisyMarginal
from qserver.models.marginals.model import (
    FactorTable,
    KnownPart,
    RelaxedDistribution,
    eliminate,
    least_violation,
)

SIZES = (2, 3, 2, 3, 2)
SCOPES = [(0, 1), (1, 2), (2, 3)]
N_DRAWN = 200_000
# Standard errors of a proportion; a false alarm on 60 cells once in some 10^6 runs.
ERRORS = 6.0


def model(oracle, scale=0.1):
    """A chain of pairs fitted to marginals of one table, exact; attribute 4 is unmeasured."""
    rng = np.random.default_rng(8)
    full = rng.dirichlet(np.full(36, 0.5)).reshape(SIZES[:4])
    measurements = [
        NoisyMarginal(
            scope,
            1000.0 * full.sum(axis=tuple(a for a in range(4) if a not in scope)),
            np.array(scale),
        )
        for scope in SCOPES
    ]
    return estimate(SIZES, measurements, oracle=oracle, precision=1e-6).distribution


def chain(distribution):
    """The chain's distribution from its pairs: p(01) p(2 | 1) p(3 | 2), uniform in attribute 4."""
    a, b, c = (distribution.marginal(s) for s in SCOPES)
    with np.errstate(invalid="ignore"):
        joint = np.einsum(
            "ab,bc,cd->abcd", a, b / b.sum(1, keepdims=True), c / c.sum(1, keepdims=True)
        )
    return np.repeat(joint[..., None] / 2, 2, axis=-1)


def test_an_exact_model_answers_every_scope_as_the_chain_written_out():
    distribution = model("exact")
    joint = chain(distribution)
    for inside in product([False, True], repeat=5):
        scope = tuple(a for a in range(5) if inside[a])
        expected = joint.sum(axis=tuple(a for a in range(5) if a not in scope))
        assert_allclose(distribution.marginal(scope), expected, atol=1e-9)


def test_an_exact_model_weighs_products_as_the_chain_written_out():
    distribution = model("exact")
    weights = {0: np.array([1.0, -2.0]), 3: np.array([0.5, 0.0, 1.0]), 4: np.array([1.0, 0.0])}
    expected = np.einsum("abcde,a,d,e->", chain(distribution), *weights.values())
    assert_allclose(distribution.expectation(weights), expected, rtol=1e-8)
    assert_allclose(distribution.expectation({}), 1.0, rtol=1e-9)


def test_a_relaxed_model_takes_what_nothing_ties_as_independent():
    """Attribute 4 is in no table: it is uniform, whatever else is asked with it."""
    distribution = model("saturated")
    zero = distribution.marginal((0,))
    assert_allclose(distribution.marginal((0, 4)), np.outer(zero, [0.5, 0.5]), atol=1e-8)
    weights = {0: np.array([0.0, 1.0]), 4: np.array([1.0, 0.0])}
    assert_allclose(distribution.expectation(weights), zero[1] / 2, atol=1e-8)
    assert not distribution.holds((0, 4))


@pytest.mark.parametrize("scope", [(0, 3), (0, 1, 3), (0, 2, 3), (0, 1, 2, 3)])
def test_a_relaxed_model_ties_attributes_through_those_between(scope):
    """(0, 3) is in no table, yet 0 tells of 1, this of 2, and this of 3: as in the chain."""
    distribution = model("saturated", scale=1e-3)
    joint = chain(distribution)
    expected = joint.sum(axis=tuple(a for a in range(5) if a not in scope))
    assert_allclose(distribution.marginal(scope), expected, atol=1e-5)
    weights = {0: np.array([0.0, 1.0]), 3: np.array([1.0, 1.0, 0.0])}
    told = np.einsum("abcde,a,d->", joint, *weights.values())
    assert_allclose(distribution.expectation(weights), told, atol=1e-5)


def test_with_much_noise_attributes_that_share_no_table_are_independent():
    """Their dependence through others would be that of the noise."""
    distribution = model("saturated", scale=100.0)
    zero, three = distribution.marginal((0,)), distribution.marginal((3,))
    assert_allclose(distribution.marginal((0, 3)), np.outer(zero, three), atol=1e-8)


def test_a_relaxed_model_answers_a_scope_of_several_tables_by_most_entropy():
    """(0, 1, 2) of two pairs that agree on 1: conditional independence given 1."""
    distribution = model("saturated", scale=1e-3)
    a, b = distribution.marginal((0, 1)), distribution.marginal((1, 2))
    middle = a.sum(axis=0)
    expected = np.einsum("ab,bc->abc", a, b / np.where(middle > 0, middle, 1.0)[:, None])
    assert_allclose(distribution.marginal((0, 1, 2)), expected, atol=1e-5)


def test_tables_that_cannot_come_from_one_are_violated_little():
    """Three binary pairs, all as unlike as can be: against a dense search over all eight cells."""
    unlike, softness = np.array([[0.05, 0.45], [0.45, 0.05]]), 0.03
    known = [KnownPart(pair, unlike, n) for n, pair in enumerate(((0, 1), (0, 2), (1, 2)), 1)]
    found = least_violation((2, 2, 2), known, softness=softness).ravel()

    def lost(logs):
        cells = np.exp(logs - logs.max())
        table = (cells / cells.sum()).reshape(2, 2, 2)
        off = [table.sum(axis=3 - sum(k.part)) - k.table for k in known]
        squares = sum(0.5 * k.n * np.sum(o**2) for k, o in zip(known, off, strict=True))
        return squares + softness * np.sum(table * np.log(8 * table))

    best = minimize(lost, np.zeros(8), method="BFGS", options={"gtol": 1e-8})
    assert lost(np.log(found)) - best.fun < softness**2
    assert best.fun > 0.01


def noisy_triples(softness):
    """Mean distance from the truth of triples, answered from their three pairs with noise."""
    rng, shape, scale = np.random.default_rng(5), (5, 6, 7), 5e-3
    far = []
    for _ in range(20):
        truth = np.einsum("a,b,c->abc", *(rng.dirichlet(np.full(n, 0.3)) for n in shape))
        known = []
        for pair in ((0, 1), (0, 2), (1, 2)):
            clean = truth.sum(axis=3 - sum(pair))
            noisy = np.maximum(clean + rng.laplace(0, scale, clean.shape), 0)
            known.append(KnownPart(pair, noisy / noisy.sum()))
        found = least_violation(shape, known, softness=softness * scale)
        far.append(np.abs(found - truth).sum())
    return np.mean(far)


def test_noisy_parts_are_not_fitted_closer_than_their_noise():
    """Softness of one scale of the noise beats a hundredth of it by more than a fifth."""
    assert noisy_triples(1.0) < 0.8 * noisy_triples(0.01)


def by_pairs(scale):
    """All pairs of five attributes with noise of this scale, and the records' true pairs."""
    rng, n = np.random.default_rng(31), 5_000
    codes = rng.integers(6, size=(n, 5))
    codes[:, 1:] = np.where(rng.random((n, 4)) < 0.5, codes[:, :1] // 2, codes[:, 1:])
    true = {
        (a, b): np.bincount(6 * codes[:, a] + codes[:, b], minlength=36).reshape(6, 6) / n
        for a, b in combinations(range(5), 2)
    }
    said = [
        NoisyMarginal(s, n * t + rng.laplace(0, scale, t.shape), np.array(scale))
        for s, t in true.items()
    ]
    return estimate((6,) * 5, said, oracle="saturated", total=float(n)).distribution, true


def test_noisy_tables_are_answered_nearer_to_the_truth_than_they_are_held():
    """Noise of .7 of the records per table: answers err by less than .7 of what tables do."""
    distribution, true = by_pairs(100.0)
    held = np.mean([np.abs(distribution.as_held(s) - t).sum() for s, t in true.items()])
    told = np.mean([np.abs(distribution.marginal(s) - t).sum() for s, t in true.items()])
    assert told < 0.7 * held
    weights = np.arange(6.0), np.ones(6)
    expected = distribution.marginal((0, 1)).sum(axis=1) @ weights[0]
    found = distribution.expectation(dict(enumerate(weights)))
    assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("scale", [10.0, 30.0, 100.0])
def test_noisy_answers_are_no_further_from_the_truth_than_records_near_to_the_tables(scale):
    """Noise of .07 to .7 of the records per table: by no more than three percent."""
    distribution, true = by_pairs(scale)
    assert isinstance(distribution, RelaxedDistribution)
    records = near_records(distribution)
    cells = {s: np.bincount(6 * records[:, s[0]] + records[:, s[1]], minlength=36) for s in true}
    drawn = np.mean([np.abs(cells[s] / len(records) - t.ravel()).sum() for s, t in true.items()])
    told = np.mean([np.abs(distribution.marginal(s) - t).sum() for s, t in true.items()])
    assert told < 1.03 * drawn


def test_tables_with_little_noise_are_answered_as_they_are_held():
    """Noise of .004 of the records per table."""
    distribution, true = by_pairs(0.5)
    for scope in true:
        assert (distribution.marginal(scope) == distribution.as_held(scope)).all()


def test_of_tables_in_line_with_what_is_known_the_one_of_most_entropy_is_taken():
    """A cycle of pairs and a single: against the dense dual, a potential per known cell."""
    rng = np.random.default_rng(4)
    whole = rng.dirichlet(np.ones(16)).reshape((2,) * 4)
    parts = [(0, 1), (1, 2), (0, 2), (3,)]
    known = [KnownPart(p, whole.sum(axis=tuple(a for a in range(4) if a not in p))) for p in parts]
    codes = np.indices((2,) * 4).reshape(4, -1)
    rows = [
        np.all(codes[list(p)] == np.array(v)[:, None], axis=0)
        for p in parts
        for v in product((0, 1), repeat=len(p))
    ]
    matrix = np.array(rows, dtype=float)
    target = np.concatenate([k.table.ravel() for k in known])

    def dual(theta):
        cells = np.exp(matrix.T @ theta)
        return np.log(cells.sum()) - theta @ target, matrix @ cells / cells.sum() - target

    found = minimize(dual, np.zeros(len(target)), jac=True, method="BFGS", options={"gtol": 1e-10})
    cells = np.exp(matrix.T @ found.x)
    expected = cells / cells.sum()
    table = least_violation((2,) * 4, known, softness=1e-9)
    assert_allclose(table.ravel(), expected, atol=1e-7)


def test_elimination_refuses_products_that_are_too_large():
    big = FactorTable((0, 1), np.ones((5000, 5000)))
    with pytest.raises(CapacityError, match="table of 25,000,000 cells; 16,777,216 are the most"):
        eliminate([big], (0, 1))


@pytest.mark.parametrize("oracle", ["exact", "saturated"])
def test_drawn_records_have_the_model_s_pairs(oracle):
    """200,000 records; every cell of every measured pair within six standard errors."""
    distribution = model(oracle)
    records = distribution.draw(N_DRAWN, np.random.default_rng(12))
    for scope in [*SCOPES, (4,)]:
        shape = tuple(SIZES[a] for a in scope)
        cell = np.ravel_multi_index(tuple(records[:, a] for a in scope), shape)
        share = np.bincount(cell, minlength=int(np.prod(shape))) / N_DRAWN
        expected = distribution.marginal(scope).ravel()
        error = np.sqrt(expected * (1 - expected) / N_DRAWN)
        assert (np.abs(share - expected) <= ERRORS * error + 1e-6).all()


def test_a_draw_from_independent_attributes_would_be_caught():
    """The test above is sharp enough to see a lost dependence."""
    distribution = model("exact")
    pair = distribution.marginal((0, 1))
    apart = np.outer(pair.sum(axis=1), pair.sum(axis=0))
    error = np.sqrt(pair * (1 - pair) / N_DRAWN)
    assert (np.abs(apart - pair) > ERRORS * error + 1e-6).any()


def test_the_same_seed_draws_the_same_records():
    distribution = model("exact")
    first, second = (distribution.draw(50, np.random.default_rng(3)) for _ in range(2))
    assert (first == second).all()


def test_records_are_drawn_given_several_attributes_at_once():
    """Two triples that share a pair: every cell of both within six standard errors."""
    rng = np.random.default_rng(21)
    full = rng.dirichlet(np.full(24, 0.4)).reshape(2, 3, 2, 2)
    triples = [(0, 1, 2), (1, 2, 3)]
    measurements = [
        NoisyMarginal((0, 1, 2), 1000.0 * full.sum(axis=3), np.array(0.1)),
        NoisyMarginal((1, 2, 3), 1000.0 * full.sum(axis=0), np.array(0.1)),
    ]
    distribution = estimate((2, 3, 2, 2), measurements, oracle="exact", precision=1e-4).distribution
    records = distribution.draw(N_DRAWN, np.random.default_rng(22))
    for scope in triples:
        shape = tuple((2, 3, 2, 2)[a] for a in scope)
        cell = np.ravel_multi_index(tuple(records[:, a] for a in scope), shape)
        share = np.bincount(cell, minlength=int(np.prod(shape))) / N_DRAWN
        expected = distribution.marginal(scope).ravel()
        error = np.sqrt(expected * (1 - expected) / N_DRAWN)
        assert (np.abs(share - expected) <= ERRORS * error + 1e-6).all()
