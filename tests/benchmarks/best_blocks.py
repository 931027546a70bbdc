"""The best blocks that would have answered a whole stream, found in hindsight: a yardstick.

Blocks are fitted to all questions that they can answer, as if nothing had been bought; the others
are rented: their own rows are measured, with the tables' help. Rows and tables are one purchase,
and its price is the ledger's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from qserver.planning.blocks.demand import want_of
from qserver.planning.blocks.star import fit_star, fitting
from qserver.planning.blocks.wants import Want, Wants
from qserver.planning.effort import Effort
from qserver.planning.holdings import Holdings
from qserver.planning.purchase import Purchase
from qserver.query.question import Question
from qserver.records.charge import NANO, Relation
from qserver.records.plan import PlannedRow

from .streams import Asked
from .synthetic_noise import Snapshot, question_of

Rented = frozenset[int]


@dataclass(frozen=True)
class Need:
    """A question of the stream; `want` is None where no table can answer it."""

    question: Question
    want: Want | None

    @property
    def scope(self) -> tuple[int, ...]:
        """The attributes that it is about."""
        return self.question.row.row.scope


@dataclass
class Hindsight:
    """Plans for a whole stream on an empty snapshot.

    Args:
        holdings: of an empty snapshot.
        needs: the questions, each row and requirement once.
    """

    sizes: Sequence[int]
    relation: Relation
    holdings: Holdings
    needs: list[Need]

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

    def blocks(self) -> float:
        """Epsilon of blocks for all questions that they can answer, and rows for the others."""
        return self._price(self.unanswered)

    def rows(self) -> float:
        """Epsilon of own rows alone."""
        return self._price(frozenset(range(len(self.needs))))

    def _price(self, rented: Rented) -> float:
        """The ledger's price of rows for these questions and blocks for the others."""
        bought = _empty(self.sizes, self.relation)
        kept = Wants()
        for want in self._wants([i for i in range(len(self.needs)) if i not in rented]):
            kept.add(want)
        star = fit_star(self.holdings, kept.wants, effort=Effort()) if kept.wants else None
        tables = () if star is None else self.holdings.tables(self.holdings.raises(star.alphas))
        bought.buy(Purchase(tables=tables))
        rows = [_row(bought.holdings, self.needs[i].question) for i in sorted(rented)]
        whole = Purchase(tuple(r for r in rows if r is not None), tables)
        return self.holdings.priced(whole).spent_after_nano / NANO

    def _wants(self, numbers: Iterable[int]) -> list[Want]:
        return [w for i in numbers if (w := self.needs[i].want) is not None]


def hindsight_price(sizes: Sequence[int], stream: Iterable[Asked], *, relation: Relation) -> float:
    """The least price found of blocks for the stream, in epsilon.

    Questions that no blocks can answer are answered by their rows.
    """
    return Hindsight.of(sizes, stream, relation=relation).blocks()


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
