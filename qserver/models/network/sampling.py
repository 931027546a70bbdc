"""Random records of a network, drawn variable by variable for all records at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qserver.models.network.network import Network

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
