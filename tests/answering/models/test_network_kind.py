"""Networks as a kind of model: what a specification may be, and what history gives."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest

from qserver.answering.models.kinds.marginal_tables import marginal_partition, marginals
from qserver.answering.models.kinds.network_kind import NetworkKind
from qserver.errors import CapacityError, NetworkError
from qserver.query.class_grid import product_partition
from qserver.query.domain import Attribute, Domain
from qserver.query.linear_query import linear_query
from qserver.query.weights import Weights, indicator
from qserver.records.charge import NANO
from qserver.records.history import AnyMeasurement, TableMeasurement

KIND = NetworkKind()
SMALL = Domain(
    (
        Attribute("a", "labels", ("x", "y")),
        Attribute("b", "labels", ("l", "m", "n")),
        Attribute("c", "labels", ("0", "1")),
    )
)
COUNTS = np.random.default_rng(3).integers(50, 400, size=(2, 3, 2))


def domain(n: int, size: int = 2) -> Domain:
    labels = tuple(map(str, range(size)))
    return Domain(tuple(Attribute(f"v{i}", "labels", labels) for i in range(n)))


def spoke(n: int) -> dict[str, object]:
    return {"network": {"edges": [[f"v{i}", "v0"] for i in range(1, n + 1)]}}


def measured(number: int, axes: tuple[int, ...], scale: float = 1e-4) -> TableMeasurement:
    """A marginal of COUNTS without noise worth the name."""
    gone = tuple(i for i in range(3) if i not in axes)
    indices = tuple(int(v) for v in COUNTS.sum(axis=gone).ravel())
    partition = marginal_partition(SMALL.sizes, axes)
    return TableMeasurement(number, partition, int(NANO / scale), Fraction(1), indices)


@pytest.mark.limit("8")
def test_a_specification_is_bounded() -> None:
    KIND.read(spoke(8), domain(9))
    with pytest.raises(NetworkError, match="at most 8 parents"):
        KIND.read(spoke(9), domain(10))
    with pytest.raises(NetworkError, match="cells with its parents"):
        KIND.read(spoke(2), domain(3, 41))
    pairs = [[f"v{i}", f"v{i + 1}"] for i in range(40)]
    with pytest.raises(NetworkError, match="cells in all"):
        KIND.read({"network": {"edges": pairs}}, domain(41, 64))
    every = [[f"v{j}", f"v{i}"] for i in range(9, 70) for j in range(i - 8, i)]
    with pytest.raises(NetworkError, match="fewer variables with many parents"):
        KIND.read({"network": {"edges": every}}, domain(70))


def test_tables_of_history_are_put_onto_the_networks_variables() -> None:
    """A table of more attributes than the network has is summed; its noise with it."""
    specification = KIND.read({"network": {"edges": [["c", "a"]], "variables": ["c", "a"]}}, SMALL)
    history: list[AnyMeasurement] = [measured(0, (0, 1, 2))]
    model = KIND.build(specification, SMALL, history)
    expected = COUNTS.sum(axis=1).T / COUNTS.sum(axis=(0, 1))[:, None]
    np.testing.assert_allclose(model.network.cpd("a"), expected, atol=1e-3)
    assert KIND.used(specification, SMALL, history) == (0,)
    query = linear_query(SMALL.sizes, [(1, {0: indicator(2, [1]), 2: indicator(2, [0])})])
    assert model.count(query) == pytest.approx(COUNTS[1, :, 0].sum(), rel=1e-3)
    outside = linear_query(SMALL.sizes, [(1, {1: indicator(3, [0])})])
    with pytest.raises(NetworkError, match="attributes only"):
        model.count(outside)


def test_a_summed_table_weighs_as_little_as_its_noise_has_grown() -> None:
    """Totals of variance 2 * 12 and 2 * 4: the expected number is their mean by precision."""
    specification = KIND.read({"network": {"edges": [["c", "a"]], "variables": ["c", "a"]}}, SMALL)
    wide = TableMeasurement(
        0, marginal_partition(SMALL.sizes, (0, 1, 2)), NANO, Fraction(1), (10,) * 12
    )
    own = TableMeasurement(1, marginal_partition(SMALL.sizes, (0, 2)), NANO, Fraction(1), (50,) * 4)
    facts = KIND.build(specification, SMALL, [wide, own]).describe()
    expected = (120 / 12 + 200 / 4) / (1 / 12 + 1 / 4)
    assert facts["n_records"] == pytest.approx(expected, rel=1e-12)


def test_a_count_adds_up_terms_with_their_coefficients() -> None:
    specification = KIND.read({"network": {"edges": [["a", "b"], ["b", "c"], ["a", "c"]]}}, SMALL)
    model = KIND.build(specification, SMALL, [measured(0, (0, 1, 2))])
    terms: list[tuple[Fraction | int, dict[int, Weights]]]
    terms = [(2, {0: indicator(2, [0])}), (Fraction(-1, 2), {1: indicator(3, [1, 2])})]
    expected = 2 * COUNTS[0].sum() - COUNTS[:, 1:].sum() / 2
    assert model.count(linear_query(SMALL.sizes, terms)) == pytest.approx(expected, rel=1e-3)


def test_coarser_tables_are_no_marginals() -> None:
    coarse = product_partition(SMALL.sizes, {1: [0, 0, 1]})
    table = TableMeasurement(0, coarse, NANO, Fraction(1), (5, 6))
    assert marginals([table, measured(1, (1,))])[0].ids == (1,)
    specification = KIND.read({"network": {"edges": [["a", "b"]]}}, SMALL)
    with pytest.raises(NetworkError, match="must be bought"):
        KIND.used(specification, SMALL, [table])


def test_what_is_wanted_adds_up_to_the_price_and_counts_what_is_known() -> None:
    specification = KIND.read({"network": {"edges": [["a", "b"], ["b", "c"]]}}, SMALL)
    fresh = KIND.wanted(specification, SMALL, [], epsilon=0.5)
    assert sum(t.epsilon for t in fresh) == pytest.approx(0.5)
    assert all(t.is_more for t in fresh)
    known = measured(0, (0, 1), scale=0.001)
    beside = KIND.wanted(specification, SMALL, [known], epsilon=0.5)
    share = sum(t.epsilon for t in beside if set(t.axes) <= {0, 1})
    assert share < 0.05


def test_an_answer_too_large_is_refused() -> None:
    wide = domain(20)
    specification = KIND.read({"network": {"edges": []}}, wide)
    history: list[AnyMeasurement] = []
    for i in range(20):
        partition = marginal_partition(wide.sizes, (i,))
        history.append(TableMeasurement(i, partition, NANO, Fraction(1), (5, 6)))
    model = KIND.build(specification, wide, history)
    with pytest.raises(CapacityError, match="1,048,576 cells"):
        model.ask({"marginal": list(wide.names), "given": {}})
    assert json.loads(json.dumps(model.describe()))["n_parameters"] == 20
