"""Two stages of a network: the server's tables and shares, against the library's own learning."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.answering.models.kinds.kind import divided_nano
from qserver.answering.models.kinds.network_kind import NetworkKind
from qserver.errors import NetworkError
from qserver.models.network.learning.estimation import Scope
from qserver.models.network.network import Table
from qserver.models.network.structure import structure_of_edges
from qserver.query.domain import Attribute, Domain
from tests.models.network.simulated_learning import learn

# Positions in the domain are not those in the network: c, a, only, b.
DOMAIN = Domain(
    tuple(
        Attribute(name, "labels", labels)
        for name, labels in (
            ("c", ("0", "1", "2")),
            ("a", ("x", "y")),
            ("only", ("one",)),
            ("b", ("p", "q", "r", "s")),
        )
    )
)
EDGES = [("a", "b"), ("a", "c"), ("b", "c"), ("only", "b")]
NAMES = ["a", "b", "c", "only"]
KIND = NetworkKind()


def specification(allocation: str) -> str:
    network = {"edges": [list(e) for e in EDGES], "variables": NAMES}
    return KIND.read({"network": network, "allocation": allocation}, DOMAIN)


class Counted:
    """A source without noise, which remembers what it was asked for at which price."""

    def __init__(self, joint: Table, asked: list[tuple[Scope, float]]) -> None:
        self.joint = joint
        self.asked = asked

    def measure(self, scope: Scope, epsilon: float) -> Table:
        self.asked.append((scope, epsilon))
        return np.asarray(
            self.joint.sum(axis=tuple(i for i in range(self.joint.ndim) if i not in scope))
        )

    def sample(self, _rate: float) -> Counted:
        return Counted(self.joint / 7, self.asked)


@pytest.mark.parametrize("version", ["arxiv", "icml"])
def test_the_server_divides_stage_two_as_the_library_does(version: str) -> None:
    """`learn` measures the same tables at the same prices, one by one."""
    labels = {a.name: a.value_names for a in DOMAIN.attributes}
    structure = structure_of_edges({n: labels[n] for n in NAMES}, EDGES)
    # One count per joint value of a, b, c, only.
    joint = np.random.default_rng(4).integers(1, 90, size=(2, 4, 3, 1)).astype(float)
    asked: list[tuple[Scope, float]] = []
    learn(structure, Counted(joint, asked), epsilon=1.0, allocation=version)  # type: ignore[arg-type]
    stages = KIND.stages(specification(version), DOMAIN)
    assert stages is not None
    n_first = len(stages.first)
    axes = [DOMAIN.names.index(n) for n in NAMES]
    expected: dict[tuple[int, ...], float] = {}
    for scope, price in asked[n_first:]:
        key = tuple(sorted(axes[i] for i in scope if structure.sizes[i] > 1))
        expected[key] = expected.get(key, 0.0) + price / 0.9
    noisy = [_counts(joint / 7, first, axes) for first in stages.first]
    shares = KIND.shares(specification(version), DOMAIN, noisy)
    assert dict(zip(stages.final, shares, strict=True)) == pytest.approx(expected)
    assert sum(shares) == pytest.approx(1.0)
    firsts = [tuple(sorted(axes[i] for i in scope)) for scope, _ in asked[:n_first]]
    assert list(stages.first) == firsts


def _counts(joint: Table, attributes: Sequence[int], axes: Sequence[int]) -> Table:
    """The sample's table over attributes of the domain, ascending, as the worker counts it."""
    kept = [axes.index(a) for a in attributes]
    summed = joint.sum(axis=tuple(i for i in range(joint.ndim) if i not in kept))
    order = sorted(kept)
    # The worker leaves attributes of one value out.
    return np.asarray(summed.transpose([order.index(i) for i in kept]).squeeze())


@pytest.mark.parametrize("allocation", ["best", "rows", "uniform"])
def test_other_allocations_take_one_stage(allocation: str) -> None:
    text = specification(allocation)
    assert KIND.stages(text, DOMAIN) is None
    with pytest.raises(NetworkError, match="two stages"):
        KIND.shares(text, DOMAIN, [])


@given(
    st.lists(st.floats(min_value=0, max_value=1), min_size=1, max_size=40),
    st.integers(min_value=40, max_value=10**15),
)
def test_parts_are_positive_near_their_shares_and_never_too_much(
    shares: list[float], total: int
) -> None:
    parts = divided_nano(total, shares)
    assert all(part >= 1 for part in parts)
    assert sum(parts) <= total
    whole = sum(map(Fraction, shares))
    if whole:
        rest = total - len(shares)
        assert all(
            rest * Fraction(s) / whole < part <= 1 + rest * Fraction(s) / whole
            for s, part in zip(shares, parts, strict=True)
        )
