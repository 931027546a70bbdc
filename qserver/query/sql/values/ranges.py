"""Sums, steps and comparisons of numbers on bins, exactly: their least and greatest values.

Each is monotone in its arguments, so its ends follow from those of the bin. It is accepted if
constant on the bin, else refused.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from math import floor, prod
from typing import NamedTuple

from sqlglot import exp

from qserver.errors import SqlError
from qserver.query.domain import Attribute, bins_text, decimal_text
from qserver.query.sql.attributes import Names, constant, quoted
from qserver.query.sql.logic import between
from qserver.query.sql.regions import Regions
from qserver.query.sql.text import SqlText
from qserver.query.sql.values.expression_values import Beside, Derived, check_quotients, from_keys

_STEPS = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Neg),
    *(exp.Floor, exp.Ceil, exp.Round, exp.Trunc, exp.WidthBucket, exp.Abs),
)
_PARTS = (*_STEPS, exp.Paren, exp.Column, exp.Identifier, exp.Literal)
_MOST_DIGITS = 12


class _End(NamedTuple):
    """A number, or the point just below it (-1) or just above (1)."""

    value: Fraction | int
    side: int = 0

    def plus(self, other: _End) -> _End:
        return _End(self.value + other.value, self.side or other.side)

    def times(self, factor: Fraction) -> _End:
        return _End(self.value * factor, self.side * ((factor > 0) - (factor < 0)))

    def floor(self) -> _End:
        is_below = self.side < 0 and self.value.denominator == 1
        return _End(Fraction(floor(self.value) - is_below))

    def rounded(self, more: Fraction) -> _End:
        """The whole number below it, after adding `more`."""
        sign = Fraction(-1 if self < _ZERO else 1)
        return self.times(sign).plus(_End(more)).floor().times(sign)


_ZERO = _End(Fraction(0))


class _Range(NamedTuple):
    """The range of a number, between two ends."""

    low: _End
    high: _End

    @property
    def only(self) -> Fraction | None:
        """The only number, or None."""
        return Fraction(self.low.value) if self.low == self.high else None

    @property
    def plain(self) -> _Range:
        """The range with whole numbers if possible: they compare faster."""
        low, high = (
            _End(int(end.value), end.side) if end.value.denominator == 1 else end
            for end in (self.low, self.high)
        )
        return _Range(low, high)

    def plus(self, other: _Range) -> _Range:
        return _Range(self.low.plus(other.low), self.high.plus(other.high))

    def times(self, factor: Fraction) -> _Range:
        ends = (self.low.times(factor), self.high.times(factor))
        return _Range(min(ends), max(ends))

    def each(self, step: Callable[[_End], _End]) -> _Range:
        """The image of both ends under a rising step."""
        return _Range(step(self.low), step(self.high))

    def size(self) -> _Range:
        """The absolute value."""
        if self.low >= _ZERO:
            return self
        opposite = self.times(Fraction(-1))
        return opposite if self.high <= _ZERO else _Range(_ZERO, max(self.high, opposite.high))


def is_of_bins(node: exp.Expr, names: Names) -> bool:
    """Whether an expression is made of numeric attributes by such operations."""
    columns = list(node.find_all(exp.Column))
    return (
        bool(columns)
        and all(isinstance(part, _PARTS) and _is_monotone(part) for part in node.walk())
        and all(map(names.is_known, columns))
        and all(names.level(column) is None for column in columns)
        and all(names.domain.attributes[names.axis(column)].is_numeric for column in columns)
    )


def _is_monotone(part: exp.Expr) -> bool:
    if not isinstance(part, exp.Mul | exp.Div | exp.IntDiv):
        return True
    sides = [side.find(exp.Column) for side in (part.this, part.expression)]
    return sides[1] is None or (isinstance(part, exp.Mul) and sides[0] is None)


@dataclass(frozen=True)
class _Bins:
    """The bins of some attributes together, by their indexes.

    Args:
        ranges: per attribute the range of each bin; None for a non-numeric value.
    """

    axes: tuple[int, ...]
    ranges: Mapping[int, Sequence[_Range | None]]
    names: Names

    @classmethod
    def of(cls, node: exp.Expr, names: Names, regions: Regions) -> _Bins:
        """The ranges of the attributes in an expression."""
        columns = node.find_all(exp.Column, bfs=False)  # in the order of the text
        axes = tuple(dict.fromkeys(map(names.axis, columns)))
        ranges = {axis: _ranges(names.domain.attributes[axis]) for axis in axes}
        regions.take(prod(map(len, ranges.values())) + sum(1 for _ in node.walk()))
        return cls(axes, ranges, names)

    def points(self) -> Iterator[tuple[int, ...]]:
        """All bins together, the last attribute fastest."""
        return product(*(range(len(self.ranges[axis])) for axis in self.axes))

    def table(self, node: exp.Expr) -> Callable[[tuple[int, ...]], _Range | None]:
        """The range of an expression on each point, calculated once for its attributes."""
        column = node.unnest()
        if isinstance(column, exp.Column):
            k = self.axes.index(self.names.axis(column))
            ranges = self.ranges[self.axes[k]]
            return lambda whole: ranges[whole[k]]
        own = {self.names.axis(column) for column in node.find_all(exp.Column)}
        places = [k for k, axis in enumerate(self.axes) if axis in own]
        found = dict[tuple[int, ...], _Range | None]()
        for point in product(*(range(len(self.ranges[self.axes[k]])) for k in places)):
            at = {
                self.axes[k]: self.ranges[self.axes[k]][i]
                for k, i in zip(places, point, strict=True)
            }
            known = {axis: one for axis, one in at.items() if one is not None}
            is_known = len(known) == len(at)
            found[point] = _range_of(node, known, self.names).plain if is_known else None
        return lambda whole: found[tuple(whole[k] for k in places)]

    def no_number(self, point: tuple[int, ...]) -> Beside | None:
        """The value of a bin without a number; None for a missing one."""
        others = [
            axis for axis, i in zip(self.axes, point, strict=True) if self.ranges[axis][i] is None
        ]
        return None if any(map(self.names.null, others)) else Beside(others[0])

    def differs(self, node: exp.Expr, point: tuple[int, ...]) -> SqlError:
        """The refusal of an expression that differs within a bin."""
        attributes = [self.names.domain.attributes[axis] for axis in self.axes]
        texts = [a.value_names[i] for a, i in zip(attributes, point, strict=True)]
        if len(attributes) == 1:
            condition = f"be the same on all of a bin of `{attributes[0].name}`"
            return self.names.source.refuse(condition, node, hint=f"It differs within {texts[0]}.")
        called = " and ".join(f"`{a.name}`" for a in attributes)
        shown = " and ".join(
            f"{quoted(a.name)} = '{text}'" for a, text in zip(attributes, texts, strict=True)
        )
        return self.names.source.refuse(
            f"not cut through bins of {called}", node, hint=f"It differs where {shown}."
        )


def _ranges(attribute: Attribute) -> list[_Range | None]:
    found = list[_Range | None]()
    for low, high in pairwise(attribute.edges):
        # The last whole number of a bin is one below its end.
        is_whole = attribute.kind == "integer"
        last = _End(int(high) - 1) if is_whole else _End(high, -1)
        found.append(_Range(_End(int(low) if is_whole else low), last))
    return [*found, *([None] * attribute.has_other)]


def values_on_bins(node: exp.Expr, names: Names, regions: Regions) -> Derived:
    """The value of such an expression on each bin.

    Raises:
        SqlError: it differs within a bin.
        CapacityError: there are too many bins together.
    """
    return names.remembered("values", node, lambda: _values(node, names, regions))


def _values(node: exp.Expr, names: Names, regions: Regions) -> Derived:
    check_quotients(node, names)
    bins = _Bins.of(node, names, regions)
    of, keys = bins.table(node), list[Fraction | Beside | None]()
    for point in bins.points():
        found = of(point)
        if found is not None and found.only is None:
            raise bins.differs(node, point)
        keys.append(bins.no_number(point) if found is None else found.only)
    return from_keys(bins.axes, keys, names)


def compared_on_bins(node: exp.Expr, names: Names, regions: Regions) -> Derived:
    """The bins where a comparison of such expressions, or BETWEEN, is true, false and unknown.

    Raises:
        SqlError: it differs within a bin.
        CapacityError: there are too many bins together.
    """
    return names.remembered("compared", node, lambda: _compared(node, names, regions))


def _compared(node: exp.Expr, names: Names, regions: Regions) -> Derived:
    check_quotients(node, names)
    bins = _Bins.of(node, names, regions)
    tests = [
        (_TESTS[type(part)], bins.table(part.this), bins.table(part.expression))
        for part in _comparisons(node)
    ]
    keys, cut = list[bool | Beside | None](), list[int]()
    for k, point in enumerate(bins.points()):
        pairs = [(test, left(point), right(point)) for test, left, right in tests]
        found = [test(a, b) for test, a, b in pairs if a is not None and b is not None]
        if len(found) == len(pairs) or False in found:
            keys.append(all(found))
        else:
            keys.append(bins.no_number(point))
        if None in found and False not in found:
            cut.append(k)
    if cut:
        raise _cut(node, bins, [k for k, key in enumerate(keys) if key is True], cut)
    return from_keys(bins.axes, keys, names)


def _comparisons(node: exp.Expr) -> list[exp.Expr]:
    return between(node) if isinstance(node, exp.Between) else [node]


def _cut(node: exp.Expr, bins: _Bins, kept: list[int], cut: list[int]) -> SqlError:
    """The refusal of a comparison that differs within bins, with the nearest that do not."""
    if len(bins.axes) > 1:
        return bins.differs(node, list(bins.points())[cut[0]])
    sides = sorted(
        _comparisons(node)[0].iter_expressions(), key=lambda side: side.find(exp.Column) is not None
    )
    subject = sides[-1].unnest()
    if not isinstance(subject, exp.Column):
        return bins.differs(subject, (cut[0],))
    attribute = bins.names.domain.attributes[bins.axes[0]]
    around = (_between(attribute, sorted(one)) for one in ([*kept, *cut], kept) if one)
    return bins.names.source.refuse(
        bins_text(attribute),
        sides[0] if isinstance(node, exp.EQ) else node,
        hint=f"The nearest that fit: {' and '.join(around)}.",
    )


def _between(attribute: Attribute, bins: Sequence[int]) -> str:
    """BETWEEN for the result on neighbouring bins."""
    name = quoted(attribute.name)
    low, high = attribute.edges[bins[0]], attribute.edges[bins[-1] + 1]
    if attribute.kind == "integer":
        return f"`{name} BETWEEN {low} AND {high - 1}`"
    return f"`{name} >= {decimal_text(low)} AND {name} < {decimal_text(high)}`"


def _holds(of: Callable[[_End, _End], bool], one: _Range, other: _Range) -> bool | None:
    """Whether `<` or `<=` holds everywhere; None if that differs."""
    return True if of(one.high, other.low) else None if of(one.low, other.high) else False


def _same(one: _Range, other: _Range) -> bool | None:
    both = (_holds(operator.le, one, other), _holds(operator.le, other, one))
    return False if False in both else None if None in both else True


_TESTS: dict[type[exp.Expr], Callable[[_Range, _Range], bool | None]] = {
    exp.EQ: _same,
    exp.LT: lambda one, other: _holds(operator.lt, one, other),
    exp.LTE: lambda one, other: _holds(operator.le, one, other),
    exp.GT: lambda one, other: _holds(operator.lt, other, one),
    exp.GTE: lambda one, other: _holds(operator.le, other, one),
}


def _range_of(node: exp.Expr, at: Mapping[int, _Range], names: Names) -> _Range:
    """The range of an expression for attributes in these ranges."""
    node = node.unnest()
    value = constant(node, names.source)
    if value is not None:
        return _Range(_End(value), _End(value))
    if isinstance(node, exp.Column):
        return at[names.axis(node)]
    inner = _range_of(node.this, at, names)
    if isinstance(node, exp.Neg):
        return inner.times(Fraction(-1))
    if isinstance(node, exp.Abs):
        return inner.size()
    if isinstance(node, exp.WidthBucket):
        return inner.each(_bucket(node, names.source))
    if isinstance(node, exp.Binary):
        return _calculated(node, inner, at, names)
    return _rounded(node, inner, names.source)


def _calculated(node: exp.Binary, left: _Range, at: Mapping[int, _Range], names: Names) -> _Range:
    right = _range_of(node.expression, at, names)
    if isinstance(node, exp.Add):
        return left.plus(right)
    if isinstance(node, exp.Sub):
        return left.plus(right.times(Fraction(-1)))
    if isinstance(node, exp.Mul):
        left, right = (right, left) if right.only is None else (left, right)
        return left.times(Fraction(right.low.value))
    if not right.only:
        raise names.source.refuse("not divide by zero", node)
    found = left.times(1 / right.only)
    is_whole = isinstance(node, exp.IntDiv)
    return found.each(lambda end: end.rounded(Fraction(0))) if is_whole else found


def _rounded(node: exp.Expr, inner: _Range, source: SqlText) -> _Range:
    """FLOOR, CEIL, TRUNC towards 0, and ROUND with halves away from 0."""
    said = node.args.get("decimals")
    digits = Fraction(0) if said is None else constant(said, source)
    if digits is None or digits.denominator != 1 or abs(digits) > _MOST_DIGITS:
        raise source.refuse(f"round to a number of digits up to {_MOST_DIGITS}", node)
    scale, minus = Fraction(10) ** int(digits), Fraction(-1)
    more = Fraction(int(isinstance(node, exp.Round)), 2)
    steps: dict[type[exp.Expr], Callable[[_End], _End]] = {
        exp.Floor: _End.floor,
        exp.Ceil: lambda end: end.times(minus).floor().times(minus),
    }
    step = steps.get(type(node), lambda end: end.rounded(more))
    return inner.times(scale).each(step).times(1 / scale)


def _bucket(node: exp.WidthBucket, source: SqlText) -> Callable[[_End], _End]:
    """WIDTH_BUCKET: 0 below, n + 1 from the end on, else the number of the part of n."""
    low, high, n = (
        None if part is None else constant(part, source)
        for part in map(node.args.get, ("min_value", "max_value", "num_buckets"))
    )
    if low is None or high is None or n is None or low >= high or n.denominator != 1 or n < 1:
        raise source.refuse(
            "give WIDTH_BUCKET an attribute, a low end, a higher one and a whole number",
            node,
            hint="Nearest: WIDTH_BUCKET(age, 20, 80, 6).",
        )
    first, factor, last = _End(-low), n / (high - low), n + 1

    def found(end: _End) -> _End:
        part = end.plus(first).times(factor).floor().value + 1
        return _End(min(max(part, Fraction(0)), last))

    return found
