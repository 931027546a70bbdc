"""History: the released measurements of one snapshot of one dataset. Immutable, versioned."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qserver.errors import InputError
from qserver.query.class_grid import ProductPartition
from qserver.query.linear_query import LinearQuery
from qserver.records.codec import as_
from qserver.records.privacy.noise_law import GAUSSIAN, LAPLACE, NoiseLaw


@dataclass(frozen=True)
class Measurement:
    """A primitive row h with its noisy answer y = h x + noise on a lattice.

    Args:
        id: its place among the measurements in order of first release, from 0. A refinement keeps
            the id of the measurement that it replaces.
        row: primitive row h (max abs at most 1).
        key: the row's key.
        alpha_nano: the charge, 1 / b in nano-epsilon per record, or under Gaussian noise nano-rho;
            0 for a public row, which has no noise.
        step: lattice step g > 0.
        index: y / g, a whole number.
    """

    law: ClassVar[NoiseLaw] = LAPLACE

    id: int
    row: LinearQuery
    key: str
    alpha_nano: int
    step: Fraction
    index: int

    def __post_init__(self) -> None:
        if self.id < 0 or self.alpha_nano < 0 or self.step <= 0:
            raise InputError("measurement", "have id >= 0, alpha_nano >= 0 and step > 0")

    def __deepcopy__(self, memo: dict[int, object]) -> Measurement:
        # It never changes, so copies of its holder share it.
        return self

    @property
    def value(self) -> Fraction:
        """The released answer y, exactly."""
        return self.index * self.step

    @cached_property
    def value_float(self) -> float:
        """The released answer y, to the nearest float."""
        return float(self.value)

    @cached_property
    def scale(self) -> float:
        """Scale b in records, or standard deviation of Gaussian noise; 0 for a public row."""
        return self.law.scale(self.alpha_nano) if self.alpha_nano else 0.0

    @property
    def n_summed(self) -> int:
        """How many independent variables of its law its noise is the sum of."""
        return 1

    @property
    def is_public(self) -> bool:
        """Whether the row is exact: a public constraint without noise."""
        return self.alpha_nano == 0

    @cached_property
    def lattice_allowance(self) -> float:
        """Bound on the lattice's change of the continuous law, abs(g K - X) <= g; 0 if public."""
        return 0.0 if self.is_public else float(self.step)

    def check_refines(self, old: Measurement) -> None:
        """Check that this measurement may replace `old`: the same row, with less noise.

        Raises:
            InputError: id, row, key or lattice step differ, `old` is public, or alpha is no larger.
        """
        same = (self.id, self.key, self.step) == (old.id, old.key, old.step)
        if not same or self.row != old.row:
            raise InputError("measurement", "have the id, row, key and step of what it refines")
        if old.is_public or self.alpha_nano <= old.alpha_nano:
            condition = f"exceed {old.alpha_nano}, that of a noisy row which it refines"
            raise InputError("measurement.alpha_nano", condition, self.alpha_nano)


@dataclass(frozen=True)
class GaussianMeasurement(Measurement):
    """A row measured with Gaussian noise; it is never refined, but measured again."""

    law: ClassVar[NoiseLaw] = GAUSSIAN

    def check_refines(self, _: Measurement, /) -> None:
        """Raise InputError: Gaussian rows are not refined."""
        raise InputError("measurement.id", "be new: Gaussian noise is not refined")


def measured_under(law: NoiseLaw, one: AnyMeasurement) -> AnyMeasurement:
    """A measurement as one of a population with this noise."""
    if not law.is_additive:
        return one
    if isinstance(one, TableMeasurement):
        return GaussianTable(one.id, one.partition, one.alpha_nano, one.step, one.indices)
    return GaussianMeasurement(one.id, one.row, one.key, one.alpha_nano, one.step, one.index)


@dataclass(frozen=True)
class TableMeasurement:
    """Every cell of a product partition, measured at one alpha: many disjoint rows at once.

    Args:
        id: its place among the measurements, rows and tables alike, in order of first release. A
            refinement keeps the id of the table that it replaces.
        partition: whose cells were measured.
        alpha_nano: 1 / b in nano-epsilon per record, or under Gaussian noise nano-rho; > 0.
        step: lattice step g > 0.
        indices: y / g of each cell, whole numbers, one per cell of the partition.
    """

    law: ClassVar[NoiseLaw] = LAPLACE

    id: int
    partition: ProductPartition
    alpha_nano: int
    step: Fraction
    indices: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.id < 0 or self.alpha_nano <= 0 or self.step <= 0:
            raise InputError("measurement", "have id >= 0, alpha_nano > 0 and step > 0")
        if len(self.indices) != self.partition.n_cells:
            raise InputError("indices", f"hold {self.partition.n_cells} cells", len(self.indices))

    @property
    def key(self) -> str:
        """The partition's key."""
        return self.partition.key

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """The released answers, each to the nearest float, of the partition's shape."""
        found = [float(index * self.step) for index in self.indices]
        return np.array(found).reshape(self.partition.shape)

    @property
    def quick_values(self) -> NDArray[np.float64]:
        """As `values`, off by two roundings and found sooner."""
        found = np.array(self.indices, dtype=np.float64) * float(self.step)
        return found.reshape(self.partition.shape)

    @property
    def ids(self) -> tuple[int, ...]:
        """Ids of the measurements that it is made of."""
        return (self.id,)

    @property
    def scale(self) -> float:
        """Scale b in records, or standard deviation of Gaussian noise."""
        return self.law.scale(self.alpha_nano)

    def check_refines(self, old: TableMeasurement) -> None:
        """Check that this table may replace `old`: the same cells, with less noise.

        Raises:
            InputError: id, partition or lattice step differ, or alpha is no larger.
        """
        if (self.id, self.key, self.step) != (old.id, old.key, old.step):
            raise InputError("measurement", "have the id, partition and step of what it refines")
        if self.alpha_nano <= old.alpha_nano:
            raise InputError("alpha_nano", f"exceed {old.alpha_nano}, which it refines")


