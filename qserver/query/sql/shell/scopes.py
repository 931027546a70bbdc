"""Expressions of one SELECT for the engine: the meaning of names, and calculations.

In the engine, periods of an inner SELECT are texts such as `2024-W02`. Functions of days, and
comparisons with days, take their first days.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final, Literal

from sqlglot import exp

from qserver.errors import SqlError
from qserver.query.sealed_periods import first_and_last
from qserver.query.sql.attributes import constant
from qserver.query.sql.logic import is_text, made
from qserver.query.sql.select import Items, written
from qserver.query.sql.shaping.ranks import RankKind
from qserver.query.sql.shaping.rounding import MOST_DIGITS, Rounding
from qserver.query.sql.shell.derived_table import Column, Ranked, Reader, Value
from qserver.query.sql.shell.engine_sql import (
    aliased,
    call,
    constant_text,
    is_null,
    number_of,
    of_all,
    of_rows,
    operator_of,
)
from qserver.query.sql.shell.records import Named
from qserver.query.sql.shell.rewriting import written_day
from qserver.query.sql.statement import MAX_CELLS

_RANKS: dict[type[exp.Expr], RankKind] = {
    exp.Rank: "RANK",
    exp.RowNumber: "ROW_NUMBER",
    exp.DenseRank: "DENSE_RANK",
    exp.PercentRank: "PERCENT_RANK",
    exp.CumeDist: "CUME_DIST",
    exp.Ntile: "NTILE",
}
_MAKES_TEXTS = (*(exp.Concat, exp.ConcatWs, exp.DPipe, exp.TimeToStr, exp.ToChar), exp.Format)
_PASSED = (exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue)
_WHOLE = frozenset({exp.DType.INT, exp.DType.BIGINT, exp.DType.SMALLINT})
_HOW: dict[type[exp.Expr], Literal["nearest", "down", "up", "cut"]] = {
    exp.Round: "nearest",
    exp.Floor: "down",
    exp.Ceil: "up",
    exp.Trunc: "cut",
}
_ROUNDS = exp.Round | exp.Floor | exp.Ceil | exp.Trunc
_TEXTS = frozenset({exp.DType.TEXT, exp.DType.VARCHAR, exp.DType.CHAR})
_REAL = frozenset({exp.DType.FLOAT, exp.DType.DOUBLE, exp.DType.DECIMAL})
_OF_ALL = "Groups without a record are rows, too, with a count of 0."
_COMPARED = (
    "MIN and MAX are of all groups of the domain, but of missing values; one without a record has "
    "a count of 0."
)
_WINDOW_HINT = "Nearest: COUNT(*) / SUM(COUNT(*)) OVER (), the share of each group."
_RANK_HINT = "Nearest: RANK() OVER (ORDER BY COUNT(*) DESC)."


class Scope(ABC):
    """The meaning of names in one SELECT.

    Args:
        shell: the statement.
        items: of the SELECT, whose names others may use.
        env: the named SELECTs.
    """

    def __init__(self, shell: Reader, items: Items, env: Mapping[str, Named]) -> None:
        self.shell = shell
        self.env = env
        self.source = shell.source
        self.items = items
        self.hidden = list[Column]()
        self.is_choice = False
        self._open = list[int]()
        self._known = dict[int, Value]()

    # What the kinds of SELECT differ in.

    @abstractmethod
    def own(self, node: exp.Expr) -> Value | None:
        """The value of a column or an aggregate; None for another expression."""

    @abstractmethod
    def groups(self) -> Iterator[exp.Expr]:
        """The groups of a row that may be NULL."""

    @abstractmethod
    def unknown(self, node: exp.Expr) -> SqlError:
        """The error of an expression without meaning."""

    # What they have in common.

    def value(self, node: exp.Expr) -> Value:
        """An expression in terms of the engine; SqlError if it cannot be calculated."""
        node = node.unnest()
        if id(node) not in self._known:
            self._known[id(node)] = self._value(node)
        return self._known[id(node)]

    def _value(self, node: exp.Expr) -> Value:
        if (found := self.own(node)) is not None:
            return found
        if isinstance(node, exp.Column):
            if (alias := self.by_alias(node)) is not None:
                return alias
            raise self.unknown(node)
        if constant(node, self.source) is not None or isinstance(node, exp.Literal):
            return Value(node.copy())
        if isinstance(node, exp.Null):  # what is of no group is of all of them
            return Value(node.copy(), together=self.hide(Value(exp.true()), node))
        if isinstance(node, exp.Select | exp.Subquery):
            return self._selected(node)
        if isinstance(node, exp.Window):
            return self._window(node)
        if isinstance(node, exp.Add | exp.Sub):
            return self._sum(node)
        return self._calculated(node)

    def part(self, node: exp.Expr) -> Value:
        """A part of an expression; SqlError for a rank, which allows no calculation."""
        found = self.value(node)
        if found.rank is not None:
            raise self.source.refuse(
                "not calculate with ranks by released numbers, only show them, choose by them "
                "(place <= 3) and order by them",
                node,
            )
        return found

    def number(self, node: exp.Expr) -> exp.Expr:
        """The text of a number, released or not."""
        fixed = constant(node.unnest(), self.source)
        if fixed is not None:
            return constant_text(fixed)
        found = self.part(node)
        if found.digits is not None:
            raise self.source.refuse(
                "round only numbers that are shown, not inside a calculation or a choice",
                node,
                hint="Nearest: ROUND around the whole of an item.",
            )
        return number_of(found)

    def public(self, node: exp.Expr, condition: str, hint: str = "") -> exp.Expr:
        """A public expression; SqlError with this condition for another."""
        found = self.value(node)
        if found.is_number or found.rank is not None:
            raise self.source.refuse(condition, node, hint=hint)
        return found.node

    def hide(self, value: Value, node: exp.Expr) -> int:
        """The number of a column without a name that has this value."""
        if value.column is not None:
            return value.column
        for one in self.hidden:
            if one.node == value.node:
                return one.id
        name = written(node, self.source)
        column = Column.of(value, self.shell.next_id(), name)
        self.hidden.append(column)
        return column.id

    def by_alias(self, node: exp.Expr) -> Value | None:
        """The value of an item of SELECT that another names."""
        at = self.items.of_alias(node)
        if at is None or at in self._open:
            return None
        self._open.append(at)
        try:
            return self.value(self.items.found[at].node)
        finally:
            self._open.pop()

    def _sum(self, node: exp.Add | exp.Sub) -> Value:
        """A sum of many summands: they nest to the left, so a loop walks them."""
        summands, at = list[tuple[type[exp.Expr], exp.Expr]](), node.this
        kind: type[exp.Expr] = type(node)
        summands.append((kind, node.expression))
        while isinstance(at, exp.Add | exp.Sub) and self.own(at) is None:
            summands.append((type(at), at.expression))
            at = at.this
        values = [self.part(at), *(self.part(one) for _, one in reversed(summands))]
        if not any(value.is_number for value in values):
            found = values[0].node
            for (kind, _), value in zip(reversed(summands), values[1:], strict=True):
                found = kind(this=found, expression=value.node)
            return Value(exp.Paren(this=found))
        texts = [self.number(at)]
        for kind, one in reversed(summands):
            text = self.number(one)
            texts.append(call("-", [text]) if kind is exp.Sub else text)
        lacks = any(value.may_lack for value in values)
        return Value(call("+", texts), is_number=True, may_lack=lacks)

    def _calculated(self, node: exp.Expr) -> Value:
        """An operator or a function of other expressions."""
        if isinstance(node, exp.Case | exp.If):
            return self._case(node)
        if isinstance(node, exp.AggFunc | exp.Star):
            raise self.unknown(node)
        if isinstance(node, _ROUNDS):
            self._digits(node)
        if (day := written_day(node)) is not None:
            return Value(day)
        parts = {id(part): self.part(part) for part in _expressions(node)}
        if not any(value.is_number for value in parts.values()):
            days = as_days(node, [*parts.values()])
            return Value(_rebuilt(node, dict(zip(parts, days, strict=True))))
        if isinstance(node, exp.Cast | exp.Coalesce | exp.Nullif | _ROUNDS):
            return self._same(node)
        lacks = any(value.may_lack for value in parts.values())
        if isinstance(node, exp.Neg):
            return Value(call("-", [self.number(node.this)]), is_number=True, may_lack=lacks)
        return self._function(node, lacks=lacks)

    def _function(self, node: exp.Expr, *, lacks: bool) -> Value:
        """An operator or a function of numbers."""
        if isinstance(node, exp.SafeDivide):
            node = made(exp.Div, {"this": node.this, "expression": node.expression})
        if isinstance(node, exp.Log):
            return self._logarithm(node)
        if isinstance(node, exp.Greatest | exp.Least):
            name = "greatest" if isinstance(node, exp.Greatest) else "least"
            texts = [self.number(one) for one in (node.this, *node.expressions)]
            return Value(call(name, texts), is_number=True, may_lack=lacks)
        name = operator_of(node)
        if not name:
            raise self._no_number(node)
        given = [one for one in (node.this, node.args.get("expression")) if one is not None]
        texts = [self.number(one) for one in given]
        return Value(call(name, texts), is_number=True, may_lack=lacks or name != "*")

    def _logarithm(self, node: exp.Log) -> Value:
        base = constant(node.this, self.source) if node.expression is not None else Fraction(10)
        of = node.this if node.args.get("expression") is None else node.expression
        if base in (2, 10):
            return Value(call(f"log{base}", [self.number(of)]), is_number=True)
        if base is None or base <= 0 or base == 1:
            raise self._no_number(node)
        texts = [call("ln", [self.number(of)]), constant_text(Fraction(math.log(base)))]
        return Value(call("/", texts), is_number=True)

    def _same(self, node: exp.Expr) -> Value:
        """ROUND, CAST, COALESCE and NULLIF of a number."""
        of = self.value(node.this)
        if isinstance(node, exp.Coalesce):
            if of.is_number and of.may_lack:
                raise self.source.refuse(
                    "not put another value for an average or a quotient: whether it has one is not "
                    "known",
                    node,
                )
            texts = [number_of(of), *map(self.number, node.expressions)]
            found = exp.Coalesce(this=texts[0], expressions=texts[1:])
            return Value(found, is_number=True, digits=of.digits)
        if isinstance(node, exp.Nullif):
            if constant(node.expression, self.source) != 0:
                raise self._no_number(node)
            return of.alone
        if isinstance(node, _ROUNDS):
            if of.digits is not None:
                self.number(node.this)  # raises
            digits = self._digits(node)
            return replace(of.alone, digits=Rounding(digits, _HOW[type(node)]))
        to = node.args["to"]
        if to.this in _WHOLE:
            return replace(of.alone, digits=Rounding(0))
        if to.this in _TEXTS:
            return of.alone  # shown as it is
        if to.this in _REAL:
            return replace(of.alone, digits=Rounding(_scale(to)) if to.expressions else of.digits)
        raise self._no_number(node)

    def _digits(self, node: exp.Expr) -> int:
        said = node.args.get("decimals")
        digits = Fraction(0) if said is None else constant(said, self.source)
        if digits is None or digits.denominator != 1 or abs(digits) > MOST_DIGITS:
            raise self.source.refuse(
                f"round to a whole number of digits, from -{MOST_DIGITS} to {MOST_DIGITS}", node
            )
        return int(digits)

    def _case(self, node: exp.Case | exp.If) -> Value:
        """A choice of numbers, or of public values, by public facts."""
        ifs = node.args["ifs"] if isinstance(node, exp.Case) else [node]
        key = "default" if isinstance(node, exp.Case) else "false"
        subject, default = node.this if isinstance(node, exp.Case) else None, node.args.get(key)
        results = [one.args["true"] for one in ifs]
        is_number = any(
            self.part(one).is_number
            for one in (*results, *([default] if default is not None else []))
        )
        of = self.number if is_number else (lambda one: self.value(one).node)
        why = "use public columns in CASE, not released numbers"
        hint = "Nearest: HAVING COUNT(*) > 100, by the released number."
        branches = [
            exp.If(this=self.public(one.this, why, hint), true=of(one.args["true"])) for one in ifs
        ]
        found = exp.Case(
            this=None if subject is None else self.public(subject, why, hint),
            ifs=branches,
            default=None if default is None else of(default),
        )
        return Value(found, is_number=is_number)

    def _selected(self, node: exp.Expr) -> Value:
        """The one number or value of an inner SELECT."""
        select = node.this if isinstance(node, exp.Subquery) else node
        relation = self.shell.relation(select, self.env)
        if len(relation.columns) != 1 or not relation.is_plain:
            raise self.source.refuse(
                "select one number in an inner SELECT among the items, without GROUP BY", node
            )
        [column] = relation.columns
        inner = exp.Select(expressions=[exp.column(column.sql)])
        inner = inner.from_(aliased(relation.query, "s"))
        return Value(exp.Subquery(this=inner), is_number=column.is_number, digits=column.digits)

    def _window(self, node: exp.Window) -> Value:
        function = node.this
        order = node.args.get("order")
        keys = [] if order is None else [(one, self.value(one.this)) for one in order.expressions]
        if type(function) in _RANKS and any(value.is_number for _, value in keys):
            return self._rank(node, keys)
        if any(value.is_number or value.rank is not None for _, value in keys):
            raise self.source.refuse(
                "order by a group in OVER, not by released numbers", node, hint=_WINDOW_HINT
            )
        if isinstance(function, exp.IgnoreNulls | exp.RespectNulls):
            function = function.this
        frame = {
            "partition_by": [self._partition(one) for one in node.args.get("partition_by") or ()],
            "order": None
            if order is None
            else exp.Order(expressions=[_sorted(one, value) for one, value in keys]),
            "spec": node.args["spec"].copy() if node.args.get("spec") is not None else None,
            "over": "OVER",
        }
        return self._over(function, frame, node)

    def _partition(self, node: exp.Expr) -> exp.Expr:
        why, hint = "group by what PARTITION BY names", "Nearest: OVER ()."
        try:
            return self.public(node, why, hint)
        except SqlError as exc:
            raise self.source.refuse(why, node, hint=hint) from exc

    def _over(self, function: exp.Expr, frame: dict[str, object], node: exp.Window) -> Value:
        if type(function) in _RANKS:
            if frame["order"] is None:
                raise self.source.refuse(
                    "rank groups by a number of the table", node, hint=_RANK_HINT
                )
            return Value(exp.Window(this=function.copy(), **frame))
        self.check_window(node)
        if isinstance(function, _PASSED):
            self.shell.remarks.append(_OF_ALL)
            return self._passed(function, frame)
        if isinstance(function, exp.Avg):
            if frame["spec"] is None:
                raise self.source.refuse(
                    "average over so many rows in OVER: how many groups have a record is not known",
                    node,
                    hint="Nearest: SUM(COUNT(*)) OVER () / 16, by a number of groups of yours; or "
                    "OVER (ORDER BY a ROWS BETWEEN 2 PRECEDING AND CURRENT ROW).",
                )
            self.shell.remarks.append(_OF_ALL)
        name = of_rows(function)
        of = self.value(function.this) if name else None
        if of is None or not of.is_number:
            raise self.source.refuse(
                "use OVER with SUM, AVG, MIN or MAX of numbers, with LAG, LEAD and FIRST_VALUE, or "
                "with RANK or ROW_NUMBER",
                node,
                hint=_WINDOW_HINT,
            )
        texts: exp.Expr = exp.GroupConcat(this=of.node, separator=exp.Literal.string(","))
        if isinstance(function, exp.Min | exp.Max):
            parties = node.args.get("partition_by") or ()
            texts = self.compared(texts, [self._partition(one) for one in parties])
        return Value(of_all(name, exp.Window(this=texts, **frame)), is_number=True)

    def compared(self, texts: exp.Expr, alike: Sequence[exp.Expr]) -> exp.Expr:
        """Texts of compared rows, without missing values.

        Args:
            alike: groups that all of them share.
        """
        self.shell.remarks.append(_COMPARED)
        known = [exp.Not(this=is_null(one)) for one in self.groups() if one not in alike]
        return (
            exp.Filter(this=texts, expression=exp.Where(this=exp.and_(*known))) if known else texts
        )

    def check_window(self, node: exp.Window) -> None:
        """SqlError if a sum over groups would include only groups chosen by a number."""
        del node  # of most SELECTs no number chooses the rows

    def _passed(self, function: exp.Expr, frame: dict[str, object]) -> Value:
        """The value of another row."""
        of = self.value(function.this)
        args = {**{k: v.copy() for k, v in function.args.items() if isinstance(v, exp.Expr)}}
        args["this"] = of.node
        if (default := function.args.get("default")) is not None:
            args["default"] = self.number(default) if of.is_number else self.value(default).node
        return Value(
            exp.Window(this=type(function)(**args), **frame),
            is_number=of.is_number,
            digits=of.digits,
        )

    def _rank(self, node: exp.Window, keys: Sequence[tuple[exp.Ordered, Value]]) -> Value:
        """A rank by numbers that are not released yet."""
        [(by, value), *others] = keys
        is_public = all(not other.is_number for _, other in others)
        if not value.is_number or not is_public or node.args.get("spec"):
            raise self.source.refuse(
                "rank groups by one number of the table", node, hint=_RANK_HINT
            )
        parts = [self._partition(one) for one in node.args.get("partition_by") or ()]
        parties = None
        if parts:
            order = exp.Order(expressions=[exp.Ordered(this=one) for one in parts])
            numbered = exp.Window(this=exp.DenseRank(), order=order, over="OVER")
            parties = self.hide(Value(numbered), node)
        rank = Ranked(
            self.hide(value, by.this),
            bool(by.args.get("desc")),
            parties,
            kind := _RANKS[type(node.this)],
            self._tiles(node.this) if kind == "NTILE" else 1,
        )
        if kind in ("PERCENT_RANK", "CUME_DIST", "NTILE"):
            self.shell.remarks.append(_OF_ALL)
        return Value(exp.null(), rank=rank)

    def _tiles(self, node: exp.Expr) -> int:
        number = None if node.this is None else constant(node.this, self.source)
        if number is None or number.denominator != 1 or not 1 <= number <= MAX_CELLS:
            raise self.source.refuse(
                f"give NTILE a whole number of parts, from 1 to {MAX_CELLS:,}", node
            )
        return int(number)

    def _no_number(self, node: exp.Expr) -> SqlError:
        if isinstance(node, exp.Predicate | exp.Connector | exp.Not):
            return self.source.refuse(
                "compare numbers of the table with numbers in HAVING",
                node,
                hint="Nearest: the number itself, whose interval says on which side it is, or "
                "HAVING COUNT(*) > 100, which chooses rows by it.",
            )
        if isinstance(node, _MAKES_TEXTS):
            return self.source.refuse(
                "select released numbers as they are, not as parts of texts",
                node,
                hint="Nearest: the number alone, with its unit in its name: ROUND(...) AS percent.",
            )
        return self.source.refuse(
            "select COUNT, SUM and AVG, and + - * / of these",
            node,
            hint="Nearest: SUM(CASE WHEN ... THEN weight ... END), for any weight of a record.",
        )


def _expressions(node: exp.Expr) -> list[exp.Expr]:
    """The expressions that a node calculates with."""
    return [
        part
        for part in node.iter_expressions()
        if not isinstance(part, exp.DataType | exp.Var | exp.Identifier | exp.Interval)
    ]


def _rebuilt(node: exp.Expr, parts: dict[int, exp.Expr]) -> exp.Expr:
    """A node with other parts."""

    def of(value: object) -> object:
        if isinstance(value, list):
            return [of(one) for one in value]
        if isinstance(value, exp.Expr):
            return parts[id(value)] if id(value) in parts else value.copy()
        return value

    found = type(node)(**{key: of(value) for key, value in node.args.items()})
    is_operator = isinstance(found, exp.Binary | exp.Unary) and not isinstance(found, exp.Paren)
    return exp.Paren(this=found) if is_operator else found


def _sorted(node: exp.Ordered, of: Value) -> exp.Ordered:
    """A key of OVER; labels are ordered as texts, as in SQL, not as in the domain."""
    text = exp.Cast(this=of.node, to=exp.DataType.build("VARCHAR"))
    return exp.Ordered(
        this=text if of.is_label else of.node,
        desc=node.args.get("desc"),
        nulls_first=node.args.get("nulls_first"),
    )


def _scale(to: exp.DataType) -> int:
    params = [one.this for one in to.expressions]
    return int(params[1].name) if len(params) > 1 else 0


_FUNCTIONS: Final = (
    *(exp.DateTrunc, exp.TimestampTrunc, exp.Extract, exp.LastDay, exp.DateDiff, exp.TimeToStr),
    *(exp.Dayname, exp.Monthname, exp.DayOfMonth, exp.DayOfYear),
)
_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)
_DAYS: Final = frozenset({exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ})
_DAY_LETTERS: Final = len("0000-00-00")


def as_days(node: exp.Expr, parts: list[Value]) -> list[exp.Expr]:
    """The parts of an expression, with periods as days if it is about days."""
    is_compared = isinstance(node, _COMPARISONS) and any(_is_day(one.node) for one in parts)
    is_cast = isinstance(node, exp.Cast) and node.to.this in _DAYS
    if not (is_compared or is_cast or isinstance(node, _FUNCTIONS)):
        return [one.node for one in parts]
    return [
        _first_day(one) if one.course else _date(one.node) if _is_day(one.node) else one.node
        for one in parts
    ]


def _is_day(node: exp.Expr) -> bool:
    days = first_and_last(node.name) if is_text(node) else None
    return days is not None and len(node.name) == _DAY_LETTERS


def _date(node: exp.Expr) -> exp.Expr:
    return exp.cast(exp.cast(node, "VARCHAR"), "DATE")


def _first_day(value: Value) -> exp.Expr:
    """The first day of a period, by its name."""
    if all(len(name) == _DAY_LETTERS for name in value.course):
        return _date(value.node)
    days = [(name, first_and_last(name)) for name in value.course]
    ifs = [
        exp.If(this=exp.Literal.string(name), true=exp.Literal.string(str(of[0])))
        for name, of in days
        if of is not None
    ]
    return _date(exp.Case(this=exp.cast(value.node, "VARCHAR"), ifs=ifs))
