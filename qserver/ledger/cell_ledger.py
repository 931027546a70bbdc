"""The cell ledger: the loss of every cell, and what a population has spent.

The loss of a cell c is k * sum of abs(h_c) * alpha over the charges, k the records that a person
may own. Spent is the greatest loss of a cell under add-remove, and under replace-one the greatest
over pairs of cells of k * sum of abs(h_c - h_c') * alpha; the null cell, outside the domain, is
one more cell with h = 0 unless every value maps into the domain. An opaque charge adds its
epsilon, which holds for the population's own relation, to every cell and to every pair.

A table adds k * alpha to every cell, less what the cell's own row has paid of it before. A pair of
cells of the domain is charged twice that, without refunds (nothing for the total): an upper bound,
as both may be in one cell of the table; so is twice the greatest loss of a cell, and the less of
the two counts.

Every figure is a whole number of nano-epsilon, rounded up, and an upper bound where the domain is
too large for the exact maximum.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from qserver.errors import QueryError, StoreError
from qserver.ledger.classes import Indices
from qserver.ledger.composition import Dues, Flat, dues
from qserver.ledger.loss import MAX_UNITS, UNITS_PER_NANO, cell_shapes, pair_shapes
from qserver.ledger.maximum import Maximum
from qserver.ledger.neighbours import Neighbours
from qserver.records.charge import AnyCharge, Charge, Relation


class CellLedger:
    """The charges of one snapshot, as the loss of every cell. Grows only.

    Args:
        sizes: number of values per attribute; their product may be 10^12 and more.
        relation: `add-remove` or `replace-one` record.
        records_per_person: k, most records that one person owns.
        null_cell: under replace-one, whether a record may lie outside the domain.

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
    ) -> None:
        self.sizes = tuple(sizes)
        self.neighbours = Neighbours(relation, records_per_person, null_cell)
        self._pending: list[AnyCharge] = []
        self._flat = Flat()
        self._spent_nano = 0
        self._most_units = 0
        self._n_payments = 0
        self._cells = Maximum(cell_shapes, n_attributes=len(self.sizes))
        self._pairs = Maximum(pair_shapes, n_attributes=len(self.sizes))

    @classmethod
    def restore(
        cls,
        sizes: Sequence[int],
        *,
        neighbours: Neighbours,
        charges: Sequence[AnyCharge],
        spent_nano: int,
    ) -> CellLedger:
        """The ledger with these charges and this recorded figure; see `cap`."""
        ledger = cls(
            sizes,
            relation=neighbours.relation,
            records_per_person=neighbours.records_per_person,
            null_cell=neighbours.null_cell,
        )
        ledger.extend(charges)
        ledger.cap(spent_nano)
        return ledger

    @property
    def records_per_person(self) -> int:
        """k, most records that one person owns."""
        return self.neighbours.records_per_person

    @property
    def spent_nano(self) -> int:
        """What the charges cost in all: at least the greatest loss, and never decreasing.

        It depends on the path: it rises by at most the price of each charge, and where the bound
        was loose before it stays until the bound has caught up.
        """
        self._take_in()
        return self._spent_nano

    @property
    def bound_nano(self) -> int | None:
        """The least bound of the greatest loss now known, or None past 5,864 epsilon of rows."""
        self._take_in()
        if self._is_past_sums:
            return None
        return self._greatest_nano(self._cells.top, self._pairs.top, self._flat)

    @property
    def exact(self) -> bool:
        """Whether `spent_nano` is the greatest loss itself, rounded up."""
        bound, certain = self.bound_nano, self._certain_nano
        if bound is None or certain is None:
            return False
        return self.spent_nano == bound <= certain

    def spent_after(self, charges: Sequence[AnyCharge]) -> int:
        """What `spent_nano` would be after these charges as well; nothing is changed.

        The less of the new bound and of what was spent plus the price of each charge, but never
        less than what was spent. Where a domain is wide and tables refund many cells, the charges
        may come to a little less once they are appended; see `Maximum.top_with`.
        """
        self._take_in()
        most = self._spent_nano + sum(map(self.neighbours.price_nano, charges))
        due = self._dues(charges)
        if self._most_units + due.most_units >= MAX_UNITS:
            return most
        cells = self._cells.top_with(due.cells)
        pairs = self._pairs.top_with(due.rows) if self._has_pairs else 0
        bound = self._greatest_nano(cells, pairs, self._flat + due.flat)
        return max(self._spent_nano, min(most, bound))

    def within(self, charges: Sequence[AnyCharge], allowed_nano: int) -> int | None:
        """What `spent_nano` may be after these charges as well, at most `allowed_nano`, if it can.

        Where `spent_after` is more only because its bound is loose, a search for the greatest loss
        may show that no person loses more than is allowed. Some tenths of a second; nothing is
        changed.

        Returns:
            A figure from `spent_nano` to `allowed_nano`; None where none was proven.
        """
        after = self.spent_after(charges)
        if after <= allowed_nano or self._spent_nano > allowed_nano:
            return after if after <= allowed_nano else None
        due = self._dues(charges)
        if self._most_units + due.most_units >= MAX_UNITS:
            return None
        flat = self._flat + due.flat
        level = (allowed_nano - flat.cell_nano) * UNITS_PER_NANO
        # A pair's other cell need not be touched.
        where = {} if self._has_pairs else _touched(charges)
        cells = self._cells.within(due.cells, level, where=where)
        if cells is None:
            return None
        pairs = self._pairs.top_with(due.rows) if self._has_pairs else 0
        found = self._greatest_nano(cells, pairs, flat)
        return max(self._spent_nano, found) if found <= allowed_nano else None

    def append(self, charge: AnyCharge) -> None:
        """Append one charge; it is taken in when a figure is next asked for."""
        self._pending.append(charge)

    def extend(self, charges: Iterable[AnyCharge]) -> None:
        """Append charges. Taken in together they are much quicker than one by one."""
        self._pending.extend(charges)

    def cap(self, spent_nano: int) -> None:
        """Take over the recorded figure for the charges so far: it is the authority.

        What spends writes `spent_after` there, by its own path, which may differ from this one's.

        Raises:
            StoreError: the charges certainly cost more than the record says.
        """
        charges, self._pending = self._pending, []
        self._add(charges)
        certain = self._certain_nano
        if certain is not None:
            # Single losses were rounded up, perhaps on other occasions than those recorded.
            room = 1 + self._n_payments // UNITS_PER_NANO
            if spent_nano < certain - room:
                raise StoreError("The recorded budget is less than what its charges cost.")
        self._spent_nano = spent_nano

    def tighten(self, *, n_steps: int) -> None:
        """Work on the bound of a wide domain for `n_steps` steps of about 0.1 ms, at idle times.

        `spent_nano` stays; later charges cost less, until the bound has caught up with it.
        """
        self._take_in()
        self._cells.tighten(n_steps=n_steps)
        self._pairs.tighten(n_steps=n_steps)

    def loss_nano(self, where: Mapping[int, Collection[int]]) -> int:
        """At least the greatest loss of the cells chosen by `where`.

        Args:
            where: per axis the allowed values, by index; axes left out allow all.

        Raises:
            QueryError: an axis or a value is outside the domain, or no value is allowed.
        """
        self._take_in()
        allowed = {axis: self._allowed(axis, values) for axis, values in where.items()}
        if self._is_past_sums:
            return self._loss_nano(self._most_units)
        return self._loss_nano(self._cells.top_where(allowed))

    def loss_by_value(self, axis: int) -> list[int]:
        """Per value of one attribute, at least the greatest loss of the cells with that value.

        Raises:
            QueryError: the axis is outside the domain.
        """
        self._take_in()
        self._allowed(axis, [0])
        if self._is_past_sums:
            return [self._loss_nano(self._most_units)] * self.sizes[axis]
        per_class = self._cells.top_along(axis)
        if not per_class.layout.axes:
            return [self._loss_nano(per_class.top)] * self.sizes[axis]
        losses = [self._loss_nano(int(units)) for units in per_class.values]
        return [losses[i] for i in per_class.layout.partitions[0].of_values]

    @property
    def _is_past_sums(self) -> bool:
        """Whether 64 bits might not hold the sums; then only prices are added up."""
        return self._most_units >= MAX_UNITS

    @property
    def _certain_nano(self) -> int | None:
        """A loss that some cell or pair has for certain, as far as rounding goes, or None.

        Of a pair only its rows: what two cells pay of tables is not known, but never less than
        what the tables refund.
        """
        if self._is_past_sums:
            return None
        certain = []
        if self._has_pairs and self._pairs.exact:
            certain.append(_nano(self._pairs.top) + self._flat.opaque_nano)
        if self._cells.exact and (self.neighbours.null_cell or not self._has_pairs):
            certain.append(_nano(self._cells.top) + self._flat.cell_nano)
        return max(certain, default=None)

    def _take_in(self) -> None:
        """Add what is pending, at the figure that `spent_after` gives."""
        if not self._pending:
            return
        charges, self._pending = self._pending, []
        if len(charges) == 1:
            self._spent_nano = self.spent_after(charges)
            self._add(charges)
            return
        # The same, without adding to a copy first.
        most = self._spent_nano + sum(map(self.neighbours.price_nano, charges))
        self._add(charges)
        bound = self.bound_nano
        self._spent_nano = most if bound is None else max(self._spent_nano, min(most, bound))

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
        k = self.neighbours.records_per_person
        return dues(charges, sizes=self.sizes, records_per_person=k)

    @property
    def _has_pairs(self) -> bool:
        return self.neighbours.relation == "replace-one"

    def _greatest_nano(self, cells: int, pairs: int, flat: Flat) -> int:
        """The greatest loss.

        Args:
            cells, pairs: the greatest of a cell and of a pair of cells in the domain, in units,
                but for what is `flat`.
        """
        alone = _nano(cells) + flat.cell_nano
        if not self._has_pairs:
            return alone
        # abs(h_c - h_c') <= abs(h_c) + abs(h_c').
        both = min(_nano(pairs), _nano(2 * cells)) + 2 * flat.tables_nano + flat.opaque_nano
        return max(both, alone) if self.neighbours.null_cell else both

    def _loss_nano(self, units: int) -> int:
        return _nano(units) + self._flat.cell_nano

    def _allowed(self, axis: int, values: Collection[int]) -> Indices:
        if not 0 <= axis < len(self.sizes):
            raise QueryError("axis", f"be 0 to {len(self.sizes) - 1}", axis)
        allowed = np.unique(np.fromiter(values, dtype=np.intp))
        if not len(allowed) or allowed[0] < 0 or allowed[-1] >= self.sizes[axis]:
            raise QueryError("values", f"be indices 0 to {self.sizes[axis] - 1}, at least one")
        return allowed


def _touched(charges: Sequence[AnyCharge]) -> dict[int, Indices]:
    """Values per axis of the only cells that can lose more by these charges.

    What any other cell loses was allowed before.
    """
    if len(charges) != 1 or not isinstance(charges[0], Charge):
        return {}
    terms = charges[0].row.terms
    if len(terms) != 1:
        return {}
    return {axis: np.flatnonzero(w.dense) for axis, w in terms[0].by_axis.items()}


def _nano(units: int) -> int:
    """Nano-epsilon, rounded up."""
    return -(-units // UNITS_PER_NANO)
