"""The groups of a SELECT behind IN, by released numbers: each possible choice.

The true set of groups involves no noise. If the intervals of all its numbers hold at once, the true
set is among those that numbers in the intervals give. So a number about the true set lies in the
hull of the intervals about all these sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Generic, TypeVar

from qserver.query.sql.functions.function_of_sums import KnownPart
from qserver.query.sql.functions.group_count import Passing
from qserver.query.sql.order_by import Every, Shape

MOST_OPEN = 6
"""Most groups in doubt: each doubles the sets."""
Values = frozenset[str | None]
_T = TypeVar("_T")


@dataclass(frozen=True)
class InnerSelect(Generic[_T]):
    """A SELECT of groups behind IN.

    Args:
        statement: the table of the numbers that choose, with all groups.
        values: the SELECT's value per row; None for NULL.
        shape: chooses its rows.
        is_whole: per column whether its numbers are whole.
        tells_null: whether a list with NULL differs from one without, as behind NOT IN.
    """

    statement: _T
    values: tuple[str | None, ...]
    shape: Shape
    is_whole: tuple[bool, ...]
    tells_null: bool

    @property
    def widest(self) -> Values:
        """The values that most records are counted with: all, or none behind NOT IN."""
        return frozenset() if self.tells_null else frozenset(self.known)

    @property
    def known(self) -> tuple[str, ...]:
        """All possible values, without NULL, in order."""
        return tuple(dict.fromkeys(one for one in self.values if one is not None))

    def chosen(self, table: Sequence[Sequence[KnownPart]]) -> Values:
        """The values by its released numbers.

        Least ones need a certain record: empty groups would come first.
        """
        is_rising = self.shape.limit is not None and not self.shape.keys[0].descending
        is_there = [
            _has_record(row) or not (is_rising or all(abs(p.estimate) < 0.5 for p in row))
            for row in table
        ]
        places = self.shape.places(
            [
                [part.estimate if there else None for part in row]
                for row, there in zip(table, is_there, strict=True)
            ]
        )
        return self._values_of([i for i in places if is_there[i]])

    def possible(self, table: Sequence[Sequence[KnownPart]]) -> tuple[Values, ...] | None:
        """The possible sets of values; None for too many.

        Args:
            table: its numbers, whose intervals hold at once.
        """
        sure, open_ = self._told(table)
        if len(open_) > MOST_OPEN:
            return None
        sets = [(*sure, *more) for n in range(len(open_) + 1) for more in combinations(open_, n)]
        limit = self.shape.limit
        if limit is not None:
            # Exactly so many are given, unless there are fewer.
            n_least = min(limit, sum(one.surely for one in self._rows(table)))
            sets = [one for one in sets if n_least <= len(one) <= limit]
        return tuple(dict.fromkeys(map(self._values_of, sets)))

    def _told(self, table: Sequence[Sequence[KnownPart]]) -> tuple[list[int], list[int]]:
        """Rows that are certain, and those that are possible."""
        rows, limit = self._rows(table), self.shape.limit
        sure = [i for i, one in enumerate(rows) if one.surely]
        may = [i for i, one in enumerate(rows) if one.may]
        if limit is not None:
            key = self.shape.keys[0]
            ends = [_signed(row[key.column or 0], descending=key.descending) for row in table]
            first = {i: sum(ends[j][1] < ends[i][0] for j in sure) < limit for i in may}
            is_first = {i: sum(ends[j][0] <= ends[i][1] for j in may) <= limit for i in sure}
            sure = [i for i in sure if is_first[i]]
            may = [i for i in may if first[i]]
        return sure, [i for i in may if i not in sure]

    def _rows(self, table: Sequence[Sequence[KnownPart]]) -> list[_Row]:
        """Whether each row exists and passes; a row needs a record."""
        columns = tuple(range(len(self.is_whole)))
        test = self.shape.test or Every(())
        passing = Passing(test, columns, self.is_whole, len(table))
        judged = passing.judged([part for row in table for part in row])
        pairs = zip(judged, map(_has_record, table), strict=True)
        return [_Row(one.surely and is_there, one.may) for one, is_there in pairs]

    def _values_of(self, rows: Sequence[int]) -> Values:
        found = frozenset(self.values[i] for i in rows)
        return found if self.tells_null else found - {None}


@dataclass(frozen=True)
class _Row:
    surely: bool
    may: bool


def _has_record(row: Sequence[KnownPart]) -> bool:
    """Whether a number shows that there is a record."""
    return any(part.low > 0.0 or part.high < 0.0 for part in row)


def _signed(part: KnownPart, *, descending: bool) -> tuple[float, float]:
    """The interval, negated for descending order."""
    return (-part.high, -part.low) if descending else (part.low, part.high)
