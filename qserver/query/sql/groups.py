"""GROUP BY: attributes and values derived from one record.

A group is a set of cells with a public name. CASE names sets of cells, a condition is one and its
rest, FLOOR, CEIL and WIDTH_BUCKET join neighbouring bins, and MONTH and its like join periods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from qserver.errors import SqlError
from qserver.query.domain import decimal_text
from qserver.query.sql.aggregates import RecordExpressions
from qserver.query.sql.attributes import Names, constant
from qserver.query.sql.logic import (
    FALSE,
    NOT_FALSE,
    NOT_TRUE,
    TRUE,
    Branching,
    branches_of,
    is_branching,
)
from qserver.query.sql.regions import ALL, Region, Regions
from qserver.query.sql.select import Item, Items, check_parts, written
from qserver.query.sql.values.expression_values import Derived
from qserver.query.sql.values.record_functions import derived, is_of_calendar

_CONDITIONS = exp.Predicate | exp.Connector | exp.Not


@dataclass(frozen=True)
class GroupValue:
    """A group's name and its cells; without a name it is the group of NULL."""

    name: str | None
    region: Region


@dataclass(frozen=True)
class Grouping:
    """One part of GROUP BY.

    Args:
        name: of its column.
        node: the grouped expression, without parentheses.
        axis: of the attribute, if it is one.
        values: its groups in order: that of the domain, of rising numbers, or of the CASE.
        course: all possible periods of its groups, in the order of time; empty for others.
    """

    name: str
    node: exp.Expr
    axis: int | None
    values: tuple[GroupValue, ...]
    course: tuple[str, ...] = ()


