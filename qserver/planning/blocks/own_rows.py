"""What own rows alone would cost: each paid question measured by itself, with nothing shared.

The rule of blocks compares with it; nobody is charged. The figure is the loss of a person that a
search finds, so it is never more than what own rows would be charged. Then no purchase that the
rule allows passes what it promises.

The rows are kept as tables of losses, by attributes and by class of precision. So the rows of any
class and looser ones, or those within some attributes, are there without being read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from qserver.inference.rows.shortest_interval import safe_half_width
from qserver.ledger.cell_ledger import dues_of, greatest_nano, pairs_of
from qserver.ledger.composition import Dues, Flat
from qserver.ledger.constants import LIMITS
from qserver.ledger.local_search import LaidTables, SearchedSum
from qserver.ledger.loss import UNITS_PER_NANO, cell_shapes
from qserver.ledger.loss_tables import (
    LossTable,
    Partition,
    SumTable,
    TableLayout,
    state_of_tables,
    tables_of_state,
    together,
    zero_table,
)
from qserver.ledger.one_person import Neighbours, Pays
from qserver.planning.blocks.wants import normal_z, octave_of
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.fresh_row import alpha_nano_up
from qserver.query.linear_query import LinearQuery
from qserver.query.primitive import Primitive
from qserver.records.charge import Charge
from qserver.records.paid_question import PaidQuestion
from qserver.records.privacy.noise_law import NoiseLaw
from qserver.records.state import State

_JOB = "alone"
_ALWAYS = -(1 << 30)
"""Below every class."""


class Precise:
    """A half-width, in records of a row, that must hold at a confidence."""

    half_width: float
    confidence: float

    @property
    def sharpness(self) -> float:
        """One over the standard deviation of a normal error with this half-width."""
        return normal_z(self.confidence) / self.half_width

    def half_width_at(self, confidence: float) -> float:
        """The half-width of the same precision at another confidence."""
        if confidence == self.confidence:
            return self.half_width
        return normal_z(confidence) / self.sharpness

    @property
    def octave(self) -> int:
        """Its class of precision."""
        return octave_of(half_width=self.half_width, confidence=self.confidence)


@dataclass(frozen=True)
class Precision(Precise):
    """A precision without a row: no row needs its costly normal form."""

    half_width: float
    confidence: float

    @classmethod
    def of(cls, paid: PaidQuestion) -> Precision:
        """That of a paid question."""
        return cls(paid.half_width, paid.confidence)


@dataclass(frozen=True)
class Own(Precise):
    """A question's own row, priced alone."""

    query: Primitive
    half_width: float
    confidence: float

    @classmethod
    def of(cls, paid: PaidQuestion) -> Own:
        """The own row of a paid question."""
        return cls(paid.form, paid.half_width, paid.confidence)

    def price_nano(self, neighbours: Neighbours) -> int:
        """What a fresh row costs at most."""
        return neighbours.price_nano(Charge(self.query.row, self.alpha_nano(neighbours.law), _JOB))

    def alpha_nano(self, law: NoiseLaw) -> int:
        """The charge of a fresh row."""
        sharpness = safe_half_width(np.ones(1), self.confidence, law) / self.half_width
        return alpha_nano_up(law.charge_of_sharpness(sharpness))


@dataclass
class _Tables:
    """Losses of rows, in as few tables as may be. The tables do not depend on when they are read.

    Args:
        tables: not larger than a table may grow, unless one loss is.
    """

    tables: list[SumTable] = field(default_factory=list)
    new: list[LossTable] = field(default_factory=list)

    def caught_up(self) -> list[SumTable]:
        """The tables with all losses."""
        group, layout = list[LossTable](), TableLayout((), ())
        if self.tables:
            layout = self.tables[-1].layout
        for loss in self.new:
            joined = layout.joined_with(loss.layout)
            if joined.n_entries > LIMITS.most_table:
                self._add(group)
                self.tables.append(zero_table(loss.layout))
                group, joined = [], loss.layout
            group.append(loss)
            layout = joined
        self._add(group)
        self.new = []
        return self.tables

    def _add(self, group: Sequence[LossTable]) -> None:
        for loss in together(group):
            if not self.tables:
                self.tables.append(zero_table(loss.layout))
            self.tables[-1].add(loss)


class _Part(NamedTuple):
    """The rows about exactly these attributes, of one class."""

    scope: frozenset[int]
    octave: int


@dataclass
class _Losses:
    """The losses of cells by some rows, and of pairs of cells where records are replaced.

    Args:
        price_nano: what the rows cost one by one.
    """

    cells: _Tables = field(default_factory=_Tables)
    pairs: _Tables = field(default_factory=_Tables)
    price_nano: int = 0

    def add(self, row: LinearQuery, alpha_nano: int, neighbours: Neighbours) -> None:
        """Add a row, or a part of its charge; a negative part is taken back."""
        charge, sign = Charge(row, abs(alpha_nano), _JOB), 1 if alpha_nano > 0 else -1
        (payment,) = _due(charge, neighbours).rows
        units = sign * payment.units
        self.price_nano += sign * neighbours.price_nano(charge)
        self.cells.new += [shape.loss(units) for shape in cell_shapes(row, neighbours.law)]
        if neighbours.relation == "replace-one":
            self.pairs.new += [shape.loss(units) for shape in pairs_of(neighbours)(row)]


