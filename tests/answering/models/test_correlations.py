"""Correlations that a released model tells of."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

import numpy as np
import pytest

from qserver.answering.models.correlations import correlated
from qserver.answering.models.kinds.kind import Answered
from qserver.errors import CapacityError, InputError
from qserver.models.network.structure import structure_of_edges
from qserver.query.domain import Attribute, Domain

SIZES = {"a": 2, "b": 3, "c": 2}
DOMAIN = Domain(tuple(Attribute(n, "labels", tuple("xyz"[:s])) for n, s in SIZES.items()))
JOINT = np.random.default_rng(4).dirichlet(np.ones(12)).reshape(2, 3, 2)


def ask(question: Mapping[str, Any]) -> Answered:
    """The marginals of JOINT, axes in the order asked."""
    places = [list(SIZES).index(name) for name in question["marginal"]]
    (gone,) = {0, 1, 2} - set(places)
    table = JOINT.sum(axis=gone)
    table = table if places[0] < places[1] else table.T
    return Answered({"probabilities": table.tolist()})


def test_every_pair_is_asked_of_the_model() -> None:
    found = correlated(DOMAIN, ("a", "b", "c"), None, ask)
    assert list(found.labels) == ["a", "b", "c"]
    pair = JOINT.sum(axis=1)
    expected = np.outer(pair.sum(axis=1), pair.sum(axis=0))
    v = sqrt(float(((pair - expected) ** 2 / expected).sum()))
    assert found.corr[0, 2] == found.corr[2, 0] == pytest.approx(v)
    np.testing.assert_allclose(np.diag(found.corr), 1.0)
    fewer = correlated(DOMAIN, ("a", "b", "c"), ["c", "a"], ask)
    assert fewer.corr[0, 1] == pytest.approx(v)
    assert list(fewer.labels) == ["c", "a"]


@pytest.mark.parametrize("variables", [[], ["a", "a"], ["a", "z"]])
def test_attributes_that_the_model_lacks_are_refused(variables: list[str]) -> None:
    with pytest.raises(InputError, match="`variables` must name attributes of the model"):
        correlated(DOMAIN, ("a", "b", "c"), variables, ask)


@pytest.mark.parametrize(("n", "size"), [(65, 2), (3, 1500)])
def test_more_than_can_be_asked_is_refused_before_it_is(n: int, size: int) -> None:
    labels = tuple(map(str, range(size)))
    wide = Domain(tuple(Attribute(f"v{i}", "labels", labels) for i in range(n)))

    def never(_question: Mapping[str, Any]) -> Answered:
        raise AssertionError

    with pytest.raises(CapacityError, match="at most 64 attributes"):
        correlated(wide, wide.names, None, never)


def test_only_what_can_be_learnt_fits() -> None:
    own = correlated(DOMAIN, ("a", "b", "c"), None, ask).candidates(max_parents=1, min_gain=0.0)
    assert own.fits(structure_of_edges(own.labels, [("a", "b")]))
    names = [f"v{i}" for i in range(10)]
    spoke = structure_of_edges(dict.fromkeys(names, ("0", "1")), [(n, "v0") for n in names[1:]])
    assert not own.fits(spoke)
