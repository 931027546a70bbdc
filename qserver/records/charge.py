"""Charges, which are the lines of the ledger, and where a snapshot stands in its budget."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Literal

from qserver.errors import InputError, StoreError
from qserver.query.class_grid import ProductPartition
from qserver.query.linear_query import LinearQuery, query_from_document
from qserver.records.codec import By, as_, plain, read

NANO = 10**9

# Neighbouring datasets differ by one record more or less, or by one record replaced.
Relation = Literal["add-remove", "replace-one"]


@dataclass(frozen=True)
class Charge:
    """The loss of a measured row: abs(h_c) * alpha for each cell c.

    Args:
        row: primitive row h.
        alpha_nano: alpha = 1 / b in units of 1e-9 epsilon per record, rounded up; > 0.
        job: the job that pays.
    """

    row: LinearQuery
    alpha_nano: int = field(metadata=as_("alpha"))
    job: str

    def __post_init__(self) -> None:
        check_nano("alpha_nano", self.alpha_nano)


@dataclass(frozen=True)
class OpaqueCharge:
    """The loss of a mechanism that is not a Laplace row: epsilon for every cell.

    Args:
        epsilon_nano: in units of 1e-9 epsilon, rounded up; > 0. It bounds the log-ratio under the
            population's neighbour relation.
        job: the job that pays, or the cause of the charge.
    """

    epsilon_nano: int = field(metadata=as_("epsilon"))
    job: str

    def __post_init__(self) -> None:
        check_nano("epsilon_nano", self.epsilon_nano)


@dataclass(frozen=True)
class TableCharge:
    """The loss of a measured table: alpha for every cell of the domain, less earlier payments.

    Args:
        partition: whose cells were measured.
        alpha_nano: the rise of the table's alpha in units of 1e-9 epsilon per record; > 0.
        paid: cells of the partition, in rising order, each with the nano-epsilon of `alpha_nano`
            that a measurement of its row paid before. The cell does not pay that again.
        job: the job that pays.
    """

    partition: ProductPartition = field(metadata=as_("table"))
    alpha_nano: int = field(metadata=as_("alpha"))
    paid: tuple[tuple[int, int], ...]
    job: str

    def __post_init__(self) -> None:
        check_nano("alpha_nano", self.alpha_nano)
        cells = [cell for cell, _ in self.paid]
        if cells != sorted(set(cells)) or not all(0 <= c < self.partition.n_cells for c in cells):
            raise InputError("paid", "name cells of the partition, in rising order")
        if any(not 0 < nano <= self.alpha_nano for _, nano in self.paid):
            raise InputError("paid", "be more than 0 and at most `alpha_nano` each")


AnyCharge = Charge | OpaqueCharge | TableCharge


def check_nano(name: str, value: object) -> None:
    """Raise InputError unless `value` is an int > 0."""
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise InputError(name, "be a whole number > 0 of nano-epsilon", value)


def epsilon_text(nano: int) -> str:
    """Nano-epsilon as a decimal text of epsilon, exactly."""
    sign, size = ("-" if nano < 0 else ""), abs(nano)
    return f"{sign}{size // NANO}.{size % NANO:09d}"


def charge_json(charge: AnyCharge, *, snapshot: str, at: int) -> str:
    """JSON text of a charge.

    Args:
        snapshot: the snapshot whose cells lose.
        at: Unix time in whole seconds, far coarser than any measurement.
    """
    return json.dumps({"snapshot": snapshot, "job": charge.job, "at": at} | plain(charge))


@lru_cache(maxsize=64)
def on_domain(sizes: tuple[int, ...], *, is_known: bool = False) -> By:
    """How rows and partitions of a domain are read.

    Args:
        sizes: number of values per attribute.
        is_known: whether they were read before; then a row is read when it is needed.
    """
    row = LinearQuery.later if is_known else query_from_document
    return {
        LinearQuery: partial(row, sizes),
        ProductPartition: partial(ProductPartition.from_document, sizes),
    }


def charge_from_json(text: str, *, snapshot: str, sizes: Sequence[int]) -> AnyCharge | None:
    """The charge in `text`; None for one that loads another snapshot."""
    found = json.loads(text)
    if found["snapshot"] != snapshot:
        return None
    by = on_domain(tuple(sizes))
    if "row" in found:
        return read(Charge, found, by)
    return read(TableCharge, found, by) if "table" in found else read(OpaqueCharge, found)


@dataclass(frozen=True)
class Standing:
    """Budget figures of one snapshot, in nano-epsilon; see `qserver.ledger.population`.

    Args:
        limit_nano: of the population.
        spent_nano: the most that any person of the population may have lost.
        lost_nano: the most that a person of this snapshot may have lost, in whatever dataset.
        share_nano: what the snapshot alone has spent; a part of `lost_nano`.

    Raises:
        StoreError: the figures contradict each other.
    """

    limit_nano: int
    spent_nano: int
    lost_nano: int
    share_nano: int

    def __post_init__(self) -> None:
        if not 0 <= self.share_nano <= self.lost_nano <= self.spent_nano:
            raise StoreError("The store's ledger contradicts itself: a part exceeds its whole.")

    @classmethod
    def alone(cls, *, limit_nano: int, spent_nano: int) -> Standing:
        """The standing of a snapshot that is the only one of its population."""
        return cls(limit_nano, spent_nano, spent_nano, spent_nano)

    @property
    def remaining_nano(self) -> int:
        """How much more this snapshot may spend under the limit."""
        # An earlier version may have let somebody lose more than the limit: then nothing is spent.
        return 0 if self.spent_nano > self.limit_nano else self.limit_nano - self.lost_nano

    def after(self, share_nano: int) -> Standing:
        """The standing once the snapshot alone has spent `share_nano`."""
        lost = self.lost_nano - self.share_nano + share_nano
        return Standing(self.limit_nano, max(self.spent_nano, lost), lost, share_nano)

    def allowed_nano(self, guard_nano: int | None = None) -> int:
        """What the snapshot alone may have spent in all.

        Args:
            guard_nano: the most that a person of the snapshot may lose; None for the limit alone.
        """
        most = self.limit_nano if guard_nano is None else min(self.limit_nano, guard_nano)
        return max(self.share_nano, most - self.lost_nano + self.share_nano)

    @classmethod
    def from_plain(cls, plain: Mapping[str, int]) -> Standing:
        """The standing that this version wrote, or one that kept cohorts."""
        if "cohort_nano" in plain:
            lost = plain["spent_nano"] - plain["lineage_nano"] + plain["cohort_nano"]
            return cls(plain["limit_nano"], plain["spent_nano"], lost, plain["share_nano"])
        return cls(**plain)
