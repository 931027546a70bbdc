"""Read SELECTs: those over records as groups and aggregates, those over others as the engine's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sqlglot import exp

from qserver.errors import CapacityError, SqlError
from qserver.query.sql.attributes import Names, constant
from qserver.query.sql.combined.meaning import Several
from qserver.query.sql.periods.derived import remarks_on
from qserver.query.sql.regions import Regions
from qserver.query.sql.rewriting.counted import counts_groups
from qserver.query.sql.rewriting.spelling import respelt
from qserver.query.sql.rewriting.tidy import tidied
from qserver.query.sql.shaping.items import Item, Items, check_parts, items_of
from qserver.query.sql.shaping.reading import Having, cut_of
from qserver.query.sql.shell.core import Core
from qserver.query.sql.shell.records import Named, Records
from qserver.query.sql.shell.relations import (
    PLACE,
    Column,
    First,
    Relation,
    SortBy,
    called,
)
from qserver.query.sql.shell.scopes import CoreScope, GroupedScope, Scope, TableScope
from qserver.query.sql.shell.tests import Tests
from qserver.query.sql.shell.values import Value
from qserver.query.sql.statement import Bounds
from qserver.query.sql.tables.missing import remarks_on_null
from qserver.query.sql.text import SqlText

MOST_PARTS = 64
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
            has_record: whether only groups with a record are meant, where its numbers choose none.

        Raises:
            SqlError: it cannot be answered; points at the place.
            CapacityError: it asks too much.
        """
        if isinstance(node, exp.Subquery) and not _others(node, {"this", "alias"}):
            node = node.this
        inner = node.args.get("with_")
        if inner is not None:
            env = self.records.scope(inner, env)
        if isinstance(node, exp.Union):
            return self._union(node, env)
        if not isinstance(node, exp.Select):
            raise self.source.refuse("be one SELECT", node)
        records = self.records.flat(node, env)
        if records is not None:
            return self._of_records(records, env, has_record=has_record)
        return self._of_tables(node, env, has_record=has_record)

    # SELECTs over records.

    def _of_records(self, select: exp.Select, env: Env, *, has_record: bool) -> Relation:
        names = replace(self.names, tables=self.records.tables(select))
        select = tidied(respelt(select, names), names)
        items, having = items_of(self.source, select), Having.of(select, names)
        where = select.args.get("where")
        condition = having.where(None if where is None else where.this)
        core = Core(len(self.cores), names, select, items, condition, self.regions)
        self.cores.append(core)
        self.remarks += [*remarks_on(select, names), *remarks_on_null(select, names)]
        for column in (c for part in having.public for c in part.find_all(exp.Column)):
            if core.groups.index_of(column, core.groupings) is None:
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
        """A table of groups alone has groups alone."""
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
        if counts_groups(select):
            return self._count_of(select, env)
        tables, base = self._tables(select, env, has_record=has_record)
        items = self._items(select, tables)
        inner = TableScope(self, items, env, tables)
        place = self._place(tables)
        conditions = _conjuncts(select.args.get("where"))
        group = select.args.get("group")
        has_sums = any(
            isinstance(part, exp.AggFunc) and not isinstance(part.parent, exp.Window)
            and part.find_ancestor(exp.Window, exp.Select) is not None
            for item in items.found
            for part in _outside_windows(item.node)
        )
        if group is None and not has_sums:
            return self._selected(select, inner, conditions, base, place, tables=tables)
        for alias, one in tables:
            if not one.is_plain:
                raise self._again(select)
            del alias
        keys = self._keys(group, items, inner)
        grouped = GroupedScope(self, items, env, inner, keys)
        wheres = [inner.public(one, "group rows by what is public") for one in conditions]
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
        if group is not None and (_others(group, {"expressions", "all"}) or group.args.get("all")):
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
        """The SELECTs that one reads, with their names, and the FROM of the engine."""
        source = select.args.get("from_")
        if source is None:
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
            tables.append(other)
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
        if _others(join, {"this", "on", "using", "side", "kind"}):
            raise self.source.refuse("join by ON or USING", join)
        if using := join.args.get("using"):
            found = list[exp.Expr]()
            for name in using:
                column = exp.Column(this=name)
                sides = [
                    TableScope(self, Items(self.source, ()), scope.env, one)
                    for one in (tables, [other])
                ]
                both = [side.public(column, "join by what is public") for side in sides]
                found.append(exp.EQ(this=both[0], expression=both[1]))
                self.merged.append((name.name.lower(), other[0].lower()))
            return exp.and_(*found)
        on = join.args.get("on")
        return None if on is None else scope.public(on, "join by what is public")

    merged: list[tuple[str, str]] = field(default_factory=list)

    def _table_of(
        self, node: exp.Expr, env: Env, *, has_record: bool
    ) -> tuple[str, Relation]:
        named = self.records.named(node, env)
        if named is None or self.records.is_of_records(named):
            raise self.records.no_join(node)
        relation = self.relation(named.select, named.env, has_record=has_record)
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
        """The items of a SELECT, with those that a star stands for."""
        found = list[Item]()
        for item in items_of(self.source, select).found:
            is_star = isinstance(item.node, exp.Star) or isinstance(item.node.this, exp.Star)
            if not is_star or isinstance(item.node, exp.Func):
                found.append(item)
                continue
            of = item.node.table.lower() if isinstance(item.node, exp.Column) else ""
            for alias, relation in tables:
                if of and alias.lower() != of:
                    continue
                for column in relation.columns:
                    if not column.is_extra and not self._is_merged(column, alias):
                        node = exp.column(
                            exp.to_identifier(column.name, quoted=True),
                            table=exp.to_identifier(alias, quoted=True),
                        )
                        found.append(
                            Item(node, "", column.name, column.exactness, column.stop)
                        )
        return Items(self.source, tuple(found))

    def _is_merged(self, column: Column, alias: str) -> bool:
        return (column.name.lower(), alias.lower()) in self.merged

    def _count_of(self, select: exp.Select, env: Env) -> Relation:
        """How many rows the SELECT shows that it reads."""
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
        column = Column(
            self.next_id(), item.name, text, is_number=True, exactness=item.exactness,
            stop=item.stop,
        )
        query = exp.Select(
            expressions=[
                exp.alias_(text, column.sql), exp.alias_(exp.Literal.number(0), PLACE)
            ]
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
        """A SELECT whose FROM is known."""
        inner = next((one for _, one in tables), None)
        reader = Tests(scope)
        columns = [self._column(item, scope) for item in scope.items.found]
        columns += self._extra(scope, columns)
        conditions = [*tests, *self._later(select, scope)]
        for one in conditions:
            reader.take(one)
        keys = self._sort(select.args.get("order"), scope)
        cut = cut_of(select, self.source)
        if inner is not None and not inner.is_plain:
            self._check_once(select, inner, bool(reader.tests or reader.firsts), columns)
        carried = () if inner is None else (*inner.columns, *inner.hidden)
        found = Relation(
            exp.Select(),
            tuple(columns),
            (*scope.hidden, *(c for c in carried if c.rank is None)),
            (*(inner.tests if inner is not None else ()), *reader.tests),
            (*(inner.firsts if inner is not None else ()), *reader.firsts),
            keys or (inner.keys if inner is not None else ()),
            cut.limit,
            cut.offset,
            at=select.expressions[0],
        )
        if inner is not None and inner.is_cut and not found.is_cut:
            found = replace(found, limit=inner.limit, offset=inner.offset)
        query = self._query(found, tables, place, base, reader.public)
        if select.args.get("distinct") and not any(c.is_number for c in columns):
            query = self._distinct(query, found)
        return self._ordered(replace(found, query=query))

    def _query(
        self,
        found: Relation,
        tables: Sequence[tuple[str, Relation]],
        place: exp.Expr,
        base: exp.Select,
        wheres: Sequence[exp.Expr],
    ) -> exp.Select:
        own = {column.id for column in (*found.columns, *found.hidden)}
        inside = {c.id: alias for alias, one in tables for c in (*one.columns, *one.hidden)}
        parts = list[exp.Expr]()
        for column in (*found.columns, *found.hidden):
            if column.rank is not None:
                continue
            node = column.node
            if column.id in inside:
                node = exp.column(column.sql, table=inside[column.id])
            parts.append(exp.alias_(node.copy(), column.sql))
        del own
        query = exp.Select(expressions=[*parts, exp.alias_(place, PLACE)])
        query.args.update({k: v for k, v in base.args.items() if k != "expressions"})
        return query.where(*wheres, copy=False) if wheres else query

    def _distinct(self, query: exp.Select, found: Relation) -> exp.Select:
        """The different rows of what is public, each where it comes first."""
        listed = [column.sql for column in found.columns if column.rank is None]
        inner = exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier("d")))
        parts: list[exp.Expr] = [exp.column(name) for name in listed]
        parts.append(exp.alias_(exp.Min(this=exp.column(PLACE)), PLACE))
        numbers = [exp.Literal.number(i + 1) for i in range(len(listed))]
        return exp.Select(expressions=parts, group=exp.Group(expressions=numbers)).from_(inner)

    def _column(self, item: Item, scope: Scope) -> Column:
        node, bounds = item.node, None
        if isinstance(node, exp.Anonymous) and node.name.upper() == "PROBABILITY":
            node, bounds = self._event(node)
        value = scope.value(node)
        if bounds is not None and not value.is_number:
            raise self._no_event(item.node)
        if item.exactness.has_length and not value.is_number:
            raise self.source.refuse("have WITHIN behind numbers, not groups", item.node)
        return Column(
            self.next_id(), item.name, value.sql, value.is_number, value.together, value.course,
            value.digits, value.rank, value.order, False, item.exactness, item.stop, bounds,
        )

    def _extra(self, scope: Scope, columns: Sequence[Column]) -> list[Column]:
        """The groups that SELECT does not list: they are shown behind what it lists."""
        if not isinstance(scope, CoreScope):
            return []
        listed = {column.order for column in columns}
        values = [(k, scope.key(k)) for k in range(len(scope.core.groupings)) if k not in listed]
        return [
            Column(
                self.next_id(), scope.core.groupings[k].name, value.sql, False, value.together,
                value.course, None, None, k, True,
            )
            for k, value in values
        ]

    def _event(self, node: exp.Anonymous) -> tuple[exp.Expr, Bounds]:
        """What PROBABILITY asks about, and between which ends."""
        inner = node.expressions[0].unnest() if len(node.expressions) == 1 else node
        if isinstance(inner, exp.Between):
            ends = (inner.args["low"], inner.args["high"])
        elif isinstance(inner, exp.GTE | exp.LTE):
            at_least = isinstance(inner, exp.GTE)
            ends = (inner.expression, None) if at_least else (None, inner.expression)
        else:
            raise self._no_event(node)
        found = [None if end is None else constant(end, self.source) for end in ends]
        if found.count(None) != ends.count(None):
            raise self._no_event(node)
        low, high = found
        return inner.this, Bounds(
            float("-inf") if low is None else float(low),
            float("inf") if high is None else float(high),
        )

    def _no_event(self, node: exp.Expr) -> SqlError:
        return self.source.refuse(
            "compare one count or sum with numbers in PROBABILITY, by >=, <= or BETWEEN",
            node,
            hint="Nearest: PROBABILITY(COUNT(*) >= 9).",
        )

    def _later(self, select: exp.Select, scope: Scope) -> list[exp.Expr]:
        """QUALIFY."""
        del scope
        return _conjuncts(select.args.get("qualify"))

    def _check_once(
        self, select: exp.Select, inner: Relation, tests: bool, columns: Sequence[Column]
    ) -> None:
        """Refuse what comes in another order than HAVING, windows, ORDER BY and LIMIT do."""
        again = tests or any(select.args.get(key) for key in ("order", "limit", "offset", "where"))
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
        sql = scope.value(inner).sql
        return SortBy(scope.hide(Value(_rank_of(sql)), by), False, descending, nulls)

    def _ordered(self, found: Relation) -> Relation:
        """The relation with what is public done of ORDER BY and LIMIT."""
        is_public = not found.tests and not found.firsts
        if not is_public or any(key.is_number for key in found.keys):
            return found
        if not found.keys and not found.is_cut:
            return found
        query = found.query
        if found.keys:
            order = [
                exp.Ordered(
                    this=exp.column(called(key.column)),
                    desc=key.descending,
                    nulls_first=key.nulls_first,
                )
                for key in found.keys
            ]
            order.append(exp.Ordered(this=exp.column(PLACE), nulls_first=False))
            query = self._replaced(query, found, order)
        if found.is_cut:
            query = query.order_by(exp.column(PLACE), copy=False)
            if found.limit is not None:
                query = query.limit(found.limit, copy=False)
            if found.offset:
                query = query.offset(found.offset, copy=False)
        return replace(found, query=query, keys=(), limit=None, offset=0)

    def _replaced(
        self, query: exp.Expr, found: Relation, order: Sequence[exp.Ordered]
    ) -> exp.Select:
        """The query with places in another order."""
        names = [c.sql for c in (*found.columns, *found.hidden) if c.rank is None]
        place = exp.Window(
            this=exp.RowNumber(), order=exp.Order(expressions=list(order)), over="OVER"
        )
        inner = exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier("p")))
        parts = [*(exp.column(name) for name in dict.fromkeys(names)), exp.alias_(place, PLACE)]
        return exp.Select(expressions=parts).from_(inner)

    # UNION ALL.

    def _union(self, node: exp.Union, env: Env) -> Relation:
        parts = self._parts(node, env, is_whole=True)
        if len(parts) > MOST_PARTS:
            raise CapacityError(f"UNION ALL joins at most {MOST_PARTS} SELECTs. Ask its parts.")
        first = parts[0]
        columns = [c for c in first.columns if not c.is_extra]
        for one in parts:
            self._check_part(one, columns)
        ids = [self.next_id() for _ in columns]
        totals = {
            k: self.next_id()
            for k in range(len(columns))
            if any(_listed(one)[k].together is not None for one in parts)
        }
        queries = [
            self._part(one, i, ids, totals) for i, one in enumerate(parts)
        ]
        query: exp.Expr = queries[0]
        for other in queries[1:]:
            query = exp.Union(this=query, expression=other, distinct=False)
        digits = [
            c.digits if all(_listed(one)[k].digits == c.digits for one in parts) else None
            for k, c in enumerate(columns)
        ]
        found = tuple(
            Column(
                ids[k], c.name, exp.column(called(ids[k])), c.is_number, totals.get(k), (),
                digits[k], None, None, False, c.exactness, c.stop,
            )
            for k, c in enumerate(columns)
        )
        hidden = tuple(
            Column(id_, "", exp.column(called(id_))) for id_ in totals.values()
        )
        whole = Relation(query, found, hidden, at=first.at)
        return self._cut_union(node, whole)

    def _cut_union(self, node: exp.Union, whole: Relation) -> Relation:
        order, cut = node.args.get("order"), cut_of(node, self.source)
        if order is None and cut.limit is None and not cut.offset:
            return whole
        keys, hidden = list[SortBy](), list(whole.hidden)
        for one in [] if order is None else order.expressions:
            column = self._union_key(one.this.unnest(), whole)
            descending, nulls = bool(one.args.get("desc")), bool(one.args.get("nulls_first"))
            if column.is_number:
                keys.append(SortBy(column.id, True, descending, nulls))
                continue
            # Groups stand in the order of their first coming.
            place = exp.Window(
                this=exp.Min(this=exp.column(PLACE)),
                partition_by=[exp.column(column.sql)],
                over="OVER",
            )
            rank = Column(
                self.next_id(), "",
                exp.Case(
                    ifs=[exp.If(this=_is_null(exp.column(column.sql)), true=exp.null())],
                    default=place,
                ),
            )
            hidden.append(rank)
            keys.append(SortBy(rank.id, False, descending, nulls))
        names = [c.sql for c in (*whole.columns, *whole.hidden)]
        inner = exp.Subquery(this=whole.query, alias=exp.TableAlias(this=exp.to_identifier("u")))
        parts: list[exp.Expr] = [exp.column(name) for name in (*names, PLACE)]
        parts += [exp.alias_(c.node, c.sql) for c in hidden[len(whole.hidden) :]]
        query = exp.Select(expressions=parts).from_(inner)
        return self._ordered(
            replace(
                whole,
                query=query,
                hidden=tuple(hidden),
                keys=tuple(keys),
                limit=cut.limit,
                offset=cut.offset,
            )
        )

    def _union_key(self, by: exp.Expr, whole: Relation) -> Column:
        if isinstance(by, exp.Literal) and by.is_int and 1 <= int(by.name) <= len(whole.columns):
            return whole.columns[int(by.name) - 1]
        if isinstance(by, exp.Column) and not by.args.get("table"):
            for column in whole.columns:
                if column.name.lower() == by.name.lower():
                    return column
        raise self.source.refuse(
            "order a UNION by the position or the name of an item of its first SELECT", by
        )

    def _parts(self, node: exp.Expr, env: Env, *, is_whole: bool) -> list[Relation]:
        if isinstance(node, exp.Subquery) and not _others(node, {"this"}):
            node = node.this
        if not isinstance(node, exp.Union):
            return [self.relation(node, env)]
        if node.args.get("distinct"):
            raise self.source.refuse(
                "say ALL after UNION: released numbers of the same rows differ",
                node.expression,
                hint="Nearest: UNION ALL.",
            )
        if not is_whole and _others(node, {"this", "expression", "distinct", "with_"}):
            raise self.source.refuse("order and cut all rows of a UNION at once, at its end", node)
        inner = node.args.get("with_")
        if inner is not None and not is_whole:
            env = self.records.scope(inner, env)
        found = self._parts(node.this, env, is_whole=False)
        if len(found) > MOST_PARTS:
            raise CapacityError(f"UNION ALL joins at most {MOST_PARTS} SELECTs. Ask its parts.")
        return [*found, *self._parts(node.expression, env, is_whole=False)]

    def _check_part(self, part: Relation, expected: Sequence[Column]) -> None:
        at = part.at if part.at is not None else exp.null()
        own = _listed(part)
        if any(c.bounds or c.rank for c in own):
            raise self.source.refuse(
                "ask for ranks and probabilities in a SELECT of their own, without UNION", at
            )
        if not part.is_plain or part.keys or any(c.is_extra for c in part.columns):
            raise self.source.refuse(
                "select what each part of a UNION groups by, and choose by numbers at its end",
                at,
                hint="Nearest: ORDER BY and LIMIT at the end of the whole text.",
            )
        if len(own) != len(expected):
            raise self.source.refuse(
                f"have {len(expected)} items in each SELECT of a UNION, as in the first", at
            )
        if [c.is_number for c in own] != [c.is_number for c in expected]:
            raise self.source.refuse(
                "have groups and numbers at the same places in each SELECT of a UNION",
                at,
                hint="Nearest: a text such as 'all' where the first SELECT has a group.",
            )
        if own is not expected and own[0].id != expected[0].id:
            if any(c.exactness.has_length or c.exactness.confidence for c in own):
                raise self.source.refuse(
                    "say WITHIN behind the items of the first SELECT of a UNION, or at the end", at
                )

    def _part(
        self, one: Relation, i: int, ids: Sequence[int], totals: Mapping[int, int]
    ) -> exp.Select:
        alias = f"u{i}"
        listed = _listed(one)
        parts: list[exp.Expr] = [
            exp.alias_(exp.column(c.sql, table=alias), called(id_))
            for c, id_ in zip(listed, ids, strict=True)
        ]
        for k, id_ in totals.items():
            total = listed[k].together
            of = exp.false() if total is None else exp.column(called(total), table=alias)
            parts.append(exp.alias_(of, called(id_)))
        place = exp.Add(
            this=exp.column(PLACE, table=alias), expression=exp.Literal.number(i << 40)
        )
        inner = exp.Subquery(this=one.query, alias=exp.TableAlias(this=exp.to_identifier(alias)))
        return exp.Select(expressions=[*parts, exp.alias_(place, PLACE)]).from_(inner)


