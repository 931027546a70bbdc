"""The cell ledger: the loss of every cell, and the spending of a population.

The loss of a cell c is k * sum of abs(h_c) * alpha over the charges; a person owns at most k
records. Under add-remove the spending is the greatest loss of a cell. Under replace-one it is the
greatest value over pairs of cells of k * sum of abs(h_c - h_c') * alpha. The null cell, outside the
domain, is one more cell with h = 0 unless every value maps into the domain. An opaque charge adds
its epsilon, which holds for the population's relation, to every cell and to every pair.

A table adds k * alpha to every cell, less the part that the cell's row has paid before. A pair of
cells of the domain is charged twice that without refunds (nothing for the total). This is an upper
bound, as both may be in one cell of the table. Twice the greatest loss of a cell is another upper
bound; the lesser of the two counts.

Where the k records of a person may not all be of one period, the loss is the greatest sum of the
losses of k records (`qserver.ledger.one_person`), and the sums here are those of one record.

Every figure is a whole number of nano-epsilon, rounded up. It is an upper bound if the domain is
too large for the exact maximum.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from qserver.errors import QueryError, StoreError
from qserver.ledger.composition import Dues, Flat, dues
from qserver.ledger.constants import LIMITS
from qserver.ledger.loss import UNITS_PER_NANO, cell_shapes, pair_shapes, pair_shapes_within
from qserver.ledger.loss_tables import Indices
from qserver.ledger.maximum import Maximum, RowPayment, Tabulate
from qserver.ledger.one_person import ByPeriod, Neighbours, Pays, Units
from qserver.query.linear_query import Term
from qserver.records.charge import AnyCharge, Charge, Relation
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw
from qserver.records.state import State


@dataclass(frozen=True)
class PeriodSums:
    """The sums of a ledger, each of one record.

    Args:
        cells, pairs: the greatest payment of a cell, and of a pair, by rows less refunds.
    """

    by: ByPeriod
    neighbours: Neighbours
    cells: Maximum
    pairs: Maximum

    def bound_nano(
        self, flat: Flat, cells: Sequence[RowPayment] = (), rows: Sequence[RowPayment] = ()
    ) -> int:
        """A bound of the greatest loss with these payments added. Changes nothing.

        Args:
            flat: the part that is equal for every cell, after them.
        """
        pairs: Units | int = 0
        if self._has_pairs:
            pairs = self._of_pairs(flat, rows)
        pays = Pays(
            self._tops(self.cells, cells),
            pairs,
            flat.tables_nano * UNITS_PER_NANO,
            flat.totals_nano * UNITS_PER_NANO,
        )
        return _nano(pays.greatest(self.by, self.neighbours)) + flat.opaque_nano

    def _of_pairs(self, flat: Flat, rows: Sequence[RowPayment]) -> Units | int:
        """What pairs pay for rows and for tables of some periods: by period, or the most of all."""
        if not self.by.same_period:
            return self.pairs.top_with(rows) + 2 * flat.most_partly_nano * UNITS_PER_NANO
        tops = self._tops(self.pairs, rows)
        if not flat.partly:
            return tops
        return np.asarray(tops + 2 * UNITS_PER_NANO * np.array(flat.partly, dtype=np.int64))

    def added_nano(self, flat: Flat, due: Dues) -> int:
        """As `bound_nano`, with all payments added to a copy of the sums."""
        cells, pairs = self.cells.copy(), self.pairs.copy()
        cells.add(due.cells)
        if self._has_pairs:
            pairs.add(due.rows)
        return PeriodSums(self.by, self.neighbours, cells, pairs).bound_nano(flat)

    def certain_nano(self, flat: Flat) -> int | None:
        """A loss that somebody may have, up to rounding; None for sums that are not written down.

        Of pairs only rows count. None, too, where records cost more together than one by one.
        """
        if self.neighbours.together > 1:
            return None
        certain, k = [], self.neighbours.records_per_person
        if self._has_pairs and self.pairs.is_dense:
            # Of pairs between any periods, as many as one period allows may be alike.
            units = self.by.most * self.pairs.top
            if self.by.same_period:
                units = self.by.greatest(self._tops(self.pairs, ()), k)
            certain.append(_nano(units) + flat.opaque_nano)
        if self.cells.is_dense and (self.neighbours.null_cell or not self._has_pairs):
            certain.append(self._spread_nano(self._tops(self.cells, ()), k, flat))
        return max(certain, default=None)

    def loss_nano(self, where: Mapping[int, Indices], flat: Flat) -> int:
        """At least the greatest loss of a person with records in some cells only."""
        by = self.by
        n = len(where.get(by.axis, range(by.n_periods)))
        cells = self.cells.by_value(by.axis, n_values=n, where=where)
        return self._spread_nano(cells, min(self.neighbours.records_per_person, n * by.most), flat)

    def by_value_nano(self, axis: int, sizes: Sequence[int], flat: Flat) -> list[int]:
        """For each value of an attribute, the greatest loss of a person with that value only."""
        by = self.by
        if axis == by.axis:
            tops = self._tops(self.cells, ())
            return [self._spread_nano(tops[t : t + 1], by.most, flat) for t in range(len(tops))]
        columns = self.cells.by_two(by.axis, axis, sizes=sizes).T
        k = self.neighbours.records_per_person
        return [self._spread_nano(column, k, flat) for column in columns]

    @property
    def _has_pairs(self) -> bool:
        return self.neighbours.relation == "replace-one"

    def _tops(self, sums: Maximum, payments: Sequence[RowPayment]) -> Units:
        return sums.by_value_with(self.by.axis, payments, n_values=self.by.n_periods)

    def _spread_nano(self, cells: Units, n_records: int, flat: Flat) -> int:
        """The loss of `n_records` records of cells with these sums by period."""
        more = n_records * (flat.tables_nano + flat.totals_nano) + flat.opaque_nano
        return _nano(self.by.greatest(cells, n_records)) + more


class CellLedger:
    """The charges of one snapshot as the loss of every cell. Charges are only ever added.

    Args:
        sizes: number of values per attribute; their product may be 10^12 and more.
        relation: `add-remove` or `replace-one` record.
        records_per_person: k, most records that one person owns.
        null_cell: under replace-one, whether a record may lie outside the domain.
        by_period: how the k records may be spread over periods; None if all may be alike.
        law: of the noise that is paid for.

    Raises:
        DomainError: a value is out of range.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        *,
        relation: Relation = "add-remove",
        records_per_person: int = 1,
        null_cell: bool = True,
        by_period: ByPeriod | None = None,
        law: NoiseLaw = LAPLACE,
    ) -> None:
        self.sizes = tuple(sizes)
        self.neighbours = Neighbours(relation, records_per_person, null_cell, by_period, law)
        self._pending: list[AnyCharge] = []
        self._recorded: tuple[int, int] | None = None
        self._flat = Flat()
        self._spent_nano = 0
        self._most_units = 0
        self._n_payments = 0
        n, pairs = len(self.sizes), pairs_of(self.neighbours)
        self._cells = Maximum(lambda row: cell_shapes(row, law), n_attributes=n)
        self._pairs = Maximum(pairs, n_attributes=n)

    def state(self) -> State:
        """The input of `from_state`; public, as charges are."""
        self._take_in()
        head = {
            "spent_nano": self._spent_nano,
            "most_units": self._most_units,
            "n_payments": self._n_payments,
            "flat": asdict(self._flat),
        }
        return State.of_parts({"cells": self._cells.state(), "pairs": self._pairs.state()}, head)

    @classmethod
    def from_state(
        cls,
        state: State,
        *,
        sizes: Sequence[int],
        neighbours: Neighbours,
    ) -> CellLedger:
        """The ledger from a state; later charges give the same figures."""
        found, head = cls.like(sizes, neighbours), state.head
        found._spent_nano, found._most_units = head["spent_nano"], head["most_units"]
        found._n_payments, found._flat = (
            head["n_payments"],
            Flat(**head["flat"] | {"partly": tuple(head["flat"].get("partly", ()))}),
        )
        of = partial(Maximum.from_state, sizes=sizes)
        found._cells = of(state.part("cells"), lambda row: cell_shapes(row, neighbours.law))
        found._pairs = of(state.part("pairs"), pairs_of(neighbours))
        return found

    @classmethod
    def like(cls, sizes: Sequence[int], neighbours: Neighbours) -> CellLedger:
        """An empty ledger of these neighbours."""
        return cls(
            sizes,
            relation=neighbours.relation,
            records_per_person=neighbours.records_per_person,
            null_cell=neighbours.null_cell,
            by_period=neighbours.by_period,
            law=neighbours.law,
        )

    @property
    def records_per_person(self) -> int:
        """k, most records that one person owns."""
        return self.neighbours.records_per_person

    @property
    def spent_nano(self) -> int:
        """The cost of all charges: at least the greatest loss, and never decreasing.

        It depends on the order of events. Each charge raises it by at most its price; after a
        loose bound it stays until the bound has caught up.
        """
        # Once charges contradict the recorded figure, nothing is pending: `_take_in` raises.
        if self._recorded is not None and self._recorded[0] == len(self._pending) > 0:
            return self._recorded[1]
        self._take_in()
        return self._spent_nano

    @property
    def bound_nano(self) -> int | None:
        """The least known bound of the greatest loss; None above 5,864 epsilon of rows."""
        self._take_in()
        if self._is_past_sums:
            return None
        return self._bound_with((), (), self._flat)

    @property
    def exact(self) -> bool:
        """Whether `spent_nano` is the greatest loss itself, rounded up."""
        bound, certain = self.bound_nano, self._certain_nano
        if bound is None or certain is None:
            return False
        return self.spent_nano == bound <= certain

    @property
    def n_shifted(self) -> int:
        """Tables that a price of several charges walks over; 0 while the sum is one table."""
        self._take_in()
        return self._cells.n_shifted + self._pairs.n_shifted

    def spent_after(self, charges: Sequence[AnyCharge]) -> int:
        """`spent_nano` with these charges added. Changes nothing.

        It is the lesser of the new bound and of the present spending plus all prices, but never
        less than the present spending. `settled_after` may be less.
        """
        self._take_in()
        spent = self._spent_nano
        most = spent + sum(map(self.neighbours.price_nano, charges))
        due = self._dues(charges)
        if self._most_units + due.most_units >= LIMITS.most_units:
            return most
        bound = self._bound_with(due.cells, due.rows, self._flat + due.flat)
        return max(spent, min(most, bound))

    def settled_after(
        self, charges: Sequence[AnyCharge], *, allowed_nano: int | None = None
    ) -> int:
        """The least known spending with these charges added: the charge of a plan.

        `spent_after` is quick, to compare plans by. Where it is a bound, a search for the greatest
        loss takes some hundredths of a second. Unless the search gives up, the figure is the same
        in whatever order and batches earlier charges were read. Changes nothing.

        Args:
            allowed_nano: most that may be spent. Once the search finds a greater loss, it ends, and
                the quick bound says what would be spent.
        """
        after, spent = self.spent_after(charges), self._spent_nano
        due = self._dues(charges)
        if after == spent or self._most_units + due.most_units >= LIMITS.most_units:
            return after
        flat = self._flat + due.flat
        if (sums := self._by_period) is not None:
            found: int | None = sums.added_nano(flat, due)
        else:
            found = self._searched_nano(
                due, flat, _touched(charges), enough_nano=spent, most_nano=allowed_nano
            )
        return after if found is None else max(spent, min(after, found))

    def _searched_nano(
        self,
        due: Dues,
        flat: Flat,
        where: Mapping[int, Indices],
        *,
        enough_nano: int,
        most_nano: int | None = None,
    ) -> int | None:
        """The greatest loss of those who lose more by these payments; None without a search.

        Args:
            flat: the part that is equal for every cell, after them.
            where: the cells that lose more. Of a pair the first one is in it, as for the pair the
                other way round the second.
            enough_nano: a loss below which nobody needs to know more.
            most_nano: a loss above which nobody does; only the loss of cells is told by it.
        """
        room = enough_nano - flat.cell_nano
        if not self._has_pairs:
            level, most = room * UNITS_PER_NANO, LIMITS.int64_safe
            if most_nano is not None:
                most = (most_nano - flat.cell_nano) * UNITS_PER_NANO
            cells = self._cells.searched_with(due.cells, enough=level, where=where, most=most)
            return None if cells is None else self._greatest_nano(cells, 0, flat)
        both = enough_nano - 2 * (flat.tables_nano + flat.most_partly_nano) - flat.opaque_nano
        # So many times the loss of any cell bounds that of a pair, of tables as well.
        factor = self.neighbours.law.together(2)
        any_pair = (both - (factor - 2) * flat.tables_nano) // factor
        level = (room if where else min(room, any_pair)) * UNITS_PER_NANO
        cells = self._cells.searched_with(due.cells, enough=level, where=where)
        level = both * UNITS_PER_NANO
        pairs = self._pairs.searched_with(due.rows, enough=level, where=where)
        if cells is None and pairs is None:
            return None
        any_cell = self._cells.top_with(due.cells) if cells is None or where else cells
        some = any_cell if cells is None else cells
        pairs = self._pairs.top_with(due.rows) if pairs is None else pairs
        return self._greatest_nano(some, pairs, flat, any_cell=any_cell)

    def append(self, charge: AnyCharge) -> None:
        """Append one charge. The sums follow when a figure is next asked."""
        self._pending.append(charge)

    def extend(self, charges: Iterable[AnyCharge]) -> None:
        """Append charges; many at once are much quicker than one by one."""
        self._pending.extend(charges)

    def cap(self, spent_nano: int) -> None:
        """Set the spending so far to the recorded figure, which is the authority.

        The worker wrote its `spent_after` there. Its order of events may differ from this one's.

        Raises:
            StoreError: the charges certainly cost more than the recorded figure.
        """
        self.record(spent_nano)
        self._take_in()

    def record(self, spent_nano: int) -> None:
        """As `cap`, but charges are added up, and it raises, when a sum is next asked for.

        The spending is known at once, so who answers from history alone adds up nothing.
        """
        self._recorded = len(self._pending), spent_nano

    def loss_nano(self, where: Mapping[int, Collection[int]]) -> int:
        """At least the greatest loss of a person with records in cells chosen by `where` only.

        Args:
            where: per axis the allowed values, by index; axes left out allow all.

        Raises:
            QueryError: an axis or a value is outside the domain, or no value is allowed.
        """
        self._take_in()
        allowed = {axis: self._allowed(axis, values) for axis, values in where.items()}
        if self._is_past_sums:
            return self._loss_nano(self._most_units)
        if (sums := self._by_period) is not None:
            return sums.loss_nano(allowed, self._flat)
        return self._loss_nano(self._cells.top_where(allowed))

    def loss_by_value(self, axis: int) -> list[int]:
        """For each value of one attribute, at least the greatest loss of a person with it only.

        Raises:
            QueryError: the axis is outside the domain.
        """
        self._take_in()
        self._allowed(axis, [0])
        if self._is_past_sums:
            return [self._loss_nano(self._most_units)] * self.sizes[axis]
        if (sums := self._by_period) is not None:
            return sums.by_value_nano(axis, self.sizes, self._flat)
        tops = self._cells.by_value(axis, n_values=self.sizes[axis])
        return [self._loss_nano(units) for units in tops.tolist()]

    @property
    def _is_past_sums(self) -> bool:
        """Whether the sums might exceed 64 bits; then only prices are added up."""
        return self._most_units >= LIMITS.most_units

    @property
    def _certain_nano(self) -> int | None:
        """A loss that some cell or pair certainly has, up to rounding, or None.

        For a pair only rows count. The tables' cost for two cells is not known exactly, but it is
        never less than the tables' refunds.
        """
        if self._is_past_sums:
            return None
        if (sums := self._by_period) is not None:
            return sums.certain_nano(self._flat)
        certain = []
        if self._has_pairs and self._pairs.exact:
            certain.append(_nano(self._pairs.top) + self._flat.opaque_nano)
        if self._cells.exact and (self.neighbours.null_cell or not self._has_pairs):
            certain.append(_nano(self._cells.top) + self._flat.cell_nano)
        return max(certain, default=None)

    def _take_in(self) -> None:
        """Add the pending charges, with the recorded spending or that of `spent_after`."""
        if self._recorded is not None:
            n, spent_nano = self._recorded
            self._add(self._pending[:n])
            # While they contradict each other, nothing is told.
            self._pending, self._recorded = self._pending[n:], (0, spent_nano)
            self._check(spent_nano)
            self._spent_nano, self._recorded = spent_nano, None
        if not self._pending:
            return
        charges, self._pending = self._pending, []
        if len(charges) == 1:
            self._spent_nano = self.spent_after(charges)
            self._add(charges)
            return
        # `spent_after` would add to a copy first; this gives the same without one.
        most = self._spent_nano + sum(map(self.neighbours.price_nano, charges))
        self._add(charges)
        bound = self.bound_nano
        self._spent_nano = most if bound is None else max(self._spent_nano, min(most, bound))

    def _check(self, spent_nano: int) -> None:
        """StoreError where the charges certainly cost more."""
        if (certain := self._certain_nano) is None:
            return
        # Single losses were rounded up, perhaps at other steps than those recorded.
        n_sums = self.records_per_person if self.neighbours.by_period else 1
        room = 1 + n_sums * self._n_payments // UNITS_PER_NANO
        if spent_nano < certain - room:
            raise StoreError("The recorded budget is less than what its charges cost.")

    def _add(self, charges: Sequence[AnyCharge]) -> None:
        due = self._dues(charges)
        self._flat += due.flat
        self._most_units += due.most_units
        self._n_payments += len(due.rows)
        if self._is_past_sums:
            return
        if due.cells:
            self._cells.add(due.cells)
        if due.rows and self._has_pairs:
            self._pairs.add(due.rows)

    def _dues(self, charges: Sequence[AnyCharge]) -> Dues:
        return dues_of(charges, sizes=self.sizes, neighbours=self.neighbours)

    @property
    def _has_pairs(self) -> bool:
        return self.neighbours.relation == "replace-one"

    def _bound_with(
        self, cells: Sequence[RowPayment], rows: Sequence[RowPayment], flat: Flat
    ) -> int:
        """A bound of the greatest loss with these payments added to the sums.

        Args:
            flat: the part that is equal for every cell, after them.
        """
        if (sums := self._by_period) is not None:
            return sums.bound_nano(flat, cells, rows)
        top = self._cells.top_with(cells)
        pairs = self._pairs.top_with(rows) if self._has_pairs else 0
        return self._greatest_nano(top, pairs, flat)

    @property
    def _by_period(self) -> PeriodSums | None:
        """The sums as one record's; None where all records of a person may be alike."""
        by = self.neighbours.by_period
        return None if by is None else PeriodSums(by, self.neighbours, self._cells, self._pairs)

    def _greatest_nano(
        self, cells: int, pairs: int, flat: Flat, *, any_cell: int | None = None
    ) -> int:
        """The greatest loss.

        Args:
            cells, pairs: greatest loss of a cell and of a pair of cells in the domain, in units.
            flat: the part that is equal for every cell, which `cells` and `pairs` leave out.
            any_cell: of any cell, where `cells` and `pairs` are of some; None for `cells`.
        """
        return greatest_nano(self.neighbours, cells, pairs, flat, any_cell=any_cell)

    def _loss_nano(self, units: int) -> int:
        return _nano(units) + self._flat.cell_nano

    def _allowed(self, axis: int, values: Collection[int]) -> Indices:
        if not 0 <= axis < len(self.sizes):
            raise QueryError("axis", f"be 0 to {len(self.sizes) - 1}", axis)
        allowed = np.unique(np.fromiter(values, dtype=np.intp))
        if not len(allowed) or allowed[0] < 0 or allowed[-1] >= self.sizes[axis]:
            raise QueryError("values", f"be indices 0 to {self.sizes[axis] - 1}, at least one")
        return allowed


