"""Learning: posterior means, the five allocations, and the published ones as printed."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from math import exp, log, log1p

import numpy as np
import pytest
from scipy import integrate

from qserver.errors import NetworkError
from qserver.models.network.learning.allocations import (
    ALLOCATIONS,
    Allocation,
    family_weights,
    one_step_prices,
)
from qserver.models.network.learning.estimation import (
    CombinedTables,
    KnownTotals,
    NoisyTable,
    network_from_tables,
    posterior_counts,
)
from qserver.models.network.learning.paper_methods import (
    consistent,
    importance,
    meetings,
    sensitivity,
)
from qserver.models.network.network import Network
from qserver.models.network.structure import Structure, Variable
from qserver.records.privacy.noise_law import GAUSSIAN, LAPLACE, NoiseLaw
from tests.benchmarks.network_questions import Examination
from tests.benchmarks.published_networks import NAMES, published, records
from tests.benchmarks.simulated_tables import SimulatedTables
from tests.models.network.brute_force import joint, random_network
from tests.models.network.simulated_learning import learn, stage_one_budget


def source_of(name: str, seed: int = 0) -> SimulatedTables:
    generator = np.random.default_rng(seed)
    return SimulatedTables(published(name).structure, records(name), generator)


def _mean(a: float, u: float) -> float:
    """Mean of the density c^(a-1) exp(-(c-u)^2/2), c > 0, by adaptive quadrature in log c."""

    def part(power: float) -> float:
        def inside(t: float) -> float:
            return exp((a + power) * t - (exp(t) - u) ** 2 / 2 + min(u, 0.0) ** 2 / 2)

        points = [log(max(u, 1e-3)), 0.0]
        return integrate.quad(inside, -60 / a, 4.0, points=points, limit=400)[0]

    return part(1.0) / part(0.0)


@pytest.mark.parametrize("u", [-30.0, -8.0, -2.0, 0.0, 0.7, 3.0, 12.0])
@pytest.mark.parametrize("a", [0.05, 0.5, 1.0, 2.0])
def test_a_cell_without_known_totals_has_its_own_posterior_mean(a: float, u: float) -> None:
    free = KnownTotals(np.array([2 * u]), np.array([2.0]))  # just what the row itself says
    found = posterior_counts(np.full((1, 2), u), 1.0, np.full((1, 2), a), free, None)
    np.testing.assert_allclose(found, _mean(a, u), rtol=0.08)


def test_rows_far_above_the_noise_keep_their_counts() -> None:
    counts = np.array([[4000.0, 6000.0], [900.0, 1100.0]])
    rows = KnownTotals(counts.sum(axis=1), np.full(2, 2.0))
    found = posterior_counts(counts, 1.0, np.full((2, 2), 0.5), rows, None)
    np.testing.assert_allclose(found, counts, atol=0.05)


def test_rows_far_below_the_noise_fall_back_on_the_prior() -> None:
    prior = np.array([[0.7, 0.2, 0.1]])
    rows = KnownTotals(np.array([0.01]), np.array([1e-4]))
    found = posterior_counts(np.array([[3.0, -2.0, 1.0]]), 100.0, prior, rows, None)
    np.testing.assert_allclose(found / found.sum(), prior, atol=0.03)


def test_known_row_and_column_totals_are_met() -> None:
    counts = np.array([[30.0, -10.0], [5.0, 20.0]])
    rows = KnownTotals(np.array([25.0, 30.0]), np.full(2, 1e-4))
    columns = KnownTotals(np.array([33.0, 22.0]), 1e-4)
    found = posterior_counts(counts, 10.0, np.full((2, 2), 0.5), rows, columns)
    np.testing.assert_allclose(found.sum(axis=1), rows.totals, atol=0.5)
    np.testing.assert_allclose(found.sum(axis=0), columns.totals, atol=0.5)


@pytest.mark.parametrize("name", NAMES)
def test_almost_without_noise_every_one_step_allocation_finds_the_likeliest(name: str) -> None:
    source = source_of(name)
    truth = source.likeliest()
    for allocation in ("best", "rows", "uniform"):
        found = learn(source.structure, source, epsilon=1e7, allocation=allocation).network
        for i, (a, b) in enumerate(zip(found.cpds, truth.cpds, strict=True)):
            occurs = source.counts(source.structure.family(i)).sum(axis=-1) > 0
            np.testing.assert_allclose(a[occurs], b[occurs], atol=1e-3)


@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_an_allocation_spends_the_budget_and_no_more(allocation: Allocation) -> None:
    source = source_of("child")
    learnt = learn(source.structure, source, epsilon=2.0, allocation=allocation)
    assert source.spent + learnt.stage_one_epsilon == pytest.approx(2.0, rel=1e-9)
    assert sum(t.epsilon for t in learnt.tables) == pytest.approx(source.spent, rel=1e-9)


def test_learning_is_a_function_of_the_tables_in_any_order() -> None:
    source = source_of("sachs")
    tables = learn(source.structure, source, epsilon=1.0).tables
    one = network_from_tables(source.structure, tables)
    two = network_from_tables(source.structure, tables)
    other = network_from_tables(source.structure, tables[::-1])
    for a, b, c in zip(one.cpds, two.cpds, other.cpds, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, c, atol=1e-9)


def test_parents_that_depend_on_one_another_in_the_data_alone_do_no_harm() -> None:
    """The structure has a and b independent; they are nearly the same, so two rows are rare."""
    labels = ("0", "1")
    structure = Structure(
        (Variable("a", labels), Variable("b", labels), Variable("c", labels, ("a", "b")))
    )
    rows = np.array([[4900.0, 300.0], [200.0, 4600.0]])
    share = np.array([[0.1, 0.7], [0.4, 0.8]])
    counts = np.stack([rows * (1 - share), rows * share], axis=-1)
    found = []
    for seed in range(20):
        noise = np.random.default_rng(seed).laplace(0, 12.0, counts.shape)
        table = NoisyTable((0, 1, 2), 12.0, counts + noise)
        found.append(network_from_tables(structure, [table]).cpds[2][..., 1])
    np.testing.assert_allclose(np.mean(found, axis=0), share, atol=0.02)
    np.testing.assert_allclose(found, np.broadcast_to(share, (20, 2, 2)), atol=0.2)


def test_tables_released_before_are_used() -> None:
    """With exact tables known, almost nothing bought gives the likeliest network."""
    source = source_of("asia")
    structure = source.structure
    known = [
        NoisyTable(p.scope, 1e-6, source.counts(p.scope))
        for p in one_step_prices(structure, epsilon=1.0)
    ]
    learnt = learn(structure, source, epsilon=1e-3, known=known).network
    for a, b in zip(learnt.cpds, source.likeliest().cpds, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3)


def _mean_error(name: str, allocation: Allocation, epsilon: float = 1.0) -> float:
    source = source_of(name)
    examination = Examination.drawn(source, source.likeliest(), 11)
    found = []
    for seed in range(10):
        fresh = source.with_generator(np.random.default_rng([7, seed]))
        learnt = learn(source.structure, fresh, epsilon=epsilon, allocation=allocation)
        found.append(examination.errors(learnt.network).parameter_l1)
    return float(np.mean(found))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["asia", "sachs"])
def test_the_default_is_better_than_every_other_at_half_their_budget(name: str) -> None:
    best = _mean_error(name, "best", 0.5)
    assert best < min(_mean_error(name, other, 1.0) for other in ("uniform", "arxiv", "icml"))


def test_an_unknown_allocation_or_no_budget_is_refused() -> None:
    source = source_of("asia")
    for epsilon, allocation in (
        (0.0, "best"),
        (-1.0, "best"),
        (float("nan"), "best"),
        (1.0, "most"),
    ):
        with pytest.raises(NetworkError):
            learn(source.structure, source, epsilon=epsilon, allocation=allocation)  # type: ignore[arg-type]
    with pytest.raises(NetworkError):
        one_step_prices(source.structure, epsilon=1.0, allocation="icml")


def test_consistency_makes_tables_agree_wherever_they_meet() -> None:
    rng = np.random.default_rng(2)
    scopes = ((0, 1), (1, 2), (0, 1, 2), (2,))
    tables = [
        t / t.sum()
        for t in (rng.random((2, 3)), rng.random((3, 2)), rng.random((2, 3, 2)), rng.random(2))
    ]
    assert meetings(scopes) == ((1,), (2,), (0, 1), (1, 2))
    a, b, c, d = consistent(tables, scopes, [1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(a, c.sum(axis=2), atol=1e-12)
    np.testing.assert_allclose(b, c.sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(d, b.sum(axis=0), atol=1e-12)
    both = 2 / 9 * tables[1].sum(0) + 3 / 9 * tables[2].sum((0, 1)) + 4 / 9 * tables[3]
    np.testing.assert_allclose(d, both, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_the_sensitivity_of_equation_seven_carries_no_data(seed: int) -> None:
    """Equation 7 by numerical derivatives, parameters moved one by one without renormalising."""
    network = random_network(seed, n_variables=5)
    structure = network.structure
    for i, children in enumerate(structure.children):
        cpd = network.cpds[i]
        total = 0.0
        for cell in np.ndindex(cpd.shape):
            for y in children:
                moved = np.array(cpd)
                moved[cell] += 1e-6
                other = tuple(k for k in range(5) if k != y)
                change = _joint(network, i, moved).sum(axis=other) - joint(network).sum(axis=other)
                total += (change / 1e-6).sum() / structure.sizes[y] / len(children)
        assert sensitivity(structure, i) == pytest.approx(total / cpd.size, rel=1e-5, abs=1e-9)


def _joint(network: Network, i: int, cpd: np.ndarray) -> np.ndarray:
    letters = "abcde"
    structure = network.structure
    cpds = [cpd if k == i else c for k, c in enumerate(network.cpds)]
    terms = ["".join(letters[j] for j in structure.family(k)) for k in range(5)]
    return np.einsum(",".join(terms) + "->" + letters, *cpds)


def test_importance_of_asia_by_hand() -> None:
    """Smoke: height 3, two children of two values, no parent; dysp: a leaf."""
    structure = published("asia").structure
    assert importance(structure, structure.index("smoke")) == pytest.approx(4 * 3 * 1.5)
    assert importance(structure, structure.index("dysp")) == pytest.approx(1.0)


def test_stage_one_costs_a_tenth_after_amplification() -> None:
    budget = stage_one_budget(1.0)
    assert budget.epsilon == pytest.approx(0.1)
    # ln(1 + rate (e^nominal - 1)): each record is in the sample with probability `rate`.
    amplified = log1p(budget.rate * (exp(budget.nominal) - 1))
    assert amplified == pytest.approx(0.1, rel=1e-12)


@pytest.mark.parametrize("known", [{}, {(0, 1): 0.4}], ids=["new", "after"])
def test_under_gaussian_noise_no_small_exchange_of_prices_lowers_the_error(
    known: dict[tuple[int, ...], float],
) -> None:
    """By the weights of least variance on all cells, found by other code."""
    structure = published("asia").structure
    weights = family_weights(structure)

    def of(prices: Mapping[tuple[int, ...], float]) -> list[NoisyTable]:
        shapes = {s: tuple(structure.sizes[i] for i in s) for s in prices}
        scales = {s: 0.5 * prices[s] ** -0.5 for s in prices}
        return [NoisyTable(s, scales[s], np.zeros(shapes[s])) for s in prices]

    def error(prices: Mapping[tuple[int, ...], float]) -> float:
        both = {s: prices.get(s, 0.0) + known.get(s, 0.0) for s in (*prices, *known)}
        combined = CombinedTables(structure.sizes, tuple(of(both)))
        return sum(w * combined.variance(s) ** 0.5 for s, w in weights.items())

    found = one_step_prices(structure, epsilon=1.0, known=of(known), law=GAUSSIAN)
    best = {t.scope: t.epsilon for t in found}
    assert sum(best.values()) == pytest.approx(1.0)
    least = error(best)
    for one, other in permutations(best, 2):
        moved = 0.05 * best[one]
        exchanged = {**best, one: best[one] - moved, other: best[other] + moved}
        assert error(exchanged) >= least * (1 - 1e-4)


@pytest.mark.parametrize("law", [LAPLACE, GAUSSIAN], ids=lambda law: law.name)
def test_row_weighted_prices_are_of_least_sum_of_rows_times_deviation(law: NoiseLaw) -> None:
    """The root of the rows for Laplace noise; for Gaussian noise their number to the 2/3."""
    structure = published("asia").structure
    found = one_step_prices(structure, epsilon=1.0, allocation="rows", law=law)
    prices = {t.scope: t.epsilon for t in found}
    lung, dysp = structure.index("lung"), structure.index("dysp")
    two = prices[tuple(sorted(structure.family(lung)))]
    four = prices[tuple(sorted(structure.family(dysp)))]
    assert four / two == pytest.approx(2 ** (0.5 if law is LAPLACE else 2 / 3), rel=1e-12)

    def error(more: float) -> float:
        scales = [law.scale(round(1e9 * price)) for price in (two + more, four - more)]
        return 2 * scales[0] + 4 * scales[1]

    assert error(0) <= min(error(-0.01), error(0.01))
    assert sum(prices.values()) == pytest.approx(1.0, rel=1e-12)
