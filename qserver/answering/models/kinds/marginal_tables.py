"""Marginals of the domain among the history's tables, and as partitions to be measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qserver.query.class_grid import ProductPartition, product_partition
from qserver.records.history import AnyMeasurement, GaussianTable, TableMeasurement, WeighedTable


@dataclass(frozen=True, eq=False)
class Marginal:
    """A released table that distinguishes every value of its attributes.

    Args:
        ids: of the measurements that it is made of.
        axes: positions of its attributes in the domain, ascending.
        scale: b of Laplace noise with the variance of a cell's noise, in records.
        values: the released counts, one axis per attribute.
    """

    ids: tuple[int, ...]
    axes: tuple[int, ...]
    scale: float
    values: NDArray[np.float64]


def marginal_partition(sizes: Sequence[int], axes: Sequence[int]) -> ProductPartition:
    """The partition into every value of the attributes at `axes`.

    Raises:
        QueryError: it has more cells than a table may have.
    """
    return product_partition(tuple(sizes), {a: range(sizes[a]) for a in axes})


def weighed(measurements: Sequence[AnyMeasurement]) -> list[AnyMeasurement]:
    """The measurements, those of equal cells with Gaussian noise combined, by the first's id."""
    found = dict[object, AnyMeasurement]()
    for one in measurements:
        if not isinstance(one, GaussianTable):
            found[one.id] = one
            continue
        old = found.get(cells := (one.key, one.step))
        found[cells] = WeighedTable.of(old, one) if isinstance(old, GaussianTable) else one
    return list(found.values())


def marginals(measurements: Sequence[AnyMeasurement]) -> tuple[Marginal, ...]:
    """The marginals among the measurements, by id, without coarser tables."""
    found = []
    for one in weighed(measurements):
        if isinstance(one, TableMeasurement):
            parts = one.partition
            if all(a.n == parts.sizes[a.axis] for a in parts.axes):
                axes = tuple(a.axis for a in parts.axes)
                scale = one.law.like_laplace(one.scale)
                found.append(Marginal(one.ids, axes, scale, one.values))
    return tuple(found)
