"""The items of SELECT: linear combinations of counts and sums, and quotients of two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from qserver.errors import SqlError
from qserver.query.sql.attributes import Names, constant
from qserver.query.sql.combined.meaning import Event, Item, Linear, Quotient, Several, Wide
from qserver.query.sql.combined.reading import SeveralReader
from qserver.query.sql.combined.smooth import of_sums
from qserver.query.sql.functions import ONE, Functions, ProductTerm, RecordFunction
from qserver.query.sql.records import RecordExpressions
from qserver.query.sql.regions import Regions
from qserver.query.sql.rewriting.counted import CountedGroups
from qserver.query.sql.shaping.windows import Windows


class Aggregates:
    """Items of SELECT on one domain, within the work limit of `regions`.

    Args:
        windows: the groups that OVER sums over.
        inner: what a SELECT of one number in parentheses means.
        counted: how many groups a SELECT shows; of a value, those of its values with a record.
    """

    def __init__(
        self,
        names: Names,
        regions: Regions,
        windows: Windows,
        inner: Callable[[exp.Select], Linear | Quotient],
        counted: Callable[[exp.Expr], Several],
    ) -> None:
        self._source = names.source
        self._records = RecordExpressions(names, regions)
        self._functions = Functions(regions)
        self._several = SeveralReader(names, self._functions)
        self._windows = windows
        self._inner = inner
        self._counted_groups = counted

    def item(self, node: exp.Expr) -> Item:
        """The meaning of an item of SELECT.

        Raises:
            SqlError: it is neither linear, a quotient of two linear ones, nor a function of sums.
            CapacityError: it takes too many terms or steps.
        """
        found = self._value(node)
        if isinstance(found, Fraction):
            raise self._source.refuse(
                "count or sum records, not only hold numbers", node, hint="Nearest: COUNT(*)."
            )
        return found

    def _several_of(self, node: exp.Expr, where: tuple[ProductTerm, ...]) -> Several | None:
        """The function of several sums that an item is, of the records that meet a condition."""
        if isinstance(node, CountedGroups):
            return self._counted_groups(node.this)
        distinct = node.this if isinstance(node, exp.Count | exp.ApproxDistinct) else None
        if isinstance(node, exp.Count) and not isinstance(distinct, exp.Distinct):
            return self._several.read(node, where)
        if distinct is None:
            return self._several.read(node, where)
        of = distinct.expressions if isinstance(distinct, exp.Distinct) else [distinct]
        value = of[0].unnest() if len(of) == 1 else node
        if value.find(exp.Column) is None or value.find(exp.AggFunc):
            raise self._source.refuse(
                "count the different values of one attribute",
                node,
                hint="Nearest: COUNT(*) FROM (SELECT a, b FROM ... GROUP BY a, b).",
            )
        present = self._functions.indicator(self._records.counted(value))
        kept = self._functions.multiplied(present, where)
        return self._several.on(self._counted_groups(value), kept)

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

    def _value(self, node: exp.Expr) -> Item | Fraction:
        node = node.unnest()
        number = constant(node, self._source)
        if number is not None:
            return number
        if isinstance(node, exp.Neg):
            return self._scaled(self._value(node.this), Fraction(-1), node)
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

    def _sum(self, node: exp.Binary) -> Item | Fraction:
        """The sum of many summands: they nest to the left, so a loop walks them."""
        summands: list[tuple[exp.Expr, Fraction]] = []
        at: exp.Expr = node
        while isinstance(at, exp.Add | exp.Sub):
            summands.append((at.expression, Fraction(-1 if isinstance(at, exp.Sub) else 1)))
            at = at.this.unnest()
        total = self._value(at)
        for part, sign in reversed(summands):
            total = self._plus(total, self._scaled(self._value(part), sign, part), part)
        return total

    def _plus(
        self, one: Item | Fraction, other: Item | Fraction, node: exp.Expr
    ) -> Item | Fraction:
        if isinstance(one, Fraction):
            if isinstance(other, Fraction):
                return one + other
            one, other = other, one
        if isinstance(other, Fraction):
            if isinstance(one, Linear):
                return one.plus(Linear((), offset=other))
            return one.moved(other)
        return self._both(one, other, node)

    def _both(self, one: Item, other: Item, node: exp.Expr) -> Item:
        """The sum of two items."""
        if isinstance(one, Linear) and isinstance(other, Linear):
            return one.plus(other)
        if isinstance(one, Quotient) and isinstance(other, Quotient):
            total = one.plus(other) if one.denominator == other.denominator else None
            return total or of_sums(one).plus(of_sums(other))
        return self._both_several(one, other, node)

    def _both_several(self, one: Item, other: Item, node: exp.Expr) -> Several:
        one, other = (
            of_sums(part) if isinstance(part, Quotient) else part for part in (one, other)
        )
        if isinstance(one, Several) and isinstance(other, Several):
            if one.function.has_steps != other.function.has_steps:
                raise self._source.refuse(
                    "add numbers whose WITHIN is about the same: that of MIN, MAX and COUNT "
                    "DISTINCT is about counts",
                    node,
                    hint="Select them one by one.",
                )
            if (one.function.smooth is None) != (other.function.smooth is None):
                raise self._source.refuse(
                    "not add a median or another quantile to an average, deviation or correlation",
                    node,
                    hint="Select them one by one.",
                )
            return one.plus(other)
        raise self._no_sum(node)

    def _product(self, node: exp.Binary) -> Item | Fraction:
        left, right = self._value(node.this), self._value(node.expression)
        if isinstance(left, Fraction):
            return self._scaled(right, left, node)
        if isinstance(right, Fraction):
            return self._scaled(left, right, node)
        if isinstance(left, Several) or isinstance(right, Several):
            raise self._no_sum(node)
        raise self._source.refuse(
            "not multiply counts with one another: that is not linear",
            node,
            hint="Select the factors one by one.",
        )

    def _quotient(self, node: exp.Binary) -> Item | Fraction:
        left, right = self._value(node.this), self._value(node.expression)
        if isinstance(right, Fraction):
            if right == 0:
                raise self._source.refuse("not divide by zero", node)
            return self._scaled(left, 1 / right, node)
        if isinstance(left, Several) or isinstance(right, Several):
            raise self._no_sum(node)
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

    def _scaled(self, value: Item | Fraction, factor: Fraction, node: exp.Expr) -> Item | Fraction:
        if isinstance(value, Fraction):
            return value * factor
        if isinstance(value, Several) and not factor:
            raise self._source.refuse("not multiply it by zero", node)
        return value.scaled(factor)

    def _no_sum(self, node: exp.Expr) -> SqlError:
        return self._source.refuse(
            "not calculate so with a number whose interval is no sum's",
            node,
            hint="Numbers may be added to it, and it may be multiplied by them; two of the kind "
            "may be added. Else select it by itself.",
        )

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

    def _aggregate(self, node: exp.Expr, where: tuple[ProductTerm, ...]) -> Item:
        if isinstance(node, exp.CountIf):
            return self._on(self._records.indicator(node.this), where)
        if isinstance(node, exp.Count) and not isinstance(node.this, exp.Distinct):
            return self._on(self._counted(node), where)
        if isinstance(node, exp.Sum):
            found = self._records.function(node.this)
            return self._on(found.terms, where, found.error)
        if isinstance(node, exp.Avg):
            return self._average(self._records.function(node.this), where)
        if (several := self._several_of(node, where)) is not None:
            return several
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
        return self._source.refuse(
            "select COUNT, SUM and AVG, and + - * / of these",
            node,
            hint="Nearest: SUM(CASE WHEN ... THEN weight ... END), for any weight of a record.",
        )
