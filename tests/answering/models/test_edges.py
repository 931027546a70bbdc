"""The bounds of models at their edges: the largest that is allowed, and the first that is not."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from fractions import Fraction
from itertools import combinations, islice
from typing import Any

import numpy as np
import pytest

from qserver.answering.models.correlated import correlated
from qserver.answering.models.kinds.kind import Answered, Model, ModelKind
from qserver.answering.models.kinds.marginal_tables import marginal_partition
from qserver.answering.models.kinds.marginals_kind import MarginalsKind
from qserver.answering.models.kinds.network_kind import NetworkKind, check_learnable
from qserver.answering.models.kinds.wanted_marginals import MAX_MARGINALS, read_scopes
from qserver.errors import CapacityError, InputError, NetworkError
from qserver.models.network.structure import structure_of_edges
from qserver.query.domain import Attribute, Domain
from qserver.records.charge import NANO
from qserver.records.history import TableMeasurement


def domain_of(*sizes: int) -> Domain:
    """Attributes v0, v1, ... with these numbers of values."""
    return Domain(
        tuple(
            Attribute(f"v{i}", "labels", labels=tuple(map(str, range(n))))
            for i, n in enumerate(sizes)
        )
    )


def refused(error: type[Exception], match: str, *, past: bool) -> AbstractContextManager[Any]:
    """Expects the error past the edge, and none at it."""
    return pytest.raises(error, match=match) if past else nullcontext()


def model_of(kind: ModelKind, specification: Mapping[str, Any], domain: Domain) -> Model:
    """A model from the table of each attribute alone."""
    history = [
        TableMeasurement(
            i, marginal_partition(domain.sizes, (i,)), NANO, Fraction(1), (5,) * domain.sizes[i]
        )
        for i in range(len(domain.sizes))
    ]
    return kind.build(kind.read(specification, domain), domain, history)


@pytest.mark.parametrize(("size", "past"), [(400, False), (401, True)])
@pytest.mark.parametrize(
    ("kind", "specification"),
    [(NetworkKind(), {"network": {"edges": []}}), (MarginalsKind(), {})],
    ids=["network", "marginals"],
)
def test_an_answer_has_at_most_100_000_probabilities(
    kind: ModelKind, specification: Mapping[str, Any], size: int, *, past: bool
) -> None:
    model = model_of(kind, specification, domain_of(250, size))
    with refused(CapacityError, "cells", past=past):
        found = model.ask({"marginal": ["v0", "v1"], "given": {}}).document
        assert np.shape(found["probabilities"]) == (250, 400)


@pytest.mark.parametrize(("size", "past"), [(64, False), (65, True)])
def test_a_family_has_at_most_65_536_cells(size: int, *, past: bool) -> None:
    labels = {"a": range(1024), "b": range(size)}
    structure = structure_of_edges({k: list(map(str, v)) for k, v in labels.items()}, [("a", "b")])
    with refused(NetworkError, "65,536 cells with its parents", past=past):
        check_learnable(structure)


@pytest.mark.parametrize(("n_parents", "past"), [(8, False), (9, True)])
def test_a_variable_has_at_most_8_parents(n_parents: int, *, past: bool) -> None:
    labels = {f"v{i}": ("0", "1") for i in range(n_parents + 1)}
    edges = [(name, "v0") for name in labels if name != "v0"]
    with refused(NetworkError, "at most 8 parents", past=past):
        check_learnable(structure_of_edges(labels, edges))


@pytest.mark.parametrize(("n", "past"), [(MAX_MARGINALS, False), (MAX_MARGINALS + 1, True)])
def test_at_most_4_096_marginals_are_wanted(n: int, *, past: bool) -> None:
    scopes = islice(combinations([f"v{i}" for i in range(31)], 3), n)
    with refused(InputError, "at most 4,096 lists", past=past):
        assert len(read_scopes([list(s) for s in scopes], domain_of(*(2,) * 31))) == n


@pytest.mark.parametrize(("n", "past"), [(64, False), (65, True)])
def test_a_structure_is_proposed_over_at_most_64_attributes(n: int, *, past: bool) -> None:
    domain = domain_of(*(2,) * n)
    with refused(CapacityError, "at most 64 attributes", past=past):
        assert len(correlated(domain, domain.names, None, even).labels) == 64


@pytest.mark.parametrize(("sizes", "past"), [((2048, 2048), False), ((2048, 2049), True)])
def test_pairs_have_at_most_4_194_304_cells(sizes: tuple[int, ...], *, past: bool) -> None:
    domain = domain_of(*sizes)

    def ask(_question: Mapping[str, Any]) -> Answered:
        return Answered({"probabilities": np.full(sizes, 1.0 / np.prod(sizes))})

    with refused(CapacityError, "4,194,304 cells together", past=past):
        correlated(domain, domain.names, None, ask)


def even(_question: Mapping[str, Any]) -> Answered:
    """A table of two attributes with two values each."""
    return Answered({"probabilities": [[0.25, 0.25], [0.25, 0.25]]})
