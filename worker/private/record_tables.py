"""The private data: integer codes in memory, counted by full scans.

Once a `RecordTable` is built, no data value can make anything fail: codes lie inside the public
domain by construction, absent groups count zero, and weights are applied in Python integers. A scan
touches every record for every question, and prunes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from qserver.answering.models.kinds.kind import SAMPLING_RATE
from qserver.errors import MeasurementError
from qserver.query.class_grid import (
    AxisClasses,
    ClassGrid,
    IntegerGrid,
    ProductPartition,
    class_grid,
)
from qserver.query.labels import code_dtype
from qserver.query.linear_query import LinearQuery, Term
from worker.constants import WORKER
from worker.noise.randomness import Entropy

_CHUNK = WORKER.scan_chunk
_N_BYTE = 256
# Up to 2^40 records, sums of values this small fit 63 bits.
_SMALL_VALUE = 1 << 22

# Rounded down, so that a record is drawn no more often than the charge assumes.
_COIN = (1 << 64) * SAMPLING_RATE.numerator // SAMPLING_RATE.denominator

Codes = NDArray[np.uint8] | NDArray[np.uint16] | NDArray[np.uint32]


class Tables(Protocol):
    """Private data that can answer a query exactly; every engine implements this."""

    def answer(self, query: LinearQuery) -> Fraction:
        """The exact true answer. It must never leave the worker's memory without noise."""
        ...

    def counts(self, partition: ProductPartition) -> list[int]:
        """The exact number of records in each cell, row-major; as private as `answer`."""
        ...


@runtime_checkable
class RemoteTables(Tables, Protocol):
    """Private data that another system counts, which may be away."""

    @property
    def slot_s(self) -> float:
        """Seconds for the count of one row or table; declared by the owner, public."""
        ...

    def ready(self) -> None:
        """Return if counting is possible now. Called before a charge; UnanswerableError."""
        ...


@dataclass(frozen=True, repr=False)
class RecordTable:
    """Integer codes of one snapshot.

    Args:
        codes: per attribute, the index of each record's value, all of the same length.
        sizes: number of values per attribute.
    """

    codes: tuple[Codes, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.codes) != len(self.sizes) or len({len(c) for c in self.codes}) > 1:
            raise MeasurementError
        for codes, size in zip(self.codes, self.sizes, strict=True):
            if len(codes) and int(codes.max()) >= size:
                raise MeasurementError

    def answer(self, query: LinearQuery) -> Fraction:
        """The exact true answer of `query` on these records."""
        grid = class_grid(query)
        if grid.n_cells <= WORKER.count_grid_cells:
            return self._by_classes(query, grid)
        return sum((self._by_records(t) for t in query.terms), Fraction(0))

    def counts(self, partition: ProductPartition) -> list[int]:
        """The number of records in each cell of `partition`, row-major.

        Raises:
            MeasurementError: the partition is of another domain.
        """
        if partition.sizes != self.sizes:
            raise MeasurementError
        return [int(n) for n in self._counts(partition.axes, partition.n_cells)]

    def sample(self, entropy: Entropy) -> RecordTable:
        """A sample: each record independently, with a probability of a tenth less at most 2^-64.

        It is as private as the records, and must not outlive the call that draws it. Every record
        costs the same work, drawn or not, except for the copy of the drawn ones.
        """
        kept = np.concatenate(
            [np.zeros(0, dtype=bool)]
            + [
                _coins(min(_CHUNK, len(self.codes[0]) - start), entropy)
                for start in range(0, len(self.codes[0]), _CHUNK)
            ]
        )
        return RecordTable(tuple(codes[kept] for codes in self.codes), self.sizes)

    def _by_classes(self, query: LinearQuery, grid: ClassGrid) -> Fraction:
        """Count the records of every class cell, then weigh the counts in Python integers."""
        counts = self._counts(grid.axes, grid.n_cells)
        return Fraction(_weigh(grid.values(query).ravel(), counts), query.denominator)

    def _counts(self, axes: Sequence[AxisClasses], n_cells: int) -> NDArray[np.int64]:
        """Records per cell of the product of these classes, row-major, by one full scan."""
        dtype = np.uint8 if n_cells < _N_BYTE else np.int32
        lookup = [_Lookup(self.codes[a.axis], a.dense.astype(dtype), dtype(a.n)) for a in axes]
        counts = np.zeros(n_cells, dtype=np.int64)
        n = len(self.codes[0])
        for start in range(0, n, _CHUNK):
            cell: NDArray[Any] = np.zeros(min(_CHUNK, n - start), dtype=dtype)
            for axis in lookup:
                cell *= axis.n_classes
                cell += axis.classes_of(start)
            counts += _histogram(cell, n_cells)
        return counts

    def _by_records(self, term: Term) -> Fraction:
        """Sum a term over the records, for a query whose class grid is too large."""
        dtype = np.int64 if sums_fit(term) else object
        total = 0
        for start in range(0, len(self.codes[0]), _CHUNK):
            part = slice(start, start + _CHUNK)
            product = np.ones(len(self.codes[0][part]), dtype=dtype)
            for factor in term.factors:
                product = (
                    product * factor.weights.dense.astype(dtype)[self.codes[factor.axis][part]]
                )
            total += int(product.sum())
        return term.coefficient * total


@dataclass(frozen=True, repr=False)
class _Lookup:
    """The class of each record's value of one attribute, by a table over values."""

    codes: Codes
    classes: NDArray[Any]
    n_classes: Any

    def classes_of(self, start: int) -> NDArray[Any]:
        """Classes of the chunk that begins at record `start`."""
        part = self.codes[start : start + _CHUNK]
        if part.dtype == np.uint8 and self.classes.dtype == np.uint8:
            # Several times faster than numpy's look-up, and the same work for all values.
            table = self.classes.tobytes().ljust(_N_BYTE, b"\0")
            return np.frombuffer(part.tobytes().translate(table), dtype=np.uint8)
        return np.take(self.classes, part, mode="clip")


def sums_fit(term: Term) -> bool:
    """Whether 64 bits hold the sum of a term over a chunk of records; public."""
    largest = 1
    for factor in term.factors:
        largest *= max(map(abs, factor.weights.values))
    return largest * _CHUNK < 1 << 62


def _histogram(cell: NDArray[Any], n_cells: int) -> NDArray[np.int64]:
    """The number of records in each cell. The method depends on the number of cells alone."""
    if n_cells > WORKER.compared_cells:
        return np.bincount(cell, minlength=n_cells)
    return np.array([np.count_nonzero(cell == c) for c in range(n_cells)], dtype=np.int64)


def _coins(n: int, entropy: Entropy) -> NDArray[np.bool_]:
    """`n` independent coins, each True with probability `_COIN` / 2^64."""
    return entropy.words(n) < _COIN


def _weigh(values: IntegerGrid, counts: NDArray[np.int64]) -> int:
    """Sum of value times count, exactly. The method depends on the public values alone."""
    if values.dtype == np.int64 and int(np.abs(values).max()) < _SMALL_VALUE:
        return int(values.astype(np.int64) @ counts)
    return sum(int(v) * int(c) for v, c in zip(values, counts, strict=True))


def table_from_columns(
    columns: Mapping[int, NDArray[np.generic]], sizes: Sequence[int]
) -> RecordTable:
    """A table from one array of codes per axis, each narrowed to its smallest type."""
    codes: tuple[Any, ...] = tuple(
        np.ascontiguousarray(columns[axis], dtype=code_dtype(size))
        for axis, size in enumerate(sizes)
    )
    return RecordTable(codes, tuple(sizes))
