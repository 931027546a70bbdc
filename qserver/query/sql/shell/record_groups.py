"""The groups of a SELECT over records, and the counts, sums and averages of each.

They may be sets of groups, by ROLLUP, CUBE and GROUPING SETS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from math import prod

from sqlglot import exp

from qserver.errors import CapacityError
from qserver.query.sql.aggregates import Aggregates
from qserver.query.sql.attributes import Names
from qserver.query.sql.engine.run import Table
from qserver.query.sql.functions.group_count import Passing
from qserver.query.sql.functions.item_meaning import Item, Linear, Several, changed
from qserver.query.sql.groups import Grouping, Groups
from qserver.query.sql.logic import has_value
from qserver.query.sql.order_by import Compare
from qserver.query.sql.regions import ALL, Functions, ProductTerm, Region, Regions
from qserver.query.sql.select import Items, check_parts
from qserver.query.sql.shaping.units_of_measure import Unit, unit_of
from qserver.query.sql.text import SqlText

MOST_GROUPS = 1 << 14
ALL_OF_IT = -1
_NUMBER = re.compile(r"-?\d{1,18}(\.\d{1,9})?")


@dataclass(frozen=True)
class Group:
    """One group: the place of its value per grouping, -1 for all together."""

    places: tuple[int, ...]


@dataclass(frozen=True)
class Atom:
    """An aggregate of every group."""

    node: exp.Expr
    item: Item
    unit: Unit


@dataclass
class Core:
    """A SELECT over records, as a table of groups.

    Args:
        index: its number in the text.
        select: reads the dataset itself.
        items: of the SELECT.
        where: condition on records, with those on groups.
        regions: sets of cells, with the limit on work of the whole text.
    """

    index: int
    names: Names
    select: exp.Select
    items: Items
    where: exp.Expr | None
    regions: Regions
    atoms: list[Atom] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.groups = Groups(self.names, self.regions)
        self._functions = Functions(self.regions)
        self.sets = self._sets()
        self.groupings = self.groups.read(self.sets.nodes, self.items, self.where)
        self._aggregates = Aggregates(self.names, self.regions, self._counted)
        self._kept = self._aggregates.condition(self.where)
        self._known: dict[tuple[int, tuple[int, ...]], Item] = {}

    def _sets(self) -> GroupingSets:
        """The text's grouping sets; SELECT DISTINCT groups by its attributes."""
        group = self.select.args.get("group")
        found = grouping_sets(group, self.names.source)
        nodes = tuple(item.node for item in self.items.found)
        is_of_groups = not any(node.find(exp.AggFunc, exp.Star, exp.Window) for node in nodes)
        if group is None and self.select.args.get("distinct") and is_of_groups:
            return GroupingSets(nodes, (tuple(range(len(nodes))),))
        return found

    @cached_property
    def rows(self) -> tuple[Group, ...]:
        """The groups in the order of the domain, without empty sets of cells.

        Raises:
            CapacityError: there are too many.
        """
        sizes = [len(grouping.values) for grouping in self.groupings]
        if sum(prod(sizes[k] for k in one) for one in self.sets.sets) > MOST_GROUPS:
            raise CapacityError(
                f"A text of SQL makes at most {MOST_GROUPS:,} groups. Group by fewer values: WHERE "
                "leaves groups out."
            )
        return tuple(group for one in self.sets.sets for group in self._all(one))

    def _all(self, of: Sequence[int]) -> Iterator[Group]:
        overlap = self._overlap(of)
        for chosen in product(*(range(len(self.groupings[k].values)) for k in of)):
            places = [ALL_OF_IT] * len(self.groupings)
            for k, place in zip(of, chosen, strict=True):
                places[k] = place
            group = Group(tuple(places))
            if not overlap or self._region(group):
                yield group

    def _overlap(self, of: Sequence[int]) -> bool:
        """Whether two groupings share an attribute, so that some groups have no cell."""
        axes = [
            {axis for value in self.groupings[k].values for box in value.region for axis in box}
            for k in of
        ]
        return sum(map(len, axes)) > len(set[int]().union(*axes))

    def _region(self, group: Group) -> Region:
        found = ALL
        for grouping, place in zip(self.groupings, group.places, strict=True):
            if place != ALL_OF_IT:
                found = self.regions.both(found, grouping.values[place].region)
        return found

    def key(self, node: exp.Expr) -> int | None:
        """The grouping of an expression; None for another, and for one value."""
        if isinstance(node, exp.Null | exp.Literal | exp.Boolean):
            return None
        for k, grouping in enumerate(self.groupings):
            is_one = node == grouping.node
            if grouping.axis is not None and isinstance(node, exp.Column):
                is_one = not isinstance(node.this, exp.Star) and self.names.is_axis(
                    node, grouping.axis
                )
            if is_one:
                return k
        return None

    def has_labels(self, k: int) -> bool:
        """Whether the values of a grouping are labels or other texts, not bins or periods."""
        one = self.groupings[k]
        if one.axis is not None:
            return self.names.domain.attributes[one.axis].kind == "labels"
        return not one.course

    def atom(self, node: exp.Expr) -> int:
        """The place of an aggregate among the atoms; SqlError if it cannot be answered."""
        for i, one in enumerate(self.atoms):
            if one.node == node:
                return i
        item = self._aggregates.item(node)
        self.atoms.append(Atom(node, item, unit_of(node, item, self.names)))
        return len(self.atoms) - 1

    def item(self, atom: int, rows: tuple[int, ...]) -> Item:
        """An atom of a group; of several groups together if it is linear."""
        key = atom, rows
        if key not in self._known:
            inside = self._functions.multiplied(self._indicator(rows), self._kept)
            self._known[key] = changed(self.atoms[atom].item, lambda part: self._on(part, inside))
        return self._known[key]

    def _on(self, part: Linear, inside: tuple[ProductTerm, ...]) -> Linear:
        return Linear(self._functions.multiplied(part.terms, inside), part.error)

    def _indicator(self, rows: tuple[int, ...]) -> tuple[ProductTerm, ...]:
        if len(rows) == 1:
            return self._functions.indicator(self._region(self.rows[rows[0]]))
        return self._functions.indicator(self._union(rows))

    def _union(self, rows: tuple[int, ...]) -> Region:
        """The cells of several groups."""
        of = [self.rows[i].places for i in rows]
        chosen = [sorted({places[k] for places in of}) for k in range(len(self.groupings))]
        if prod(map(len, chosen)) == len(set(of)):
            found = ALL
            for grouping, places in zip(self.groupings, chosen, strict=True):
                if len(places) < len(grouping.values) and ALL_OF_IT not in places:
                    values = [grouping.values[place].region for place in places]
                    found = self.regions.both(found, self.regions.either(values))
            return found
        return self.regions.either([self._region(self.rows[i]) for i in rows])

    def adds_up(self, rows: tuple[int, ...]) -> bool:
        """Whether several groups have no record in common."""
        together = {tuple(place == ALL_OF_IT for place in self.rows[i].places) for i in rows}
        return len(together) == 1 and len(set(rows)) == len(rows)

    def table(self, name: str) -> Table:
        """The groups and references to their numbers, for the engine.

        Columns: o, the place of a group; per grouping its value and whether all are together; per
        atom a reference.
        """
        columns, types = ["o"], ["BIGINT"]
        values = list[list[object]]()
        for k, grouping in enumerate(self.groupings):
            kind, own = _typed(grouping, self.names)
            columns += [f"k{k}", f"t{k}"]
            types += [kind, "BOOLEAN"]
            values.append(own)
        columns += [f"a{i}" for i in range(len(self.atoms))]
        types += ["VARCHAR"] * len(self.atoms)
        rows = list[tuple[object, ...]]()
        for i, group in enumerate(self.rows):
            keys = list[object]()
            for own, place in zip(values, group.places, strict=True):
                keys += [None, True] if place == ALL_OF_IT else [own[place], False]
            refs = (f'"{self.index}.{a}.{i}"' for a in range(len(self.atoms)))
            rows.append((i, *keys, *refs))
        return Table(name, tuple(columns), tuple(types), tuple(rows))

    def _counted(self, of: exp.Expr) -> Several | None:
        """Number of an expression's non-NULL values with a record; None if none can have one."""
        known = has_value(of.copy())
        where = self.where
        if where is not None:
            known = exp.And(this=exp.Paren(this=where.copy()), expression=known)
        select = exp.Select(expressions=[of.copy()], group=exp.Group(expressions=[of.copy()]))
        items = Items(self.names.source, ())
        core = Core(self.index, self.names, select, items, known, self.regions)
        return core.with_a_record() if core.rows else None

    def with_a_record(self) -> Several:
        """The number of groups with a record."""
        count = self.atom(exp.Count(this=exp.Star()))
        parts = tuple(self.item(count, (i,)) for i in range(len(self.rows)))
        test = Compare(0, ">=", Fraction(1))
        linear = tuple(part for part in parts if isinstance(part, Linear))
        return Several(linear, Passing(test, (0,), (True,), len(linear)))


