"""Random interactive sequences over people whose records arrive late, are kept or left out, and
retire, on the tiny domain of `unit_attack`.

A person is a stream of raw records: of which period, with which value, and in which part each one
comes. The product's own rules make of it what each part stores. The unit of privacy says which
streams are neighbours; how well a transcript tells them apart is multiplied up draw by draw.
"""

from __future__ import annotations

import functools
import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations_with_replacement, groupby, product

import numpy as np

from qserver.query.domain import Attribute, Domain
from qserver.records.dataset import Growth
from tests.ledger.unit_attack import CELLS, STEP, Attack, Chain, Draw, Vector
from tests.worker.noise.test_mechanism import branch_kernel
from tests.worker.private.test_causal import KEY, kept
from worker.coding.tally import Tally
from worker.owner.arrivals.findings import Late
from worker.owner.arrivals.part import Arriving, in_time
from worker.private.content_digests import Content
from worker.private.people import People
from worker.private.snapshot import Records
from worker.private.truncation import PeriodRule

N = 3
DOMAIN = Domain(
    (
        Attribute("t", "period", labels=tuple("abc")),
        Attribute("a", "labels", labels=tuple("xyz")),
    )
)
MOST_RAW = 3
"""Raw records of a person: more than any rule here keeps."""
Raw = tuple[int, int, int]
"""Period, part and value."""
Stream = tuple[Raw, ...]
Stored = tuple[tuple[int, tuple[int, int]], ...]
"""Part and cell of each record that is kept."""


@dataclass(frozen=True)
class Handling:
    """How streams become what is stored.

    Args:
        late: what becomes of late records; `unseal` puts them into the sealed period, which no
            product does.
        forgets: a retirement forgets how many records each person had, which none does either.
    """

    rule: PeriodRule
    late: Late = "move"
    unseal: bool = False
    forgets: bool = False


@dataclass
class StreamAttack(Attack):
    """One sequence with retirements; `erased` says that retired periods are measured as empty.

    Attributes:
        retired_at: of each part, how many periods were retired when it came.
    """

    erased: bool = False
    retired: int = 0
    retired_at: list[int] = field(default_factory=lambda: [0] * N)
    times: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Of each draw, sealed and retired periods now, and when the answer before was drawn."""
    seen: dict[int, tuple[int, int]] = field(default_factory=dict)

    def play(self, n_steps: int) -> None:
        for _ in range(n_steps):
            self.rng.seed(f"{self.rng.random()} {[draw.answer for draw in self.draws]}")
            moves = [self._ask, self._ask, self._refine, self._append, self._table, self._cell]
            self.rng.choice([*moves, *moves, self._retire])()

    def play_whole(self) -> None:
        """Every period comes, the first two retire in between, and old rows are refined."""
        for move in (
            self._ask,
            self._append,
            self._ask,
            self._retire,
            self._retire,
            self._append,
            self._ask,
            self._refine,
        ):
            move()

    def _append(self) -> None:
        if self.sealed < N:
            self.retired_at[self.sealed] = self.retired
        super()._append()

    def _retire(self) -> None:
        self.retired = min(self.sealed, self.retired + 1)

    def _raise(self, chain: Chain, level: int, row: object) -> None:
        if self._may_draw(chain.row):
            super()._raise(chain, level, row)  # type: ignore[arg-type]

    def _may_draw(self, row: Vector) -> bool:
        """A row is not measured or refined that weighs a retired period."""
        if self.erased:
            return True
        return not any(v for (t, _), v in zip(CELLS, row, strict=True) if t < self.retired)

    def _table(self) -> None:
        """No table once a period is retired: its cells are about all of them."""
        if not self.retired or self.erased:
            super()._table()

    def _draw(self, chain: Chain, level: int) -> None:
        now = self.sealed, self.retired if self.erased else 0
        before = self.seen.get(id(chain), now)
        self.seen[id(chain)] = now
        self.times.append((*now, *before))
        super()._draw(chain, level)


def streams() -> list[Stream]:
    """Every person with so many raw records."""
    raw = [(t, p, a) for t in range(N) for p in range(t, N) for a in range(3)]
    return [s for n in range(MOST_RAW + 1) for s in combinations_with_replacement(raw, n)]


@functools.cache
def stored(stream: Stream, handling: Handling, retired_at: tuple[int, ...]) -> Stored:
    """What the parts store of one person, by the product's rules, in order."""
    found, kept_in = list[tuple[int, tuple[int, int]]](), Counter[int]()
    for part in range(N):
        file = [raw for raw in stream if raw[1] == part]
        codes = tuple(np.array([raw[i] for raw in file], dtype=np.int64) for i in (0, 2))
        arriving = Arriving(
            DOMAIN, Growth("t", 99), None, KEY, (), part, part + 1, late=handling.late
        )
        records = Records(codes, People.of_texts(["ann"] * len(file)), Content(), Tally.of(DOMAIN))
        read, _ = in_time(records, arriving)
        forgotten = retired_at[part] if handling.forgets else 0
        so_far = {"ann": sum(n for p, n in kept_in.items() if p >= forgotten)}
        columns = zip(*(c.tolist() for c in read.codes), strict=True)
        if handling.unseal:
            columns = ((t, a) for t, _, a in file)  # type: ignore[assignment]
        stays = kept([("ann", t, a) for t, a in columns], handling.rule, so_far)
        kept_in[part] += len(stays)
        found += [(part, (t, a)) for _, t, a in stays]
    return tuple(sorted(found))


