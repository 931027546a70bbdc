"""What to measure for a workload of marginals, and which tables records are drawn from."""

from __future__ import annotations

from itertools import combinations
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from qserver.errors import InputError
from qserver.models.marginals.estimate import estimate, record_source, tractable
from qserver.models.marginals.fit.observations import NoisyMarginal
from qserver.models.marginals.model import RelaxedDistribution
from qserver.models.marginals.selection import _covers, best_choice, best_views, expected_errors
from qserver.records.privacy.noise_law import GAUSSIAN, LAPLACE

SIZES = (2, 3, 4)
both_laws = pytest.mark.parametrize("law", [LAPLACE, GAUSSIAN], ids=lambda law: law.name)
PAIRS: list[tuple[int, ...]] = list(combinations(range(3), 2))
FULL = np.random.default_rng(6).multinomial(4_000, np.random.default_rng(7).dirichlet(np.ones(24)))
FULL = FULL.reshape(SIZES).astype(float)


def truth(scope):
    return FULL.sum(axis=tuple(a for a in range(3) if a not in scope)).ravel()


def dense_error(scopes, alphas, workload, law=LAPLACE):
    """Expected squared error by least squares on all cells: trace of W (M' V^-1 M)^+ W'."""
    codes = np.indices(SIZES).reshape(3, -1)

    def matrix(scope):
        cell = np.zeros(codes.shape[1], dtype=int)
        for a in scope:
            cell = cell * SIZES[a] + codes[a]
        rows = np.zeros((int(np.prod([SIZES[a] for a in scope], initial=1)), codes.shape[1]))
        rows[cell, np.arange(codes.shape[1])] = 1
        return rows

    information = sum(
        (a**2 / 2 if law is LAPLACE else 2 * a) * matrix(s).T @ matrix(s)
        for s, a in zip(scopes, alphas, strict=True)
    )
    covariance = np.linalg.pinv(information, rcond=1e-10)
    return sum(np.trace(matrix(w) @ covariance @ matrix(w).T) for w in workload)


@both_laws
def test_the_closed_form_is_the_error_of_dense_least_squares(law):
    candidates = [*PAIRS, (0, 1, 2), (1,), ()]
    choice = best_choice(SIZES, [*PAIRS, (1,)], candidates=candidates, law=law)
    expected = dense_error(choice.scopes, choice.shares, [*PAIRS, (1,)], law)
    assert_allclose(choice.error, expected, rtol=1e-8)
    assert_allclose(choice.shares.sum(), 1.0)


@both_laws
def test_the_expected_error_of_each_marginal_is_that_of_dense_least_squares(law):
    """Two tables that hold it, or parts of it; infinite where none holds a pair."""
    alphas = {(0, 1, 2): 0.3, (0, 1): 0.5, (1,): 0.2}
    wanted = [*PAIRS, (1,), (0, 1, 2)]
    found = expected_errors(SIZES, wanted, alphas, missed=1e6, law=law)
    for scope, one in zip(wanted, found, strict=True):
        cells = prod(SIZES[a] for a in scope)
        dense = dense_error(list(alphas), list(alphas.values()), [scope], law)
        assert_allclose(one, np.sqrt(dense / cells), rtol=1e-8)
    assert np.isinf(expected_errors(SIZES, [(0, 2), (0, 1, 2)], {(0, 1): 1.0}, missed=1.0)).all()


def test_what_pairs_miss_of_a_wider_marginal_counts_beside_their_noise():
    """Without noise the mean absolute errors of its cells add up to that of 6 free counts."""
    sharp, noisy = (dict.fromkeys(PAIRS, alpha) for alpha in (1e9, 0.1))
    (found,) = expected_errors(SIZES, [(0, 1, 2)], sharp, missed=240.0)
    assert_allclose(24 * found * (2 / np.pi) ** 0.5, 6 * 240.0, rtol=1e-6)
    both, noise = (expected_errors(SIZES, [(0, 1, 2)], noisy, missed=m) for m in (240.0, 0.0))
    assert_allclose(both**2, noise**2 + found**2, rtol=1e-6)


@both_laws
def test_no_small_change_of_the_shares_lowers_the_error(law):
    """Every exchange of one part in a hundred between two marginals on offer."""
    candidates = [*PAIRS, (0, 1, 2), (0,), (1,), (2,), ()]
    choice = best_choice(SIZES, PAIRS, candidates=candidates, law=law)
    shares = dict.fromkeys(candidates, 0.0) | dict(zip(choice.scopes, choice.shares, strict=True))
    best = dense_error(list(shares), list(shares.values()), PAIRS, law)
    for a, b in combinations(candidates, 2):
        for sign in (0.01, -0.01):
            moved = dict(shares)
            moved[a], moved[b] = moved[a] + sign, moved[b] - sign
            if min(moved.values()) >= 0:
                assert dense_error(list(moved), list(moved.values()), PAIRS, law) >= best * (
                    1 - 1e-6
                )


