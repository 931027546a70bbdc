"""Ancestral sampling and the bounds of theorems 4.1 and 4.2."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from qserver.models.network.network import Network, draw_records, normalised
from qserver.models.network.structure import Structure, Variable
from qserver.models.network.variable_elimination import NetworkQuestions
from tests.benchmarks.published_networks import NAMES, counts, published, records
from tests.models.network.brute_force import joint, random_network

FALSE_ALARM = 1e-6


def _p_value(observed: np.ndarray, expected: np.ndarray) -> float:
    likely = expected > 0
    assert observed[~likely].sum() == 0
    return float(stats.chisquare(observed[likely], expected[likely]).pvalue)


@pytest.mark.parametrize("seed", range(4))
def test_drawn_records_follow_the_joint_distribution(seed: int) -> None:
    network = random_network(seed, n_variables=5)
    n = 200_000
    drawn = draw_records(network, n, np.random.default_rng(seed))
    observed = counts(network.structure, drawn, tuple(range(5)))
    expected = joint(network) * n
    frequent = expected >= 5
    rare = np.array([observed[~frequent].sum(), expected[~frequent].sum()])
    observed = np.append(observed[frequent], rare[0])
    assert _p_value(observed, np.append(expected[frequent], rare[1])) > FALSE_ALARM


def test_the_test_above_sees_a_shift_of_one_percent() -> None:
    n, p = 200_000, np.array([0.3, 0.7])
    drawn = np.random.default_rng(1).multinomial(n, [0.31, 0.69])
    assert _p_value(drawn, n * p) < FALSE_ALARM


@pytest.mark.parametrize("name", NAMES)
def test_the_records_kept_for_tests_follow_their_network(name: str) -> None:
    network = published(name)
    questions = NetworkQuestions(network)
    for i, variable in enumerate(network.names):
        observed = counts(network.structure, records(name), (i,))
        expected = questions.probability([variable]) * 10_000
        assert _p_value(observed, expected) > FALSE_ALARM


def test_many_values_are_drawn_by_search_with_the_same_law() -> None:
    weights = np.random.default_rng(5).gamma(1.0, size=(2, 40))
    weights[:, 7] = 0
    parent = Variable("p", ("0", "1"))
    child = Variable("c", tuple(map(str, range(40))), ("p",))
    network = Network(Structure((parent, child)), (np.array([0.4, 0.6]), normalised(weights)))
    drawn = draw_records(network, 100_000, np.random.default_rng(6))
    observed = counts(network.structure, drawn, (0, 1))
    assert _p_value(observed.ravel(), joint(network).ravel() * 100_000) > FALSE_ALARM


def test_the_same_seed_draws_the_same_records() -> None:
    one, two = (draw_records(published("child"), 50, np.random.default_rng(9)) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert draw_records(published("child"), 0, np.random.default_rng(9)).shape == (0, 20)
