"""The first rows by their number: QUALIFY and a condition on ROW_NUMBER, as ORDER BY and LIMIT."""

from __future__ import annotations

from sqlglot import exp

from qserver.errors import SqlError
from qserver.query.sql.attributes import constant
from qserver.query.sql.rewriting.columns import Output
from qserver.query.sql.text import SqlText

_NEAREST = "Nearest: ORDER BY COUNT(*) DESC LIMIT 3."


class Tops:
    """Reads such conditions in one text."""

    def __init__(self, source: SqlText) -> None:
        self._source = source

    def qualified(self, select: exp.Select) -> None:
        """Put ORDER BY and LIMIT in the place of QUALIFY.

        Raises:
            SqlError: it tests something else than the number of a row in the whole table.
        """
        qualify = select.args.get("qualify")
        if qualify is None:
            return
        found = self._top(qualify.this, None)
        if found is None:
            raise self._refused(qualify)
        select.set("qualify", None)
        self._cut(select, select, *found)

    def filtered(self, outer: exp.Select, inner: exp.Select, output: Output) -> None:
        """Put ORDER BY and LIMIT in the place of the outer WHERE, where it tests a row's number.

        Raises:
            SqlError: the rows are ordered by something else as well.
        """
        where = outer.args.get("where")
        found = None if where is None else self._top(where.this, output)
        if where is None or found is None:
            return
        order = outer.args.get("order")
        if order is not None and not self._is_same(order, found[0], output):
            raise self._refused(order)
        outer.set("where", None)
        outer.set("order", None)
        self._cut(inner, outer, *found)

    def _cut(self, select: exp.Select, outer: exp.Select, window: exp.Window, n: int) -> None:
        """Order a SELECT as a window is, and cut it."""
        order = select.args.get("order")
        if outer.args.get("limit") or outer.args.get("offset") or select.args.get("limit"):
            raise self._refused(window)
        if order is not None and _by_items(order, select) != window.args["order"]:
            raise self._refused(order)
        select.set("order", window.args["order"].copy())
        select.set("limit", exp.Limit(expression=exp.Literal.number(n)))

    def _top(self, test: exp.Expr, output: Output | None) -> tuple[exp.Window, int] | None:
        """The window that numbers the rows, and how many are kept; None for another test."""
        test = test.unnest()
        if not isinstance(test, exp.LTE | exp.LT | exp.EQ):
            return None
        window = self._numbered(test.this, output)
        number = constant(test.expression, self._source)
        if window is None or number is None:
            return None
        n = number - 1 if isinstance(test, exp.LT) else number
        if n.denominator != 1 or n < 1 or (isinstance(test, exp.EQ) and n != 1):
            raise self._refused(test)
        return window, int(n)

    def _numbered(self, node: exp.Expr, output: Output | None) -> exp.Window | None:
        """ROW_NUMBER() OVER (ORDER BY ...) of the whole table, by name or written out."""
        node = node.unnest()
        if isinstance(node, exp.Column) and output is not None:
            node = output.of(node.this) or node
        if not isinstance(node, exp.Window) or not isinstance(node.this, exp.RowNumber):
            return None
        if node.args.get("order") is None or node.args.get("partition_by"):
            raise self._refused(node)
        return node

    def _is_same(self, order: exp.Order, window: exp.Window, output: Output) -> bool:
        """Whether rows are ordered by their number alone."""
        [first, *others] = order.expressions
        is_named = self._numbered(first.this, output) == window
        return is_named and not others and not first.args.get("desc")

    def _refused(self, node: exp.Expr) -> SqlError:
        return self._source.refuse(
            "keep the first rows of the whole table by ROW_NUMBER, and order and cut them once",
            node,
            hint=_NEAREST,
        )


def _by_items(order: exp.Order, select: exp.Select) -> exp.Order:
    """An ORDER BY with the items that its names stand for."""
    items = {i.alias.lower(): i.this for i in select.expressions if isinstance(i, exp.Alias)}
    found = order.copy()
    for column in list(found.find_all(exp.Column)):
        if (item := items.get(column.name.lower())) is not None and not column.args.get("table"):
            column.replace(item.copy())
    return found