def neighbours(
    handling: Handling, retired_at: tuple[int, ...], *, kind: str, one_period: bool = False
) -> set[tuple[Stored, Stored]]:
    """Pairs of what is stored of neighbouring streams.

    Args:
        kind: `added` for a person against nobody; `replaced anywhere` for any two people;
            `replaced in its period` for two whose records differ in their values alone.
        one_period: only streams of which the records that are kept are of one period.
    """
    every = streams()
    if kind == "replaced in its period":
        every.sort(key=_places)
        groups: Iterable[list[Stream]] = (list(g) for _, g in groupby(every, key=_places))
        pairs = {
            (stored(a, handling, retired_at), stored(b, handling, retired_at))
            for group in groups
            for a, b in product(group, group)
        }
    else:
        outcomes = {stored(s, handling, retired_at) for s in every}
        others = outcomes if kind == "replaced anywhere" else {()}
        pairs = set(product(outcomes, others))
    if one_period:
        pairs = {pair for pair in pairs if len({cell[0] for one in pair for _, cell in one}) <= 1}
    return pairs


def _places(stream: Stream) -> list[tuple[int, int]]:
    return sorted((t, p) for t, p, _ in stream)


@functools.cache
def cached_neighbours(
    handling: Handling, retired_at: tuple[int, ...], kind: str, one_period: bool
) -> tuple[tuple[Stored, Stored], ...]:
    found = neighbours(handling, retired_at, kind=kind, one_period=one_period)
    return tuple(sorted({(min(a, b), max(a, b)) for a, b in found if a != b}))


def log_ratio(found: StreamAttack, pairs: Sequence[tuple[Stored, Stored]]) -> float:
    """The greatest log-ratio of the probabilities of all answers, over all neighbours."""
    logs: dict[Stored, float] = {}
    known: dict[tuple[int, int, int], float] = {}
    for person in {one for pair in pairs for one in pair}:
        logs[person] = 0.0
        for i, (draw, time) in enumerate(zip(found.draws, found.times, strict=True)):
            now, before = (
                _truth(person, draw.now, *time[:2]),
                _truth(person, draw.before, *time[2:]),
            )
            if (i, now, before) not in known:
                known[i, now, before] = _log(draw, now, before)
            logs[person] += known[i, now, before]
    return max((abs(logs[a] - logs[b]) for a, b in pairs), default=0.0)


def _truth(person: Stored, row: Vector, sealed: int, retired: int) -> int:
    """What a row counts of a person, in steps: of the parts that came, without what is erased."""
    counted = [
        row[CELLS.index(cell)] for part, cell in person if part < sealed and cell[0] >= retired
    ]
    return int(sum(counted, Fraction(0)) / STEP)


def _log(draw: Draw, now: int, before: int) -> float:
    found = draw.probability(now, before, branch_kernel)
    return math.log(found.numerator) - math.log(found.denominator)


def sequences(n: int) -> Iterator[StreamAttack]:
    for seed in range(n):
        found = StreamAttack(random.Random(seed), far=seed % 2 == 0)
        found.play(3 + seed % 11)
        if found.charges:
            yield found


def whole_sequences(n: int, *, erased: bool = False) -> Iterator[StreamAttack]:
    """Sequences in which much can go wrong."""
    for seed in range(n):
        found = StreamAttack(random.Random(seed), far=seed % 2 == 0, erased=erased)
        found.play_whole()
        yield found
