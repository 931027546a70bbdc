"""The items of SELECT: linear combinations of counts and sums, and quotients of two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from sqlglot import exp

from qserver.errors import CapacityError, SqlError
from qserver.query.linear import MAX_TERMS
from qserver.query.sql.attributes import Names, constant
from qserver.query.sql.functions import ONE, Functions, ProductTerm, RecordFunction
from qserver.query.sql.records import RecordExpressions
from qserver.query.sql.regions import Regions
from qserver.query.sql.shaping.windows import Over, Windows

_NOT_LINEAR: dict[type[exp.Expr], str] = {
    exp.Max: "the greatest value depends on single records",
    exp.Min: "the least value depends on single records",
    exp.Median: "a median is no sum over records",
    exp.Quantile: "a quantile is no sum over records",
    exp.Stddev: "a deviation is no sum over records",
    exp.StddevPop: "a deviation is no sum over records",
    exp.StddevSamp: "a deviation is no sum over records",
    exp.Variance: "a variance is no sum over records",
    exp.VariancePop: "a variance is no sum over records",
}
_INSTEAD: dict[type[exp.Expr], str] = {
    exp.Max: "Nearest: COUNT(*) FILTER (WHERE ... >= t), the records above a value of yours.",
    exp.Min: "Nearest: COUNT(*) FILTER (WHERE ... < t), the records below a value of yours.",
    exp.Median: "Nearest: COUNT(*) FILTER (WHERE ... < t), the records below a value of yours.",
    exp.Quantile: "Nearest: COUNT(*) FILTER (WHERE ... < t), the records below a value of yours.",
}
_SQUARES = "Nearest: SUM(x), SUM(x * x) and COUNT(*), from which it follows."


@dataclass(frozen=True)
class Wide:
    """Part of an item that is summed over more records than those of its group.

    Args:
        over: which groups of the table; None for all records, whatever WHERE says.
    """

    terms: tuple[ProductTerm, ...]
    over: Over | None


@dataclass(frozen=True)
class Linear:
    """A linear combination of counts and sums: the sum of a function over all records.

    Args:
        terms: the function.
        error: most distance of a record's true part from its part by the middles of bins.
        wide: what is summed over more than the records of the group.
        offset: a number that is added once it is released.
    """

    terms: tuple[ProductTerm, ...]
    error: Fraction = Fraction(0)
    wide: tuple[Wide, ...] = ()
    offset: Fraction = Fraction(0)

    def scaled(self, factor: Fraction) -> Linear:
        """`factor` times it."""
        wide = tuple(Wide(_scaled(part.terms, factor), part.over) for part in self.wide)
        error, offset = self.error * abs(factor), self.offset * factor
        return Linear(_scaled(self.terms, factor), error, wide, offset)

    def plus(self, other: Linear) -> Linear:
        """The sum; CapacityError if it has too many terms."""
        terms, wide = (*self.terms, *other.terms), (*self.wide, *other.wide)
        if len(terms) + sum(len(part.terms) for part in wide) > MAX_TERMS:
            raise CapacityError(f"A query has at most {MAX_TERMS:,} terms. Ask its parts.")
        return Linear(terms, self.error + other.error, wide, self.offset + other.offset)


def _scaled(terms: tuple[ProductTerm, ...], factor: Fraction) -> tuple[ProductTerm, ...]:
    return tuple(ProductTerm(t.coefficient * factor, t.factors) for t in terms)


@dataclass(frozen=True)
class Quotient:
    """A linear combination divided by another.

    Args:
        low, high: public bounds on its value, None if unknown here.
        is_average: whether the numerator is a sum over the records that the denominator counts.
    """

    numerator: Linear
    denominator: Linear
    low: Fraction | None = None
    high: Fraction | None = None
    is_average: bool = False

    def scaled(self, factor: Fraction) -> Quotient:
        """`factor` times it."""
        bounds = self.low, self.high
        if self.low is not None and self.high is not None:
            low, high = sorted((self.low * factor, self.high * factor))
            bounds = low, high
        return replace(
            self,
            numerator=self.numerator.scaled(factor),
            low=bounds[0],
            high=bounds[1],
        )

    def plus(self, other: Quotient) -> Quotient:
        """The sum of two with the same denominator."""
        known = None not in (self.low, self.high, other.low, other.high)
        low, high = (
            ((self.low or 0) + (other.low or 0), (self.high or 0) + (other.high or 0))
            if known
            else (None, None)
        )
        return Quotient(
            self.numerator.plus(other.numerator),
            self.denominator,
            None if low is None else Fraction(low),
            None if high is None else Fraction(high),
            is_average=self.is_average and other.is_average,
        )

    def moved(self, by: Fraction) -> Quotient:
        """The same plus a number: (N + c D) / D."""
        same = Quotient(self.denominator.scaled(by), self.denominator, by, by, is_average=True)
        return self.plus(same)


@dataclass(frozen=True)
class Event:
    """That a linear combination lies between two ends; None for an open end."""

    of: Linear
    low: Fraction | None
    high: Fraction | None


class Aggregates:
    """Items of SELECT on one domain, within the work limit of `regions`.

    Args:
        windows: the groups that OVER sums over.
        inner: what a SELECT of one number in parentheses means.
    """

    def __init__(
        self,
        names: Names,
        regions: Regions,
        windows: Windows,
        inner: Callable[[exp.Select], Linear | Quotient],
    ) -> None:
        self._source = names.source
        self._records = RecordExpressions(names, regions)
        self._functions = Functions(regions)
        self._windows = windows
        self._inner = inner

    def item(self, node: exp.Expr) -> Linear | Quotient:
        """The meaning of an item of SELECT.

        Raises:
            SqlError: it is neither linear nor a quotient of two linear ones.
            CapacityError: it takes too many terms or steps.
        """
        found = self._value(node)
        if isinstance(found, Fraction):
            raise self._source.refuse(
                "count or sum records, not only hold numbers", node, hint="Nearest: COUNT(*)."
            )
        return found

    def event(self, node: exp.Expr) -> Event | None:
        """What PROBABILITY(...) asks about; None for any other item.

        Raises:
            SqlError: it compares something else than a count or sum with numbers.
        """
        is_event = isinstance(node, exp.Anonymous) and node.name.upper() == "PROBABILITY"
        if not is_event:
            return None
        inner = node.expressions[0].unnest() if len(node.expressions) == 1 else node
        if isinstance(inner, exp.Between):
            ends = (inner.args["low"], inner.args["high"])
        elif isinstance(inner, exp.GTE | exp.LTE):
            ends = (
                (inner.expression, None) if isinstance(inner, exp.GTE) else (None, inner.expression)
            )
        else:
            raise self._no_event(node)
        bounds = [None if end is None else constant(end, self._source) for end in ends]
        of = self._value(inner.this)
        if not isinstance(of, Linear) or bounds.count(None) != ends.count(None):
            raise self._no_event(node)
        moved = (None if b is None else b - of.offset for b in bounds)
        return Event(replace(of, offset=Fraction(0)), *moved)

    def _no_event(self, node: exp.Expr) -> SqlError:
        return self._source.refuse(
            "compare one count or sum with numbers in PROBABILITY, by >=, <= or BETWEEN",
            node,
            hint="Nearest: PROBABILITY(COUNT(*) >= 9).",
        )

    def condition(self, node: exp.Expr | None) -> tuple[ProductTerm, ...]:
        """1 on the records that meet a condition, 0 elsewhere."""
        return ONE if node is None else self._records.indicator(node)

    def possible(self, node: exp.Expr | None, axis: int) -> int:
        """Mask of the values of an attribute that are possible under a condition."""
        return self._records.possible(node, axis)

    def _value(self, node: exp.Expr) -> Linear | Quotient | Fraction:
        node = node.unnest()
        number = constant(node, self._source)
        if number is not None:
            return number
        if isinstance(node, exp.Neg):
            return self._scaled(self._value(node.this), Fraction(-1))
        if isinstance(node, exp.Add | exp.Sub):
            return self._sum(node)
        if isinstance(node, exp.Mul):
            return self._product(node)
        if isinstance(node, exp.Div):
            return self._quotient(node)
        if isinstance(node, exp.Filter):
            return self._aggregate(node.this, self.condition(node.expression.this))
        if isinstance(node, exp.Window):
            return self._window(node)
        if isinstance(node, exp.Select):
            return self._selected(node)
        return self._aggregate(node, ONE)

    def _sum(self, node: exp.Binary) -> Linear | Quotient | Fraction:
        """The sum of many summands: they nest to the left, so a loop walks them."""
        summands: list[tuple[exp.Expr, Fraction]] = []
        at: exp.Expr = node
        while isinstance(at, exp.Add | exp.Sub):
            summands.append((at.expression, Fraction(-1 if isinstance(at, exp.Sub) else 1)))
            at = at.this.unnest()
        total = self._value(at)
        for part, sign in reversed(summands):
            total = self._plus(total, self._scaled(self._value(part), sign), part)
        return total

    def _plus(
        self,
        one: Linear | Quotient | Fraction,
        other: Linear | Quotient | Fraction,
        node: exp.Expr,
    ) -> Linear | Quotient | Fraction:
        if isinstance(one, Fraction):
            if isinstance(other, Fraction):
                return one + other
            one, other = other, one
        if isinstance(other, Fraction):
            if isinstance(one, Quotient):
                return one.moved(other)
            return one.plus(Linear((), offset=other))
        if isinstance(one, Linear) and isinstance(other, Linear):
            return one.plus(other)
        if isinstance(one, Quotient) and isinstance(other, Quotient):
            under = one.denominator
            if under == other.denominator:
                return one.plus(other)
        raise self._source.refuse(
            "not add quotients of different denominators: their sum is not linear",
            node,
            hint="Select the quotients one by one.",
        )

    def _product(self, node: exp.Binary) -> Linear | Quotient | Fraction:
        left, right = self._value(node.this), self._value(node.expression)
        if isinstance(left, Fraction):
            return self._scaled(right, left)
        if isinstance(right, Fraction):
            return self._scaled(left, right)
        raise self._source.refuse(
            "not multiply counts with one another: that is not linear",
            node,
            hint="Select the factors one by one.",
        )

    def _quotient(self, node: exp.Binary) -> Linear | Quotient | Fraction:
        left, right = self._value(node.this), self._value(node.expression)
        if isinstance(right, Fraction):
            if right == 0:
                raise self._source.refuse("not divide by zero", node)
            return self._scaled(left, 1 / right)
        if isinstance(left, Linear) and isinstance(right, Linear):
            if left.offset or right.offset:
                raise self._source.refuse(
                    "not divide what a number was added to",
                    node,
                    hint="Nearest: divide the counts, and add the number to the quotient.",
                )
            if right.error:
                raise self._source.refuse(
                    "divide by counts, or by sums without wide bins", node.expression
                )
            return Quotient(left, right)
        raise self._source.refuse(
            "divide counts and sums by counts and sums, once",
            node,
            hint="Select numerator and denominator one by one.",
        )

    def _scaled(
        self, value: Linear | Quotient | Fraction, factor: Fraction
    ) -> Linear | Quotient | Fraction:
        return value * factor if isinstance(value, Fraction) else value.scaled(factor)

    def _window(self, node: exp.Window) -> Linear:
        """SUM(...) OVER (...): the sum of a count or sum over groups."""
        inner = self._value(node.this.this) if isinstance(node.this, exp.Sum) else None
        if not isinstance(inner, Linear) or inner.wide or inner.offset:
            raise self._source.refuse(
                "use OVER with SUM of a count or sum, or with RANK or ROW_NUMBER",
                node,
                hint="Nearest: COUNT(*) / SUM(COUNT(*)) OVER (), the share of each group.",
            )
        return Linear((), inner.error, (Wide(inner.terms, self._windows.over(node)),))

    def _selected(self, node: exp.Select) -> Linear | Quotient:
        """One number of all records that an inner SELECT asks for."""
        found = self._inner(node)
        if isinstance(found, Linear):
            return Linear((), found.error, (Wide(found.terms, None),), found.offset)
        over, under = (
            Linear((), part.error, (Wide(part.terms, None),))
            for part in (found.numerator, found.denominator)
        )
        return replace(found, numerator=over, denominator=under)

    def _aggregate(self, node: exp.Expr, where: tuple[ProductTerm, ...]) -> Linear | Quotient:
        if isinstance(node, exp.CountIf):
            return self._on(self._records.indicator(node.this), where)
        if isinstance(node, exp.Count):
            return self._on(self._counted(node), where)
        if isinstance(node, exp.Sum):
            found = self._records.function(node.this)
            return self._on(found.terms, where, found.error)
        if isinstance(node, exp.Avg):
            return self._average(self._records.function(node.this), where)
        raise self._refused(node)

    def _counted(self, node: exp.Count) -> tuple[ProductTerm, ...]:
        if node.expressions:
            raise self._source.refuse("count one thing at a time", node)
        if node.this is None or isinstance(node.this, exp.Star):
            return ONE
        return self._functions.indicator(self._records.counted(node.this))

    def _average(self, found: RecordFunction, where: tuple[ProductTerm, ...]) -> Quotient:
        present = self._functions.indicator(found.present)
        return Quotient(
            numerator=self._on(found.terms, where, found.error),
            denominator=self._on(present, where),
            low=found.low,
            high=found.high,
            is_average=True,
        )

    def _on(
        self,
        terms: tuple[ProductTerm, ...],
        where: tuple[ProductTerm, ...],
        error: Fraction = Fraction(0),
    ) -> Linear:
        return Linear(self._functions.multiplied(terms, where), error)

    def _refused(self, node: exp.Expr) -> SqlError:
        name = self._source.source(node)
        if isinstance(node, exp.Column):
            return self._source.refuse(
                f"count or sum `{name}`, or group by it",
                node,
                hint=f"Nearest: SELECT {name}, COUNT(*) ... GROUP BY {name}.",
            )
        if isinstance(node, exp.Star):
            return self._source.refuse(
                "count records, not list them", node, hint="Nearest: COUNT(*)."
            )
        reason = _NOT_LINEAR.get(type(node))
        if reason is not None:
            called = node.sql_name() if isinstance(node, exp.Func) else name
            hint = _INSTEAD.get(type(node), _SQUARES)
            return self._source.refuse(f"not use {called}: {reason}", node, hint=hint)
        return self._source.refuse(
            "select COUNT, SUM and AVG, and + - * / of these",
            node,
            hint="Nearest: SUM(CASE WHEN ... THEN weight ... END), for any weight of a record.",
        )
