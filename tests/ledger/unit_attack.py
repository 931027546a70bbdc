"""Random interactive sequences on three periods of three cells, and who they tell apart how well.

A sequence asks rows and tables, refines them and goes on from cells as rows, while one period after
the other gets its data. What it does next is drawn from the answers so far. The probability of all
answers is multiplied up draw by draw, for every person of a unit being there or not.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product

from qserver.ledger.cell_ledger import CellLedger
from qserver.query.class_grid import ProductPartition, product_partition
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.weights import indicator
from qserver.records.charge import AnyCharge, Charge, TableCharge
from tests.ledger.people_by_definition import People, Person
from tests.worker.noise.test_mechanism import branch_kernel, pmf_of

SIZES = (3, 3)
CELLS: list[tuple[int, ...]] = list(product(range(3), range(3)))
STEP = Fraction(1, 2)
RATES = [Fraction(9, 10), Fraction(4, 5), Fraction(2, 3), Fraction(1, 2), Fraction(1, 3)]
"""P(noise = i steps) goes as rate^abs(i): from much noise to little."""
FAR = 12
"""An answer beyond every truth: what tells most."""
OTHERS: list[dict[int, list[int]]] = [{}, {1: [0, 0, 1]}, {1: [0, 1, 2]}]
"""What tables of periods tell apart besides."""
Vector = tuple[Fraction, ...]
Kernel = Callable[[int, int, Fraction, Fraction], Fraction]


def alpha_nano(level: int) -> int:
    """1 / b of a rate, b being in records, in nano-epsilon and rounded up; 0 for no answer yet."""
    return 0 if level < 0 else math.ceil(-math.log(RATES[level]) / float(STEP) * 1e9)


def vector(row: LinearQuery) -> Vector:
    return tuple(row.value_at(cell) for cell in CELLS)


@dataclass
class Chain:
    """Answers to one row, the last one in force.

    Args:
        level: index of its rate; -1 before the first.
        sealed: periods that its truth counted then.
    """

    row: Vector
    level: int = -1
    answer: int = 0
    sealed: int = 0


@dataclass
class Draw:
    """One draw, and what its truth weighs: now, and when the answer before it was drawn."""

    now: Vector
    before: Vector
    old: int
    old_answer: int
    new: int
    answer: int

    def probability(self, now: int, before: int, kernel: Kernel) -> Fraction:
        """Of the answer, given the truths in steps."""
        noise, rate = self.answer - now, RATES[self.new]
        if self.old < 0:
            return pmf_of(noise, rate)
        return kernel(self.old_answer - before, noise, RATES[self.old], rate)


@dataclass
class Measured:
    """A piece of a table with the chain of each of its cells, and the level that it has paid."""

    partition: ProductPartition
    level: int
    chains: list[Chain]


@dataclass
class Attack:
    """One sequence; `stamps` says whether an old row leaves later periods out."""

    rng: random.Random
    far: bool
    stamps: bool = True
    draws: list[Draw] = field(default_factory=list)
    charges: list[AnyCharge] = field(default_factory=list)
    extended: list[AnyCharge] = field(default_factory=list)
    rows: list[Chain] = field(default_factory=list)
    tables: list[Measured] = field(default_factory=list)
    sealed: int = 1

    def play(self, n_steps: int) -> None:
        for _ in range(n_steps):
            # The next move is a function of all answers so far, and of what the analyst throws.
            seen = [draw.answer for draw in self.draws]
            self.rng = random.Random(f"{self.rng.random()} {seen}")
            moves = [self._ask, self._ask, self._refine, self._append, self._table, self._cell]
            self.rng.choice(moves)()

    def _append(self) -> None:
        self.sealed = min(3, self.sealed + 1)

    def _ask(self) -> None:
        periods = range(self.sealed if self.stamps else 3)
        if self.rng.random() < 0.5:
            periods = range(self.rng.randrange(self.sealed), self.sealed)
        values: list[Fraction | int] = self.rng.choice(
            [[1], [0, 1], [0, Fraction(1, 2), 1], [-1, 0, Fraction(1, 2), 1]]
        )
        terms = [
            (self.rng.choice(values), {0: indicator(3, [t]), 1: indicator(3, [a])})
            for t in periods
            for a in range(3)
        ]
        row = linear_query(SIZES, [term for term in terms if term[0]])
        if any(vector(row)):
            chain = Chain(vector(row))
            self.rows.append(chain)
            self._raise(chain, self.rng.randrange(len(RATES)), row)

    def _refine(self) -> None:
        open_ = [chain for chain in self.rows if chain.level + 1 < len(RATES)]
        if open_:
            chain = self.rng.choice(open_)
            level = self.rng.randrange(chain.level + 1, len(RATES))
            self._raise(chain, level, query_of(chain.row))

    def _raise(self, chain: Chain, level: int, row: LinearQuery) -> None:
        rise = alpha_nano(level) - alpha_nano(chain.level)
        self.charges.append(Charge(row, rise, "job"))
        self._draw(chain, level)

    def _draw(self, chain: Chain, level: int) -> None:
        now = chain.row if self.stamps else _on(chain.row, self.sealed)
        before = chain.row if self.stamps else _on(chain.row, chain.sealed)
        answer = self.rng.choice([-FAR, FAR]) if self.far else self.rng.randint(-4, 6)
        if self.far and all(v >= 0 for v in chain.row):
            answer = FAR
        self.draws.append(Draw(now, before, chain.level, chain.answer, level, answer))
        chain.level, chain.answer, chain.sealed = level, answer, self.sealed

    def _table(self) -> None:
        """A table of some sealed periods, or of all records once every period has data.

        Else an old one is raised, or extended to a period that came later.
        """
        level, choice = self.rng.randrange(len(RATES)), self.rng.random()
        old = [table for table in self.tables if table.level < level]
        if old and choice < 0.4:
            self._raise_table(self.rng.choice(old), level)
            return
        if self.sealed == 3 and choice < 0.5:
            self._measure(product_partition(SIZES, {}), level)
            return
        first = self.rng.randrange(self.sealed)
        stop = self.rng.randrange(first, self.sealed) + 1
        others = self.rng.choice(OTHERS)
        self._measure(_of_periods(range(first, stop), others), level)
        if stop < self.sealed:
            self._measure(_of_periods(range(stop, self.sealed), others), level)
            self.extended.append(self.charges[-1])

    def _measure(self, partition: ProductPartition, level: int) -> None:
        chains = [Chain(vector(partition.row(i))) for i in range(partition.n_cells)]
        self.tables.append(Measured(partition, -1, chains))
        self._raise_table(self.tables[-1], level)

    def _raise_table(self, table: Measured, level: int) -> None:
        """Cells whose row paid for more stay; the others go on from what is in force."""
        old = alpha_nano(table.level)
        paid = tuple(
            (place, min(alpha_nano(chain.level), alpha_nano(level)) - old)
            for place, chain in enumerate(table.chains)
            if chain.level > table.level
        )
        self.charges.append(TableCharge(table.partition, alpha_nano(level) - old, paid, "job"))
        for chain in table.chains:
            if chain.level < level:
                self._draw(chain, level)
        table.level = level

    def _cell(self) -> None:
        """Go on from a cell of a table as a row."""
        open_ = [
            (table, place)
            for table in self.tables
            for place, chain in enumerate(table.chains)
            if chain.level + 1 < len(RATES)
        ]
        if open_:
            table, place = self.rng.choice(open_)
            chain = table.chains[place]
            level = self.rng.randrange(chain.level + 1, len(RATES))
            self._raise(chain, level, table.partition.row(place))


def _of_periods(periods: range, others: dict[int, list[int]]) -> ProductPartition:
    labels = [t if t in periods else -1 for t in range(SIZES[0])]
    return product_partition(SIZES, {0: labels, **others})


def query_of(row: Vector) -> LinearQuery:
    terms = [
        (value, {0: indicator(3, [t]), 1: indicator(3, [a])})
        for (t, a), value in zip(CELLS, row, strict=True)
        if value
    ]
    return linear_query(SIZES, terms)


def _on(row: Vector, sealed: int) -> Vector:
    return tuple(v if t < sealed else Fraction(0) for (t, _), v in zip(CELLS, row, strict=True))


@functools.cache
def exchanges(people: People) -> list[tuple[Person, Person]]:
    return list(people.exchanges())


def sequences(n: int, *, stamps: bool = True) -> Iterator[Attack]:
    for seed in range(n):
        found = Attack(random.Random(seed), far=seed % 2 == 0, stamps=stamps)
        found.play(2 + seed % 9)
        if found.charges:
            yield found


def log_ratio(draws: Sequence[Draw], people: People, kernel: Kernel = branch_kernel) -> float:
    """The greatest log-ratio of the probabilities of all answers, over all exchanges."""
    logs: dict[Person, float] = {}
    known: dict[tuple[int, int, int], float] = {}
    for person in {who for pair in exchanges(people) for who in pair}:
        logs[person] = 0.0
        places = [CELLS.index(cell) for cell in person]
        for i, draw in enumerate(draws):
            # Of the others' records nothing is needed: they shift all truths alike.
            now = int(sum((draw.now[c] for c in places), Fraction(0)) / STEP)
            before = int(sum((draw.before[c] for c in places), Fraction(0)) / STEP)
            key = i, now, before
            if key not in known:
                found = draw.probability(now, before, kernel)
                known[key] = math.log(found.numerator) - math.log(found.denominator)
            logs[person] += known[key]
    return max(abs(logs[a] - logs[b]) for a, b in exchanges(people))


def charged(charges: Sequence[AnyCharge], people: People) -> float:
    """What the ledger says, in epsilon."""
    ledger = CellLedger.like(SIZES, people.neighbours)
    for charge in charges:
        ledger.append(charge)
        assert ledger.spent_nano
    return ledger.spent_nano / 1e9
