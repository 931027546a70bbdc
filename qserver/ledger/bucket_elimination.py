"""The greatest value of a sum of tables by bucket elimination.

For one axis after the other, the tables that mention it are added up, and their sum is replaced by
its greatest entries along the axis: a table over the other axes. The result is exact if every such
sum is formed whole. A sum that would be too large is split into groups (mini-buckets), and each
group is maximised alone. This can only raise the result.

References:
    Dechter (1999), "Bucket elimination". Dechter and Rish (2003), "Mini-buckets".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import prod

from qserver.ledger.classes import Partition, common
from qserver.ledger.loss_tables import SumTable, TableLayout, total


@dataclass(frozen=True, eq=False)
class _Group:
    """Tables to be added up, and the layout of their sum."""

    layout: TableLayout
    tables: list[SumTable]


def eliminate(
    tables: Sequence[SumTable], *, max_entries: int, kept: Collection[int] = ()
) -> SumTable:
    """The greatest value of the sum of `tables` over all axes but `kept`, or an upper bound.

    Args:
        tables: at least one.
        max_entries: most entries of a group, unless one table alone has more.
        kept: axes that the result may still depend on.

    Returns:
        A table over the kept axes. It is exact if `is_narrow` holds.
    """
    left = list(tables)
    classes = _class_counts(left)
    while (axis := _next_axis([t.layout.axes for t in left], classes, kept)) is not None:
        bucket = [t for t in left if axis in t.layout.by_axis]
        left = [t for t in left if axis not in t.layout.by_axis]
        groups = _groups(bucket, max_entries)
        left += [total(group.tables).maximum_over([axis]) for group in groups]
    return total(left)


def is_narrow(tables: Sequence[SumTable], *, max_entries: int) -> bool:
    """Whether `eliminate` splits no group, judged from axes and numbers of classes alone."""
    classes = _class_counts(tables)
    scopes = list({t.layout.axes for t in tables})
    while (axis := _next_axis(scopes, classes, ())) is not None:
        bucket = {a for s in scopes if axis in s for a in s}
        if prod(classes[a] for a in bucket) > max_entries:
            return False
        scopes = [s for s in scopes if axis not in s] + [tuple(sorted(bucket - {axis}))]
    return True


def _class_counts(tables: Sequence[SumTable]) -> dict[int, int]:
    """Number of classes per axis after all tables are refined to one partition."""
    joined: dict[int, Partition] = {}
    for table in tables:
        for axis, partition in table.layout.by_axis.items():
            joined[axis] = common(joined[axis], partition) if axis in joined else partition
    return {axis: partition.n for axis, partition in joined.items()}


def _next_axis(
    scopes: Iterable[tuple[int, ...]], classes: dict[int, int], kept: Collection[int]
) -> int | None:
    """The axis with the smallest bucket, or None if only kept axes remain."""
    neighbours: dict[int, set[int]] = {}
    for scope in scopes:
        for axis in scope:
            neighbours.setdefault(axis, set()).update(scope)
    choice = [a for a in neighbours if a not in kept]
    if not choice:
        return None
    return min(choice, key=lambda a: (prod(classes[b] for b in neighbours[a]), a))


def _groups(tables: Sequence[SumTable], max_entries: int) -> list[_Group]:
    """Groups by first fit, the largest table first: a table joins one that contains its axes."""
    groups: list[_Group] = []
    for table in sorted(tables, key=lambda t: -t.layout.n_entries):
        for i, group in enumerate(groups):
            layout = group.layout.joined_with(table.layout)
            if layout is group.layout or layout.n_entries <= max_entries:
                groups[i] = _Group(layout, [*group.tables, table])
                break
        else:
            groups.append(_Group(table.layout, [table]))
    return groups
