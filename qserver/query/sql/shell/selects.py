"""Read SELECTs: over records as groups and aggregates, over others by the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from qserver.errors import SqlError
from qserver.query.sql.attributes import Names, constant
from qserver.query.sql.exactness import UNSAID
from qserver.query.sql.functions.item_meaning import Several
from qserver.query.sql.logic import is_star
from qserver.query.sql.regions import Regions
from qserver.query.sql.select import Having, Item, Items, check_parts, cut_of, items_of
from qserver.query.sql.shell.conditions_on_numbers import Choices
from qserver.query.sql.shell.derived_table import (
    PLACE,
    Column,
    Relation,
    SortBy,
    Value,
)
from qserver.query.sql.shell.engine_sql import aliased, ordered, rank_of
from qserver.query.sql.shell.record_groups import Core
from qserver.query.sql.shell.records import Named, Records, counts_groups, others_of
from qserver.query.sql.shell.rewriting import respelt
from qserver.query.sql.shell.scopes import Scope
from qserver.query.sql.shell.sources import CoreScope, GroupedScope, TableScope
from qserver.query.sql.shell.unions import union_of
from qserver.query.sql.statement import Bounds
from qserver.query.sql.text import SqlText
from qserver.query.sql.values.record_functions import remarks_on

_ONCE = "Nearest: LIMIT at the end of the whole text."
Env = Mapping[str, Named]
"""The SELECTs of WITH, by their names."""


@dataclass
class Shell:
    """The SELECTs of one text.

    Args:
        names: the attributes of the dataset.
        regions: sets of cells, with the limit on work of the whole text.
    """

    names: Names
    dataset: str
    regions: Regions
    cores: list[Core] = field(default_factory=list)
    counted: list[Several] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    counts: Callable[[Relation], Several] | None = None
    _n: int = 0

    def __post_init__(self) -> None:
        self.records = Records(self.names, self.dataset)

    @property
    def source(self) -> SqlText:
        """The text."""
        return self.names.source

    def next_id(self) -> int:
        """A number for a new column."""
        self._n += 1
        return self._n

    def relation(self, node: exp.Expr, env: Env, *, has_record: bool = False) -> Relation:
        """A SELECT, or several joined by UNION ALL.

        Args:
            has_record: whether only groups with a record count, if no number chooses.

        Raises:
            SqlError: it cannot be answered; points at the place.
            CapacityError: it asks for too much.
        """
        if isinstance(node, exp.Subquery) and not others_of(node, {"this", "alias"}):
            node = node.this
        inner = node.args.get("with_")
        if inner is not None:
            env = self.records.scope(inner, env)
        if isinstance(node, exp.Union):
            return union_of(self, node, env)
        if not isinstance(node, exp.Select):
            raise self.source.refuse("be one SELECT", node)
        records = self.records.flat(node, env)
        if records is not None:
            return self._of_records(records, env, has_record=has_record)
        return self._of_tables(node, env, has_record=has_record)

    # SELECTs over records.

    def _of_records(self, select: exp.Select, env: Env, *, has_record: bool) -> Relation:
        names = replace(self.names, tables=self.records.tables(select))
        select = respelt(select, names)
        items, having = items_of(self.source, select), Having.of(select, names)
        where = select.args.get("where")
        condition = having.where(None if where is None else where.this)
        core = Core(len(self.cores), names, select, items, condition, self.regions)
        self.cores.append(core)
        self.remarks += remarks_on(select, names)
        for column in (c for part in having.public for c in part.find_all(exp.Column)):
            if core.key(column) is None:
                raise self.source.refuse(
                    "group by each attribute that HAVING names",
                    column,
                    hint="Nearest: HAVING COUNT(*) > 100, by the released number.",
                )
        is_whole = not having.others and not has_record
        scope = CoreScope(self, items, env, core, is_whole=is_whole)
        tests = [*having.others]
        if has_record and not tests:
            one = exp.GTE(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1))
            tests.append(one)
        found = self._selected(select, scope, tests, _table(f"r{core.index}"), exp.column(PLACE))
        if not any(column.is_number for column in (*found.columns, *found.hidden)):
            self._check_groups(select, scope, found)
        return found

    def _check_groups(self, select: exp.Select, scope: CoreScope, found: Relation) -> None:
        """SqlError if a table of groups alone has anything else."""
        listed = [column for column in found.columns if not column.is_extra]
        is_of_groups = all(column.order is not None for column in listed)
        if not scope.core.groupings or not scope.core.sets.is_one or not is_of_groups:
            if any(column.rank for column in listed):
                return
            raise self.source.refuse(
                "count or sum something", select.expressions[0], hint="Nearest: SELECT COUNT(*)."
            )

    # SELECTs over other SELECTs.

    def _of_tables(self, select: exp.Select, env: Env, *, has_record: bool) -> Relation:
        if counts_groups(select) and select.args.get("from_") is not None:
            return self._count_of(select, env)
        tables, base = self._tables(select, env, has_record=has_record)
        items = self._items(select, tables)
        inner = TableScope(self, items, env, tables)
        place = self._place(tables)
        conditions = _conjuncts(select.args.get("where"))
        group = select.args.get("group")
        has_sums = any(
            isinstance(part, exp.AggFunc)
            for item in items.found
            for part in _outside_windows(item.node)
        )
        if group is None and not has_sums:
            return self._selected(select, inner, conditions, base, place, tables=tables)
        if not all(one.is_plain for _, one in tables):
            raise self._again(select)
        keys = self._keys(group, items, inner)
        grouped = GroupedScope(self, items, env, inner, keys)
        wheres = [inner.public(one, "group rows by public columns") for one in conditions]
        having = _conjuncts(select.args.get("having"))
        found = self._selected(select, grouped, having, _table("g"), exp.column(PLACE))
        parts = [*grouped.parts, exp.alias_(exp.Min(this=place), PLACE)]
        query = exp.Select(expressions=parts)
        query.args.update(base.args)
        query = query.where(*wheres, copy=False) if wheres else query
        if keys:
            numbers = [exp.Literal.number(i + 1) for i in range(len(keys))]
            query.set("group", exp.Group(expressions=numbers))
        return replace(found, query=_with(found.query, "g", query))

    def _keys(self, group: exp.Group | None, items: Items, inner: TableScope) -> list[exp.Expr]:
        nodes = [] if group is None else list(group.expressions)
        if group is not None and others_of(group, {"expressions"}):
            raise self.source.refuse("group by names", group)
        found = list[exp.Expr]()
        for node in nodes:
            at = items.at_position(node.unnest())
            if at is None and isinstance(node, exp.Column) and not inner.find(node):
                at = items.of_alias(node)
            found.append(node.unnest() if at is None else items.found[at].node)
        return found

    def _tables(
        self, select: exp.Select, env: Env, *, has_record: bool
    ) -> tuple[list[tuple[str, Relation]], exp.Select]:
        """The sources of a SELECT with their names, and the engine's FROM."""
        source = select.args.get("from_")
        if source is None:
            if not any(item.find(exp.Subquery) for item in select.expressions):
                raise self.source.refuse(
                    "say what it reads", self.source.end, hint=f"Nearest: FROM {self.dataset}."
                )
            return [], exp.Select()
        first = self._table_of(source.this, env, has_record=has_record)
        tables, base = [first], exp.Select().from_(_named(first))
        for join in select.args.get("joins") or []:
            other = self._table_of(join.this, env, has_record=False)
            scope = TableScope(self, Items(self.source, ()), env, [*tables, other])
            base = base.join(
                _named(other),
                on=self._condition(join, scope, tables, other),
                join_type=" ".join(
                    str(join.args[key]) for key in ("side", "kind") if join.args.get(key)
                ),
                copy=False,
            )
            tables.append(_merged(join, other))
        if len(tables) > 1 and not all(one.is_plain for _, one in tables):
            raise self._again(select)
        return tables, base

    def _condition(
        self,
        join: exp.Join,
        scope: TableScope,
        tables: Sequence[tuple[str, Relation]],
        other: tuple[str, Relation],
    ) -> exp.Expr | None:
        if others_of(join, {"this", "on", "using", "side", "kind"}):
            raise self.source.refuse("join by ON or USING", join)
        if using := join.args.get("using"):
            if join.args.get("side") in ("RIGHT", "FULL"):
                raise self.source.refuse(
                    "join by ON, not by USING, where it says RIGHT or FULL", join
                )
            found = list[exp.Expr]()
            for name in using:
                column = exp.Column(this=name)
                sides = [
                    TableScope(self, Items(self.source, ()), scope.env, one)
                    for one in (tables, [other])
                ]
                both = [side.public(column, "join by public columns") for side in sides]
                found.append(exp.EQ(this=both[0], expression=both[1]))
            return exp.and_(*found)
        on = join.args.get("on")
        if on is None:
            return None
        if any(scope.value(column).is_number for column in on.find_all(exp.Column)):
            raise self.source.refuse("join by public columns, not by released numbers", on)
        return scope.public(on, "join by public columns")

    def _table_of(self, node: exp.Expr, env: Env, *, has_record: bool) -> tuple[str, Relation]:
        named = self.records.named(node, env)
        if named is None or self.records.is_of_records(named):
            raise self.records.no_join(node)
        relation = self.relation(named.select, named.env, has_record=has_record)
        if relation.differs is not None:
            raise same_rows(self.source, relation.differs)
        if named.columns:
            shown = [column for column in relation.columns if not column.is_extra]
            if len(named.columns) != len(shown):
                raise self.source.refuse(f"name all columns of `{named.name}`, or none", node)
            names = dict(zip((c.id for c in shown), named.columns, strict=True))
            columns = tuple(replace(c, name=names.get(c.id, c.name)) for c in relation.columns)
            relation = replace(relation, columns=columns)
        return named.name or f"t{self.next_id()}", relation

    def _place(self, tables: Sequence[tuple[str, Relation]]) -> exp.Expr:
        """The order of the rows of several tables."""
        if not tables:
            return exp.Literal.number(0)
        places = [exp.column(PLACE, table=alias) for alias, _ in tables]
        if len(places) == 1:
            return places[0]
        order = exp.Order(expressions=[exp.Ordered(this=one, nulls_first=False) for one in places])
        return exp.Window(this=exp.RowNumber(), order=order, over="OVER")

    def _items(self, select: exp.Select, tables: Sequence[tuple[str, Relation]]) -> Items:
        """The items of a SELECT, with stars expanded."""
        found = list[Item]()
        for item in items_of(self.source, select).found:
            if not is_star(item.node):
                found.append(item)
                continue
            of = item.node.table.lower() if isinstance(item.node, exp.Column) else ""
            for alias, relation in tables:
                if of and alias.lower() != of:
                    continue
                for column in relation.columns:
                    if not column.is_extra and not (column.is_merged and not of):
                        node = exp.column(
                            exp.to_identifier(column.name, quoted=True),
                            table=exp.to_identifier(alias, quoted=True),
                        )
                        found.append(Item(node, "", column.name, column.exactness, column.stop))
        return Items(self.source, tuple(found))

    def _count_of(self, select: exp.Select, env: Env) -> Relation:
        """The number of rows of the SELECT that it reads."""
        every = exp.Select(expressions=[exp.Star()])
        # No copy: the parts keep their places in the text.
        every.args["from_"], every.args["where"] = select.args["from_"], select.args.get("where")
        tables, _ = self._tables(select, env, has_record=False)
        has_tests = not tables[0][1].is_plain or select.args.get("where") is not None
        relation = self._of_tables(every, env, has_record=not has_tests)
        if has_tests and not relation.tests and not relation.firsts:
            relation = self._of_tables(every, env, has_record=True)
        assert self.counts is not None  # noqa: S101 - set before anything is read
        self.counted.append(self.counts(relation))
        [item] = items_of(self.source, select).found
        text = exp.Literal.string(f'"-1.0.{len(self.counted) - 1}"')
        value = Value(text, is_number=True, exactness=item.exactness)
        column = replace(Column.of(value, self.next_id(), item.name), stop=item.stop)
        query = exp.Select(
            expressions=[exp.alias_(text, column.sql), exp.alias_(exp.Literal.number(0), PLACE)]
        )
        return Relation(query, (column,), at=item.node)

    # What all SELECTs have.

    def _selected(
        self,
        select: exp.Select,
        scope: Scope,
        tests: Sequence[exp.Expr],
        base: exp.Select,
        place: exp.Expr,
        *,
        tables: Sequence[tuple[str, Relation]] = (),
    ) -> Relation:
        """A SELECT with a known FROM."""
        inner = next((one for _, one in tables), None)
        reader = Choices(scope)
        columns = [self._column(item, scope) for item in scope.items.found]
        columns += self._extra(scope)
        check_parts(sum(c.rank is not None for c in columns), "SELECT, of ranks,")
        scope.is_choice = True
        for one in (*tests, *_conjuncts(select.args.get("qualify"))):
            reader.take(one)
        keys = self._sort(select.args.get("order"), scope)
        cut = cut_of(select, self.source)
        if inner is not None and not inner.is_plain:
            self._check_once(select, inner, columns, tests=bool(reader.tests or reader.firsts))
        carried = [
            replace(c, node=exp.column(c.sql, table=alias))
            for alias, one in tables
            for c in (*one.columns, *one.hidden)
        ]
        found = Relation(
            exp.Select(),
            tuple(columns),
            (*scope.hidden, *(c for c in carried if c.rank is None)),
            (*(inner.tests if inner is not None else ()), *reader.tests),
            (*(inner.firsts if inner is not None else ()), *reader.firsts),
            keys or (inner.keys if inner is not None else ()),
            cut.limit,
            cut.offset,
            at=select.expressions[0] if select.expressions else select,
        )
        if inner is not None and inner.is_cut:
            # What cuts comes first, and then how the rest is ordered.
            found = replace(
                found, keys=inner.keys, limit=inner.limit, offset=inner.offset, shown=keys
            )
        found = found.merged()
        query = self._query(found, place, base, reader.public)
        if select.args.get("distinct") and not any(c.is_number for c in columns):
            query = self._distinct(query, found)
        return ordered(replace(found, query=query))

    def _query(
        self,
        found: Relation,
        place: exp.Expr,
        base: exp.Select,
        wheres: Sequence[exp.Expr],
    ) -> exp.Select:
        parts = [
            exp.alias_(column.node.copy(), column.sql)
            for column in (*found.columns, *found.hidden)
            if column.rank is None
        ]
        query = exp.Select(expressions=[*parts, exp.alias_(place, PLACE)])
        query.args.update({k: v for k, v in base.args.items() if k != "expressions"})
        plain = [one for one in wheres if one.find(exp.Window) is None]
        later = [one for one in wheres if one.find(exp.Window) is not None]
        query = query.where(*plain, copy=False) if plain else query
        if later:
            query.set("qualify", exp.Qualify(this=exp.and_(*later)))
        return query

    def _distinct(self, query: exp.Select, found: Relation) -> exp.Select:
        """Distinct public rows, each at its first place."""
        listed = [column.sql for column in found.columns if column.rank is None]
        inner = aliased(query, "d")
        parts: list[exp.Expr] = [exp.column(name) for name in listed]
        parts += [
            exp.alias_(exp.Min(this=exp.column(column.sql)), column.sql)
            for column in found.hidden
            if column.sql not in listed
        ]
        parts.append(exp.alias_(exp.Min(this=exp.column(PLACE)), PLACE))
        numbers = [exp.Literal.number(i + 1) for i in range(len(listed))]
        return exp.Select(expressions=parts, group=exp.Group(expressions=numbers)).from_(inner)

    def _column(self, item: Item, scope: Scope) -> Column:
        node, bounds = item.node, None
        if isinstance(node, exp.Anonymous) and node.name.upper() == "PROBABILITY":
            node, bounds = self._event(node)
        value = scope.value(node)
        if bounds is not None and not value.is_number:
            raise no_event(self.source, item.node)
        if item.exactness.has_length and not value.is_number:
            raise self.source.refuse("have WITHIN behind numbers, not groups", item.node)
        if item.exactness != UNSAID:
            value = replace(value, exactness=item.exactness)
        found = Column.of(value, self.next_id(), _name_of(item, scope))
        return replace(found, stop=item.stop, bounds=bounds, said=item.node)

    def _extra(self, scope: Scope) -> list[Column]:
        """Groups that SELECT does not list; they are shown last."""
        if not isinstance(scope, CoreScope):
            return []
        groupings = scope.core.groupings
        found = [
            Column.of(scope.key(k), self.next_id(), one.name)
            for k, one in enumerate(groupings)
            if k not in scope.used
        ]
        return [replace(column, is_extra=True) for column in found]

    def _event(self, node: exp.Anonymous) -> tuple[exp.Expr, Bounds]:
        """The number in PROBABILITY, and its ends."""
        inner = node.expressions[0].unnest() if len(node.expressions) == 1 else node
        if isinstance(inner, exp.Between):
            ends = (inner.args["low"], inner.args["high"])
        elif isinstance(inner, exp.GTE | exp.LTE):
            at_least = isinstance(inner, exp.GTE)
            ends = (inner.expression, None) if at_least else (None, inner.expression)
        else:
            raise no_event(self.source, node)
        found = [None if end is None else constant(end, self.source) for end in ends]
        if found.count(None) != ends.count(None):
            raise no_event(self.source, node)
        low, high = found
        return inner.this, Bounds(
            float("-inf") if low is None else float(low),
            float("inf") if high is None else float(high),
        )

    def _check_once(
        self, select: exp.Select, inner: Relation, columns: Sequence[Column], *, tests: bool
    ) -> None:
        """Refuse operations in another order than HAVING, windows, ORDER BY and LIMIT."""
        again = tests or any(select.args.get(key) for key in ("limit", "offset", "where"))
        again = again or bool(inner.shown)
        if inner.is_cut and again:
            raise self.source.refuse(
                "filter and order before it cuts by LIMIT", select.expressions[0], hint=_ONCE
            )
        if any(column.node.find(exp.Window) for column in columns):
            raise self._again(select)

    def _again(self, select: exp.Select) -> SqlError:
        return self.source.refuse(
            "not group, join or count groups that were chosen by their numbers",
            select.args.get("group") or select.expressions[0],
            hint="Nearest: the same without HAVING by numbers and LIMIT in the inner SELECT.",
        )

    def _sort(self, order: exp.Order | None, scope: Scope) -> tuple[SortBy, ...]:
        nodes = [] if order is None else order.expressions
        check_parts(len(nodes), "ORDER BY")
        return tuple(self._key(node, scope) for node in nodes)

    def _key(self, node: exp.Ordered, scope: Scope) -> SortBy:
        by, items = node.this.unnest(), scope.items
        at = items.at_position(by)
        at = items.of_alias(by) if at is None else at
        by = by if at is None else items.found[at].node
        if isinstance(by, exp.Anonymous) and by.name.upper() == "PROBABILITY":
            raise self.source.refuse(
                "not order or choose by probabilities",
                by,
                hint="Nearest: the same without HAVING, ORDER BY and LIMIT.",
            )
        value = scope.value(by)
        if at is None and isinstance(by, exp.Literal):
            raise self.source.refuse("order and choose by groups and numbers of the table", by)
        descending, nulls = bool(node.args.get("desc")), bool(node.args.get("nulls_first"))
        if (rank := value.rank) is not None:
            # The first rank has the least, or the greatest, number.
            return SortBy(rank.number, True, rank.descending != descending, nulls, rank.parties)
        if value.is_number:
            return SortBy(scope.hide(value, by), True, descending, nulls)
        inner = by
        while isinstance(inner, exp.Coalesce) and isinstance(inner.expressions[0], exp.Literal):
            inner = inner.this.unnest()  # in the order of the domain, and not of texts
        place = Value(rank_of(scope.value(inner).node))
        return SortBy(scope.hide(place, by), False, descending, nulls)


