"""Losses under Gaussian noise: the ledger against every neighbour of small datasets, in fractions.

Also epsilon at delta, against the least of all valid figures in 50 digits.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import ceil, lcm

import mpmath
import numpy as np
import pytest

from qserver.errors import InputError
from qserver.ledger.cell_ledger import CellLedger
from qserver.ledger.one_person import ByPeriod, Neighbours
from qserver.query.linear_query import linear_query
from qserver.records.charge import (
    NANO,
    AnyCharge,
    Charge,
    OpaqueCharge,
    Relation,
    TableCharge,
)
from qserver.records.privacy.conversion import Shown, epsilon_nano, rho_nano
from qserver.records.privacy.noise_law import GAUSSIAN, NoiseLaw
from tests.ledger.losses_by_definition import WAYS, limits, random_row
from tests.ledger.table_losses_by_definition import Stream, cell_in, random_partition
from tests.query.dense_weights import scaled_weights
from tests.query.small_queries import Cell, cells

pytestmark = pytest.mark.promise(
    "Privacy",
    "under Gaussian noise, too, no person of any neighbour loses more than the ledger says",
)

SIZES = [(2,), (3,), (4,), (6,), (2, 2), (2, 3), (3, 2)]
Move = tuple[Cell | None, Cell | None]
"""Where a record was and where it is then; None for nowhere."""


def random_neighbours(rng: random.Random, sizes: tuple[int, ...]) -> Neighbours:
    """Either relation, one to three records, half of them with a bound by period."""
    k = rng.randint(1, 3)
    replaces, null_cell = rng.random() < 0.5, rng.random() < 0.5
    by = None
    if rng.random() < 0.5:
        by = ByPeriod(0, sizes[0], rng.randint(1, k), replaces and rng.random() < 0.5)
    relation: Relation = "replace-one" if replaces else "add-remove"
    return Neighbours(relation, k, null_cell, by, GAUSSIAN)


def moves_of(neighbours: Neighbours, every: list[Cell]) -> list[Move]:
    """Every way in which one record may differ."""
    if neighbours.relation == "add-remove":
        return [(None, c) for c in every]
    places: list[Cell | None] = [*every, None] if neighbours.null_cell else [*every]
    found = [(a, b) for a, b in product(places, places) if a != b]
    by = neighbours.by_period
    if by is None or not by.same_period:
        return found
    return [(a, b) for a, b in found if a is None or b is None or a[by.axis] == b[by.axis]]


def is_allowed(neighbours: Neighbours, moves: tuple[Move, ...]) -> bool:
    """Whether one person may have these records before, and those after."""
    by = neighbours.by_period
    if by is None:
        return True
    if by.same_period:
        # A record stands for its period, whether it goes, comes, or is replaced within it.
        sides = [[before or after for before, after in moves]]
    else:
        sides = [list(side) for side in zip(*moves, strict=True)]
    periods = [Counter(cell[by.axis] for cell in side if cell is not None) for side in sides]
    return all(n <= by.most for found in periods for n in found.values())


@dataclass(frozen=True)
class History:
    """Charges, and what they measured: rows with the rho that their chains have in force."""

    neighbours: Neighbours
    sizes: tuple[int, ...]
    charges: list[AnyCharge]
    rows: list[tuple[list[Fraction], int]]

    @classmethod
    def random(cls, seed: int, *, n: int = 8) -> History:
        rng = random.Random(seed)
        sizes = rng.choice(SIZES)
        stream = Stream.random(rng, sizes)
        charges = [stream.spend() for _ in range(n)]
        every = list(cells(sizes))
        rows = [([r.value_at(c) for c in every], rho) for r, rho in stream.alone.items()]
        for pair in stream.pairs:
            for place in range(pair.partition.n_cells):
                inside = [Fraction(cell_in(pair.partition, c) == place) for c in every]
                rows.append((inside, max(pair.table, pair.rows.get(place, 0))))
        return cls(random_neighbours(rng, sizes), sizes, charges, rows)

    @classmethod
    def anew(cls, seed: int, *, n: int = 8, adds_up: bool = True) -> History:
        """As a worker draws: rows and whole tables, each draw with noise of its own.

        Args:
            adds_up: false for the fault of charging the same cells for the rise alone.
        """
        rng = random.Random(f"anew {seed}")
        sizes = rng.choice(SIZES)
        every, partitions = list(cells(sizes)), [random_partition(rng, sizes) for _ in range(2)]
        charges, rows = list[AnyCharge](), list[tuple[list[Fraction], int]]()
        charged = Counter[str]()
        for _ in range(n):
            rho = rng.randint(1, 10**9)
            if rng.random() < 0.4:
                row = random_row(rng, sizes)
                charges.append(Charge(row, rho, "job"))
                rows.append(([row.value_at(c) for c in every], rho))
                continue
            table = rng.choice(partitions)
            rise = rho if adds_up else max(1, rho - charged[table.key])
            charged[table.key] = max(rho, charged[table.key])
            charges.append(TableCharge(table, rise, (), "job"))
            for place in range(table.n_cells):
                rows.append(([Fraction(cell_in(table, c) == place) for c in every], rho))
        return cls(random_neighbours(rng, sizes), sizes, charges, rows)

    def greatest(self) -> Fraction:
        """The most that any neighbour loses: each row's rho times its move's square, added up."""
        every, k = list(cells(self.sizes)), self.neighbours.records_per_person
        at = {c: i for i, c in enumerate(every)}
        values = [v for row, _ in self.rows for v in row]
        scale = lcm(*(v.denominator for v in values))
        rows = np.array([[int(v * scale) for v in row] for row, _ in self.rows], dtype=np.int64)
        rhos = np.array([rho for _, rho in self.rows], dtype=np.int64)
        moves = moves_of(self.neighbours, every)
        moved = np.zeros((len(moves), len(every)), dtype=np.int64)
        for i, (before, after) in enumerate(moves):
            if before is not None:
                moved[i, at[before]] -= 1
            if after is not None:
                moved[i, at[after]] += 1
        shifts, most = moved @ rows.T, 0
        for chosen in combinations_with_replacement(range(len(moves)), k):
            for n in {1, k}:
                if is_allowed(self.neighbours, tuple(moves[i] for i in chosen[:n])):
                    shift = shifts[list(chosen[:n])].sum(axis=0)
                    most = max(most, int((rhos * shift) @ shift))
        once = sum(c.epsilon_nano for c in self.charges if isinstance(c, OpaqueCharge))
        return Fraction(most, scale * scale) + once

    def ledger(self, law: NoiseLaw = GAUSSIAN) -> CellLedger:
        of = self.neighbours
        return CellLedger.like(
            self.sizes,
            Neighbours(of.relation, of.records_per_person, of.null_cell, of.by_period, law),
        )


def check(history: History, way: str) -> None:
    greatest = ceil(history.greatest())
    with limits(**WAYS[way]):
        one_by_one, at_once = history.ledger(), history.ledger()
        for charge in history.charges:
            one_by_one.append(charge)
            foretold = one_by_one.spent_nano
        at_once.extend(history.charges)
        assert foretold >= greatest
        assert at_once.bound_nano is not None
        assert at_once.bound_nano >= greatest
        # What it holds for certainly lost is no more than somebody did lose.
        at_once.cap(greatest)
        of = history.neighbours
        if way == "written down" and of.relation == "add-remove" and of.by_period is None:
            assert at_once.bound_nano <= greatest + 1


@pytest.mark.parametrize("seed", range(16))
def test_no_neighbour_loses_more_than_the_ledger_says(seed: int) -> None:
    for history in (History.random(seed), History.anew(seed)):
        check(history, list(WAYS)[seed % 3])


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_no_neighbour_loses_more_over_200_histories(way: str) -> None:
    for seed in range(200):
        check(History.random(seed), way)
        check(History.anew(seed), way)


class OneByOne(NoiseLaw):
    """The fault of charging k records k times what one costs."""

    def spread(self, n: int) -> int:
        return 1


class Halved(NoiseLaw):
    """The fault of pairs that cost no more than twice a cell: (1 - (-1))^2 is 4."""

    def together(self, n: int) -> int:
        return n if n == 2 else super().together(n)


def test_records_charged_one_by_one_are_found_out() -> None:
    """Negative control."""
    found = [History.random(seed) for seed in range(8)]
    below = []
    for history in found:
        ledger = history.ledger(OneByOne("zcdp", 2))
        ledger.extend(history.charges)
        below.append(ledger.spent_nano < history.greatest())
    assert any(below)


def test_a_row_of_two_periods_charged_as_of_one_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Negative control."""

    def of_one_period(of: Neighbours, _row: object) -> int:
        return 1 if of.by_period is None else of.law.spread(of.by_period.most)

    monkeypatch.setattr(Neighbours, "together_in", of_one_period)
    below = []
    for seed in range(120):
        history = History.random(seed)
        ledger = history.ledger()
        ledger.extend(history.charges)
        if history.neighbours.by_period is not None:
            below.append(ledger.spent_nano < history.greatest())
    assert any(below)


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize(("k", "m"), [(2, 1), (3, 1), (2, 2), (4, 2)])
def test_rows_of_single_periods_cost_what_somebody_loses(k: int, m: int, *, replaced: bool) -> None:
    """m^2 times what a record loses in each of k / m periods, and not k times as much."""
    rng, sizes = random.Random(k * m), (3, 2)
    by = ByPeriod(0, 3, m, replaced)
    of = Neighbours("replace-one" if replaced else "add-remove", k, True, by, GAUSSIAN)
    charges, rows = list[AnyCharge](), list[tuple[list[Fraction], int]]()
    for period in (0, 1, 2, 0, 2):
        inside = scaled_weights([int(t == period) for t in range(3)])
        values = scaled_weights([rng.randint(-2, 3), 1])
        row, rho = linear_query(sizes, [(1, {0: inside, 1: values})]), rng.randint(1, 1000)
        charges.append(Charge(row, rho, "job"))
        rows.append(([row.value_at(c) for c in cells(sizes)], rho))
    history = History(of, sizes, charges, rows)
    ledger = history.ledger()
    ledger.extend(charges)
    assert ledger.bound_nano == history.greatest()


