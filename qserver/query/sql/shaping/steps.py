"""Steps of a numeric attribute: FLOOR, CEIL, ROUND, TRUNC, WIDTH_BUCKET and ABS.

Each is monotone in the attribute, so it is the same on all of a bin if it is the same at both ends;
but for ABS, which needs bins on one side of 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from sqlglot import exp

from qserver.errors import SqlError
from qserver.query.domain import Attribute
from qserver.query.sql.attributes import constant
from qserver.query.sql.text import SqlText

STEPS = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Neg),
    *(exp.Floor, exp.Ceil, exp.Round, exp.Trunc, exp.WidthBucket, exp.Abs),
)
"""What such an expression is made of; a rest is of single numbers."""
_MOST_DIGITS = 12
_NEAREST = "Nearest: FLOOR(age / 10) * 10, which is 20 for 20 to 29."


def is_steps(node: exp.Expr) -> bool:
    """Whether an expression is made of these alone, each of one part with an attribute."""
    kinds = (*STEPS, exp.Paren, exp.Column, exp.Identifier, exp.Literal)
    return isinstance(node, STEPS) and all(
        isinstance(part, kinds)
        and not (isinstance(part, exp.Binary) and all(map(_has_column, part.iter_expressions())))
        for part in node.walk()
    )


def _has_column(node: exp.Expr) -> bool:
    return node.find(exp.Column) is not None


@dataclass(frozen=True)
class _Near:
    """A number, or what lies just below (-1) or just above it (1)."""

    value: Fraction
    side: int = 0

    def times(self, factor: Fraction) -> _Near:
        return _Near(self.value * factor, self.side * ((factor > 0) - (factor < 0)))

    def plus(self, value: Fraction) -> _Near:
        return _Near(self.value + value, self.side)

    def floor(self) -> _Near:
        is_below = self.side < 0 and self.value.denominator == 1
        return _Near(Fraction(floor(self.value) - is_below))

    def ceil(self) -> _Near:
        is_above = self.side > 0 and self.value.denominator == 1
        return _Near(Fraction(ceil(self.value) + is_above))

    @property
    def is_negative(self) -> bool:
        return self.value < 0 or (self.value == 0 and self.side < 0)

    def towards_zero(self, more: Fraction = Fraction(0)) -> _Near:
        """The whole number of its size, to which `more` is added before."""
        sign = Fraction(-1 if self.is_negative else 1)
        return self.times(sign).plus(more).floor().times(sign)


@dataclass(frozen=True)
class Steps:
    """An expression of one numeric attribute.

    Args:
        node: the expression, in which each column is this attribute.
    """

    node: exp.Expr
    attribute: Attribute
    source: SqlText

    def values(self) -> list[Fraction]:
        """What it is on each bin.

        Raises:
            SqlError: it is no such step, or differs within a bin.
        """
        return [self._of_bin(i) for i in range(self.attribute.n_regular)]

    def _of_bin(self, i: int) -> Fraction:
        low, high = self.attribute.edges[i], self.attribute.edges[i + 1]
        # The last whole number of a bin is one below its end.
        last = _Near(high - 1) if self.attribute.kind == "integer" else _Near(high, -1)
        first, end = self._at(self.node, _Near(low)), self._at(self.node, last)
        sizes = (abs_of.this for abs_of in self.node.find_all(exp.Abs))
        crosses = any(
            self._at(one, _Near(low), rounds=True).value * self._at(one, last, rounds=True).value
            < 0
            for one in sizes
        )
        if first != end or crosses:
            raise self.source.refuse(
                f"be the same on all of a bin of `{self.attribute.name}`",
                self.node,
                hint=f"It differs within {self.attribute.value_names[i]}.",
            )
        return first.value

    def _at(self, node: exp.Expr, at: _Near, *, rounds: bool = False) -> _Near:
        node = node.unnest()
        value = constant(node, self.source)
        if value is not None:
            return _Near(value)
        if isinstance(node, exp.Column):
            return at
        if isinstance(node, exp.Neg):
            return self._at(node.this, at, rounds=rounds).times(Fraction(-1))
        if isinstance(node, exp.Floor | exp.Ceil) and not node.args.get("decimals"):
            inner = self._at(node.this, at, rounds=True)
            return inner.floor() if isinstance(node, exp.Floor) else inner.ceil()
        if isinstance(node, exp.Round | exp.Trunc):
            return self._rounded(node, at)
        if isinstance(node, exp.IntDiv):
            quotient = exp.Div(this=node.this, expression=node.expression)
            return self._at(quotient, at, rounds=True).towards_zero()
        if isinstance(node, exp.Abs):
            inner = self._at(node.this, at, rounds=rounds)
            return inner.times(Fraction(-1 if inner.is_negative else 1))
        if isinstance(node, exp.WidthBucket):
            return self._bucket(node, at)
        if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div):
            return self._calculated(node, at, rounds=rounds)
        raise self._refused(node)

    def _calculated(self, node: exp.Binary, at: _Near, *, rounds: bool) -> _Near:
        left, right = constant(node.this, self.source), constant(node.expression, self.source)
        number = right if left is None else left
        if number is None or (isinstance(node, exp.Div) and not (rounds and right)):
            # Some systems drop the rest of a quotient of whole numbers, so it must say FLOOR.
            raise self._refused(node)
        inner = self._at(node.this if left is None else node.expression, at, rounds=rounds)
        if isinstance(node, exp.Div):
            return inner.times(1 / number)
        if isinstance(node, exp.Mul):
            return inner.times(number)
        if isinstance(node, exp.Add):
            return inner.plus(number)
        return inner.plus(-number) if left is None else inner.times(Fraction(-1)).plus(number)

    def _rounded(self, node: exp.Round | exp.Trunc, at: _Near) -> _Near:
        """A half away from 0, to so many digits; TRUNC towards 0."""
        said = node.args.get("decimals")
        digits = Fraction(0) if said is None else constant(said, self.source)
        if digits is None or digits.denominator != 1 or abs(digits) > _MOST_DIGITS:
            raise self._refused(node)
        is_round = isinstance(node, exp.Round)
        # A quotient of whole numbers has no half where its rest is dropped.
        has_point = any("." in one.name for one in node.this.find_all(exp.Literal))
        rounds = not is_round or has_point or self.attribute.kind != "integer"
        scale = Fraction(10) ** int(digits)
        inner = self._at(node.this, at, rounds=rounds).times(scale)
        return inner.towards_zero(Fraction(1, 2) if is_round else Fraction(0)).times(1 / scale)

    def _bucket(self, node: exp.WidthBucket, at: _Near) -> _Near:
        """0 below, n + 1 from the end on, else which of n equal parts it is in."""
        low, high, n = (
            None if part is None else constant(part, self.source)
            for part in map(node.args.get, ("min_value", "max_value", "num_buckets"))
        )
        if low is None or high is None or n is None or not _is_bucket(low, high, n):
            raise self.source.refuse(
                "give WIDTH_BUCKET an attribute, a low end, a higher one and a whole number",
                node,
                hint="Nearest: WIDTH_BUCKET(age, 20, 80, 6).",
            )
        inner = self._at(node.this, at, rounds=True)
        part = inner.plus(-low).times(n / (high - low)).floor().value + 1
        return _Near(min(max(part, Fraction(0)), n + 1))

    def _refused(self, node: exp.Expr) -> SqlError:
        return self.source.refuse(
            "group by attributes, CASE, conditions, and FLOOR, CEIL or WIDTH_BUCKET of a number",
            node,
            hint=_NEAREST,
        )


def _is_bucket(low: Fraction, high: Fraction, n: Fraction) -> bool:
    return low < high and n.denominator == 1 and n >= 1
