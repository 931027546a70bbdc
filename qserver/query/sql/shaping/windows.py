"""OVER: the groups of a table that a sum of groups, or a rank, is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from qserver.errors import SqlError
from qserver.query.sql.regions import ALL, Region, Regions
from qserver.query.sql.shaping.groups import Grouping, Groups
from qserver.query.sql.text import SqlText

_MOST_DIGITS = 5


@dataclass(frozen=True)
class Running:
    """A running total: groups up to the present one, or about it, in the order of a grouping.

    Args:
        before, after: how many groups before the present one and after it; None for all.
    """

    grouping: int
    descending: bool
    before: int | None = None
    after: int | None = 0

    def places(self, at: int) -> slice:
        """The places of the groups that are summed at a place."""
        before, after = (self.after, self.before) if self.descending else (self.before, self.after)
        first = 0 if before is None else max(at - before, 0)
        return slice(first, None if after is None else at + after + 1)


@dataclass(frozen=True)
class Over:
    """Groups that agree with the present one.

    Args:
        partition: in which groupings, by their index; none for the whole table.
        running: up to where; None for all.
    """

    partition: frozenset[int] = frozenset()
    running: Running | None = None

    def of(self, places: Sequence[int]) -> tuple[int, ...]:
        """What it depends on of a group's places."""
        running = () if self.running is None else (self.running.grouping,)
        return tuple(places[k] for k in (*sorted(self.partition), *running))


class Windows:
    """The windows of one table.

    Args:
        is_whole: whether the table is one table of groups, and no released number leaves any out.
    """

    def __init__(
        self, source: SqlText, groupings: Sequence[Grouping], groups: Groups, *, is_whole: bool
    ) -> None:
        self._source = source
        self._groupings = groupings
        self._groups = groups
        self._is_whole = is_whole

    def over(self, node: exp.Window) -> Over:
        """The groups that a window sums over.

        Raises:
            SqlError: it names no group of the table, or the table has totals, or HAVING.
        """
        self._check(node)
        partition = self.partition(node)
        order, spec = node.args.get("order"), node.args.get("spec")
        if order is None:
            if spec is not None:
                raise self._frame(node)
            return Over(partition)
        if len(order.expressions) != 1:
            raise self._frame(node)
        by = order.expressions[0]
        which = self._grouping(by.this)
        others = set(range(len(self._groupings))) - partition
        ends = _ends(spec, alone=which is not None and others <= {which})
        if which is None or ends is None:
            raise self._frame(node)
        return Over(partition, Running(which, bool(by.args.get("desc")), *ends))

    def partition(self, node: exp.Window) -> frozenset[int]:
        """The groupings of PARTITION BY.

        Raises:
            SqlError: it names something else.
        """
        found = set()
        for part in node.args.get("partition_by") or ():
            which = self._grouping(part)
            if which is None:
                raise self._source.refuse(
                    "group by what PARTITION BY names", part, hint="Nearest: OVER ()."
                )
            found.add(which)
        return frozenset(found)

    def region(self, over: Over, places: Sequence[int], regions: Regions) -> Region:
        """The cells of the groups that a window sums over.

        Args:
            places: of the present group, per grouping the place of its value.
        """
        found = ALL
        for k in sorted(over.partition):
            found = regions.both(found, self._groupings[k].values[places[k]].region)
        if (running := over.running) is not None:
            values, at = self._groupings[running.grouping].values, places[running.grouping]
            summed = [value.region for value in values[running.places(at)]]
            found = regions.both(found, regions.either(summed))
        return found

    def _check(self, node: exp.Window) -> None:
        if not self._groupings:
            raise self._source.refuse("group by something where it says OVER", node)
        if not self._is_whole:
            raise self._source.refuse(
                "have neither HAVING by numbers nor ROLLUP where it sums OVER groups",
                node,
                hint="Nearest: the same without HAVING.",
            )

    def _grouping(self, node: exp.Expr) -> int | None:
        for k, grouping in enumerate(self._groupings):
            is_alias = (
                isinstance(node, exp.Column)
                and not node.args.get("table")
                and grouping.axis is None
                and node.name.lower() == grouping.name.lower()
            )
            if is_alias or self._groups.is_of(node, grouping):
                return k
        return None

    def _frame(self, node: exp.Window) -> SqlError:
        return self._source.refuse(
            "sum over all groups of a partition, or up to the present one or about it by a group",
            node,
            hint="Nearest: OVER (ORDER BY a), with a group of the table; where it is the only one "
            "besides the partition, also ROWS BETWEEN 3 PRECEDING AND CURRENT ROW.",
        )


def _ends(spec: exp.WindowSpec | None, *, alone: bool) -> tuple[int | None, int | None] | None:
    """How many groups a frame has before the present one and after it; None for no such frame.

    Args:
        alone: whether there is one group at each place of the order, so that rows are places.
    """
    if spec is None:
        return None, 0
    kind = str(spec.args.get("kind") or "").upper()
    start = _end(spec.args.get("start"), spec.args.get("start_side"), "PRECEDING")
    end = _end(spec.args.get("end"), spec.args.get("end_side"), "FOLLOWING")
    if spec.args.get("end") is None:
        end = 0
    is_usual = kind == "RANGE" and (start, end) == (None, 0)
    if start is False or end is False or not (is_usual or (kind == "ROWS" and alone)):
        return None
    return start, end


def _end(said: object, side: object, outward: str) -> int | Literal[False] | None:
    """How far an end of a frame lies from the present row; None for all rows, False for others."""
    text, is_outward = str(said or "").upper(), str(side or "").upper() == outward
    if text == "CURRENT ROW":
        return 0
    if text == "UNBOUNDED":
        return None if is_outward else False
    return int(text) if text.isdecimal() and len(text) < _MOST_DIGITS and is_outward else False
