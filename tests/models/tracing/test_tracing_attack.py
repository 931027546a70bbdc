"""The attack on records: likelihoods, ROC, standard errors, effects, agreement with the bound."""

from __future__ import annotations

from math import inf, log, sqrt

import numpy as np
import pytest

from qserver.errors import InputError
from qserver.models.network.network import Network
from qserver.models.network.structure import Structure, complexity
from qserver.models.tracing.attack import Roc, TracingAttack, fitted, log_likelihood, threshold_at
from qserver.models.tracing.bound import TracingBound
from qserver.models.tracing.report import (
    AttackedRecords,
    StructurePart,
    measured_effects,
    structural_effects,
)
from tests.models.structures import sized

CHAIN = sized({"a": 2, "b": 3, "c": 2}, [("a", "c"), ("b", "c"), ("a", "b")])


def records_of(structure: Structure, n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, size, n) for size in structure.sizes])


def test_a_fitted_table_counts_the_records_and_adds_the_prior() -> None:
    records = records_of(CHAIN, 50, 1)
    tables = fitted(CHAIN, records, prior=0.5).cpds
    for a in range(2):
        for b in range(3):
            inside = records[(records[:, 0] == a) & (records[:, 1] == b)]
            ones = int((inside[:, 2] == 1).sum())
            expected = (ones + 0.5) / (len(inside) + 1.0)
            assert tables[2][a, b, 1] == pytest.approx(expected, rel=1e-12)


def test_a_likelihood_is_the_product_of_the_conditional_probabilities() -> None:
    network = fitted(CHAIN, records_of(CHAIN, 40, 2), prior=1.0)
    records = records_of(CHAIN, 10, 3)
    for (a, b, c), found in zip(records, log_likelihood(network, records), strict=True):
        product = network.cpds[0][a] * network.cpds[1][a, b] * network.cpds[2][a, b, c]
        assert found == pytest.approx(log(product), rel=1e-12)


def test_an_impossible_record_is_surely_no_member() -> None:
    one = sized({"a": 2}, [])
    released = Network(one, (np.array([1.0, 0.0]),))
    attack = TracingAttack(released, fitted(one, np.array([[0], [1]])))
    assert attack.scores(np.array([[0], [1]])).tolist() == [pytest.approx(log(2)), -inf]


def brute_auc(members: np.ndarray, others: np.ndarray) -> float:
    pairs = [(m > o) + 0.5 * (m == o) for m in members for o in others]
    return float(np.mean(pairs))


@pytest.mark.slow
def test_the_area_counts_pairs_and_its_error_is_that_of_leaving_records_out() -> None:
    """DeLong's variance is close to the jackknife's over both samples; ties are half a pair."""
    rng = np.random.default_rng(4)
    members, others = rng.integers(0, 9, 60) / 4 + 0.4, rng.integers(0, 9, 80) / 4 + 0.4
    members[:3] = others[:2].max()
    found = Roc(members, others).auc
    assert found.value == pytest.approx(brute_auc(members, others), rel=1e-12)
    variance = 0.0
    for sample, leave in ((members, 0), (others, 1)):
        left = []
        for i in range(len(sample)):
            kept = [members, others]
            kept[leave] = np.delete(sample, i)
            left.append(brute_auc(kept[0], kept[1]))
        variance += (len(left) - 1) ** 2 / len(left) * float(np.var(left, ddof=1))
    assert found.standard_error == pytest.approx(sqrt(variance), rel=1e-9)


def test_the_gain_over_another_score_has_the_error_of_the_difference() -> None:
    rng = np.random.default_rng(5)
    members, others = rng.normal(1, 1, 300), rng.normal(0, 1, 300)
    whole, noisy = Roc(members, others), Roc(members + rng.normal(0, 1, 300), others)
    gain = whole.auc_gain_over(noisy)
    assert gain.value == pytest.approx(whole.auc.value - noisy.auc.value, rel=1e-12)
    assert whole.auc_gain_over(whole).standard_error == 0.0
    # Shared records: less than if the two areas were measured apart.
    assert 0 < gain.standard_error < sqrt(whole.auc.standard_error**2 + noisy.auc.standard_error**2)


@pytest.mark.parametrize("fpr", [0.0, 0.03, 0.29, 0.5, 0.99, 1.0])
def test_a_threshold_errs_on_no_more_than_asked_and_no_lower_one_does(fpr: float) -> None:
    others = np.random.default_rng(6).integers(0, 40, 100).astype(float)
    threshold = threshold_at(others, fpr)
    assert np.mean(others > threshold) <= fpr + 1e-12
    lower = others[others < threshold]
    if len(lower):
        assert np.mean(others > lower.max()) > fpr


def test_power_at_an_error_counts_the_members_above_the_threshold() -> None:
    members, others = np.array([5.0, 3.0, -inf, 1.0]), np.array([4.0, 2.0, 0.0, -1.0])
    roc = Roc(members, others)
    np.testing.assert_allclose(roc.power([0, 0.25, 0.5, 0.75, 1]), [0.25, 0.5, 0.75, 0.75, 1])


