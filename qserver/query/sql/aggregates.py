"""The items of SELECT: linear combinations of counts and sums, and quotients of two.

Expressions within SUM, AVG and COUNT become functions of one record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from itertools import product
from operator import or_

from sqlglot import exp

from qserver.errors import CapacityError, InputError, SqlError
from qserver.query.class_grid import Box
from qserver.query.sql.attributes import Names, constant, quoted
from qserver.query.sql.conditions import Predicates
from qserver.query.sql.functions.item_meaning import Item, Linear, Quotient, Several
from qserver.query.sql.logic import (
    ARITHMETIC,
    CONDITIONS,
    NOT_TRUE,
    TRUE,
    Branching,
    Truth,
    branches_of,
    is_branching,
    is_text,
)
from qserver.query.sql.regions import (
    ABSENT,
    ALL,
    ONE,
    Functions,
    ProductTerm,
    RecordFunction,
    Region,
    Regions,
    constant_function,
)
from qserver.query.sql.statistics.statistics_by_name import SeveralReader
from qserver.query.sql.values.point_values import is_point
from qserver.query.sql.values.record_functions import derived

# A union of at most this many boxes has no fewer terms as a complement.
_FEW = 2
_NUMBERS = frozenset(
    {exp.DType.INT, exp.DType.BIGINT, exp.DType.SMALLINT}
    | {exp.DType.FLOAT, exp.DType.DOUBLE, exp.DType.DECIMAL}
)

_OTHERS: Sequence[tuple[tuple[type[exp.Expr], ...], Collection[str], str, str]] = (
    (
        (exp.Mode, exp.ApproxTopK),
        ("HISTOGRAM",),
        "count the values: which is the most frequent follows from their counts",
        "Nearest: SELECT a, COUNT(*) ... GROUP BY a ORDER BY COUNT(*) DESC LIMIT 1.",
    ),
    (
        (exp.LogicalOr, exp.LogicalAnd),
        ("EVERY", "ANY", "SOME"),
        "count the records that meet a condition: whether one of all does is about one person",
        "Nearest: COUNT_IF(condition), or COUNT_IF(NOT condition) of those that do not.",
    ),
    (
        (
            *(exp.AnyValue, exp.First, exp.Last, exp.ArrayAgg, exp.List, exp.GroupConcat),
            *(exp.ArgMax, exp.ArgMin),
        ),
        ("LISTAGG", "JSON_AGG"),
        "not show values of records: each is one person's",
        "Nearest: SELECT a, COUNT(*) ... GROUP BY a.",
    ),
)
"""Aggregates that there are not: their kinds and names, why, and what to type."""


def _condition(node: exp.Expr) -> exp.Expr | None:
    """The condition of a cast such as `(a > 3)::int`, counted as 1 and 0; None for another node."""
    if isinstance(node, exp.Cast) and node.args["to"].this in _NUMBERS:
        node = node.this.unnest()
    return node if isinstance(node, CONDITIONS) else None


class RecordExpressions(Predicates):
    """Expressions of one record on one domain, within the work limit of `regions`."""

    def __init__(self, names: Names, regions: Regions) -> None:
        super().__init__(names, regions)
        self._functions = Functions(regions)

    def indicator(self, node: exp.Expr) -> tuple[ProductTerm, ...]:
        """The indicator of a condition's records, in the form with fewer terms.

        That is a disjoint union, or 1 minus that of the rest.

        Raises:
            SqlError: it is not a condition on this domain, or it cuts through a bin.
            CapacityError: both forms need too many terms or steps.
        """
        meets = self._attempt(node, TRUE)
        if not isinstance(meets, CapacityError) and len(meets) <= _FEW:
            return self._functions.indicator(meets)
        fails = self._attempt(node, NOT_TRUE)
        if isinstance(fails, CapacityError):
            if isinstance(meets, CapacityError):
                raise meets
            return self._functions.indicator(meets)
        if not isinstance(meets, CapacityError) and len(meets) <= len(fails) + 1:
            return self._functions.indicator(meets)
        rest = self._functions.indicator(fails)
        return (*ONE, *(ProductTerm(-t.coefficient, t.factors) for t in rest))

    def cells(self, node: exp.Expr | None) -> Region:
        """Cells that meet a condition; all if it needs too many boxes."""
        region = ALL if node is None else self._attempt(node, TRUE)
        return ALL if isinstance(region, CapacityError) else region

    def possible(self, node: exp.Expr | None, axis: int) -> int:
        """Mask of an attribute's values under a condition; all if it needs too many boxes."""
        return reduce(or_, (self._mask(box, axis) for box in self.cells(node)), 0)

    def _attempt(self, node: exp.Expr, asked: Truth) -> Region | CapacityError:
        try:
            return self.region(node, asked)
        except CapacityError as exc:
            return exc

    def function(self, node: exp.Expr, *, counts_only: bool = False) -> RecordFunction:
        """The function of one record that an expression means.

        Args:
            counts_only: accept texts as 1, if only records with a value matter.

        Raises:
            SqlError: it is none, or too uneven to measure.
            CapacityError: it needs too many terms or steps.
        """
        try:
            return self._function(node.unnest(), counts_only=counts_only)
        except (SqlError, CapacityError):
            raise
        except InputError as exc:
            raise self._source.refuse(exc.condition, node) from exc

    def _function(self, node: exp.Expr, *, counts_only: bool) -> RecordFunction:
        if isinstance(node, exp.Null):
            return ABSENT
        if counts_only and is_text(node):
            return constant_function(Fraction(1))
        value = constant(node, self._source)
        if value is not None:
            return constant_function(value)
        if counts_only and (present := self._present(node)) is not None:
            return self._functions.restricted(constant_function(Fraction(1)), present)
        if isinstance(node, exp.Column):
            return self._attribute(node)
        if is_branching(node):
            return self._chosen(node, counts_only=counts_only)
        if isinstance(node, ARITHMETIC):
            return self._arithmetic(node)
        if (condition := _condition(node)) is not None:
            return self._truth(condition)
        return self._calculated(node)

    def _calculated(self, node: exp.Expr) -> RecordFunction:
        """A function with a number per value of some attributes; none elsewhere."""
        found = derived(node, self._names, self._regions, near="round")
        if found is None or found.of != "number":
            raise self._no_function(node)
        *others, last = sorted(found.axes, key=self._regions.sizes.__getitem__)
        rows = dict[tuple[int, ...], dict[int, Fraction]]()
        for text, number in found.places.items():
            for box in found.regions[text]:
                masks = (self._mask(box, axis) for axis in others)
                bits = ([i for i in range(mask.bit_length()) if mask >> i & 1] for mask in masks)
                for point in product(*bits):
                    rows.setdefault(point, {})[self._mask(box, last)] = number
        same = dict[tuple[tuple[int, Fraction], ...], list[Region]]()
        for point, row in rows.items():
            box = {axis: 1 << i for axis, i in zip(others, point, strict=True)}
            same.setdefault(tuple(row.items()), []).append((box,))
        whole = ABSENT
        for numbers, parts in same.items():
            values = self._functions.of_values(last, dict(numbers))
            part = self._functions.restricted(values, self._regions.either(parts))
            whole = self._functions.joined(whole, part)
        low, high = whole.low - found.error, whole.high + found.error
        return replace(whole, low=low, high=high, error=found.error)

    def _mask(self, box: Box, axis: int) -> int:
        return box.get(axis, (1 << self._regions.sizes[axis]) - 1)

    def _truth(self, node: exp.Expr) -> RecordFunction:
        """A function: 1 if a condition is true, 0 if false, no value if unknown."""
        parts = (
            self._functions.restricted(constant_function(Fraction(value)), self.region(node, of))
            for value, of in ((1, TRUE), (0, TRUE.of_opposite))
        )
        return self._functions.joined(*parts)

    def _attribute(self, node: exp.Column) -> RecordFunction:
        axis = self._names.axis(node)
        attribute = self._names.domain.attributes[axis]
        if not attribute.is_numeric:
            name = quoted(attribute.name)
            what = {"labels": "labels", "date": "dates"}.get(attribute.kind, "periods")
            raise self._source.refuse(
                f"calculate with numbers: `{attribute.name}` has {what}",
                node,
                hint=f"Nearest: CASE WHEN {name} = '...' THEN 1 ELSE 0 END.",
            )
        return self._functions.of_attribute(attribute, axis)

    def _arithmetic(self, node: exp.Binary | exp.Neg) -> RecordFunction:
        left = self.function(node.this)
        if isinstance(node, exp.Neg):
            return self._functions.scaled(left, Fraction(-1))
        if isinstance(node, exp.Div):
            divisor = constant(node.expression, self._source)
            if divisor is None and all(
                is_point(column, self._names) for column in node.find_all(exp.Column)
            ):
                return self._calculated(node)
            if divisor is None:
                raise self._source.refuse("divide what it sums by numbers only", node)
            if divisor == 0:
                raise self._source.refuse("not divide by zero", node)
            return self._functions.scaled(left, 1 / divisor)
        right = self.function(node.expression)
        if isinstance(node, exp.Mul):
            return self._functions.times(left, right)
        if isinstance(node, exp.Sub):
            right = self._functions.scaled(right, Fraction(-1))
        return self._functions.plus(left, right)

    def _present(self, node: exp.Expr) -> Region | None:
        """The records whose label, or a value derived from it, is not NULL; None for others."""
        names = self._names
        if (found := derived(node, names, self._regions, near="round")) is not None:
            return self._regions.either([*found.regions.values()])
        if not isinstance(node, exp.Column):
            return None
        axis = names.axis(node)
        if names.domain.attributes[axis].is_numeric:
            return None
        return self._regions.of_mask(axis, self._mask({}, axis) & ~names.null(axis))

    def _chosen(self, node: Branching, *, counts_only: bool) -> RecordFunction:
        """The value of the first branch whose condition is true."""
        rest, found, branches = ALL, ABSENT, branches_of(node)
        for condition, meant in branches.pairs:
            here = self._regions.both(rest, self.region(condition))
            value = self.function(meant, counts_only=counts_only)
            found = self._functions.joined(found, self._functions.restricted(value, here))
            rest = self._regions.both(rest, self.region(condition, NOT_TRUE))
        value = self.function(branches.default, counts_only=counts_only)
        return self._functions.joined(found, self._functions.restricted(value, rest))

    def _no_function(self, node: exp.Expr) -> SqlError:
        if isinstance(node, exp.AggFunc):
            return self._source.refuse("have no aggregate inside another", node)
        return self._source.refuse(
            "sum numbers, numeric attributes, CASE, and + - * of these",
            node,
            hint=f"Got {self._source.source(node)}.",
        )


