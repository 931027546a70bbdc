"""HAVING, ORDER BY and LIMIT: which rows of a table are shown, in what order.

This is post-processing and costs nothing: the whole table is measured. But a row shown because of
its number was chosen, so its interval must allow for that (`Shape.selection`).
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from qserver.query.asking.after_looking import Rule, Selection

Comparison = Literal["=", "<>", "<", "<=", ">", ">="]
_COMPARE: dict[Comparison, Callable[[Fraction, Fraction], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
Numbers = Sequence[float | None]
"""The released numbers of a row; None where it has none, as a quotient by zero."""


@dataclass(frozen=True)
class Compare:
    """A comparison of two numbers: a column of the table (by its index), or a constant."""

    left: int | Fraction
    by: Comparison
    right: int | Fraction

    def holds(self, row: Numbers) -> bool | None:
        """Whether it holds; None if a number is missing."""
        left, right = (_number(side, row) for side in (self.left, self.right))
        return None if left is None or right is None else _COMPARE[self.by](left, right)


@dataclass(frozen=True)
class Missing:
    """Test whether a column, by its index, has no number."""

    column: int

    def holds(self, row: Numbers) -> bool:
        """Whether the number is missing."""
        return row[self.column] is None


@dataclass(frozen=True)
class Every:
    """All of some tests."""

    parts: tuple[Test, ...]

    def holds(self, row: Numbers) -> bool | None:
        """Whether all hold; None if unknown."""
        found = [part.holds(row) for part in self.parts]
        return False if False in found else None if None in found else True


@dataclass(frozen=True)
class Opposite:
    """Negation of a test."""

    of: Test

    def holds(self, row: Numbers) -> bool | None:
        """Whether it does not hold; None if unknown."""
        found = self.of.holds(row)
        return None if found is None else not found


Test = Compare | Missing | Every | Opposite


@dataclass(frozen=True)
class Top:
    """Test whether rows are the first of their parties by a number.

    Args:
        key: the order, by a column of numbers.
        parties: per row of the whole table the party that it is ranked in, or None.
        n: rows of each party that stay.
    """

    key: SortKey
    parties: tuple[int | None, ...]
    n: int

    def kept(self, places: Sequence[int], table: Sequence[Numbers]) -> list[int]:
        """Places of the rows that stay, in table order."""
        seen, found = Counter[int](), set[int]()
        for i in self.key.sort([i for i in places if self.parties[i] is not None], table):
            party = self.parties[i]
            if party is not None and seen[party] < self.n:
                seen[party] += 1
                found.add(i)
        return [i for i in places if i in found]


@dataclass(frozen=True)
class SortKey:
    """A sort key.

    Args:
        column: the index of a column of numbers; None for a group.
        ranks: per row of the whole table its group's place in order; None for NULL, and for all
            groups together.
        descending: whether the greatest comes first.
        nulls_first: whether rows without this number come first.
    """

    column: int | None
    ranks: tuple[int | None, ...] = ()
    descending: bool = False
    nulls_first: bool = False

    def sort(self, places: list[int], table: Sequence[Numbers]) -> list[int]:
        """Places of rows in this order, stable."""
        values: list[float | None] = [
            self.ranks[i] if self.column is None else table[i][self.column] for i in places
        ]
        pairs = [(value, i) for value, i in zip(values, places, strict=True) if value is not None]
        pairs.sort(key=operator.itemgetter(0), reverse=self.descending)
        found = [i for _, i in pairs]
        nulls = [i for value, i in zip(values, places, strict=True) if value is None]
        return nulls + found if self.nulls_first else found + nulls


@dataclass(frozen=True)
class Shape:
    """HAVING, ORDER BY, LIMIT and OFFSET of a table that depend on its numbers.

    Args:
        test: of the rows that stay; None for all.
        keys: in order of precedence.
        limit: most rows shown; None for all.
        offset: number of rows skipped first.
        unnamed: the rows of the whole table with NULL among their groups. They are shown only
            together with all others; a choice by numbers drops them.
        tops: rows that stay by rank after the test.
        shown: final order, if other than `keys`.
    """

    test: Test | None = None
    keys: tuple[SortKey, ...] = ()
    limit: int | None = None
    offset: int = 0
    unnamed: frozenset[int] = frozenset()
    tops: tuple[Top, ...] = ()
    shown: tuple[SortKey, ...] = ()

    @property
    def chooses(self) -> bool:
        """Whether rows may be dropped by their order."""
        cuts = self.limit is not None or self.offset > 0
        return cuts and bool(self.keys) and self.keys[0].column is not None

    def places(self, table: Sequence[Numbers]) -> list[int]:
        """Places of the shown rows in the whole table, in order."""
        shown = [i for i, row in enumerate(table) if self.test is None or self.test.holds(row)]
        stop = None if self.limit is None else self.offset + self.limit
        if self.chooses and (self.offset > 0 or (stop is not None and stop < len(shown))):
            shown = [i for i in shown if i not in self.unnamed]
        for top in self.tops:
            shown = top.kept(shown, table)
        for key in reversed(self.keys):
            shown = key.sort(shown, table)
        shown = shown[self.offset : stop]
        for key in reversed(self.shown):
            shown = key.sort(shown, table)
        return shown

    def selection(self, m: int) -> Selection | None:
        """The choice among m rows by their numbers; None if all are shown.

        The first rows in the order of a number are the largest, or the least, of its column; rows
        skipped by OFFSET count, too, so that all hold at once. Other decisions count as any choice.
        """
        last = m if self.limit is None else min(m, self.offset + self.limit)
        if self.tops and m > 1:
            return Selection(m, "any")
        if m <= 1 or (self.test is None and self.offset == 0 and last == m):
            return None
        key = self.keys[0] if self.keys else None
        if self.test is not None or self.limit is None or key is None or key.column is None:
            return Selection(m, "any")
        return Selection(m, "largest" if key.descending else "least", last)

    def rule(self, column: int, said: Rule) -> Rule:
        """The rule of choice for a column's numbers, from the rule `said` of the table's rows.

        The largest rows by one column are an arbitrary choice in others.
        """
        is_key = not self.keys or self.keys[0].column == column
        return said if is_key else "any"


PLAIN = Shape()


def sides_of(test: Test) -> list[int | Fraction]:
    """The columns, by their indexes, and the constants that a test names, in order."""
    if isinstance(test, Compare):
        return [test.left, test.right]
    if isinstance(test, Missing):
        return [test.column]
    inner = test.parts if isinstance(test, Every) else (test.of,)
    return [side for part in inner for side in sides_of(part)]


def _number(side: int | Fraction, row: Numbers) -> Fraction | None:
    if isinstance(side, Fraction):
        return side
    value = row[side]
    return None if value is None else Fraction(value)