def _listed(relation: Relation) -> list[Column]:
    return [column for column in relation.columns if not column.is_extra]


def _others(node: exp.Expr, known: set[str]) -> set[str]:
    return {key for key, value in node.args.items() if value} - known


def _conjuncts(clause: exp.Expr | None) -> list[exp.Expr]:
    """The parts of a condition that must all hold."""
    if clause is None:
        return []
    whole = clause.this.unnest()
    return list(whole.flatten()) if isinstance(whole, exp.And) else [whole]


def _outside_windows(node: exp.Expr) -> list[exp.Expr]:
    """The parts of an expression that are neither in an inner SELECT nor the function of OVER."""
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
    alias, relation = table
    name = exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
    return exp.Subquery(this=relation.query, alias=name)


def _with(query: exp.Expr, name: str, of: exp.Expr) -> exp.Expr:
    """A query whose table of this name is another query."""
    for table in list(query.find_all(exp.Table)):
        if table.name == name and not table.alias:
            alias = exp.TableAlias(this=exp.to_identifier(name))
            table.replace(exp.Subquery(this=of, alias=alias))
    return query


def _is_null(node: exp.Expr) -> exp.Expr:
    return exp.Is(this=node, expression=exp.null())


def _rank_of(node: exp.Expr) -> exp.Expr:
    """The place of a public value in the order of all; NULL has none."""
    order = exp.Order(expressions=[exp.Ordered(this=node.copy(), nulls_first=False)])
    rank = exp.Window(this=exp.DenseRank(), order=order, over="OVER")
    return exp.Case(ifs=[exp.If(this=_is_null(node.copy()), true=exp.null())], default=rank)
