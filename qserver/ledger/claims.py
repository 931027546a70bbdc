"""How well the owner's claims can be known, now and after a plan's charges.

*What was measured.* The answers of a row, also as a cell of tables, are functions of the last one
of a chain and of noise that tells nothing (docs/guarantee.md, steps 2 and 7). The charges of a
chain add up to at least its last alpha = 1/b. So the answers are at most exp(sum alpha abs(h'u))
times as likely for the counts x + u as for x, the sum being over what is kept here.

*Cells that charges tell apart.* A domain may have 10^12 cells, so cells are named by their values,
one for each attribute, and only those that are asked about are computed.

*The search* is for a direction that moves a claimed query and that the charges hardly see. Any
direction gives a bound that holds, so the search may end anywhere. It looks at a bounded number of
cells: all kinds of cells where those are few, and otherwise cells that lose little, found by
changing one attribute after another, with their neighbours. On these cells the best direction is
that of a linear program, whose dual is solved: the greatest t for which rows times factors of at
most their alpha add up to t times the query. It depends on charges alone, by counted work.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import gcd, lcm, prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qserver.ledger.constants import (
    MOST_ALL,
    MOST_CELLS,
    MOST_DENOMINATOR,
    MOST_ENTRIES,
    MOST_LOOKS,
    MOST_PAIRS,
    MOST_PROGRAMS,
    MOST_SCALE,
    MOST_STARTS,
    MOST_STEPS,
    TINY,
)
from qserver.query.class_grid import ProductPartition
from qserver.query.domain import Domain
from qserver.query.linear_query import LinearQuery
from qserver.records.charge import AnyCharge, Charge, OpaqueCharge
from qserver.records.claim import Claim, known_within
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw
from qserver.records.state import State, bytes_of_rows, rows_of_bytes


@dataclass(frozen=True)
class ChargedTable:
    """A measured table.

    Args:
        alpha_nano: of all its charges together, in 1e-9 epsilon per record.
        paid: by cell, what of it the cell's row paid.
    """

    partition: ProductPartition
    alpha_nano: int
    paid: dict[int, int]

    def alpha_of(self, cell: int) -> int:
        """The charge of one cell of the table."""
        return self.alpha_nano - self.paid.get(cell, 0)


@dataclass
class Charged:
    """Charges, summed up by row and by table.

    Attributes:
        rows: alpha in 1e-9 epsilon per record, by row.
        tables: by the partition's key.
        every_nano: for each record more or less, whatever its cell, in 1e-9 epsilon.
    """

    rows: dict[LinearQuery, int] = field(default_factory=dict)
    tables: dict[str, ChargedTable] = field(default_factory=dict)
    every_nano: int = 0

    def add(self, charge: AnyCharge) -> None:
        """Add a charge."""
        if isinstance(charge, OpaqueCharge):
            self.every_nano += charge.epsilon_nano
        elif isinstance(charge, Charge):
            self.rows[charge.row] = self.rows.get(charge.row, 0) + charge.alpha_nano
        else:
            key = charge.partition.key
            old = self.tables.get(key, ChargedTable(charge.partition, 0, {}))
            paid = dict(old.paid)
            for cell, nano in charge.paid:
                paid[cell] = paid.get(cell, 0) + nano
            alpha = old.alpha_nano + charge.alpha_nano
            self.tables[key] = ChargedTable(charge.partition, alpha, paid)

    def with_more(self, charges: Iterable[AnyCharge], *, every_nano: int = 0) -> Charged:
        """A copy with these charges, and with more for every record."""
        found = Charged(dict(self.rows), dict(self.tables), self.every_nano + every_nano)
        for charge in charges:
            found.add(charge)
        return found

    def loss_nano(
        self,
        cells: Sequence[tuple[int, ...]],
        weights: Sequence[int],
        law: NoiseLaw = LAPLACE,
    ) -> Fraction:
        """Exactly the sum of alpha abs(h'u)^p for the vector u of these weights on these cells."""
        total = Fraction(self.every_nano * sum(map(abs, weights)))
        for row, alpha in self.rows.items():
            pairs = zip(cells, weights, strict=True)
            total += alpha * law.of_move(sum((w * row.value_at(c) for c, w in pairs), Fraction(0)))
        for table in self.tables.values():
            by_cell: dict[int, int] = {}
            for place, weight in zip(places(table.partition, cells), weights, strict=True):
                by_cell[place] = by_cell.get(place, 0) + weight
            moved = ((c, law.of_move(Fraction(w))) for c, w in by_cell.items() if c >= 0)
            total += sum(table.alpha_of(c) * move for c, move in moved)
        return total

    def state(self) -> State:
        """The input of `from_state`; public, as charges are."""
        tables = [
            [t.partition.to_document(), t.alpha_nano, sorted(t.paid.items())]
            for t in self.tables.values()
        ]
        alphas = [str(alpha) for alpha in self.rows.values()]
        head = {"alphas": alphas, "tables": tables, "every_nano": self.every_nano}
        return State(head, {"rows": bytes_of_rows(self.rows)})

    @classmethod
    def from_state(cls, state: State, sizes: Sequence[int]) -> Charged:
        """The charges that `state` wrote."""
        rows = rows_of_bytes(state.arrays["rows"], sizes)
        found = cls(dict(zip(rows, map(int, state.head["alphas"]), strict=True)))
        for document, alpha, paid in state.head["tables"]:
            partition = ProductPartition.from_document(sizes, document)
            found.tables[partition.key] = ChargedTable(partition, alpha, dict(map(tuple, paid)))
        found.every_nano = state.head["every_nano"]
        return found


def places(
    partition: ProductPartition, cells: Sequence[tuple[int, ...]] | np.ndarray
) -> Iterator[int]:
    """Per cell of the domain the cell of the partition that holds it, or -1."""
    at = np.asarray(cells, dtype=np.int64)
    found, is_inside = np.zeros(len(at), dtype=np.int64), np.ones(len(at), dtype=bool)
    for parts in partition.axes:
        places = parts.dense[at[:, parts.axis]]
        found, is_inside = found * parts.n + places, is_inside & (places >= 0)
    yield from np.where(is_inside, found, -1).tolist()


Floats: TypeAlias = NDArray[np.float64]
Cells: TypeAlias = NDArray[np.int64]
"""Cells of the domain, shape (cells, attributes)."""


class ToldApart:
    """The cells of a domain as far as charges and a claimed query tell them apart.

    Args:
        charged: what was charged.
        query: the claimed query.
        idle: attributes whose last value is left out.
    """

    def __init__(
        self, charged: Charged, query: LinearQuery, idle: Collection[int] = frozenset()
    ) -> None:
        self._charged, self._query = charged, query
        starts: list[set[int]] = [{0} for _ in query.sizes]
        for row in (query, *charged.rows):
            for term in row.terms:
                for factor in term.factors:
                    starts[factor.axis].update(factor.weights.stops[:-1])
        for table in charged.tables.values():
            for parts in table.partition.axes:
                starts[parts.axis].update(parts.stops[:-1])
        for axis in idle:
            starts[axis].discard(query.sizes[axis] - 1)
        self.values = [np.array(sorted(found), dtype=np.int64) for found in starts]

    @property
    def n_cells(self) -> int:
        """Number of cells that may be told apart."""
        return prod(map(len, self.values))

    @property
    def n_rows(self) -> int:
        """Number of rows and tables: the work to look at some cells."""
        return 1 + len(self._charged.rows) + len(self._charged.tables)

    def all_cells(self) -> Cells:
        """One cell of each kind."""
        grid = np.meshgrid(*self.values, indexing="ij")
        return np.stack([axis.ravel() for axis in grid], axis=1)

    def around(self, cell: Cells, most: int) -> Cells:
        """The cell, then those that differ in one attribute, at most `most` for each."""
        found = [cell[None, :]]
        for axis, values in enumerate(self.values):
            others = values[values != cell[axis]]
            others = others[:: max(1, -(-len(others) // most))]
            moved = np.repeat(cell[None, :], len(others), axis=0)
            moved[:, axis] = others
            found.append(moved)
        return np.concatenate(found)

    def asked(self, cells: Cells) -> Floats:
        """The claimed query's weight of each cell."""
        return _at(self._query, cells)

    def losses(self, cells: Cells) -> Floats:
        """The loss of a record more in each cell, in 1e-9 epsilon."""
        total = np.full(len(cells), float(self._charged.every_nano))
        for alphas, moved in self._rows(cells):
            total += np.abs(alphas * moved).sum(axis=0)
        return total

    def shifts(self, cells: Cells) -> Floats:
        """All rows on these cells, each times its alpha; equal rows are merged.

        Returns:
            Shape (rows, cells): the loss of a vector u on the cells is the sum of abs(this @ u).
        """
        found: dict[bytes, Floats] = {}
        for alphas, moved in self._rows(cells):
            for alpha, row in zip(alphas[:, 0], moved, strict=True):
                at = np.flatnonzero(row)
                if alpha and len(at):
                    # Rows that are multiples of one another add up, whatever u is.
                    shape = row / row[at[0]]
                    key = shape.tobytes()
                    found[key] = found.get(key, 0.0) + alpha * abs(row[at[0]]) * shape
        every = float(self._charged.every_nano)
        alone = [np.eye(len(cells)) * every] if every else []
        return np.concatenate([np.array(list(found.values())).reshape(-1, len(cells)), *alone])

    def _rows(self, cells: Cells) -> Iterator[tuple[Floats, Floats]]:
        """Each row, and each table's cells that are met: alphas (rows, 1), values (rows, cells)."""
        for row, alpha in self._charged.rows.items():
            yield np.array([[float(alpha)]]), _at(row, cells)[None, :]
        for table in self._charged.tables.values():
            met = np.fromiter(places(table.partition, cells), dtype=np.int64)
            kinds = np.unique(met[met >= 0])
            alphas = [[float(table.alpha_of(kind))] for kind in kinds.tolist()]
            yield np.array(alphas).reshape(-1, 1), (met[None, :] == kinds[:, None]).astype(float)


def _at(row: LinearQuery, cells: Cells) -> Floats:
    total = np.zeros(len(cells))
    for term in row.terms:
        product: Any = np.full(len(cells), float(term.coefficient))
        for factor in term.factors:
            product = product * factor.weights.dense[cells[:, factor.axis]]
        total += product
    return total


@dataclass(frozen=True)
class Direction:
    """A whole vector over cells: these weights on these cells, 0 on all others."""

    cells: tuple[tuple[int, ...], ...]
    weights: tuple[int, ...]

    @property
    def is_balanced(self) -> bool:
        """Whether it keeps the number of records."""
        return not sum(self.weights)

    def moves(self, query: LinearQuery) -> Fraction:
        """The change of the query by a step along it."""
        pairs = zip(self.cells, self.weights, strict=True)
        return sum((w * query.value_at(c) for c, w in pairs), Fraction(0))


class Search:
    """The search for one claimed query; its cells are found once.

    Args:
        found: the cells as far as they are told apart.
        query: the claimed query.
    """

    def __init__(self, found: ToldApart, query: LinearQuery) -> None:
        self._found, self._query = found, query
        n_axes = sum(len(values) > 1 for values in found.values)
        self._most_around = max(1, MOST_CELLS // max(1, n_axes))

    @cached_property
    def _cells(self) -> Cells:
        """All kinds of cells, or cells that lose little and their neighbours."""
        found = self._found
        if found.n_cells <= max(MOST_CELLS, min(MOST_ENTRIES // found.n_rows, MOST_ALL)):
            return found.all_cells()
        starts = list(_starts(found, self._query))
        n_steps = max(1, MOST_LOOKS // (found.n_rows * max(1, len(starts))))
        ends = [_descended(found, start, n_steps) for start in starts]
        return self._with_neighbours(np.array(ends).reshape(-1, len(self._query.sizes)))

    def _with_neighbours(self, cells: Cells) -> Cells:
        """These cells, then the cells around them, as many as fit."""
        near = [self._found.around(cell, self._most_around) for cell in cells]
        every = np.concatenate([cells, *near])
        _, first = np.unique(every, axis=0, return_index=True)
        return every[np.sort(first)[:MOST_CELLS]]

    def single_cells(self) -> list[Direction]:
        """Directions of one cell each: those that lose least among the cells looked at."""
        asked = np.abs(self._found.asked(self._cells))
        used = np.flatnonzero(asked)
        if not len(used):
            return []
        losses = self._found.losses(self._cells)[used] / asked[used]
        order = used[np.argsort(losses, kind="stable")]
        return [Direction((_cell(self._cells[i]),), (1,)) for i in order[:2]]

    def combined_cells(self, *, balanced: bool) -> Iterator[Direction]:
        """Directions of several cells: pairs, and those of linear programs, each on the last one's.

        Args:
            balanced: whether the number of records must stay.
        """
        cells = self._cells
        if balanced:
            yield from _pairs(cells, self._found.asked(cells))
        for _ in range(MOST_PROGRAMS):
            shifts, asked = self._found.shifts(cells), self._found.asked(cells)
            if shifts.size > MOST_ENTRIES or not np.any(asked):
                return
            vector = _program(shifts, asked, balanced=balanced)
            direction = None if vector is None else _whole(cells, vector)
            if direction is None:
                return
            yield direction
            if len(cells) == self._found.n_cells:
                return
            cells = self._with_neighbours(np.array(direction.cells))


def _starts(found: ToldApart, query: LinearQuery) -> Iterator[Cells]:
    """Cells that the query weighs: of its largest terms, the value of the largest weight each."""
    terms = sorted(query.terms, key=lambda t: -abs(t.coefficient))
    for term in terms[:MOST_STARTS]:
        cell = np.array([values[0] for values in found.values])
        for factor in term.factors:
            values = found.values[factor.axis]
            cell[factor.axis] = values[np.argmax(np.abs(factor.weights.dense[values]))]
        if found.asked(cell[None, :])[0]:
            yield cell


def _descended(found: ToldApart, cell: Cells, n_steps: int) -> Cells:
    """A cell that loses less per unit of the query, by changes of one attribute at a time."""
    for _ in range(min(n_steps, 2 * len(cell))):
        near = found.around(cell, MOST_CELLS)
        asked = np.abs(found.asked(near))
        with np.errstate(divide="ignore", invalid="ignore"):
            losses = np.where(asked > 0, found.losses(near) / asked, np.inf)
        best = int(np.argmin(losses))
        if not losses[best] < losses[0]:
            return cell
        cell = near[best]
    return cell


def _pairs(cells: Cells, asked: Floats) -> Iterator[Direction]:
    """From the first cell to each of another weight in the query, and from the least weighed."""
    for one in dict.fromkeys((0, int(np.argmin(asked)))):
        for other in np.flatnonzero(asked != asked[one])[:MOST_PAIRS].tolist():
            yield Direction((_cell(cells[other]), _cell(cells[one])), (1, -1))


def _program(shifts: Floats, asked: Floats, *, balanced: bool) -> Floats | None:
    """The vector of least loss that moves the query by 1; None if none was found."""
    from scipy.optimize import linprog  # loads long, and not at a start

    n_rows, n_cells = shifts.shape
    scale = float(np.abs(shifts).max(initial=0.0)) or 1.0
    kept = np.concatenate(
        [shifts.T / scale, np.ones((n_cells, 1)), -asked[:, None]], axis=1
    )  # fmt: skip
    free = (None, None) if balanced else (0.0, 0.0)
    found = linprog(
        np.array([0.0] * (n_rows + 1) + [-1.0]),
        A_eq=kept,
        b_eq=np.zeros(n_cells),
        bounds=[(-1.0, 1.0)] * n_rows + [free, (None, None)],
        method="highs-ds",
        options={"maxiter": MOST_STEPS},
    )
    return np.asarray(found.eqlin.marginals) if found.status == 0 else None


def _whole(cells: Cells, vector: Floats) -> Direction | None:
    """The vector as whole weights without a common divisor; None if not nearly whole."""
    size = float(np.abs(vector).max(initial=0.0))
    if not size or not np.isfinite(size):
        return None
    at = np.flatnonzero(np.abs(vector) > TINY * size)
    near = [Fraction(float(vector[i] / size)).limit_denominator(MOST_DENOMINATOR) for i in at]
    scale = lcm(*(f.denominator for f in near))
    if scale > MOST_SCALE:
        return None
    weights = [int(f * scale) for f in near]
    common = gcd(*weights) or 1
    return Direction(
        tuple(_cell(cells[i]) for i in at), tuple(weight // common for weight in weights)
    )


def _cell(values: Cells) -> tuple[int, ...]:
    return tuple(values.tolist())


@dataclass(frozen=True)
class ClaimedQuery:
    """A claim on a domain.

    Args:
        row: the claimed query.
        balanced: whether the number of records is known, so that only directions count that keep
            it: under replace-one where no record lies outside the domain.
        idle: attributes whose last value stands for missing values and those outside. How many
            records have it is taken as known to everybody: often nobody has it, and a bound that
            rests on its being unknown would be of little worth.
    """

    claim: Claim
    row: LinearQuery
    balanced: bool
    idle: frozenset[int] = frozenset()
    law: NoiseLaw = LAPLACE

    def known(self, charged: Charged, *, enough: float = 0.0) -> float:
        """Most probability of the query lying in any interval of the claim's width.

        Args:
            enough: a bound at which the search may end.

        Returns:
            A bound that holds, rounded up; 1 if there is no direction.
        """
        best = 1.0
        if self.law.is_additive and charged.every_nano:
            return best  # Losses elsewhere bound no odds under Gaussian noise.
        for direction in self._directions(charged):
            if best <= enough:
                break
            spacing = abs(direction.moves(self.row))
            if not spacing or (self.balanced and not direction.is_balanced):
                continue
            loss = charged.loss_nano(direction.cells, direction.weights, self.law)
            width = self.claim.exact_width
            best = min(best, known_within(loss, spacing=spacing, width=width, law=self.law))
        return best

    def _directions(self, charged: Charged) -> Iterator[Direction]:
        search = Search(ToldApart(charged, self.row, self.idle), self.row)
        if not self.balanced:
            yield from search.single_cells()
        yield from search.combined_cells(balanced=self.balanced)


def claimed_queries(
    claims: Sequence[Claim], domain: Domain, *, balanced: bool, law: NoiseLaw = LAPLACE
) -> tuple[ClaimedQuery, ...]:
    """The claims on a domain.

    Raises:
        QueryError, CapacityError: one is no question on this domain.
    """
    found = []
    for claim in claims:
        row = claim.row(domain)
        found.append(ClaimedQuery(claim, row, balanced, _idle(row, domain), law))
    return tuple(found)


def _idle(row: LinearQuery, domain: Domain) -> frozenset[int]:
    """Attributes with a value for the missing that the query does not ask for by itself."""
    asked = {f.axis for t in row.terms for f in t.factors if f.weights.values[-1]}
    others = {axis for axis, one in enumerate(domain.attributes) if one.has_other}
    return frozenset(others - asked)


@dataclass(frozen=True)
class Lifted:
    """A claim that a plan would let be known too well: its bounds before and after."""

    claim: Claim
    before: float
    after: float


class ClaimBounds:
    """The bounds of a dataset's claims; it follows the charges of its snapshot.

    Everything here is a function of charges, which are made before anything is drawn.

    Args:
        claims: the claims on the dataset's domain.
        charged: the charges so far.
    """

    def __init__(self, claims: Sequence[ClaimedQuery], charged: Charged | None = None) -> None:
        self._claims = tuple(claims)
        self._charged = charged or Charged()
        self._known: dict[tuple[str, int], float] = {}

    def append(self, charge: AnyCharge) -> None:
        """Append a charge of the snapshot."""
        if self._claims:
            self._known.clear()
            self._charged.add(charge)

    def known(self, *, every_nano: int) -> list[tuple[Claim, float]]:
        """Per claim the most probability of its query lying in any interval of its width.

        Args:
            every_nano: what a record may have lost in other snapshots, in 1e-9 epsilon.
        """
        return [(one.claim, self._known_now(one, every_nano)) for one in self._claims]

    def lifted(self, charges: Sequence[AnyCharge], *, every_nano: int) -> Lifted | None:
        """The first claim that these charges carry past its cap; None without one.

        A bound that is past the cap already may stay where it is, but not rise.

        Args:
            every_nano: what a record may have lost in other snapshots, in 1e-9 epsilon.
        """
        if not self._claims:
            return None
        charged = self._charged.with_more(charges, every_nano=every_nano)
        for one in self._claims:
            after = one.known(charged, enough=one.claim.p)
            now = self._known_now(one, every_nano)
            # Under Gaussian noise a bound of 1 may be none at all, so it forbids every question.
            if after > one.claim.p and (after > now or (one.law.is_additive and after == 1.0)):
                return Lifted(one.claim, now, after)
        return None

    def _known_now(self, one: ClaimedQuery, every_nano: int) -> float:
        key = one.claim.name, every_nano
        if key not in self._known:
            self._known[key] = one.known(self._charged.with_more((), every_nano=every_nano))
        return self._known[key]

    def state(self) -> State:
        """The input of `from_state`; public, as charges are."""
        return self._charged.state()

    @classmethod
    def from_state(
        cls, state: State, claims: Sequence[ClaimedQuery], *, sizes: Sequence[int]
    ) -> ClaimBounds:
        """The bounds from a state."""
        return cls(claims, Charged.from_state(state, sizes))
