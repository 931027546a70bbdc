"""The bounds of models at their edges: the largest that is allowed, and the first that is not."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from fractions import Fraction
from itertools import combinations, islice
from typing import Any

import numpy as np
import pytest

from qserver.answering.models.correlations import correlated
from qserver.answering.models.kinds.kind import Answered, Model, ModelKind
from qserver.answering.models.kinds.marginal_tables import marginal_partition
from qserver.answering.models.kinds.marginals_kind import MarginalsKind, read_scopes
from qserver.answering.models.kinds.network_kind import NetworkKind, check_learnable
from qserver.answering.models.kinds.reduced_history import MAX_ROWS, reduced_history
from qserver.answering.models.kinds.tables_to_buy import MAX_MARGINALS
from qserver.errors import CapacityError, InputError, NetworkError
from qserver.models.network.structure import Structure, structure_of_edges
from qserver.query.domain import Attribute, Domain
from qserver.query.linear_query import linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import interval
from qserver.records.charge import NANO
from qserver.records.history import Measurement, TableMeasurement


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


def apart(*sizes: int) -> Structure:
    """Variables without edges."""
    return structure_of_edges({f"v{i}": list(map(str, range(n))) for i, n in enumerate(sizes)}, [])


@pytest.mark.parametrize(("size", "past"), [(65_534, False), (65_535, True)])
def test_a_network_has_at_most_131_072_cells(size: int, *, past: bool) -> None:
    with refused(NetworkError, "131,072 cells in all", past=past):
        check_learnable(apart(65_536, size, 2))


@pytest.mark.parametrize(("n_more", "past"), [(0, False), (1, True)])
def test_families_have_at_most_70_000_pairs_of_nested_sets(n_more: int, *, past: bool) -> None:
    """A family of k variables has 3^k pairs of a set and a part of it."""
    n_parents = [*[0] * 8, 8, 8, 8, 7, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, *[0] * n_more]
    labels = {f"v{i}": ("0", "1") for i in range(len(n_parents))}
    edges = [(f"v{k}", f"v{i}") for i, n in enumerate(n_parents) for k in range(n)]
    assert sum(3 ** (n + 1) for n in n_parents) == 69_999 + 3 * n_more
    with refused(NetworkError, "fewer variables with many parents", past=past):
        check_learnable(structure_of_edges(labels, edges))


@pytest.mark.parametrize(("n", "past"), [(MAX_MARGINALS, False), (MAX_MARGINALS + 1, True)])
def test_at_most_4_096_marginals_are_wanted(n: int, *, past: bool) -> None:
    scopes = islice(combinations([f"v{i}" for i in range(31)], 3), n)
    with refused(InputError, "at most 4,096 lists", past=past):
        assert len(read_scopes([list(s) for s in scopes], domain_of(*(2,) * 31))) == n


@pytest.mark.parametrize("past", [False, True])
def test_wanted_marginals_have_at_most_4_194_304_cells_together(*, past: bool) -> None:
    """64 pairs of 65,536 cells each, and then an attribute of two values."""
    wide = [f"v{i}" for i in range(12)]
    wanted = [list(s) for s in islice(combinations(wide, 2), 64)] + [["v12"]] * past
    with refused(InputError, "4,194,304 cells together", past=past):
        assert len(read_scopes(wanted, domain_of(*(256,) * 12, 2))) == 64


@pytest.mark.parametrize("past", [False, True])
def test_wanted_marginals_have_at_most_1_048_576_parts_together(*, past: bool) -> None:
    """16 sets of 16 attributes have 65,536 parts each."""
    names = [f"v{i}" for i in range(18)]
    wanted = [list(s) for s in islice(combinations(names, 16), 16)] + [["v0"]] * past
    with refused(InputError, "1,048,576 parts together", past=past):
        assert len(read_scopes(wanted, domain_of(*(2,) * 18))) == 16


@pytest.mark.parametrize(
    ("oracle", "size", "found"),
    [
        ("auto", 16_382, "exact"),
        ("auto", 16_383, "saturated"),
        ("exact", 65_534, "exact"),
        ("exact", 65_535, None),
    ],
)
def test_an_exact_model_has_at_most_so_many_cells(
    oracle: str, size: int, found: str | None
) -> None:
    """16,384 where it is the server's choice, 65,536 where it is asked for."""
    with refused(CapacityError, "65,537", past=found is None):
        model = model_of(MarginalsKind(), {"oracle": oracle}, domain_of(size, 2))
        assert model.describe()["oracle"] == found


@pytest.mark.parametrize("n", [MAX_ROWS, MAX_ROWS + 1])
def test_a_model_takes_512_rows_at_most(n: int) -> None:
    """Those of least noise; the others are counted as left out."""
    size = 600
    table = TableMeasurement(0, marginal_partition((size,), (0,)), NANO, Fraction(1), (5,) * size)
    rows = [_row_of(i, size) for i in range(1, n + 1)]
    found = reduced_history([table, *rows])
    assert found.ids == tuple(range(MAX_ROWS + 1))
    assert found.n_left_out == n - MAX_ROWS


def _row_of(number: int, size: int) -> Measurement:
    """A range, with more noise the higher its number."""
    row = primitive(linear_query((size,), [(1, {0: interval(size, 0, number)})]))
    return Measurement(number, row.row, row.key, NANO - number, Fraction(1), 5)


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
