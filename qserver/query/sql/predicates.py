"""Turn conditions of a text of SQL into sets of cells.

A condition is true or false on every cell. The value `other` of a numeric attribute is not a
number: comparisons with numbers are false for it, and so NOT keeps it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TypeGuard

from sqlglot import exp

from qserver.query.domain import Attribute
from qserver.query.sql.attributes import (
    Names,
    Span,
    code_mask,
    constant,
    label_mask,
    matching_mask,
)
from qserver.query.sql.periods.comparing import compared_mask, like_mask
from qserver.query.sql.periods.conditions import between, compared
from qserver.query.sql.periods.derived import derived, is_derived
from qserver.query.sql.periods.last import is_last, last
from qserver.query.sql.regions import ALL, NOTHING, Region, Regions

_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}
_COMPARISONS = tuple(_FLIPPED)
_ONE_ATTRIBUTE = "compare one attribute with numbers or labels"


class Predicates:
    """Conditions on one domain, with a limit on work.

    Args:
        names: the names that the text may use.
        regions: sets of cells of the same domain.
    """

    def __init__(self, names: Names, regions: Regions) -> None:
        self._names = names
        self._source = names.source
        self._domain = names.domain
        self._regions = regions

    def region(self, node: exp.Expr, *, negated: bool = False) -> Region:
        """The cells on which a condition holds or, if `negated`, does not hold.

        Raises:
            SqlError: it is not a condition on this domain, or it cuts through a bin.
            CapacityError: it takes too many boxes or steps.
        """
        node = node.unnest()
        if isinstance(node, exp.Not):
            return self.region(node.this, negated=not negated)
        if isinstance(node, exp.And | exp.Or):
            return self._connected(node, negated=negated)
        if isinstance(node, exp.Boolean):
            return ALL if bool(node.this) != negated else NOTHING
        if isinstance(node, exp.Column):
            return self._boolean(node, exp.true(), negated=negated)
        if isinstance(node, _COMPARISONS):
            return self._comparison(node, negated=negated)
        if isinstance(node, exp.Between | exp.In | exp.Like | exp.ILike):
            return self._range_or_set(node, negated=negated)
        if is_last(node):
            axis, periods = last(node, self._domain, self._source)
            return self._of_mask(axis, _mask(periods), negated=negated)
        if isinstance(node, exp.Is):
            return self._is(node, negated=negated)
        raise self._no_condition(node)

    def _connected(self, node: exp.Connector, *, negated: bool) -> Region:
        parts = [self.region(part, negated=negated) for part in node.flatten()]
        # The complement of a union is the intersection of the complements, and the other way.
        if isinstance(node, exp.Or) != negated:
            return self._regions.either(parts)
        found = ALL
        for part in parts:
            found = self._regions.both(found, part)
        return found

    def _range_or_set(
        self, node: exp.Between | exp.In | exp.Like | exp.ILike, *, negated: bool
    ) -> Region:
        if isinstance(node, exp.Between):
            return self._between(node, negated=negated)
        if isinstance(node, exp.In):
            return self._in(node, negated=negated)
        return self._like(node, negated=negated)

    def _is(self, node: exp.Is, *, negated: bool) -> Region:
        if isinstance(node.expression, exp.Null):
            return self._is_null(node, negated=negated)
        if isinstance(node.expression, exp.Boolean):
            return self._boolean(node.this.unnest(), node.expression, negated=negated)
        raise self._no_condition(node)

    def _boolean(self, subject: exp.Expr, value: exp.Boolean, *, negated: bool) -> Region:
        """`smoker`, `smoker IS FALSE`: labels whose codes are true and false."""
        if not isinstance(subject, exp.Column) or self._names.level(subject) is not None:
            raise self._no_condition(subject)
        axis = self._names.axis(subject)
        attribute = self._domain.attributes[axis]
        index = attribute.index_of_code(bool(value.this))
        if index is None:
            raise self._no_condition(subject)
        return self._of_mask(axis, 1 << index, negated=negated)

    def _comparison(self, node: exp.Expr, *, negated: bool) -> Region:
        left, right = node.this.unnest(), node.expression.unnest()
        kind: type[exp.Expr] = type(node)
        if not self._is_subject(left) and self._is_subject(right):
            left, right, kind = right, left, _FLIPPED[kind]
        if (found := derived(left, self._names)) is not None:
            mask = compared_mask(found, kind, self._constant(right, node), self._names)
            return self._of_mask(found.axis, mask, negated=negated != (kind is exp.NEQ))
        if not isinstance(left, exp.Column):
            return self._of_constants(node, negated=negated)
        axis = self._names.axis(left)
        if self._is_period(axis, right):
            periods = compared(self._domain.attributes[axis], kind, right, self._source)
            return self._of_mask(axis, _mask(periods), negated=negated != (kind is exp.NEQ))
        is_equality = kind in (exp.EQ, exp.NEQ)
        if is_equality:
            mask = self._value_mask(axis, right)
            return self._of_mask(axis, mask, negated=negated != (kind is exp.NEQ))
        number = self._number(axis, right, node)
        spans: dict[type[exp.Expr], Span] = {
            exp.LT: Span(high=number),
            exp.LTE: Span(high=number, high_closed=True),
            exp.GT: Span(low=number, low_closed=False),
            exp.GTE: Span(low=number),
        }
        return self._of_mask(axis, self._span_mask(axis, spans[kind], node), negated=negated)

    def _of_constants(self, node: exp.Expr, *, negated: bool) -> Region:
        left, right = constant(node.this, self._source), constant(node.expression, self._source)
        if left is None or right is None:
            raise self._source.refuse(
                _ONE_ATTRIBUTE, node, hint="Nearest: AND and OR of such comparisons."
            )
        holds: dict[type[exp.Expr], bool] = {
            exp.EQ: left == right,
            exp.NEQ: left != right,
            exp.LT: left < right,
            exp.LTE: left <= right,
            exp.GT: left > right,
            exp.GTE: left >= right,
        }
        return ALL if holds[type(node)] != negated else NOTHING

    def _between(self, node: exp.Between, *, negated: bool) -> Region:
        subject = node.this.unnest()
        if not self._is_subject(subject) or node.args.get("symmetric"):
            raise self._source.refuse(_ONE_ATTRIBUTE, node)
        if (found := derived(subject, self._names)) is not None:
            low_mask = compared_mask(found, exp.GTE, node.args["low"], self._names)
            high_mask = compared_mask(found, exp.LTE, node.args["high"], self._names)
            return self._of_mask(found.axis, low_mask & high_mask, negated=negated)
        axis = self._axis(subject)
        if self._is_period(axis, node.args["low"]):
            attribute, ends = self._domain.attributes[axis], (node.args["low"], node.args["high"])
            return self._of_mask(
                axis, _mask(between(attribute, *ends, self._source)), negated=negated
            )
        low = self._number(axis, node.args["low"], node)
        high = self._number(axis, node.args["high"], node)
        mask = self._span_mask(axis, Span(low, high, high_closed=True), node)
        return self._of_mask(axis, mask, negated=negated)

    def _in(self, node: exp.In, *, negated: bool) -> Region:
        subject, items = node.this.unnest(), node.expressions
        if isinstance(subject, exp.Tuple) and items:
            return self._in_tuples(node, subject.expressions, negated=negated)
        if not self._is_subject(subject) or not items:
            raise self._source.refuse("give IN an attribute and a list of its values", node)
        if (found := derived(subject, self._names)) is not None:
            mask = 0
            for item in items:
                mask |= compared_mask(found, exp.EQ, item, self._names)
            return self._of_mask(found.axis, mask, negated=negated)
        axis = self._axis(subject)
        mask = 0
        for item in items:
            self._regions.take(1, self._domain.sizes[axis])
            mask |= self._value_mask(axis, item.unnest())
        return self._of_mask(axis, mask, negated=negated)

    def _in_tuples(self, node: exp.In, subjects: list[exp.Expr], *, negated: bool) -> Region:
        """(a, b) IN ((1, 2), (3, 4)): each tuple is a box."""
        columns = [subject for subject in subjects if isinstance(subject, exp.Column)]
        if len(columns) < len(subjects):
            raise self._source.refuse("give IN attributes and a list of their values", node)
        axes = [self._names.axis(column) for column in columns]
        boxes = [self._tuple(axes, item, node) for item in node.expressions]
        if not negated:
            return self._regions.either(boxes)
        found = ALL
        for item in node.expressions:
            outside = [
                self._of_mask(axis, self._value_mask(axis, value.unnest()), negated=True)
                for axis, value in zip(axes, item.unnest().expressions, strict=True)
            ]
            found = self._regions.both(found, self._regions.either(outside))
        return found

    def _tuple(self, axes: list[int], item: exp.Expr, whole: exp.Expr) -> Region:
        values = item.unnest().expressions if isinstance(item.unnest(), exp.Tuple) else []
        if len(values) != len(axes):
            raise self._source.refuse(
                f"give IN lists of {len(axes)} values, one for each attribute",
                whole,
                hint="Nearest: (a, b) IN ((1, 2), (3, 4)).",
            )
        found = ALL
        for axis, value in zip(axes, values, strict=True):
            here = self._of_mask(axis, self._value_mask(axis, value.unnest()), negated=False)
            found = self._regions.both(found, here)
        return found

    def _like(self, node: exp.Like | exp.ILike, *, negated: bool) -> Region:
        """The labels that a pattern fits: they are public, so it is IN with these."""
        subject, pattern = node.this.unnest(), node.expression.unnest()
        is_text = isinstance(pattern, exp.Literal) and pattern.is_string
        if not self._is_subject(subject) or not is_text:
            raise self._source.refuse(
                "give LIKE an attribute and a text",
                node,
                hint="Nearest: name LIKE 'A%', where % is any text and _ one character.",
            )
        folds = isinstance(node, exp.ILike)
        if (found := derived(subject, self._names)) is not None:
            self._regions.take(len(found.masks) * (1 + len(pattern.this) // 8))
            mask = like_mask(found, pattern, self._names, folds=folds)
            return self._of_mask(found.axis, mask, negated=negated != bool(node.args.get("negate")))
        axis = self._axis(subject)
        attribute = self._domain.attributes[axis]
        self._regions.take(attribute.size * (1 + len(pattern.this) // 8))
        mask = matching_mask(attribute, pattern, self._source, folds=folds)
        return self._of_mask(axis, mask, negated=negated != bool(node.args.get("negate")))

    def _is_null(self, node: exp.Is, *, negated: bool) -> Region:
        """The value that stands for a missing one, where the attribute has such a value."""
        subject = node.this.unnest()
        if not isinstance(subject, exp.Column):
            raise self._source.refuse(_ONE_ATTRIBUTE, node)
        axis = self._names.axis(subject)
        attribute = self._domain.attributes[axis]
        if attribute.missing != "other":
            raise self._source.refuse(
                f"not ask `{attribute.name}` for NULL: records without a value were dropped", node
            )
        return self._of_mask(axis, 1 << attribute.n_regular, negated=negated)

    def _value_mask(self, axis: int, node: exp.Expr) -> int:
        """The mask of one value of an attribute: a label, the name of a bin, or a number."""
        attribute = self._domain.attributes[axis]
        if self._is_period(axis, node):
            return _mask(compared(attribute, exp.EQ, node, self._source))
        if isinstance(node, exp.Literal) and node.is_string:
            return label_mask(attribute, node, self._source)
        if attribute.kind == "labels" and (mask := code_mask(attribute, node, self._source)):
            return mask
        number = self._number(axis, node, node)
        return self._span_mask(axis, Span(number, number, high_closed=True), node)

    def _number(self, axis: int, node: exp.Expr, whole: exp.Expr) -> Fraction:
        """The number that a numeric attribute is compared with."""
        attribute = self._domain.attributes[axis]
        if isinstance(node, exp.Null):
            raise self._no_null(node)
        if isinstance(node, exp.Column):
            self._names.axis(node)  # raises if it names no attribute
            raise self._source.refuse(
                _ONE_ATTRIBUTE, whole, hint="Nearest: name the values that it may have."
            )
        if attribute.kind == "labels":
            shown = ", ".join(f"'{label[:40]}'" for label in attribute.value_names[:3])
            raise self._source.refuse(
                f"compare `{attribute.name}`, which has labels, by =, <> or IN with texts",
                whole,
                hint=f"Its labels are such as {shown}.",
            )
        number = constant(node, self._source)
        if number is None:
            raise self._source.refuse(f"compare `{attribute.name}` with numbers", node)
        return number

    def _span_mask(self, axis: int, span: Span, node: exp.Expr) -> int:
        """The mask of the bins that hold exactly these values."""
        attribute = self._domain.attributes[axis]
        bins = span.bins(attribute)
        if bins is None:
            raise self._cut(attribute, span, node)
        return _mask(bins)

    def _is_subject(self, node: exp.Expr) -> TypeGuard[exp.Expr]:
        """Whether an expression is what a condition is about: an attribute, or what follows."""
        return isinstance(node, exp.Column) or is_derived(node, self._names)

    def _axis(self, subject: exp.Expr) -> int:
        if not isinstance(subject, exp.Column):
            raise self._source.refuse(_ONE_ATTRIBUTE, subject)
        return self._names.axis(subject)

    def _constant(self, value: exp.Expr, whole: exp.Expr) -> exp.Expr:
        if isinstance(value, exp.Null):
            raise self._no_null(value)
        if self._is_subject(value):
            raise self._source.refuse(_ONE_ATTRIBUTE, whole)
        return value

    def _is_period(self, axis: int, value: exp.Expr) -> bool:
        """Whether a value is compared with times; NULL and columns are refused elsewhere."""
        is_period = self._domain.attributes[axis].is_timed
        return is_period and not isinstance(value.unnest(), exp.Null | exp.Column)

    def _cut(self, attribute: Attribute, span: Span, node: exp.Expr) -> Exception:
        nearest = " and ".join(f"`{text}`" for text in span.nearest(attribute))
        return self._source.refuse(
            f"not cut through a bin of `{attribute.name}`",
            node,
            hint=f"The nearest that fit: {nearest}.",
        )

    def _of_mask(self, axis: int, mask: int, *, negated: bool) -> Region:
        size = self._domain.sizes[axis]
        self._regions.take(1, size)
        return self._regions.of_mask(axis, mask ^ ((1 << size) - 1) if negated else mask)

    def _no_condition(self, node: exp.Expr) -> Exception:
        if isinstance(node, exp.Is):
            return self._no_null(node)
        if isinstance(node, exp.AggFunc):
            return self._source.refuse(
                "have no aggregate in a condition: which records count must be public", node
            )
        return self._source.refuse(f"have conditions that {_ONE_ATTRIBUTE}", node)

    def _no_null(self, node: exp.Expr) -> Exception:
        return self._source.refuse(
            "not ask for NULL: what was missing was dropped, or is a value of its own",
            node,
            hint="`qserver dataset show` names that value.",
        )


def _mask(indexes: range) -> int:
    return ((1 << len(indexes)) - 1) << indexes.start