def dues_of(
    charges: Sequence[AnyCharge], *, sizes: tuple[int, ...], neighbours: Neighbours
) -> Dues:
    """What these charges cost a person, or one record where records may be of several periods."""
    return dues(
        charges,
        sizes=sizes,
        records_per_person=1 if neighbours.by_period else neighbours.records_per_person,
        alike=neighbours.alike,
        law=neighbours.law,
        together=neighbours.together_in,
    )


def greatest_nano(
    neighbours: Neighbours, cells: int, pairs: int, flat: Flat, *, any_cell: int | None = None
) -> int:
    """The greatest loss of a person whose records may all be alike; see `_greatest_nano`."""
    alone = _nano(cells) + flat.cell_nano
    if neighbours.relation == "add-remove":
        return alone
    # abs(h_c - h_c')^p <= 2^(p-1) (abs(h_c)^p + abs(h_c')^p).
    factor = neighbours.law.together(2)
    twice = _nano(factor * (cells if any_cell is None else any_cell))
    apart = _nano(pairs) + 2 * flat.most_partly_nano + 2 * flat.tables_nano
    both = min(apart, twice + factor * flat.tables_nano) + flat.opaque_nano
    return max(both, alone) if neighbours.null_cell else both


def pairs_of(neighbours: Neighbours) -> Tabulate:
    """The payments of pairs of cells that a record may move between."""
    by = neighbours.by_period
    if by is None or not by.same_period:
        return lambda row: pair_shapes(row, neighbours.law)
    return lambda row: pair_shapes_within(row, neighbours.law, by.axis)


def _touched(charges: Sequence[AnyCharge]) -> dict[int, Indices]:
    """The values per axis of the only cells that lose more by these charges; empty: any cell may.

    The losses of all other cells were known to be at most what was spent before.
    """
    terms: list[Term] = []
    for charge in charges:
        if not isinstance(charge, Charge):
            return {}
        terms += charge.row.terms
    found: dict[int, Indices] = {}
    for axis in set.intersection(*(set(term.by_axis) for term in terms)) if terms else ():
        found[axis] = np.flatnonzero(np.any([t.by_axis[axis].dense for t in terms], axis=0))
    return found


def _nano(units: int) -> int:
    """Nano-epsilon, rounded up."""
    return -(-units // UNITS_PER_NANO)