def test_the_choice_beats_measuring_the_workload_evenly():
    workload = list(combinations(range(6), 2))
    sizes = (4,) * 6
    triples = list(combinations(range(6), 3))
    alone = best_choice(sizes, workload)
    with_triples = best_choice(sizes, workload, candidates=[*workload, *triples])
    evenly = len(workload) * 16 * 2 * len(workload) ** 2
    assert with_triples.error < 0.8 * alone.error < 0.8 * evenly


def test_what_is_known_already_counts_and_is_not_bought_again():
    known: dict[tuple[int, ...], float] = {(0, 1): 50.0}
    choice = best_choice(SIZES, [(0, 1), (2,)], known=known)
    assert (0, 1) not in choice.scopes
    expected = dense_error([(0, 1), *choice.scopes], [50.0, *choice.shares], [(0, 1), (2,)])
    assert_allclose(choice.error, expected, rtol=1e-8)


def test_candidates_that_miss_the_workload_are_refused():
    with pytest.raises(InputError, match="`candidates` must hold every marginal"):
        best_choice(SIZES, PAIRS, candidates=[(0, 1)])


def of_views(sizes, wanted):
    return best_views(sizes, wanted, candidates=wanted)


@given(st.data())
def test_every_cover_holds_every_wanted_marginal_in_views_of_its_width(data):
    sizes = tuple(data.draw(st.lists(st.integers(1, 9), min_size=3, max_size=7)))
    scope = st.sets(st.integers(0, len(sizes) - 1), min_size=1, max_size=3)
    wanted = data.draw(
        st.lists(scope.map(lambda s: tuple(sorted(s))), unique=True, min_size=1, max_size=12)
    )
    widest = max(prod(sizes[a] for a in s) for s in wanted)
    for cover in _covers(sizes, wanted):
        assert all(any(set(s) <= set(view) for view in cover) for s in wanted)
        assert all(prod(sizes[a] for a in view) <= max(8192, widest) for view in cover)
        assert len(cover) <= len(wanted)


def test_views_of_a_survey_err_by_half_of_what_its_pairs_do():
    """16 questions of 2 values: the root of the expected squared error."""
    pairs = list(combinations(range(16), 2))
    alone, views = best_choice((2,) * 16, pairs, candidates=pairs), of_views((2,) * 16, pairs)
    assert views.error < 0.2 * alone.error
    assert len(views.scopes) <= 16


def test_of_wide_values_the_wanted_marginals_are_measured_themselves():
    pairs = list(combinations(range(4), 2))
    assert of_views((60,) * 4, pairs).scopes == tuple(pairs)


def test_views_of_triples_err_less_on_them_than_pairs_and_triples_that_views_of_pairs_hold():
    """Wanting more made triples worse once: .0585 of all triples, .0215 of all pairs."""
    pairs, triples = (list(combinations(range(12), k)) for k in (2, 3))
    of_pairs, of_triples = of_views((2,) * 12, pairs), of_views((2,) * 12, triples)
    assert len(of_triples.scopes) < len(pairs)
    held = [s for s in triples if any(set(s) <= set(view) for view in of_pairs.scopes)]
    assert held
    alone = best_choice((2,) * 12, triples, candidates=triples)
    assert of_triples.error < 0.15 * alone.error


def test_records_are_drawn_from_the_most_telling_tables_that_fit():
    """A cycle of pairs that no small tree holds: the weakest pair is given up."""
    rng = np.random.default_rng(2)
    codes = np.zeros((4_000, 3), dtype=int)
    codes[:, 0] = rng.integers(3, size=4_000)
    codes[:, 1] = np.where(rng.random(4_000) < 0.9, codes[:, 0], rng.integers(3, size=4_000))
    codes[:, 2] = np.where(rng.random(4_000) < 0.8, codes[:, 1], rng.integers(3, size=4_000))
    sizes = (3, 3, 3)
    said = []
    for a, b in PAIRS:
        counts = np.bincount(3 * codes[:, a] + codes[:, b], minlength=9).astype(float)
        said.append(NoisyMarginal((a, b), counts, np.array(0.5)))
    relaxed = estimate(sizes, said, oracle="saturated")
    assert isinstance(relaxed.distribution, RelaxedDistribution)
    drawn_from = tractable(relaxed.distribution, max_cells=21)
    assert drawn_from.holds((0, 1))
    assert drawn_from.holds((1, 2))
    assert not drawn_from.holds((0, 2))
    for pair in ((0, 1), (1, 2)):
        ours, theirs = drawn_from.marginal(pair), relaxed.distribution.marginal(pair)
        assert_allclose(ours, theirs, atol=5e-3)
    small = tractable(relaxed.distribution, max_cells=9)
    for a in range(3):
        assert_allclose(small.marginal((a,)), relaxed.distribution.marginal((a,)), atol=5e-3)
    exact = estimate(sizes, said, oracle="exact")
    assert record_source(exact).drawn_from is exact.distribution
    assert record_source(exact).moved_to is None
