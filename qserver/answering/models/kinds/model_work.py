"""Memory and time for making a model, estimated from sizes before anything is bought."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol, runtime_checkable

from qserver.models.marginals.graph.layout import Scope
from qserver.query.domain import Domain
from qserver.records.history import AnyMeasurement

# Measured on one core of 2.5 GHz; rounded up. A round passes every part of every table some ten
# times, and pays for each table besides.
_BYTES_PER_PART_CELL = 128
_BYTES = 16 << 20
_ROUNDS = 200
_S_PER_PART_CELL = 2e-8
_S_PER_TABLE = 1e-5
_S_PER_MEASURED_CELL = 2.5e-5
_S_PER_TREE_CELL = 1e-7


@dataclass(frozen=True)
class ModelWork:
    """Memory and time for measuring tables and making a model, by order of magnitude.

    Args:
        n_tables: tables that the model is made from, those of history included.
        n_cells: cells of these.
        memory_bytes: extra memory of the process that makes the model.
        seconds: time of one core for measuring the bought tables and making the model once.
    """

    n_tables: int
    n_cells: int
    memory_bytes: int
    seconds: float


@runtime_checkable
class WeighedKind(Protocol):
    """A kind that estimates the work of a model beforehand; pure and without state."""

    def work(
        self,
        specification: str,
        domain: Domain,
        measurements: Sequence[AnyMeasurement],
        *,
        bought: Sequence[Scope],
    ) -> ModelWork:
        """Memory and time for measuring the bought tables and making the model.

        Args:
            bought: attributes of the tables that would be measured or raised.
        """


def marginals_work(
    sizes: Sequence[int],
    *,
    scopes: Iterable[Scope],
    bought: Iterable[Scope],
    n_tree_cells: int = 0,
) -> ModelWork:
    """The work of a model of marginals.

    Args:
        scopes: of all its tables, each once; values taken one by one, as fine as they can be.
        bought: of those that are measured for it.
        n_tree_cells: cells of the junction tree of an exact model.
    """
    scopes = tuple(scopes)
    # A table and all that it may share with others: the product of (values + 1).
    parts = sum(prod(sizes[a] + 1 for a in s) for s in scopes) + n_tree_cells
    measured = sum(prod(sizes[a] for a in s) for s in bought)
    round_s = _S_PER_PART_CELL * parts + _S_PER_TABLE * len(scopes)
    return ModelWork(
        n_tables=len(scopes),
        n_cells=sum(prod(sizes[a] for a in s) for s in scopes),
        memory_bytes=_BYTES + _BYTES_PER_PART_CELL * parts,
        seconds=_ROUNDS * (round_s + _S_PER_TREE_CELL * n_tree_cells)
        + _S_PER_MEASURED_CELL * measured,
    )
