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


@dataclass
class Layout:
    """The groups of a table, in the order in which they are measured.

    Args:
        groupings, keys, cut, test: GROUP BY, ORDER BY, LIMIT with OFFSET, and HAVING.
        names: per group that `groups` gave the places of its values.
    """

    groupings: Sequence[Grouping]
    keys: tuple[Key, ...]
    cut: Cut
    test: Test | None

    @cached_property
    def is_public(self) -> bool:
        """Whether no released number decides which groups are shown, and in what order."""
        return self.test is None and all(key.column is None for key in self.keys)

    @property
    def most_rows(self) -> int:
        """How many groups are measured at most."""
        n = prod(len(grouping.values) for grouping in self.groupings)
        return min(n, self.cut.limit or n) if self.is_public else n

    def groups(self, regions: Regions) -> Iterator[tuple[tuple[str, ...], Region]]:
        """Names and cells of the groups that are measured; those without a cell are left out."""
        found = self._all(regions)
        if not self.is_public:
            return found
        limit = self.cut.limit
        stop = None if limit is None else self.cut.offset + limit
        return islice(found, self.cut.offset, stop)

    def shape(self, groups: Sequence[tuple[str, ...]]) -> Shape:
        """What is done once the numbers of these groups are released."""
        if self.is_public:
            return PLAIN
        keys = tuple(
            SortKey(
                key.column,
                () if key.grouping is None else self._ranks(key.grouping, groups),
                key.descending,
                key.nulls_first,
            )
            for key in self.keys
        )
        return Shape(self.test, keys, self.cut.limit, self.cut.offset)

    def _ranks(self, which: int, groups: Sequence[tuple[str, ...]]) -> tuple[int, ...]:
        """Per group the place of its value."""
        names = [value.name for value in self.groupings[which].values]
        places = {name: i for i, name in enumerate(names)}
        return tuple(places[group[which]] for group in groups)

    def _all(self, regions: Regions) -> Iterator[tuple[tuple[str, ...], Region]]:
        """All groups that have a cell; the first key varies slowest."""
        order, values = self._nested()
        for chosen in product(*values):
            names, region = [""] * len(order), ALL
            for which, value in zip(order, chosen, strict=True):
                names[which] = value.name
                region = regions.both(region, value.region)
            if region:
                yield tuple(names), region

    def _nested(self) -> tuple[list[int], list[tuple[GroupValue, ...]]]:
        """The groupings from the outermost to the innermost, and the values of each in order."""
        n = len(self.groupings)
        descending: dict[int, bool] = {}
        for key in self.keys if self.is_public else ():
            if key.grouping is not None:
                descending.setdefault(key.grouping, key.descending)
        order = [*descending, *(k for k in range(n) if k not in descending)]
        values = [self.groupings[k].values for k in order]
        pairs = zip(order, values, strict=True)
        return order, [v[::-1] if descending.get(k) else v for k, v in pairs]
