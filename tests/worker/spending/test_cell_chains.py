"""Random spends on rows and tables that share cells: every answer is continued once at most."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest

from qserver.query.class_grid import ProductPartition, product_partition
from qserver.query.linear_query import LinearQuery
from qserver.query.primitive import primitive
from qserver.records.history import AnyMeasurement, Measurement, TableMeasurement, place_measurement
from qserver.records.plan import CellSource, Planned, PlannedRow, PlannedTable, TableCell
from tests.worker.noise.one_by_one import each_new, each_refined
from worker.spending import measure as measuring
from worker.spending.answers_in_force import Live, Origin

N_STREAMS = 60
N_SPENDS = 14
SIZES = (3, 2)
STEPS = (Fraction(1, 8), Fraction(1, 16))
CELLS = [(a, b) for a in range(3) for b in range(2)]
PARTITIONS = [
    product_partition(SIZES, {0: [0, 1, 2]}),
    product_partition(SIZES, {0: [0, 0, 1]}),
    product_partition(SIZES, {0: [0, 1, 2], 1: [0, 1]}),
    product_partition(SIZES, {}),
]
ROWS = [p.row(c) for p in PARTITIONS for c in range(p.n_cells)]
Vector = tuple[Fraction, ...]


def vector(row: LinearQuery) -> Vector:
    return tuple(row.value_at(cell) for cell in CELLS)


@dataclass
class Releases:
    """Stands for the sampler: each release is a number of its own, with its alpha and parent."""

    alphas: list[int] = field(default_factory=list)
    used: set[int] = field(default_factory=set)
    rises: list[int] = field(default_factory=list)

    def release(self, _truth: Any, *, step: Fraction, alpha_nano: int, entropy: Any) -> int:
        self.rises.append(alpha_nano)
        self.alphas.append(alpha_nano)
        return len(self.alphas) - 1

    def release_refined(
        self,
        _truth: Any,
        *,
        released_index: int,
        step: Fraction,
        old_alpha_nano: int,
        new_alpha_nano: int,
        entropy: Any,
    ) -> int:
        assert self.alphas[released_index] == old_alpha_nano, "drawn as if from other noise"
        assert released_index not in self.used, "one answer is continued twice"
        self.used.add(released_index)
        self.rises.append(new_alpha_nano - old_alpha_nano)
        self.alphas.append(new_alpha_nano)
        return len(self.alphas) - 1


@dataclass
class Town:
    """A history, and what each row cost and was charged; plans as a planner might make them."""

    chance: random.Random
    releases: Releases
    live: list[AnyMeasurement] = field(default_factory=list)
    charged: dict[Vector, int] = field(default_factory=dict)
    cost: dict[Vector, int] = field(default_factory=dict)

    def tables(self, step: Fraction) -> list[TableMeasurement]:
        return [m for m in self.live if isinstance(m, TableMeasurement) and m.step == step]

    def own(self, row: Vector, step: Fraction) -> Measurement | None:
        rows = [m for m in self.live if isinstance(m, Measurement) and m.step == step]
        return next((m for m in rows if vector(m.row) == row), None)

    def home(self, row: Vector, step: Fraction) -> tuple[TableMeasurement, int] | None:
        return next(
            (
                (t, c)
                for t in self.tables(step)
                for c in range(t.partition.n_cells)
                if vector(t.partition.row(c)) == row
            ),
            None,
        )

    def a_row(self) -> PlannedRow:
        row, step = self.chance.choice(ROWS), self.chance.choice(STEPS)
        own, home = self.own(vector(row), step), self.home(vector(row), step)
        rise = self.chance.randint(1, 9)
        old, cell = (own.alpha_nano if own else 0), None
        if home is not None and home[0].alpha_nano > old:
            old, cell = home[0].alpha_nano, TableCell(home[0].id, home[1])
        refines = own.id if own else None
        return PlannedRow(row, primitive(row).key, old + rise, step, refines, old, cell)

    def a_table(self) -> PlannedTable:
        partition, step = self.chance.choice(PARTITIONS), self.chance.choice(STEPS)
        same = [m for m in self.live if isinstance(m, TableMeasurement) and m.key == partition.key]
        if same:
            step = same[0].step
        old = same[0].alpha_nano if same else 0
        refines = same[0].id if same else None
        sources = tuple(self.sources(partition, step, old, refines))
        return PlannedTable(partition, old + self.chance.randint(1, 9), step, refines, old, sources)

    def sources(
        self, partition: ProductPartition, step: Fraction, old: int, refines: int | None
    ) -> Iterator[CellSource]:
        for cell in range(partition.n_cells):
            row = vector(partition.row(cell))
            own, home = self.own(row, step), self.home(row, step)
            mine = home is None or home[0].id == refines
            # A planner may leave sources out; that costs budget only.
            if mine and own and own.alpha_nano > old and self.chance.random() < 0.7:
                yield CellSource(cell, own.id, own.alpha_nano)

    def spend(self, *plan: Planned) -> None:
        """Check a plan and draw it, as the worker does."""
        live = Live(self.live)
        live.check(plan)
        for planned in plan:
            if isinstance(planned, PlannedRow):
                indices = self._draw_row(planned, live)
            else:
                indices = self._draw_cells(planned, live)
            live.take_in(planned, indices)
            number = len(self.live) if planned.refines is None else planned.refines
            place_measurement(self.live, measured(number, planned, indices))

    def _draw_row(self, row: PlannedRow, live: Live) -> tuple[int, ...]:
        before = len(self.releases.rises)
        drawn = _draw_one(row, live.origin_of_row(row))
        self._charge(row.row, row.charge_nano, self.releases.rises[before:])
        return drawn

    def _draw_cells(self, table: PlannedTable, live: Live) -> tuple[int, ...]:
        origins, paid, indices = live.origins_of_cells(table), dict(table.paid), list[int]()
        for cell in range(table.partition.n_cells):
            before = len(self.releases.rises)
            indices += _draw_one(table, origins.get(cell))
            charge = table.charge_nano - paid.get(cell, 0)
            self._charge(table.partition.row(cell), charge, self.releases.rises[before:])
        return tuple(indices)

    def _charge(self, row: LinearQuery, charge: int, rises: Sequence[int]) -> None:
        key = vector(row)
        self.charged[key] = self.charged.get(key, 0) + charge
        self.cost[key] = self.cost.get(key, 0) + sum(rises)


def _draw_one(planned: Planned, origin: Origin | None) -> tuple[int, ...]:
    entropy: Any = None
    origins = {} if origin is None else {0: origin}
    return measuring.draw_answers([0], planned, origins, entropy=entropy)


def measured(number: int, planned: Planned, indices: tuple[int, ...]) -> AnyMeasurement:
    if isinstance(planned, PlannedRow):
        key, alpha, step = planned.key, planned.alpha_nano, planned.step
        return Measurement(number, planned.row, key, alpha, step, *indices)
    return TableMeasurement(number, planned.partition, planned.alpha_nano, planned.step, indices)


def stream(seed: int, monkeypatch: pytest.MonkeyPatch) -> Town:
    releases = Releases()
    monkeypatch.setattr(measuring, "release", each_new(releases.release))
    monkeypatch.setattr(measuring, "release_refined", each_refined(releases.release_refined))
    town = Town(random.Random(seed), releases)
    for _ in range(N_SPENDS):
        town.spend(town.a_row() if town.chance.random() < 0.5 else town.a_table())
    return town


def many_streams(monkeypatch: pytest.MonkeyPatch) -> list[Town]:
    return [stream(seed, monkeypatch) for seed in range(N_STREAMS)]


@pytest.mark.slow
def test_no_answer_is_continued_twice_and_no_row_costs_more_than_it_is_charged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Chains cost what their draws rise by; the sampler's stand-in watches parents and alphas."""
    towns = many_streams(monkeypatch)
    for town in towns:
        assert all(town.cost[row] <= town.charged[row] for row in town.charged)
    equal = sum(town.cost[row] == town.charged[row] for town in towns for row in town.charged)
    assert equal > 0
    assert sum(len(town.releases.used) for town in towns) > N_STREAMS