# Pools of 250 records of 200 fair bits: a reference set as large as the pool, and one 20 times
# larger. With 6,000 members over 24 pools and as many others the area has a standard error below
# 0.0054; five of them are the least fault caught, false alarms are below 1e-6.
N_POOL, N_BITS, N_POOLS = 250, 200, 24
TOLERANCE = 5 * 0.0054


def attacked_area(n_reference: int, seed: int) -> float:
    bits = sized({f"x{i}": 2 for i in range(N_BITS)}, [])
    areas = []
    for pool_seed in range(seed, seed + N_POOLS):
        rng = np.random.default_rng(pool_seed)
        pool, others, reference = (
            rng.integers(0, 2, (n, N_BITS)) for n in (N_POOL, N_POOL, n_reference)
        )
        attack = TracingAttack(fitted(bits, pool), fitted(bits, reference))
        areas.append(Roc(attack.scores(pool), attack.scores(others)).auc.value)
    return float(np.mean(areas))


@pytest.mark.slow
@pytest.mark.parametrize(("n_reference", "seed"), [(N_POOL, 10), (20 * N_POOL, 40)])
def test_the_attack_on_independent_bits_reaches_the_bound_of_its_reference_set(
    n_reference: int, seed: int
) -> None:
    bound = TracingBound(N_BITS, N_POOL, n_reference).auc
    assert attacked_area(n_reference, seed) == pytest.approx(bound, abs=TOLERANCE)


def test_the_two_reference_sets_are_told_apart() -> None:
    """The bounds differ by more than twice the tolerance: the test above could have failed."""
    small, large = (TracingBound(N_BITS, N_POOL, n).auc for n in (N_POOL, 20 * N_POOL))
    assert large - small > 2 * TOLERANCE


def without(structure: Structure, part: StructurePart) -> Structure:
    """The smaller structure built from names, another way than by indexes."""
    names = list(structure.names)
    arrows = list(structure.edges)
    if part.parent is not None:
        arrows.remove((part.parent, part.name))
        return sized(dict(zip(names, structure.sizes, strict=True)), arrows)
    sizes = {n: s for n, s in zip(names, structure.sizes, strict=True) if n != part.name}
    return sized(sizes, [a for a in arrows if part.name not in a])


def test_a_structural_effect_is_the_bound_with_less_the_bound_without() -> None:
    effects = structural_effects(CHAIN, n=100)
    assert [(e.part.kind, e.part.name, e.part.parent) for e in effects] == [
        ("attribute", "a", None),
        ("attribute", "b", None),
        ("attribute", "c", None),
        ("edge", "b", "a"),
        ("edge", "c", "a"),
        ("edge", "c", "b"),
    ]
    whole = TracingBound(complexity(CHAIN), 100).auc
    for effect in effects:
        left = complexity(without(CHAIN, effect.part))
        assert effect.complexity == complexity(CHAIN) - left
        assert effect.auc == pytest.approx(whole - TracingBound(left, 100).auc, rel=1e-12)


def test_the_only_attribute_takes_all_of_the_bound() -> None:
    (effect,) = structural_effects(sized({"a": 3}, []), n=10)
    assert (effect.complexity, effect.auc) == (2, TracingBound(2, 10).auc - 0.5)


def test_a_measured_effect_is_the_attack_with_less_the_attack_without() -> None:
    pool, reference, others = (records_of(CHAIN, n, s) for n, s in ((60, 7), (90, 8), (70, 9)))
    found = measured_effects(CHAIN, AttackedRecords(pool, reference, others), prior=0.7)

    def area(structure: Structure) -> float:
        kept = [CHAIN.names.index(name) for name in structure.names]
        fits = [fitted(structure, part[:, kept], prior=0.7) for part in (pool, reference)]
        attack = TracingAttack(*fits)
        return Roc(attack.scores(pool[:, kept]), attack.scores(others[:, kept])).auc.value

    for effect in found:
        expected = area(CHAIN) - area(without(CHAIN, effect.part))
        assert effect.auc.value == pytest.approx(expected, abs=1e-12)
        assert effect.auc.standard_error > 0


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: fitted(CHAIN, records_of(CHAIN, 5, 0), prior=0), "prior"),
        (lambda: fitted(CHAIN, np.zeros((5, 2), dtype=int)), "columns"),
        (lambda: fitted(CHAIN, np.zeros((5, 3))), "whole numbers"),  # type: ignore[arg-type]
        (lambda: fitted(CHAIN, np.full((5, 3), 2)), "within"),
        (lambda: Roc(np.array([1.0]), np.array([1.0, 2.0])), "at least two"),
        (lambda: Roc(np.array([1.0, np.nan]), np.array([1.0, 2.0])), "none NaN"),
        (lambda: Roc(np.ones(2), np.ones(2)).auc_gain_over(Roc(np.ones(3), np.ones(2))), "same"),
    ],
)
def test_what_cannot_be_attacked_is_refused(make: object, match: str) -> None:
    with pytest.raises(InputError, match=match):
        make()


def test_a_population_that_excludes_a_cell_is_refused() -> None:
    one = sized({"a": 2}, [])
    certain = Network(one, (np.array([1.0, 0.0]),))
    with pytest.raises(InputError, match="above 0"):
        TracingAttack(certain, certain)
    with pytest.raises(InputError, match="variables of the released"):
        TracingAttack(certain, fitted(sized({"b": 2}, []), np.array([[0]])))
