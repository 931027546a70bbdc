"""A Bayesian network: a public structure with a conditional distribution per variable.

Random records of a network are drawn variable by variable, for all records at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qserver.errors import NetworkError
from qserver.models.network.structure import Structure

Table = NDArray[np.float64]

_SUM_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Network:
    """A structure and its conditional distributions. Immutable: the arrays are read-only copies.

    Args:
        structure: the variables and their parents.
        cpds: per variable the array of P(value | parents), of shape `structure.family_shape(i)`:
            one axis per parent, in order, and the variable's own axis last.

    Raises:
        NetworkError: a shape is wrong, an entry is negative or not finite, or the sum of a row
            differs from 1 by more than 1e-9.
    """

    structure: Structure
    cpds: tuple[Table, ...]

    def __post_init__(self) -> None:
        if len(self.cpds) != len(self.structure.variables):
            raise NetworkError("cpds", f"be {len(self.structure.variables)}", len(self.cpds))
        kept = tuple(self._checked(i, cpd) for i, cpd in enumerate(self.cpds))
        object.__setattr__(self, "cpds", kept)

    def _checked(self, i: int, cpd: ArrayLike) -> Table:
        name, shape = self.structure.names[i], self.structure.family_shape(i)
        table = np.array(cpd, dtype=np.float64)
        if table.shape != shape:
            raise NetworkError(name, f"have a table of shape {shape}", table.shape)
        if not np.isfinite(table).all() or table.min() < 0:
            raise NetworkError(name, "have finite probabilities >= 0")
        if np.abs(table.sum(axis=-1) - 1).max() > _SUM_TOLERANCE:
            raise NetworkError(name, "have rows that add up to 1")
        table.flags.writeable = False
        return table

    @property
    def names(self) -> tuple[str, ...]:
        """The variables' names, in order."""
        return self.structure.names

    @property
    def n_parameters(self) -> int:
        """Number of free parameters: the sum over variables of rows times (values - 1)."""
        return sum(cpd.size // cpd.shape[-1] * (cpd.shape[-1] - 1) for cpd in self.cpds)

    def cpd(self, name: str) -> Table:
        """P(value | parents) of the variable `name`: one axis per parent, then its value's axis."""
        return self.cpds[self.structure.index(name)]


def normalised(table: ArrayLike) -> Table:
    """`table` with each row (last axis) divided by its sum; uniform if the sum is not > 0."""
    values = np.maximum(np.asarray(table, dtype=np.float64), 0.0)
    sums = values.sum(axis=-1, keepdims=True)
    uniform = np.full(values.shape, 1.0 / values.shape[-1])
    shares = np.divide(values, sums, out=uniform, where=sums > 0)
    # A second division: after the first the sums are 1 up to a few ulps.
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True))


def network_of_counts(
    structure: Structure, tables: Sequence[ArrayLike], *, prior: float = 0.0
) -> Network:
    """The network of greatest likelihood, or of posterior mean under a Dirichlet prior.

    Args:
        structure: the variables and their parents.
        tables: per variable the counts of its family, of its family's shape; >= 0.
        prior: pseudo-count added to every cell, >= 0. A row without counts is uniform.
    """
    if prior < 0:
        raise NetworkError("prior", "be >= 0", prior)
    counts = [np.asarray(t, dtype=np.float64) + prior for t in tables]
    return Network(structure, tuple(normalised(t) for t in counts))


Records = NDArray[np.int32]


def draw_records(network: Network, n_records: int, rng: np.random.Generator) -> Records:
    """Records drawn from the network's joint distribution, parents before children.

    Args:
        n_records: number of records, >= 0.
        rng: source of randomness; it need not be secret, since a model is public.

    Returns:
        Positions of labels, shape (n_records, variables), in the structure's order.
    """
    structure = network.structure
    values: list[NDArray[np.int32]] = [np.empty(0, np.int32)] * len(network.cpds)
    for i in structure.order:
        row = np.zeros(n_records, np.int32)
        for p in structure.parents[i]:
            row *= structure.sizes[p]
            row += values[p]
        values[i] = _draw(network.cpds[i].reshape(-1, structure.sizes[i]), row, rng)
    return np.stack(values, axis=1)


def _draw(cpd: NDArray[np.float64], row: NDArray[np.int32], rng: np.random.Generator) -> Records:
    """For each row number, a random value of that row's distribution, by inversion."""
    uniform = rng.random(row.size)
    below = np.cumsum(cpd, axis=1)
    drawn = np.zeros(row.size, np.int32)
    if cpd.shape[1] <= 16:
        for k in range(cpd.shape[1] - 1):
            drawn += uniform >= np.take(below[:, k], row)
        return _possible(cpd, row, drawn)
    for each in np.unique(row):
        here = row == each
        drawn[here] = np.searchsorted(below[each, :-1], uniform[here], side="right")
    return _possible(cpd, row, drawn)


def _possible(cpd: NDArray[np.float64], row: NDArray[np.int32], drawn: Records) -> Records:
    """`drawn`, corrected where rounding gave a value of probability zero."""
    impossible = cpd[row, drawn] == 0
    if impossible.any():
        drawn[impossible] = np.argmax(cpd[row[impossible]], axis=1)
    return drawn