def _merged(join: exp.Join, table: tuple[str, Relation]) -> tuple[str, Relation]:
    """A joined table that shares its USING columns with earlier tables."""
    names = {name.name.lower() for name in join.args.get("using") or ()}
    alias, relation = table
    columns = tuple(replace(c, is_merged=c.name.lower() in names) for c in relation.columns)
    return alias, replace(relation, columns=columns)


def _name_of(item: Item, scope: Scope) -> str:
    """A column's name; another table's column keeps its own."""
    node = item.node
    if item.alias or not isinstance(node, exp.Column):
        return item.name
    k = scope.core.key(node) if isinstance(scope, CoreScope) else None
    if k is None or not isinstance(scope, CoreScope):
        return node.name
    return scope.core.groupings[k].name


def _conjuncts(clause: exp.Expr | None) -> list[exp.Expr]:
    """The parts of a condition that must all hold."""
    if clause is None:
        return []
    whole = clause.this.unnest()
    return list(whole.flatten()) if isinstance(whole, exp.And) else [whole]


def _outside_windows(node: exp.Expr) -> list[exp.Expr]:
    """Parts of an expression outside of inner SELECTs and of OVER's function."""
    if isinstance(node, exp.Select | exp.Subquery):
        return []
    found = [node]
    for part in node.iter_expressions():
        inner = part
        if isinstance(node, exp.Window) and part is node.this:
            found += [one for child in inner.iter_expressions() for one in _outside_windows(child)]
        else:
            found += _outside_windows(part)
    return found


def _table(name: str) -> exp.Select:
    return exp.Select().from_(exp.Table(this=exp.to_identifier(name)))


def _named(table: tuple[str, Relation]) -> exp.Subquery:
    return aliased(table[1].query, table[0], quoted=True)


def _with(query: exp.Expr, name: str, of: exp.Expr) -> exp.Expr:
    """A query with a table replaced by another query."""
    for table in list(query.find_all(exp.Table)):
        if table.name == name and not table.alias:
            table.replace(aliased(of, name))
    return query


def same_rows(source: SqlText, node: exp.Expr) -> SqlError:
    """The error of a UNION with possibly equal rows."""
    return source.refuse(
        "say ALL after UNION: released numbers of the same rows differ",
        node,
        hint="Nearest: UNION ALL.",
    )


def no_event(source: SqlText, node: exp.Expr) -> SqlError:
    """The error of an event that PROBABILITY does not support."""
    return source.refuse(
        "compare one count or sum with numbers in PROBABILITY, by >=, <= or BETWEEN",
        node,
        hint="Nearest: PROBABILITY(COUNT(*) >= 9).",
    )
