"""The items of SELECT: linear combinations of counts and sums, and quotients of two."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from fractions import Fraction

from sqlglot import exp

from qserver.errors import SqlError
from qserver.query.sql.attributes import Names
from qserver.query.sql.combined.meaning import Item, Linear, Quotient, Several
from qserver.query.sql.combined.reading import SeveralReader
from qserver.query.sql.functions import ONE, Functions, ProductTerm, RecordFunction
from qserver.query.sql.records import RecordExpressions
from qserver.query.sql.regions import Regions

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


class Aggregates:
    """Aggregates of records on one domain, within the work limit of `regions`.

    Args:
        counted: how many values of an expression have a record; None where none can.
    """

    def __init__(
        self, names: Names, regions: Regions, counted: Callable[[exp.Expr], Several | None]
    ) -> None:
        self._source = names.source
        self._records = RecordExpressions(names, regions)
        self._functions = Functions(regions)
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

    def _several_of(self, node: exp.Expr, where: tuple[ProductTerm, ...]) -> Item | None:
        """The function of several sums that an item is, of the records that meet a condition."""
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
        counted = self._counted_values(value)
        return Linear(()) if counted is None else self._several.on(counted, kept)

    def condition(self, node: exp.Expr | None) -> tuple[ProductTerm, ...]:
        """1 on the records that meet a condition, 0 elsewhere."""
        return ONE if node is None else self._records.indicator(node)

    def possible(self, node: exp.Expr | None, axis: int) -> int:
        """Mask of the values of an attribute that are possible under a condition."""
        return self._records.possible(node, axis)

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
        node = node.this if isinstance(node, exp.WithinGroup) else node
        called = node.name.upper() if isinstance(node, exp.Anonymous) else ""
        for kinds, names, condition, hint in _OTHERS:
            if isinstance(node, kinds) or called in names:
                return self._source.refuse(condition, node, hint=hint)
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
