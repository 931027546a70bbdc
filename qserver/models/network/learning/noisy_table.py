"""A noisy table: released counts of every joint value of some variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, prod

from qserver.errors import NetworkError
from qserver.models.network.network import Table

Scope = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """Counts of every value of the variables at `scope`, each with independent Laplace noise.

    Args:
        scope: positions of variables, ascending and distinct.
        scale: Laplace scale b of each cell, in records, > 0. Its price is 1 / b epsilon.
        values: the noisy counts, one axis per variable of the scope.

    Raises:
        NetworkError: scope, scale or shape are wrong.
    """

    scope: Scope
    scale: float
    values: Table

    def __post_init__(self) -> None:
        if list(self.scope) != sorted(set(self.scope)):
            raise NetworkError("scope", "be ascending", self.scope)
        if not (isfinite(self.scale) and self.scale > 0):
            raise NetworkError("scale", "be a finite number > 0", self.scale)
        if self.values.ndim != len(self.scope):
            raise NetworkError("values", "have one axis per variable of the scope")

    @property
    def epsilon(self) -> float:
        """The cost of the table: 1 / scale."""
        return 1 / self.scale

    @property
    def variance(self) -> float:
        """Variance of a cell's noise, 2 b^2, in records squared."""
        return 2 * self.scale**2


@dataclass(frozen=True)
class TablePrice:
    """A table to measure, and its price.

    Args:
        scope: positions of variables, ascending and distinct.
        epsilon: 1 / b of each cell's noise, > 0.
    """

    scope: Scope
    epsilon: float


def n_cells(scope: Sequence[int], sizes: Sequence[int]) -> int:
    """Number of joint values of the variables at `scope`."""
    return prod(sizes[i] for i in scope)


def scope_of(variables: Sequence[int]) -> Scope:
    """The variables as a scope, in ascending order."""
    return tuple(sorted(variables))


def onto_family(table: Table, scope: Scope, family: Sequence[int]) -> Table:
    """`table` over `scope` with its axes in the order of `family`, the same variables."""
    return table.transpose([scope.index(i) for i in family])