class Aggregates(RecordExpressions):
    """Aggregates of records on one domain, within the work limit of `regions`.

    Args:
        counted: number of an expression's values with a record; None if none can have one.
    """

    def __init__(
        self, names: Names, regions: Regions, counted: Callable[[exp.Expr], Several | None]
    ) -> None:
        super().__init__(names, regions)
        self._several = SeveralReader(names, self._functions)
        self._counted_values = counted

    def item(self, node: exp.Expr) -> Item:
        """The meaning of an aggregate, perhaps with FILTER.

        Raises:
            SqlError: it is neither linear, an average, nor a function of sums.
            CapacityError: it takes too many terms or steps.
        """
        if isinstance(node, exp.Filter):
            return self._aggregate(node.this, self.condition(node.expression.this))
        return self._aggregate(node, ONE)

    def condition(self, node: exp.Expr | None) -> tuple[ProductTerm, ...]:
        """1 on the records that meet a condition, 0 elsewhere."""
        return ONE if node is None else self.indicator(node)

    def _aggregate(self, node: exp.Expr, where: tuple[ProductTerm, ...]) -> Item:
        if isinstance(node, exp.CountIf):
            return self._on(self.indicator(node.this), where)
        if isinstance(node, exp.Count) and not isinstance(node.this, exp.Distinct):
            return self._on(self._counted(node), where)
        if isinstance(node, exp.Sum):
            found = self.function(node.this)
            return self._on(found.terms, where, found.error)
        if isinstance(node, exp.Avg):
            return self._average(self.function(node.this), where)
        if isinstance(node, exp.Count | exp.ApproxDistinct):
            return self._distinct(node, where)
        if (several := self._several.read(node, where)) is not None:
            return several
        raise self._refused(node)

    def _distinct(
        self, node: exp.Count | exp.ApproxDistinct, where: tuple[ProductTerm, ...]
    ) -> Linear | Several:
        """The number of distinct values among records that meet a condition."""
        of = node.this.expressions if isinstance(node.this, exp.Distinct) else [node.this]
        value = of[0].unnest() if len(of) == 1 else node
        if value.find(exp.Column) is None or value.find(exp.AggFunc):
            raise self._source.refuse(
                "count the different values of one attribute",
                node,
                hint="Nearest: COUNT(*) FROM (SELECT a, b FROM ... GROUP BY a, b).",
            )
        kept = self._functions.multiplied(self._present_once(value), where)
        counted = self._counted_values(value)
        return Linear(()) if counted is None else self._several.on(counted, kept)

    def _counted(self, node: exp.Count) -> tuple[ProductTerm, ...]:
        if node.expressions:
            raise self._source.refuse("have one argument in COUNT", node)
        if node.this is None or isinstance(node.this, exp.Star):
            return ONE
        return self._present_once(node.this)

    def _present_once(self, node: exp.Expr) -> tuple[ProductTerm, ...]:
        """1 on the records on which an expression has a value, 0 elsewhere."""
        return self._functions.indicator(self.function(node, counts_only=True).present)

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
        node = node.this if isinstance(node, exp.WithinGroup) else node
        called = node.name.upper() if isinstance(node, exp.Anonymous) else ""
        for kinds, names, condition, hint in _OTHERS:
            if isinstance(node, kinds) or called in names:
                return self._source.refuse(condition, node, hint=hint)
        return self._source.refuse(
            "select COUNT, SUM and AVG, and + - * / of these",
            node,
            hint="Nearest: SUM(CASE WHEN ... THEN weight ... END), for any weight of a record.",
        )