@dataclass(frozen=True, eq=False)
class _Laid:
    """The tables of all parts, laid out once: which rows count is chosen later.

    Args:
        parts: where their tables of cells and of pairs lie.
    """

    cells: LaidTables
    pairs: LaidTables
    parts: Mapping[_Part, tuple[range, range]]

    @classmethod
    def of(cls, parts: Mapping[_Part, _Losses], nothing: SumTable) -> _Laid:
        """Lay them out after a table of nothing."""
        cells, pairs, places = [nothing], [nothing], dict[_Part, tuple[range, range]]()
        for part, losses in parts.items():
            starts = len(cells), len(pairs)
            cells += losses.cells.caught_up()
            pairs += losses.pairs.caught_up()
            places[part] = range(starts[0], len(cells)), range(starts[1], len(pairs))
        octaves = ([part.octave for part, of in places.items() for _ in of[k]] for k in (0, 1))
        laid = [
            LaidTables.of(tables, [_ALWAYS, *some])
            for tables, some in zip((cells, pairs), octaves, strict=True)
        ]
        return cls(laid[0], laid[1], places)


@dataclass(frozen=True)
class _Sums:
    """The losses of the rows within some attributes, up to each class."""

    cells: SearchedSum
    pairs: SearchedSum
    prices_nano: Mapping[int, int]
    neighbours: Neighbours
    _without: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, parts: Mapping[_Part, _Losses], laid: _Laid, neighbours: Neighbours) -> _Sums:
        """The sums of some parts."""
        by = neighbours.by_period
        along = None if by is None else by.axis
        chosen = [laid.parts[part] for part in parts]
        cells = laid.cells.only([0, *chain.from_iterable(one for one, _ in chosen)])
        pairs = laid.pairs.only([0, *chain.from_iterable(two for _, two in chosen)])
        octaves = sorted({part.octave for part in parts})
        prices = {
            octave: sum(x.price_nano for part, x in parts.items() if part.octave <= octave)
            for octave in octaves
        }
        ranks = tuple(octaves) or (0,)
        return cls(
            SearchedSum((cells,), ranks, along),
            SearchedSum((pairs,), ranks, along if by is not None and by.same_period else None),
            prices,
            neighbours,
        )

    @property
    def n_looks(self) -> int:
        """Entries that a round of steps from one cell looks at."""
        return sum(block.n_looks for x in (self.cells, self.pairs) for block in x.blocks)

    def most_nano(self, more: _Losses, octave: int | None) -> int:
        """The greatest loss of a person by rows up to a class, with these losses added."""
        known = [o for o in self.prices_nano if octave is None or o <= octave]
        if not known:
            found = self._found_nano(_nothing(self.cells), _nothing(self.pairs), more, 0)
            return min(found, more.price_nano)
        rank = known[-1]
        if rank not in self._without:
            found = self._found_nano(self.cells, self.pairs, _Losses(), rank)
            self._without[rank] = min(found, self.prices_nano[rank])
        without = self._without[rank]
        if not more.price_nano:
            return without
        # One more row never costs more than its price.
        return min(self._found_nano(self.cells, self.pairs, more, rank), without + more.price_nano)

    def _found_nano(self, cells: SearchedSum, pairs: SearchedSum, more: _Losses, rank: int) -> int:
        of, by = self.neighbours, self.neighbours.by_period
        cells = cells.with_tables(more.cells.caught_up(), rank=rank)
        pairs = pairs.with_tables(more.pairs.caught_up(), rank=rank)
        if by is None:
            both = 0 if of.relation == "add-remove" else pairs.top(rank)
            return greatest_nano(of, cells.top(rank), both, Flat())
        each = pairs.tops(rank) if by.same_period else pairs.top(rank)
        return -(-Pays(cells.tops(rank), each, 0, 0).greatest(by, of) // UNITS_PER_NANO)


def _nothing(of: SearchedSum) -> SearchedSum:
    """The sum of the first table alone."""
    return SearchedSum.of(of.blocks[0].tables[:1], along=of.along)


def _nothing_of(neighbours: Neighbours) -> SumTable:
    """A table of nothing, with a class for each period where periods matter."""
    by = neighbours.by_period
    if by is None:
        return zero_table()
    n = by.n_periods
    return zero_table(TableLayout((by.axis,), (Partition(np.arange(1, n + 1), np.arange(n), n),)))


@dataclass
class OwnRows:
    """The own rows of paid questions, each with the largest charge that a question of it needs."""

    _parts: dict[_Part, _Losses] = field(default_factory=dict)
    _alphas: dict[str, dict[int, int]] = field(default_factory=dict)
    _most_units: int = 0
    _laid: _Laid | None = None
    _sums: dict[frozenset[int] | None, _Sums] = field(default_factory=dict)

    def add(self, own: Own, neighbours: Neighbours) -> None:
        """Add a question's own row."""
        row, alphas = own.query.row, self._alphas.setdefault(own.query.key, {})
        before, alpha = _rises(alphas), own.alpha_nano(neighbours.law)
        alphas[own.octave] = max(alpha, alphas.get(own.octave, 0))
        # A looser question asked later takes its part of the charge from a tighter one.
        for octave, rise in _rises(alphas).items():
            more = rise - before.get(octave, 0)
            if not more:
                continue
            self._most_units += _due(Charge(row, abs(more), _JOB), neighbours).most_units
            if self._most_units < LIMITS.most_units:
                part = self._parts.setdefault(_Part(frozenset(row.scope), octave), _Losses())
                part.add(row, more, neighbours)
        self._laid, self._sums = None, {}

    def price_nano(
        self,
        neighbours: Neighbours,
        own: Own | None = None,
        *,
        octave: int | None = None,
        scope: frozenset[int] | None = None,
        effort: Effort | None = None,
    ) -> int:
        """The price of all rows and one more, in nano-epsilon.

        Args:
            own: one more row.
            octave: a class; the rows are those of it and of looser ones.
            scope: attributes; the rows are those within them.
            effort: counts the work of the search with one more row, by the sizes of its arrays.
        """
        more, past = _Losses(), self._most_units
        if own is not None:
            alphas = self._alphas.get(own.query.key, {})
            known = max((a for o, a in alphas.items() if octave is None or o <= octave), default=0)
            rise = own.alpha_nano(neighbours.law) - known
            if rise > 0:
                past += _due(Charge(own.query.row, rise, _JOB), neighbours).most_units
                if past < LIMITS.most_units:
                    more.add(own.query.row, rise, neighbours)
        if past >= LIMITS.most_units:
            return past // UNITS_PER_NANO
        sums = self._sum(scope, neighbours)
        if effort is not None and more.price_nano:
            effort.add(PLANNER.search_work + PLANNER.look_work * sums.n_looks)
        return sums.most_nano(more, octave)

    def _sum(self, scope: frozenset[int] | None, neighbours: Neighbours) -> _Sums:
        if scope not in self._sums:
            if len(self._sums) >= PLANNER.kept:
                del self._sums[next(iter(self._sums))]
            if self._laid is None:
                self._laid = _Laid.of(self._parts, _nothing_of(neighbours))
            parts = {
                part: losses
                for part, losses in self._parts.items()
                if scope is None or part.scope <= scope
            }
            self._sums[scope] = _Sums.of(parts, self._laid, neighbours)
        return self._sums[scope]

    def state(self) -> State:
        """State that `from_state` reads."""
        cells = [losses.cells.caught_up() for losses in self._parts.values()]
        pairs = [losses.pairs.caught_up() for losses in self._parts.values()]
        alphas = [(key, o, a) for key, found in self._alphas.items() for o, a in found.items()]
        keys, octaves, nanos = zip(*alphas, strict=True) if alphas else ((), (), ())
        sizes = zip(self._parts, cells, pairs, strict=True)
        head = {
            "parts": [[sorted(part.scope), part.octave, len(c), len(p)] for part, c, p in sizes],
            "prices_nano": [losses.price_nano for losses in self._parts.values()],
            "most_units": self._most_units,
        }
        arrays = {
            "keys": np.array([key.encode() for key in keys], dtype="S32"),
            "octaves": np.array(octaves, dtype=np.int64),
            "alphas": np.array(nanos, dtype=np.int64),
        }
        found = State.of_parts(
            {
                "cells": state_of_tables(list(chain.from_iterable(cells))),
                "pairs": state_of_tables(list(chain.from_iterable(pairs))),
            },
            head,
        )
        return State(found.head, {**found.arrays, **arrays})

    @classmethod
    def from_state(cls, state: State) -> OwnRows:
        """The rows from a state."""
        kinds = [iter(tables_of_state(state.part(name))) for name in ("cells", "pairs")]
        found = cls()
        facts = zip(state.head["parts"], state.head["prices_nano"], strict=True)
        for (scope, octave, *sizes), price_nano in facts:
            cells, pairs = (_Tables(list(islice(*of))) for of in zip(kinds, sizes, strict=True))
            found._parts[_Part(frozenset(scope), octave)] = _Losses(cells, pairs, price_nano)
        columns = (state.arrays[name].tolist() for name in ("keys", "octaves", "alphas"))
        for key, octave, alpha in zip(*columns, strict=True):
            found._alphas.setdefault(key.decode(), {})[octave] = alpha
        found._most_units = state.head["most_units"]
        return found


def _rises(alphas: dict[int, int]) -> dict[int, int]:
    """How much each class adds to the charge of looser ones."""
    found, top = dict[int, int](), 0
    for octave in sorted(alphas):
        found[octave] = max(0, alphas[octave] - top)
        top = max(top, alphas[octave])
    return found


def _due(charge: Charge, neighbours: Neighbours) -> Dues:
    return dues_of([charge], sizes=charge.row.sizes, neighbours=neighbours)
