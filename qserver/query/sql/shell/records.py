"""SELECTs over records: nested ones that only filter and rename are merged.

Filtered and renamed records are those of the dataset under more conditions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlglot import exp

from qserver.errors import SqlError
from qserver.query.sql.attributes import Names
from qserver.query.sql.logic import is_star
from qserver.query.sql.select import Output, Renaming, keep_written, written_of
from qserver.query.sql.shell.rewriting import SCHEMA
from qserver.query.sql.text import ASK_FIRST, CHOOSES, JOINED, NO_SELECT, NO_TEST

_OF_GROUPS = (exp.AggFunc, exp.Window)
_PARTS = frozenset({"expressions", "from_", "where", "group", "kind", "distinct", "qualify"}) | {
    "having",
    "order",
    "limit",
    "offset",
    "with_",
}


@dataclass(frozen=True)
class Named:
    """A SELECT that another one reads.

    Args:
        name: or ''.
        select: the SELECT.
        env: its named tables.
        columns: names of its columns; empty for its own.
    """

    name: str
    select: exp.Expr
    env: Mapping[str, Named]
    columns: tuple[str, ...] = ()


class Records:
    """Finds the SELECTs over records; `names`: the attributes of the dataset."""

    def __init__(self, names: Names, dataset: str) -> None:
        self._source = names.source
        self._dataset = dataset
        self._renaming = Renaming(names.source)
        self._known: dict[int, exp.Select | None] = {}

    def scope(self, inner: exp.With, env: Mapping[str, Named]) -> Mapping[str, Named]:
        """The named tables after a WITH."""
        if inner.args.get("recursive"):
            raise self._source.refuse("not use RECURSIVE", inner)
        found = dict(env)
        for cte in inner.expressions:
            found[cte.alias.lower()] = Named(cte.alias, cte.this, dict(found), _columns_of(cte))
        return found

    def named(self, node: exp.Expr, env: Mapping[str, Named]) -> Named | None:
        """The SELECT of a part of FROM; None for the dataset."""
        if isinstance(node, exp.Subquery):
            if others_of(node, {"this", "alias"}):
                raise self._source.refuse("read one dataset, by its name", node)
            return Named(node.alias, node.this, env, _columns_of(node))
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            found = None if node.args.get("db") else env.get(node.name.lower())
            if found is not None:
                return Named(node.alias or node.name, found.select, found.env, found.columns)
        return None

    def is_of_records(self, named: Named) -> bool:
        """Whether a SELECT gives records, not groups."""
        if not isinstance(named.select, exp.Select) or _is_grouped(named.select):
            return False
        return self.flat(named.select, named.env) is not None

    def flat(self, select: exp.Select, env: Mapping[str, Named]) -> exp.Select | None:
        """The merged SELECT over the dataset; None for one that reads groups.

        Raises:
            SqlError: records are cut, or joined.
            CapacityError: it becomes too long.
        """
        source = select.args.get("from_")
        if source is None:
            return None
        unknown = others_of(select, _PARTS)
        if "joins" in unknown:
            self._check_joined(select, env)
            return None
        if unknown:
            raise self._source.refuse("read one dataset, by its name", source)
        inner = select.args.get("with_")
        if inner is not None:
            env = self.scope(inner, env)
        named = self.named(source.this, env)
        if named is None:
            self._check_condition(select)
            return select
        if not isinstance(named.select, exp.Select) or _is_grouped(named.select):
            return None
        found = self.flat(named.select, named.env)
        return None if found is None else self._filtered(select, found, named)

    def _check_joined(self, select: exp.Select, env: Mapping[str, Named]) -> None:
        """SqlError if a joined table has records."""
        joins = select.args["joins"]
        for part in (select.args["from_"], *joins):
            named = self.named(part.this, env)
            if named is None or self.is_of_records(named):
                raise self.no_join(joins[0])

    def no_join(self, node: exp.Expr) -> SqlError:
        """The error that records cannot be joined."""
        return self._source.refuse("read one dataset, without JOIN", node, hint=JOINED)

    def tables(self, select: exp.Select) -> tuple[str, ...]:
        """The dataset's names in a SELECT; also checks the FROM."""
        source = select.args["from_"]
        table = source.this
        is_plain = isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier)
        if not is_plain or others_of(table, {"this", "alias", "db"}):
            raise self._source.refuse("read one dataset, by its name", source)
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
                f"name no schema but `{SCHEMA}`", schema, hint=f"Nearest: FROM {self._dataset}."
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

    def _check_condition(self, select: exp.Select) -> None:
        where = select.args.get("where")
        found = None if where is None else where.find(exp.Subquery, exp.Select)
        if found is not None:
            is_in = isinstance(found.parent, exp.In)
            why, hint = (NO_TEST, CHOOSES) if is_in else (NO_SELECT, ASK_FIRST)
            raise self._source.refuse(why, found, hint=hint)

    def _filtered(self, outer: exp.Select, inner: exp.Select, named: Named) -> exp.Select:
        """An outer SELECT of records that the inner one filters and renames."""
        for key in ("limit", "offset", "distinct"):
            if inner.args.get(key):
                raise self._source.refuse(
                    "not cut records by LIMIT or DISTINCT in an inner SELECT",
                    inner.args[key] if key != "distinct" else inner.expressions[0],
                    hint="Nearest: LIMIT at the end, which cuts the groups.",
                )
        output = self._output(inner, named)
        items = self._items(outer, output)
        aliases = {i.alias.lower(): k + 1 for k, i in enumerate(items) if i.alias}

        def position(column: exp.Column) -> exp.Expr | None:
            place = aliases.get(column.name.lower())
            return None if place is None else exp.Literal.number(place)

        def meant(column: exp.Column) -> exp.Expr | None:
            place = aliases.get(column.name.lower())
            return None if place is None else items[place - 1].this

        found = exp.Select(expressions=items, from_=self._renaming.copied(inner.args["from_"]))
        self._set_where(found, outer, inner, output)
        parts = (("group", position), ("order", position), ("having", meant), ("qualify", meant))
        for key, alias in parts:
            part = outer.args.get(key)
            if part is not None:
                found.set(key, self._renaming.through(part, output, alias=alias))
        for key in ("limit", "offset", "distinct"):
            if outer.args.get(key):
                found.set(key, self._renaming.copied(outer.args[key]))
        return found

    def _set_where(
        self, found: exp.Select, outer: exp.Select, inner: exp.Select, output: Output
    ) -> None:
        """Both conditions."""
        self._check_condition(outer)
        own, other = outer.args.get("where"), inner.args.get("where")
        parts = [
            *([] if own is None else [self._renaming.through(own.this, output)]),
            *([] if other is None else [self._renaming.copied(other.this)]),
        ]
        if len(parts) == 2:
            whole = exp.And(this=exp.Paren(this=parts[0]), expression=exp.Paren(this=parts[1]))
            found.set("where", exp.Where(this=whole))
        elif parts:
            found.set("where", exp.Where(this=parts[0]))

    def _output(self, inner: exp.Select, named: Named) -> Output:
        columns, name = named.columns, named.name
        found, gives_all = list[tuple[str, exp.Expr]](), False
        for i, item in enumerate(inner.expressions):
            if is_star(item):
                gives_all = True
                continue
            called = columns[i] if i < len(columns) else item.alias_or_name or written_of(item).text
            node = item.this if isinstance(item, exp.Alias) else item
            found.append((called, keep_written(node.unnest(), item)))
        if columns and (gives_all or len(columns) != len(found)):
            raise self._source.refuse(
                f"name all columns of `{name}`, or none", inner.expressions[0]
            )
        return Output(name, tuple(found), gives_all)

    def _items(self, outer: exp.Select, output: Output) -> list[exp.Expr]:
        """The items of the outer SELECT, with their names kept."""
        found = list[exp.Expr]()
        for item in outer.expressions:
            if is_star(item):
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