def test_a_table_charged_for_its_rise_alone_is_found_out() -> None:
    """Negative control: what is measured anew costs the whole."""
    found = [History.anew(seed, adds_up=False) for seed in range(8)]
    below = []
    for history in found:
        ledger = history.ledger()
        ledger.extend(history.charges)
        below.append(ledger.spent_nano < history.greatest())
    assert any(below)


def test_a_pair_of_opposite_weights_costs_four_times_its_cell() -> None:
    row = linear_query((2,), [(1, {0: scaled_weights([1, -1])})])
    for law, expected in ((GAUSSIAN, 4000), (Halved("zcdp", 2), 2000)):
        ledger = CellLedger((2,), relation="replace-one", null_cell=False, law=law)
        ledger.append(Charge(row, 1000, "job"))
        assert ledger.bound_nano == expected


def test_a_saved_ledger_keeps_its_law() -> None:
    row = linear_query((2,), [(1, {0: scaled_weights([1, Fraction(1, 2)])})])
    ledger = CellLedger((2,), records_per_person=3, law=GAUSSIAN)
    ledger.append(Charge(row, 1000, "job"))
    again = CellLedger.from_state(ledger.state(), sizes=(2,), neighbours=ledger.neighbours)
    for one in (ledger, again):
        one.append(Charge(row, 1000, "job"))
        assert one.loss_by_value(0) == [18_000, 4_500]
        assert one.spent_nano == 18_000


