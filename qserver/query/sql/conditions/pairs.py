"""Comparisons of two numeric attributes, such as `a > b` and `a + 2 * b <= 60`, bin by bin.

What is compared is a sum of both, times numbers. On a pair of bins it lies between two ends, and
the comparison must be the same from one to the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from qserver.errors import SqlError
from qserver.query.domain import Attribute
from qserver.query.sql.attributes import Names, constant, quoted
from qserver.query.sql.conditions.truth import Truth
from qserver.query.sql.regions import Region, Regions


@dataclass(frozen=True)
class Line:
    """A sum of attributes, each times a factor, and a number; by their axes."""

    factors: dict[int, Fraction]
    number: Fraction = Fraction(0)

    def plus(self, other: Line, factor: Fraction) -> Line:
        """This one and so many times another."""
        found = dict(self.factors)
        for axis, own in other.factors.items():
            found[axis] = found.get(axis, Fraction(0)) + factor * own
        return Line(found, self.number + factor * other.number)


def difference(node: exp.Expr, names: Names) -> Line | None:
    """The left side of a comparison less the right one; None where it is not of two attributes."""
    columns = list(node.find_all(exp.Column))
    if not columns or not all(map(names.is_known, columns)):
        return None
    if any(names.level(column) is not None for column in columns):
        return None
    axes = {names.axis(column) for column in columns}
    if len(axes) != 2 or not all(names.domain.attributes[axis].is_numeric for axis in axes):
        return None
    left, right = (_line(side, names) for side in (node.this, node.expression))
    return None if left is None or right is None else left.plus(right, Fraction(-1))


def _line(node: exp.Expr, names: Names) -> Line | None:
    node = node.unnest()
    number = constant(node, names.source)
    if number is not None:
        return Line({}, number)
    if isinstance(node, exp.Column):
        return Line({names.axis(node): Fraction(1)})
    if isinstance(node, exp.Neg):
        inner = _line(node.this, names)
        return None if inner is None else Line({}).plus(inner, Fraction(-1))
    if not isinstance(node, exp.Add | exp.Sub | exp.Mul):
        return None
    left, right = _line(node.this, names), _line(node.expression, names)
    if left is None or right is None:
        return None
    if isinstance(node, exp.Mul):
        if left.factors and right.factors:
            return None
        line, factor = (left, right.number) if left.factors else (right, left.number)
        return Line({}).plus(line, factor)
    return left.plus(right, Fraction(-1 if isinstance(node, exp.Sub) else 1))


@dataclass(frozen=True)
class _End:
    """An end of what a sum can be; `is_open` if it is never reached."""

    value: Fraction
    is_open: bool = False

    def plus(self, other: _End) -> _End:
        return _End(self.value + other.value, self.is_open or other.is_open)


def of_pairs(node: exp.Expr, line: Line, asked: Truth, names: Names, regions: Regions) -> Region:
    """The cells on which a comparison of a sum with 0 has what is asked for.

    A missing value makes it unknown; one that is no number makes it false.

    Raises:
        SqlError: it differs within a pair of bins.
        CapacityError: there are too many pairs.
    """
    first, second = line.factors
    one, other = (names.domain.attributes[axis] for axis in (first, second))
    regions.take(one.size * other.size)
    spans, others = _spans(one, line.factors[first]), _spans(other, line.factors[second])
    everything, null = (1 << other.size) - 1, names.null(second)
    by_mask = dict[int, int]()
    for i in range(one.size):
        true, unknown = 0, null
        if i < len(spans):
            low, high = (end.plus(_End(line.number)) for end in spans[i])
            for j, (least, most) in enumerate(others):
                found = _holds(node, low.plus(least), high.plus(most))
                if found is None:
                    raise _cut(node, (one, i), (other, j), names)
                true |= found << j
        elif names.null(first):
            unknown = everything
        kept = asked.mask(true, unknown, everything)
        by_mask[kept] = by_mask.get(kept, 0) | 1 << i
    return tuple({first: mask, second: kept} for kept, mask in by_mask.items() if kept)


def _spans(attribute: Attribute, factor: Fraction) -> list[tuple[_End, _End]]:
    """Per bin the least and the greatest of its values times a factor."""
    found = list[tuple[_End, _End]]()
    is_whole = attribute.kind == "integer"
    for low, high in zip(attribute.edges, attribute.edges[1:], strict=False):
        # The last whole number of a bin is one below its end.
        last = _End((high - 1) * factor) if is_whole else _End(high * factor, is_open=factor != 0)
        ends = (_End(low * factor), last)
        found.append(ends if factor >= 0 else ends[::-1])
    return found


def _holds(node: exp.Expr, low: _End, high: _End) -> bool | None:
    """Whether what lies from `low` to `high` compares so with 0; None where it differs."""
    is_above = low.value > 0 or (low.value == 0 and low.is_open)
    is_below = high.value < 0 or (high.value == 0 and high.is_open)
    if isinstance(node, exp.EQ | exp.NEQ):
        is_zero = low.value == high.value == 0
        return is_zero if is_zero or is_above or is_below else None
    never_above, never_below = high.value <= 0, low.value >= 0
    pairs: dict[type[exp.Expr], tuple[bool, bool]] = {
        exp.LT: (is_below, never_below),
        exp.LTE: (never_above, is_above),
        exp.GT: (is_above, never_above),
        exp.GTE: (never_below, is_below),
    }
    always, never = pairs[type(node)]
    return always if always or never else None


def _cut(
    node: exp.Expr, one: tuple[Attribute, int], other: tuple[Attribute, int], names: Names
) -> SqlError:
    shown = " and ".join(f"{quoted(a.name)} = '{a.value_names[i]}'" for a, i in (one, other))
    return names.source.refuse(
        f"not cut through bins of `{one[0].name}` and `{other[0].name}`",
        node,
        hint=f"It differs where {shown}.",
    )
