"""The cell ledger: the loss of every cell, and what a population has spent.

The loss of a cell c is k * sum of abs(h_c) * alpha over the charges, k the records that a person
may own. Spent is the greatest loss of a cell under add-remove, and under replace-one the greatest
over pairs of cells of k * sum of abs(h_c - h_c') * alpha; the null cell, outside the domain, is
one more cell with h = 0 unless every value maps into the domain. An opaque charge adds its
epsilon, which holds for the population's own relation, to every cell and to every pair.

Every figure is a whole number of nano-epsilon, rounded up, and an upper bound where the domain is
too large for the exact maximum.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from qserver.charge import Charge, OpaqueCharge, Relation
from qserver.errors import QueryError, StoreError
from qserver.planning.loss import MAX_UNITS, UNITS_PER_NANO, cell_shapes, pair_shapes
from qserver.planning.maximum import Maximum, Payment
from qserver.planning.neighbours import AnyCharge, Neighbours
from qserver.planning.partition import Indices
from qserver.query import LinearQuery


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
        self._opaque_nano = 0
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
        """The least bound of the greatest loss now known, or None past 5,864 epsilon of charges."""
        self._take_in()
        if self._is_past_sums:
            return None
        return self._greatest_nano(self._cells.top, self._pairs.top)

    @property
    def exact(self) -> bool:
        """Whether `spent_nano` is the greatest loss itself, rounded up."""
        return self.spent_nano == self.bound_nano and self._bound_is_exact

    def spent_after(self, charges: Sequence[AnyCharge]) -> int:
        """What `spent_nano` would be after these charges as well; nothing is changed.

        The less of the new bound and of what was spent plus the price of each charge, but never
        less than what was spent.
        """
        self._take_in()
        most = self._spent_nano + sum(map(self.neighbours.price_nano, charges))
        payments = self._payments(charges)
        if self._most_units + _most(payments) >= MAX_UNITS:
            return most
        pairs = self._pairs.top_with(payments) if self._has_pairs else 0
        bound = self._greatest_nano(self._cells.top_with(payments), pairs)
        return max(self._spent_nano, min(most, bound + _opaque(charges)))

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
        bound = self.bound_nano
        if self._bound_is_exact and bound is not None:
            # Single losses were rounded up, perhaps on other occasions than those recorded.
            room = 1 + self._n_payments // UNITS_PER_NANO
            if spent_nano < bound - room:
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
        """At least the greatest loss k * sum of abs(h_c) * alpha of the cells chosen by `where`.

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
    def _bound_is_exact(self) -> bool:
        if self._is_past_sums:
            return False
        if self.neighbours.relation == "add-remove":
            return self._cells.exact
        return self._pairs.exact and (self._cells.exact or not self.neighbours.null_cell)

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
        payments = self._payments(charges)
        self._opaque_nano += _opaque(charges)
        self._most_units += _most(payments)
        self._n_payments += len(payments)
        if payments and not self._is_past_sums:
            self._cells.add(payments)
            if self._has_pairs:
                self._pairs.add(payments)

    def _payments(self, charges: Sequence[AnyCharge]) -> list[Payment]:
        """The rows charged, each once."""
        scale = self.neighbours.records_per_person * UNITS_PER_NANO
        units: dict[LinearQuery, int] = {}
        for charge in charges:
            if isinstance(charge, Charge):
                if charge.row.sizes != self.sizes:
                    raise QueryError("charge.row", "be on the ledger's domain")
                units[charge.row] = units.get(charge.row, 0) + charge.alpha_nano * scale
        return [Payment(row, amount) for row, amount in units.items()]

    @property
    def _has_pairs(self) -> bool:
        return self.neighbours.relation == "replace-one"

    def _greatest_nano(self, cells: int, pairs: int) -> int:
        """The greatest loss, from the greatest of a cell and of a pair of cells in the domain."""
        if not self._has_pairs:
            return self._loss_nano(cells)
        # abs(h_c - h_c') <= abs(h_c) + abs(h_c').
        pairs = min(pairs, 2 * cells)
        return self._loss_nano(max(pairs, cells) if self.neighbours.null_cell else pairs)

    def _loss_nano(self, units: int) -> int:
        return -(-units // UNITS_PER_NANO) + self._opaque_nano

    def _allowed(self, axis: int, values: Collection[int]) -> Indices:
        if not 0 <= axis < len(self.sizes):
            raise QueryError("axis", f"be 0 to {len(self.sizes) - 1}", axis)
        allowed = np.unique(np.fromiter(values, dtype=np.intp))
        if not len(allowed) or allowed[0] < 0 or allowed[-1] >= self.sizes[axis]:
            raise QueryError("values", f"be indices 0 to {self.sizes[axis] - 1}, at least one")
        return allowed


def _opaque(charges: Iterable[AnyCharge]) -> int:
    return sum(c.epsilon_nano for c in charges if isinstance(c, OpaqueCharge))


def _most(payments: Iterable[Payment]) -> int:
    """More than any loss of a cell or a pair of cells that the payments can cause, in units."""
    return sum(
        3 * payment.units * -(-shape.top // shape.denominator)
        for payment in payments
        for shape in cell_shapes(payment.row)
    )
