"""The best plan of blocks and rows that would have answered a whole stream: a yardstick.

Some questions are rented: their own rows are measured. Blocks are fitted to the others, as if
nothing had been bought, and the tables help the rented rows. Rows and tables are one purchase, and
its price is the ledger's. Which questions are rented is found by a local search with restarts, so
the price is an upper bound on the best. It exists for every stream: a question that no table can
answer is rented.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

from qserver.planning.blocks.demand import want_of
from qserver.planning.blocks.star import Star, fit_star, fitting, uses
from qserver.planning.blocks.wants import Want, Wants
from qserver.planning.effort import Effort
from qserver.planning.holdings import Holdings
from qserver.planning.purchase import Purchase
from qserver.query.question import Question
from qserver.records.charge import NANO, Relation
from qserver.records.plan import PlannedRow
from tests.benchmarks.streams import Asked
from tests.benchmarks.synthetic_noise import Snapshot, question_of

Rented = frozenset[int]
_FIRST_STARTS = 3
_BINDING = 12
_SINGLES = 6


@dataclass(frozen=True)
class Need:
    """A question of the stream; `want` is None where no table can answer it."""

    question: Question
    want: Want | None

    @property
    def scope(self) -> tuple[int, ...]:
        """The attributes that it is about."""
        return self.question.row.row.scope


@dataclass(frozen=True)
class Mixture:
    """A plan in hindsight.

    Args:
        price: in epsilon.
        rented: the questions answered by their own rows, by their place among the needs.
    """

    price: float
    rented: Rented


@dataclass
class Hindsight:
    """Plans for a whole stream on an empty snapshot, each priced once.

    Args:
        holdings: of an empty snapshot.
        needs: the questions, each row and requirement once.
    """

    sizes: Sequence[int]
    relation: Relation
    holdings: Holdings
    needs: list[Need]
    _prices: dict[Rented, float] = field(default_factory=dict)
    _stars: dict[Rented, Star | None] = field(default_factory=dict)

    @classmethod
    def of(cls, sizes: Sequence[int], stream: Iterable[Asked], *, relation: Relation) -> Hindsight:
        """The questions of this stream, without those that another of the same row implies."""
        asked = dict.fromkeys(question_of(a.query, a.requirement) for a in stream)
        by_row: dict[str, list[Question]] = {}
        for question in asked:
            same = by_row.setdefault(question.row.key, [])
            if not any(_implies(other, question) for other in same):
                same[:] = [q for q in same if not _implies(question, q)] + [question]
        holdings = _empty(sizes, relation).holdings
        needs = [_need(holdings, q) for same in by_row.values() for q in same]
        return cls(sizes, relation, holdings, needs)

    @cached_property
    def unanswered(self) -> Rented:
        """Those that no blocks can answer, or that too many components keep from being fitted."""
        resolved = [i for i, n in enumerate(self.needs) if n.want is not None]
        often = Counter(self.needs[i].scope for i in resolved)
        # Scopes of many questions are kept first, and `fitting` keeps the last.
        resolved.sort(key=lambda i: (often[self.needs[i].scope], self.needs[i].scope))
        kept = {id(w) for w in fitting(self.holdings, self._wants(resolved))}
        return frozenset(i for i, n in enumerate(self.needs) if id(n.want) not in kept)

    def blocks(self) -> Mixture:
        """Blocks for all questions that they can answer, and rows for the others."""
        return Mixture(self.price(self.unanswered), self.unanswered)

    def rows(self) -> Mixture:
        """Own rows alone."""
        everything = frozenset(range(len(self.needs)))
        return Mixture(self.price(everything), everything)

    def best(self, *, seed: int = 0, n_prices: int = 120) -> Mixture:
        """The least price that the search finds.

        Args:
            n_prices: plans that are priced, about.
        """
        generator = random.Random(seed)
        starts = sorted({self.blocks().rented, self.rows().rented, *self._starts()}, key=self.price)
        for start in starts[:_FIRST_STARTS]:
            self._descend(start, generator, len(self._prices) + n_prices // _FIRST_STARTS)
        best = min(self._prices, key=self.price)
        return Mixture(self.price(best), best)

    def price(self, rented: Rented) -> float:
        """The ledger's price of blocks for the others and rows for these, in epsilon."""
        if rented not in self._prices:
            self._prices[rented] = self._priced(rented)
        return self._prices[rented]

    def _priced(self, rented: Rented) -> float:
        kept = [n.want for i, n in enumerate(self.needs) if i not in rented and n.want is not None]
        if len(fitting(self.holdings, kept)) < len(kept) or not self.unanswered <= rented:
            return inf
        return self.holdings.priced(self.purchase(rented)).spent_after_nano / NANO

    def purchase(self, rented: Rented) -> Purchase:
        """The rows of these questions and blocks for the others."""
        star, bought = self._star(rented), _empty(self.sizes, self.relation)
        tables = () if star is None else self.holdings.tables(self.holdings.raises(star.alphas))
        bought.buy(Purchase(tables=tables))
        rows = [_row(bought.holdings, self.needs[i].question) for i in sorted(rented)]
        return Purchase(tuple(r for r in rows if r is not None), tables)

    def _star(self, rented: Rented) -> Star | None:
        """The best blocks for the others; None where all are rented."""
        if rented not in self._stars:
            wanted = Wants()
            for i, need in enumerate(self.needs):
                if i not in rented and need.want is not None:
                    wanted.add(need.want)
            found = fit_star(self.holdings, wanted.wants, effort=Effort()) if wanted.wants else None
            self._stars[rented] = found
        return self._stars[rented]

    def _wants(self, numbers: Sequence[int]) -> list[Want]:
        return [w for i in numbers if (w := self.needs[i].want) is not None]

    def _starts(self) -> Iterator[Rented]:
        """Tight classes rented, and scopes of few questions."""
        octaves = {n.want.octave for n in self.needs if n.want is not None}
        for least in octaves:
            tight = (i for i, n in enumerate(self.needs) if n.want and n.want.octave >= least)
            yield self.unanswered | frozenset(tight)
        often = Counter(n.scope for n in self.needs)
        for most in set(often.values()):
            rare = (i for i, n in enumerate(self.needs) if often[n.scope] <= most)
            yield self.unanswered | frozenset(rare)

    def _descend(self, rented: Rented, generator: random.Random, most: int) -> None:
        """Follow whatever change of the rented ones is cheaper, until none is or time is up."""
        improved = True
        while improved and len(self._prices) < most:
            improved = False
            for other in self._changes(rented, generator):
                if len(self._prices) >= most:
                    break
                if self.price(other) < self.price(rented) * (1 - 1e-4):
                    rented, improved = other, True
                    break

    def _changes(self, rented: Rented, generator: random.Random) -> Iterator[Rented]:
        """Others rented, or no longer: what blocks answer anyway, what binds, scopes, classes."""
        free = rented - self.unanswered
        star = self._star(rented)
        if star is not None:
            there = [i for i in free if self._use(star, i) <= 1.0]
            if there:
                yield rented - frozenset(there)
            binding = self._binding(star, rented)
            yield from (rented | frozenset(binding[:n]) for n in (1, 3, _BINDING))
        for group in self._groups():
            yield rented | group
            if group & free:
                yield rented - (group & free)
        for i in generator.sample(sorted(free), min(_SINGLES, len(free))):
            yield rented - {i}

    def _use(self, star: Star, i: int) -> float:
        want = self.needs[i].want
        return inf if want is None else float(uses(self.holdings, star, [want])[0])

    def _binding(self, star: Star, rented: Rented) -> list[int]:
        """The questions of blocks that are nearest to their targets."""
        numbers = [i for i in range(len(self.needs)) if i not in rented]
        found = uses(self.holdings, star, self._wants(numbers))
        return [numbers[i] for i in (-found).argsort()[:_BINDING]]

    def _groups(self) -> Iterator[Rented]:
        """The questions of each scope, and of each class of precision."""
        keys = dict.fromkeys(n.scope for n in self.needs)
        for scope in keys:
            yield frozenset(i for i, n in enumerate(self.needs) if n.scope == scope)
        octaves = dict.fromkeys(n.want.octave for n in self.needs if n.want is not None)
        for octave in octaves:
            same = (i for i, n in enumerate(self.needs) if n.want and n.want.octave == octave)
            yield frozenset(same)


def hindsight_price(sizes: Sequence[int], stream: Iterable[Asked], *, relation: Relation) -> float:
    """The least price found of blocks for the stream, in epsilon.

    Questions that no blocks can answer are answered by their rows.
    """
    return Hindsight.of(sizes, stream, relation=relation).blocks().price


def _empty(sizes: Sequence[int], relation: Relation) -> Snapshot:
    return Snapshot(tuple(sizes), relation, rule=None, is_total=True)


def _need(holdings: Holdings, question: Question) -> Need:
    target, confidence = question.roomy_half_width, question.confidence
    want = want_of(holdings, question.row, half_width=target, confidence=confidence)
    return Need(question, want)


def _row(holdings: Holdings, question: Question) -> PlannedRow | None:
    """The row that the question needs together with the tables; None where they suffice."""
    if holdings.is_met(question):
        return None
    return holdings.own_row(question) or holdings.own_row_alone(question)


def _implies(one: Question, other: Question) -> bool:
    return one.row_half_width <= other.row_half_width and one.confidence >= other.confidence
