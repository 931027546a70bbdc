"""WITH, and SELECT in parentheses after FROM: put into the SELECT that reads them.

Records that are only filtered and renamed are those of the dataset under more conditions. A table
of groups that is only filtered, renamed and ordered is that table with HAVING, ORDER BY and LIMIT.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlglot import exp

from qserver.query.sql.attributes import Names
from qserver.query.sql.plain.reads import JOINED
from qserver.query.sql.rewriting.columns import Output, Renaming
from qserver.query.sql.rewriting.counted import CountedGroups, counts_groups
from qserver.query.sql.rewriting.sums import adds_up
from qserver.query.sql.rewriting.tops import Tops
from qserver.query.sql.rewriting.written import keep_written, written_of

PARTS = frozenset({"expressions", "from_", "where", "group", "kind", "distinct"}) | {
    "having",
    "order",
    "limit",
    "offset",
}
_SUMS = (exp.AggFunc, exp.Window)
_SETS = exp.Rollup | exp.Cube | exp.GroupingSets


def _hint(unknown: Collection[str]) -> str:
    """What to do in place of a join, where that is what is not known."""
    return JOINED if "joins" in unknown else ""


@dataclass(frozen=True)
class _Named:
    """A SELECT of WITH, what it may read, and what it calls its columns."""

    select: exp.Expr
    scope: Mapping[str, _Named]
    columns: tuple[str, ...]


class Subselects:
    """Flattens the SELECTs of one text.

    Args:
        names: the attributes, to tell them from names that the text gives.
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._source = names.source
        self._renaming = Renaming(names.source)
        self._tops = Tops(names.source)

    def flat(self, select: exp.Select, withs: tuple[exp.With, ...] = ()) -> exp.Select:
        """A SELECT that reads a dataset, and means the same.

        Args:
            withs: those that stand before it, from the outermost.

        Raises:
            SqlError: an inner SELECT does more than to filter and rename; points at it.
            CapacityError: it becomes too long.
        """
        scope: Mapping[str, _Named] = {}
        for one in withs:
            scope = self._scope(one, scope)
        return self._flat(select, scope)

    def _flat(self, select: exp.Select, scope: Mapping[str, _Named]) -> exp.Select:
        inner = select.args.get("with_")
        if inner is not None:
            scope = self._scope(inner, scope)
        self._tops.qualified(select)
        self._check_inside(select, scope)
        source = select.args.get("from_")
        unknown = {k for k, v in select.args.items() if v} - PARTS - {"with_"}
        if unknown and source is not None:
            raise self._source.refuse("read one dataset, by its name", source, hint=_hint(unknown))
        read = None if source is None else source.this
        if isinstance(read, exp.Subquery):
            if {k for k, v in read.args.items() if v} - {"this", "alias"}:
                raise self._source.refuse("read one dataset, by its name", read)
            named = _Named(read.this, scope, _columns_of(read))
            return self._merged(select, named, read.alias)
        if isinstance(read, exp.Table) and isinstance(read.this, exp.Identifier):
            found = None if read.args.get("db") else scope.get(read.name.lower())
            if found is not None:
                return self._merged(select, found, read.alias or read.name)
        return select

    def _scope(self, inner: exp.With, scope: Mapping[str, _Named]) -> Mapping[str, _Named]:
        if inner.args.get("recursive"):
            raise self._source.refuse("not use RECURSIVE", inner)
        found = dict(scope)
        for cte in inner.expressions:
            found[cte.alias.lower()] = _Named(cte.this, dict(found), _columns_of(cte))
        return found

    def _check_inside(self, select: exp.Select, scope: Mapping[str, _Named]) -> None:
        """Flatten the SELECTs among the items; refuse those in conditions."""
        for key in PARTS - {"from_"}:
            part = select.args.get(key)
            for one in part if isinstance(part, list) else [part]:
                if not isinstance(one, exp.Expr):
                    continue
                for found in list(one.find_all(exp.Subquery)):
                    if key != "expressions" or not isinstance(found.this, exp.Select):
                        raise self._source.refuse(
                            "hold no SELECT in a condition",
                            found,
                            hint="Write the inner condition out: AND, OR, IN, CASE.",
                        )
                    found.set("this", self._flat(found.this, scope))

    def _merged(self, outer: exp.Select, named: _Named, name: str) -> exp.Select:
        if not isinstance(named.select, exp.Select):
            raise self._source.refuse(
                "only filter, rename and group in an inner SELECT, without UNION",
                outer.args["from_"],
                hint="Nearest: UNION ALL of whole SELECTs.",
            )
        inner = self._flat(named.select, named.scope)
        if inner.args.get("from_") is None:
            raise self._source.refuse(
                "say what each SELECT reads",
                inner.expressions[0],
                hint="Nearest: SELECT * FROM and a dataset.",
            )
        output = self._output(inner, named.columns, name)
        is_grouped = any(inner.args.get(key) for key in ("group", "having")) or any(
            isinstance(part, _SUMS) for item in inner.expressions for part in item.walk()
        )
        # The different values of records are groups.
        is_grouped = is_grouped or bool(inner.args.get("distinct") and counts_groups(outer))
        return (
            self._shaped(outer, inner, output)
            if is_grouped
            else self._filtered(outer, inner, output)
        )

    def _output(self, inner: exp.Select, columns: tuple[str, ...], name: str) -> Output:
        found, gives_all = list[tuple[str, exp.Expr]](), False
        for i, item in enumerate(inner.expressions):
            is_star = isinstance(item, exp.Star) or isinstance(item.this, exp.Star)
            if is_star and not isinstance(item, exp.Func):
                gives_all = True
                continue
            called = columns[i] if i < len(columns) else item.alias_or_name or written_of(item)
            node = item.this if isinstance(item, exp.Alias) else item
            found.append((called, keep_written(node.unnest(), item)))
        if columns and (gives_all or len(columns) != len(found)):
            raise self._source.refuse(
                f"name all columns of `{name}`, or none", inner.expressions[0]
            )
        return Output(name, tuple(found), gives_all)

    def _filtered(self, outer: exp.Select, inner: exp.Select, output: Output) -> exp.Select:
        """An outer SELECT of records that the inner one filters and renames."""
        for key in ("limit", "offset", "distinct"):
            if inner.args.get(key):
                raise self._source.refuse(
                    "not cut records by LIMIT or DISTINCT in an inner SELECT",
                    inner.args[key] if key != "distinct" else inner.expressions[0],
                    hint="Nearest: LIMIT at the end, which cuts the groups.",
                )
        items = self._items(outer, output)
        aliases = {i.alias.lower(): k + 1 for k, i in enumerate(items) if i.alias}

        def position(column: exp.Column) -> exp.Expr | None:
            place = aliases.get(column.name.lower())
            return None if place is None else exp.Literal.number(place)

        def meant(column: exp.Column) -> exp.Expr | None:
            place = aliases.get(column.name.lower())
            return None if place is None else items[place - 1].this

        found = exp.Select(expressions=items, from_=self._renaming.copied(inner.args["from_"]))
        wheres = [self._part(outer, "where", output), inner.args.get("where")]
        self._set_all(found, exp.Where, "where", wheres)
        for key, alias in (("group", position), ("order", position), ("having", meant)):
            part = outer.args.get(key)
            if part is not None:
                found.set(key, self._renaming.through(part, output, alias=alias))
        for key in ("limit", "offset", "distinct"):
            if outer.args.get(key):
                found.set(key, self._renaming.copied(outer.args[key]))
        return found

    def _shaped(self, outer: exp.Select, inner: exp.Select, output: Output) -> exp.Select:
        """An outer SELECT that filters, renames and orders a table of groups, or counts them."""
        if counts_groups(outer):
            every = exp.Select(expressions=[exp.Star()])
            # No copy: the parts keep their places in the text.
            every.args["where"] = outer.args.get("where")
            return self._counted(outer, self._shaped(every, inner, output))
        if adds_up(outer, inner, output):
            return self._filtered(outer, inner, output)
        self._tops.filtered(outer, inner, output)
        cuts = inner.args.get("limit") or inner.args.get("offset")
        again = [part for item in outer.expressions for part in item.find_all(_SUMS)]
        if cuts is None:
            # Windows sum over the groups of the inner SELECT as over those of this one.
            again = [part for part in again if part.find_ancestor(exp.Window) is None]
            again = [part for part in again if not isinstance(part, exp.Window)]
        if outer.args.get("group") or again:
            raise self._source.refuse(
                "not group or count the groups of an inner SELECT",
                outer.args.get("group") or outer.expressions[0],
                hint="Nearest: group the records themselves, in one SELECT.",
            )
        self._check_once(outer, inner)
        found = exp.Select(
            expressions=self._items(outer, output), from_=self._renaming.copied(inner.args["from_"])
        )
        for key in ("where", "distinct"):
            if inner.args.get(key) or (key == "distinct" and outer.args.get(key)):
                found.set(key, self._renaming.copied(inner.args.get(key) or outer.args[key]))
        if group := inner.args.get("group"):
            found.set("group", self._resolved(group, inner, attribute_first=True))
        own = inner.args.get("having")
        havings = [
            self._part(outer, "where", output),
            None if own is None else self._resolved(own, inner, attribute_first=False),
        ]
        self._set_all(found, exp.Having, "having", havings)
        self._order(found, outer, inner, output)
        for key in ("limit", "offset"):
            if value := outer.args.get(key) or inner.args.get(key):
                found.set(key, self._renaming.copied(value))
        return found

    def _counted(self, outer: exp.Select, groups: exp.Select) -> exp.Select:
        """The SELECT of one number: how many groups a SELECT shows."""
        item = outer.expressions[0]
        source = self._renaming.copied(groups.args["from_"])
        node: exp.Expr = CountedGroups(this=groups)
        if isinstance(item, exp.Alias):
            node = exp.Alias(this=node, alias=self._renaming.copied(item.args["alias"]))
        return exp.Select(expressions=[keep_written(node, item)], from_=source)

    def _check_once(self, outer: exp.Select, inner: exp.Select) -> None:
        """Refuse what comes in another order than HAVING, windows, ORDER BY and LIMIT do."""
        cuts, where = inner.args.get("limit") or inner.args.get("offset"), outer.args.get("where")
        again = where or outer.args.get("order") or outer.args.get("limit")
        again = again or outer.args.get("offset")
        if cuts and again:
            raise self._source.refuse(
                "filter and order before it cuts by LIMIT",
                cuts,
                hint="Nearest: LIMIT at the end of the whole text.",
            )
        windows = [i.find(exp.Window) for i in inner.expressions]
        group = inner.args.get("group")
        has_sets = group is not None and (group.find(_SETS) or group.args.get("rollup"))
        if where is not None and (any(windows) or has_sets):
            raise self._source.refuse(
                "not filter groups after totals of them were formed",
                where,
                hint="Nearest: the condition in the WHERE of the inner SELECT.",
            )

    def _order(
        self, found: exp.Select, outer: exp.Select, inner: exp.Select, output: Output
    ) -> None:
        aliases = {i.alias.lower(): k + 1 for k, i in enumerate(found.expressions) if i.alias}

        def position(column: exp.Column) -> exp.Expr | None:
            place = aliases.get(column.name.lower())
            return None if place is None else exp.Literal.number(place)

        if order := outer.args.get("order"):
            found.set("order", self._renaming.through(order, output, alias=position))
        elif order := inner.args.get("order"):
            found.set("order", self._resolved(order, inner, attribute_first=False))

    def _items(self, outer: exp.Select, output: Output) -> list[exp.Expr]:
        """The items of the outer SELECT, with their names kept."""
        found = list[exp.Expr]()
        for item in outer.expressions:
            is_star = isinstance(item, exp.Star) or isinstance(item.this, exp.Star)
            if is_star and not isinstance(item, exp.Func):
                found += [
                    _called(self._renaming.copied(node), name) for name, node in output.columns
                ]
                if output.gives_all:
                    found.append(self._renaming.copied(item))
                continue
            node = keep_written(self._renaming.through(item, output), item)
            is_column = isinstance(item, exp.Column)
            found.append(_called(node, item.name) if is_column else node)
        return found

    def _part(self, outer: exp.Select, key: str, output: Output) -> exp.Expr | None:
        part = outer.args.get(key)
        return None if part is None else self._renaming.through(part, output)

    def _resolved(self, node: exp.Expr, inner: exp.Select, *, attribute_first: bool) -> exp.Expr:
        """GROUP BY, HAVING or ORDER BY of the inner SELECT without its positions and aliases."""
        items = inner.expressions
        aliases = {i.alias.lower(): i.this for i in items if isinstance(i, exp.Alias)}

        def meant(column: exp.Column) -> exp.Expr:
            known = attribute_first and self._names.is_known(column)
            found = None if known or column.args.get("table") else aliases.get(column.name.lower())
            return self._renaming.copied(column if found is None else found)

        found = self._renaming.replaced(node, meant)
        for literal in list(found.find_all(exp.Literal)):
            above = literal.parent
            is_position = isinstance(above, exp.Group | exp.Ordered | _SETS) and literal.is_int
            if is_position and 1 <= int(literal.name) <= len(items):
                item = items[int(literal.name) - 1]
                of = item.this if isinstance(item, exp.Alias) else item
                literal.replace(self._renaming.copied(of))
        return found

    def _set_all(
        self,
        found: exp.Select,
        form: type[exp.Where | exp.Having],
        key: str,
        parts: list[exp.Expr | None],
    ) -> None:
        """Set WHERE or HAVING to all of some conditions."""
        conditions = [self._renaming.copied(part.this) for part in parts if part is not None]
        if not conditions:
            return
        whole = conditions[0]
        for other in conditions[1:]:
            whole = exp.And(this=exp.Paren(this=whole), expression=exp.Paren(this=other))
        found.set(key, form(this=whole))


def _columns_of(node: exp.Expr) -> tuple[str, ...]:
    alias = node.args.get("alias")
    columns = [] if alias is None else alias.args.get("columns") or []
    return tuple(column.name for column in columns)


def _called(node: exp.Expr, name: str) -> exp.Expr:
    """An item with a name."""
    if isinstance(node, exp.Alias):
        return node
    return keep_written(exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True)), node)