def own_row_only(self: Live, row: PlannedRow) -> Origin | None:
    own = None if row.refines is None else self._found[row.refines]
    return Origin(own.index, own.alpha_nano) if isinstance(own, Measurement) else None


def own_cells_only(self: Live, table: PlannedTable) -> dict[int, Origin]:
    old = None if table.refines is None else self._found[table.refines]
    if not isinstance(old, TableMeasurement):
        return {}
    return {c: Origin(i, old.alpha_nano) for c, i in enumerate(old.indices)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "wrong"), [("origin_of_row", own_row_only), ("origins_of_cells", own_cells_only)]
)
def test_rows_and_cells_that_go_their_own_ways_would_be_caught(
    monkeypatch: pytest.MonkeyPatch, method: str, wrong: Callable[..., Any]
) -> None:
    """Control: noise continued from the own old answer, while the pair's newest is charged."""
    monkeypatch.setattr(Live, method, wrong)
    caught = 0
    for seed in range(N_STREAMS):
        try:
            town = stream(seed, monkeypatch)
        except AssertionError:
            caught += 1
        else:
            caught += any(town.cost[row] > town.charged[row] for row in town.charged)
    assert caught > N_STREAMS // 4


def test_a_second_draw_from_a_source_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: were rows paired with every table that has them, one row would serve two tables."""
    monkeypatch.setattr(Live, "_home", lambda *_: None)
    monkeypatch.setattr(Live, "_check_pairs", lambda *_: None)
    monkeypatch.setattr(Live, "_check_row", lambda *_: None)
    monkeypatch.setattr(Town, "home", lambda *_: None)
    with pytest.raises(AssertionError, match="continued twice"):
        many_streams(monkeypatch)
