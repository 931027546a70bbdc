"""Conditions on released numbers, which decide the rows that stay."""

from __future__ import annotations

from fractions import Fraction

from sqlglot import exp

from qserver.errors import SqlError
from qserver.query.sql.attributes import constant
from qserver.query.sql.order_by import (
    Compare,
    Comparison,
    Every,
    Missing,
    Opposite,
    Test,
)
from qserver.query.sql.select import check_parts
from qserver.query.sql.shell.derived_table import First
from qserver.query.sql.shell.scopes import Scope

_COMPARISONS: dict[type[exp.Expr], Comparison] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_HAVING = "Nearest: HAVING COUNT(*) > 100, by the released number."
_TOPS = "Nearest: ORDER BY COUNT(*) DESC LIMIT 3."


class Choices:
    """The conditions of one SELECT: public ones, tests of numbers, and first ranks."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._source = scope.source
        self.public = list[exp.Expr]()
        self.tests = list[Test]()
        self.firsts = list[First]()

    def take(self, node: exp.Expr) -> None:
        """Take one of the conditions that must all hold.

        Raises:
            SqlError: it is not about numbers of the table and groups.
        """
        node = node.unnest()
        n_tests = sum(isinstance(part, exp.Predicate) for part in node.walk())
        check_parts(n_tests, "HAVING")
        if (first := self._first(node)) is not None:
            self.firsts.append(first)
            return
        if self._is_public(node):
            self.public.append(self._scope.value(node).node)
            return
        self.tests.append(self._test(node))

    def _is_public(self, node: exp.Expr) -> bool:
        """Whether no number is in a condition."""
        node = node.unnest()
        if isinstance(node, exp.And | exp.Or | exp.Not):
            return all(map(self._is_public, node.iter_expressions()))
        parts = [node] if not isinstance(node, exp.Predicate) else list(node.iter_expressions())
        values = [
            self._scope.value(part)
            for part in parts
            if not isinstance(part, exp.Subquery | exp.Select)
        ]
        return not any(value.is_number or value.rank for value in values)

    def _first(self, node: exp.Expr) -> First | None:
        """The test of a rank against a number."""
        if not isinstance(node, exp.LTE | exp.LT | exp.EQ):
            return None
        number = constant(node.expression, self._source)
        if number is None or constant(node.this, self._source) is not None:
            return None
        value = self._scope.value(node.this)
        if value.rank is None:
            return None
        n = number - 1 if isinstance(node, exp.LT) else number
        is_place = value.rank.kind in ("RANK", "ROW_NUMBER") and n.denominator == 1
        if not is_place or n < 1 or (isinstance(node, exp.EQ) and n != 1):
            raise self._source.refuse(
                "keep the first rows by their ranks, up to a number", node, hint=_TOPS
            )
        return First(value.rank, int(n))

    def _test(self, node: exp.Expr) -> Test:
        node = node.unnest()
        if isinstance(node, exp.Not):
            return Opposite(self._test(node.this))
        if isinstance(node, exp.And):
            return Every(tuple(self._test(part) for part in node.flatten()))
        if isinstance(node, exp.Or):
            # One holds unless none does.
            return Opposite(Every(tuple(Opposite(self._test(p)) for p in node.flatten())))
        if isinstance(node, exp.Between):
            of = self._side(node.this)
            low, high = self._side(node.args["low"]), self._side(node.args["high"])
            return Every((Compare(of, ">=", low), Compare(of, "<=", high)))
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            return Missing(self._number(node.this))
        by = _COMPARISONS.get(type(node))
        if by is None:
            raise self._no_test(node)
        return Compare(self._side(node.this), by, self._side(node.expression))

    def _side(self, node: exp.Expr) -> int | Fraction:
        number = constant(node, self._source)
        return self._number(node) if number is None else number

    def _number(self, node: exp.Expr) -> int:
        value = self._scope.value(node)
        if value.rank is not None:
            raise self._source.refuse(
                "keep the first rows by their ranks, up to a number", node, hint=_TOPS
            )
        if not value.is_number:
            raise self._no_test(node)
        self._scope.number(node)  # raises if it is rounded
        return self._scope.hide(value, node)

    def _no_test(self, node: exp.Expr) -> SqlError:
        return self._source.refuse(
            "compare numbers of the table with numbers in HAVING", node, hint=_HAVING
        )
