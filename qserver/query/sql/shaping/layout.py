"""Which groups are measured: all of a table, or those alone that a public order shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from math import prod

from qserver.query.sql.regions import ALL, Region, Regions
from qserver.query.sql.shaping.groups import Grouping, GroupValue
from qserver.query.sql.shaping.reading import Cut, Key
from qserver.query.sql.shaping.shape import PLAIN, Shape, SortKey, Test

_ALL_OF_IT = -1


@dataclass(frozen=True)
class Group:
    """One group of a table.

    Args:
        names: per grouping the name of its value; None for NULL, and where all of its values are
            together.
        region: its cells.
        places: per grouping the place of its value; -1 where all are together.
        together: the groupings of which all values are together, and have no name.
    """

    names: tuple[str | None, ...]
    region: Region
    places: tuple[int, ...]
    together: tuple[int, ...] = ()


@dataclass
class Layout:
    """The groups of a table, in the order in which they are measured.

    Args:
        groupings, keys, cut, test: GROUP BY, ORDER BY, LIMIT with OFFSET, and HAVING.
        sets: by which groupings each part of the table groups; the others are all together.
    """

    groupings: Sequence[Grouping]
    keys: tuple[Key, ...]
    cut: Cut
    test: Test | None
    sets: tuple[tuple[int, ...], ...]

    @cached_property
    def is_public(self) -> bool:
        """Whether no released number decides which groups are shown, and in what order."""
        return self.test is None and all(key.column is None for key in self.keys)

    @property
    def most_rows(self) -> int:
        """How many groups are measured at most."""
        n = sum(prod(len(self.groupings[k].values) for k in one) for one in self.sets)
        return min(n, self.cut.limit or n) if self.is_public and len(self.sets) == 1 else n

    def groups(self, regions: Regions) -> tuple[Group, ...]:
        """The groups that are measured; those without a cell are left out."""
        limit = self.cut.limit
        if len(self.sets) == 1:
            found = self._all(self.sets[0], regions)
            if not self.is_public:
                return tuple(found)
            stop = None if limit is None else self.cut.offset + limit
            return tuple(islice(found, self.cut.offset, stop))
        whole = tuple(group for one in self.sets for group in self._all(one, regions))
        if not self.is_public:
            return whole
        shown = Shape(None, self._sort_keys(whole), limit, self.cut.offset)
        return tuple(whole[i] for i in shown.places([[] for _ in whole]))

    def shape(self, groups: Sequence[Group]) -> Shape:
        """What is done once the numbers of these groups are released."""
        if self.is_public:
            return PLAIN
        keys, cut = self._sort_keys(groups), self.cut
        return Shape(self.test, keys, cut.limit, cut.offset, unnamed(groups))

    def _sort_keys(self, groups: Sequence[Group]) -> tuple[SortKey, ...]:
        return tuple(
            SortKey(
                key.column,
                () if key.grouping is None else self._ranks(key.grouping, groups),
                key.descending,
                key.nulls_first,
            )
            for key in self.keys
        )

    def _all(self, of: tuple[int, ...], regions: Regions) -> Iterator[Group]:
        """All groups of some groupings that have a cell; the first key varies slowest."""
        order, values = self._nested(of)
        for chosen in product(*values):
            names: list[str | None] = [grouping.total for grouping in self.groupings]
            places, region = [_ALL_OF_IT] * len(names), ALL
            for which, (place, value) in zip(order, chosen, strict=True):
                name = self.groupings[which].null if value.name is None else value.name
                names[which], places[which] = name, place
                region = regions.both(region, value.region)
            if region:
                together = (k for k, name in enumerate(names) if name is None and k not in of)
                yield Group(tuple(names), region, tuple(places), tuple(together))

    def _nested(
        self, of: tuple[int, ...]
    ) -> tuple[list[int], list[tuple[tuple[int, GroupValue], ...]]]:
        """The groupings from the outermost to the innermost, and the values of each in order."""
        keys: dict[int, Key] = {}
        for key in self.keys if self.is_public else ():
            if key.grouping in of:
                keys.setdefault(key.grouping, key)
        order = [*keys, *(k for k in of if k not in keys)]
        return order, [_ordered(self.groupings[k].values, keys.get(k)) for k in order]

    def _ranks(self, which: int, groups: Sequence[Group]) -> tuple[int | None, ...]:
        """Per group the place of its value; None for NULL, and where all are together."""
        places = (group.places[which] for group in groups)
        values = self.groupings[which].values
        return tuple(
            None if place == _ALL_OF_IT or values[place].name is None else place for place in places
        )


def unnamed(groups: Sequence[Group]) -> frozenset[int]:
    """The groups that NULL is a part of, and that have no name for it."""
    found = (
        (i, k) for i, group in enumerate(groups) for k, n in enumerate(group.names) if n is None
    )
    return frozenset(i for i, k in found if k not in groups[i].together)


def _ordered(values: Sequence[GroupValue], key: Key | None) -> tuple[tuple[int, GroupValue], ...]:
    """The values with their places, as ORDER BY puts them; NULL is the last unless it says so."""
    named = [(i, value) for i, value in enumerate(values) if value.name is not None]
    nulls = [(i, value) for i, value in enumerate(values) if value.name is None]
    if key is not None and key.descending:
        named.reverse()
    return (*nulls, *named) if key is not None and key.nulls_first else (*named, *nulls)