def _typed(grouping: Grouping, names: Names) -> tuple[str, list[object]]:
    """The type of a grouping's values in the engine, and the values."""
    texts = [value.name for value in grouping.values]
    known = [text for text in texts if text is not None]
    if known and set(known) <= {"true", "false"} and grouping.axis is None:
        return "BOOLEAN", [None if text is None else text == "true" for text in texts]
    is_label = grouping.axis is not None and not names.domain.attributes[grouping.axis].is_numeric
    if known and not is_label and all(_NUMBER.fullmatch(text) for text in known):
        if not any("." in text for text in known):
            return "BIGINT", [None if text is None else int(text) for text in texts]
        return "DECIMAL(27,9)", [None if text is None else Fraction(text) for text in texts]
    # The order of the domain is that of the type.
    listed = ", ".join("'" + text.replace("'", "''") + "'" for text in dict.fromkeys(known))
    return (f"ENUM({listed})" if known else "VARCHAR"), list(texts)


MOST_SETS = 64
_OTHER_FORMS = {"rollup": exp.Rollup, "cube": exp.Cube}
_Sets = list[list[exp.Expr]]


@dataclass(frozen=True)
class GroupingSets:
    """The groupings of a text.

    Args:
        nodes: every part, once.
        sets: indexes of the parts of each grouping set.
    """

    nodes: tuple[exp.Expr, ...] = ()
    sets: tuple[tuple[int, ...], ...] = ((),)

    @property
    def is_one(self) -> bool:
        """Whether there is one grouping set, without totals."""
        return len(self.sets) == 1


def grouping_sets(group: exp.Group | None, source: SqlText) -> GroupingSets:
    """The sets of a GROUP BY; one empty set without it.

    Raises:
        SqlError: it has a part other than an expression.
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
    """The parts of a GROUP BY; SqlError for others than expressions and sets."""
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
    """The grouping sets of one part of GROUP BY."""
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
    """The parts of a list in parentheses, or the single part."""
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node.unnest()]