@dataclass(frozen=True)
class GaussianTable(TableMeasurement):
    """A table measured with Gaussian noise; it is never refined, but measured again."""

    law: ClassVar[NoiseLaw] = GAUSSIAN

    def check_refines(self, _: TableMeasurement, /) -> None:
        """Raise InputError: Gaussian tables are not refined."""
        raise InputError("measurement.id", "be new: Gaussian noise is not refined")


@dataclass(frozen=True)
class WeighedTable(GaussianTable):
    """Several measurements of the same cells on one lattice step, weighed by their charges.

    The errors are about normal, of the variance of one measurement at the sum of the charges.

    Args:
        indices: sums of the measurements' indices times their charges.
        others: ids of the measurements but the first, in rising order.
    """

    others: tuple[int, ...]

    @classmethod
    def of(cls, one: TableMeasurement, other: TableMeasurement) -> WeighedTable:
        """Two tables, each of one measurement or of several, as one."""
        charges, indices = one.alpha_nano + other.alpha_nano, list[int]()
        own, others = ((1 if isinstance(t, cls) else t.alpha_nano) for t in (one, other))
        for mine, theirs in zip(one.indices, other.indices, strict=True):
            indices.append(own * mine + others * theirs)
        ids = tuple(sorted({*one.ids, *other.ids}))
        return cls(ids[0], one.partition, charges, one.step, tuple(indices), ids[1:])

    @property
    def ids(self) -> tuple[int, ...]:
        """Of all of them."""
        return (self.id, *self.others)

    @property
    def quick_values(self) -> NDArray[np.float64]:
        """The answers, of the partition's shape, off by three roundings."""
        found = np.array([index / self.alpha_nano for index in self.indices]) * float(self.step)
        return found.reshape(self.partition.shape)

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """As `quick_values`."""
        return self.quick_values


AnyMeasurement = Measurement | TableMeasurement


@dataclass(frozen=True)
class Estimator:
    """Certified weights of an answered row: row = sum of weight_i * h_i, with a rest from tables.

    Args:
        key: key of the primitive row that it estimates.
        weights: pairs of a measured row's id and its weight.
        float_error: bound on the float error of an estimate by the weights, in records.
        at: the tables give the rest, by their weights of least variance after this many releases
            and refinements. Without weights on rows, a measurement of the row may take part.
            None if the rows give everything.
    """

    key: str
    weights: tuple[tuple[int, float], ...]
    float_error: float = field(default=0.0, metadata=as_("error", always=True))
    at: int | None = None


def place_measurement(rows: list[AnyMeasurement], event: AnyMeasurement) -> AnyMeasurement | None:
    """Append a new measurement to `rows`, or replace the refined one; returns the replaced one.

    Raises:
        InputError: the id is beyond the next one, or the event cannot be a refinement.
    """
    if event.id > len(rows):
        raise InputError("measurement.id", f"be {len(rows)}, the next one, or less", event.id)
    if event.id == len(rows):
        rows.append(event)
        return None
    old = rows[event.id]
    match event, old:
        case (Measurement(), Measurement()):
            event.check_refines(old)
        case (TableMeasurement(), TableMeasurement()):
            event.check_refines(old)
        case _:
            raise InputError("measurement", "refine a row by a row, and a table by a table")
    rows[event.id] = event
    return old


@dataclass(frozen=True, kw_only=True)
class ReleasedFacts:
    """What is shown of a released row or table.

    Args:
        scale: b of the Laplace noise of each number, in records; of Gaussian noise its half-width
            at 95 percent over ln 20, which is b for a Laplace noise.
        step: lattice step of the noise, an exact fraction.
    """

    id: int
    key: str
    scale: float
    alpha_nano: int
    step: str


@dataclass(frozen=True, kw_only=True)
class HistoryRow(ReleasedFacts):
    """A released row: its terms, and its noisy answer in records."""

    terms: list[list[object]]
    value: float


@dataclass(frozen=True, kw_only=True)
class HistoryTable(ReleasedFacts):
    """A released table: every cell of a product of partitions, at one noise scale.

    Args:
        axes: [axis, stops, part of each run] per attribute that it splits.
        values: the noisy answers that were released, in records, cells in row-major order.
    """

    axes: list[list[Any]]
    n_cells: int
    values: tuple[float, ...] | None


@dataclass(frozen=True)
class HistoryPage:
    """Rows and tables after a given id, in order; `next_after` is None on the last page."""

    rows: tuple[HistoryRow | HistoryTable, ...]
    version: int
    next_after: int | None