def counts_groups(outer: exp.Select) -> bool:
    """Whether a SELECT only counts the rows of another."""
    others = others_of(outer, {"expressions", "from_", "where", "with_"})
    if others or len(outer.expressions) != 1:
        return False
    item = outer.expressions[0]
    node = item.this if isinstance(item, exp.Alias) else item
    return isinstance(node, exp.Count) and isinstance(node.this, exp.Star)


def _is_grouped(select: exp.Select) -> bool:
    """Whether a SELECT gives groups, such as distinct values."""
    return any(select.args.get(key) for key in ("group", "having", "distinct")) or any(
        isinstance(part, _OF_GROUPS) for item in select.expressions for part in item.walk()
    )


def others_of(node: exp.Expr, known: Collection[str]) -> set[str]:
    """Parts of a node that the text sets, besides known ones."""
    return {key for key, value in node.args.items() if value} - set(known)


def _columns_of(node: exp.Expr) -> tuple[str, ...]:
    alias = node.args.get("alias")
    columns = [] if alias is None else alias.args.get("columns") or []
    return tuple(column.name for column in columns)


def _called(node: exp.Expr, name: str) -> exp.Expr:
    """An item with a name."""
    if isinstance(node, exp.Alias):
        return node
    return keep_written(exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True)), node)
