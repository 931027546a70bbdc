"""The four published networks and the records drawn from them."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from qserver.models.network.bif import read_bif
from qserver.models.network.network import Network
from qserver.models.network.structure import Structure

FOLDER = Path(__file__).parents[1] / "data" / "networks"
NAMES = ("asia", "sachs", "child", "alarm")


@cache
def network_text(name: str) -> str:
    """BIF text of a published network."""
    return gzip.decompress((FOLDER / f"{name}.bif.gz").read_bytes()).decode()


@cache
def published(name: str) -> Network:
    """A published network."""
    return read_bif(network_text(name))


@cache
def records(name: str) -> NDArray[np.intp]:
    """The 10,000 records of a network, of shape (10000, variables), in the network's order."""
    with gzip.open(FOLDER / f"{name}-10k.csv.gz", "rt") as file:
        header = file.readline().strip().split(",")
        rows = np.loadtxt(file, delimiter=",", dtype=np.intp)
    return rows[:, [header.index(n) for n in published(name).names]]


def counts(
    structure: Structure, rows: NDArray[np.integer], variables: tuple[int, ...]
) -> NDArray[np.intp]:
    """How many records have each value of `variables`, one axis each."""
    shape = tuple(structure.sizes[i] for i in variables)
    flat = np.ravel_multi_index(tuple(rows[:, i] for i in variables), shape)
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)