def least_epsilon(rho: mpmath.mpf, delta: mpmath.mpf) -> mpmath.mpf:
    """The least figure over all orders a > 1, by golden section on ln(a - 1) in 50 digits."""
    mpmath.mp.dps = 50

    def at(log_excess: mpmath.mpf) -> mpmath.mpf:
        excess = mpmath.exp(log_excess)
        order = 1 + excess
        rest = -mpmath.log(delta) - mpmath.log(order)
        return order * rho + mpmath.log(excess / order) + rest / excess

    middle = mpmath.log(-mpmath.log(delta) / rho) / 2
    low, high, part = middle - 8, middle + 8, (mpmath.sqrt(5) - 1) / 2
    for _ in range(120):
        one, other = high - part * (high - low), low + part * (high - low)
        low, high = (low, other) if at(one) < at(other) else (one, high)
    return at(low)


@pytest.mark.parametrize("delta", [Fraction(1, 10**6), Fraction(1, 10**9), Fraction(1, 10**30)])
def test_epsilon_is_the_least_figure_rounded_up(delta: Fraction) -> None:
    for rho in (1, 1000, 10**6, 10**8, 10**9, 5 * 10**9, 10**11, 10**13):
        exact = least_epsilon(mpmath.mpf(rho) / NANO, mpmath.mpf(1) / delta.denominator) * NANO
        assert exact <= epsilon_nano(rho, delta) < exact + 1 + mpmath.mpf(10) ** -3
    assert epsilon_nano(0, delta) == 0


def test_the_rho_of_a_limit_is_the_greatest() -> None:
    delta, rng = Fraction(1, 10**9), random.Random(1)
    for limit in (10**6, NANO, 10 * NANO, *(rng.randrange(10**6, 10**11) for _ in range(3))):
        rho = rho_nano(limit, delta)
        assert epsilon_nano(rho, delta) <= limit < epsilon_nano(rho + 1, delta)


def test_the_rho_that_a_price_pays_for_is_the_greatest_from_where_a_loss_stands() -> None:
    shown, rng = Shown(Fraction(1, 10**9)), random.Random(2)
    for rise in (1, 10**6, NANO, rng.randrange(10**10)):
        for before in (0, 1, rng.randrange(NANO)):
            rho = shown.loss_nano(before, rise)
            if rho:
                assert shown.rise_nano(before, before + rho) <= rise
            assert shown.rise_nano(before, before + rho + 1) > rise
    assert Shown().loss_nano(5, 7) == 7


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(11, 10**7), Fraction(1)])
def test_a_delta_that_protects_nobody_is_refused(delta: Fraction) -> None:
    with pytest.raises(InputError, match=r"delta.*at most 1e-6"):
        rho_nano(NANO, delta)


def test_a_limit_that_leaves_no_rho_is_refused() -> None:
    with pytest.raises(InputError, match=r"limit.*be greater"):
        rho_nano(1000, Fraction(1, 10**9))
