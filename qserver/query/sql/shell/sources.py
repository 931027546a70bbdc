"""Sources of a SELECT: groups of records, rows of other SELECTs, or groups of these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from qserver.errors import SqlError
from qserver.query.sql.attributes import is_same, no_column
from qserver.query.sql.functions.item_meaning import Linear
from qserver.query.sql.groups import without_total
from qserver.query.sql.select import Items
from qserver.query.sql.shell.derived_table import Column, Reader, Relation, Value, called
from qserver.query.sql.shell.engine_sql import is_null, of_all, of_rows
from qserver.query.sql.shell.record_groups import Core
from qserver.query.sql.shell.records import Named
from qserver.query.sql.shell.scopes import Scope

_AGGREGATES = (exp.AggFunc, exp.Filter, exp.WithinGroup)


class CoreScope(Scope):
    """A SELECT over records: its groups, and aggregates of each."""

    def __init__(
        self, shell: Reader, items: Items, env: Mapping[str, Named], core: Core, *, is_whole: bool
    ) -> None:
        super().__init__(shell, items, env)
        self.core = core
        self.used = set[int]()
        self._is_whole = is_whole

    def own(self, node: exp.Expr) -> Value | None:
        """A grouping or an aggregate."""
        if isinstance(node, exp.Grouping):
            return self._is_total(node)
        k = self.core.key(node)
        if k is not None:
            return self.key(k)
        called_so = isinstance(node, exp.Anonymous) and not _is_public_call(node)
        if isinstance(node, _AGGREGATES) or called_so:
            atom = self.core.atom(node)
            may_lack = not isinstance(self.core.atoms[atom].item, Linear)
            return Value(exp.column(f"a{atom}"), is_number=True, may_lack=may_lack)
        inner, text = without_total(node)
        if text is not None and (k := self.core.key(inner)) is not None:
            found = exp.Coalesce(this=exp.column(f"k{k}"), expressions=[exp.Literal.string(text)])
            return replace(self.key(k), node=found, course=())
        return None

    def groups(self) -> Iterator[exp.Expr]:
        """Groupings with missing values."""
        for k, one in enumerate(self.core.groupings):
            if any(value.name is None for value in one.values):
                yield exp.column(f"k{k}")

    def key(self, k: int) -> Value:
        """The value of a grouping."""
        one = self.core.groupings[k]
        self.used.add(k)
        return Value(
            exp.column(f"k{k}"),
            column=None,
            together=self.together(k),
            course=one.course,
            order=k,
            is_label=self.core.has_labels(k),
        )

    def together(self, k: int) -> int | None:
        """The column that says whether all values of a grouping are together."""
        if self.core.sets.is_one:
            return None
        return self.hide(Value(exp.column(f"t{k}")), self.core.groupings[k].node)

    def _is_total(self, node: exp.Grouping) -> Value:
        given = node.expressions
        k = self.core.key(given[0].unnest()) if len(given) == 1 else None
        if k is None:
            raise self.source.refuse("give GROUPING one part of GROUP BY", node)
        whole = exp.Cast(this=exp.column(f"t{k}"), to=exp.DataType.build("INT"))
        return Value(whole)

    def check_window(self, node: exp.Window) -> None:
        """A sum over groups is over all of them."""
        if not self.core.groupings:
            raise self.source.refuse("group by something where it says OVER", node)
        if not self._is_whole or not self.core.sets.is_one:
            raise self.source.refuse(
                "have neither HAVING by numbers nor ROLLUP where it sums OVER groups",
                node,
                hint="Nearest: the same without HAVING.",
            )

    def unknown(self, node: exp.Expr) -> SqlError:
        """The error of an expression that is neither grouped nor aggregated."""
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            axis = self.core.names.any_axis(node)  # raises if it names no attribute
            name = self.source.source(node)
            if self.is_choice:
                name = self.core.names.domain.names[axis]
                return self.source.refuse(f"group by `{name}` to order or choose by it", node)
            return self.source.refuse(
                f"count or sum `{name}`, or group by it",
                node,
                hint=f"Nearest: SELECT {name}, COUNT(*) ... GROUP BY {name}.",
            )
        if isinstance(node, exp.Star) or isinstance(node.this, exp.Star):
            return self.source.refuse(
                "count records, not list them", node, hint="Nearest: COUNT(*)."
            )
        return self._no_number(node)


def _is_public_call(node: exp.Anonymous) -> bool:
    return node.name.upper() in {"DATE_PART", "ISODOW", "MAKE_DATE", "REGEXP_MATCHES", "STRFTIME"}


class TableScope(Scope):
    """A SELECT over other SELECTs, without groups of its own."""

    def __init__(
        self,
        shell: Reader,
        items: Items,
        env: Mapping[str, Named],
        tables: Sequence[tuple[str, Relation]],
    ) -> None:
        super().__init__(shell, items, env)
        self.tables = tables

    def own(self, node: exp.Expr) -> Value | None:
        """A column of one of the tables."""
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return None
        found = self.find(node)
        if len(found) > 1:
            raise self.source.refuse(
                f"say which `{node.name[:40]}` it means: {', '.join(a for a, _ in found)}", node
            )
        return None if not found else found[0][1].read_by(found[0][0])

    def groups(self) -> Iterator[exp.Expr]:
        """Public columns of its tables; a total is not a missing value."""
        for alias, relation in self.tables:
            for column in relation.columns:
                if column.is_number or column.rank is not None:
                    continue
                own = exp.column(column.sql, table=alias)
                if column.together is None:
                    yield own
                else:
                    whole = exp.column(called(column.together), table=alias)
                    known = exp.Or(this=whole, expression=exp.Not(this=is_null(own)))
                    yield exp.Case(ifs=[exp.If(this=known, true=exp.true())])

    def find(self, node: exp.Column) -> list[tuple[str, Column]]:
        """The columns with this name, with their tables."""
        table, name = node.table.lower(), node.this
        return [
            (alias, column)
            for alias, relation in self.tables
            if not table or alias.lower() == table
            for column in relation.columns
            if not column.is_extra
            and (table or not column.is_merged)
            and is_same(column.name, name)
        ]

    def unknown(self, node: exp.Expr) -> SqlError:
        """The error of a name that no table has, or of a misplaced aggregate."""
        if isinstance(node, exp.Column):
            names = [c.name for _, one in self.tables for c in one.columns if not c.is_extra]
            tables = [alias for alias, _ in self.tables if alias]
            if node.table and node.table.lower() not in map(str.lower, tables):
                shown = "".join(f"`{alias}`, " for alias in tables[:1])
                return self.source.refuse(f"name {shown}or nothing, before a dot", node)
            return no_column(node, tables[0] if len(tables) == 1 else "", names, self.source)
        return self._no_number(node)


class GroupedScope(Scope):
    """A SELECT that groups rows of other SELECTs by public values."""

    def __init__(
        self,
        shell: Reader,
        items: Items,
        env: Mapping[str, Named],
        inner: TableScope,
        keys: Sequence[exp.Expr],
    ) -> None:
        super().__init__(shell, items, env)
        self.inner = inner
        self.keys = list(keys)
        self.parts = [exp.alias_(self._key(node), f"k{k}") for k, node in enumerate(self.keys)]
        self._aggregates = list[exp.Expr]()

    def _key(self, node: exp.Expr) -> exp.Expr:
        return self.inner.public(
            node,
            "group by public columns, not by released numbers",
            "Nearest: ORDER BY the number.",
        )

    def own(self, node: exp.Expr) -> Value | None:
        """A key or an aggregate."""
        for k, key in enumerate(self.keys):
            if node == key or self._is_same(node, key):
                own = self.inner.value(key)
                return replace(own, node=exp.column(f"k{k}"), column=None, together=None, order=k)
        if isinstance(node, exp.AggFunc | exp.Filter):
            return self._aggregate(node)
        return None

    def groups(self) -> Iterator[exp.Expr]:
        """Its keys."""
        return (exp.column(f"k{k}") for k in range(len(self.keys)))

    def _is_same(self, node: exp.Expr, key: exp.Expr) -> bool:
        if not (isinstance(node, exp.Column) and isinstance(key, exp.Column)):
            return False
        if isinstance(node.this, exp.Star):
            return False
        return bool(self.inner.find(node)) and self.inner.find(node) == self.inner.find(key)

    def _aggregate(self, node: exp.Expr) -> Value:
        function, where = node, None
        if isinstance(node, exp.Filter):
            function, why = node.this, "use public columns in FILTER"
            where = exp.Where(this=self.inner.public(node.expression.this, why))
        name = of_rows(function)
        if not name or isinstance(function, exp.Avg):
            raise self._no_aggregate(node)  # how many rows an average is of is not known
        of = self.inner.value(function.this)
        if not of.is_number:
            raise self._no_aggregate(node)
        texts: exp.Expr = exp.GroupConcat(this=of.node, separator=exp.Literal.string(","))
        if not isinstance(function, exp.Sum):
            texts = self.inner.compared(texts, [self.inner.value(key).node for key in self.keys])
        if where is not None and isinstance(texts, exp.Filter):
            where = exp.Where(this=exp.And(this=where.this, expression=texts.expression.this))
            texts = texts.this
        texts = texts if where is None else exp.Filter(this=texts, expression=where)
        if texts not in self._aggregates:
            self._aggregates.append(texts)
            self.parts.append(exp.alias_(texts, f"a{len(self._aggregates) - 1}"))
        column = exp.column(f"a{self._aggregates.index(texts)}")
        return Value(of_all(name, column), is_number=True)

    def _no_aggregate(self, node: exp.Expr) -> SqlError:
        return self.source.refuse(
            "take SUM, MIN or MAX of the numbers of an inner SELECT: how many groups have a record "
            "is not known",
            node,
            hint="Nearest: SUM(n) / 16, by a number of groups of yours; or group the records "
            "themselves, in one SELECT.",
        )

    def unknown(self, node: exp.Expr) -> SqlError:
        """The error of an expression that is neither grouped nor added up."""
        if isinstance(node, exp.Column) and not self.inner.find(node):
            return self.inner.unknown(node)
        return self.source.refuse("group by it, or take SUM, MIN or MAX of it", node)