class Groups:
    """Groups on one domain, within the work limit of `regions`."""

    def __init__(self, names: Names, regions: Regions) -> None:
        self._names = names
        self._source = names.source
        self._regions = regions
        self._records = RecordExpressions(names, regions)

    def read(
        self, nodes: Sequence[exp.Expr], items: Items, where: exp.Expr | None
    ) -> tuple[Grouping, ...]:
        """The groupings of a text.

        Args:
            nodes: the parts of GROUP BY.
            where: the condition that removes groups.

        Raises:
            SqlError: it groups by something that is not public, or twice by one thing.
            CapacityError: it has too many parts, or takes too many steps.
        """
        check_parts(len(nodes), "GROUP BY")
        found = [self._grouping(node, items, where) for node in nodes]
        for k, (node, one) in enumerate(zip(nodes, found, strict=True)):
            if any(
                g.axis == one.axis and (g.axis is not None or g.node == one.node) for g in found[:k]
            ):
                raise self._source.refuse("group by each attribute once", node)
        return tuple(found)

    def _grouping(self, node: exp.Expr, items: Items, where: exp.Expr | None) -> Grouping:
        item = self._item(node, items)
        meant = self._without_total(node if item is None else item.node)
        if isinstance(meant, exp.Column) and self._names.level(meant) is None:
            axis = self._names.axis(meant)
            possible = self._records.possible(where, axis)
            name = item.alias if item is not None and item.alias else self._alias(axis, items)
            attribute = self._names.domain.attributes[axis]
            n_known = min(attribute.n_sealed, attribute.n_regular)
            course = attribute.value_names[:n_known] if attribute.is_timed else ()
            values = tuple(self._attribute(axis, possible))
            return Grouping(name, meant, axis, values, course=course)
        if constant(meant, self._source) is not None or isinstance(meant, exp.Literal):
            raise self._source.refuse("group by attributes, not by one value", node)
        if isinstance(meant, exp.AggFunc):
            raise self._source.refuse("group by attributes of a record, not by counts", node)
        same = items.same_as(meant)
        name = written(meant, self._source) if same is None else items.found[same].name
        found = self._values(meant)
        of_time = self._derived(meant) if is_of_calendar(meant) else None
        course = () if of_time is None else tuple(of_time.places)
        return Grouping(name, meant, None, self._kept(found, where), course=course)

    def _without_total(self, node: exp.Expr) -> exp.Expr:
        """The groups; COALESCE with a text of another group joins NULL to it."""
        inner, text = without_total(node)
        if text is None:
            return inner
        if all(value.name != text for value in self._values(inner)):
            return inner
        return node.unnest()

    def _item(self, node: exp.Expr, items: Items) -> Item | None:
        """The item of SELECT for a position or a name; attributes take precedence."""
        at = items.at_position(node.unnest())
        if at is None and not self._names.is_known(node.unnest()):
            at = items.of_alias(node.unnest())
        return None if at is None else items.found[at]

    def _alias(self, axis: int, items: Items) -> str:
        """SELECT's alias of an attribute."""
        for item in items.found:
            if item.alias and self._names.is_axis(item.node, axis):
                return item.alias
        return self._names.domain.names[axis]

    def _attribute(self, axis: int, mask: int) -> Iterator[GroupValue]:
        attribute, null = self._names.domain.attributes[axis], self._names.null(axis)
        return (
            GroupValue(None if null >> i & 1 else name, self._regions.of_mask(axis, 1 << i))
            for i, name in enumerate(attribute.value_names[: attribute.n_sealed])
            if mask >> i & 1
        )

    def _kept(self, found: Iterable[GroupValue], where: exp.Expr | None) -> tuple[GroupValue, ...]:
        """The groups that a condition leaves."""
        kept = self._records.cells(where)
        return tuple(value for value in found if self._regions.both(value.region, kept))

    def _values(self, node: exp.Expr) -> list[GroupValue]:
        """Every value of an expression of one record, with the cells on which it has it."""
        node = node.unnest()
        if isinstance(node, exp.Literal) and node.is_string:
            return [GroupValue(node.this, ALL)]
        number = constant(node, self._source)
        if number is not None:
            return [GroupValue(decimal_text(number), ALL)]
        if isinstance(node, exp.Null):
            return [GroupValue(None, ALL)]
        if (found := self._derived(node)) is not None:
            named = [*found.regions.items(), *([(None, found.null)] if found.null else [])]
            return [GroupValue(name, region) for name, region in named]
        if isinstance(node, exp.Column):
            axis = self._names.axis(node)
            everything = (1 << self._names.domain.sizes[axis]) - 1
            return list(self._attribute(axis, everything))
        if is_branching(node):
            return self._case(node)
        if isinstance(node, _CONDITIONS):
            return self._truths(node)
        raise self._no_group(node)

    def _derived(self, node: exp.Expr) -> Derived | None:
        """Groups of derived values, without periods that have no data yet."""
        found = derived(node, self._names, self._regions, near="refuse")
        axis = self._names.domain.period_axis
        if found is None or axis is None or axis not in found.axes:
            return found
        n_sealed = self._names.domain.attributes[axis].n_sealed
        sealed = self._regions.of_mask(axis, (1 << n_sealed) - 1)
        both = {text: self._regions.both(one, sealed) for text, one in found.regions.items()}
        places = {text: at for text, at in found.places.items() if both[text]}
        kept = {text: region for text, region in both.items() if region}
        return replace(found, regions=kept, places=places)

    def _truths(self, node: exp.Expr) -> list[GroupValue]:
        """Groups of a condition: false, true, and NULL if it may be unknown."""
        both = (("false", FALSE), ("true", TRUE))
        found = [GroupValue(name, self._records.region(node, one)) for name, one in both]
        parts = (self._records.region(node, one) for one in (NOT_TRUE, NOT_FALSE))
        unknown = self._regions.both(*parts)
        return [*found, *([GroupValue(None, unknown)] if unknown else [])]

    def _case(self, node: Branching) -> list[GroupValue]:
        """Groups of CASE: named by the first branch whose condition is true."""
        rest, found, branches = ALL, dict[str | None, list[Region]](), branches_of(node)
        for condition, value in branches.pairs:
            here = self._regions.both(rest, self._records.region(condition))
            self._add(found, value, here)
            rest = self._regions.both(rest, self._records.region(condition, NOT_TRUE))
        self._add(found, branches.default, rest)
        return self._together(found)

    def _together(self, found: Mapping[str | None, Sequence[Region]]) -> list[GroupValue]:
        """Groups by their names, NULL last."""
        named = sorted(found.items(), key=lambda one: one[0] is None)
        return [GroupValue(name, self._regions.either(parts)) for name, parts in named]

    def _add(self, found: dict[str | None, list[Region]], value: exp.Expr, here: Region) -> None:
        for one in self._values(value):
            both = self._regions.both(here, one.region)
            if both:
                found.setdefault(one.name, []).append(both)

    def _no_group(self, node: exp.Expr) -> SqlError:
        axes = {self._names.axis(column) for column in node.find_all(exp.Column)}
        attributes = [self._names.domain.attributes[axis] for axis in axes]
        if len(attributes) == 1 and not attributes[0].is_numeric:
            what = {"labels": "labels", "date": "dates"}.get(attributes[0].kind, "periods")
            return self._source.refuse(
                f"calculate with numbers: `{attributes[0].name}` has {what}", node
            )
        return self._source.refuse(
            "group by attributes, CASE, conditions, and FLOOR, CEIL, WIDTH_BUCKET or MONTH of one",
            node,
            hint="Nearest: COUNT(*) FILTER (WHERE ...) per group of your own.",
        )


def without_total(node: exp.Expr) -> tuple[exp.Expr, str | None]:
    """The argument and the text of COALESCE(a, 'text')."""
    node = node.unnest()
    if isinstance(node, exp.Coalesce) and len(node.expressions) == 1:
        text, first = node.expressions[0], node.this.unnest()
        is_text = isinstance(text, exp.Literal) and text.is_string
        if is_text and not isinstance(first, exp.AggFunc):
            return first, str(text.this)
    return node, None
