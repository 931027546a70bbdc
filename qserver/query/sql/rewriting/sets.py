"""GROUP BY as sets of groups: ROLLUP, CUBE and GROUPING SETS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import prod

from sqlglot import exp

from qserver.errors import CapacityError
from qserver.query.sql.select.items import check_parts
from qserver.query.sql.text import SqlText

MOST_SETS = 64
_OTHER_FORMS = {"rollup": exp.Rollup, "cube": exp.Cube}
_Sets = list[list[exp.Expr]]


@dataclass(frozen=True)
class GroupingSets:
    """What a text groups by.

    Args:
        nodes: every part, once.
        sets: by which of them, by their index, each part of the table groups.
    """

    nodes: tuple[exp.Expr, ...] = ()
    sets: tuple[tuple[int, ...], ...] = ((),)

    @property
    def is_one(self) -> bool:
        """Whether there is one table of groups, without totals below it."""
        return len(self.sets) == 1


def grouping_sets(group: exp.Group | None, source: SqlText) -> GroupingSets:
    """The sets of a GROUP BY; one empty set without it.

    Raises:
        SqlError: it has a part that is no expression.
        CapacityError: there are too many sets.
    """
    if group is None:
        return GroupingSets()
    parts = _given(group, source)
    if not any(isinstance(part, exp.Rollup | exp.Cube | exp.GroupingSets) for part in parts):
        nodes = [node for part in parts for node in _listed(part)]
        return GroupingSets(tuple(nodes), (tuple(range(len(nodes))),))
    choices = [_sets(part) for part in parts]
    _check_sets(prod(map(len, choices)))
    chosen = [_joined(one) for one in product(*choices)]
    found = list[exp.Expr]()
    for one in chosen:
        check_parts(len(one), "A set of GROUP BY")
        for node in one:
            if node not in found:
                found.append(node)
        check_parts(len(found), "GROUP BY")
    sets = tuple(tuple(dict.fromkeys(found.index(node) for node in one)) for one in chosen)
    return GroupingSets(tuple(found), sets)


def _given(group: exp.Group, source: SqlText) -> list[exp.Expr]:
    """The parts of a GROUP BY; SqlError if it has others than expressions and sets."""
    given = {key for key, value in group.args.items() if value}
    if given - {"expressions", *_OTHER_FORMS} or not group.expressions:
        raise source.refuse("group by attributes alone", group)
    parts: list[exp.Expr] = list(group.expressions)
    for key, form in _OTHER_FORMS.items():
        if group.args.get(key):
            # GROUP BY a, b WITH ROLLUP.
            parts = [form(expressions=parts)]
    return parts


def _sets(part: exp.Expr) -> _Sets:
    """The sets that one part of GROUP BY stands for."""
    if isinstance(part, exp.GroupingSets):
        return [found for inner in part.expressions for found in _sets(inner)]
    if not isinstance(part, exp.Rollup | exp.Cube):
        return [_listed(part)]
    units = [_listed(unit) for unit in part.expressions]
    is_rollup, sizes = isinstance(part, exp.Rollup), range(len(units), -1, -1)
    _check_sets(len(units) + 1 if is_rollup else 1 << min(len(units), MOST_SETS))
    if is_rollup:
        return [_joined(units[:n]) for n in sizes]
    return [_joined(chosen) for n in sizes for chosen in combinations(units, n)]


def _check_sets(n: int) -> None:
    if n > MOST_SETS:
        raise CapacityError(f"GROUP BY has at most {MOST_SETS} sets of groups. Ask its parts.")


def _joined(units: Sequence[list[exp.Expr]]) -> list[exp.Expr]:
    return [node for unit in units for node in unit]


def _listed(node: exp.Expr) -> list[exp.Expr]:
    """The parts of a list in parentheses, or the one that it is."""
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node.unnest()]
