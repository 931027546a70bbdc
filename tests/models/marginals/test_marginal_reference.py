"""Agreement with the library of the method's authors, by values that its script wrote down."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from qserver.models.marginals.estimate import estimate
from qserver.models.marginals.fit.observations import NoisyMarginal
from tests.models.marginals.message_passing import BeliefPropagation, saturated

REFERENCE = json.loads(
    (Path(__file__).parents[2] / "reference" / "marginal_estimates.json").read_text()
)
SIZES = tuple(REFERENCE["sizes"])
SCOPES = [tuple(s) for s in REFERENCE["scopes"]]


def test_messages_come_to_the_library_s_tables():
    """The same potentials; the library leaves out edges that the others imply."""
    graph = saturated(SIZES, SCOPES)
    theta = np.zeros(graph.layout.n_cells)
    for scope, potentials in zip(SCOPES, REFERENCE["beliefs"]["potentials"], strict=True):
        i = graph.layout.index[scope]
        graph.layout.table(theta, i)[...] = np.reshape(potentials, graph.layout.shape(i))
    found = BeliefPropagation(graph).run(theta, tolerance=1e-11, max_passes=5_000)
    for scope, table in zip(SCOPES, REFERENCE["beliefs"]["tables"], strict=True):
        ours = graph.layout.table(found.tables, graph.layout.index[scope])
        assert_allclose(ours.ravel(), table, atol=1e-7)


@pytest.mark.parametrize("oracle", ["exact", "saturated"])
def test_estimates_are_the_library_s_after_20_000_iterations(oracle):
    """Counts of 200 records; the library's relaxed tables do not agree to the last digit."""
    measurements = [
        NoisyMarginal(s, np.array(y), np.array(b))
        for s, y, b in zip(SCOPES, REFERENCE["answers"], REFERENCE["scales"], strict=True)
    ]
    total = REFERENCE["total"]
    found = estimate(SIZES, measurements, oracle=oracle, total=total, precision=1e-5)
    ours, theirs = 0.0, 0.0
    for m, table in zip(measurements, REFERENCE["estimates"][oracle], strict=True):
        counts = total * found.layout.table(found.tables, found.layout.index[m.scope]).ravel()
        assert_allclose(counts, table, atol=0.5)
        ours += float(np.sum(((counts - m.answers) / m.scales) ** 2))
        theirs += float(np.sum(((np.array(table) - m.answers) / m.scales) ** 2))
    assert ours <= theirs * (1 + 1e-3)
