"""Read one SELECT from a dataset into the part of a table that it asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import Literal

from sqlglot import exp

from qserver.errors import CapacityError, InputError, SqlError
from qserver.query.calendar.sealed import clipped
from qserver.query.domain import Domain
from qserver.query.linear import LinearQuery, checked_span, linear_query
from qserver.query.sql.aggregates import Aggregates
from qserver.query.sql.attributes import Names
from qserver.query.sql.combined.function import Combined
from qserver.query.sql.combined.meaning import (
    Event,
    Item,
    Linear,
    Quotient,
    Several,
    Wide,
    changed,
    fitted,
    n_parts,
)
from qserver.query.sql.conditions.branches import has_value
from qserver.query.sql.functions import Functions, ProductTerm
from qserver.query.sql.plain.reads import JOINED
from qserver.query.sql.regions import Regions
from qserver.query.sql.rewriting.counted import with_some_record
from qserver.query.sql.rewriting.sets import GroupingSets, grouping_sets
from qserver.query.sql.rewriting.spelling import respelt
from qserver.query.sql.rewriting.subselects import PARTS
from qserver.query.sql.rewriting.tidy import SCHEMA, tidied
from qserver.query.sql.shaping.groups import Grouping, Groups
from qserver.query.sql.shaping.items import Items, items_of
from qserver.query.sql.shaping.layout import Group, Layout, unnamed
from qserver.query.sql.shaping.reading import Columns, Having, ShapeReader
from qserver.query.sql.shaping.shape import PLAIN
from qserver.query.sql.shaping.windows import Over, Windows
from qserver.query.sql.statement import MAX_CELLS, Binning, Bounds, Cell, Course, Ratio, Row, Sum
from qserver.query.sql.tables.missing import left_out, remarks_on_null
from qserver.query.sql.tables.part import Part
from qserver.query.sql.tables.passing_groups import passing_groups
from qserver.query.sql.tables.units import unit_of
from qserver.query.sql.text import SqlText
from qserver.query.sql.values.derived import remarks_on

_UNRANKED = (
    "Groups of missing values are neither ranked nor chosen among others; COALESCE(a, 'none') "
    "names them, so that they are."
)


class SelectReading:
    """The reading of one SELECT.

    Args:
        select: it reads the dataset itself.
        regions: sets of cells, with the work limit of the whole text.
        above: names of the SELECT that it is part of.
    """

    def __init__(
        self,
        source: SqlText,
        select: exp.Select,
        domain: Domain,
        dataset: str,
        regions: Regions,
        *,
        above: Names | None = None,
    ) -> None:
        self._source = source
        self._domain = domain
        self._dataset = dataset
        self._names = replace(above or Names(domain, source), tables=self._tables(select))
        self._written = select.copy() if self._has_null(select) else None
        self._select = tidied(respelt(select, self._names), self._names)
        self._regions = regions
        self._functions = Functions(regions)
        self._groups = Groups(self._names, regions)

    def part(self) -> Part:
        """The table of the SELECT.

        Raises:
            SqlError: it cannot be answered; points at the place.
            CapacityError: it asks too much.
        """
        select = self._select
        items = items_of(self._source, select)
        having = Having.of(select, self._names)
        sets = self._sets(items)
        condition = select.args.get("where")
        condition = having.where(None if condition is None else condition.this)
        groupings = self._groups.read(sets.nodes, items, condition)
        columns = Columns.of(items, groupings, self._groups)
        groupings = (*groupings, *columns.constants)
        is_whole = sets.is_one and not having.others
        windows = Windows(self._source, groupings, self._groups, is_whole=is_whole)
        self._windows = windows
        self._aggregates = Aggregates(
            self._names, self._regions, windows, self._inner, self._counted
        )
        reader = ShapeReader(self._names, items, groupings, self._groups, columns)
        found = self._meanings(columns, 0)
        ranks = reader.ranks(windows)
        test, keys = reader.test(having), reader.keys(select.args.get("order"))
        shown = tuple((*s, *columns.constants_of(s, len(sets.nodes))) for s in sets.sets)
        layout = Layout(groupings, keys, reader.cut(select), test, shown)
        if not columns.nodes and not (sets.nodes and sets.is_one and columns.are_groups):
            raise self._nothing()  # though HAVING, ORDER BY and ranks may have added some
        found += self._meanings(columns, len(found))
        meant = tuple(item.of if isinstance(item, Event) else item for item in found)
        groups, rows = self._rows(layout, meant, self._aggregates.condition(condition))
        bounds, shape, nulls = self._bounds(found), layout.shape(groups), unnamed(groups)
        if bounds and (shape != PLAIN or ranks):
            raise self._no_choice()
        return Part(
            tuple(columns.names),
            tuple(grouping.name for grouping in groupings),
            rows,
            bounds,
            shape,
            tuple(columns.digits) if any(d is not None for d in columns.digits) else (),
            tuple(rank.of([group.places for group in groups], nulls) for rank in ranks),
            columns.exact,
            tuple(zip(columns.grouping, columns.place, strict=True)),
            _course(groupings),
            (*self._remarks(rows), *([_UNRANKED] if nulls and (ranks or shape.chooses) else [])),
            tuple(unit_of(*one, self._names) for one in zip(columns.nodes, found, strict=True)),
            tuple(columns.stops),
        )

    def _remarks(self, rows: Sequence[Row]) -> tuple[str, ...]:
        select, names = self._select, self._names
        return (*remarks_on(select, names), *remarks_on_null(select, names), *self._left_out(rows))

    def _nothing(self) -> SqlError:
        return self._source.refuse(
            "count or sum something",
            self._select.expressions[0],
            hint="Nearest: SELECT COUNT(*).",
        )

    def _no_choice(self) -> SqlError:
        return self._source.refuse(
            "not order or choose by probabilities",
            self._select.expressions[0],
            hint="Nearest: the same without HAVING, ORDER BY and LIMIT.",
        )

    def _has_null(self, select: exp.Select) -> bool:
        """Whether it names an attribute whose values may be missing."""
        known = filter(self._names.is_known, select.find_all(exp.Column))
        return any(self._names.null(self._names.any_axis(column)) for column in known)

    def _left_out(self, rows: Sequence[Row]) -> tuple[str, ...]:
        """Of which attributes earlier versions counted missing values."""
        written, noted = self._written, self._names.noted
        if written is None or not noted:
            return ()

        def before() -> Sequence[Row]:
            names = replace(self._names, as_before=True, noted=set())
            return self._reading(written, Regions(self._domain.sizes), names).part().rows

        return left_out(rows, before, self._domain, noted)

    def _reading(self, select: exp.Select, regions: Regions, names: Names) -> SelectReading:
        return SelectReading(
            self._source, select, self._domain, self._dataset, regions, above=names
        )

    def _sets(self, items: Items) -> GroupingSets:
        """What the text groups by; SELECT DISTINCT of attributes groups by these."""
        group = self._select.args.get("group")
        found = grouping_sets(group, self._source)
        nodes = tuple(item.node for item in items.found)
        is_of_groups = not any(node.find(exp.AggFunc, exp.Star, exp.Window) for node in nodes)
        if group is None and self._select.args.get("distinct") and is_of_groups:
            return GroupingSets(nodes, (tuple(range(len(nodes))),))
        return found

    def number(self) -> Linear | Quotient:
        """What a SELECT of one number of all records means; raises as `part` does."""
        select, source = self._select, self._source
        others = {key for key, value in select.args.items() if value}
        if others - {"expressions", "from_", "where"} or len(select.expressions) != 1:
            raise source.refuse(
                "select one number in an inner SELECT among the items, without GROUP BY",
                select.expressions[0],
            )
        items = items_of(source, select)
        windows = Windows(source, (), self._groups, is_whole=True)
        aggregates = Aggregates(self._names, self._regions, windows, self._inner, self._counted)
        where = select.args.get("where")
        kept = aggregates.condition(None if where is None else where.this)
        found = aggregates.item(items.found[0].node)
        if isinstance(found, Several):
            raise source.refuse(
                "count, sum or average in an inner SELECT among the items", select.expressions[0]
            )
        return changed(found, lambda part: self._limited(part, kept))

    def _inner(self, select: exp.Select) -> Linear | Quotient:
        return self._reading(select, self._regions, self._names).number()

    def passing(self) -> Several:
        """How many groups the SELECT shows; raises as `part` does."""
        if not Having.of(self._select, self._names).others:
            self._select = with_some_record(self._select)
        return passing_groups(self.part(), self._source)

    def _counted(self, of: exp.Expr) -> Several:
        """How many groups a SELECT shows; of a value, those that WHERE leaves, with a record."""
        if not isinstance(of, exp.Select):
            of = self._grouped_by(of)
        return self._reading(of, self._regions, self._names).passing()

    def _grouped_by(self, node: exp.Expr) -> exp.Select:
        """The SELECT of the values of an expression, without NULL."""
        where, known = self._select.args.get("where"), has_value(node.copy())
        if where is not None:
            known = exp.And(this=exp.Paren(this=where.this.copy()), expression=known)
        return exp.Select(
            expressions=[node.copy()],
            group=exp.Group(expressions=[node.copy()]),
            from_=self._select.args["from_"].copy(),
            where=exp.Where(this=known),
        )

    def _bounds(self, items: Sequence[Item | Event]) -> tuple[Bounds, ...]:
        """What PROBABILITY asks about each column."""
        events = [item for item in items if isinstance(item, Event)]
        if events and len(events) < len(items):
            raise self._source.refuse(
                "select either probabilities or numbers",
                self._select.expressions[0],
                hint="Ask for the numbers in a statement that says WITHIN.",
            )
        return tuple(
            Bounds(
                -inf if event.low is None else float(event.low),
                inf if event.high is None else float(event.high),
            )
            for event in events
        )

    def _tables(self, select: exp.Select) -> tuple[str, ...]:
        """The names that the text may use for its dataset; also checks the FROM."""
        unknown = {key for key, value in select.args.items() if value and key not in PARTS}
        source = select.args.get("from_")
        if source is None:
            raise self._source.refuse(
                "say what it reads", self._source.end, hint=f"Nearest: FROM {self._dataset}."
            )
        table = source.this
        plain = isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier)
        if unknown - {"with_"} or not plain or set(_given(table)) - {"this", "alias", "db"}:
            hint = JOINED if "joins" in unknown else ""
            raise self._source.refuse("read one dataset, by its name", source, hint=hint)
        alias = table.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            raise self._source.refuse(
                "give its dataset one name, without columns",
                alias,
                hint="Rename columns in SELECT, by AS.",
            )
        name, schema = table.this, table.args.get("db")
        if schema is not None and schema.name.lower() != SCHEMA:
            raise self._source.refuse(
                f"name no schema but `{SCHEMA}`",
                schema,
                hint=f"Nearest: FROM {self._dataset}.",
            )
        distinct = select.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            raise self._source.refuse("not use DISTINCT ON", distinct, hint="Nearest: GROUP BY.")
        same = name.name == self._dataset
        if not same and (name.quoted or name.name.lower() != self._dataset.lower()):
            raise self._source.refuse(
                f"read the dataset that it is sent to, `{self._dataset}`", name
            )
        return (name.name, table.alias) if table.alias else (name.name,)

    def _meanings(self, columns: Columns, first: int) -> tuple[Item | Event, ...]:
        """What the columns of numbers mean, from the `first` on."""
        nodes = columns.nodes[first:]
        return tuple(self._aggregates.event(node) or self._aggregates.item(node) for node in nodes)

    def _rows(
        self,
        layout: Layout,
        items: tuple[Item, ...],
        kept: tuple[ProductTerm, ...],
    ) -> tuple[tuple[Group, ...], tuple[Row, ...]]:
        """The groups that are measured, and a row for each.

        Raises:
            CapacityError: they hold too many numbers.
        """
        items = fitted(items, MAX_CELLS // max(layout.most_rows, 1))
        n_numbers = layout.most_rows * n_parts(items)
        if n_numbers > MAX_CELLS:
            raise CapacityError(
                f"A text of SQL asks at most {MAX_CELLS:,} numbers, this one {n_numbers:,}. "
                "Group by fewer values: WHERE leaves groups out."
            )
        limited = [changed(item, lambda part: self._limited(part, kept)) for item in items]
        groups = layout.groups(self._regions)
        totals: dict[tuple[Over, tuple[int, ...]], tuple[ProductTerm, ...]] = {}

        def total(part: Wide, places: tuple[int, ...]) -> tuple[ProductTerm, ...]:
            if part.over is None:
                return part.terms
            key = (part.over, part.over.of(places))
            if key not in totals:
                region = self._windows.region(part.over, places, self._regions)
                totals[key] = self._functions.indicator(region)
            return self._functions.multiplied(part.terms, totals[key])

        def row(group: Group) -> Row:
            inside = self._functions.indicator(group.region)

            def within(item: Linear) -> Linear:
                own = self._functions.multiplied(item.terms, inside)
                wide = (total(part, group.places) for part in item.wide)
                terms = (*own, *(term for part in wide for term in part))
                return Linear(terms, item.error, offset=item.offset)

            cells = tuple(self._cell(changed(item, within)) for item in limited)
            return Row(group.names, cells, group.together)

        return groups, tuple(map(row, groups))

    def _limited(self, part: Linear, kept: tuple[ProductTerm, ...]) -> Linear:
        """A linear combination on the records that a condition keeps."""
        wide = tuple(
            one if one.over is None else Wide(self._functions.multiplied(one.terms, kept), one.over)
            for one in part.wide
        )
        terms = self._functions.multiplied(part.terms, kept)
        return Linear(terms, part.error, wide, part.offset)

    def _cell(self, item: Item) -> Cell:
        if isinstance(item, Several):
            binning = Binning(item.error, "value") if item.error else None
            return Combined(tuple(map(self._query, item.parts)), item.function, binning)
        if isinstance(item, Linear):
            binning = Binning(item.error, "record") if item.error else None
            return Sum(self._query(item), binning, item.offset)
        error = item.numerator.error
        of: Literal["average", "numerator"] = "average" if item.is_average else "numerator"
        return Ratio(
            self._query(item.numerator),
            self._query(item.denominator),
            item.low,
            item.high,
            Binning(error, of) if error else None,
        )

    def _query(self, item: Linear) -> LinearQuery:
        try:
            terms = [(t.coefficient, t.factors) for t in item.terms]
            found = checked_span(linear_query(self._domain.sizes, terms))
        except InputError as exc:
            raise self._source.refuse(exc.condition, self._select.expressions[0]) from exc
        return clipped(found, self._domain, name=self._source.name)


def _course(groupings: Sequence[Grouping]) -> Course | None:
    """The first of the groupings that follows the course of time, or None."""
    found = (Course(k, one.course) for k, one in enumerate(groupings) if one.course)
    return next(found, None)


def _given(node: exp.Expr) -> Iterator[str]:
    """The parts of a node that the text has."""
    return (key for key, value in node.args.items() if value)
