"""Which values are merged, and how a class is shared out: against sums and brute force."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import LinearConstraint, minimize

from qserver.answering.models.kinds.marginals_kind import MarginalsKind
from qserver.answering.models.kinds.rare_values import FIRST_SHARE, _runs, merged, shares, wide
from qserver.answering.models.kinds.reduced_history import reduced_history
from tests.answering.models.test_marginals_kind import BANDS, DOMAIN, TRUTH, table

WANTED = [["age", "sex"], ["age", "job"], ["sex", "job"]]


def test_values_below_the_noise_of_their_cells_are_one_class_and_the_most_frequent_never_is():
    sizes, wanted = (12, 3, 7), [(0, 1), (0, 2), (1, 2)]
    assert wide(sizes, wanted) == [0, 2]
    counts = {
        0: np.array([4000.0, 3, 2000, -5, 2, 8, 3000, 0, 1, 4, 6, 7]),
        2: np.array([9, 8, 7, 6, 5, 4, 3.0]),
    }
    classes, prices = merged(sizes, wanted, 1.0, {}, counts=counts, records=9_000)
    assert classes[0].tolist() == [0, 1, 2, 1, 1, 1, 3, 1, 1, 1, 1, 1]
    assert classes[2].tolist() == [0, 1, 1, 1, 1, 1, 1]
    assert classes[1].tolist() == [0, 1, 2]
    assert sum(prices.values()) == pytest.approx(1)
    # Without noise to speak of nothing is merged.
    apart, _ = merged(sizes, wanted, 1e6, {}, counts=counts, records=9_000)
    assert len(set(apart[2])) == 7


def test_rare_values_that_have_an_order_join_their_neighbours():
    sizes, wanted = (10, 8), [(0, 1)]
    ages = np.array([300.0, 1, 2, 400, 3, -2, 250, 260, 1, 4])
    counts = {0: ages, 1: np.array([500.0, 1, 1, 400, 300, 1, 8, 2])}
    found, _ = merged(sizes, wanted, 0.5, {}, counts=counts, records=1_200, ordered={0: 9})
    # The tenth, `other`, stays apart; the ninth is alone too rare.
    assert found[0].tolist() == [0, 1, 1, 1, 2, 2, 2, 3, 3, 4]
    assert found[1].tolist() == [0, 1, 1, 2, 3, 1, 1, 1]
    few = {0: np.array([5.0, 4, 3, 2, 1, 1, 1, 1, 1, 90]), 1: counts[1]}
    found, _ = merged(sizes, wanted, 1e-3, {}, counts=few, records=1_200, ordered={0: 9})
    assert found[0].tolist() == [0, 1, 1, 1, 1, 1, 1, 1, 1, 2]


def test_where_all_ordered_values_are_rare_neighbours_stay_together():
    found = _runs(np.array([3.0, 5.0, 4.0, 60.0, 2.0, 3.0]), 100.0)
    assert found.tolist() == [0, 0, 0, 1, 1, 1]
    assert _runs(np.array([60.0, 5.0, 4.0]), 100.0).tolist() == [0, 1, 1]


@pytest.mark.parametrize("scale", [0.0, 4.0, 1e6])
def test_shares_are_the_nearest_counts_drawn_to_their_mean_by_what_is_noise(scale):
    counts = np.array([50.0, -3, 7, 0, 22, 900, 5])
    classes = np.array([0, 1, 1, 1, 1, 2, 1])
    found = shares(counts, classes, scale)
    own = counts[classes == 1]
    noise = 2 * scale**2 * (len(own) - 1) / len(own)
    kept = max(0.0, 1 - noise / own.var())
    aim = own.mean() + kept * (own - own.mean())

    def distance(x: np.ndarray) -> float:
        return float(np.square(x - aim).sum())

    nearest = minimize(
        distance,
        np.full(len(own), own.mean()),
        bounds=[(0, None)] * len(own),
        constraints=LinearConstraint(np.ones((1, len(own))), own.sum(), own.sum()),
    )
    assert_allclose(found[classes == 1], nearest.x / own.sum(), atol=1e-5)
    assert_allclose(found[[0, 5]], 1)
    if scale > 10:
        assert_allclose(found[classes == 1], 0.2)


def test_a_one_way_table_tells_a_class_its_sum_and_shares_it():
    wanted = MarginalsKind().read({"marginals": WANTED, "selection": "merged"}, DOMAIN)
    both = [table(0, {0: BANDS, 1: range(3)}), table(1, {0: range(10)})]
    model = MarginalsKind().build(wanted, DOMAIN, both)
    assert model.reduced.sizes == (3, 3)
    ages, truth = TRUTH.sum(axis=(1, 2)), TRUTH.sum(axis=2)
    found = np.array(model.ask({"marginal": ["age", "sex"]}).document["probabilities"])
    expected = [ages[i] / ages[BANDS[i] == BANDS].sum() for i in range(10)]
    bands = np.array([truth[b == BANDS].sum(axis=0) for b in range(3)])
    assert_allclose(found, np.array(expected)[:, None] * bands[BANDS] / truth.sum(), atol=1e-4)
    assert MarginalsKind().used(wanted, DOMAIN, both) == (0, 1)
    # As without the wish: then the table splits the bands.
    plain = MarginalsKind().read({"marginals": WANTED}, DOMAIN)
    assert MarginalsKind().build(plain, DOMAIN, both).reduced.sizes == (10, 3)


def test_the_sum_of_a_class_has_the_noise_of_its_values():
    both = [table(0, {0: BANDS, 1: range(3)}), table(1, {0: range(10)}, alpha_nano=10**9)]
    [_, one] = reduced_history(both, keeps_classes=True).measurements
    assert_allclose(one.scales, np.sqrt([4, 4, 2]))
    assert_allclose(one.answers, [TRUTH[b == BANDS].sum() for b in range(3)])


def test_first_tables_are_one_way_and_second_ones_are_on_their_classes():
    kind, wish = MarginalsKind(), {"marginals": WANTED, "selection": "merged"}
    specification = kind.read(wish, DOMAIN)
    [first] = kind.first(specification, DOMAIN, epsilon=2.0)
    assert (first.axes, first.epsilon) == ((0,), FIRST_SHARE * 2)
    assert kind.first(kind.read({"marginals": WANTED}, DOMAIN), DOMAIN, epsilon=2.0) == ()
    narrow = {"marginals": [["sex", "job"]], "selection": "merged"}
    assert kind.first(kind.read(narrow, DOMAIN), DOMAIN, epsilon=2.0) == ()
    rare = TRUTH.copy()
    rare[4:] //= 400
    history = [table(0, {0: range(10)}, truth=rare)]
    found = kind.second(specification, DOMAIN, history, epsilon=1e-1)
    assert sum(one.epsilon for one in found) == pytest.approx(1e-1)
    [classes] = {tuple(one.classes[0]) for one in found if 0 in one.classes}
    assert len(set(classes[4:])) == 1
    assert json.loads(specification)["selection"] == "merged"
